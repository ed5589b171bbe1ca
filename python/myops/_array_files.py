"""Reads .npy and .npz files that a user gives, which may be damaged."""

from __future__ import annotations

import os
from typing import Any

import numpy as np


def read_array(path: str | os.PathLike[str], where: str) -> np.ndarray:
    """The array of a .npy file.

    Args:
        where: The beginning of the error, such as "data: ".

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: It is no .npy file, it is damaged, or it holds Python objects.
    """
    found = _read(path, where)
    if not isinstance(found, np.ndarray):
        raise ValueError(f"{where}{path}: got a .npz file, expected .npy, a file of one array")
    return found


def read_arrays(path: str | os.PathLike[str], where: str) -> dict[str, np.ndarray]:
    """The arrays of a .npz file by name; raises as `read_array` does."""
    found = _read(path, where)
    if isinstance(found, np.ndarray):
        raise ValueError(f"{where}{path}: got a .npy file, expected .npz, a file of named arrays")
    return dict(found)


def _read(path: str | os.PathLike[str], where: str) -> Any:
    try:
        found: Any = np.load(path, allow_pickle=False)
        if isinstance(found, np.ndarray):
            return found
        with found:
            return {name: np.asarray(found[name]) for name in found}
    except FileNotFoundError:
        raise FileNotFoundError(f"{where}{path}: no such file") from None
    # zipfile and zlib have errors of their own, and a damaged header may ask for any memory.
    except Exception as error:
        text = str(error) or type(error).__name__
        raise ValueError(
            f"{where}{path}: cannot be read as arrays of NumPy, it may be damaged: {text}"
        ) from error
