"""Values that are images, as PNG: PyTorch's, ONNX Runtime's, and the difference."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from myops._extras import require

if TYPE_CHECKING:
    from myops.onnx.comparison.result import Value

_LEAST, _MOST = 4, 512  # pixels per side of a picture
COLOURS = "inferno"  # of the difference: matplotlib's name


@dataclass
class Picture:
    """One image, and the values of its darkest and brightest colour."""

    title: str
    uri: str
    low: float
    high: float
    colours: str  # "grey", "inferno" or "rgb"


def chosen(report: Any, most: int = 8) -> list[Value]:
    """Values that are shown as pictures: the first that differs, those before it, the outputs."""
    usable = [v for v in report.values if planes(v) is not None]
    first: list[Value] = []
    if report.first_mismatch is not None:
        names = [*report.first_mismatch.inputs, report.first_mismatch.value]
        first = [v for name in names for v in usable if v.name == name]
        at = next((v.depth for v in usable if v.name == report.first_mismatch.value), 0)
        first += [v for v in usable if v.depth > at and v.status == "fail"][:2]
    ends = [v for v in usable if not v.path]
    spread = usable[:: max(1, len(usable) // 4)] if report.first_mismatch is None else []
    unique: dict[str, Value] = {}
    for value in [*first, *ends, *spread]:
        unique.setdefault(value.name, value)
    return list(unique.values())[:most]


def planes(value: Value) -> tuple[np.ndarray, np.ndarray, str] | None:
    """Both sides as images, (H, W) or (H, W, 3); None if the value is no image."""
    if value.expected.shape != value.got.shape or value.expected.dtype.kind not in "fiu":
        return None
    pair = [np.asarray(array, np.float32) for array in (value.expected, value.got)]
    shape = pair[0].shape
    if len(shape) not in (2, 3, 4):
        return None
    worst = value.difference.worst if value.difference is not None else ()
    at = worst if len(worst) == len(shape) else (0,) * len(shape)
    if len(shape) == 4:
        pair, words = [array[at[0]] for array in pair], f"image {at[0]}"
    else:
        words = ""
    height, width = shape[-2:]
    if not all(_LEAST <= side <= 4096 for side in (height, width)):
        return None
    if len(shape) == 2 and min(height, width) < 2 * _LEAST:
        return None  # rows of numbers rather than a picture
    if len(shape) >= 3 and shape[-3] == 3:
        pair = [np.moveaxis(array, 0, -1) for array in pair]
    elif len(shape) >= 3:
        pair, words = [array[at[-3]] for array in pair], f"{words} channel {at[-3]}".strip()
    return pair[0], pair[1], words


def pictures(value: Value, sides: tuple[str, str] = ("PyTorch", "ONNX Runtime")) -> list[Picture]:
    """The value of both sides, and the size of the difference.

    Raises:
        ValueError: The value is no image.
    """
    found = planes(value)
    if found is None:
        raise ValueError(f"{value.name}: got shape {value.shape}, expected an image")
    expected, got, words = found
    step = max(1, max(expected.shape[:2]) // _MOST)
    expected, got = expected[::step, ::step], got[::step, ::step]
    with np.errstate(invalid="ignore"):  # infinity minus infinity
        gap = np.abs(got - expected)
    gap = gap.max(axis=-1) if gap.ndim == 3 else gap
    low, high = _range([expected])
    top = float(np.max(np.where(np.isfinite(gap), gap, 0))) or 1e-30
    colours = "rgb" if expected.ndim == 3 else "grey"
    made = [
        Picture(f"{side}, {words}" if words else side, _png(array, low, high, colours),
                low, high, colours)
        for side, array in zip(sides, (expected, got), strict=True)
    ]  # fmt: skip
    return [*made, Picture("difference", _png(gap, 0, top, COLOURS), 0, top, COLOURS)]


def scale() -> str:
    """The colours of the difference from left to right."""
    return _png(np.linspace(0, 1, 128, dtype=np.float32)[None], 0, 1, COLOURS)


def _range(arrays: Sequence[np.ndarray]) -> tuple[float, float]:
    numbers = np.concatenate([array[np.isfinite(array)].ravel() for array in arrays])
    if not numbers.size:
        return 0.0, 1.0
    low, high = float(numbers.min()), float(numbers.max())
    return (low, high) if high > low else (low - 0.5, high + 0.5)


def _png(array: np.ndarray, low: float, high: float, colours: str) -> str:
    """An image as a data URI: one pixel for each element; NaN is dark."""
    image = require("matplotlib.image", "an HTML page with images")
    buffer = io.BytesIO()
    array = np.nan_to_num(array, nan=low, posinf=high, neginf=low)
    settings: Any = {"cmap": "gray" if colours == "grey" else colours, "vmin": low, "vmax": high}
    if colours == "rgb":
        array, settings = np.clip((array - low) / (high - low), 0, 1), {}
    image.imsave(buffer, array, format="png", **settings)
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()
