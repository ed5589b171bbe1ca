"""Integers that use all bits, compared with the reference where it does not overflow itself.

Elsewhere floats become integers with bits to spare for sums, which bytes that are read with the
wrong sign are, too.
"""

from __future__ import annotations

import numpy as np
import torch

from myops.testing import casts
from myops.testing.bits import TOLERANCE, is_float
from myops.testing.cases import Case
from myops.testing.trial import Trial, reference_outputs

_CAUSE = (
    "the kernel reads integers with the wrong sign, or computes in a type that is too narrow for "
    "the largest ones: the reference has this result with integers of 64 bits too"
)


def compare(trial: Trial) -> None:
    """Compares torch with the reference."""
    reference = trial.settings.reference
    for label, case in casts.all_bits(trial.tested, trial.case):
        run = trial.agree(label, case)
        if run.result.refused or reference is None:
            continue
        try:
            expected = reference_outputs(reference, case)
            wide = reference_outputs(reference, _wide(trial, case))
        except Exception:  # "dtypes" compares refusals, with smaller numbers
            continue
        trial.tally.ran += 1
        outputs = zip(run.result.outputs, expected, wide, strict=False)
        for number, (one, other, sure) in enumerate(outputs):
            is_complex = "c" in one.dtype.kind + other.dtype.kind
            if not one.shape == other.shape == sure.shape or is_complex:
                continue
            right = other.astype(np.float64)
            wrong = _far(trial, one, right) & ~_far(trial, sure, right)
            if wrong.any():
                at = tuple(np.argwhere(wrong)[0].tolist())
                which = f"output {number}: " if len(expected) > 1 else ""
                trial.tally.fail(
                    label,
                    f"torch: {which}{one[at].item()!r} at {list(at)} "
                    f"({int(wrong.sum())} of {wrong.size} elements)",
                    f"reference: {other[at].item()!r}",
                    _CAUSE,
                )
                break


def _wide(trial: Trial, case: Case) -> Case:
    """The call with integers of 64 bits in place of floats of the given case."""
    tensors = case.tensors
    for place, before in enumerate(trial.case.tensors):
        if before.is_floating_point() and not tensors[place].is_floating_point():
            tensors[place] = tensors[place].to(torch.int64)
    return case.having(tensors)


def _far(trial: Trial, one: np.ndarray, right: np.ndarray) -> np.ndarray:
    dtype = str(one.dtype)
    limit = trial.tolerance(dtype)
    if is_float(one):
        finite = right[np.isfinite(right)]
        limit = max(limit, TOLERANCE.get(dtype, 0.0)) * float(np.abs(finite).max(initial=0.0))
    with np.errstate(all="ignore"):
        wide = one.astype(np.float64)
        return ~((wide == right) | (np.abs(wide - right) <= limit))
