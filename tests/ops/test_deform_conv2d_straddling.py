"""Offset groups that straddle weight groups: a block of channels then has filters of two groups."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from deform_cases import build, call, expected


# Channels, outputs, groups, offset groups: 24 channels that share offsets against 16 of a filter,
# 63 against 112, 40 against 60, 9 against 4.
@pytest.mark.parametrize(
    ("channels", "outputs", "groups", "offset_groups"),
    [(48, 3, 3, 2), (48, 6, 3, 2), (1008, 18, 9, 16), (120, 4, 2, 3), (36, 18, 9, 4)],
)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_gradients(
    channels: int, outputs: int, groups: int, offset_groups: int, dtype: str
) -> None:
    case = (2, channels, outputs, (3, 2), (1, 1), (1, 0), (1, 1), groups, offset_groups, True, True)
    tensors, attributes = build(case, size=(5, 4), dtype=dtype)
    leaves = [item.requires_grad_() for item in tensors]
    exact = [item.detach().double().requires_grad_() for item in tensors]

    def gradients(items: list[torch.Tensor], function: Any) -> list[torch.Tensor]:
        result = function(items, attributes)
        torch.manual_seed(1)
        grad = torch.randn(result.shape, dtype=torch.float64).to(result.dtype)
        return list(torch.autograd.grad(result, items, grad))

    limit = 2e-4 if dtype == "float32" else 1e-10
    for got, wanted in zip(gradients(leaves, call), gradients(exact, expected), strict=True):
        torch.testing.assert_close(got.double(), wanted, rtol=limit, atol=limit * 10)
