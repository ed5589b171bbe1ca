"""A new op in every runtime. Run by test_adding_an_op.py in a copy of the tree."""

from __future__ import annotations

import pytest
import torch

import myops
from myops.testing import Case, Check, checks

X, BIAS = torch.randn(3, 5), torch.randn(5)
CASES = [
    Case((X,), {"alpha": 2.5}, name="plain"),
    Case((X, BIAS), {"alpha": 0.5}, name="bias"),
    Case((X, BIAS[:3]), name="length",
         refused="scaled_tanh: bias: got length 3, expected 5, the last length of x"),
    Case((torch.tensor(1.0),), name="scalar",
         refused="scaled_tanh: x: got rank 0, expected rank 1 or more"),
]  # fmt: skip


def slow(x: torch.Tensor, bias: torch.Tensor | None = None, alpha: float = 1.0) -> torch.Tensor:
    return alpha * torch.tanh(x) + (0 if bias is None else bias)


@pytest.mark.parametrize(
    "check", checks(myops.scaled_tanh, CASES, reference=slow, backend="inductor"), ids=str
)
def test_scaled_tanh(check: Check) -> None:
    check()
