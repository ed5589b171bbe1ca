"""Layouts: strides, channels_last and alignment do not change a result."""

from __future__ import annotations

from typing import Any

import numpy as np

from myops.testing import variations
from myops.testing.calls import OpCall
from myops.testing.families import incoming, strided
from myops.testing.trial import Trial

_CAUSE = (
    "the kernel reads or writes memory as if it were contiguous. Declare how it wants it "
    "(Input::access(Access::Contiguous) is copied for you), or follow tensor.strides, those of "
    "the outputs too: they are channels_last where the first input may be and is, or is a crop of "
    "such memory, and the ranks agree. A torch function of your own calls .contiguous()"
)


def layouts(trial: Trial) -> None:
    """Checks that other strides of the same numbers give the same bits, in torch and in NumPy."""
    for label, case in variations.layouts(trial.case):
        plain = case.having([tensor.contiguous().clone() for tensor in case.tensors])
        expected, actual = trial.run(plain), trial.run(case)
        if expected.result.refused and actual.result.refusal == expected.result.refusal:
            trial.tally.refused.append(actual.result.refusal)
        else:
            trial.compare_bits(label, "torch", actual.result, expected.result, _CAUSE)
    if not trial.tally.failures:  # otherwise longer calls could read far outside of memory
        strided.compare(trial)
    incoming.compare(trial)
    call = trial.call()
    expected_numpy = trial.runtimes.numpy(call)
    for label, change in _NUMPY_LAYOUTS.items():
        changed = OpCall([None if a is None else change(a) for a in call.inputs], call.attributes)
        trial.compare_bits(label, "NumPy", trial.runtimes.numpy(changed), expected_numpy, _CAUSE)


def _backwards(array: np.ndarray) -> np.ndarray:
    if array.ndim == 0:
        return array
    return np.ascontiguousarray(array[..., ::-1])[..., ::-1]


def _swapped(array: np.ndarray) -> np.ndarray:
    """The arrays in the other byte order, if the dtype has one."""
    return array.astype(array.dtype.newbyteorder()) if array.dtype.kind in "iuf" else array


_NUMPY_LAYOUTS: dict[str, Any] = {
    # asfortranarray would add an axis to scalars.
    "Fortran order": lambda array: np.array(array, order="F"),
    "negative strides": _backwards,
    "foreign byte order": _swapped,
}
