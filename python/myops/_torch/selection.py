"""Elements of tensors in any dtype, also those for which PyTorch has no kernel."""

from __future__ import annotations

import torch

_BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
# For these PyTorch stores numbers and has hardly any operator.
_UNSIGNED = (torch.uint16, torch.uint32, torch.uint64)


def select(tensor: torch.Tensor, axis: int, places: torch.Tensor) -> torch.Tensor:
    """tensor.index_select(axis, places), in every dtype."""
    places = places.to(tensor.device)
    if tensor.dtype in _UNSIGNED or (tensor.dtype.is_floating_point and tensor.itemsize == 1):
        bits = tensor.view(_BITS[tensor.itemsize])
        return bits.index_select(axis, places).view(tensor.dtype)
    return tensor.index_select(axis, places)
