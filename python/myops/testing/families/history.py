"""Calls after others of the same shapes: with another attribute, in another dtype, in other memory.

A kernel that keeps what it computed from a call under too small a key, such as the shapes alone, is
right at every length that it sees for the first time. So each comparison here has lengths that no
other check has, which the other call takes first.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from myops._op_parts import AttributeInfo
from myops.testing import casts, variations
from myops.testing.cases import Case
from myops.testing.op_under_test import DispatcherCalls
from myops.testing.trial import Trial

_FIRST_LENGTH = 4
_MOST_ELEMENTS = 1 << 11
_USUAL = {*variations.LENGTHS, 67}
_CAUSE = (
    "the kernel keeps something from call to call under too small a key: a static cache whose key "
    "has the lengths and lacks an attribute, the dtype or the strides"
)


def compare(trial: Trial) -> None:
    """Compares calls with the reference, each after another call of its shapes."""
    if trial.settings.reference is None or trial.tested.info.random:
        return
    own = {length for tensor in trial.case.tensors for length in tensor.shape}
    taken = _USUAL | own | {n + 3 for n in own} | {n + 1 for n in own} | {2 * n for n in own}
    unused = (n for n in itertools.count(_FIRST_LENGTH) if n not in taken)
    for number, (change, length) in enumerate(zip(_changes(trial), unused, strict=False)):
        case = _longer(trial, length, number)
        label = case and change(case)
        if case and label:
            label = f"after a call of the same shapes {label}"
            trial.check_reference(label, case, trial.run(case), _CAUSE)


def _longer(trial: Trial, length: int, first: int) -> Case | None:
    """The case with a length that no call had so far on as many axes as stay small; None if the op
    lets none change. `first`: of these axes, not the same ones in every call."""
    case, count = trial.case, len(trial.axes)
    for place in range(count):
        longer = trial.axes[(first + place) % count].at(case, length)
        small = max(tensor.numel() for tensor in longer.tensors) <= _MOST_ELEMENTS
        if small or case is trial.case:  # (not called here: that would be the first call)
            case = longer
    return None if case is trial.case else case


def _changes(trial: Trial) -> Iterator[Any]:
    """Functions that make the other call, and return what it was; "" if the op refused it."""
    for declared in trial.tested.info.attributes:
        yield lambda case, declared=declared: _with_other_attribute(trial, case, declared)
    for parameter, name, other in casts.dtypes(trial.tested, trial.case):
        dtypes = [tensor.dtype for tensor in other.tensors]
        label = f"in {parameter} = {name}"
        yield lambda case, given=(label, dtypes): _in_other_dtype(trial, case, *given)
    yield lambda case: _in_other_memory(trial, case)


def _with_other_attribute(trial: Trial, case: Case, declared: AttributeInfo) -> str:
    with _Changed(trial, declared) as mode:
        variations.accepts(trial.tested.function, case)
    return mode.label


class _Changed(DispatcherCalls):
    """Calls the op with another value of one attribute."""

    def __init__(self, trial: Trial, declared: AttributeInfo) -> None:
        super().__init__()
        self.trial, self.declared, self.label = trial, declared, ""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        name = self.declared.name
        if self.trial.tested.is_mine(func):
            changed = _other(self.declared, kwargs.get(name, self.declared.default))
            if changed is not None:
                result = func(*args, **{**kwargs, name: changed})
                self.label = f"with {name} = {changed}"
                return result
        return func(*args, **kwargs)


def _other(declared: AttributeInfo, value: Any) -> Any:
    """Another value that the attribute may have; None where there is none nearby."""
    if isinstance(value, bool):
        return not value
    choices = [choice for choice in declared.choices if choice != value]
    if choices:
        return choices[0]
    if isinstance(value, int):
        return value + 1
    if isinstance(value, float):
        return value * 0.75 or 0.5
    if isinstance(value, (list, tuple)) and value and isinstance(value[0], float):
        return [item * 0.75 or 0.5 for item in value]
    return None


def _in_other_dtype(trial: Trial, case: Case, label: str, dtypes: Sequence[torch.dtype]) -> str:
    pairs = zip(case.tensors, dtypes, strict=True)
    other = case.having([casts.cast(tensor, dtype) for tensor, dtype in pairs])
    same = all(tensor.dtype == dtype for tensor, dtype in zip(case.tensors, dtypes, strict=True))
    return label if not same and variations.accepts(trial.tested.function, other) else ""


def _in_other_memory(trial: Trial, case: Case) -> str:
    other = case.having([variations.strided(tensor) for tensor in case.tensors])
    return "strided" if variations.accepts(trial.tested.function, other) else ""
