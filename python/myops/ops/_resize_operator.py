"""The operator Resize (Upsample in opset 9) for a call of resize, with its lists and factors."""

from __future__ import annotations

from typing import Any

import numpy as np

from myops.onnx import arrays
from myops.onnx.arrays import Array, concat, constant, where
from myops.ops._resize_axes import axes_of, copies_unchanged, listed_axes
from myops.ops._resize_taps import from_real, to_real


def every(array: Array, holds: Any) -> bool:
    return array.value is not None and bool(np.all(holds(array.value)))


def antialiases(g: Any) -> bool:
    """Whether antialiasing makes a difference: "linear" without shrinking is what it always is."""
    if not g.attribute("antialias"):
        return False
    if g.attribute("mode") != "linear" or g.shape("X") is None or has_torch_windows(g):
        return True
    axes = axes_of(g, list(range(len(listed_axes(g)))))
    if axes.scale is not None:
        return not every(axes.scale, lambda scale: scale >= 1)
    return not every(axes.output < axes.input, lambda shrinks: ~shrinks)


def has_torch_windows(g: Any) -> bool:
    """Whether torch's windows with align_corners differ from the operator's."""
    kind = g.attribute("coordinate_transformation_mode")
    return bool(g.attribute("torch_arithmetic") and kind == "align_corners")


def is_plain(scale: np.ndarray) -> np.ndarray:
    """Few enough digits that every product with a length is exact, in float32 too; and far enough
    from 1 that no length of 2 or more stays what it is."""
    digits = np.round(np.frexp(scale)[0] * 256) == np.frexp(scale)[0] * 256
    return digits & ((scale <= 1) | (scale >= 1.5))


def factors_of(g: Any) -> Array:
    """The float32 scales that make the operator give the kernel's output lengths.

    ONNX Runtime takes floor(float32(length * factor)), torch the same in float64. Where they
    differ, the factor is moved by two or three of its last digits.
    """
    axes = axes_of(g, list(range(len(listed_axes(g)))))
    torch = g.attribute("torch_arithmetic")
    if axes.scale is None:
        factor = axes.output.cast(np.float32) / axes.input.cast(np.float32)
    else:
        factor = axes.scale.cast(np.float32)
        if not torch or every(axes.scale, is_plain):
            return factor
    got = (axes.input.cast(np.float32) * factor).floor().cast(np.int64)
    factor = where(
        got < axes.output,
        factor * np.float32(1 + 2.0**-22),
        where(got > axes.output, factor * np.float32(1 - 2.0**-22), factor),
    )
    if axes.scale is not None and copies_unchanged(g):
        factor = where(axes.output.equals(axes.input), constant(g, [1], np.float32), factor)
    return factor


def resize_by_operator(g: Any) -> str:
    """Emits the operator; returns the name of its output."""
    dtype, mode = g.dtype("X"), g.attribute("mode")
    direct = mode == "nearest" and dtype.name in ("uint8", "float32", "float16")
    real = dtype if direct or dtype == np.float16 else np.dtype(np.float32)
    x = to_real(g, g.input("X"), dtype, real)
    if g.opset < 11:
        operator = "Resize" if g.opset == 10 else "Upsample"
        y = g.op(operator, x, _full(g, factors_of(g), [1.0]).name, mode=mode)
        return from_real(g, y, dtype, real)
    kind = g.attribute("coordinate_transformation_mode")
    axes = listed_axes(g) if g.attribute("axes") else []
    if g.opset < 18:
        axes = []
    if g.opset < 19 and kind == "half_pixel_symmetric":
        kind = "half_pixel"  # the same when sizes are given
    crops, antialias = kind == "tf_crop_and_resize", antialiases(g)
    outside = g.attribute("extrapolation_value")
    if real == np.uint8:
        outside = float(np.clip(np.rint(outside), 0, 255))
    policy = g.attribute("keep_aspect_ratio_policy")
    y = g.op(
        "Resize",
        x,
        *_lists(g, crops, expand=not axes and bool(g.attribute("axes"))),
        antialias=1 if antialias else None,
        axes=axes,
        coordinate_transformation_mode=kind,
        cubic_coeff_a=g.attribute("cubic_coeff_a") if mode == "cubic" else None,
        exclude_outside=int(g.attribute("exclude_outside"))
        if mode == "cubic" or antialias
        else None,
        extrapolation_value=outside if crops else None,
        keep_aspect_ratio_policy=policy if g.input("sizes") and policy != "stretch" else None,
        mode=mode,
        nearest_mode=g.attribute("nearest_mode") if mode == "nearest" else None,
    )
    return from_real(g, y, dtype, real)


def _lists(g: Any, crops: bool, expand: bool) -> tuple[str, str, str]:
    """The inputs roi, scales and sizes of the operator."""
    nothing = "" if g.opset >= 13 else g.constant(np.array([], np.float32))
    roi, scales, sizes = nothing, nothing, ""
    if crops:
        bounds = arrays.numbers(g, "roi", np.float32)
        if expand:
            count = len(listed_axes(g))
            starts = _full(g, bounds.take(list(range(count))), [0.0])
            ends = _full(g, bounds.take(list(range(count, 2 * count))), [1.0])
            bounds = concat([starts, ends])
        roi = bounds.name
    if g.input("scales"):
        rank_known = g.shape("X") is not None or g.attribute("axes")
        factors = factors_of(g) if rank_known else arrays.numbers(g, "scales", np.float32)
        scales = (_full(g, factors, [1.0]) if expand else factors).name
    else:
        lengths = arrays.numbers(g, "sizes", np.int64)
        sizes = (_full(g, lengths, None) if expand else lengths).name
    return roi, scales, sizes


def _full(g: Any, listed: Array, default: list[float] | None) -> Array:
    """A list for all axes from one for the listed axes; without a default, the lengths of X."""
    axes, rank = listed_axes(g), len(g.shape("X"))
    if axes == list(range(rank)):
        return listed
    others = [axis for axis in range(rank) if axis not in axes]
    if default is None:
        rest = arrays.shape(g, "X", others)
    else:
        rest = constant(g, default * len(others), listed.dtype)
    order = [(axes + others).index(axis) for axis in range(rank)]
    joined = concat([listed, rest])
    if order == sorted(order):
        return joined
    pieces = [rest, listed] if others + axes == sorted(axes + others) else None
    return concat(pieces) if pieces else joined.take(order)
