"""Several .npz files put into one, or into a .npy, a few megabytes at a time."""

from __future__ import annotations

import math
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import IO, Any

import numpy as np

from myops.batch import _arrays
from myops.batch._arrays import SHAPE

_BYTES = 4 * 2**20  # of an array that are copied at once


@dataclass(frozen=True)
class _Joined:
    """An array of all rows.

    shape, dtype: Its own.
    flat: Whether it holds all elements, because rows have different shapes.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    flat: bool


def _joined(heads: Sequence[Mapping[str, Any]], name: str) -> _Joined:
    """What becomes of an array of the parts, by the headers of all of them."""
    found = [head[name] for head in heads]
    dtype = np.result_type(*[dtype for _, dtype in found])
    tails = {shape[1:] for shape, _ in found}
    flat = len(tails) > 1 or any(name + SHAPE in head for head in heads)
    if not flat:
        return _Joined((sum(shape[0] for shape, _ in found), *tails.pop()), dtype, False)
    ranks = {head[name + SHAPE][0][1] if name + SHAPE in head else len(head[name][0]) - 1
             for head in heads}  # fmt: skip
    if len(ranks) > 1:
        raise ValueError(f"output {name!r}: got rows of different ranks, expected one rank")
    return _Joined((sum(int(np.prod(shape)) for shape, _ in found),), dtype, True)


def npz(parts: Sequence[str], stream: IO[bytes]) -> None:
    """Writes the arrays of all parts into one .npz, which does not depend on how many there are.

    Raises:
        ValueError: An array has rows of different ranks.
    """
    heads = [_arrays.headers(path) for path in parts]
    names = [name for name in heads[0] if name.removesuffix(SHAPE) not in heads[0] or
             not name.endswith(SHAPE)]  # fmt: skip
    with zipfile.ZipFile(stream, "w") as archive:
        for name in names:
            made = _joined(heads, name)
            with _member(archive, name) as inner:
                _write(inner, made.shape, made.dtype, (array for array, _ in _read(parts, name)))
            if made.flat:
                shapes = [shape for _, shape in _read(parts, name)]
                rows = np.concatenate(shapes).astype(np.int64)
                with _member(archive, name + SHAPE) as inner:
                    _write(inner, rows.shape, rows.dtype, [iter([rows])])


def npy(parts: Sequence[str], name: str, stream: IO[bytes]) -> None:
    """Writes the array of one name into a .npy.

    Raises:
        ValueError: Its rows have different shapes.
    """
    made = _joined([_arrays.headers(path) for path in parts], name)
    if made.flat:
        raise ValueError(
            f"output {name!r}: got rows of different shapes, which a .npy cannot hold; expected "
            "an output that ends in .npz or .parquet, or a folder"
        )
    _write(stream, made.shape, made.dtype, (array for array, _ in _read(parts, name)))


def _member(archive: zipfile.ZipFile, name: str) -> Any:
    return archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True)


def _read(parts: Sequence[str], name: str) -> Iterator[tuple[Iterator[np.ndarray], np.ndarray]]:
    """An array of each part, some rows at a time, and the shape of each of its rows."""
    for path in parts:
        arrays = _arrays.stored(path)
        array = arrays[name]
        if name + SHAPE in arrays:
            shapes = arrays[name + SHAPE]
            yield _pieces(array), shapes.rows(0, shapes.shape[0])
        else:
            shape = np.array([array.shape[1:]] * array.shape[0], np.int64)
            yield _pieces(array), shape.reshape(array.shape[0], -1)


def _pieces(array: _arrays.Stored) -> Iterator[np.ndarray]:
    each = math.prod(array.shape[1:]) * array.dtype.itemsize
    step = max(1, _BYTES // max(1, each))
    return (array.rows(at, step) for at in range(0, array.shape[0], step))


def _write(
    stream: Any,
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    arrays: Iterable[Iterator[np.ndarray]],
) -> None:
    head = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(stream, head)
    for array in arrays:
        for piece in array:
            stream.write(np.ascontiguousarray(piece, dtype).tobytes())
