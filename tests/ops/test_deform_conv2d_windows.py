"""deform_conv2d where one tile, window or block is not enough: values and gradients against the
reference in float64, for offsets that stay near and for offsets that jump across the image."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from deform_cases import arrays, build, call, expected
from runtimes import assert_equal_bits, assert_parity, run_numpy, to_numpy

import myops

# As in deform_cases.CASES, then the image's size.
LARGE = [
    ((1, 72, 40, (3, 3), (1, 1), (1, 1), (1, 1), 1, 1, True, True), (61, 83)),
    ((2, 40, 24, (3, 3), (1, 2), (1, 2), (2, 1), 2, 1, False, True), (45, 140)),
    ((1, 24, 7, (5, 5), (2, 1), (2, 2), (1, 1), 1, 3, True, False), (57, 66)),  # two blocks of taps
    ((1, 100, 100, (3, 3), (1, 1), (1, 1), (1, 1), 100, 1, True, True), (50, 64)),  # depthwise
    ((1, 20, 300, (3, 3), (1, 1), (1, 1), (1, 1), 1, 2, True, True), (30, 41)),  # chunks of outputs
    ((2, 48, 24, (3, 3), (1, 1), (1, 1), (1, 1), 3, 8, True, True), (40, 53)),  # side by side
    ((1, 64, 20, (3, 3), (1, 1), (1, 1), (1, 1), 1, 8, True, False), (44, 37)),  # the same
]


@pytest.mark.parametrize("spread", [1, 8, 40], ids=["near", "wide", "anywhere"])
@pytest.mark.parametrize("number", range(len(LARGE)))
def test_values_and_gradients(number: int, spread: int) -> None:
    torch.manual_seed(number)
    case, size = LARGE[number]
    tensors, attributes = build(case, size)
    tensors[2] = tensors[2] * spread
    offset = tensors[2]
    tensors[2] = torch.where((offset - offset.round()).abs() < 0.02, offset + 0.05, offset)
    wide = [None if t is None else t.float().double().requires_grad_() for t in tensors]
    narrow = [None if t is None else t.detach().float().requires_grad_() for t in wide]
    want, got = expected(wide, attributes), call(narrow, attributes)
    close("Y", got, want)
    grad = torch.randn(got.shape)
    wants = torch.autograd.grad(want, [t for t in wide if t is not None], grad.double())
    gots = torch.autograd.grad(got, [t for t in narrow if t is not None], grad)
    for index, (g, w) in enumerate(zip(gots, wants, strict=True)):
        close(f"gradient {index}", g, w)


@pytest.mark.parametrize("number", [5, 6])
@pytest.mark.parametrize("spread", [1, 40], ids=["near", "anywhere"])
def test_many_offset_groups_have_one_gradient(number: int, spread: int) -> None:
    """The gradient of W shares a pass with the others where these are wanted: the bits are the
    same, in each layout and for each number of threads, for masks that are not finite too."""
    torch.manual_seed(number)
    case, size = LARGE[number]
    tensors, attributes = build(case, size, "float32")
    x, weight, offset, _, mask = arrays([*tensors[:2], tensors[2] * spread, *tensors[3:]])
    offset[0, :, 3, 5:9] = 1e4  # misses, and so all of a strip
    offset[0, :2, 16:] = 1e4
    mask[0, 4, 3, 6] = mask[0, 0, 20, 6] = float("inf")
    grad = to_numpy(torch.randn(x.shape[0], weight.shape[0], *offset.shape[2:]))
    inputs = [grad, x, weight, offset, mask]
    name = "deform_conv2d_backward"
    first = run_numpy(name, inputs, attributes, threads=1)
    assert not np.isfinite(first[1]).all()
    assert np.isfinite(first[0]).all()
    for one, other in zip(first, run_numpy(name, inputs, attributes, 3), strict=True):
        assert_equal_bits(one, other)
    for index in range(4):
        needs = [int(i == index) for i in range(4)]
        alone = run_numpy(name, inputs, {**attributes, "needs": needs}, 1)
        assert_equal_bits(first[index], alone[index])
    last = [torch.from_numpy(item).contiguous(memory_format=torch.channels_last) for item in inputs]
    assert myops.deform_conv2d  # loads the ops of torch, if no other test did
    results = torch.ops.myops.deform_conv2d_backward(*last, **attributes)
    for one, other in zip(first, results, strict=True):
        assert_equal_bits(one, to_numpy(other.contiguous()))


@pytest.mark.parametrize("number", range(len(LARGE)))
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_layouts_give_equal_bits(number: int, dtype: str) -> None:
    """Where channels are side by side, positions of several offset groups are transposed at a time,
    tile after tile, in rows of whole and of parts of vectors."""
    torch.manual_seed(number)
    case, size = LARGE[number]
    (x, weight, offset, bias, mask), attributes = build(case, size, dtype)
    grad = torch.randn(call([x, weight, offset, bias, mask], attributes).shape).to(x.dtype)
    inputs = [grad, x, weight, offset, mask]
    directions = [None if item is None else torch.randn_like(item) for item in inputs[1:]]
    for op, given in (
        (torch.ops.myops.deform_conv2d, [x, weight, offset, bias, mask]),
        (torch.ops.myops.deform_conv2d_backward, inputs),
        (torch.ops.myops.deform_conv2d_backward_backward, [*inputs, *directions]),
    ):
        plain = op(*given, **attributes)
        last = op(*[channels_last(item) for item in given], **attributes)
        for one, other in zip(as_tuple(plain), as_tuple(last), strict=True):
            assert_equal_bits(to_numpy(one), to_numpy(other.contiguous()))


def channels_last(item: torch.Tensor | None) -> torch.Tensor | None:
    if item is None or item.dim() != 4:
        return item
    return item.contiguous(memory_format=torch.channels_last)


def as_tuple(results: Any) -> tuple[torch.Tensor, ...]:
    return (results,) if isinstance(results, torch.Tensor) else tuple(results)


def test_parity_of_a_large_call() -> None:
    torch.manual_seed(0)
    case, size = LARGE[1]
    tensors, attributes = build(case, size, "float32")
    tensors[2] = tensors[2] * 20
    assert_parity("deform_conv2d", arrays(tensors), attributes)


def close(what: str, got: Any, want: torch.Tensor) -> None:
    error = float((got.detach().double() - want.detach()).abs().max() / want.detach().abs().max())
    assert error < 1e-5, f"{what}: {error}"
