"""deform_conv2d in standard ONNX operators: which form, by opset.

    19 and up   DeformConv. ONNX Runtime has a CPU kernel for it since 1.25.
    16 to 18    GridSample samples, MatMul sums; float64, which GridSample-16 of ONNX Runtime does
                not know, goes as below
    11 to 15    four Gathers sample, MatMul sums
    below       refused

All of them give 0 to a position that is not finite or lies one pixel or more outside. The forms
below 19 run in ONNX Runtime since 1.17 and hold the whole column matrix in memory: C * kH * kW *
oH * oW numbers an image, the Gathers six times that.

How exact, relative to the largest element: DeformConv and the Gathers as a float sum in another
order, 1e-6 in float32. GridSample wants positions as fractions of the image and so loses the last
digits of a wide one: its float32 positions are off by up to W * 1e-7 pixels. float16 and bfloat16
are computed in float32 and rounded once; only DeformConv sees float16 as such.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from onnx import TensorProto, helper

from myops.onnx import arrays
from myops.onnx.arrays import Array, constant

_MISS = -2  # a position whose four corners lie outside, whatever the image


def standard(g: Any) -> list[str]:
    """Writes one deformable convolution in standard operators; see the head of this file."""
    kind = g.dtype("X")
    if g.opset < 11:
        g.refuse("the positions need operators of opset 11", "Use opset 11 or up.")
    if kind.name == "bfloat16" and g.opset < 13:
        g.refuse("Cast knows bfloat16 since opset 13", "Use opset 13 or up.")
    operator = g.opset >= 19
    # No runtime has a CPU kernel in bfloat16; the other forms sum in float32 as ours does.
    half = kind.name == "bfloat16" or (kind.itemsize == 2 and not operator)
    inputs = [g.input(name) for name in ("X", "W", "offset", "B", "mask")]
    if half:
        inputs = [g.op("Cast", item, to=TensorProto.FLOAT) if item else "" for item in inputs]
    if operator:
        names = ("dilations", "group", "kernel_shape", "offset_group", "pads", "strides")
        result = g.op("DeformConv", *inputs, **{name: g.attribute(name) for name in names})
    else:
        result = Decomposition(g, inputs, np.dtype(np.float32) if half else kind).result()
    return [g.op("Cast", result, to=helper.np_dtype_to_tensor_dtype(kind)) if half else result]


class Decomposition:
    """Samples columns [N, C, kH, kW, oH, oW] and multiplies them with the weights.

    In what follows M is N * offset_group: one image for each batch element and offset group.
    """

    def __init__(self, g: Any, inputs: list[str], dtype: np.dtype) -> None:
        self.g, self.dtype = g, dtype
        self.X, self.W, self.offset, self.bias, self.mask = inputs
        self.batch, self.channels, self.height, self.width = _lengths(g, "X")
        self.outputs, _, self.kernel_y, self.kernel_x = _lengths(g, "W")
        self.out_y, self.out_x = _lengths(g, "offset")[2:]
        self.images = self.batch * g.attribute("offset_group")
        # Whole numbers: the channels are a multiple of both groups.
        self.image_channels = self.channels / g.attribute("offset_group")

    def result(self) -> str:
        g = self.g
        grid = g.opset >= 16 and self.dtype == np.float32
        result = self.sums(self._by_grid_sample() if grid else self._by_gathers(), self.W)
        if not self.bias:
            return result
        one = constant(g, [1], np.int64)
        return g.op("Add", result, self.reshape(self.bias, self.outputs, one, one))

    def sums(self, columns: str, weights: str) -> str:
        """The product of all columns with the weights, [N, oC, oH, oW]."""
        g = self.g
        groups = constant(g, [g.attribute("group")], np.int64)
        depth = self.channels / groups * self.kernel_y * self.kernel_x
        columns = self.reshape(columns, self.batch, groups, depth, self.out_y * self.out_x)
        weights = self.reshape(weights, groups, self.outputs / groups, depth)
        # One copy for each batch element: a MatMul that broadcasts them refuses a batch of 0.
        one = constant(g, [1], np.int64)
        copies = arrays.concat([self.batch, one, one, one])
        sums = g.op("MatMul", g.op("Expand", weights, copies.name), columns)
        return self.reshape(sums, self.batch, self.outputs, self.out_y, self.out_x)

    def _by_grid_sample(self) -> str:
        """Columns [M, C / offset_group, kH * kW * oH, oW]."""
        g = self.g
        ends = []
        for position, length in zip(self._positions(), (self.height, self.width), strict=True):
            # With align_corners=0, pixel i of n lies at (2i + 1) / n - 1.
            ends.append((position * 2 + 1) / length.cast(self.dtype) - 1)
        grid = g.op("Concat", ends[1].name, ends[0].name, axis=5)
        rows = self.kernel_y * self.kernel_x * self.out_y
        two, one = constant(g, [2], np.int64), constant(g, [1], np.int64)
        grid = self.reshape(grid, self.images, rows, self.out_x, two)
        images = self.reshape(self.X, self.images, self.image_channels, self.height, self.width)
        columns = g.op("GridSample", images, grid, mode="bilinear", align_corners=0)
        if self.mask:
            mask = self.reshape(self.mask, self.images, one, rows, self.out_x)
            columns = g.op("Mul", columns, mask)
        return columns

    def _by_gathers(self) -> str:
        """Columns [M, C / offset_group, kH * kW, oH * oW]."""
        mask = self.by_sample(self.mask) if self.mask else None
        total: Array | None = None
        for values, part in self.corners(self.X, self.dtype):
            term = values * (part if mask is None else part * mask)
            total = term if total is None else total + term
        assert total is not None
        return self.columns(total)

    def columns(self, samples: Array) -> str:
        """[M, kH, kW, oH, oW, C / offset_group] with the channels in front of the taps."""
        taps, pixels = self.kernel_y * self.kernel_x, self.out_y * self.out_x
        columns = self.reshape(samples.name, self.images, taps, pixels, self.image_channels)
        return self.g.op("Transpose", columns, perm=[0, 3, 1, 2])

    def by_sample(self, name: str, dtype: Any = None) -> Array:
        """A tensor with a number for each sample, [M, kH, kW, oH, oW, 1]."""
        lengths = [self.images, self.kernel_y, self.kernel_x, self.out_y, self.out_x]
        lengths.append(constant(self.g, [1], np.int64))
        return Array(self.g, dtype or self.dtype, name=self.reshape(name, *lengths))

    def corners(self, X: str, dtype: Any) -> Iterator[tuple[Array, Array]]:
        """Pixels at the four corners, [M, kH, kW, oH, oW, C / offset_group], and their weights.

        The image gets a border of zeros, so that all four corners of any position exist, and its
        channels come last, so that a corner is one row of a table.

        Args:
            X: The image.
            dtype: Its dtype.
        """
        g = self.g
        before, after = -_MISS, 1
        pads = constant(g, [0, 0, before, before, 0, 0, after, after], np.int64)
        zero = constant(g, 0, dtype)
        width = self.width + (before + after)
        area = (self.height + (before + after)) * width
        table = g.op("Pad", X, pads.name, zero.name)
        table = self.reshape(table, self.images, self.image_channels, area)
        table = g.op("Transpose", table, perm=[0, 2, 1])
        table = self.reshape(table, self.images * area, self.image_channels)

        y, x = self._positions()
        top, left = y.floor(), x.floor()
        image = (arrays.arange(self.images) * area).reshape([-1, 1, 1, 1, 1, 1])
        row = (top.cast(np.int64) + before) * width + image
        corner = row + (left.cast(np.int64) + before)
        lengths = [self.images, self.kernel_y, self.kernel_x, self.out_y, self.out_x]
        first = Array(g, np.int64, name=self.reshape(corner.name, *lengths))
        down, right = y - top, x - left
        up, back = 1 - down, 1 - right
        for step, part in (
            (constant(g, [0], np.int64), up * back),
            (constant(g, [1], np.int64), up * right),
            (width, down * back),
            (width + 1, down * right),
        ):
            yield Array(g, dtype, name=g.op("Gather", table, (first + step).name, axis=0)), part

    def _positions(self) -> list[Array]:
        """y and x of all samples, [M, kH, kW, oH, oW, 1]; _MISS where both sample nothing."""
        g = self.g
        one, two = constant(g, [1], np.int64), constant(g, [2], np.int64)
        offset = self.reshape(self.offset, self.images, self.kernel_y, self.kernel_x, two,
                               self.out_y, self.out_x, one)  # fmt: skip
        sides = (
            (self.kernel_y, self.out_y, self.height, [-1, 1, 1, 1, 1], [-1, 1, 1]),
            (self.kernel_x, self.out_x, self.width, [-1, 1, 1, 1], [-1, 1]),
        )
        positions, hits = [], []
        for axis, (kernel, out, length, tap_shape, out_shape) in enumerate(sides):
            step, dilation = self._setting("strides", axis), self._setting("dilations", axis)
            taps = (arrays.arange(kernel) * dilation).reshape(tap_shape)
            pixels = (arrays.arange(out) * step - self._setting("pads", axis)).reshape(out_shape)
            moved = g.op("Gather", offset, constant(g, axis, np.int64).name, axis=3)
            position = Array(g, self.dtype, name=moved) + (taps + pixels).cast(self.dtype)
            positions.append(position)
            # NaN fails both comparisons.
            hits += [position > -1, position < length.cast(self.dtype)]
        hit = hits[0]
        for other in hits[1:]:
            hit = Array(g, np.bool_, name=g.op("And", hit.name, other.name))
        return [arrays.where(hit, position, _MISS) for position in positions]

    def _setting(self, name: str, axis: int) -> int:
        given = self.g.attribute(name)
        return int(given[axis]) if given else int(name != "pads")

    def reshape(self, name: str, *lengths: Array) -> str:
        """Computes every length, because -1 is ambiguous in an empty batch."""
        return self.g.op("Reshape", name, arrays.concat(lengths).name)


def _lengths(g: Any, name: str) -> list[Array]:
    return [arrays.shape(g, name, [axis]) for axis in range(4)]
