"""homography_warp: a multiplane image seen by other cameras."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import torch
from torch import Tensor

import myops
from myops.onnx import arrays

library = myops.op_library("myops_gallery")


def homography_warp(planes: Tensor, homographies: Tensor, size: list[int] | None = None) -> Tensor:
    """Warps planes with alpha by homographies, and lays them over each other, the last in front.

    Pixel (x, y) of the image sees plane d at (u, v) / w, where [u, v, w] = H_d [x, y, 1], sampled
    bilinearly between pixels, whose centres have whole coordinates. What a plane does not have is
    transparent: points outside, not in front (w <= 0) or not finite, whose gradient is 0. Alpha
    is straight, not premultiplied, and not clamped. Behind the planes, all is 0. NaN in a plane
    spreads to the pixels that see one of the four pixels around it.

    Args:
        planes: Tensor[N, D, 4, H, W], or [D, 4, H, W] for all N; red, green, blue, alpha of planes
            from back to front; float32 or float64.
        homographies: Tensor[N, D, 3, 3] of the same dtype, from pixels of the image to the plane's.
        size: Height and width of the image. Default: those of the planes.

    Returns:
        Tensor[N, 3, height, width]. Differentiable once, in planes and homographies.

    Raises:
        RuntimeError: Shapes or dtypes are not as described.
    """
    if torch.jit.is_scripting():
        return torch.ops.myops_gallery.homography_warp(planes, homographies, size=size)
    else:
        return _homography_warp(planes, homographies, size=size or [])


def _shape(inputs: Any, attributes: dict[str, Any]) -> list[Any]:
    return [[inputs[1].shape[0], 3, *(attributes["size"] or inputs[0].shape[-2:])]]


def _standard(g: Any) -> list[str]:
    """GridSample on all planes, then Scan over them."""
    dtype, size = g.dtype("planes"), g.attribute("size")
    if g.opset < (16 if dtype == np.float32 else 20):
        g.refuse(f"GridSample knows {dtype} since opset {16 if dtype == np.float32 else 20}")
    views = arrays.shape(g, "homographies", [0, 1])
    columns, rows = (arrays.shape(g, "planes", [axis]) for axis in (-1, -2))
    width, height = [arrays.constant(g, [n], np.int64) for n in size[::-1]] or (columns, rows)

    x, y = (arrays.arange(n).cast(dtype) for n in (width, height))
    x, y = x.reshape([1, 1, -1]), y.reshape([1, -1, 1])
    pixels = arrays.concat([x + 0 * y, y + 0 * x, 0 * x + 0 * y + 1]).reshape([3, -1])
    points = g.op("MatMul", g.input("homographies"), pixels)
    u, v, w = (arrays.Array(g, dtype, name=g.op("Gather", points, place, axis=2))
               for place in (arrays.constant(g, [i], np.int64) for i in range(3)))  # fmt: skip
    ends = []
    for position, length in ((u / w, columns.cast(dtype)), (v / w, rows.cast(dtype))):
        position = arrays.where(w > 0, position, -2)  # -2 sees nothing
        position = arrays.where(position < length, position, -2).at_least(-2)  # nor does NaN
        ends.append((position * 2 + 1) / length - 1)
    grid = g.op("Transpose", g.op("Concat", *ends, axis=2), perm=[0, 1, 3, 2])
    grid = g.op("Reshape", grid, arrays.concat([-1, height, width, 2]))

    stack = g.op("Expand", g.input("planes"), arrays.concat([views, 4, rows, columns]))
    stack = g.op("Reshape", stack, arrays.concat([-1, 4, rows, columns]))
    mode = "linear" if g.opset >= 20 else "bilinear"
    seen = g.op("GridSample", stack, grid, mode=mode, align_corners=0)
    seen = g.op("Reshape", seen, arrays.concat([views, 4, height, width]))
    color, alpha = g.op("Split", seen, arrays.constant(g, [3, 1], np.int64), axis=2, outputs=2)
    clear = 1 - arrays.Array(g, dtype, name=alpha)
    start = arrays.concat([views.take([0]), 3, height, width])
    start = g.op("Expand", arrays.constant(g, 0, dtype), start)
    kind = "float[]" if dtype == np.float32 else "double[]"
    over = f"over ({kind} r, {kind} k, {kind} c) => ({kind} s) {{ t = Mul(k, r) s = Add(t, c) }}"
    return [g.op("Scan", start, clear, g.op("Mul", alpha, color), num_scan_inputs=2,
                 scan_input_axes=[1, 1], body=onnx.parser.parse_graph(over))]  # fmt: skip


_homography_warp = library.define(
    "homography_warp", shape=_shape, backward="homography_warp_backward", standard=_standard
)
