"""Checks of fake kernels: inputs on different devices, and numbers that cannot be read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from myops._description import OpInfo
from myops._op_parts import InputInfo


def check(info: OpInfo, inputs: Sequence[Any]) -> None:
    """Refuses inputs on different devices.

    For a tensor on the CPU together with one on "meta", torch's dispatcher calls the fake kernel.
    Its result has no contents, but could be taken for a real one.

    A tensor whose numbers decide the shape may be on the CPU, whatever the device of the others.

    Raises:
        RuntimeError: Names the argument, its device, and the one expected.
    """
    home: tuple[str, torch.device] | None = None
    described = info.expanded(len(inputs))
    for declared, item in sorted(zip(described.inputs, inputs, strict=True), key=_values_last):
        if not isinstance(item, torch.Tensor):
            continue
        if home is None:
            home = declared.name, item.device
        on_cpu = declared.values and item.device.type == "cpu"
        if item.device != home[1] and not on_cpu:
            raise RuntimeError(
                f"{info.name}: {declared.name}: got a tensor on {item.device}, expected one on "
                f"{home[1]}, where {home[0]} is"
            )


def _values_last(pair: tuple[InputInfo, Any]) -> bool:
    return pair[0].values


def numbers(declared: InputInfo, item: torch.Tensor) -> list[float] | None:
    """The numbers of a tensor that decides a shape, if it has contents (others may be on
    "meta")."""
    known = declared.values and is_real(item) and item.device.type == "cpu" and item.dim() == 1
    return item.tolist() if known else None


def refuse_without_numbers(info: OpInfo, inputs: Sequence[Any]) -> None:
    """Refuses calls whose shapes depend on numbers in a tensor on "meta".

    In a trace such lengths are unknown, but a result on "meta" must have known lengths.
    """
    for declared, item in zip(info.inputs, inputs, strict=True):
        if declared.values and isinstance(item, torch.Tensor) and item.is_meta and is_real(item):
            raise RuntimeError(
                f"{info.name}: {declared.name}: got a tensor on meta, expected one on cpu, or "
                "Python numbers: they decide the shape of the result"
            )


def is_real(item: torch.Tensor) -> bool:
    """Whether a tensor is real, and not a fake one in a trace."""
    return type(item) in (torch.Tensor, torch.nn.Parameter)
