"""The difference of two arrays, and whether it exceeds the tolerance."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np

from myops.onnx import fill_values

QUANTILES = (50, 90, 99, 100)

# Relative tolerance by dtype of PyTorch's value: the rounding errors of many layers are below it.
RTOL = {"float64": 1e-9, "float32": 1e-4, "float16": 1e-2, "bfloat16": 5e-2}
_MOST_AXES = 5  # for which all orders are tried
_SMALL = 1e-2  # below this scale, a value counts as rounding noise around zero


@dataclass(frozen=True)
class Tolerance:
    """An element agrees when |onnx - torch| <= atol + rtol * |torch|.

    rtol: None for one by dtype: float64 1e-9, float32 1e-4, float16 1e-2, bfloat16 5e-2,
        integers 0.
    atol: None for rtol times the root mean square of PyTorch's value (at least rtol / 100), so
        that it does not depend on the scale. Fill values (-1e9 at masked places) do not count.
    """

    rtol: float | None = None
    atol: float | None = None

    def of(self, expected: np.ndarray, dtype: str) -> tuple[float, float]:
        """rtol and atol for a value of PyTorch."""
        inexact = dtype in RTOL or expected.dtype.kind in "fc"
        default = RTOL.get(dtype, RTOL["float32"] if inexact else 0.0)
        rtol = default if self.rtol is None else self.rtol
        if self.atol is not None:
            return rtol, self.atol
        return rtol, rtol * max(_scale(expected), _SMALL) if inexact else 0.0


@dataclass(frozen=True)
class ArrayDifference:
    """The difference of two arrays of equal shape.

    Attributes:
        max_abs, max_rel: Largest absolute error, and relative to PyTorch's element (relative to
            atol where that element is smaller).
        cosine: Cosine similarity; None for arrays without numbers or of zeros.
        quantiles: Absolute errors at 50, 90, 99 and 100 percent of the elements.
        relative_rms: Root mean square of the error over that of PyTorch's value.
        worst: The index of the largest error.
        wrong: The number of elements outside the tolerance.
        size: The number of elements.
        rtol, atol: The tolerance.
    """

    max_abs: float
    max_rel: float
    cosine: float | None
    quantiles: dict[int, float]
    relative_rms: float
    worst: tuple[int, ...]
    wrong: int
    size: int
    rtol: float
    atol: float

    @property
    def agrees(self) -> bool:
        return self.wrong == 0


def difference(expected: np.ndarray, got: np.ndarray, rtol: float, atol: float) -> ArrayDifference:
    """Compares ONNX Runtime's array with PyTorch's of the same shape.

    NaN agrees with NaN and an infinity with itself; any other difference to them is infinite.
    """
    if expected.shape != got.shape:
        raise ValueError(f"shapes differ: {expected.shape} and {got.shape}")
    size = expected.size
    if size == 0:
        return ArrayDifference(
            0.0, 0.0, None, dict.fromkeys(QUANTILES, 0.0), 0.0, (), 0, 0, rtol, atol
        )
    a, b = _wide(expected).ravel(), _wide(got).ravel()
    with np.errstate(all="ignore"):
        errors = np.abs(b - a).astype(np.float64)
        same = a == b
        if a.dtype != object and b.dtype != object:
            same |= np.isnan(a) & np.isnan(b)
        errors[same] = 0.0
        errors[np.isnan(errors)] = np.inf
        magnitude = np.abs(a).astype(np.float64)
        allowed = atol + rtol * np.where(np.isfinite(magnitude), magnitude, 0.0)
        wrong = int(np.count_nonzero(errors > allowed))
        floor = max(atol, np.finfo(np.float64).tiny)
        relative = errors / np.maximum(magnitude, floor)
        relative[same | np.isnan(relative)] = 0.0
        relative[np.isinf(errors)] = np.inf
        at = int(np.argmax(errors))
        # "higher": an error that occurs, which also keeps infinities from becoming NaN.
        levels = np.percentile(errors, QUANTILES, method="higher")
        scale = math.sqrt(float(np.mean(np.square(np.where(np.isfinite(magnitude), magnitude, 0)))))
        rms = math.sqrt(float(np.mean(np.square(errors))))
    return ArrayDifference(
        max_abs=float(errors[at]),
        max_rel=float(relative.max()),
        cosine=_cosine(a, b),
        quantiles={level: float(found) for level, found in zip(QUANTILES, levels, strict=True)},
        relative_rms=rms / scale if scale else (math.inf if rms else 0.0),
        worst=tuple(int(i) for i in np.unravel_index(at, expected.shape)),
        wrong=wrong,
        size=size,
        rtol=rtol,
        atol=atol,
    )


def agrees_transposed(expected: np.ndarray, got: np.ndarray, rtol: float, atol: float) -> bool:
    """Whether the arrays agree if the axes of `expected` are put in another order. Axes of length 1
    do not count."""
    expected, got = expected.squeeze(), got.squeeze()
    if expected.size == 0 or sorted(expected.shape) != sorted(got.shape) or got.ndim > _MOST_AXES:
        return False
    orders = itertools.permutations(range(expected.ndim))
    next(orders)  # the same order
    return any(
        difference(moved, got, rtol, atol).agrees
        for moved in map(expected.transpose, orders)
        if moved.shape == got.shape
    )


def coarser(one: str, other: str) -> str:
    """The less precise of two dtypes, which limits how exact a comparison can be."""
    order = ("bfloat16", "float16", "float32", "complex64", "float64", "complex128")
    return next((dtype for dtype in order if dtype in (one, other)), one)


def _wide(array: np.ndarray) -> np.ndarray:
    """The array in a type that can represent differences; integers above 2**53 become Python's."""
    if array.dtype.kind in "iu" and array.dtype.itemsize == 8:
        big = array.size and max(abs(int(array.max())), abs(int(array.min()))) > 2**53
        return array.astype(object) if big else array.astype(np.float64)
    if array.dtype.kind == "c":
        return array.astype(np.complex128)
    return array.astype(np.float64)


def _scale(array: np.ndarray) -> float:
    numbers = np.abs(array).astype(np.float64).ravel()
    numbers = numbers[np.isfinite(numbers) & (numbers < fill_values.least(numbers))]
    return math.sqrt(float(np.mean(np.square(numbers)))) if numbers.size else 0.0


def _cosine(a: np.ndarray, b: np.ndarray) -> float | None:
    if a.dtype == object or b.dtype == object:
        a, b = a.astype(np.float64), b.astype(np.float64)
    if not (np.isfinite(a).all() and np.isfinite(b).all()):
        return None
    # Scaled first, so that squares neither overflow nor vanish.
    largest = float(np.abs(a).max()), float(np.abs(b).max())
    if not all(largest):
        return 1.0 if largest == (0.0, 0.0) else None
    a, b = a / largest[0], b / largest[1]
    found = float(np.real(np.vdot(a, b)) / (np.linalg.norm(a) * np.linalg.norm(b)))
    return max(-1.0, min(1.0, found))
