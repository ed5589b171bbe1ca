"""Files with many rows: .npy, .npz and Parquet; rows are read from them, and parts written.

In Parquet a tensor of a row is a plain value (rank 0), a list (rank 1), nested lists, or a list of
all its elements beside a column NAME.shape. Outputs are written in the last form where their rank
is 2 or more.
"""

from __future__ import annotations

import contextlib
import functools
import io
import math
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from myops.batch import _store

Column = np.ndarray | list[Any]  # an array with the rows on axis 0, or a value for each row
SHAPE = ".shape"


def arrow() -> Any:
    """The package pyarrow, or ImportError that says how to get it."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise ImportError(
            "Parquet needs the package pyarrow, which is not installed: pip install pyarrow"
        ) from error
    return pyarrow


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


def _header(path: str) -> tuple[tuple[int, ...], np.dtype[Any]]:
    with _store.opened(path) as stream:
        version = np.lib.format.read_magic(stream)
        read = getattr(np.lib.format, f"read_array_header_{version[0]}_{version[1]}")
        shape, _, dtype = read(stream)
    return shape, dtype


def shapes(path: str) -> dict[str, tuple[int, ...]]:
    """Names and shapes of the arrays in a .npy or .npz file."""
    try:
        if kind(path) == "npy":
            return {"": _header(path)[0]}
        return {name: item.shape for name, item in load(_store.read(path), path).items()}
    except (ValueError, EOFError, OSError) as error:
        if isinstance(error, FileNotFoundError):
            raise
        raise ValueError(f"{path}: {error or 'got an empty file'}") from error


def names(path: str) -> list[str]:
    """The columns of a file."""
    if kind(path) == "parquet":
        return [name for name in _schema(path).names if not name.endswith(SHAPE)]
    return list(shapes(path))


def _schema(path: str) -> Any:
    with _parquet(path) as file:
        return file.schema_arrow


@contextlib.contextmanager
def _parquet(path: str) -> Iterator[Any]:
    pyarrow = arrow()
    with _store.opened(path) as stream:
        try:
            yield pyarrow.parquet.ParquetFile(stream)
        except pyarrow.ArrowInvalid as error:
            raise ValueError(f"{path}: got no Parquet file: {error}") from error


def rows(path: str) -> int:
    """How many rows a file has.

    Raises:
        ValueError: Its arrays have different lengths, or it is damaged.
    """
    if kind(path) == "parquet":
        with _parquet(path) as file:
            return int(file.metadata.num_rows)
    found = shapes(path)
    lengths = {shape[0] if shape else None for shape in found.values()}
    if len(lengths) != 1 or None in lengths:
        listed = ", ".join(f"{name or 'the array'} {list(shape)}" for name, shape in found.items())
        raise ValueError(
            f"{path}: got {listed or 'no array'}, expected arrays of one length on axis 0, which "
            "counts the rows"
        )
    return int(lengths.pop() or 0)


def rank(path: str, column: str) -> int | None:
    """The rank of a row's value; None where the file does not say (bytes, text)."""
    if kind(path) != "parquet":
        found = shapes(path)
        return len(found[column if column in found else ""]) - 1
    schema = _schema(path)
    if column + SHAPE in schema.names:
        return None
    types = arrow().types
    item, depth = schema.field(column).type, 0
    if isinstance(item, arrow().FixedShapeTensorType):
        return len(item.shape)
    while types.is_list(item) or types.is_large_list(item) or types.is_fixed_size_list(item):
        item, depth = item.value_type, depth + 1
    if types.is_binary(item) or types.is_large_binary(item):
        return None
    return depth


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


_recent = _Recent(2)


def read(path: str, wanted: Sequence[str], first: int, count: int) -> dict[str, Column]:
    """Some columns of consecutive rows. Of Parquet, whole row groups are read and kept."""
    if kind(path) == "npy" and not _store.is_remote(path):
        array = np.load(path, mmap_mode="r", allow_pickle=False)
        return {name: np.array(array[first : first + count]) for name in wanted}
    if kind(path) != "parquet":
        arrays = _recent.get(path, lambda: load(_store.read(path), path))
        return {name: arrays[name if name in arrays else ""][first : first + count]
                for name in wanted}  # fmt: skip
    table = _slice(path, wanted, first, count)
    return {name: _column(table, name) for name in wanted}


def row_bytes(path: str, wanted: Sequence[str]) -> int:
    """About how many bytes a row has in memory."""
    if kind(path) == "npy":
        shape, dtype = _header(path)
        return dtype.itemsize * math.prod(shape[1:])
    if kind(path) == "npz":
        return sum(
            item.nbytes // max(1, len(item)) for item in load(_store.read(path), path).values()
        )
    with _parquet(path) as file:
        listed = file.metadata
        total = sum(
            listed.row_group(group).column(place).total_uncompressed_size
            for group in range(listed.num_row_groups)
            for place in range(listed.num_columns)
            if listed.row_group(group).column(place).path_in_schema.partition(".")[0] in wanted
        )
        return int(total // max(1, listed.num_rows))


def _slice(path: str, wanted: Sequence[str], first: int, count: int) -> Any:
    """Rows of a Parquet file, of which only the row groups that hold them are read."""
    lengths = _recent_lengths.get(path, lambda: _group_lengths(path))
    parts, start = [], 0
    for number, length in enumerate(lengths):
        low, high = max(first, start), min(first + count, start + length)
        if low < high:
            key = path, number, *wanted
            group = _recent.get(key, functools.partial(_group, path, number, wanted))
            parts.append(group.slice(low - start, high - low))
        start += length
    return arrow().concat_tables(parts)


_recent_lengths = _Recent(64)


def _group_lengths(path: str) -> list[int]:
    with _parquet(path) as file:
        found = file.metadata
        return [found.row_group(number).num_rows for number in range(found.num_row_groups)]


def _group(path: str, number: int, wanted: Sequence[str]) -> Any:
    with _parquet(path) as file:
        have = set(file.schema_arrow.names)
        listed = [item for name in wanted for item in (name, name + SHAPE) if item in have]
        return file.read_row_group(number, columns=listed, use_threads=False)


def _column(table: Any, name: str) -> Column:
    pyarrow = arrow()
    chunks = table.column(name)
    array = chunks.combine_chunks()
    if isinstance(array, pyarrow.ChunkedArray):
        array = pyarrow.concat_arrays(array.chunks) if array.chunks else array.type
    kind_of = array.type
    if isinstance(kind_of, pyarrow.FixedShapeTensorType):
        return np.asarray(array.to_numpy_ndarray())
    shaped = name + SHAPE in table.column_names
    types = pyarrow.types
    if array.null_count or shaped:
        values = array.to_pylist() if not types.is_list(kind_of) else _lists(array)
        if shaped:
            lengths = table.column(name + SHAPE).to_pylist()
            values = [None if item is None or shape is None else np.asarray(item).reshape(shape)
                      for item, shape in zip(values, lengths, strict=True)]  # fmt: skip
        return list(values)
    if types.is_primitive(kind_of):
        return np.asarray(array.to_numpy(zero_copy_only=False))
    if types.is_list(kind_of) or types.is_fixed_size_list(kind_of):
        lists = _lists(array)
        lengths = {item.shape for item in lists}
        if len(lengths) == 1 and lists[0].dtype != object:
            return np.stack(lists)
        return list(lists)
    return list(array.to_pylist())


def _lists(array: Any) -> list[Any]:
    """A list column as an array for each row; nested lists become axes where they are even."""
    types = arrow().types
    inner = array.type.value_type
    if types.is_primitive(inner):
        flat = array.flatten().to_numpy(zero_copy_only=False)
        if types.is_fixed_size_list(array.type):
            ends = np.arange(1, len(array) + 1) * array.type.list_size
            return np.split(flat, ends[:-1])
        ends = array.offsets.to_numpy() - (array.offsets[0].as_py() if len(array) else 0)
        pieces = np.split(flat, ends[1:-1]) if len(array) else []
        return [None if array.null_count and not array.is_valid()[place].as_py() else item
                for place, item in enumerate(pieces)]  # fmt: skip
    dtype = inner
    while not (types.is_primitive(dtype) or types.is_string(dtype)):
        dtype = dtype.value_type
    numeric = dtype.to_pandas_dtype() if types.is_primitive(dtype) else object
    return [None if item is None else np.array(item, numeric) for item in array.to_pylist()]


# ---- Parts: what a shard becomes.


def part_table(columns: Mapping[str, Column]) -> Any:
    """Columns as a pyarrow.Table. Rank 0: values; 1: lists; more: lists beside NAME.shape."""
    pyarrow = arrow()
    made: dict[str, Any] = {}
    for name, column in columns.items():
        if not isinstance(column, np.ndarray):
            arrays = [np.asarray(item) for item in column]
            if any(item.dtype.kind in "OUS" for item in arrays) or not all(
                isinstance(item, (np.ndarray, np.generic)) for item in column
            ):
                made[name] = pyarrow.array([_plain(item) for item in column])
                continue
            made[name] = _list_array([item.reshape(-1) for item in arrays])
            if any(item.ndim > 1 for item in arrays):
                made[name + SHAPE] = pyarrow.array([list(item.shape) for item in arrays])
        elif column.ndim == 1:
            made[name] = pyarrow.array(column.tolist() if column.dtype == object else column)
        elif column.dtype == object:
            made[name] = pyarrow.array(column.tolist())
        else:
            count = math.prod(column.shape[1:])
            flat = pyarrow.array(np.ascontiguousarray(column).reshape(-1))
            offsets = pyarrow.array(np.arange(len(column) + 1, dtype=np.int64) * count)
            made[name] = pyarrow.LargeListArray.from_arrays(offsets, flat)
            made[name] = made[name].cast(pyarrow.list_(flat.type))
            if column.ndim > 2:
                made[name + SHAPE] = pyarrow.array([list(column.shape[1:])] * len(column))
    return pyarrow.table(made)


def _plain(item: Any) -> Any:
    return item.tolist() if isinstance(item, (np.ndarray, np.generic)) else item


def _list_array(pieces: Sequence[np.ndarray]) -> Any:
    pyarrow = arrow()
    offsets = np.cumsum([0, *map(len, pieces)]).astype(np.int64)
    flat = pyarrow.array(np.concatenate(pieces))
    return pyarrow.LargeListArray.from_arrays(pyarrow.array(offsets), flat).cast(
        pyarrow.list_(flat.type)
    )


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
    import zipfile

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
