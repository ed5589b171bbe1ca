"""deform_conv2d of channels_last images whose samples are read from the image itself, because a
window would have too many pixels for each: random layers, against windows and the reference."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
import torch
from deform_cases import build, call, expected
from runtimes import assert_equal_bits, run_numpy, to_numpy

import myops


def layer(number: int) -> tuple[tuple, tuple[int, int], float]:
    """As in deform_cases.CASES, the size of the image, and the scale of the offsets."""
    draw = random.Random(number)
    groups = draw.choice([1, 1, 1, 2, 3])
    # Whole vectors of 16 bytes in every block, or vectors that reach behind a pixel.
    # Gradients of 1x1 kernels have the longest blocks.
    each = draw.choice([16, 20, 32, 52, 3, 5, 13, 67, 150])
    offset_groups = draw.choice([1, 1, 2]) if groups == 1 else 1
    stride = draw.choice([(1, 1), (2, 2), (1, 2)])
    kernel = draw.choice([(1, 1), (1, 1), (3, 2), (3, 3)])
    dilation = draw.choice([(1, 1), (2, 1)])
    padding = ((kernel[0] - 1) * dilation[0], kernel[1] - 1)
    case = (
        draw.choice([1, 2, 5]), each * groups * offset_groups, groups * draw.choice([1, 5, 70]),
        kernel, stride, padding, dilation, groups, offset_groups,
        draw.random() < 0.7, draw.random() < 0.5,
    )  # fmt: skip
    size = (draw.choice([1, 2, 5, 19, 40]), draw.choice([1, 2, 9, 33, 70]))
    return case, size, draw.choice([1, 5, 30, 200])


def channels_last(tensors: list[Any]) -> list[Any]:
    """X alone: offset and mask have their own tests."""
    return [tensors[0].contiguous(memory_format=torch.channels_last), *tensors[1:]]


def derivatives(tensors: list[Any], attributes: dict[str, Any]) -> list[torch.Tensor]:
    """The result, then the gradients of all tensors."""
    leaves = [None if t is None else t.detach().requires_grad_() for t in tensors]
    result = call(leaves, attributes)
    present = [t for t in leaves if t is not None]
    return [result.detach(), *torch.autograd.grad(result.sin().sum(), present)]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("number", range(60))
def test_random_layers(number: int, dtype: str) -> None:
    torch.manual_seed(number)
    case, size, scale = layer(number)
    tensors, attributes = build(case, size, dtype)
    tensors[2] = tensors[2] * scale
    wanted, *wanted_gradients = derivatives(tensors, attributes)
    got, *gradients = derivatives(channels_last(tensors), attributes)
    assert_equal_bits(to_numpy(wanted), to_numpy(got.contiguous()))
    for a, b in zip(wanted_gradients, gradients, strict=True):
        assert_equal_bits(to_numpy(a), to_numpy(b.contiguous()))
    exact = expected([None if t is None else t.double() for t in tensors], attributes)
    limit = 1e-4 if dtype == "float32" else 1e-10
    assert (got.double() - exact).abs().max() <= limit * max(1.0, float(exact.abs().max()))


@pytest.mark.parametrize("value", [float("inf"), float("nan"), -0.0])
def test_masks_that_spoil_what_is_outside(value: float) -> None:
    """Corners outside of the image are zeros that are multiplied too."""
    torch.manual_seed(1)
    case = (1, 16, 4, (1, 1), (1, 1), (1, 1), (1, 1), 1, 1, True, False)
    tensors, attributes = build(case, (6, 7), "float32")
    tensors[2] = tensors[2] * 4
    tensors[4] = torch.full_like(tensors[4], value)
    got = call(channels_last(tensors), attributes)
    assert_equal_bits(to_numpy(call(tensors, attributes)), to_numpy(got.contiguous()))


@pytest.mark.parametrize("axis", [2, 3])
def test_repeated_rows_or_columns(axis: int) -> None:
    """An expanded image, whose rows or columns are the same memory."""
    torch.manual_seed(axis)
    case = (1, 32, 4, (1, 1), (2, 2), (0, 0), (1, 1), 1, 1, True, True)
    tensors, attributes = build(case, (20, 30), "float32")
    x = channels_last(tensors)[0].narrow(axis, 0, 1).expand(tensors[0].shape)
    offset = 9 * tensors[2]
    wanted = call([x.contiguous(), tensors[1], offset, *tensors[3:]], attributes)
    got = call([x, tensors[1], offset, *tensors[3:]], attributes)
    assert torch.equal(wanted, got)


@pytest.mark.parametrize("axes", [(0,), (2,), (3,), (2, 3), (0, 2)])
@pytest.mark.parametrize("channels", [7, 16])
def test_arrays_that_run_backwards(channels: int, axes: tuple[int, ...]) -> None:
    """In PyTorch there are no negative strides, in NumPy there are."""
    draw = np.random.default_rng(channels)
    x = np.flip(draw.standard_normal((2, 12, 15, channels)).transpose(0, 3, 1, 2), axes)
    w = draw.standard_normal((3, channels, 1, 1))
    offset = 3 * draw.standard_normal((2, 2, 12, 15))
    wanted = run_numpy("deform_conv2d", [np.ascontiguousarray(x), w, offset, None, None], {})
    got = run_numpy("deform_conv2d", [x, w, offset, None, None], {})
    assert_equal_bits(wanted[0], got[0])


@pytest.mark.parametrize("channels", [1, 2, 3, 5, 13, 16, 50])
@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("kernel", [(1, 1), (2, 3)])
def test_a_crop_of_a_channels_last_image(
    channels: int, groups: int, kernel: tuple[int, int]
) -> None:
    """Pixels and rows have gaps, and what is in them is not a part of the crop, although vectors of
    the last channels reach it."""
    torch.manual_seed(5)
    whole = torch.full((1, channels * groups + 9, 30, 40), float("nan"))
    whole = whole.contiguous(memory_format=torch.channels_last)
    x = whole[:, 2 : 2 + channels * groups, 4:20, 7:29]
    x.copy_(torch.randn(x.shape))
    w = torch.randn(3 * groups, channels, *kernel)
    offset = 20 * torch.randn(1, 2 * kernel[0] * kernel[1], 17 - kernel[0], 23 - kernel[1])
    wanted = myops.deform_conv2d(x.contiguous(), offset, w)
    assert torch.isfinite(wanted).all()
    assert_equal_bits(to_numpy(wanted), to_numpy(myops.deform_conv2d(x, offset, w).contiguous()))
