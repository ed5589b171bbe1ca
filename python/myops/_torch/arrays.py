"""Converts torch tensors and NumPy arrays of every dtype into each other, without a copy if
possible."""

from __future__ import annotations

import numpy as np
import torch

from myops import _dtypes

# All dtypes except strings, of which torch has no tensors.
DTYPES: dict[str, torch.dtype] = {
    name: getattr(torch, name) for name in _dtypes.NAMES if name != "string"
}

_BITS = {1: torch.uint8, 2: torch.int16}  # in which an array of a float that NumPy lacks is passed


def name_of(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def to_numpy(tensor: torch.Tensor) -> np.ndarray:
    """The tensor's memory as an array; a copy of a tensor that is conjugated or negated lazily."""
    tensor = tensor.detach().resolve_conj().resolve_neg()
    name = name_of(tensor.dtype)
    if name in _dtypes.NARROW_FLOATS:
        bits = tensor.view(_BITS[tensor.element_size()])
        return bits.numpy().view(_dtypes.numpy_dtype(name))
    return tensor.numpy()


def to_torch(array: np.ndarray) -> torch.Tensor:
    """The array's memory as a tensor."""
    name = array.dtype.name
    if name in _dtypes.NARROW_FLOATS:
        bits = array.view(np.uint8 if array.itemsize == 1 else np.int16)
        return torch.from_numpy(bits).view(DTYPES[name])
    return torch.from_numpy(array)
