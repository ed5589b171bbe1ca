"""Gradients of deform_conv2d in the product of weight groups, offset groups, tiles, dtypes and
layouts of what arrives, against the reference in float64."""

from __future__ import annotations

import pytest
import torch
from deform_cases import DTYPES, build, call, expected

# Of 24 channels: all in one weight group, in a few, one filter a channel. From 8 offset groups on
# gradients are summed by other loops. Every image is a tile of its own.
CHANNELS = 24
TOLERANCES = {"float64": 1e-10, "float32": 2e-5, "float16": 4e-3, "bfloat16": 3e-2}


@pytest.mark.parametrize("offset_groups", [1, 2, 8, 12, 24])
@pytest.mark.parametrize("groups", [1, 2, 3, 12, 24])
def test_gradients(groups: int, offset_groups: int) -> None:
    check(CHANNELS, groups, offset_groups)


def test_blocks_with_channels_of_two_groups() -> None:
    """16 channels a group, 24 an offset group: a block of 16 begins in one group and ends in
    another."""
    check(48, 3, 2)


def check(channels: int, groups: int, offset_groups: int) -> None:
    outputs = channels if groups == channels else 2 * groups
    for seed, (dtype, batch) in enumerate([*((d, 3) for d in DTYPES), ("float32", 1)]):
        torch.manual_seed(seed)
        case = (batch, channels, outputs, (2, 3), (1, 1), (1, 0), (1, 1), groups, offset_groups,
                seed % 3 > 0, False)  # fmt: skip
        tensors, attributes = build(case, (6, 7), dtype)
        # Rounding may have moved a position onto an integer, where the gradient jumps.
        near = (tensors[2] - tensors[2].round()).abs() < 0.02
        tensors[2] = torch.where(near, tensors[2].round() + 0.25, tensors[2])
        wide = [None if t is None else t.double().requires_grad_() for t in tensors]
        result = expected(wide, attributes)
        grad = torch.randn(result.shape).to(tensors[0].dtype)
        present = [t for t in wide if t is not None]
        wanted = torch.autograd.grad(result, present, grad.double())
        names = [n for n, t in zip("XWoBm", tensors, strict=True) if t is not None]
        leaves = [None if t is None else t.detach().requires_grad_() for t in tensors]
        got_result = call(leaves, attributes)
        for layout in (torch.contiguous_format, torch.channels_last):
            arriving = grad.contiguous(memory_format=layout)
            got = torch.autograd.grad(
                got_result, [t for t in leaves if t is not None], arriving, retain_graph=True
            )
            for name, one, exact in zip(names, got, wanted, strict=True):
                limit = TOLERANCES[dtype] * max(1.0, float(exact.abs().max()))
                where = f"gradient of {name}, {dtype}, batch {batch}, {layout}"
                assert (one.double() - exact).abs().max() <= limit, where
