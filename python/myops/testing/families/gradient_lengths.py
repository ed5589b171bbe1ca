"""First derivatives at other lengths and in every dtype: they repeat on memory with other contents,
and agree with those of float64; these agree with differences in a random direction.

Differences for each element, in families/gradients.py, are only taken at the lengths of a case.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from myops.testing import casts, variations
from myops.testing.bits import arrays_of, given_of
from myops.testing.calls import CallOutcome, refusal
from myops.testing.cases import Case
from myops.testing.derivatives import derive
from myops.testing.families import differences
from myops.testing.memory import fill_freed
from myops.testing.trial import Trial

_LENGTHS = (0, 1, 17)
_FACTOR = 4  # of the tolerance: a gradient has more sums
_DRAWS = 32  # of rounding errors
_REPEAT_CAUSE = (
    "elements of a gradient, or of scratch memory, that are never written, such as those of an "
    "input that no output depends on; or an order of additions that threads decide"
)
_CLOSE_CAUSE = (
    "the gradient in this dtype is wrong at these lengths: an unrolled loop that reads past its "
    "end, a division by the length, or a sum in a type that is too narrow"
)


def vary(trial: Trial) -> None:
    """Runs the derivatives of the derived calls."""
    for label, dtype, case in _derived(trial):
        places = trial.differentiable(case) if _has_float_output(trial, case) else []
        if not places:
            continue
        try:
            found = _repeated(trial, label, case, places)
        except Exception as error:  # of autograd or of a backward
            trial.tally.fail(
                label, refusal(error), "derivatives, as at other lengths", _CLOSE_CAUSE
            )
            return
        if dtype != "float64":
            _compare(trial, label, dtype, case, places, found)
        elif _lengths_of(case) != _lengths_of(trial.case):  # there, gradcheck has taken them
            differences.confirm(trial, label, case, places)


def _lengths_of(case: Case) -> list[torch.Size]:
    return [tensor.shape for tensor in case.tensors]


def _derived(trial: Trial) -> Iterator[tuple[str, str, Case]]:
    """(label, dtype, case) in every real float dtype, at the lengths of the case and others."""
    for _, dtype, case in casts.dtypes(trial.tested, trial.case):
        if getattr(torch, dtype).is_floating_point:
            yield f"in {dtype}", dtype, case
            for axes in trial.axes:
                for length in _LENGTHS:
                    yield f"{axes.label} = {length}, in {dtype}", dtype, axes.at(case, length)
            function = trial.tested.function
            for label, broadcast in variations.broadcast(function, case, trial.axes):
                yield f"{label}, in {dtype}", dtype, broadcast
            if dtype == "float64":
                yield "made large, in float64", dtype, _large(trial, case)


def _large(trial: Trial, case: Case) -> Case:
    """The case so long that work is divided into several pieces, backwards too; as it is where a
    gradient takes long."""

    def derivatives(longer: Case) -> None:
        derive(trial.tested, longer, trial.differentiable(longer), 1)

    return variations.enlarged(trial.tested, case, trial.axes, derivatives)


def _has_float_output(trial: Trial, case: Case) -> bool:
    """Whether the call is accepted and has a float output."""
    if not variations.accepts(trial.tested.function, case):
        return False  # refusals are compared in "errors" and "lengths"
    outputs = given_of(trial.tested.function(*case.args, **case.kwargs))
    return any(map(casts.is_float, outputs))


def _repeated(trial: Trial, label: str, case: Case, places: list[int]) -> list[torch.Tensor]:
    """The derivatives, which must have the same bits on memory with other contents."""
    runs = []
    for fill in (0x00, 0xFF):
        fill_freed([case.tensors[place].nbytes for place in places], fill)
        runs.append(derive(trial.tested, case, places, 1)[0])
    first, again = (CallOutcome(arrays_of(run)) for run in runs)
    trial.compare_bits(
        f"gradients {label}, again after memory was filled with 0xff", "torch", again, first,
        _REPEAT_CAUSE,
    )  # fmt: skip
    return runs[0]


def _compare(
    trial: Trial, label: str, dtype: str, case: Case, places: list[int], found: list[torch.Tensor]
) -> None:
    """Compares with the derivatives of the same numbers in float64, where the results agree too:
    elsewhere rounding chose another branch, such as a neighbour of nearest interpolation."""
    wide = casts.in_dtype(trial.tested, case, places, torch.float64)
    if not variations.accepts(trial.tested.function, wide):
        return
    tolerance = trial.tolerance(dtype)
    results = [_floats(trial.tested.function(*c.args, **c.kwargs)) for c in (case, wide)]
    limit = tolerance * _largest(results[1])
    if any(_far(one, other, limit).any() for one, other in zip(*results, strict=True)):
        return
    wanted = derive(trial.tested, wide, places, 1)[0]
    # Terms of a sum may cancel each other, so that its error is relative to the largest number.
    limit = _FACTOR * tolerance * _largest([*wanted, *results[1]])
    trial.tally.ran += 1
    fars = [_far(one, other, limit) for one, other in zip(found, wanted, strict=True)]
    for seed in range(_DRAWS):
        if not any(far.any() for far in fars):
            return
        moved = derive(trial.tested, _rounded(wide, places, dtype, seed), places, 1)[0]
        fars = [f & ~_far(m, w, limit) for f, m, w in zip(fars, moved, wanted, strict=True)]
    for place, far, one, other in zip(places, fars, found, wanted, strict=True):
        if far.any():
            at = far.nonzero()[0].tolist()
            trial.tally.fail(
                label,
                f"gradient of {case.labels()[place]}: {one[tuple(at)].item()} at {at} "
                f"({int(far.sum())} of {far.numel()} elements)",
                f"{other[tuple(at)].item()}, as in float64",
                _CLOSE_CAUSE,
            )
            return


def _rounded(case: Case, places: list[int], dtype: str, seed: int) -> Case:
    """The case with errors as of rounding. Where they change a derivative much, it jumps, because
    another branch is chosen, such as another element that is the largest."""
    tensors, generator = case.tensors, torch.Generator().manual_seed(seed)
    eps = torch.finfo(getattr(torch, dtype)).eps
    for place in places:
        errors = torch.rand(tensors[place].shape, generator=generator, dtype=torch.float64) * 2 - 1
        tensors[place] = tensors[place] * (1 + 4 * eps * errors)
    return case.having(tensors)


def _floats(result: Any) -> list[torch.Tensor]:
    return [item for item in given_of(result) if item.is_floating_point()]


def _largest(tensors: list[torch.Tensor]) -> float:
    numbers = [item[item.isfinite()].abs().max().item() for item in tensors if item.numel()]
    return max(numbers, default=0.0)


def _far(one: torch.Tensor, other: torch.Tensor, limit: float) -> torch.Tensor:
    """Where `one` differs by more than the limit from a number that its dtype can represent."""
    fits = other.isfinite() & (other.abs() < torch.finfo(one.dtype).max / 2)
    return fits & ~((one.double() - other).abs() <= limit)
