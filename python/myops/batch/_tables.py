"""Files with many rows: .npy, .npz and Parquet, read a few rows at a time."""

from __future__ import annotations

import functools
import math
import threading
from collections.abc import Callable, Sequence
from typing import Any

from myops.batch import _arrays, _parquet, _store
from myops.batch._arrays import SHAPE, Column, kind

_SMALL_BYTES = 16 * 2**20  # of a row group of Parquet that is read whole
_SMALL_GROUPS = 4  # in memory
_PLACE_BYTES = 2**20  # of a larger one that are read at once


def names(path: str) -> list[str]:
    """The columns of a file; that of a .npy is "".

    Raises:
        ValueError: Two have one name, or the file is damaged.
    """
    if kind(path) != "parquet":
        return list(_arrays.headers(path))
    with _parquet.opened(path) as file:
        return _names(path, file)


def _names(path: str, file: Any) -> list[str]:
    found = file.schema_arrow.names
    twice = [name for name in found if found.count(name) > 1]
    if twice:
        raise ValueError(f"{path}: got two columns {twice[0]!r}, expected different names")
    return [name for name in found if not name.endswith(SHAPE)]


def rows(path: str, wanted: Sequence[str]) -> int:
    """How many rows a file has.

    Args:
        wanted: Columns that it must have.

    Raises:
        ValueError: A column is missing, its arrays have different lengths, or it is damaged.
    """
    if kind(path) == "parquet":
        with _parquet.opened(path) as file:
            _check_columns(path, _names(path, file), wanted)
        return _parquet.rows(path)
    shapes = {name: shape for name, (shape, _) in _arrays.headers(path).items()}
    if list(shapes) != [""] or len(wanted) > 1:
        _check_columns(path, list(shapes), wanted)
    lengths = {shape[0] if shape else None for shape in shapes.values()}
    if len(lengths) != 1 or None in lengths:
        listed = ", ".join(f"{name or 'the array'} {list(shape)}" for name, shape in shapes.items())
        raise ValueError(
            f"{path}: got {listed or 'no array'}, expected arrays of one length on axis 0, which "
            "counts the rows"
        )
    if kind(path) == "npz" and not _store.is_remote(path):  # else it is copied, and compared then
        _arrays.check_sums(path)
    return int(lengths.pop() or 0)


def _check_columns(path: str, have: Sequence[str], wanted: Sequence[str]) -> None:
    missing = [name for name in wanted if name not in have]
    if missing:
        raise ValueError(
            f"{path}: got no column {missing[0]!r}, expected it as in the other files; it has "
            f"{', '.join(map(repr, have)) or 'none'}"
        )


def row_bytes(path: str, wanted: Sequence[str]) -> int:
    """About how many bytes a row has in memory."""
    if kind(path) == "parquet":
        return _parquet.row_bytes(path, _parquet.with_shapes(wanted, _parquet.schema(path).names))
    return sum(dtype.itemsize * math.prod(shape[1:])
               for shape, dtype in _arrays.headers(path).values())  # fmt: skip


class _Recent:
    """The last few things that were read, for threads that work on neighbouring rows."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._found: dict[Any, tuple[threading.Lock, list[Any]]] = {}

    def get(self, key: Any, make: Callable[[], Any]) -> Any:
        with self._lock:
            fresh: tuple[threading.Lock, list[Any]] = threading.Lock(), []
            lock, value = self._found.pop(key, fresh)
            self._found[key] = lock, value
            while len(self._found) > self._most:
                del self._found[next(iter(self._found))]
        with lock:
            if not value:
                value.append(make())
        return value[0]


class Reader:
    """Reads rows of tables, for all threads of a run."""

    def __init__(self) -> None:
        self._arrays = _Recent(64)
        self._groups = _Recent(64)
        self._small = _Recent(_SMALL_GROUPS)
        self._own = threading.local()

    def read(
        self, path: str, wanted: Sequence[str], first: int, count: int, keep: Sequence[str] = ()
    ) -> tuple[dict[str, Column], Any]:
        """Consecutive rows of a file.

        Args:
            wanted: Columns.
            first: The first row.
            count: How many.
            keep: Columns that are not looked at.

        Returns:
            The wanted columns, and a pyarrow.Table with those to keep; None where there are none.

        Raises:
            OSError, ValueError: The file has changed since the run began, or is damaged.
        """
        if kind(path) == "parquet":
            table = self._rows(path, (*wanted, *keep), first, count)
            names = _parquet.with_shapes(keep, table.column_names)
            kept = table.select(names) if keep else None
            return {name: _parquet.column(table, name) for name in wanted}, kept
        arrays = self._arrays.get(path, lambda: _arrays.stored(path))
        found = {name: arrays[name if name in arrays else ""].rows(first, count)
                 for name in (*wanted, *keep)}  # fmt: skip
        kept = _parquet.part_table({name: found[name] for name in keep}) if keep else None
        return {name: found[name] for name in wanted}, kept

    def _rows(self, path: str, wanted: Sequence[str], first: int, count: int) -> Any:
        """Rows of a Parquet file, of which only the row groups that hold them are read.

        Small groups are read whole and shared by the threads. In a large one each thread has a
        place of its own, which goes forward only, as the rows that it is asked for do.
        """
        groups = self._groups.get((path, *wanted), lambda: _parquet.groups(path, wanted))
        parts, start = [], 0
        for number, (length, size) in enumerate(groups):
            low, high = max(first, start), min(first + count, start + length)
            if low < high:
                key = path, number, *wanted
                if size <= _SMALL_BYTES:
                    make = functools.partial(_parquet.group, path, number, wanted)
                    parts.append(self._small.get(key, make).slice(low - start, high - low))
                else:
                    place = getattr(self._own, "place", None)
                    if place is None or place.key != key or place.at > low - start:
                        rows = max(1, _PLACE_BYTES * length // size)
                        place = self._own.place = _parquet.RowGroupCursor(key, rows)
                    parts.append(place.take(low - start, high - low))
            start += length
        return _parquet.arrow().concat_tables(parts)
