"""Lengths of results that the data decides, for tensors without contents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from myops._description import OpInfo
from myops._op_parts import DecidedLength
from myops._torch import devices


class NoContentsError(RuntimeError):
    """The data decides a length, and a tensor has none."""


def resolved(
    info: OpInfo, inputs: Sequence[Any], shapes: Sequence[Sequence[Any]]
) -> list[list[Any]]:
    """The shapes with a symbolic length for each length that only the kernel knows.

    A `DecidedLength` has a bound and a name; None has neither. Outputs that share a length get the
    same symbol.
    """
    made: dict[str, Any] = {}

    def length(item: Any) -> Any:
        if item is None:
            return _new(info, inputs, DecidedLength())
        if not isinstance(item, DecidedLength):
            return item
        if not item.name:
            return _new(info, inputs, item)
        if item.name not in made:
            made[item.name] = _new(info, inputs, item)
        return made[item.name]

    return [[length(item) for item in shape] for shape in shapes]


def _new(info: OpInfo, inputs: Sequence[Any], item: DecidedLength) -> Any:
    for declared, tensor in zip(info.expanded(len(inputs)).inputs, inputs, strict=True):
        if isinstance(tensor, torch.Tensor) and tensor.is_meta and devices.is_real(tensor):
            raise NoContentsError(
                f"{info.name}: {declared.name}: got a tensor on meta, expected one on cpu: its "
                "numbers decide the shape of the result"
            )
    return torch.library.get_ctx().new_dynamic_size(max=item.most)
