"""How far two results may be apart, and where they exceed it most."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from unittest import mock

import numpy as np

from myops.onnx import fill_values

# An element may differ by this factor times (its magnitude + the mean magnitude without fill
# values). One integer in a thousand may differ: argmax of values that are equal except for
# rounding.
TOLERANCES = {"float64": 1e-6, "float32": 1e-4, "float16": 1e-2, "bfloat16": 5e-2,
              "float8_e4m3fn": 0.13, "float8_e5m2": 0.26}  # fmt: skip
_FEW = 1e-3
_MOST = 2**24  # elements of an output that are compared; comparing takes longer than most runs


@contextlib.contextmanager
def tolerance(value: float | None) -> Iterator[None]:
    """In this context, this is the tolerance of every dtype; None: those in TOLERANCES."""
    given = {} if value is None else dict.fromkeys([*TOLERANCES, "complex64", "complex128"], value)
    with mock.patch.dict(TOLERANCES, given):
        yield


@contextlib.contextmanager
def of_narrowest(computed: Iterable[str]) -> Iterator[None]:
    """In this context, results of wider dtypes have the tolerance of the narrowest dtype in which
    the model computes."""
    least = max((TOLERANCES[item] for item in computed if item in TOLERANCES), default=0.0)
    wider = {name: max(value, least) for name, value in TOLERANCES.items()}
    with mock.patch.dict(TOLERANCES, wider):
        yield


@dataclass
class OutputDifference:
    """The largest difference of two outputs, in units of the allowed difference."""

    output: int
    text: str


def compare(expected: Sequence[Any], got: Sequence[Any]) -> OutputDifference | None:
    """The first output that differs by more than is allowed; None if there is none."""
    if len(expected) != len(got):
        return OutputDifference(
            -1, f"PyTorch returns {len(expected)} tensors, the model {len(got)}"
        )
    for number, (wanted, result) in enumerate(zip(expected, got, strict=True)):
        text = _compare(np.asarray(wanted), result)
        if text:
            return OutputDifference(number, text)
    return None


def other_dtype(wanted: np.ndarray, got: np.ndarray) -> bool:
    """Whether the dtypes differ. NumPy has none for some: bfloat16 and floats of 8 bits."""
    return wanted.dtype != got.dtype and {wanted.dtype.kind, got.dtype.kind} <= set("biuf")


def _compare(wanted: np.ndarray, got: Any) -> str:
    if isinstance(got, list):  # a sequence
        return "" if len(got) == wanted.shape[0] else f"got {len(got)} items in the sequence"
    got = np.asarray(got)
    if wanted.shape != got.shape and wanted.size == got.size == 1:
        return f"shape {list(got.shape)}, PyTorch {list(wanted.shape)}"
    if wanted.shape != got.shape:
        return f"shape {list(got.shape)}, PyTorch {list(wanted.shape)}"
    if wanted.dtype.kind == "c" and got.dtype.kind != "c":
        return ""
    if other_dtype(wanted, got):
        return f"dtype {got.dtype}, PyTorch {wanted.dtype}"
    if wanted.size == 0:
        return ""
    steps = [1] * wanted.ndim
    if wanted.size > _MOST:
        longest = int(np.argmax(wanted.shape))
        steps[longest] = -(-wanted.size // _MOST)
        chosen = tuple(slice(None, None, step) for step in steps)
        wanted, got = wanted[chosen], got[chosen]
    if str(wanted.dtype) not in TOLERANCES and wanted.dtype.kind != "c":
        return _compare_exactly(wanted, got, steps)
    tolerance = TOLERANCES.get(str(wanted.dtype), TOLERANCES["float32"])
    wide = np.complex128 if wanted.dtype.kind == "c" else np.float64
    a, b = wanted.astype(wide), got.astype(wide)
    finite = np.isfinite(a)
    same = finite == np.isfinite(b)
    same &= finite | (a == b) | (np.isnan(a) & np.isnan(b))
    if not same.all():
        place = np.unravel_index(int(np.argmin(same)), same.shape)
        return f"{b[place]} at {_place(place, steps)}, PyTorch {a[place]}"
    size = np.abs(np.where(finite, a, 0))
    apart = np.abs(np.where(finite, b - np.where(finite, a, 0), 0))
    mean = size.mean(where=size < fill_values.least(size))
    allowed = tolerance * (size + mean) + np.finfo(np.float32).tiny
    if not (apart > allowed).any():
        return ""
    place = np.unravel_index(int((apart / allowed).argmax()), apart.shape)
    with np.errstate(over="ignore"):  # next to 0 the relative error may be infinite
        relative = apart[place] / max(size[place], np.finfo(np.float64).tiny)
    return (
        f"error {apart[place]:.3g} (relative {relative:.3g}) at {_place(place, steps)}: "
        f"{b[place]:.6g}, PyTorch {a[place]:.6g}; allowed there: {allowed[place]:.3g}, "
        f"which for {wanted.dtype} is {tolerance:g} of the value and of the mean"
    )


def largest(wanted: np.ndarray, got: np.ndarray) -> float:
    """The largest difference in units of (the element's own size + the mean size)."""
    finite = np.isfinite(wanted) & np.isfinite(got)
    size = np.abs(wanted[finite])
    if not size.size:
        return 0.0
    unit = size + size.mean(where=size < fill_values.least(size)) + np.finfo(np.float64).tiny
    return float((np.abs(got[finite] - wanted[finite]) / unit).max())


def _compare_exactly(wanted: np.ndarray, got: np.ndarray, steps: Sequence[int]) -> str:
    apart = wanted != got
    if apart.mean() <= _FEW:
        return ""
    place = np.unravel_index(int(apart.argmax()), apart.shape)
    return (
        f"{int(apart.sum())} of {apart.size} values differ, first at {_place(place, steps)}: "
        f"{got[place]}, PyTorch {wanted[place]}"
    )


def _place(place: tuple[Any, ...], steps: Sequence[int]) -> str:
    return str([int(index) * step for index, step in zip(place, steps, strict=True)])
