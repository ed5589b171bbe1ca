"""homography_warp: a multiplane image seen by other cameras."""

from typing import Any

import numpy as np
import onnx
from torch import Tensor

import myops
from myops.onnx import arrays

library = myops.op_library("myops_gallery")


def homography_warp(planes: Tensor, homographies: Tensor, size: list[int] | Tensor) -> Tensor:
    """Warps planes with alpha by homographies, and lays them over each other, the last in front.

    Pixel (x, y) of the image sees plane d at (u, v) / w, where [u, v, w] = H_d [x, y, 1], sampled
    bilinearly between pixels, whose centres have whole coordinates. Points outside, not in front
    (w <= 0) or not finite are transparent and give no gradient. Alpha is straight, not clamped, and
    over 0. NaN in a plane spreads to the pixels that see one of the four pixels around it.

    Args:
        planes: Tensor[N, D, 4, H, W], or [D, 4, H, W] for all: RGBA, back to front; float32 or 64.
        homographies: Tensor[N, D, 3, 3] of the same dtype, from pixels of the image to the planes'.
        size: Height and width of the image; as an int64 tensor an input in ONNX.

    Returns:
        Tensor[N, 3, height, width]. Differentiable once, in planes and homographies.

    Raises:
        RuntimeError: Shapes or dtypes are not as described.
    """
    if planes.dim() == 4:  # repeated without a copy: the kernel takes any strides
        planes = planes.expand(homographies.shape[0], -1, -1, -1, -1)
    return _warp(planes, homographies, size)


def _standard(g: Any) -> list[str]:
    """GridSample on all planes, then Scan over them."""
    dtype, since = g.dtype("planes"), 16 if g.dtype("planes") == np.float32 else 20
    if g.opset < since:
        g.refuse(f"GridSample knows {dtype} since opset {since}", "Export with a later one.")
    stack, area = (arrays.shape(g, "planes", axes) for axes in ([0, 1], [3, 4]))
    size = arrays.numbers(g, "size", np.int64)
    x = arrays.arange(size.take([1])).cast(dtype).reshape([1, 1, -1])
    y = arrays.arange(size.take([0])).cast(dtype).reshape([1, -1, 1])
    pixels = arrays.concat([x + 0 * y, y + 0 * x, 0 * x + 0 * y + 1]).reshape([3, -1])
    points = g.op("MatMul", g.input("homographies"), pixels)
    u, v, w = (arrays.Array(g, dtype, name=g.op("Gather", points, g.constant(i), axis=2))
               for i in np.array([[0], [1], [2]]))  # fmt: skip
    ends = []
    for axis, position in ((1, u / w), (0, v / w)):
        length = area.take([axis]).cast(dtype)
        position = arrays.where(w > 0, position, -2)  # -2 sees nothing
        position = arrays.where(position < length, position, -2).at_least(-2)  # nor does NaN
        ends.append((position * 2 + 1) / length - 1)
    grid = g.op("Transpose", g.op("Concat", *ends, axis=2), perm=[0, 1, 3, 2])
    grid = g.op("Reshape", grid, arrays.concat([-1, size, 2]))
    planes = g.op("Reshape", g.input("planes"), arrays.concat([-1, 4, area]))
    seen = g.op("GridSample", planes, grid, mode="linear" if g.opset >= 20 else "bilinear")
    seen = g.op("Reshape", seen, arrays.concat([stack, 4, size]))
    color, alpha = g.op("Split", seen, g.constant(np.array([3, 1])), axis=2, outputs=2)
    clear = 1 - arrays.Array(g, dtype, name=alpha)
    r = g.op("Expand", g.constant(np.zeros((), dtype)), arrays.concat([stack.take([0]), 3, size]))
    kind = "float[]" if dtype == np.float32 else "double[]"
    over = f"over ({kind} r, {kind} k, {kind} c) => ({kind} s) {{ t = Mul(k, r) s = Add(t, c) }}"
    return [g.op("Scan", r, clear, g.op("Mul", alpha, color), num_scan_inputs=2,
                 scan_input_axes=[1, 1], body=onnx.parser.parse_graph(over))]  # fmt: skip


_warp = library.define("homography_warp", backward="homography_warp_backward", standard=_standard)
