"""Files of NumPy: .npy and .npz."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping
from typing import Any

import numpy as np

from myops.batch import _store

Column = np.ndarray | list[Any]  # an array with the rows on axis 0, or a value for each row
SHAPE = ".shape"


def kind(path: str) -> str:
    """ "npy", "npz" or "parquet"."""
    return path.lower().rpartition(".")[2]


def load(data: bytes, path: str) -> dict[str, np.ndarray]:
    """The arrays of a .npy (under "") or .npz file.

    Raises:
        ValueError: It is neither, or holds Python objects.
    """
    try:
        found = np.load(io.BytesIO(data), allow_pickle=False)
        return {"": found} if isinstance(found, np.ndarray) else {k: found[k] for k in found.files}
    except Exception as error:  # zipfile has kinds of its own
        raise ValueError(f"{path}: {error or 'got an empty file, expected arrays'}") from error


def headers(path: str) -> dict[str, tuple[tuple[int, ...], np.dtype[Any]]]:
    """Name -> shape and dtype of the arrays in a .npy (under "") or .npz file, read from its
    headers alone.

    Raises:
        FileNotFoundError: It does not exist.
        ValueError: It is damaged, or holds Python objects.
    """
    try:
        with _store.opened(path) as stream:
            if kind(path) == "npy":
                return {"": _header(stream)}
            with zipfile.ZipFile(stream) as archive:
                found = {}
                for name in archive.namelist():
                    with archive.open(name) as inner:
                        found[name.removesuffix(".npy")] = _header(inner)
                return found
    except FileNotFoundError:
        raise
    except Exception as error:  # zipfile has kinds of its own
        raise ValueError(f"{path}: {error or 'got an empty file, expected arrays'}") from error


def _header(stream: Any) -> tuple[tuple[int, ...], np.dtype[Any]]:
    version = np.lib.format.read_magic(stream)
    if version not in ((1, 0), (2, 0)):
        raise ValueError(f"got version {version} of the format, expected 1.0 or 2.0")
    read = getattr(np.lib.format, f"read_array_header_{version[0]}_0")
    shape, _, dtype = read(stream)
    if dtype.hasobject:
        raise ValueError("got Python objects, expected numbers or text")
    return shape, dtype


def npz(columns: Mapping[str, Column]) -> bytes:
    """Columns as the bytes of a .npz. Where rows have different shapes: all elements in one array,
    and the shapes in NAME.shape."""
    made: dict[str, np.ndarray] = {}
    for name, column in columns.items():
        if isinstance(column, np.ndarray):
            made[name] = column
            continue
        arrays = [np.asarray(item) for item in column]
        if len({item.shape for item in arrays}) == 1:
            made[name] = np.stack(arrays)
        elif len({item.ndim for item in arrays}) == 1:
            made[name] = np.concatenate([item.reshape(-1) for item in arrays])
            made[name + SHAPE] = np.array([item.shape for item in arrays], np.int64)
        else:
            raise ValueError(f"output {name!r}: got rows of different ranks, expected one rank")
    return arrays_file({name: text(item) for name, item in made.items()})


def text(array: np.ndarray) -> np.ndarray:
    """Strings as NumPy writes them without pickle."""
    return array.astype(np.str_) if array.dtype == object else array


def arrays_file(arrays: Mapping[str, np.ndarray]) -> bytes:
    """The bytes of a .npz that depend on the arrays alone, not on the clock."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, array in arrays.items():
            inner = io.BytesIO()
            np.lib.format.write_array(inner, np.asanyarray(array), allow_pickle=False)
            archive.writestr(zipfile.ZipInfo(f"{name}.npy"), inner.getvalue())
    return stream.getvalue()


def array_file(array: np.ndarray) -> bytes:
    """The bytes of a .npy."""
    stream = io.BytesIO()
    np.lib.format.write_array(stream, text(array), allow_pickle=False)
    return stream.getvalue()
