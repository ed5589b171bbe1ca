"""Files of Parquet.

A tensor of a row is a plain value (rank 0), a list (rank 1), nested lists, or a list of all its
elements beside a column NAME.shape. Outputs are written in the last form where their rank is 2 or
more.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from myops.batch._arrays import SHAPE, Column
from myops.batch._parquet_opening import arrow, examined, opened, readable

# Bytes of a number, by its type in the file; text counts as long as it is there.
_WIDTHS = {"INT32": 4, "INT64": 8, "FLOAT": 4, "DOUBLE": 8}


def schema(path: str) -> Any:
    """The pyarrow.Schema of a file."""
    with opened(path) as file:
        return file.schema_arrow


def rows(path: str) -> int:
    """How many rows a file has."""
    with examined(path) as file:
        for number in range(file.num_row_groups):
            _memory(path, file.metadata.row_group(number), file.schema_arrow.names)
        return int(file.metadata.num_rows)


def groups(path: str, wanted: Sequence[str]) -> list[tuple[int, int]]:
    """Of each row group: its rows, and about how many bytes some columns have in memory."""
    with examined(path) as file:
        listed = with_shapes(wanted, file.schema_arrow.names)
        found = [file.metadata.row_group(number) for number in range(file.num_row_groups)]
        return [(item.num_rows, _memory(path, item, listed)) for item in found]


def group(path: str, number: int, wanted: Sequence[str]) -> Any:
    """A row group as a pyarrow.Table: some columns, and their shapes where these stand beside."""
    with opened(path) as file:
        have = set(file.schema_arrow.names)
        listed = with_shapes(wanted, have)
        return file.read_row_group(number, columns=listed, use_threads=False)


class RowGroupCursor:
    """A position in a row group that is too large for memory.

    Args:
        key: Path of the file, number of the group, and columns.
        rows: How many are read at once.

    Attributes:
        at: The first row that can still be taken.
    """

    def __init__(self, key: tuple[Any, ...], rows: int) -> None:
        path, number, *wanted = key
        self.key, self.at = key, 0
        self._waiting: list[Any] = []  # tables, whose first row is `at`
        self._stack = contextlib.ExitStack()
        file = self._stack.enter_context(opened(path, buffer=2**20))
        listed = with_shapes(wanted, file.schema_arrow.names)
        self._batches = file.iter_batches(rows, [number], listed, use_threads=False)

    def take(self, first: int, count: int) -> Any:
        """Rows of the group as a pyarrow.Table; `first` is no smaller than it was before."""
        table = arrow().Table
        end = self.at + sum(map(len, self._waiting))
        while end < first + count:
            with readable(self.key[0]):
                batch = next(self._batches, None)
            if batch is None:
                raise ValueError(f"{self.key[0]}: the row group ends before its last row")
            self._waiting.append(table.from_batches([batch]))
            end += len(batch)
            self._forget(first)
        self._forget(first)
        return arrow().concat_tables(self._waiting).slice(first - self.at, count)

    def _forget(self, first: int) -> None:
        while self._waiting and self.at + len(self._waiting[0]) <= first:
            self.at += len(self._waiting.pop(0))


def with_shapes(wanted: Sequence[str], have: Collection[str]) -> list[str]:
    """Names of columns, and of those that hold their shapes."""
    return [item for name in wanted for item in (name, name + SHAPE) if item in have]


def _is_list(kind: Any) -> bool:
    types = arrow().types
    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def is_bytes(path: str, column: str) -> bool:
    """Whether a column holds bytes."""
    kind, types = schema(path).field(column).type, arrow().types
    return bool(types.is_binary(kind) or types.is_large_binary(kind))


def tensors(path: str, column: str) -> tuple[int, np.dtype[Any] | None]:
    """The rank of a row's value, and the dtype of its elements; None where all rows are null.

    Raises:
        ValueError: What the column holds is no tensor.
    """
    found, types = schema(path), arrow().types
    kind, rank = found.field(column).type, 0
    if isinstance(kind, arrow().FixedShapeTensorType):
        kind, rank = kind.value_type, len(kind.shape)
    while _is_list(kind):
        kind, rank = kind.value_type, rank + 1
    if types.is_dictionary(kind):
        kind = kind.value_type
    if column + SHAPE in found.names:
        beside = found.field(column + SHAPE).type
        if not (_is_list(beside) and types.is_integer(beside.value_type)):
            raise ValueError(
                f"{path}: column {column + SHAPE!r}: got {beside}, expected lists of integers: the "
                f"shapes of {column!r}"
            )
        shape = _first(path, column + SHAPE)
        rank = rank if shape is None else len(shape)
    if types.is_null(kind):
        return rank, None
    if types.is_string(kind) or types.is_large_string(kind):
        return rank, np.dtype(object)
    if types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind):
        return rank, np.dtype(kind.to_pandas_dtype())
    raise ValueError(f"{path}: column {column!r}: got {kind}, expected numbers or text")


def _first(path: str, column: str) -> Any:
    """The first value of a column that is not null; None if there is none."""
    with opened(path) as file:
        for batch in file.iter_batches(columns=[column], batch_size=1024):
            for item in batch.column(0).drop_null():
                return item.as_py()
    return None


def row_bytes(path: str, wanted: Collection[str]) -> int:
    """About how many bytes a row has in memory."""
    with examined(path) as file:
        total = sum(_memory(path, file.metadata.row_group(number), wanted)
                    for number in range(file.num_row_groups))  # fmt: skip
        return int(total // max(1, file.metadata.num_rows))


def _memory(path: str, group: Any, wanted: Collection[str]) -> int:
    """Bytes of a row group: numbers that repeat take less in the file than in memory.

    Raises:
        ValueError: A column says that it has fewer values than the group has rows, each of which
            would be a failure.
    """
    total = 0
    for place in range(group.num_columns):
        part = group.column(place)
        if _column_of(part.path_in_schema, wanted):
            if part.num_values < group.num_rows:
                raise ValueError(
                    f"{path}: got a damaged Parquet file: {part.num_values} values in column "
                    f"{part.path_in_schema!r}, expected one for each of {group.num_rows} rows"
                )
            numbers = part.num_values * _WIDTHS.get(part.physical_type, 1)
            total += max(part.total_uncompressed_size, numbers)
    return total


def _column_of(path: str, wanted: Collection[str]) -> bool:
    return any(path == name or path.startswith(f"{name}.") for name in wanted)


def column(table: Any, name: str) -> Column:
    """A column as an array where all rows have one shape. Else a list, with None for null, and
    ValueError for a row that cannot be an array."""
    pyarrow = arrow()
    array = table.column(name).combine_chunks()
    if isinstance(array, pyarrow.ChunkedArray):
        array = array.chunk(0) if array.num_chunks else pyarrow.array([], array.type)
    shape = None
    if isinstance(array.type, pyarrow.FixedShapeTensorType):
        shape, array = list(array.type.shape), array.storage
    if pyarrow.types.is_binary(array.type) or pyarrow.types.is_large_binary(array.type):
        return list(array.to_pylist())
    if name + SHAPE in table.column_names:
        shapes = table.column(name + SHAPE).to_pylist()
        if len({str(item) for item in shapes}) == 1 and shapes[0] is not None:
            shape = shapes[0]
    else:
        shapes = [shape] * len(array)
    found = _array(array)
    if found is not None and (name + SHAPE not in table.column_names or shape is not None):
        try:
            return found if shape is None else found.reshape(len(found), *shape)
        except (TypeError, ValueError):  # of each row
            pass
    return [_row(array, place, item) for place, item in enumerate(shapes)]


def _array(array: Any) -> np.ndarray | None:
    """An Arrow array as one of NumPy; None if something is null, or lists have other lengths."""
    pyarrow = arrow()
    if array.null_count:
        return None
    if pyarrow.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if not _is_list(array.type):
        if pyarrow.types.is_null(array.type):
            return None
        found = array.to_numpy(zero_copy_only=False)
        return found.astype(object) if found.dtype.kind in "SU" else found
    if pyarrow.types.is_fixed_size_list(array.type):
        length = array.type.list_size
    else:
        lengths = array.value_lengths().unique()
        if len(lengths) > 1:
            return None
        length = lengths[0].as_py() if len(lengths) else 0
    inner = _array(array.flatten())
    return None if inner is None else inner.reshape(len(array), length, *inner.shape[1:])


def _row(array: Any, place: int, shape: Any) -> Any:
    one = array.slice(place, 1)
    if one.null_count:
        return None
    found = _array(one)
    if found is None:
        return ValueError("got null among its elements, or lists of different lengths in one row")
    try:
        return found[0] if shape is None else found[0].reshape(shape)
    except (TypeError, ValueError):
        return ValueError(f"got {found[0].size} elements, expected those of the shape {shape}")


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
