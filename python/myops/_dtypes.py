"""The dtypes of tensors, by the names that csrc/include/myops/dtype.h gives them. Needs NumPy,
never torch."""

from __future__ import annotations

import numpy as np

# In the order of DType in C++.
NAMES = (
    "float16", "bfloat16", "float32", "float64", "uint8", "int32", "int64", "bool", "int8", "int16",
    "uint16", "uint32", "uint64", "complex64", "complex128", "float8_e4m3fn", "float8_e5m2",
    "string",
)  # fmt: skip

# Floats that NumPy does not have, but ml_dtypes. float32 can represent each of their values.
NARROW_FLOATS = ("bfloat16", "float8_e4m3fn", "float8_e5m2")

COMPLEX = ("complex64", "complex128")


def numpy_dtype(name: str) -> np.dtype:
    """The NumPy dtype of that name, that of ml_dtypes where NumPy has none; strings are objects."""
    if name == "string":
        return np.dtype(object)
    if name in NARROW_FLOATS:
        import ml_dtypes

        return np.dtype(getattr(ml_dtypes, name))
    return np.dtype(name)


def name_of(array: np.ndarray) -> str:
    """The name of the array's dtype; "string" for arrays of str objects too."""
    return "string" if array.dtype.kind in "OUT" else array.dtype.name


def is_integer(name: str) -> bool:
    """Whether the dtype is one of integers; bool is not."""
    return name.startswith(("int", "uint"))


def one_of(names: tuple[str, ...] | list[str]) -> str:
    """ "float16, float32 or float64", as messages of the kernels say it."""
    return " or ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
