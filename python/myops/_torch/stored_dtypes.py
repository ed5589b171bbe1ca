"""Dtypes that PyTorch only stores: it has hardly any operator for them."""

from __future__ import annotations

import torch

_BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def computed_in(dtype: torch.dtype) -> torch.dtype:
    """The dtype itself, or the dtype in which torch computes if it can only store this one."""
    if dtype in (torch.uint16, torch.uint32, torch.uint64):
        return torch.int64
    return torch.float32 if dtype.is_floating_point and dtype.itemsize == 1 else dtype


def select(tensor: torch.Tensor, axis: int, places: torch.Tensor) -> torch.Tensor:
    """tensor.index_select(axis, places), in every dtype."""
    places = places.to(tensor.device)
    if computed_in(tensor.dtype) == tensor.dtype:
        return tensor.index_select(axis, places)
    bits = tensor.view(_BITS[tensor.itemsize])
    return bits.index_select(axis, places).view(tensor.dtype)
