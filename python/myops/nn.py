"""Modules around the ops."""

from __future__ import annotations

import torch
from torch import Tensor

from myops.ops.my_add import my_add

__all__ = ["MyAdd"]


class MyAdd(torch.nn.Module):
    """`myops.my_add` as a layer: 2a + b.

    Example:
        >>> myops.nn.MyAdd()(torch.ones(2), torch.zeros(2))
        tensor([2., 2.])
    """

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        return my_add(a, b)
