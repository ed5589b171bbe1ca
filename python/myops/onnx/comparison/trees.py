"""Tensors inside the arguments and results of a PyTorch module."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import torch
from torch.utils import _pytree as pytree


def leaves(tree: Any) -> list[tuple[str, Any]]:
    """Every leaf with its place, such as "[0]['box']", also in dataclasses."""
    pairs, _ = pytree.tree_flatten_with_path(tree)
    found = []
    for path, leaf in pairs:
        place = pytree.keystr(path)
        if dataclasses.is_dataclass(leaf) and not isinstance(leaf, type):
            fields = {item.name: getattr(leaf, item.name) for item in dataclasses.fields(leaf)}
            for name, value in fields.items():
                found += [(f"{place}.{name}{inner}", item) for inner, item in leaves(value)]
        else:
            found.append((place, leaf))
    return found


def to_array(tensor: torch.Tensor) -> np.ndarray:
    """A copy that shares no memory; dtypes that NumPy does not have become float32."""
    tensor = tensor.detach()
    if tensor.is_quantized:
        tensor = tensor.dequantize()
    if tensor.layout != torch.strided:
        tensor = tensor.to_dense()
    tensor = tensor.cpu().resolve_conj().resolve_neg()
    if tensor.dtype == torch.bfloat16 or str(tensor.dtype).startswith("torch.float8"):
        tensor = tensor.float()
    return tensor.numpy().copy()


def copied(tree: Any) -> Any:
    """The same structure with copies of the tensors; a tensor that occurs twice is copied once."""
    known: dict[int, torch.Tensor] = {}

    def copy(tensor: torch.Tensor) -> torch.Tensor:
        return known.setdefault(id(tensor), tensor.detach().clone())

    return pytree.tree_map_only(torch.Tensor, copy, tree)
