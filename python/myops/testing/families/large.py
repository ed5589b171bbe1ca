"""Calls so long that a kernel divides its work into several pieces, compared with the reference.

At the short lengths of the other checks parallel_for() makes one piece, so a fault in the second
one does not show there, and runtimes and numbers of threads agree on it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch

from myops.testing import casts, variations
from myops.testing.bits import TOLERANCE, is_float, parts, widened
from myops.testing.cases import Case
from myops.testing.trial import Trial, reference_outputs

_FACTOR = 100  # of the tolerance, because a result may be a sum of many terms
_MOVES = 8  # of rounding errors
_CAUSE = (
    "the kernel or the reference is wrong at this length, and right at short ones: a piece of "
    "parallel_for(count, grain, body) after the first, where begin is not 0; partial results that "
    "are not all added up; a sum in a type that is too narrow"
)

Arrays = Sequence[np.ndarray]


def compare(trial: Trial) -> None:
    """Compares torch with the reference where one set of axes is that long."""
    reference = trial.settings.reference
    if reference is None or trial.tested.info.random:
        return  # the numbers of a random op depend on its lengths

    def expected_of(case: Case) -> Arrays:
        return reference_outputs(reference, case)

    for axes in trial.axes:
        case = variations.enlarged(trial.tested, trial.case, [axes], expected_of)
        place, axis = axes.places[0]
        length = case.tensors[place].shape[axis]
        found = trial.run(case).result
        if length == axes.length or found.refused:
            continue  # too slow, or more than the op takes; short lengths are compared anyway
        _compare(trial, f"{axes.label} = {length}", case, found.outputs, expected_of)


def _compare(
    trial: Trial, label: str, case: Case, found: Arrays, expected_of: Callable[[Case], Arrays]
) -> None:
    expected = expected_of(case)
    trial.tally.ran += 1
    if not _alike(found, expected):
        got, wanted = ([list(array.shape) for array in item] for item in (found, expected))
        trial.tally.fail(label, f"torch: shapes {got}", f"reference: {wanted}", _CAUSE)
        return

    def far_from(outputs: Arrays) -> list[np.ndarray]:
        return [_far(trial, *three) for three in zip(outputs, expected, found, strict=True)]

    wrong = far_from(found)
    for seed in range(_MOVES):
        if not any(item.any() for item in wrong):
            return
        # Where the reference jumps, as between two numbers to which an op rounds, the errors of
        # rounding in the kernel decide on which side the result is.
        moved = expected_of(_moved(trial, case, seed))
        if not _alike(moved, expected):
            return
        wrong = [far & ~jump for far, jump in zip(wrong, far_from(moved), strict=True)]
    for one, other, far in zip(found, expected, wrong, strict=True):
        if far.any():
            at = tuple(np.argwhere(far)[0].tolist())
            trial.tally.fail(
                label,
                f"torch: {parts(one)[at].item()!r} at {list(at)} "
                f"({int(far.sum())} of {far.size} elements are too far)",
                f"reference: {parts(other)[at].item()!r}",
                _CAUSE,
            )
            return


def _alike(one: Arrays, other: Arrays) -> bool:
    return [array.shape for array in one] == [array.shape for array in other]


def _far(trial: Trial, one: np.ndarray, expected: np.ndarray, kernels: np.ndarray) -> np.ndarray:
    """Where `one` is too far from the reference for the dtype of the kernel's result."""
    dtype = str(kernels.dtype)
    if not is_float(kernels):
        limit = trial.tolerance(dtype)
        return np.abs(one.astype(np.float64) - expected.astype(np.float64)) > limit
    with np.errstate(all="ignore"):  # numbers that are too large become infinite in both
        left, right = (widened(item.astype(kernels.dtype)) for item in (one, expected))
        finite = right[np.isfinite(right)]
        limit = _FACTOR * max(trial.tolerance(dtype), TOLERANCE.get(dtype, 0.0))
        limit = limit * float(np.abs(finite).max(initial=0.0)) + np.finfo(np.float32).tiny
        close = (left == right) | (np.isnan(left) & np.isnan(right))
        return ~(close | (np.abs(left - right) <= limit))


def _moved(trial: Trial, case: Case, seed: int) -> Case:
    """The case with errors as of rounding."""
    generator = torch.Generator().manual_seed(seed)
    tensors = case.tensors
    fixed = variations.value_places(trial.tested, trial.case)
    for place, tensor in enumerate(tensors):
        if casts.is_float(tensor) and place not in fixed:
            wide = torch.complex128 if tensor.is_complex() else torch.float64
            errors = torch.rand(tensor.shape, generator=generator, dtype=torch.float64) * 2 - 1
            eps = torch.finfo(tensor.dtype).eps
            tensors[place] = tensor.to(wide) * (1 + 4 * eps * errors)
    return case.having(tensors)
