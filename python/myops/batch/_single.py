"""One file for all rows: joins the parts of the shards when all of them exist.

    out.parquet               the output
    out.parquet.failed.jsonl  rows without output, and the reasons
    .out.parquet.myops-run/   the parts, until all rows are done, and the journal of the run

Parts are read one after the other, so memory does not grow with the number of rows.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import IO, Any

from myops._text import number_of
from myops.batch import _join, _parquet, _store

ENDINGS = ("parquet", "npz", "npy")
_GROUP_BYTES = 32 * 2**20  # of a row group in Parquet


@dataclass(frozen=True)
class Target:
    """The paths of an output.

    output: The given path, absolute if it is local.
    folder: The folder of files or parts, and of the journal.
    failed: The list of failed rows.
    single: "parquet", "npz" or "npy" if all rows are written to one file; else "".
    """

    output: str
    folder: str
    failed: str
    single: str


def target(output: str) -> Target:
    """The paths for a given output: a file if it ends like one and is no folder.

    Raises:
        ValueError: It is empty, or a file that is no file for all rows.
    """
    output = _store.plain(output)
    if not output:
        raise ValueError("output: got an empty text, expected a folder or a file")
    remote = _store.is_remote(output)
    ending = output.lower().rpartition(".")[2]
    path = output if remote else os.path.abspath(output)
    if ending not in ENDINGS or (not remote and os.path.isdir(path)):
        if not remote and os.path.lexists(path) and not os.path.isdir(path):
            raise ValueError(
                f"output: {output} exists and is no folder, expected a folder, a new name, or a "
                "file that ends in .parquet, .npz or .npy"
            )
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
        them = "it" if failed == 1 else "them"
        raise ValueError(
            f"output: {target.output} is not written, as {number_of(failed, 'row')} failed "
            f"({target.failed}) and a .npy has no place for the numbers of the others; run {them} "
            "again with retry_failed=True, or choose an output that ends in .npz or .parquet"
        )
    with _store.writing_large(target.output, target.folder) as stream:
        if target.single == "parquet":
            _join_parquet(parts, stream)
        elif target.single == "npz":
            _join.npz(parts, stream)
        else:
            _join.npy(parts, outputs[0], stream)
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
                for number in range(file.num_row_groups):
                    table = file.read_row_group(number, use_threads=False)
                    waiting.append(_with_schema(table, schema))
                    del table  # its memory is freed with the others
                    if sum(table.nbytes for table in waiting) >= _GROUP_BYTES:
                        _write_group(writer, waiting)
        if waiting:
            _write_group(writer, waiting)


def _write_group(writer: Any, tables: list[Any]) -> None:
    """Writes the tables as one row group, and empties the list before that.

    Arrow's allocator keeps the pages of what is freed, which is more than a row group in all.
    """
    pyarrow = _parquet.arrow()
    group = pyarrow.concat_tables(tables).combine_chunks()
    tables.clear()
    pyarrow.default_memory_pool().release_unused()
    writer.write_table(group)
    del group
    pyarrow.default_memory_pool().release_unused()


def _with_schema(table: Any, schema: Any) -> Any:
    pyarrow = _parquet.arrow()
    columns = [table.column(field.name).cast(field.type) if field.name in table.column_names
               else pyarrow.nulls(len(table), field.type) for field in schema]  # fmt: skip
    return pyarrow.Table.from_arrays(columns, schema=schema)
