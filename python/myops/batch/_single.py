"""One file for all rows: the parts of the shards, put into one file when all of them are there.

    out.parquet               the output
    out.parquet.failed.jsonl  rows without output, and why
    .out.parquet.myops-run/   the parts, until all is done, and what is noted of the run

Parts are read one after the other, so memory does not grow with the number of rows.
"""

from __future__ import annotations

import os
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import IO, Any

import numpy as np

from myops.batch import _arrays, _parquet, _store
from myops.batch._arrays import SHAPE

ENDINGS = ("parquet", "npz", "npy")
_GROUP_BYTES = 32 * 2**20  # of a row group in Parquet


@dataclass(frozen=True)
class Target:
    """Where outputs go.

    output: As it was given, absolute if it is of this machine.
    folder: Of files or parts, and of what is noted.
    failed: The list of failed rows.
    single: "parquet", "npz" or "npy" where all rows go into one file; else "".
    """

    output: str
    folder: str
    failed: str
    single: str


def target(output: str) -> Target:
    """Where outputs go, by the path that was given: a file if it ends like one and is no folder."""
    output = _store.plain(output)
    remote = _store.is_remote(output)
    ending = output.lower().rpartition(".")[2]
    path = output if remote else os.path.abspath(output)
    if ending not in ENDINGS or (not remote and os.path.isdir(path)):
        return Target(path, path, _store.join(path, "failed.jsonl"), "")
    folder, sign, name = path.rpartition("/")
    return Target(path, f"{folder}{sign}.{name}.myops-run", f"{path}.failed.jsonl", ending)


def join(target: Target, outputs: Sequence[str], failed: int) -> int:
    """Writes the parts into one file; how many bytes. 0 where there are no parts.

    Args:
        outputs: Names of the model's outputs.
        failed: How many rows failed.

    Raises:
        ValueError: The rows have no common type or shape in this format.
        WriteError: It cannot be written.
    """
    names = [name for name in _store.names(target.folder) if name.startswith("part-")]
    parts = [_store.join(target.folder, name) for name in names]
    if not parts:
        return 0
    if target.single == "npy" and failed:
        raise ValueError(
            f"output: {target.output} is not written, as {failed} rows failed ({target.failed}) "
            "and a .npy has no place for the numbers of the others; run them again "
            "(retry_failed), or choose an output that ends in .npz or .parquet"
        )
    with _store.writing_large(target.output, target.folder) as stream:
        if target.single == "parquet":
            _join_parquet(parts, stream)
        elif target.single == "npz":
            _join_npz(parts, stream)
        else:
            _join_npy(parts, outputs[0], stream)
    return _store.size(target.output)


def remove_parts(target: Target) -> None:
    """Removes the parts."""
    for name in _store.names(target.folder):
        if name.startswith("part-"):
            _store.remove(_store.join(target.folder, name))


def _join_parquet(parts: Sequence[str], stream: IO[bytes]) -> None:
    pyarrow = _parquet.arrow()
    try:
        schema = pyarrow.unify_schemas(map(_parquet.schema, parts), promote_options="permissive")
    except pyarrow.ArrowException as error:
        raise ValueError(
            f"output: got parts whose columns do not go into one file ({error}); expected a folder"
        ) from error
    with pyarrow.parquet.ParquetWriter(stream, schema) as writer:
        waiting: list[Any] = []
        for path in parts:
            with _parquet.opened(path) as file:
                waiting += [_with_schema(file.read_row_group(number, use_threads=False), schema)
                            for number in range(file.num_row_groups)]  # fmt: skip
            if sum(table.nbytes for table in waiting) >= _GROUP_BYTES:
                writer.write_table(pyarrow.concat_tables(waiting).combine_chunks())
                waiting = []
        if waiting:
            writer.write_table(pyarrow.concat_tables(waiting).combine_chunks())


def _with_schema(table: Any, schema: Any) -> Any:
    pyarrow = _parquet.arrow()
    columns = [table.column(field.name).cast(field.type) if field.name in table.column_names
               else pyarrow.nulls(len(table), field.type) for field in schema]  # fmt: skip
    return pyarrow.Table.from_arrays(columns, schema=schema)


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


def _join_npz(parts: Sequence[str], stream: IO[bytes]) -> None:
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
                    _write(inner, rows.shape, rows.dtype, [rows])


def _join_npy(parts: Sequence[str], name: str, stream: IO[bytes]) -> None:
    made = _joined([_arrays.headers(path) for path in parts], name)
    if made.flat:
        raise ValueError(
            f"output {name!r}: got rows of different shapes, which a .npy cannot hold; expected "
            "an output that ends in .npz or .parquet, or a folder"
        )
    _write(stream, made.shape, made.dtype, (array for array, _ in _read(parts, name)))


def _member(archive: zipfile.ZipFile, name: str) -> Any:
    return archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True)


def _read(parts: Sequence[str], name: str) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """An array of each part, and the shape of each of its rows."""
    for path in parts:
        with _store.opened(path) as stream, np.load(stream) as arrays:
            array = arrays[name]
            if name + SHAPE in arrays.files:
                yield array, arrays[name + SHAPE]
            else:
                yield array, np.array([array.shape[1:]] * len(array)).reshape(len(array), -1)


def _write(
    stream: Any, shape: tuple[int, ...], dtype: np.dtype[Any], arrays: Any
) -> None:  # fmt: skip
    head = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(stream, head)
    for array in arrays:
        stream.write(np.ascontiguousarray(array, dtype).tobytes())
