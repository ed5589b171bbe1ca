"""deform_conv2d where one tile, window or block is not enough: values and gradients against the
reference in float64, for offsets that stay near and for offsets that jump across the image."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from deform_cases import arrays, build, call, expected
from runtimes import assert_parity

# As in deform_cases.CASES, then the image's size.
LARGE = [
    ((1, 72, 40, (3, 3), (1, 1), (1, 1), (1, 1), 1, 1, True, True), (61, 83)),
    ((2, 40, 24, (3, 3), (1, 2), (1, 2), (2, 1), 2, 1, False, True), (45, 140)),
    ((1, 24, 7, (5, 5), (2, 1), (2, 2), (1, 1), 1, 3, True, False), (57, 66)),  # two blocks of taps
    ((1, 100, 100, (3, 3), (1, 1), (1, 1), (1, 1), 100, 1, True, True), (50, 64)),  # depthwise
    ((1, 20, 300, (3, 3), (1, 1), (1, 1), (1, 1), 1, 2, True, True), (30, 41)),  # chunks of outputs
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


def test_parity_of_a_large_call() -> None:
    torch.manual_seed(0)
    case, size = LARGE[1]
    tensors, attributes = build(case, size, "float32")
    tensors[2] = tensors[2] * 20
    assert_parity("deform_conv2d", arrays(tensors), attributes)


def close(what: str, got: Any, want: torch.Tensor) -> None:
    error = float((got.detach().double() - want.detach()).abs().max() / want.detach().abs().max())
    assert error < 1e-5, f"{what}: {error}"
