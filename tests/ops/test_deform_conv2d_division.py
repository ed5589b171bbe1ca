"""deform_conv2d of shapes that are divided in unusual ways: many small images, weights that are
larger than buffers, long rows, strides as large as kernels, blocks of many channels."""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest
import torch
from deform_cases import DTYPES, build, call, expected

import myops

# Name: case as in deform_cases.CASES, size, spread of offsets in pixels.
SHAPES: dict[str, tuple[tuple[Any, ...], tuple[int, int], float]] = {
    # Small images that share weights of 750 KB; several offset groups.
    "small images": ((9, 132, 160, (3, 3), (1, 1), (1, 1), (1, 1), 1, 1, True, True), (3, 4), 1),
    "and offset groups": (
        (11, 128, 192, (3, 3), (1, 1), (1, 1), (1, 1), 1, 4, True, False), (4, 3), 1),
    "many outputs": ((5, 48, 1030, (3, 3), (1, 1), (1, 1), (1, 1), 1, 2, False, True), (2, 5), 1),
    "several weight groups": (
        (10, 160, 640, (3, 3), (1, 1), (1, 1), (1, 1), 2, 4, True, True), (3, 3), 1),
    # More blocks of channels than tasks, of several small images.
    "many channels": ((5, 300, 24, (3, 3), (1, 1), (1, 1), (1, 1), 1, 1, True, True), (3, 3), 1),
    "of offset groups": ((4, 560, 9, (3, 1), (1, 1), (1, 0), (1, 1), 1, 2, True, True), (2, 4), 1),
    # Blocks of 64 and 32 channels in the gradient, and one that is not full.
    "1x1": ((4, 150, 20, (1, 1), (1, 1), (0, 0), (1, 1), 1, 1, True, True), (6, 7), 1),
    "1x1 of one image": ((1, 400, 9, (1, 1), (1, 1), (0, 0), (1, 1), 1, 1, True, True), (6, 7), 1),
    "1x3": ((2, 90, 33, (1, 3), (1, 1), (0, 1), (1, 1), 1, 1, True, False), (5, 9), 1),
    "depthwise": ((2, 72, 72, (3, 3), (1, 1), (1, 1), (1, 1), 72, 1, True, True), (7, 6), 1),
    # Tables of cells: long rows, a cell for each sample, many items of a few pixels.
    "long rows": ((2, 3, 2, (1, 3), (1, 1), (0, 2), (1, 1), 1, 1, True, True), (40, 224), 6),
    "strides": ((2, 2, 5, (2, 2), (8, 8), (0, 1), (1, 1), 1, 2, True, True), (70, 90), 1),
    "a cell each": ((1, 4, 3, (5, 5), (1, 1), (2, 2), (1, 1), 1, 2, False, True), (150, 7), 60),
    "many items": ((90, 4, 4, (1, 1), (1, 1), (0, 0), (1, 1), 4, 4, True, True), (7, 2), 1),
}  # fmt: skip
TOLERANCES = {"float64": 1e-10, "float32": 2e-4, "float16": 6e-3, "bfloat16": 5e-2}


def made(case: tuple[Any, ...], size: tuple[int, int], spread: float, dtype: str) -> Any:
    tensors, attributes = build(case, size, "float64")
    offset = tensors[2] * (spread / 2)
    tensors[2] = offset.floor() + 0.25 + 0.5 * (offset - offset.floor()).round()
    tensors[1] /= (tensors[1][0].numel()) ** 0.5
    return [None if t is None else t.to(getattr(torch, dtype)) for t in tensors], attributes


def derivatives(tensors: list[Any], attributes: dict[str, Any], of: Any) -> list[torch.Tensor]:
    leaves = [None if t is None else t.detach().requires_grad_() for t in tensors]
    result = of(leaves, attributes)
    grad = torch.linspace(-1, 1, result.numel()).reshape(result.shape).to(result.dtype)
    present = [t for t in leaves if t is not None]
    return [result.detach(), *torch.autograd.grad(result, present, grad)]


def check(tensors: list[Any], attributes: dict[str, Any], dtype: str) -> None:
    """Against float64; equal bits with two threads and in channels_last memory."""
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        one = derivatives(tensors, attributes, call)
        torch.set_num_threads(2)
        two = derivatives(tensors, attributes, call)
        last = [tensors[0].contiguous(memory_format=torch.channels_last), *tensors[1:]]
        other = derivatives(last, attributes, call)
    finally:
        torch.set_num_threads(before)
    wide = [None if t is None else t.double() for t in tensors]
    for number, (got, exact) in enumerate(
        zip(one, derivatives(wide, attributes, expected), strict=True)
    ):
        limit = TOLERANCES[dtype] * max(1.0, float(exact.abs().max()))
        assert (got.double() - exact).abs().max() <= limit, number
    assert all(torch.equal(a, b) for a, b in zip(one, two, strict=True))
    assert all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", SHAPES)
def test_values_and_gradients(name: str, dtype: str) -> None:
    torch.manual_seed(len(name))
    case, size, spread = SHAPES[name]
    tensors, attributes = made(case, size, spread, dtype)
    check(tensors, attributes, dtype)


@pytest.mark.parametrize("name", SHAPES)
def test_an_image_alone(name: str) -> None:
    """Results of a batch have the bits of those of each of its images."""
    torch.manual_seed(len(name))
    case, size, spread = SHAPES[name]
    (X, W, offset, B, mask), attributes = made(case, size, spread, "float32")
    whole = call([X, W, offset, B, mask], attributes)
    for i in range(len(X)):
        part = slice(i, i + 1)
        alone = [X[part], W, offset[part], B, None if mask is None else mask[part]]
        assert torch.equal(call(alone, attributes)[0], whole[i])


def test_weights_are_packed_for_several_images() -> None:
    """And for each task where images are large."""
    reasons = []
    for batch, size in ((16, (3, 4)), (1, (24, 24))):
        case = (batch, 132, 160, (3, 3), (1, 1), (1, 1), (1, 1), 1, 1, True, True)
        ran = myops.explain(call, *build(case, size, "float32"))
        reasons.append(ran.calls[0].plan[0].reason)
    assert "several images" in reasons[0]
    assert "several images" not in reasons[1]


def shape(choose: random.Random) -> tuple[tuple[Any, ...], tuple[int, int], float]:
    """A small convolution of unusual proportions."""
    while True:
        channels = choose.choice([1, 2, 3, 4, 8, 13, 32, 100, 257])
        divisors = [d for d in range(1, channels + 1) if channels % d == 0]
        groups = choose.choice([1, 1, channels, choose.choice(divisors)])
        outputs = groups * choose.choice([1, 2, 3, max(1, 64 // groups)])
        kernel = choose.choice([(1, 1), (3, 3), (5, 5), (1, 7), (7, 1), (1, 31), (11, 11), (2, 2)])
        dilation = choose.choice([(1, 1), (1, 1), (2, 2), (1, 4)])
        padding = tuple(choose.choice([0, dilation[i] * (kernel[i] - 1) // 2]) for i in (0, 1))
        case = (
            choose.choice([1, 1, 2, 16, 100]), channels, outputs, kernel,
            choose.choice([(1, 1), (1, 1), (2, 2), (1, 2), (8, 8)]), padding, dilation, groups,
            choose.choice([1, 1, choose.choice(divisors), channels]), choose.random() < 0.6,
            choose.random() < 0.6,
        )  # fmt: skip
        size = tuple(choose.choice([1, 2, 3, 4, 7, 14, 33, 100, 500]) for _ in range(2))
        result = [
            (size[i] + 2 * padding[i] - dilation[i] * (kernel[i] - 1) - 1) // case[4][i] + 1
            for i in (0, 1)
        ]
        samples = case[0] * channels * kernel[0] * kernel[1] * max(0, result[0] * result[1])
        if min(result) > 0 and 500 <= samples <= 60_000 and samples // groups * outputs <= 4e6:
            return case, size, choose.choice([0.5, 1, 1, 1, 6, 40])


@pytest.mark.parametrize("number", range(40))
def test_random_shapes(number: int) -> None:
    choose = random.Random(number)
    dtype = next(itertools.islice(itertools.cycle(DTYPES), number, None))
    case, size, spread = shape(choose)
    torch.manual_seed(number)
    tensors, attributes = made(case, size, spread, dtype)
    check(tensors, attributes, dtype)
