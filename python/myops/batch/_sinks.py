"""Writes the outputs of a shard: a file for each row, or one file for all of its rows."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from myops.batch import _arrays, _join, _parquet, _pixels, _store
from myops.batch._job import Block, Job
from myops.batch._plan import Entry, Shard, output_of

PARTS = ("parquet", "npz-parts")  # formats in which a shard is one file
_PART_BYTES = 8 * 2**20  # of outputs that wait to be written


def sink(job: Job, shard: Shard) -> Any:
    """The writer for the outputs of a shard; a context manager, because it may have an open
    file."""
    if job.format == "parquet":
        return _ParquetPart(job, shard)
    return _NpzPart(job, shard) if job.format == "npz-parts" else _Files(job, shard)


class _Files:
    """A file, or one for each output, for each row."""

    def __init__(self, job: Job, shard: Shard) -> None:
        self.job = job
        self.sizes: dict[str, int] = {}
        self._names = dict(enumerate(shard.entries, shard.start))
        self._ready: list[tuple[str, bytes]] = []

    def __enter__(self) -> _Files:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def add(self, block: Block) -> None:
        """Encodes rows; they are written later, when the thread does not use a core."""
        for place, row in enumerate(block.rows):
            values = [column[place : place + 1] if isinstance(column, np.ndarray) else column[place]
                      for column in block.values]  # fmt: skip
            self._ready += self._files(self._names[row], values)

    def _files(self, entry: Entry, values: Sequence[np.ndarray]) -> list[tuple[str, bytes]]:
        outputs = self.job.recipe.outputs
        stem = output_of(entry)
        named = dict(zip([item.name for item in outputs], values, strict=True))
        # Rows of stacked inputs lose the axis that counted them.
        rows = {item.name: named[item.name][0] if item.rows else named[item.name]
                for item in outputs}  # fmt: skip
        if self.job.format == "npz":
            arrays = {name: _arrays.text(item) for name, item in rows.items()}
            return [(f"{stem}.npz", _arrays.arrays_file(arrays))]
        made = []
        for item in outputs:
            part = stem if len(outputs) == 1 else f"{stem}.{item.name}"
            if self.job.format == "npy":
                made.append((f"{part}.npy", _arrays.array_file(rows[item.name])))
            elif self.job.format == "bytes":
                data = named[item.name].tobytes()
                made.append((f"{part}.{_pixels.suffix_of(data)}", data))
            else:
                data = _pixels.encode(
                    named[item.name], item.axes, self.job.recipe.pixels, self.job.format
                )
                made.append((f"{part}.{self.job.format}", data))
        return made

    def flush(self) -> None:
        """Writes the encoded rows."""
        for name, data in self._ready:
            path = _store.join(self.job.output, name)
            self.sizes[name] = _store.write(path, data)
        self._ready = []

    def finish(self) -> None:
        """Writes the rest."""
        self.flush()


class _Part:
    """One file for all rows of a shard, with a column of row numbers or of names of files."""

    def __init__(self, job: Job, shard: Shard, ending: str) -> None:
        self.job = job
        self.shard = shard
        self.sizes: dict[str, int] = {}
        self.name = f"part-{shard.number:07d}.{ending}"
        self.path = _store.join(job.output, self.name)
        self._blocks: list[Block] = []

    def __enter__(self) -> _Part:
        return self

    def __exit__(self, *error: Any) -> None:
        pass

    def add(self, block: Block) -> None:
        """Takes rows."""
        self._blocks.append(block)

    def flush(self) -> None:
        """Called when no rows wait for others."""

    def end_piece(self, start: int, kept: Any) -> None:
        """Called after each piece of a table.

        Args:
            start: Number of its first row.
            kept: A pyarrow.Table with the columns of these rows that go into the output; or None.
        """

    def finish(self) -> None:
        """Writes the rest."""
        raise NotImplementedError

    def waiting(self) -> int:
        """Bytes of the rows that were added since `_taken` was called last."""
        return _bytes([item for block in self._blocks for item in block.values])

    def _taken(self) -> tuple[list[int], dict[str, Any]]:
        """The rows that were added since this was called last, in order, and their columns."""
        blocks, self._blocks = sorted(self._blocks, key=lambda block: block.rows[0]), []
        rows = [row for block in blocks for row in block.rows]
        found: dict[str, Any] = {}
        if self.shard.first is None:
            found["file"] = [self.shard.entries[row - self.shard.start].name for row in rows]
        else:
            found["row"] = np.array(rows, np.int64)
        for place, item in enumerate(self.job.recipe.outputs):
            found[item.name] = _joined([block.values[place] for block in blocks])
        return rows, found


def _joined(columns: Sequence[Any]) -> Any:
    arrays = all(isinstance(column, np.ndarray) for column in columns)
    if arrays and len({column.shape[1:] for column in columns}) == 1:
        return np.concatenate(columns)
    return [row for column in columns for row in column]


class _NpzPart(_Part):
    """A .npz begins with its lengths, so what has been made waits in files beside it."""

    def __init__(self, job: Job, shard: Shard) -> None:
        super().__init__(job, shard, "npz")
        self._stack = contextlib.ExitStack()
        self._ready: list[str] = []  # paths of files with some of the rows

    def __exit__(self, *error: Any) -> None:
        self._stack.__exit__(*error)

    def end_piece(self, start: int, kept: Any) -> None:
        if self.waiting() >= _PART_BYTES:
            self._write()

    def flush(self) -> None:
        if self.shard.first is None:
            self.end_piece(self.shard.start, None)

    def _write(self) -> None:
        rows, columns = self._taken()
        if not rows:
            return
        path = self._stack.enter_context(_store.temporary(self.job.output))
        try:
            with open(path, "wb") as stream:
                _arrays.write_npz(stream, columns)
        except OSError as error:
            raise _store.WriteError(error.errno, f"{self.name}: {error.strerror}") from error
        self._ready.append(path)

    def finish(self) -> None:
        if self._ready:
            self._write()
        rows, columns = self._taken()
        if rows or self._ready:
            with _store.writing_large(self.path, self.job.output) as stream:
                if self._ready:
                    _join.npz(self._ready, stream)
                else:
                    _arrays.write_npz(stream, columns)
                self.sizes[self.name] = stream.tell()
        self._stack.close()


class _ParquetPart(_Part):
    """Is written while the shard is worked on, some megabytes at a time."""

    def __init__(self, job: Job, shard: Shard) -> None:
        super().__init__(job, shard, "parquet")
        self._ready: list[Any] = []  # tables
        self._stack = contextlib.ExitStack()
        self._writer: Any = None
        self._stream: Any = None

    def __exit__(self, *error: Any) -> None:
        if error[0] is not None and self._writer is not None:
            with contextlib.suppress(Exception):
                self._writer.close()
            self._writer = None
        self._stack.__exit__(*error)

    def end_piece(self, start: int, kept: Any) -> None:
        rows, columns = self._taken()
        if rows:
            table = _parquet.part_table(columns)
            if kept is not None:
                chosen = kept.take([row - start for row in rows])
                for name in reversed(chosen.column_names):
                    table = table.add_column(1, chosen.field(name), chosen.column(name))
            self._ready.append(table)
        if sum(table.nbytes for table in self._ready) >= _PART_BYTES:
            self._write()

    def flush(self) -> None:
        if self.shard.first is None and self.waiting() >= _PART_BYTES:
            self.end_piece(self.shard.start, None)

    def _write(self) -> None:
        if not self._ready:
            return
        pyarrow = _parquet.arrow()
        try:
            table = pyarrow.concat_tables(self._ready).combine_chunks()
            self._ready = []
            if self._writer is None:
                self._stream = self._stack.enter_context(
                    _store.writing_large(self.path, self.job.output)
                )
                self._writer = pyarrow.parquet.ParquetWriter(self._stream, table.schema)
            self._writer.write_table(table)
        except OSError as error:
            raise _store.WriteError(error.errno, f"{self.name}: {error.strerror}") from error

    def finish(self) -> None:
        self.end_piece(self.shard.start, None)
        self._write()
        if self._writer is not None:
            self._writer.close()
            self._writer = None
            self.sizes[self.name] = self._stream.tell()
            self._stack.close()


def _bytes(columns: Sequence[Any]) -> int:
    return sum(item.nbytes for column in columns
               for item in ([column] if isinstance(column, np.ndarray) else column))  # fmt: skip
