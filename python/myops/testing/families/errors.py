"""Errors: a call that is refused is refused in every runtime, with the same text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch.utils import _pytree as pytree

from myops.testing import casts, variations
from myops.testing.calls import CallOutcome
from myops.testing.cases import Case
from myops.testing.families.shapes import run_fake
from myops.testing.trial import Trial

_FAKE_CAUSE = (
    "the fake kernel does not check what the kernel checks: refuse the call in the shape rule (in "
    "a prototype, by a ValueError in `shape`), which fake kernels run too. If numbers in a tensor "
    "are the reason, such as an index, say so by a Case(..., refused_by_numbers=True)"
)


def refused(trial: Trial) -> None:
    """A call that the op must refuse: `Case(..., refused=text)`."""
    run = trial.run()
    if not run.result.refused:
        trial.tally.ran += 1
        trial.tally.fail(
            "", "torch: no refusal, a result", f"a refusal with the text: {trial.case.refused}",
            "the shape rule lacks a check",
        )  # fmt: skip
        return
    trial.tally.ran += 1
    if trial.case.refused not in run.result.refusal:
        trial.tally.fail(
            "",
            f"torch refuses with: {run.result.refusal}",
            f"a text that contains: {trial.case.refused}",
            "another check comes first, or its text has changed",
        )
    if not run.result.refusal.startswith(f"{trial.tested.name}: "):
        trial.tally.fail(
            "",
            f"torch refuses with: {run.result.refusal}",
            f"a text of the form '{trial.tested.name}: argument: got ..., expected ...'",
            "the op did not check, and something else broke. Check in the shape rule, where every "
            "runtime meets it: with MYOPS_EXPECT in C++, by ValueError in a prototype",
        )
    trial.agree("", trial.case)
    if trial.case.refused_by_numbers:
        _compare_numberless(trial)
    else:
        _compare_fake(trial, "", trial.case, run.result)


def errors(trial: Trial) -> None:
    """Deliberately wrong calls: all runtimes refuse one with the same text, or all accept it."""
    for label, case in _wrong_calls(trial):
        run = trial.agree(label, case)
        _compare_fake(trial, label, case, run.result)


def _compare_fake(trial: Trial, label: str, case: Case, expected: CallOutcome) -> None:
    """Compares the refusal of the fake kernel, which torch.compile and torch.export show."""
    fake = run_fake(trial.tested, case)
    if not expected.refused:
        if fake.refusal:
            trial.tally.fail(
                label,
                f"the fake kernel: refused: {fake.refusal}",
                "what the kernel gives, a result",
                _FAKE_CAUSE,
            )
        return
    trial.tally.ran += 1
    may = trial.settings.numbers_refuse and not fake.refusal
    if may and _numbers_decide(trial, case, expected):
        return  # the kernel sees numbers, a fake one does not
    if expected.refusal not in fake.refusal:
        got = f"refused: {fake.refusal}" if fake.refusal else "no refusal, a result"
        trial.tally.fail(
            label,
            f"the fake kernel: {got}",
            f"a refusal with the text of torch: {expected.refusal}",
            _FAKE_CAUSE,
        )


def _numbers_decide(trial: Trial, case: Case, expected: CallOutcome) -> bool:
    """Whether the op accepts the call with zeros instead of all numbers, or refuses it with another
    text."""
    zeros = case.having([torch.zeros_like(tensor) for tensor in case.tensors])
    found = trial.run(zeros).result
    return not found.refused or found.refusal != expected.refusal


def _compare_numberless(trial: Trial) -> None:
    """Checks that a fake kernel, which does not see numbers, does not refuse because of them."""
    fake = run_fake(trial.tested, trial.case)
    trial.tally.ran += 1
    if fake.refusal:
        trial.tally.fail(
            "",
            f"the fake kernel: refused: {fake.refusal}",
            "a result: the case says that numbers in a tensor are what is wrong "
            "(refused_by_numbers=True)",
            "shapes, dtypes or settings are wrong, too; if they are all that is, leave out "
            "refused_by_numbers",
        )


def _wrong_calls(trial: Trial) -> Iterator[tuple[str, Case]]:
    """Calls with one mistake each: a rank, a length, a dtype or a setting."""
    case, labels = trial.case, trial.case.labels()
    for place, tensor in enumerate(case.tensors):
        yield f"{labels[place]} of rank {tensor.dim() + 1}", case.changed(place, tensor[None])
        if tensor.dim() and tensor.shape[0]:
            yield f"{labels[place]} of rank {tensor.dim() - 1}", case.changed(place, tensor[0])
        for axis in range(tensor.dim()):
            alone = variations.LinkedAxes(((place, axis),), tensor.shape[axis], "")
            longer = alone.at(case, tensor.shape[axis] + 1)
            yield f"axis {axis} of {labels[place]} one longer", longer
        other = _other_dtype(tensor)
        if other is not None:
            changed = casts.cast(tensor, other)
            yield f"{labels[place]} of dtype {str(other)[6:]}", case.changed(place, changed)
    yield from _wrong_settings(case)


def _other_dtype(tensor: torch.Tensor) -> torch.dtype | None:
    """Another dtype of the same kind, so that a public function can still compute with the
    tensor."""
    if tensor.is_complex():
        return torch.complex64 if tensor.dtype == torch.complex128 else torch.complex128
    if tensor.is_floating_point():
        return torch.float32 if tensor.dtype == torch.float64 else torch.float64
    return torch.uint8 if tensor.dtype == torch.bool else None


def _wrong_settings(case: Case) -> Iterator[tuple[str, Case]]:
    for name, value in case.kwargs.items():
        wrong: Any = None
        if isinstance(value, str):
            wrong = f"no_{value}"
        elif isinstance(value, int) and not isinstance(value, bool):
            wrong = -7
        elif isinstance(value, (list, tuple)) and all(isinstance(item, int) for item in value):
            wrong = pytree.tree_map(lambda item: -7, value)
        if wrong is not None:
            varied = Case(case.args, {**case.kwargs, name: wrong}, case.name)
            yield f"{name}={wrong!r}", varied
