"""Borders: a kernel reads and writes nothing beside its tensors.

Inputs lie in the middle of larger memory, whose other bytes differ from call to call, and so does
the result of an op that accepts `out=`.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch

from myops.testing import casts, variations
from myops.testing.bits import arrays_of, different_bits
from myops.testing.cases import Case
from myops.testing.op_under_test import DispatcherCalls
from myops.testing.trial import Trial

_BYTES = 256  # on each side: a few vectors, and aligned for each of them
_FILLS = (0x00, 0xFF, 0x7F)  # 0, NaN, large numbers
_OVERLOADS = {"default": "out", "values": "values_out"}
_READ_CAUSE = (
    "the kernel reads outside of an input, before its first or after its last element: an index "
    "that is not checked at a border, or a vector that is loaded behind the end"
)
_WRITE_CAUSE = (
    "the kernel writes outside of its memory: an unrolled loop without a rest, a length of another "
    "tensor. This destroys memory of others, so no other check of this op was run"
)


def inside(trial: Trial) -> bool:
    """Whether it is safe to call the op: it was not seen to write outside of its memory."""
    if trial.tested.info.is_prototype:
        return True  # NumPy checks indices
    trial.tally.ran += 1
    for label, case in _varied(trial):
        if not variations.accepts(trial.tested.function, case):
            continue  # refusals are compared elsewhere
        if not (_reads_inside(trial, label, case) and _writes_inside(trial, label, case)):
            break
    return not trial.tally.is_unsafe


def _varied(trial: Trial) -> Iterator[tuple[str, Case]]:
    """The case first: finding the axes that may change takes calls, too."""
    yield "", trial.case
    for parameter, name, case in casts.dtypes(trial.tested, trial.case):
        yield f"{parameter} = {name}", case
    yield from variations.lengths(trial.case, trial.axes)


def _surrounded(tensor: torch.Tensor, fill: int) -> tuple[torch.Tensor, torch.Tensor]:
    """(the memory, the same numbers in the middle of it)."""
    memory = torch.full((tensor.nbytes + 2 * _BYTES,), fill, dtype=torch.uint8)
    plain = tensor.detach().resolve_conj().resolve_neg()
    middle = memory[_BYTES : _BYTES + tensor.nbytes].view(plain.dtype)
    return memory, middle.view(plain.shape).copy_(plain)


def _changed(memory: torch.Tensor, fill: int) -> str:
    """The bytes beside the tensor in the middle that are not as they were, or an empty text."""
    before = int((memory[:_BYTES] != fill).sum())
    after = int((memory[-_BYTES:] != fill).sum())
    parts = [f"{n} bytes {side} it" for n, side in ((before, "before"), (after, "after")) if n]
    return " and ".join(parts)


def _reads_inside(trial: Trial, label: str, case: Case) -> bool:
    first: list[np.ndarray] | None = None
    for fill in _FILLS:
        places = [_surrounded(tensor, fill) for tensor in case.tensors]
        moved = case.having([tensor for _, tensor in places])
        found = arrays_of(trial.tested.function(*moved.args, **moved.kwargs))
        for name, (memory, _) in zip(case.labels(), places, strict=True):
            changed = _changed(memory, fill)
            if changed:
                _unsafe(trial, label, f"a write beside {name}: {changed}")
                return False
        first = first or found
        got, wanted = different_bits(found, first)
        if got:
            where = f"{label}, bytes beside the inputs = {fill:#04x}".lstrip(", ")
            trial.tally.fail(where, f"torch: {got}", wanted, _READ_CAUSE)
            return False
    return True


def _writes_inside(trial: Trial, label: str, case: Case) -> bool:
    with DispatcherCalls() as seen:
        trial.tested.function(*case.args, **case.kwargs)
    inner = next(item for item in seen if trial.tested.is_mine(item.overload))
    packet = getattr(getattr(torch.ops, trial.tested.namespace), trial.tested.name)
    name = _OVERLOADS.get(inner.overload._overloadname, "")
    result = inner.result
    if name not in packet.overloads() or not isinstance(result, torch.Tensor):
        return True
    for fill in _FILLS:
        memory, middle = _surrounded(torch.empty(result.numel(), dtype=result.dtype), fill)
        out = middle.as_strided(result.shape, result.stride())
        getattr(packet, name)(*inner.args, **inner.kwargs, out=out)
        changed = _changed(memory, fill)
        if changed:
            _unsafe(trial, label, f"a write beside the result: {changed}")
            return False
    return True


def _unsafe(trial: Trial, label: str, got: str) -> None:
    trial.tally.is_unsafe = True
    trial.tally.fail(label, got, "no write outside of the tensors", _WRITE_CAUSE)
