"""Rows of some hundred elements, where blocks of a row share their tables, short ones, several of
which are made at once, and large results.

Expected is torch's float32, not float64: its positions are rounded as ours are, by up to 1e-4
pixels in rows of this length. torch 2.15 rounds those of "bilinear" another way than 2.13, whose
results ours equal within 5e-7: each is up to 2.4e-4 from float64, and they are up to 1e-4 apart.
"""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

import myops

MODES = ("nearest", "bilinear", "bicubic")
LAYOUTS = (torch.contiguous_format, torch.channels_last)


def assert_close(actual: torch.Tensor, expected: torch.Tensor, mode: str) -> None:
    tolerance = 0 if mode == "nearest" else 2e-5
    torch.testing.assert_close(actual, expected, rtol=0, atol=tolerance)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("factor", [0.35, 0.4, 0.45, 0.5, 0.8, 1.5, 2.0, 3.0, 4.0])
@pytest.mark.parametrize("mode", MODES)
def test_long_rows(mode: str, factor: float, layout: torch.memory_format) -> None:
    for channels, width in ((1, 701), (3, 640), (12, 333)):
        x = torch.randn(1, channels, 9, width).contiguous(memory_format=layout)
        expected = F.interpolate(x, scale_factor=factor, mode=mode)
        actual = myops.interpolate(x, scale_factor=factor, mode=mode)
        if mode == "bilinear":
            torch.testing.assert_close(actual, expected, rtol=0, atol=2e-4)
        else:
            assert_close(actual, expected, mode)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("factor", [0.2, 0.45, 0.5, 0.75])
def test_long_rows_with_antialias(factor: float, layout: torch.memory_format) -> None:
    for channels, width in ((1, 701), (3, 640)):
        x = torch.randn(1, channels, 9, width).contiguous(memory_format=layout)
        options = {"scale_factor": factor, "mode": "bilinear", "antialias": True}
        assert_close(myops.interpolate(x, **options), F.interpolate(x, **options), "bilinear")


@pytest.mark.parametrize("width", [8, 15, 16, 32, 33, 48, 64, 96, 128])
@pytest.mark.parametrize("factor", [2.0, 3.0, 4.0])
@pytest.mark.parametrize("height", [3, 40])  # of the second, memory is asked for
def test_maps_of_features(width: int, factor: float, height: int) -> None:
    x = torch.randn(2, 32, height, width)
    expected = F.interpolate(x, scale_factor=factor, mode="nearest")
    assert torch.equal(myops.interpolate(x, scale_factor=factor, mode="nearest"), expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    "factor", [(1.0, 2.0), (1.25, 3.0), (1.5, 1.5), (2.0, 2.0), (3.7, 1.3), (4, 4)]
)
@pytest.mark.parametrize("width", [5, 16, 31, 48, 64, 100])
def test_linear_maps_of_features(
    width: int, factor: tuple[float, float], dtype: torch.dtype
) -> None:
    # Of short rows several are made at once, in parts.
    x = torch.randn(2, 3, 70, width, dtype=dtype)
    x[0, 0, 33, 3], x[1, 2, 69, 4] = torch.inf, torch.nan
    options = {"scale_factor": factor, "mode": "bilinear"}
    actual = myops.interpolate(x, **options)
    expected = F.interpolate(x, **options)
    near_spoilt = ~expected.isfinite() | ~actual.isfinite()  # 0 * inf is NaN in torch's
    assert near_spoilt.float().mean() < 0.01
    assert_close(actual[~near_spoilt], expected[~near_spoilt], "bilinear")


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("factor", [0.4, 0.5, 0.8])
def test_shrinking_longer_rows(factor: float, layout: torch.memory_format) -> None:
    # of which memory is asked for within the row
    for channels, width in ((1, 5001), (3, 1920), (3, 2003)):
        x = torch.randn(1, channels, 9, width).contiguous(memory_format=layout)
        expected = F.interpolate(x.double(), scale_factor=factor, mode="bilinear").float()
        actual = myops.interpolate(x, scale_factor=factor, mode="bilinear")
        torch.testing.assert_close(actual, expected, rtol=0, atol=5e-3)
        rows = myops.interpolate(x.contiguous(), scale_factor=factor, mode="bilinear")
        assert torch.equal(actual, rows)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("factor", [0.3, 0.5, 0.8, 1.5])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.uint8])
def test_copies_from_longer_rows(
    dtype: torch.dtype, factor: float, layout: torch.memory_format
) -> None:
    for channels, width in ((1, 9001), (3, 3072), (3, 3001)):
        x = torch.randint(256, (1, channels, 33, width)).to(dtype).contiguous(memory_format=layout)
        expected = F.interpolate(x.float(), scale_factor=(0.5, factor), mode="nearest").to(dtype)
        actual = myops.interpolate(x, scale_factor=(0.5, factor), mode="nearest")
        assert torch.equal(actual, expected)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("factor", [2.0, 3.0])
@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_gradients_of_long_rows(mode: str, factor: float, layout: torch.memory_format) -> None:
    x = torch.randn(1, 3, 7, 640).contiguous(memory_format=layout).requires_grad_()
    out = myops.interpolate(x, scale_factor=factor, mode=mode)
    grad = torch.randn_like(out)
    (expected,) = torch.autograd.grad(F.interpolate(x, scale_factor=factor, mode=mode), x, grad)
    (actual,) = torch.autograd.grad(out, x, grad)
    torch.testing.assert_close(actual, expected, rtol=0, atol=1e-4)


@pytest.mark.parametrize("height", [40, 150, 320])  # results of 1.3, 5 and 11 MB
@pytest.mark.parametrize("mode", MODES)
def test_large_results(mode: str, height: int) -> None:
    x = torch.randn(1, 3, height, 700)
    expected = F.interpolate(x, scale_factor=2, mode=mode)
    assert_close(myops.interpolate(x, scale_factor=2, mode=mode), expected, mode)
