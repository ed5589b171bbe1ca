"""Means and filters over very many elements."""

from __future__ import annotations

import pytest
import torch

import myops


@pytest.mark.parametrize("channels", [1, 3, 16])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.uint8])
def test_a_mean_of_equal_numbers_is_that_number(channels: int, dtype: torch.dtype) -> None:
    for shape, size in (((1, channels, 2, 700_000), (2, 1)), ((1, channels, 500_000, 1), (1, 1))):
        image = torch.full(shape, 200 if dtype == torch.uint8 else 0.5, dtype=dtype)
        for laid in (image, image.contiguous(memory_format=torch.channels_last)):
            result = myops.interpolate(laid, size=size, mode="area")
            expected = torch.full_like(result, image[0, 0, 0, 0])
            torch.testing.assert_close(result, expected, rtol=2e-5, atol=0)


def test_a_mean_is_as_close_as_its_dtype_allows() -> None:
    image = torch.rand(1, 2, 3, 1_000_000, generator=torch.Generator().manual_seed(1))
    result = myops.interpolate(image, size=(3, 1), mode="area")
    expected = image.double().mean(3, keepdim=True)
    torch.testing.assert_close(result.double(), expected, rtol=2e-6, atol=0)


def test_the_gradient_of_a_repeated_element_is_a_long_sum() -> None:
    image = torch.ones(1, 1, 1, 2, requires_grad=True)
    result = myops.interpolate(image, size=(1, 1_000_000), mode="area")
    result.backward(torch.ones_like(result))
    torch.testing.assert_close(image.grad, torch.full_like(image, 500_000.0), rtol=2e-5, atol=0)
