"""Borders: a kernel, or one of its gradient, reads and writes nothing beside its tensors.

Results lie in the middle of larger memory, and so do inputs, beside other bytes in each call.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch

from myops import _libraries
from myops.testing import casts, variations
from myops.testing.bits import arrays_of, different_bits
from myops.testing.cases import Case
from myops.testing.derivatives import derive
from myops.testing.surrounded import BYTES, Surrounded, beside
from myops.testing.trial import Trial

_FILLS = (0x00, 0xFF, 0x7F)  # 0, NaN, large numbers
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
    order = trial.settings.gradients if _has_gradient_kernel(trial) else 0
    for label, case in _varied(trial):
        if not _writes_inside(trial, label, case, order):
            break
        if not variations.accepts(trial.tested.function, case):
            continue  # refusals are compared elsewhere
        if not _reads_inside(trial, label, case):
            break
    return not trial.tally.is_unsafe


def _has_gradient_kernel(trial: Trial) -> bool:
    """Whether the library has kernels without a node, of which the gradient may be one."""
    return any(
        not info.onnx_type and not info.writes and not info.is_prototype
        for library in _libraries.known()
        if library.namespace == trial.tested.namespace
        for info in library.ops.values()
    )


def _varied(trial: Trial) -> Iterator[tuple[str, Case]]:
    """The case first: finding the axes that may change takes calls, too."""
    yield "", trial.case
    with Surrounded() as mode:
        varied = [(f"{p} = {n}", case) for p, n, case in casts.dtypes(trial.tested, trial.case)]
        varied += trial.lengths
    if mode.damage:
        _unsafe(trial, "at a length near that of the case", mode.damage)
        return
    yield from varied


def _surrounded(tensor: torch.Tensor, fill: int) -> tuple[torch.Tensor, torch.Tensor]:
    """(the memory, the same numbers in the middle of it)."""
    memory = torch.full((tensor.nbytes + 2 * BYTES,), fill, dtype=torch.uint8)
    plain = tensor.detach().resolve_conj().resolve_neg()
    middle = memory[BYTES : BYTES + tensor.nbytes].view(plain.dtype)
    return memory, middle.view(plain.shape).copy_(plain)


def _reads_inside(trial: Trial, label: str, case: Case) -> bool:
    first: list[np.ndarray] | None = None
    for fill in _FILLS:
        places = [_surrounded(tensor, fill) for tensor in case.tensors]
        moved = case.having([tensor for _, tensor in places])
        found = arrays_of(trial.tested.function(*moved.args, **moved.kwargs))
        for name, (memory, _) in zip(case.labels(), places, strict=True):
            changed = beside(memory, fill)
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


def _writes_inside(trial: Trial, label: str, case: Case, order: int) -> bool:
    """Runs the kernels in NumPy, before torch runs them: here a wrong write damages nothing."""
    for fill in _FILLS[:2]:  # a kernel may write one of these two
        with Surrounded(fill) as mode:
            try:
                trial.tested.function(*case.args, **case.kwargs)
                places = trial.differentiable(case) if order and not mode.damage else []
                if places:
                    derive(trial.tested, case, places, order)
            except Exception:  # "errors" and "gradients" report refusals
                pass
        if mode.damage:
            _unsafe(trial, label, mode.damage)
            return False
    return True


def _unsafe(trial: Trial, label: str, got: str) -> None:
    trial.tally.is_unsafe = True
    trial.tally.fail(label, got, "no write outside of the tensors", _WRITE_CAUSE)
