"""First and second derivatives of an op's call, by autograd."""

from __future__ import annotations

from typing import Any

import torch

from myops.testing.bits import given_of
from myops.testing.cases import Case
from myops.testing.casts import is_float
from myops.testing.op_under_test import OpUnderTest


def leaves_of(case: Case, places: list[int]) -> tuple[Case, list[torch.Tensor]]:
    """The case with leaves of autograd as these tensors, and the leaves."""
    tensors = case.tensors
    leaves = []
    for place in places:
        tensors[place] = tensors[place].detach().clone().requires_grad_()
        leaves.append(tensors[place])
    return case.having(tensors), leaves


def total_of(result: Any) -> torch.Tensor:
    """One number that depends on every element of every output."""
    squares = [
        (torch.view_as_real(item) if item.is_complex() else item).square().sum()
        for item in given_of(result)
        if is_float(item)
    ]
    return torch.stack(squares).sum()


def derive(
    tested: OpUnderTest, case: Case, places: list[int], order: int
) -> list[list[torch.Tensor]]:
    """The first and second derivatives of the sum of squares with respect to the leaves."""
    varied, leaves = leaves_of(case, places)
    total = total_of(tested.function(*varied.args, **varied.kwargs))
    found = []
    for number in range(1, order + 1):
        grads = torch.autograd.grad(total, leaves, create_graph=number < order, allow_unused=True)
        pairs = zip(grads, leaves, strict=True)
        found.append([torch.zeros_like(x) if grad is None else grad for grad, x in pairs])
        if number < order:
            total = total_of(found[-1])
    return found


def has_gradient(tested: OpUnderTest, case: Case, place: int) -> bool:
    """Whether autograd gives a gradient of this tensor."""
    varied, leaves = leaves_of(case, [place])
    try:
        total = total_of(tested.function(*varied.args, **varied.kwargs))
        return torch.autograd.grad(total, leaves, allow_unused=True)[0] is not None
    except RuntimeError:  # the result does not depend on it, or has no floats
        return False
