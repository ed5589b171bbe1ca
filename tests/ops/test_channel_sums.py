"""The gradient of deform_conv2d's bias: a sum whose bits depend on the shape alone."""

from __future__ import annotations

import importlib
from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

import myops

SHAPES = [
    (1, 1, 600, 600), (4, 2, 130, 90), (1, 16, 64, 64), (2, 37, 9, 5), (64, 33, 1, 1),
    (3, 5, 1, 7), (1, 2, 2100, 1), (0, 3, 4, 4), (2, 3, 0, 4), (2, 0, 3, 3),
]  # fmt: skip
DTYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16]


@pytest.fixture(autouse=True)
def threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def layouts(x: Tensor) -> list[Tensor]:
    n, c, h, w = x.shape
    gaps = torch.full((n, c + 1, h, w + 3), 7.0, dtype=x.dtype)
    gaps[:, :c, :, :w] = x
    return [
        x, x.contiguous(memory_format=torch.channels_last),
        x.transpose(2, 3).contiguous().transpose(2, 3), gaps[:, :c, :, :w],
        x.permute(1, 2, 3, 0).contiguous().permute(3, 0, 1, 2),
    ]  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_bits_in_every_layout_and_number_of_threads(
    shape: tuple[int, int, int, int], dtype: torch.dtype
) -> None:
    torch.manual_seed(sum(shape))
    x = (torch.randn(shape) + 0.1).to(dtype)
    exact = x.double().sum((0, 2, 3))
    results = []
    for count in (1, 2, 3):
        torch.set_num_threads(count)
        results += [torch.ops.myops.channel_sums(view) for view in layouts(x)]
    for result in results:
        assert torch.equal(result, results[0])
    # The error of a float32 sum is that of 64 additions of one partial sum, and of one rounding.
    error = 64 * torch.finfo(torch.float32).eps * x.double().abs().sum((0, 2, 3)) / 16
    rounding = torch.finfo(dtype).eps * exact.abs()
    assert bool(((results[0].double() - exact).abs() <= error + rounding).all())


def test_derivatives() -> None:
    x = torch.randn(2, 3, 4, 5, dtype=torch.float64, requires_grad=True)
    op = importlib.import_module("myops.ops.deform_conv2d")._channel_sums
    assert torch.autograd.gradcheck(op, x, check_forward_ad=True, check_batched_grad=True)
    assert torch.autograd.gradgradcheck(op, x)


@pytest.mark.parametrize("twice", [False, True], ids=["once", "twice"])
def test_the_gradient_of_a_bias(twice: bool) -> None:
    """By the node in C++ and, where gradients are differentiated again, in Python."""
    torch.manual_seed(0)
    x, offset = torch.randn(2, 4, 40, 50), torch.randn(2, 18, 40, 50)
    weight, bias = torch.randn(3, 4, 3, 3), torch.randn(3, requires_grad=True)
    result = myops.deform_conv2d(x, offset, weight, bias, padding=1)
    found = []
    for count in (1, 2, 3):
        torch.set_num_threads(count)
        for grad in layouts(torch.randn(2, 3, 40, 50, generator=torch.Generator().manual_seed(1))):
            (made,) = torch.autograd.grad(
                result, [bias], grad, retain_graph=True, create_graph=twice
            )
            found.append(made)
    assert all(torch.equal(made, found[0]) for made in found)
