"""deform_conv2d whose samples are far apart: each has a cell of its own, in windows of X, of its
gradient, and in tables. Images are larger than windows."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from deform_cases import DTYPES, build, call, expected

import myops

# As in deform_cases.CASES: planes and tables of cells; columns of one offset group and of two, some
# of whose channels do not fill a vector; several weight groups; one filter for each channel.
CASES = {
    "few": (2, 3, 4, (3, 2), (1, 1), (1, 0), (1, 1), 1, 1, True, True),
    "many": (1, 37, 5, (1, 2), (1, 1), (0, 0), (1, 1), 1, 1, True, False),
    "offset groups": (1, 40, 3, (2, 1), (2, 1), (0, 0), (1, 1), 1, 2, True, False),
    "weight groups": (1, 36, 8, (1, 2), (1, 2), (0, 0), (1, 1), 2, 1, False, False),
    "depthwise": (1, 20, 20, (2, 1), (1, 1), (0, 0), (1, 1), 20, 1, True, False),
}
SIZE = (110, 170)
TOLERANCES = {"float64": 1e-9, "float32": 1e-3, "float16": 3e-2, "bfloat16": 2e-1}


def made(name: str, dtype: str, size: tuple[int, int] = SIZE) -> tuple[list[Any], dict[str, Any]]:
    torch.manual_seed(len(name))
    tensors, attributes = build(CASES[name], size, "float64")
    # Up to 100 pixels away, in 16-bit types too, and not near integers.
    whole = torch.randint(-100, 100, tensors[2].shape)
    tensors[2] = whole + (0.5 if dtype == "bfloat16" else 0.25)
    return [None if t is None else t.to(getattr(torch, dtype)) for t in tensors], attributes


def derivatives(tensors: list[Any], attributes: dict[str, Any], of: Any, twice: bool) -> list[Any]:
    """The result, gradients of all tensors, and then those of a weighted sum of these."""
    leaves = [None if t is None else t.detach().clone().requires_grad_() for t in tensors]
    present = [t for t in leaves if t is not None]
    result = of(leaves, attributes)
    grad = torch.linspace(-1, 1, result.numel()).reshape(result.shape).to(result.dtype)
    first = torch.autograd.grad(result, present, grad, create_graph=twice)
    if not twice:
        return [result.detach(), *first]
    total = sum((g * g.detach().cos()).sum() for g in first)
    second = torch.autograd.grad(total, present, allow_unused=True)
    return [result.detach(), *(g.detach() for g in first), *(g for g in second if g is not None)]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients(name: str, dtype: str) -> None:
    check_values(*made(name, dtype), dtype)


def check_values(tensors: list[Any], attributes: dict[str, Any], dtype: str) -> None:
    wide = [None if t is None else t.double() for t in tensors]
    twice = dtype == "float64"
    got = derivatives(tensors, attributes, call, twice)
    wanted = derivatives(wide, attributes, expected, twice)
    for number, (one, exact) in enumerate(zip(got, wanted, strict=True)):
        limit = TOLERANCES[dtype] * max(1.0, float(exact.abs().max()))
        assert (one.double() - exact).abs().max() <= limit, number


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", CASES)
def test_equal_bits(name: str, dtype: str) -> None:
    """In channels_last memory, with two threads, and of each tensor's gradient alone."""
    check_bits(*made(name, dtype))


def check_bits(tensors: list[Any], attributes: dict[str, Any]) -> None:
    one = derivatives(tensors, attributes, call, False)
    last = [t.contiguous(memory_format=torch.channels_last) if t is not None and t.ndim == 4 else t
            for t in tensors]  # fmt: skip
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1 if before > 1 else 2)
        others = [derivatives(last, attributes, call, False),
                  derivatives(tensors, attributes, call, False)]  # fmt: skip
    finally:
        torch.set_num_threads(before)
    for other in others:
        assert all(torch.equal(a, b) for a, b in zip(one, other, strict=True))
    leaves = [None if t is None else t.detach().clone().requires_grad_() for t in tensors]
    result = call(leaves, attributes)
    grad = torch.linspace(-1, 1, result.numel()).reshape(result.shape).to(result.dtype)
    present = [t for t in leaves if t is not None]
    for leaf, together in zip(present, one[1:], strict=True):
        (alone,) = torch.autograd.grad(result, [leaf], grad, retain_graph=True)
        assert torch.equal(alone, together)


@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", CASES)
def test_narrow_images(name: str, dtype: str, apart: bool) -> None:
    """Their rows are shorter than a vector, and those of the result follow without a gap."""
    tensors, attributes = made(name, dtype, (250, 5))
    if not apart:
        tensors[2] = torch.rand_like(tensors[2]) * 0.9 - 0.45
    check_values(tensors, attributes, dtype)
    check_bits(tensors, attributes)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("channels", [36, 300])
def test_narrow_images_of_one_task(channels: int, dtype: str) -> None:
    """A task adds to the gradients of several small images, one after the other; with many channels
    it shares them with other tasks."""
    torch.manual_seed(channels)
    case = (40, channels, 4, (1, 2), (1, 1), (0, 0), (1, 1), 1, 1, True, False)
    tensors, attributes = build(case, (9, 3), dtype)
    tensors[2] = torch.randint(-2, 3, tensors[2].shape).to(tensors[2].dtype) + 0.25
    check_values(tensors, attributes, dtype)
    check_bits(tensors, attributes)


@pytest.mark.parametrize("channels", [1, 5, 9, 12, 40])
def test_an_empty_image(channels: int) -> None:
    """Samples beside it read zeros, from windows that are larger than the image."""
    torch.manual_seed(channels)
    for size in ((0, 0), (0, 1), (0, 3), (1, 0)) * 5:
        x, w = torch.zeros(1, channels, *size), torch.randn(3, channels, 3, 3)
        offset = 3 * torch.rand(1, 18, size[0] + 2, size[1] + 2) - 1.5
        offset.requires_grad_()
        result = myops.deform_conv2d(x, offset, w, padding=2)
        assert result.shape == (1, 3, size[0] + 2, size[1] + 2)
        assert not result.any()
        (moved,) = torch.autograd.grad(result.sum(), offset)
        assert not moved.any()


def spread(tensor: torch.Tensor, layout: str) -> torch.Tensor:
    """The same numbers with rows or channels that are not contiguous; what lies between is NaN."""
    if layout == "transposed":
        return tensor.transpose(2, 3).contiguous().transpose(2, 3)
    n, c, h, w = tensor.shape
    wide = torch.full((n, c, h, 3 * w + 1), torch.nan, dtype=tensor.dtype)[..., 1::3]
    return wide.copy_(tensor)


@pytest.mark.parametrize("layout", ["transposed", "gaps"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("groups", [1, 32])
def test_strided_inputs(groups: int, dtype: str, layout: str) -> None:
    """Images are read often enough that a task copies them: from any strides."""
    torch.manual_seed(groups)
    case = (1, 32, 32, (3, 3), (4, 4), (1, 1), (1, 1), groups, 1, True, False)
    tensors, attributes = build(case, (60, 300), "float64")
    tensors[2] = torch.randint(-100, 100, tensors[2].shape) + 0.25
    tensors = [None if t is None else t.to(getattr(torch, dtype)) for t in tensors]

    def gradients(lay: Any) -> list[torch.Tensor]:
        leaves = [None if t is None else lay(t).requires_grad_() for t in tensors[:3]]
        result = call([*leaves, *tensors[3:]], attributes)
        first = torch.autograd.grad(
            result, leaves, lay(result.detach().cos()), create_graph=dtype == "float64"
        )
        if dtype != "float64":
            return [result, *first]
        arriving = [lay(one.detach().cos()) for one in first]
        return [result, *first, *torch.autograd.grad(first, leaves, arriving)]

    for number, (one, other) in enumerate(
        zip(
            gradients(torch.clone),
            gradients(lambda tensor: spread(tensor.detach(), layout)),
            strict=True,
        )
    ):
        assert torch.equal(one, other), number
