"""Kernels whose results lie in the middle of larger memory, in which a write beside them shows."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from myops import _numpy_call
from myops._description import OpInfo
from myops.testing.bits import to_torch
from myops.testing.calls import call_arrays
from myops.testing.op_under_test import Seen, describe

BYTES = 256  # on each side: a few vectors, and aligned for each of them


class Surrounded(TorchDispatchMode):
    """Runs described ops of compiled libraries in NumPy, with BYTES of `fill` on each side of every
    result.

    In torch, such a write would destroy memory that is in use, and end the process later.

    Attributes:
        damage: What was written beside a result; empty if nothing was.
    """

    def __init__(self, fill: int = 0) -> None:
        super().__init__()
        self.fill = fill
        self.damage = ""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        seen = Seen(func, args, kwargs, None)
        info = None if func._schema.is_mutable else describe(func.namespace, seen.name)
        given = [item for item in args if isinstance(item, torch.Tensor)]
        if info is None or info.is_prototype or info.writes or not _have_numbers(given):
            return func(*args, **kwargs)
        inputs, attributes = call_arrays(seen)
        surrounded = (BYTES, self.fill)
        results = _numpy_call.call(info, inputs, attributes, surrounded=surrounded)
        for place, array in enumerate(results):
            self._look_beside(info, place, array)
        made = [torch.empty(0) if array is None else to_torch(array) for array in results]
        return made[0] if len(func._schema.returns) == 1 else tuple(made)

    def _look_beside(self, info: OpInfo, place: int, array: np.ndarray | None) -> None:
        memory = None if array is None else array.base
        if self.damage or not isinstance(memory, np.ndarray) or memory.dtype != np.uint8:
            return  # of strings, for one
        changed = beside(memory, self.fill)
        if changed:
            outputs = info.outputs
            which = f"result {place} ({outputs[place].name})" if len(outputs) > 1 else "the result"
            of = "" if info.onnx_type else f" of {info.name}"
            self.damage = f"a write beside {which}{of}: {changed}"


def beside(memory: Any, fill: int) -> str:
    """The first and last BYTES of the memory that are not as they were, or an empty text."""
    before, after = (int((part != fill).sum()) for part in (memory[:BYTES], memory[-BYTES:]))
    parts = [f"{n} bytes {side} it" for n, side in ((before, "before"), (after, "after")) if n]
    return " and ".join(parts)


def _have_numbers(tensors: list[torch.Tensor]) -> bool:
    """Whether all of them have memory that NumPy can read: not fake, not on a device."""
    return all(type(item) in (torch.Tensor, torch.nn.Parameter) and item.device.type == "cpu"
               for item in tensors)  # fmt: skip
