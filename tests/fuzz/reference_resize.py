"""ONNX Resize-19 in float64: one dense matrix for each axis, written from the standard's text.

Where the text leaves a choice, it is that of ONNX Runtime: scales are float32, coordinates of
"align_corners"
and "tf_crop_and_resize" come from whole output lengths (docs/ops.md).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass
class Axis:
    """`weights[o, i]` of input i in output o; an output without any is `outside`.

    `doubtful` marks outputs that rounding decides: a coordinate at a jump."""

    weights: np.ndarray
    outside: np.ndarray
    doubtful: np.ndarray


def lengths(
    shape: list[int], axes: list[int], scales: Any, sizes: Any, policy: str
) -> tuple[list[int], list[float]]:
    """Output length and scale of each of `axes`."""
    listed = [shape[axis] for axis in axes]
    if scales is not None:
        factors = [np.float32(scale) for scale in scales]
        # An unchanged axis stays as long as it is; float32 rounds the product of the others.
        out = [math.floor(np.float32(n) * s) for n, s in zip(listed, factors, strict=True)]
        return out, [float(s) for s in factors]
    if policy == "stretch":
        return list(sizes), [size / n if n else 1.0 for size, n in zip(sizes, listed, strict=True)]
    # An axis without elements has no part in the common ratio.
    ratios = [np.float32(size) / np.float32(n) for size, n in zip(sizes, listed, strict=True) if n]
    ratios = ratios or [np.float32(1)]
    common = min(ratios) if policy == "not_larger" else max(ratios)
    out = [math.floor(np.float32(n) * common + 0.5) for n in listed]
    return out, [float(common)] * len(axes)


def coordinate(kind: str, x: float, L: int, R: int, s: float, start: float, end: float) -> float:
    if kind == "half_pixel":
        return (x + 0.5) / s - 0.5
    if kind == "half_pixel_symmetric":
        return L / 2 * (1 - R / (s * L)) + (x + 0.5) / s - 0.5
    if kind == "pytorch_half_pixel":
        return (x + 0.5) / s - 0.5 if R > 1 else 0.0
    if kind == "align_corners":
        return x * (L - 1) / (R - 1) if R > 1 else 0.0
    if kind == "asymmetric":
        return x / s
    assert kind == "tf_crop_and_resize"
    if R > 1:
        return start * (L - 1) + x * (end - start) * (L - 1) / (R - 1)
    return 0.5 * (start + end) * (L - 1)


def cubic(x: float, a: float) -> float:
    x = abs(x)
    if x <= 1:
        return (a + 2) * x**3 - (a + 3) * x**2 + 1
    return a * x**3 - 5 * a * x**2 + 8 * a * x - 4 * a if x < 2 else 0.0


def nearest(x: float, rounding: str) -> int:
    if rounding == "floor":
        return math.floor(x)
    if rounding == "ceil":
        return math.ceil(x)
    low = math.floor(x)
    if x - low == 0.5:
        return low if rounding == "round_prefer_floor" else low + 1
    return math.floor(x + 0.5)


def axis_matrix(
    options: dict[str, Any], L: int, R: int, s: float, crop: tuple[float, float], eps: float
) -> Axis:
    kind, mode = options["coordinate_transformation_mode"], options["mode"]
    weights, outside = np.zeros((R, L)), np.zeros(R, bool)
    doubtful = np.zeros(R, bool)
    if kind != "tf_crop_and_resize":
        crop = (0.0, 1.0)
    # Lengths that stay, by sizes or a scale of 1, are copied.
    if R == L and crop == (0.0, 1.0) and s == 1:
        return Axis(np.eye(L), outside, doubtful)
    if mode == "area":
        for o in range(R):
            first, last = o * L // R, -(-(o + 1) * L // R)
            weights[o, first:last] = 1 / (last - first)
        return Axis(weights, outside, doubtful)
    error = eps * (8 + 8 * L) + 2e-6 * (mode == "nearest")
    for o in range(R):
        x = coordinate(kind, o, L, R, s, *crop)
        if kind == "tf_crop_and_resize":
            doubtful[o] |= min(abs(x), abs(x - (L - 1))) < error and x not in (0.0, L - 1.0)
            outside[o] = not 0 <= x <= L - 1
            doubtful[o] |= eps > 0 and crop != (0.0, 1.0) and x in (0.0, L - 1.0)
        if outside[o]:
            continue
        if mode == "nearest":
            jump = 0.5 if options["nearest_mode"].startswith("round") else 0.0
            away = abs((x - jump) - round(x - jump))
            certain = away == 0 and few_digits(s) and kind in ("half_pixel", "asymmetric")
            doubtful[o] |= away < error and not certain
            weights[o, min(max(nearest(x, options["nearest_mode"]), 0), L - 1)] = 1
            continue
        squeeze = min(s, 1.0) if options["antialias"] else 1.0
        reach = (1 if mode == "linear" else 2) / squeeze
        total = 0.0
        for k in range(math.floor(x - reach) - 1, math.ceil(x + reach) + 2):
            t = (x - k) * squeeze
            w = max(0.0, 1 - abs(t)) if mode == "linear" else cubic(t, options["cubic_coeff_a"])
            if options["exclude_outside"] and not 0 <= k < L:
                continue
            weights[o, min(max(k, 0), L - 1)] += w
            total += w
        if total:
            weights[o] /= total
    return Axis(weights, outside, doubtful)


def few_digits(scale: float) -> bool:
    """A quotient by it that has few digits is exact, in float32 too."""
    return scale < 64 and scale * 64 == int(scale * 64)


def along(matrix: np.ndarray, x: np.ndarray, axis: int) -> np.ndarray:
    return np.moveaxis(np.tensordot(matrix, x, (1, axis)), 0, axis)


def mask_of(flags: list[np.ndarray], axes: list[int], rank: int) -> np.ndarray:
    """Outputs that any of the axes marks."""
    whole = np.zeros((1,) * rank, bool)
    for flag, axis in zip(flags, axes, strict=True):
        shape = [1] * rank
        shape[axis] = len(flag)
        whole = whole | flag.reshape(shape)
    return whole


def forward(x: np.ndarray, axes: list[int], matrices: list[Axis], fill: float) -> np.ndarray:
    for axis, matrix in zip(axes, matrices, strict=True):
        x = along(matrix.weights, x, axis)
    outside = mask_of([matrix.outside for matrix in matrices], axes, x.ndim)
    return np.where(outside, fill, x)


def backward(grad: np.ndarray, axes: list[int], matrices: list[Axis]) -> np.ndarray:
    outside = mask_of([matrix.outside for matrix in matrices], axes, grad.ndim)
    grad = np.where(outside, 0.0, grad)
    for axis, matrix in zip(axes, matrices, strict=True):
        grad = along(matrix.weights.T, grad, axis)
    return grad
