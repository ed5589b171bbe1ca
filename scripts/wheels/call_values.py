"""The values of the calls of op_calls/: random integers, divided. Functions such as the exponential
differ between C libraries."""

from __future__ import annotations

import zlib
from typing import Any

import ml_dtypes
import numpy as np

FLOATS = ("float16", "bfloat16", "float32", "float64")

Call = tuple[str, str, list[Any], dict[str, Any]]  # title, op, inputs, attributes


def values(shape: tuple[int, ...], dtype: str, seed: str) -> np.ndarray:
    """Numbers in [-1, 1), the same on every machine."""
    whole = np.random.Generator(np.random.PCG64(zlib.crc32(seed.encode())))
    numbers = whole.integers(-(2**15), 2**15, shape)
    if np.dtype(numpy_dtype(dtype)).kind in "iu":
        return np.asarray(numbers % 251, dtype)
    return np.asarray(numbers / 2**15, numpy_dtype(dtype))


def numpy_dtype(name: str) -> Any:
    return ml_dtypes.bfloat16 if name == "bfloat16" else name
