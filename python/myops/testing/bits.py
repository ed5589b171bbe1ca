"""Arrays and tensors of every dtype, and how two of them are compared."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import torch

from myops._torch import arrays

# Largest error against a reference in float64, relative to the largest element.
TOLERANCE = {
    "float64": 1e-12, "float32": 1e-5, "float16": 2e-3, "bfloat16": 2e-2,
    "float8_e4m3fn": 0.13, "float8_e5m2": 0.26, "complex64": 1e-5, "complex128": 1e-12,
}  # fmt: skip
# For a function body, whose arithmetic is that of ONNX Runtime's own kernels.
BODY_TOLERANCE = {
    "float64": 1e-7, "float32": 1e-4, "float16": 4e-3, "bfloat16": 4e-2,
    "float8_e4m3fn": 0.13, "float8_e5m2": 0.26,
}  # fmt: skip

_WIDTHS = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


def to_torch(array: np.ndarray) -> torch.Tensor:
    """A tensor with its own memory."""
    return arrays.to_torch(array.copy())


def to_numpy(tensor: torch.Tensor) -> np.ndarray:
    """The tensor's memory as an array if NumPy can read it, else a copy."""
    return arrays.to_numpy(tensor)


def arrays_of(result: Any) -> list[np.ndarray]:
    """The outputs of a function, torch's or NumPy's, as arrays with their own memory.

    None, an optional output that is left out, is skipped.
    """
    return [
        np.array(to_numpy(item) if isinstance(item, torch.Tensor) else item)
        for item in given_of(result)
    ]


def given_of(result: Any) -> list[Any]:
    """The outputs of a function, without those that are left out."""
    items = result if isinstance(result, (tuple, list)) else (result,)
    return [item for item in items if item is not None]


def is_float(array: np.ndarray) -> bool:
    """Whether the numbers are real or complex floats."""
    return array.dtype.kind in "fcV"  # V is bfloat16, for one


def widened(array: np.ndarray) -> np.ndarray:
    """Floats as float64; complex numbers as twice as many floats, side by side."""
    if array.dtype.kind == "c":
        return parts(array).astype(np.float64)
    return array.astype(np.float64) if is_float(array) else array


def parts(array: np.ndarray) -> np.ndarray:
    """Complex numbers as real ones with one more axis, of length 2; others as they are."""
    if array.dtype.kind != "c":
        return array
    real = np.dtype(f"f{array.itemsize // 2}")
    # ascontiguousarray gives a scalar an axis, which it needs to be viewed in another dtype.
    return np.ascontiguousarray(array).view(real).reshape(*array.shape, 2)


def different_bits(actual: Sequence[np.ndarray], expected: Sequence[np.ndarray]) -> tuple[str, str]:
    """(got, expected) of the first difference in number, dtype, shape or bits; or empty texts.

    NaNs are equal whatever their payload.
    """
    if len(actual) != len(expected):
        return f"{len(actual)} outputs", f"{len(expected)}"
    for number, (one, other) in enumerate(zip(actual, expected, strict=True)):
        which = f"output {number}: " if len(expected) > 1 else ""
        for trait in ("dtype", "shape"):
            if getattr(one, trait) != getattr(other, trait):
                return (f"{which}{trait} {getattr(one, trait)}", f"{getattr(other, trait)}")
        one, other = parts(one), parts(other)
        width = _WIDTHS[one.dtype.itemsize]
        left = np.ascontiguousarray(one).view(width).reshape(one.shape)
        right = np.ascontiguousarray(other).view(width).reshape(one.shape)
        unequal = left != right
        if is_float(one):
            unequal &= ~(np.isnan(widened(one)) & np.isnan(widened(other)))
        if unequal.any():
            place = tuple(int(i) for i in np.argwhere(unequal)[0])
            got = f"{which}{int(unequal.sum())} of {one.size} elements differ; at {list(place)}: "
            return got + repr(one[place].item()), f"{other[place].item()!r} there"
    return "", ""


def too_far(
    actual: Sequence[np.ndarray],
    expected: Sequence[np.ndarray],
    tolerance: float | Callable[[str], float] | None = None,
) -> tuple[str, str]:
    """(got, expected) of the first output that differs by more than the tolerance, or empty texts.

    Args:
        actual: The outputs to check; their dtypes decide the tolerance.
        expected: The result of the reference, of any dtype.
        tolerance: Largest error, relative to the largest finite element of `expected`; for
            integers the largest difference; or a function of the name of an output's dtype.
            Default: `TOLERANCE` by dtype; integers are equal.
    """
    if len(actual) != len(expected):
        return f"{len(actual)} outputs", f"{len(expected)}"
    for number, (one, other) in enumerate(zip(actual, expected, strict=True)):
        which = f"output {number}: " if len(expected) > 1 else ""
        most = tolerance(str(one.dtype)) if callable(tolerance) else tolerance
        if one.shape != other.shape:
            return f"{which}shape {one.shape}", f"{other.shape}"
        if one.dtype.kind in "iub" and other.dtype.kind in "iub":
            apart = np.abs(one.astype(object) - other.astype(object)) > (most or 0)
            if apart.any():
                place = tuple(int(i) for i in np.argwhere(apart)[0])
                return (f"{which}{one[place].item()} at {list(place)}", f"{other[place].item()}")
            continue
        if "c" in (one.dtype.kind, other.dtype.kind):
            limit = TOLERANCE.get(str(one.dtype), 0.0) if most is None else most
            found = _largest_error(parts(one), widened(other.astype(np.complex128)), limit)
        else:
            found = _largest_error(one, other.astype(np.float64), most)
        if found:
            return which + found[0], found[1]
    return "", ""


def _largest_error(
    one: np.ndarray, other: np.ndarray, tolerance: float | None
) -> tuple[str, str] | None:
    limit = TOLERANCE.get(str(one.dtype), 0.0) if tolerance is None else tolerance
    with np.errstate(all="ignore"):
        narrow = other.astype(one.dtype).astype(np.float64) if is_float(one) else other
    wide = one.astype(np.float64)
    for name, test in (("NaN", np.isnan), ("infinite", np.isinf)):
        unequal = test(wide) != test(narrow)
        if unequal.any():
            place = tuple(int(i) for i in np.argwhere(unequal)[0])
            return (
                f"{wide[place]} at {list(place)} ({int(unequal.sum())} of {one.size} elements)",
                f"{other[place]}: what is {name} must be so in both",
            )
    flipped = np.isinf(wide) & (wide != narrow)
    if flipped.any():
        place = tuple(int(i) for i in np.argwhere(flipped)[0])
        return f"{wide[place]} at {list(place)}", f"{other[place]}"
    finite = np.isfinite(wide)
    if not finite.any():
        return None
    scale = float(np.abs(other[finite]).max())
    error = np.where(finite, np.abs(np.where(finite, wide, 0) - np.where(finite, other, 0)), 0)
    # Subnormal results cannot be more precise than the smallest normal number.
    floor = float(ml_dtypes.finfo(one.dtype).tiny) if is_float(one) else 0.0
    if not error.max() > limit * scale + floor:
        return None
    place = tuple(int(i) for i in np.unravel_index(int(error.argmax()), error.shape))
    share = error.max() / max(scale, floor)
    return (
        f"{float(wide[place])!r} at {list(place)}, off by {share:.3g} of the "
        f"largest element ({int((error > limit * scale + floor).sum())} of {one.size} elements "
        "are too far)",
        f"{float(other[place])!r}, within {limit:g} of the largest element",
    )
