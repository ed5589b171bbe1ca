"""The worker: it gets a shard, writes its outputs and returns a record."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from myops.batch import _arrays, _pixels, _recipe, _sinks, _store, _tables
from myops.batch._calls import DiffersError, RowRunner, shapes
from myops.batch._cores import Cores
from myops.batch._job import Job, ShardTask, Stopped
from myops.batch._plan import Shard
from myops.batch._state import Record

_PIECE_BYTES = 4 * 2**20  # of a table, or of its outputs, that are in memory as arrays at once
_PIECE_ROWS = 1024
_FIRST_ROWS = 16  # of the first piece, where the size of its outputs is not known before


class Worker:
    """Works on shards, in as many threads as there are.

    Args:
        job: What to do.
        sessions: As many as calls may run at once; the same one may be there several times.
        stopped: Set when the run is to end.
        on_rows: Is told which rows are about to be decoded or run.
    """

    def __init__(
        self,
        job: Job,
        sessions: Sequence[Any],
        stopped: threading.Event,
        on_rows: Callable[[Sequence[int]], None] | None = None,
    ) -> None:
        self.job = job
        self.recipe = job.recipe
        self._cores = Cores(sessions, stopped)
        self._stopped = stopped
        self._on_rows = on_rows or (lambda rows: None)
        self.runner = RowRunner(job.recipe, self._on_rows)
        self.in_memory = Gauge()
        self._reader = _tables.Reader()

    def close(self) -> None:
        """Ends its threads."""
        self._cores.close()

    def process(
        self, shard: Shard, skip: Mapping[int, str] | None = None, singly: bool = False
    ) -> Record:
        """Makes the outputs of a shard.

        Args:
            skip: Rows that must not be run, and why.
            singly: Whether each row has a call of its own.

        Raises:
            Stopped: The run is to end.
            WriteError: An output cannot be written.
        """
        while True:
            with contextlib.suppress(DiffersError):
                return self._process(shard, dict(skip or {}), singly)

    def _process(self, shard: Shard, failed: dict[int, str], singly: bool) -> Record:
        with _sinks.sink(self.job, shard) as sink:
            task = ShardTask(shard, sink, failed)
            if shard.first is None:
                task.names = {row: item.name for row, item in enumerate(shard.entries, shard.start)}
                self._rows(task, self._read_files(task), singly, 1)
            else:
                self._tables(task, singly)
            sink.finish()
        listed = [[row, task.names.get(row, ""), why] for row, why in sorted(failed.items())]
        return Record(shard.number, shard.rows - len(listed), listed, sink.sizes)

    # ---- Reading.

    def _read_files(self, task: ShardTask) -> Iterator[tuple[int, dict[str, Any]]]:
        for row, entry in enumerate(task.shard.entries, task.shard.start):
            if row in task.failed:
                continue
            try:
                values = {column: _read(path) for column, path in entry.files.items()}
            except (OSError, ValueError) as error:
                task.fail(row, error)
                continue
            yield row, values

    def _tables(self, task: ShardTask, singly: bool) -> None:
        (entry,) = task.shard.entries
        path = next(iter(entry.files.values()))
        wanted = [item.column for item in self.recipe.inputs]
        assert task.shard.first is not None
        try:
            size = _tables.row_bytes(path, [*wanted, *self.job.keep])
        except (OSError, ValueError) as error:  # it has changed since, or is gone
            for row in range(task.shard.rows):
                task.names[task.shard.start + row] = f"{entry.name}:{task.shard.first + row}"
                task.fail(task.shard.start + row, error)
            return
        known = [item.size for item in self.recipe.outputs]
        made = None if None in known else sum(filter(None, known))
        after = 0
        while after < task.shard.rows:
            if self._stopped.is_set():
                raise Stopped
            step = _FIRST_ROWS if made is None else _PIECE_BYTES // max(1, size, made)
            step = max(1, min(_PIECE_ROWS, step), self.recipe.batch or 0)
            at, after = after, min(after + step, task.shard.rows)
            count, start, first = after - at, task.shard.start + at, task.shard.first + at
            for row in range(count):
                task.names[start + row] = f"{entry.name}:{first + row}"
            try:
                columns, kept = self._reader.read(path, wanted, first, count, self.job.keep)
            except (OSError, ValueError) as error:  # it has changed since, or is damaged
                for row in range(start, start + count):
                    task.fail(row, error)
                continue
            self.in_memory.add(count)
            if not self._dense(task, columns, start, count, singly):
                rows = ((start + row, {name: column[row] for name, column in columns.items()})
                        for row in range(count) if start + row not in task.failed)  # fmt: skip
                self._rows(task, rows, singly, 0)
            if None in known:  # the graph does not say how large outputs are
                made = task.sink.waiting() // count
            task.sink.end_piece(start, kept)
            self.in_memory.add(-count)

    def _dense(
        self, task: ShardTask, columns: Mapping[str, Any], start: int, count: int, singly: bool
    ) -> bool:
        """Runs a piece whose columns are arrays, without taking it apart; whether it could."""
        rows = range(start, start + count)
        if singly or not self.recipe.stacks or task.failed.keys() & set(rows):
            return False
        try:
            feeds = {}
            for item in self.recipe.inputs:
                column = columns[item.column]
                if item.kind not in ("array", "text") or not isinstance(column, np.ndarray):
                    return False
                feeds[item.name] = _recipe.shaped(_recipe.cast(column, item), item, count)
        except ValueError:  # of a single row; each is looked at
            return False
        self.runner.together(task, self._cores, list(rows), feeds)
        return True

    # ---- Row by row: decoding, waiting for others of the same shape, running.

    def _rows(
        self,
        task: ShardTask,
        rows: Iterator[tuple[int, dict[str, Any]]],
        singly: bool,
        counted: int,
    ) -> None:
        """Runs rows; each adds `counted` to the rows in memory."""
        waiting: dict[Any, list[tuple[int, dict[str, np.ndarray]]]] = {}
        size = count = 0
        alone = singly or not self.recipe.stacks
        for row, values in rows:
            count += 1
            self.in_memory.add(counted)
            with self._cores.one() as session:
                feeds = self._decoded(task, row, values)
                if feeds is not None and alone:
                    self.runner.alone(task, session, row, feeds)
            if feeds is not None and not alone:
                waiting.setdefault(shapes(feeds), []).append((row, feeds))
                size += sum(item.nbytes for item in feeds.values())
            if alone or self.runner.enough(count, size):
                self._flush(task, waiting)
                self.in_memory.add(-counted * count)
                size = count = 0
        self._flush(task, waiting)
        self.in_memory.add(-counted * count)

    def _decoded(
        self, task: ShardTask, row: int, values: Mapping[str, Any]
    ) -> dict[str, Any] | None:
        """The inputs for one row; None if it failed."""
        self._on_rows([row])
        try:
            return {item.name: self._value(item, values) for item in self.recipe.inputs}
        except ImportError:
            raise
        except Exception as error:  # also what Pillow raises
            task.fail(row, error)
            return None

    def _flush(self, task: ShardTask, waiting: dict[Any, list[tuple[int, dict[str, Any]]]]) -> None:
        for group in waiting.values():
            feeds = {
                name: np.concatenate([feed[name] for _, feed in group]) for name in group[0][1]
            }
            self.runner.together(task, self._cores, [row for row, _ in group], feeds)
        waiting.clear()
        task.sink.flush()

    def _value(self, item: _recipe.Input, values: Mapping[str, Any]) -> np.ndarray:
        """The input for one row, with an axis 0 of length 1 where axis 0 counts rows."""
        found = values[item.column if item.column in values else ""]
        if isinstance(found, dict):  # a .npy or .npz file that is one row
            found = found[item.column if item.column in found else ""]
        if item.kind == "picture":
            assert item.layout is not None
            if not isinstance(found, bytes):
                raise ValueError(
                    f"column {item.column!r}: got no bytes, expected those of a picture"
                )
            return _pixels.decode(found, item.layout, self.recipe.pixels)
        if item.kind == "bytes":
            if not found:
                raise ValueError("got an empty file, expected bytes")
            return np.frombuffer(found, np.uint8)
        array = _recipe.shaped(_recipe.cast(found, item), item, None)
        return array[None] if item.stack else array


def _read(path: str) -> Any:
    data = _store.read(path)
    return _arrays.load(data, path) if path.lower().endswith((".npy", ".npz")) else data


class Gauge:
    """A number of rows now, and the largest that it was."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.now = self.largest = 0

    def add(self, count: int) -> None:
        """Notes that there are so many more."""
        with self._lock:
            self.now += count
            self.largest = max(self.largest, self.now)
