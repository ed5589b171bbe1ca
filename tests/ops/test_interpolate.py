"""interpolate against torch.nn.functional.interpolate, and with tensors for size and factor."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import myops
import myops.onnx
import myops.ort

LIST_OF_MODES = [
    ("nearest", 3, None),
    ("nearest", 4, None),
    ("nearest", 5, None),
    ("nearest-exact", 3, None),
    ("nearest-exact", 4, None),
    ("nearest-exact", 5, None),
    ("linear", 3, False),
    ("linear", 3, True),
    ("bilinear", 4, False),
    ("bilinear", 4, True),
    ("bicubic", 4, False),
    ("bicubic", 4, True),
    ("trilinear", 5, False),
    ("trilinear", 5, True),
    ("area", 3, None),
    ("area", 4, None),
    ("area", 5, None),
]
FACTORS = [0.4, 0.5, 1.0, 5 / 3, 2.0, 2.3, 7 / 3, 3.0]
TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-12, torch.float16: 2e-3, torch.bfloat16: 2e-2}


def sample(rank: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    lengths = {3: (2, 3, 27), 4: (2, 3, 13, 10), 5: (2, 2, 5, 7, 6)}[rank]
    return torch.randn(lengths).to(dtype)


def assert_like_torch(actual: torch.Tensor, expected: torch.Tensor, mode: str) -> None:
    tolerance = 0 if mode.startswith("nearest") else TOLERANCE[expected.dtype]
    torch.testing.assert_close(actual, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(("mode", "rank", "align_corners"), LIST_OF_MODES)
def test_factors_equal_torch(mode: str, rank: int, align_corners: bool | None) -> None:
    x = sample(rank)
    for factor, recompute in itertools.product(FACTORS, (None, True)):
        options: dict[str, Any] = {"mode": mode, "align_corners": align_corners}
        options["recompute_scale_factor"] = recompute
        expected = F.interpolate(x, scale_factor=factor, **options)
        assert_like_torch(myops.interpolate(x, scale_factor=factor, **options), expected, mode)
        as_tensor = torch.tensor(factor, dtype=torch.float64)
        assert_like_torch(myops.interpolate(x, scale_factor=as_tensor, **options), expected, mode)


@pytest.mark.parametrize(("mode", "rank", "align_corners"), LIST_OF_MODES)
@pytest.mark.parametrize("lengths", [(1, 1, 1), (4, 31, 7), (13, 10, 19), (40, 3, 12)])
def test_sizes_equal_torch(
    mode: str, rank: int, align_corners: bool | None, lengths: tuple[int, ...]
) -> None:
    x, size = sample(rank), lengths[: rank - 2]
    expected = F.interpolate(x, size=size, mode=mode, align_corners=align_corners)
    for given in (size, torch.tensor(size)):
        result = myops.interpolate(x, size=given, mode=mode, align_corners=align_corners)
        assert_like_torch(result, expected, mode)


@pytest.mark.parametrize("dtype", list(TOLERANCE))
@pytest.mark.parametrize("mode", ["nearest", "bilinear", "bicubic"])
def test_every_dtype_equals_torch(mode: str, dtype: torch.dtype) -> None:
    x = sample(4, dtype)
    expected = F.interpolate(x.double(), scale_factor=2.3, mode=mode)
    result = myops.interpolate(x, scale_factor=2.3, mode=mode)
    assert result.dtype == dtype
    tolerance = 0 if mode == "nearest" else TOLERANCE[dtype]
    torch.testing.assert_close(result.double(), expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("mode", ["nearest", "bilinear", "bicubic"])
def test_uint8_is_rounded_and_saturated(mode: str) -> None:
    x = torch.randint(0, 256, (1, 3, 11, 9), dtype=torch.uint8)
    exact = F.interpolate(x.double(), scale_factor=2.3, mode=mode)
    result = myops.interpolate(x, scale_factor=2.3, mode=mode)
    # A tie between two integers may fall either way in float32.
    assert (result.double() - exact.clamp(0, 255)).abs().max() <= (
        0 if mode == "nearest" else 0.501
    )
    if mode == "bicubic":
        assert exact.min() < 0, "the case must overshoot, or saturation is not tested"
        assert exact.max() > 255


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize("align_corners", [False, True])
def test_antialias_equals_torch(mode: str, align_corners: bool) -> None:
    x = sample(4)
    for factor in (0.3, 0.5, 0.77, 1.0, 1.6):
        options = {"mode": mode, "antialias": True, "align_corners": align_corners}
        expected = F.interpolate(x, scale_factor=factor, **options)
        assert_like_torch(myops.interpolate(x, scale_factor=factor, **options), expected, mode)
    expected = F.interpolate(x, size=(5, 4), mode=mode, antialias=True)
    assert_like_torch(myops.interpolate(x, size=(5, 4), mode=mode, antialias=True), expected, mode)


def test_output_sizes_equal_torch_for_every_ratio() -> None:
    """floor(length * p / q) as torch computes it, for p, q <= 64 and every length to 512."""
    ratios = sorted({p / q for p in range(1, 65) for q in range(1, 65)})
    lengths = torch.arange(1, 513)
    for ratio in ratios:
        expected = torch.floor(lengths.double() * ratio).long()
        legal = expected > 0
        # 64 lengths at a time, each an axis.
        for some, wanted in zip(lengths[legal].split(64), expected[legal].split(64), strict=True):
            count = len(some)
            info = [some.tolist(), None, [count], None]
            values = [None, None, [ratio] * count]
            dims = myops._shape_rule.infer("resize", info, (), {"torch_arithmetic": True}, values)
            assert dims[0][1] == wanted.tolist(), ratio


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact"])
def test_nearest_equals_torch_for_every_ratio(mode: str) -> None:
    x = torch.arange(512.0).reshape(1, 1, 512)
    for ratio in sorted({p / q for p in range(1, 65) for q in range(1, 65)}):
        expected = F.interpolate(x, scale_factor=ratio, mode=mode)
        assert torch.equal(myops.interpolate(x, scale_factor=ratio, mode=mode), expected), ratio
    for length in (1, 7, 49, 98, 490, 513, 1000):
        for start in (10, 31, 49, 128):
            part = x[..., :start]
            expected = F.interpolate(part, size=length, mode=mode)
            assert torch.equal(myops.interpolate(part, size=length, mode=mode), expected)


@pytest.mark.parametrize("mode", ["nearest", "bilinear", "bicubic", "area"])
@pytest.mark.parametrize("tensor", [False, True])
def test_gradients_equal_torch(mode: str, tensor: bool) -> None:
    x = torch.randn(1, 2, 5, 4, dtype=torch.float64, requires_grad=True)
    for options in ({"antialias": True}, {}) if mode.startswith("bi") else ({},):
        factor = torch.tensor([1.7, 0.6], dtype=torch.float64) if tensor else (1.7, 0.6)

        def function(x: torch.Tensor, factor: Any = factor, options: Any = options) -> torch.Tensor:
            return myops.interpolate(x, scale_factor=factor, mode=mode, **options)

        assert torch.autograd.gradcheck(function, x)
        assert torch.autograd.gradgradcheck(function, x)
        ours = torch.autograd.grad(function(x).square().sum(), x)
        theirs = F.interpolate(x, scale_factor=(1.7, 0.6), mode=mode, **options)
        expected = torch.autograd.grad(theirs.square().sum(), x)
        torch.testing.assert_close(ours, expected, rtol=1e-10, atol=1e-10)


def test_channels_last_stays_channels_last() -> None:
    x = sample(4)
    last = x.to(memory_format=torch.channels_last)
    for mode in ("nearest", "bilinear", "bicubic"):
        for factor in (0.6, 2.5):
            result = myops.interpolate(last, scale_factor=factor, mode=mode)
            assert result.is_contiguous(memory_format=torch.channels_last)
            expected = F.interpolate(x, scale_factor=factor, mode=mode)
            assert_like_torch(result, expected, mode)


def test_a_factor_of_one_changes_nothing() -> None:
    for mode, rank, align_corners in LIST_OF_MODES:
        x = sample(rank)
        result = myops.interpolate(x, scale_factor=1, mode=mode, align_corners=align_corners)
        torch.testing.assert_close(result, x, rtol=0, atol=0)


@pytest.mark.parametrize("align_corners", [False, True])
@pytest.mark.parametrize("mode", ["linear", "bicubic"])
def test_positions_in_long_rows_of_float64_are_exact(mode: str, align_corners: bool) -> None:
    """At positions just below an integer, which torch rounds to float32: 5542.9998 becomes 5543,
    and its result is off by up to 4e-4."""
    length, size = 7680, 14054
    x = torch.randn(length, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    shape, sizes = ((1, 1, length), size) if mode == "linear" else ((1, 1, 1, length), (1, size))
    y = myops.interpolate(x.reshape(shape), sizes, mode=mode, align_corners=align_corners).flatten()
    for output in range(size):
        place = (
            Fraction(output * (length - 1), size - 1) if align_corners
            else Fraction((2 * output + 1) * length, 2 * size) - Fraction(1, 2)
        )  # fmt: skip
        if mode == "linear":
            place = max(place, Fraction(0))
        start = math.floor(place)
        if np.floor(np.float32(float(place))) == start:
            continue
        t = place - start
        near = [float(x[min(max(start + k, 0), length - 1)]) for k in (-1, 0, 1, 2)]
        weights = (
            [0, 1 - t, t, 0] if mode == "linear" else [cubic(abs(t - k)) for k in (-1, 0, 1, 2)]
        )
        right = float(sum(Fraction(v) * w for v, w in zip(near, weights, strict=True)))
        assert abs(float(y[output]) - right) < 1e-10, output


def cubic(distance: Fraction) -> Fraction:
    """Keys' kernel with a = -3/4, as in torch."""
    a, d = Fraction(-3, 4), distance
    if d <= 1:
        return (a + 2) * d**3 - (a + 3) * d**2 + 1
    return a * (d**3 - 5 * d**2 + 8 * d - 4)
