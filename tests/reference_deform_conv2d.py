"""deform_conv2d in plain torch operations: slow, twice differentiable, any float dtype.

    y[n, o, u, v] = B[o] + sum over c, i, j of W[o, c, i, j] * mask * X sampled bilinearly at
        (u * stride - pad + i * dilation + offset_y, v * stride - pad + j * dilation + offset_x)

A position that is not finite, or has y <= -1, y >= H, x <= -1 or x >= W, samples 0 and has no
gradient; a corner outside the image counts as 0. The mask multiplies the sample, that 0 too.
"""

from __future__ import annotations

import torch
from torch import Tensor


def positions(
    offset: Tensor,
    kernel: tuple[int, int],
    stride: tuple[int, int],
    pads: tuple[int, int, int, int],
    dilation: tuple[int, int],
    offset_groups: int,
) -> tuple[Tensor, Tensor]:
    """y and x of every sample, each [N, offset_groups, K, oH, oW]."""
    batch, _, height, width = offset.shape
    taps = kernel[0] * kernel[1]
    split = offset.reshape(batch, offset_groups, taps, 2, height, width)

    def axis(index: int, length: int, tap: Tensor) -> Tensor:
        out = torch.arange(length) * stride[index] - pads[index]
        return (out[None, :] + (tap * dilation[index])[:, None]).to(offset.dtype)

    row = torch.arange(taps) // kernel[1]
    column = torch.arange(taps) % kernel[1]
    y = axis(0, height, row)[:, :, None] + split[:, :, :, 0]
    x = axis(1, width, column)[:, None, :] + split[:, :, :, 1]
    return y, x


def sample(X: Tensor, y: Tensor, x: Tensor) -> Tensor:
    """X [N, G, C, H, W] at y, x [N, G, K, oH, oW] -> [N, G, C, K, oH, oW]."""
    batch, groups, channels, height, width = X.shape
    hit = (y > -1) & (y < height) & (x > -1) & (x < width)  # NaN compares false
    zero = torch.zeros((), dtype=y.dtype)
    y = torch.where(hit, y, zero)
    x = torch.where(hit, x, zero)
    top, left = y.detach().floor(), x.detach().floor()
    fy, fx = y - top, x - left
    flat = X.reshape(batch, groups, channels, height * width)
    if height * width == 0:  # a pixel that no sample takes, as gather() expects one
        flat = torch.cat([flat, flat.new_zeros(batch, groups, channels, 1)], 3)
    total = torch.zeros((), dtype=X.dtype)
    for down, right in ((0, 0), (0, 1), (1, 0), (1, 1)):
        row, column = top.long() + down, left.long() + right
        inside = hit & (row >= 0) & (row < height) & (column >= 0) & (column < width)
        index = torch.where(inside, row * width + column, torch.zeros((), dtype=torch.long))
        index = index.flatten(2)[:, :, None].expand(-1, -1, channels, -1)
        value = flat.gather(3, index).reshape(batch, groups, channels, *y.shape[2:])
        value = torch.where(inside[:, :, None], value, torch.zeros((), dtype=X.dtype))
        weight = (fy if down else 1 - fy) * (fx if right else 1 - fx)
        total = total + value * weight[:, :, None]
    return total


def deform_conv2d(
    X: Tensor,
    W: Tensor,
    offset: Tensor,
    B: Tensor | None = None,
    mask: Tensor | None = None,
    stride: tuple[int, int] = (1, 1),
    pads: tuple[int, int, int, int] = (0, 0, 0, 0),
    dilation: tuple[int, int] = (1, 1),
    group: int = 1,
    offset_group: int = 1,
) -> Tensor:
    """X [N, C, H, W], W [oC, C / group, kH, kW], offset [N, 2 * offset_group * kH * kW, oH, oW],
    B [oC], mask [N, offset_group * kH * kW, oH, oW], pads (top, left, bottom, right)."""
    batch, channels, height, width = X.shape
    outputs, kernel = W.shape[0], (W.shape[2], W.shape[3])
    taps, out_size = kernel[0] * kernel[1], offset.shape[2:]
    y, x = positions(offset, kernel, stride, pads, dilation, offset_group)
    grouped = X.reshape(batch, offset_group, channels // offset_group, height, width)
    columns = sample(grouped, y, x)
    if mask is not None:
        columns = columns * mask.reshape(batch, offset_group, 1, taps, *out_size)
    columns = columns.reshape(batch, group, channels // group, taps, *out_size)
    filters = W.reshape(group, outputs // group, channels // group, taps)
    result = torch.einsum("ngckuv,gock->ngouv", columns, filters)
    result = result.reshape(batch, outputs, *out_size)
    return result if B is None else result + B[:, None, None]
