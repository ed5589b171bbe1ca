"""Files of Parquet.

A tensor of a row is a plain value (rank 0), a list (rank 1), nested lists, or a list of all its
elements beside a column NAME.shape. Outputs are written in the last form where their rank is 2 or
more.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from myops.batch import _store
from myops.batch._arrays import SHAPE, Column


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


def schema(path: str) -> Any:
    """The pyarrow.Schema of a file."""
    with opened(path) as file:
        return file.schema_arrow


@contextlib.contextmanager
def opened(path: str) -> Iterator[Any]:
    """A pyarrow.parquet.ParquetFile.

    Raises:
        ValueError: It is none.
    """
    pyarrow = arrow()
    with _store.opened(path) as stream:
        try:
            yield pyarrow.parquet.ParquetFile(stream)
        except pyarrow.ArrowInvalid as error:
            raise ValueError(f"{path}: got no Parquet file: {error}") from error


def group_lengths(path: str) -> list[int]:
    """How many rows each row group has."""
    with opened(path) as file:
        found = file.metadata
        return [found.row_group(number).num_rows for number in range(found.num_row_groups)]


def group(path: str, number: int, wanted: Sequence[str]) -> Any:
    """A row group as a pyarrow.Table: some columns, and their shapes where these stand beside."""
    with opened(path) as file:
        have = set(file.schema_arrow.names)
        listed = with_shapes(wanted, have)
        return file.read_row_group(number, columns=listed, use_threads=False)


def with_shapes(wanted: Sequence[str], have: Collection[str]) -> list[str]:
    """Names of columns, and of those that hold their shapes."""
    return [item for name in wanted for item in (name, name + SHAPE) if item in have]


def rank(path: str, column: str) -> int | None:
    """The rank of a row's value; None where the file does not say (bytes, shapes beside it)."""
    found, types = schema(path), arrow().types
    if column + SHAPE in found.names:
        return None
    item, depth = found.field(column).type, 0
    if isinstance(item, arrow().FixedShapeTensorType):
        return len(item.shape)
    while types.is_list(item) or types.is_large_list(item) or types.is_fixed_size_list(item):
        item, depth = item.value_type, depth + 1
    if types.is_binary(item) or types.is_large_binary(item):
        return None
    return depth


def row_bytes(path: str, wanted: Collection[str]) -> int:
    """About how many bytes a row has in memory."""
    with opened(path) as file:
        groups = [file.metadata.row_group(number) for number in range(file.num_row_groups)]
        parts = (group.column(place) for group in groups for place in range(group.num_columns))
        total = sum(part.total_uncompressed_size for part in parts
                    if _column_of(part.path_in_schema, wanted))  # fmt: skip
        return int(total // max(1, file.metadata.num_rows))


def _column_of(path: str, wanted: Collection[str]) -> bool:
    return any(path == name or path.startswith(f"{name}.") for name in wanted)


def column(table: Any, name: str) -> Column:
    """A column as an array where all rows have one shape, else as a list; None for null."""
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
