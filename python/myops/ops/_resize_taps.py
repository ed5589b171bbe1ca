"""Resize without the operator Resize: elements by Gather, weighted sums by Mul, Add and MatMul.

The formulas are those of csrc/ops/resize/plan/, in the same precision.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from myops.onnx import arrays
from myops.onnx.arrays import Array, constant, where
from myops.ops._resize_axes import (
    Map,
    ResizedAxes,
    axes_of,
    copies_unchanged,
    listed_axes,
    nearest_index,
    small_picture,
)


def resize_by_taps(g: Any) -> str:
    """Emits the whole resize of X; returns the output's name.

    Nearest moves elements of any dtype as they are. Linear and cubic compute in float64 for
    float64 data, else in float32, and round once at the end.
    """
    dtype = g.dtype("X")
    real = np.float64 if dtype == np.float64 else np.float32
    nearest = g.attribute("mode") == "nearest"
    # ONNX Runtime moves no bfloat16; float32 holds it exactly.
    moved = np.dtype(real) if not nearest or dtype.name == "bfloat16" else dtype
    y = to_real(g, g.input("X"), dtype, moved)
    rank, listed = len(g.shape("X")), listed_axes(g)
    outside: list[tuple[int, Array]] = []
    for place in sorted(range(len(listed)), key=lambda p: listed[p], reverse=True):
        axis, number = axes_of(g, [place]), listed[place]
        if _is_identity(g, axis):
            continue
        roi = None
        last = axis.input - 1
        if g.attribute("coordinate_transformation_mode") == "tf_crop_and_resize":
            roi = arrays.numbers(g, "roi", real).take([place, place + len(listed)])
        elif g.attribute("mode") == "area":
            y = _multiplied(g, y, number, rank, _area_weights(g, axis, real))
            continue
        elif axis.scale is not None and copies_unchanged(g):
            same = axis.output.equals(axis.input)
            axis.scale = where(same, constant(g, [1.0], np.float64), axis.scale)
        x = Map(g, axis, roi, real, g.attribute("torch_arithmetic"))
        coordinates = x(arrays.arange(axis.output).cast(real))
        if nearest:
            small = small_picture(g, number)
            index = nearest_index(g, axis, real, small, roi).at_least(0).at_most(last)
            y = g.op("Gather", y, index.name, axis=number)
        elif g.attribute("antialias"):
            y = _filtered(g, y, number, rank, _windows(g, axis, x, coordinates))
        else:
            y = _weighted(g, y, number, rank, _taps(g, coordinates, last, real))
        if roi is not None:
            outside.append((number, (coordinates < 0).either(coordinates > last.cast(real))))
    for number, mask in outside:
        value = _element(g.attribute("extrapolation_value"), moved)
        y = g.op("Where", mask.reshape(_column(rank, number)).name, g.constant(value), y)
    return from_real(g, y, dtype, moved)


def _is_identity(g: Any, axis: ResizedAxes) -> bool:
    """Whether the axis is certainly copied."""
    if g.attribute("coordinate_transformation_mode") == "tf_crop_and_resize":
        return False
    if axis.scale is not None:
        return axis.scale.value is not None and bool((axis.scale.value == 1).all())
    same = axis.output.equals(axis.input)
    return same.value is not None and bool(same.value.all())


def _column(rank: int, axis: int) -> list[int]:
    """The shape that lays a list along an axis."""
    return [-1] + [1] * (rank - 1 - axis)


def _cubic_near(x: Array, a: Any) -> Array:
    return ((a + 2) * x - (a + 3)) * x * x + 1


def _cubic_far(x: Array, a: Any) -> Array:
    return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a


def _taps(g: Any, x: Array, last: Array, real: Any) -> list[tuple[Array, Array]]:
    """(index, weight) pairs whose weighted sum is the output at coordinate x."""
    if g.attribute("mode") == "linear":
        inside = x.at_least(0).at_most(last.cast(real))
        left = inside.floor()
        # On the last element both taps are that element; 1 and 0 would make NaN of infinity.
        right_weight = where(left < last.cast(real), inside - left, constant(g, [0.5], real))
        place = left.cast(np.int64)
        return [(place, 1 - right_weight), ((place + 1).at_most(last), right_weight)]
    left = x.floor().at_most(last.cast(real))
    t = (x - left).at_least(0).at_most(1)
    a = real(g.attribute("cubic_coeff_a"))
    weights = [_cubic_far(t + 1, a), _cubic_near(t, a), _cubic_near(1 - t, a), _cubic_far(2 - t, a)]
    places = [left.cast(np.int64) + (k - 1) for k in range(4)]
    if g.attribute("exclude_outside"):
        weights = [
            where((p < 0).either(p > last), w * 0, w) for p, w in zip(places, weights, strict=True)
        ]
        total = weights[0] + weights[1] + weights[2] + weights[3]
        total = where((total < 0).either(total > 0), total, constant(g, [1], real))
        weights = [w / total for w in weights]
    return [(p.at_least(0).at_most(last), w) for p, w in zip(places, weights, strict=True)]


def _weighted(g: Any, y: str, axis: int, rank: int, taps: list[tuple[Array, Array]]) -> str:
    total = ""
    for index, weight in taps:
        column = weight.reshape(_column(rank, axis))
        term = g.op("Mul", g.op("Gather", y, index.name, axis=axis), column.name)
        total = g.op("Add", total, term) if total else term
    return total


def _windows(g: Any, axis: ResizedAxes, x: Map, coordinates: Array) -> tuple[Array, Array]:
    """Antialiasing: the weights [output, element] and the index of each of these elements.

    The filter is stretched by 1 / scale where that makes it wider. What falls outside is left
    out, or given to the edge; either way the weights of an output add up to 1.
    """
    torch, linear = g.attribute("torch_arithmetic"), g.attribute("mode") == "linear"
    steps = g.attribute("coordinate_transformation_mode") in ("half_pixel", "align_corners")
    index = arrays.arange(axis.output).cast(np.float64)
    center = coordinates + 0.5
    if torch and steps:
        center = (x.step.cast(np.float64) * (index + 0.5)).cast(x.real)
    stretch = (x.step if torch else 1 / x.scale).at_least(1)
    reach = stretch * (1 if linear else 2)
    begin = (center - reach).cast(np.float64) + 0.5
    pad = constant(g, [0], np.int64)
    if not g.attribute("exclude_outside"):
        pad = (reach + 2).floor().cast(np.int64)
    element = arrays.arange(axis.input + pad * 2) - pad
    places = element.at_least(0).at_most(axis.input - 1)
    offset = element.cast(np.float64).reshape([1, -1]) - center.cast(np.float64).reshape([-1, 1])
    distance = ((offset + 0.5) * (1 / stretch).cast(np.float64)).cast(x.real).absolute()
    if linear:
        weights = (1 - distance).at_least(0)
    else:
        a = x.real(g.attribute("cubic_coeff_a"))
        far = where(distance < 2, _cubic_far(distance, a), constant(g, [0], x.real))
        weights = where(distance < 1, _cubic_near(distance, a), far)
    total = weights.sum_rows()
    # Rounding can push the last window just outside: then the edge is taken.
    edge = begin.floor().cast(np.int64).at_least(0).at_most(axis.input - 1).reshape([-1, 1])
    alone = where(element.reshape([1, -1]).equals(edge), constant(g, [1], x.real), 0)
    some = (total < 0).either(total > 0)
    return where(some, weights / where(some, total, constant(g, [1], x.real)), alone), places


def _area_weights(g: Any, axis: ResizedAxes, real: Any) -> Array:
    """[output, element]: output o of R averages the elements e of L whose part [e, e + 1) * R of
    L * R meets [o, o + 1) * L."""
    element, output = arrays.arange(axis.input), arrays.arange(axis.output)
    begin = (element * axis.output).reshape([1, -1])
    first = (output * axis.input).reshape([-1, 1])
    outside = (begin + axis.output < first + 1).either(first + axis.input < begin + 1)
    inside = where(outside, constant(g, [0], real), 1)
    return inside / inside.sum_rows()


def _filtered(g: Any, y: str, axis: int, rank: int, windows: tuple[Array, Array]) -> str:
    """The weights of `_windows` times the elements that they are for."""
    weights, places = windows
    if not g.attribute("exclude_outside"):
        y = g.op("Gather", y, places.name, axis=axis)
    return _multiplied(g, y, axis, rank, weights)


def _multiplied(g: Any, y: str, axis: int, rank: int, weights: Array) -> str:
    """A matrix of weights times the elements along an axis."""
    # MatMul sums over the last axis but one, so the axes behind are made one; in Reshape, 0 keeps
    # a length. (Transpose would do, but ONNX Runtime fuses it with MatMul, and up to 1.23 the
    # fused operator knows no float64.)
    kept = [0] * (axis + 1)
    behind = list(range(axis + 1, rank))
    if len(behind) == 1:
        return g.op("MatMul", weights.name, y)
    flat = constant(g, [*kept, -1 if behind else 1], np.int64)
    product = g.op("MatMul", weights.name, g.op("Reshape", y, flat.name))
    lengths = constant(g, kept, np.int64)
    if behind:
        after = Array(g, np.int64, name=g.op("Shape", y)).take(behind)
        lengths = arrays.concat([lengths, after])
    return g.op("Reshape", product, lengths.name)


def _element(value: float, dtype: np.dtype) -> np.ndarray:
    if dtype == np.uint8:
        value = float(np.clip(np.rint(value), 0, 255))
    return np.asarray(value).astype(dtype)


def to_real(g: Any, name: str, dtype: np.dtype, real: Any) -> str:
    return name if dtype == real else Array(g, dtype, name=name).cast(real).name


def from_real(g: Any, name: str, dtype: np.dtype, real: Any) -> str:
    """Back to the dtype of X; uint8 is rounded to nearest, half to even, and saturated."""
    y = Array(g, real, name=name)
    if dtype == np.uint8 and real != np.uint8:
        # Up to 255, adding and taking away 2^23 leaves no fraction; Round is opset 11.
        y = y.at_least(0).at_most(255) + 8388608 - 8388608
    return y.cast(dtype).name
