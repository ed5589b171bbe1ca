"""deform_conv2d_int8 in NumPy: positions and weights in float32, the rest in int64, bit for bit.

csrc/ops/deform_conv2d_int8/blocking.h has the formulas.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

ONE = np.float32(1)


def deform_conv2d_int8(
    X: np.ndarray, X_scale: np.ndarray, X_zero_point: np.ndarray | None, W: np.ndarray,
    W_scale: np.ndarray, offset: np.ndarray, B: np.ndarray | None, mask: np.ndarray | None,
    *, strides: Sequence[int] = (1, 1), pads: Sequence[int] = (0, 0, 0, 0),
    dilations: Sequence[int] = (1, 1), group: int = 1, offset_group: int = 1,
    mask_limit: float = 1.0,
) -> np.ndarray:  # fmt: skip
    """The inputs in the order of the node."""
    samples = sample(X, X_zero_point, offset, mask, W.shape[2:], strides, pads, dilations,
                     offset_group, np.float32(mask_limit))  # fmt: skip
    batch, channels = X.shape[:2]
    columns = samples.reshape(batch, group, channels // group, *samples.shape[2:])
    weights = W.astype(np.int64).reshape(group, W.shape[0] // group, channels // group, -1)
    sums = np.einsum("ngckhw,gock->ngohw", columns, weights)
    sums = sums.reshape(batch, W.shape[0], *offset.shape[2:])
    scale = (X_scale.astype(np.float32).reshape(1) * np.float32(mask_limit)) * W_scale
    result: Any = sums.astype(np.float32) * np.broadcast_to(scale, W.shape[:1])[:, None, None]
    return result if B is None else result + B[:, None, None]


def sample(
    X: np.ndarray, zero_point: np.ndarray | None, offset: np.ndarray, mask: np.ndarray | None,
    kernel: Sequence[int], strides: Sequence[int], pads: Sequence[int], dilations: Sequence[int],
    groups: int, limit: np.float32,
) -> np.ndarray:  # fmt: skip
    """Integers [N, C, kH * kW, oH, oW]."""
    (batch, channels, height, width), taps = X.shape, kernel[0] * kernel[1]
    out = offset.shape[2:]
    zero = 0 if zero_point is None else int(zero_point.item())
    moved = offset.astype(np.float32).reshape(batch, groups, taps, 2, *out)
    tap = np.arange(taps)
    first = (
        (tap // kernel[1] * dilations[0])[:, None] + np.arange(out[0]) * strides[0] - pads[0],
        (tap % kernel[1] * dilations[1])[:, None] + np.arange(out[1]) * strides[1] - pads[1],
    )
    y = first[0].astype(np.float32)[:, :, None] + moved[:, :, :, 0]
    x = first[1].astype(np.float32)[:, None, :] + moved[:, :, :, 1]
    hit = (y > -1) & (y < height) & (x > -1) & (x < width)
    y, x = np.where(hit, y, np.float32(0)), np.where(hit, x, np.float32(0))
    top, left = np.floor(y), np.floor(x)
    fy, fx = y - top, x - left
    given = np.ones_like(y) if mask is None else mask.astype(np.float32).reshape(y.shape)
    given = given * (ONE / limit)
    given = np.clip(np.where(np.isnan(given), np.float32(0), given), -1, 1) * np.float32(32768)
    images = X.astype(np.int64).reshape(batch, groups, channels // groups, height, width) - zero
    padded = np.pad(images, ((0, 0),) * 3 + ((1, 2),) * 2)  # 2: an image may have no rows
    total = np.zeros((batch, groups, channels // groups, *y.shape[2:]), np.int64)
    n, d = np.ogrid[:batch, :groups]
    for down, right in ((0, 0), (0, 1), (1, 0), (1, 1)):
        weight = (fy if down else ONE - fy) * (fx if right else ONE - fx)
        fraction = np.clip(np.rint(weight * given), -32767, 32767).astype(np.int64)
        row, column = top.astype(np.int64) + down + 1, left.astype(np.int64) + right + 1
        picked = padded[n[..., None, None, None], d[..., None, None, None], :, row, column]
        picked = np.where(hit[..., None], picked, 0)
        total += np.moveaxis((128 * picked * fraction[..., None] + 16384) >> 15, -1, 2)
    low = int(np.iinfo(X.dtype).min) - zero
    samples = np.clip((total + 64) >> 7, low, low + 255)
    return samples.reshape(batch, channels, taps, *out)
