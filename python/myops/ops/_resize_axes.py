"""Lengths, scales, coordinates and nearest indices of a resize, for its standard ONNX form.

The formulas are those of csrc/ops/resize, spec/ and plan/, in the same precision.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from myops.onnx import arrays
from myops.onnx.arrays import Array, constant, where

_SMALL_PICTURE = 128  # rows and columns; torch has another nearest kernel up to here


@dataclass
class ResizedAxes:
    """Some of the axes that a call resizes; each entry is a list with one number an axis."""

    input: Array  # int64 lengths
    output: Array
    scale: Array | None  # the scale that the kernel uses, float64; None: the ratio of the lengths


def listed_axes(g: Any) -> list[int]:
    """The axes that scales, sizes and roi list, none of them negative."""
    shape = g.shape("X")
    given = g.attribute("axes")
    if given and min(given) >= 0:
        return list(given)
    if shape is None:
        g.refuse("the rank of X is unknown", "Keep the model's value_info.")
    return [axis % len(shape) for axis in given] or list(range(len(shape)))


def axes_of(g: Any, places: list[int]) -> ResizedAxes:
    """Lengths and scales of the listed axes at `places`."""
    listed = listed_axes(g)
    torch = g.attribute("torch_arithmetic")
    narrow = np.float64 if torch else np.float32
    length = arrays.shape(g, "X", [listed[place] for place in places])
    wide = length.cast(narrow)
    if g.input("scales"):
        scale = _places(g, arrays.numbers(g, "scales", np.float64).cast(narrow), places)
        return ResizedAxes(length, (wide * scale).floor().cast(np.int64), scale.cast(np.float64))
    if g.attribute("keep_aspect_ratio_policy") == "stretch":
        return ResizedAxes(length, _places(g, arrays.numbers(g, "sizes", np.int64), places), None)
    scale = _common_scale(g, narrow)
    rounded = ((wide * scale).cast(np.float64) + 0.5).floor().cast(np.int64)
    return ResizedAxes(
        length, rounded, scale.cast(np.float64) + constant(g, [0] * len(places), "float64")
    )


def _places(g: Any, listed: Array, places: list[int]) -> Array:
    return listed if places == list(range(len(listed_axes(g)))) else listed.take(places)


def _common_scale(g: Any, dtype: Any) -> Array:
    """The one scale that keeps the aspect ratio."""
    listed = listed_axes(g)
    ratios = arrays.numbers(g, "sizes", dtype) / arrays.shape(g, "X", listed).cast(dtype)
    chosen = ratios.take([0])
    for place in range(1, len(listed)):
        ratio = ratios.take([place])
        larger = g.attribute("keep_aspect_ratio_policy") == "not_smaller"
        chosen = chosen.at_least(ratio) if larger else chosen.at_most(ratio)
    return chosen


def copies_unchanged(g: Any) -> bool:
    """torch copies an axis of unchanged length in these modes, whatever the scale."""
    smooth = g.attribute("mode") == "linear" or g.attribute("antialias")
    return bool(g.attribute("torch_arithmetic") and smooth)


class Map:
    """From output index to input coordinate along one axis, in `real` precision."""

    def __init__(
        self, g: Any, axis: ResizedAxes, roi: Array | None, real: Any, torch: bool
    ) -> None:
        self.kind = g.attribute("coordinate_transformation_mode")
        self.real, self.torch, self.roi = real, torch, roi
        self.input, self.output = axis.input.cast(real), axis.output.cast(real)
        if axis.scale is None:
            self.scale, self.step = self.output / self.input, self.input / self.output
        else:
            self.scale = axis.scale.cast(real)
            self.step = (constant(g, [1.0], np.float64) / axis.scale).cast(real)
        if torch and self.kind == "align_corners":
            last = (self.input - 1) / (self.output - 1)
            self.step = where(self.output > 1, last, constant(g, [0], real))

    def __call__(self, x: Array) -> Array:
        zero = constant(x.g, [0], self.real)
        alone = self.output < 2
        if self.kind == "half_pixel":
            return self._half_pixel(x)
        if self.kind == "half_pixel_symmetric":
            offset = self.input / 2 * (1 - self.output / (self.scale * self.input))
            if self.torch:
                return offset + self._half_pixel(x)
            wide = offset.cast(np.float64)
            wide = wide + (x.cast(np.float64) + 0.5) / self.scale.cast(np.float64) - 0.5
            return wide.cast(self.real)
        if self.kind == "pytorch_half_pixel":
            return where(alone, zero, self._half_pixel(x))
        if self.kind == "align_corners":
            if self.torch:
                return self.step * x
            return where(alone, zero, x * (self.input - 1) / (self.output - 1))
        if self.kind == "asymmetric":
            return self.step * x if self.torch else x / self.scale
        assert self.roi is not None
        start, end = self.roi.take([0]), self.roi.take([1])
        last = self.input - 1
        spread = start * last + x * (end - start) * last / (self.output - 1)
        return where(alone, (start + end) * 0.5 * last, spread)

    def _half_pixel(self, x: Array) -> Array:
        if not self.torch:
            return (x + 0.5) / self.scale - 0.5
        # A fused multiply-add: the product of two float32 is exact in float64.
        product = self.step.cast(np.float64) * (x.cast(np.float64) + 0.5)
        return (product - 0.5).cast(self.real)


def nearest_index(
    g: Any, axis: ResizedAxes, real: Any, small: Array | None, roi: Array | None, tie: float = 1e-6
) -> Array:
    """The input index of every output index; it may lie outside the input.

    What is `tie` from the middle of two elements counts as the middle.
    """
    torch = g.attribute("torch_arithmetic")
    kind, rounding = g.attribute("coordinate_transformation_mode"), g.attribute("nearest_mode")
    index = arrays.arange(axis.output)
    pair = (kind, rounding)
    if torch and pair in (("asymmetric", "floor"), ("half_pixel", "round_prefer_ceil")):
        return _torch_nearest(g, axis, real, small, index)
    x = Map(g, axis, roi, real, torch)(index.cast(real))
    low = x.floor()
    rest = x - low
    if rounding == "floor":
        return low.cast(np.int64)
    if rounding == "ceil":
        return where(rest > 0, low + 1, low).cast(np.int64)
    if rounding == "round_prefer_floor":
        return where(rest - 0.5 > tie, low + 1, low).cast(np.int64)
    return where(rest - 0.5 < -tie, low, low + 1).cast(np.int64)


def _torch_nearest(
    g: Any, axis: ResizedAxes, real: Any, small: Array | None, index: Array
) -> Array:
    """torch's nearest and nearest-exact, each of which has two kernels; both round to float32."""
    exact = g.attribute("coordinate_transformation_mode") == "half_pixel"
    wide, half = index.cast(np.float64), index.cast(np.float64) + 0.5
    position = Map(g, axis, None, real, True)(index.cast(real))
    if exact:
        position = position.at_least(0).cast(np.float64) + 0.5
    usual = position.cast(np.float32).floor().cast(np.int64)
    if small is None:
        return usual
    step = Map(g, axis, None, np.float32, True).step
    if exact:
        return where(small, (half * step.cast(np.float64)).cast(np.float32).floor().cast(np.int64),
                     usual)  # fmt: skip
    picked = (index.cast(np.float32) * step).floor().cast(np.int64)
    halved = (wide * 0.5).floor().cast(np.int64)
    picked = where(axis.output.equals(axis.input * 2), halved, picked)
    picked = where(axis.output.equals(axis.input), index, picked)
    return where(small, picked, usual)


def small_picture(g: Any, axis: int) -> Array | None:
    """Whether torch's kernel for small pictures handles this axis; None: certainly not."""
    shape = g.shape("X")
    if shape is None or len(shape) != 4 or axis not in (2, 3):
        return None
    listed = listed_axes(g)
    ends = [
        axes_of(g, [listed.index(axis)]).output if axis in listed else arrays.shape(g, "X", [axis])
        for axis in (2, 3)
    ]
    small = ends[0] + ends[1] < _SMALL_PICTURE + 1
    return None if small.value is not None and not small.value.all() else small
