"""A random op: torch's generators decide, or a seed, or a key that the program computes."""

from __future__ import annotations

import torch
from torch import Tensor

import myops

_op = myops.op_library("author_ops").define(
    "random_dropout",
    backward="random_dropout_backward",
    shape=lambda inputs, attributes: [inputs[0].shape],
)


def random_dropout(
    x: Tensor,
    p: float = 0.5,
    *,
    seed: int | None = None,
    key: Tensor | None = None,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Drops each element with the probability p, and divides the others by 1 - p."""
    return _op(x, key, p=p, seed=seed, generator=generator)
