"""Plots and pictures of a report, as PNG."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from typing import Any

import numpy as np

from myops._text import printable
from myops.onnx.comparison.result import Value

COLOURS = {"ok": "#2a7f4f", "order": "#b8860b", "absorbed": "#b8860b", "fail": "#c0392b"}
_LEAST, _MOST = 4, 512  # pixels a side that make a picture
_FLOOR = 1e-12  # errors of 0 have to stand somewhere on a logarithmic axis


def as_uri(png: bytes) -> str:
    return "data:image/png;base64," + base64.b64encode(png).decode()


def depth_plot(report: Any) -> bytes:
    """The error of each value against its place in the network."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.4), dpi=110, layout="constrained")
    axes = figure.subplots()
    values = list(report.values)
    for status, colour in COLOURS.items():
        chosen = [(place, v) for place, v in enumerate(values) if v.status == status]
        if chosen:
            places = [place for place, _ in chosen]
            errors = [_error(value) for _, value in chosen]
            axes.scatter(places, errors, s=16, color=colour, label=status, zorder=3)
    axes.plot([_error(value) for value in values], color="#999999", linewidth=0.8, zorder=2)
    if report.blame is not None:
        first = next((p for p, v in enumerate(values) if v.name == report.blame.value), None)
        if first is not None:
            axes.axvline(first, color=COLOURS["fail"], linestyle="--", linewidth=1)
            near_end = first > len(values) * 0.7
            axes.annotate(
                printable(report.blame.path or "the model"),
                (first, 1.0),
                xycoords=("data", "axes fraction"),
                xytext=(-4 if near_end else 4, -12),
                textcoords="offset points",
                ha="right" if near_end else "left",
                color=COLOURS["fail"],
                fontsize=9,
                parse_math=False,
            )
    axes.set_yscale("log")
    axes.set_ylim(top=axes.get_ylim()[1] * 20)  # room for the name
    axes.set_xlabel("values in the order of the graph")
    axes.set_ylabel("RMS of error / RMS of value")
    axes.grid(True, axis="y", linewidth=0.3)
    if values:
        axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), fontsize=8, frameon=False)
    return _png(figure)


def _error(value: Value) -> float:
    if value.difference is None:
        return 1.0
    return float(np.clip(value.difference.relative_rms, _FLOOR, 1e6))


def chosen(report: Any, most: int = 8) -> list[Value]:
    """Values worth a picture: where it starts, what came before, the outputs of the model."""
    usable = [v for v in report.values if planes(v) is not None]
    first: list[Value] = []
    if report.blame is not None:
        names = [*report.blame.inputs, report.blame.value]
        first = [v for name in names for v in usable if v.name == name]
        at = next((v.depth for v in usable if v.name == report.blame.value), 0)
        first += [v for v in usable if v.depth > at and v.status == "fail"][:2]
    ends = [v for v in usable if not v.path]
    spread = usable[:: max(1, len(usable) // 4)] if report.blame is None else []
    unique: dict[str, Value] = {}
    for value in [*first, *ends, *spread]:
        unique.setdefault(value.name, value)
    return list(unique.values())[:most]


def planes(value: Value) -> tuple[np.ndarray, np.ndarray, str] | None:
    """Both sides as an image, (H, W) or (H, W, 3); None when the value is none."""
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


def pictures(value: Value, sides: tuple[str, str] = ("PyTorch", "ONNX Runtime")) -> bytes:
    """The value of both sides and the size of the difference, beside each other."""
    from matplotlib.figure import Figure

    found = planes(value)
    if found is None:
        raise ValueError(f"{value.name}: got shape {value.shape}, expected an image")
    expected, got, words = found
    step = max(1, max(expected.shape[:2]) // _MOST)
    expected, got = expected[::step, ::step], got[::step, ::step]
    gap = np.abs(got - expected)
    gap = gap.max(axis=-1) if gap.ndim == 3 else gap
    figure = Figure(figsize=(9, 2.9), dpi=110, layout="constrained")
    axes: Any = figure.subplots(1, 3)
    low, high = _range([expected])
    if expected.ndim == 3:
        scaled = [np.clip((a - low) / (high - low), 0, 1) for a in (expected, got)]
        drawn = [axes[i].imshow(np.nan_to_num(scaled[i])) for i in (0, 1)]
    else:
        style = {"cmap": "gray", "vmin": low, "vmax": high, "interpolation": "nearest"}
        drawn = [axes[0].imshow(expected, **style), axes[1].imshow(got, **style)]
        figure.colorbar(drawn[1], ax=axes[1], shrink=0.8)
    top = float(np.nanmax(np.where(np.isfinite(gap), gap, 0))) or 1e-30
    shown = axes[2].imshow(gap, cmap="inferno", vmin=0, vmax=top, interpolation="nearest")
    figure.colorbar(shown, ax=axes[2], shrink=0.8, format="%.1e")
    for axis, title in zip(axes, (*sides, "difference"), strict=True):
        axis.set_title(title if title == "difference" or not words else f"{title}, {words}")
        axis.title.set_fontsize(9)
        axis.set_axis_off()
    return _png(figure)


def _range(arrays: Sequence[np.ndarray]) -> tuple[float, float]:
    numbers = np.concatenate([array[np.isfinite(array)].ravel() for array in arrays])
    if not numbers.size:
        return 0.0, 1.0
    low, high = float(numbers.min()), float(numbers.max())
    return (low, high) if high > low else (low - 0.5, high + 0.5)


def _png(figure: Any) -> bytes:
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    buffer = io.BytesIO()
    FigureCanvasAgg(figure).print_png(buffer)
    return buffer.getvalue()
