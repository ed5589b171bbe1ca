"""my_add with broadcasting: torch.add with alpha."""

from __future__ import annotations

from functools import partial

import torch

import myops
from benchmarks.case import Candidate
from benchmarks.random_shapes.draw import Add
from benchmarks.random_shapes.problem import Problem, normal

TOLERANCE = {"float32": 1e-6, "float64": 1e-14, "bfloat16": 1e-2, "float16": 1e-3}


def problem(shape: Add, seed: int) -> Problem:
    a = _operand(shape.a, shape.a_order, shape.dtype, seed)
    b = _operand(shape.b, shape.b_order, shape.dtype, seed + 1)
    ours = partial(myops.my_add, a, b)
    candidates = [
        Candidate("myops", ours, lambda c: [c], "allocated", "torch"),
        Candidate("torch", partial(torch.add, b, a, alpha=2), lambda c: [c], "allocated"),
    ]
    expected = 2 * a.double() + b.double()
    return Problem(candidates, [expected], TOLERANCE.get(shape.dtype, 0.0), ours)


def _operand(sizes: tuple[int, ...], order: tuple[int, ...], dtype: str, seed: int) -> torch.Tensor:
    """A tensor whose axes lie in memory in this order."""
    stored = normal([sizes[axis] for axis in order], dtype, seed)
    return stored.permute([order.index(axis) for axis in range(len(order))])
