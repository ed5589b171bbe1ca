"""resize, nearest: elements of one and two bytes are moved by other loops than floats are."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import myops

DTYPES = [torch.uint8, torch.float16, torch.bfloat16]
SCALES = [0.1, 0.25, 1 / 3, 0.5, 0.8, 1, 1.5, 2, 3, 9]
LAYOUTS = {3: [torch.contiguous_format],
           4: [torch.contiguous_format, torch.channels_last],
           5: [torch.contiguous_format, torch.channels_last_3d]}  # fmt: skip


def any_bits(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """NaN with payloads, infinities and subnormals among them."""
    torch.manual_seed(0)
    if dtype == torch.uint8:
        return torch.randint(0, 256, shape, dtype=torch.uint8)
    return torch.randint(-(2**15), 2**15, shape, dtype=torch.int16).view(dtype)


def bits(x: torch.Tensor) -> torch.Tensor:
    """As numbers of a dtype that holds all of them and rounds coordinates as theirs does."""
    return (x if x.dtype == torch.uint8 else x.view(torch.int16)).float()


def assert_torch_picks_the_same(x: torch.Tensor, **size: Any) -> None:
    expected = F.interpolate(bits(x), **size)
    for layout in LAYOUTS[x.dim()]:
        result = myops.interpolate(x.contiguous(memory_format=layout), **size)
        assert result.is_contiguous(memory_format=layout)
        assert torch.equal(bits(result.contiguous()), expected), (x.shape, layout, size)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("scale", SCALES)
def test_every_row_length(dtype: torch.dtype, scale: float) -> None:
    # Rows shorter than what is moved at once, what is left over, and many channels innermost.
    for channels, width in itertools.product((1, 2, 3, 5, 16, 33), (1, 5, 11, 16, 17, 40, 67)):
        x = any_bits((2, channels, 12, width), dtype)
        assert_torch_picks_the_same(x, size=(12 * 2, max(1, int(width * scale))))
    for width in range(1, 66):
        x = any_bits((1, 9, 3, width), dtype)
        assert_torch_picks_the_same(x, size=(5, max(1, int(width * scale))))


@pytest.mark.parametrize("dtype", DTYPES)
def test_ranks_and_axes_that_stay(dtype: torch.dtype) -> None:
    assert_torch_picks_the_same(any_bits((3, 4, 101), dtype), scale_factor=2.3)
    assert_torch_picks_the_same(any_bits((1, 2, 3, 7, 45), dtype), scale_factor=(2, 1, 1.7))
    for factors in ((1.0, 2.5), (2.5, 1.0), (0.4, 1.0), (3.0, 0.4)):
        assert_torch_picks_the_same(any_bits((2, 3, 19, 43), dtype), scale_factor=factors)
    assert_torch_picks_the_same(any_bits((2, 1, 1, 20), dtype), size=(40, 50))  # as few rows


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("threads", [1, 3])
def test_more_than_one_piece_of_work(dtype: torch.dtype, threads: int) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        # rows that are cut where no vector begins, and pieces that begin with an equal row
        assert_torch_picks_the_same(any_bits((3, 3, 90007), dtype), scale_factor=3)
        assert_torch_picks_the_same(any_bits((1, 3, 150, 331), dtype), scale_factor=3)
        assert_torch_picks_the_same(any_bits((1, 3, 701, 1003), dtype), scale_factor=0.5)
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shift", [0.0, 0.4, -0.4])
def test_outside_of_the_source(dtype: torch.dtype, shift: float) -> None:
    """A roi turned round reads backwards; where it leaves the source, there is nothing to move."""
    x = any_bits((1, 3, 20, 70), dtype)
    for roi in ([shift, 0, 1 + shift, 1], [0, shift, 1, 1 + shift], [1, 1, 0, 0]):
        options: dict[str, Any] = {
            "mode": "nearest", "axes": [2, 3], "sizes": [31, 99], "roi": roi,
            "coordinate_transformation_mode": "tf_crop_and_resize", "extrapolation_value": 3.0,
        }  # fmt: skip
        expected = myops.resize(bits(x), **{**options, "extrapolation_value": -(2.0**20)})
        outside = bits(torch.full((1,), 3.0).to(dtype)).item()
        expected[expected == -(2.0**20)] = outside
        assert shift == 0 or roi == [1, 1, 0, 0] or (expected == outside).any()
        for layout in LAYOUTS[4]:
            result = myops.resize(x.contiguous(memory_format=layout), **options)
            assert torch.equal(bits(result.contiguous()), expected), (roi, layout)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float16, torch.float32, torch.float64])
@pytest.mark.parametrize("channels", [2, 3, 5, 7])
def test_few_channels(dtype: torch.dtype, channels: int) -> None:
    """All channels of a pixel are copied together, also backwards and in rows of one pixel."""
    torch.manual_seed(channels)
    for rows, columns in ((1, 90), (3, 90), (9, 4), (40, 1)):
        x = torch.randint(0, 256, (2, channels, rows, columns)).to(dtype)
        for sizes in ([2, 31], [7, 1], [rows, 33], [50, 99]):
            for roi in ([0, 0, 1, 1], [1, 1, 0, 0], [0, 1, 1, 0]):
                options: dict[str, Any] = {
                    "mode": "nearest", "axes": [2, 3], "sizes": sizes, "roi": roi,
                    "coordinate_transformation_mode": "tf_crop_and_resize",
                }  # fmt: skip
                expected = myops.resize(x.double(), **options).to(dtype)
                result = myops.resize(x.contiguous(memory_format=torch.channels_last), **options)
                assert torch.equal(result, expected), (x.shape, sizes, roi)
