"""What a worker does: it takes a shard, and leaves its outputs and a record.

Rows of one shape are put into one call where the graph's axis 0 counts rows. The first call with
each shape and number of rows is made row by row as well, and only if all bits are equal are further
ones made together: so results do not depend on what a row happens to be called with.
"""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

import numpy as np

from myops._text import reason
from myops.batch import _pixels, _recipe, _store, _tables
from myops.batch._plan import Entry, Shard
from myops.batch._recipe import Recipe
from myops.batch._state import Record

PARTS = ("parquet", "npz-parts")  # formats in which a shard is one file
_CALL_BYTES = 64 * 1024  # of inputs in one call: more rows stop being faster in the caches
_CALL_ROWS = 256
_PENDING_BYTES = 4 * 2**20  # of decoded rows that wait for others of their shape
_PENDING_ROWS = 16
_PIECE_BYTES = 4 * 2**20  # of a table that are in memory as arrays at once
_PIECE_ROWS = 1024
_PART_BYTES = 8 * 2**20  # of outputs that wait to be written to Parquet


class Stopped(Exception):  # noqa: N818  (no error: somebody wants the run to end)
    """The run ends before the shard is done."""


@dataclass(frozen=True)
class Job:
    """What all workers of a run are told.

    model: Path of the model.
    libraries: Custom-op libraries that it needs.
    named_libraries: As `myops.ort.session` takes it.
    recipe: How rows become inputs.
    output: The folder, or a URL.
    format: "png" and other pictures, "bytes", "npy", "npz", "npz-parts" or "parquet".
    keep: Columns that go into the output as they are.
    threads: Of a call.
    """

    model: str
    libraries: tuple[str, ...]
    named_libraries: str
    recipe: Recipe
    output: str
    format: str
    keep: tuple[str, ...] = ()
    threads: int = 1


def make_session(
    model: str, libraries: Sequence[str], named_libraries: Any, threads: int = 1
) -> Any:
    """A session that leaves the cores to the others.

    Raises:
        RuntimeError: ONNX Runtime does not load the model.
    """
    import onnxruntime

    from myops.ort._session import checked_onnxruntime, session

    checked_onnxruntime()
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4  # errors are raised
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    # Memory of a session would keep the size of the largest row that each thread has had.
    options.enable_cpu_mem_arena = False
    if threads > 1:  # threads that still wait for work would take the cores of the next session
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    try:
        return session(
            model, session_options=options, libraries=libraries, named_libraries=named_libraries
        )
    except (ImportError, OSError, ValueError):
        raise
    except Exception as error:  # ONNX Runtime's own kinds have no common base
        raise RuntimeError(
            f"{model}: ONNX Runtime does not load it: {reason(error)} `myops doctor` explains why"
        ) from error


@dataclass
class Block:
    """Rows and their outputs: for each output an array with rows on axis 0, or a list."""

    rows: list[int]
    values: list[Any]


@dataclass
class _Task:
    """A shard while it is worked on.

    rows: Row -> its name.
    skip: Rows that are known to fail.
    """

    shard: Shard
    sink: Any
    failed: dict[int, str] = field(default_factory=dict)
    names: dict[int, str] = field(default_factory=dict)


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
        self._sessions: queue.LifoQueue[Any] = queue.LifoQueue()
        for item in sessions:
            self._sessions.put(item)
        self._stopped = stopped
        self._on_rows = on_rows or (lambda rows: None)
        self._wanted = [item.name for item in job.recipe.outputs]
        self._equal: dict[Any, bool] = {}  # (shapes, rows of a call): whether it may be one call
        self.in_memory = Gauge()
        self.calls = Gauge()  # rows of a call

    @contextlib.contextmanager
    def _session(self) -> Iterator[Any]:
        """One of the sessions, which stand for the cores: decoding takes one too."""
        while True:
            if self._stopped.is_set():
                raise Stopped
            with contextlib.suppress(queue.Empty):
                session = self._sessions.get(timeout=0.2)
                break
        try:
            yield session
        finally:
            self._sessions.put(session)

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
        with contextlib.ExitStack() as stack:
            sink = stack.enter_context(_sink(self.job, shard))
            task = _Task(shard, sink, dict(skip or {}))
            if shard.first is None:
                for number, entry in enumerate(shard.entries, shard.start):
                    task.names[number] = entry.name
                self._rows(task, self._read_files(task), singly)
            else:
                self._tables(task, singly)
            sink.finish()
        failed = [[row, task.names.get(row, ""), why] for row, why in sorted(task.failed.items())]
        return Record(shard.number, shard.rows - len(failed), failed, sink.sizes)

    # ---- Reading.

    def _read_files(self, task: _Task) -> Iterator[tuple[int, dict[str, Any]]]:
        for row, entry in enumerate(task.shard.entries, task.shard.start):
            if row in task.failed:
                continue
            try:
                yield row, {column: self._file(path) for column, path in entry.files.items()}
            except (OSError, ValueError) as error:
                task.failed[row] = _why(error)

    def _file(self, path: str) -> Any:
        if path.lower().endswith((".npy", ".npz")):
            return _tables.load(_store.read(path), path)
        return _store.read(path)

    def _tables(self, task: _Task, singly: bool) -> None:
        (entry,) = task.shard.entries
        path = next(iter(entry.files.values()))
        wanted = [item.column for item in self.recipe.inputs]
        columns = list(dict.fromkeys([*wanted, *self.job.keep]))
        step = max(1, min(_PIECE_ROWS, _PIECE_BYTES // max(1, _tables.row_bytes(path, columns))))
        step = max(step, self.recipe.batch or 0)
        assert task.shard.first is not None
        for at in range(0, task.shard.rows, step):
            if self._stopped.is_set():
                raise Stopped
            count = min(step, task.shard.rows - at)
            read = _tables.read(path, columns, task.shard.first + at, count)
            start = task.shard.start + at
            task.names.update((start + row, f"{entry.name}:{task.shard.first + at + row}")
                              for row in range(count))  # fmt: skip
            task.sink.kept = {name: read[name] for name in self.job.keep}
            task.sink.kept_from = start
            with self.in_memory.holding(count):
                if not self._dense(task, read, start, count, singly):
                    rows = ((start + row, {name: column[row] for name, column in read.items()})
                            for row in range(count) if start + row not in task.failed)  # fmt: skip
                    self._rows(task, rows, singly, counted=True)
                task.sink.end_piece()

    def _dense(
        self, task: _Task, read: Mapping[str, Any], start: int, count: int, singly: bool
    ) -> bool:
        """Runs a piece whose columns are arrays, without taking it apart; whether it could."""
        if (
            singly
            or not self.recipe.stacks
            or task.failed.keys() & set(range(start, start + count))
        ):
            return False
        try:
            feeds = {}
            for item in self.recipe.inputs:
                column = read[item.column]
                if item.kind not in ("array", "text") or not isinstance(column, np.ndarray):
                    return False
                feeds[item.name] = _recipe.shaped(_recipe.cast(column, item), item, count)
        except ValueError:  # of a single row; each is looked at
            return False
        with self._session() as session:
            self._together(task, session, list(range(start, start + count)), feeds)
        return True

    # ---- Row by row: decoding, waiting for others of the same shape, running.

    def _rows(
        self,
        task: _Task,
        rows: Iterator[tuple[int, dict[str, Any]]],
        singly: bool,
        counted: bool = False,
    ) -> None:
        pending: dict[Any, list[tuple[int, dict[str, np.ndarray]]]] = {}
        size = count = 0
        held = contextlib.ExitStack()
        with held:
            for row, values in rows:
                if not counted:
                    held.enter_context(self.in_memory.holding(1))
                try:
                    with self._session() as session:
                        self._on_rows([row])
                        feed = {item.name: self._value(item, values) for item in self.recipe.inputs}
                        if singly or not self.recipe.stacks:
                            self._alone(task, session, row, feed)
                            feed = {}
                except Stopped:
                    raise
                except (_store.WriteError, ImportError):
                    raise
                except Exception as error:  # also what Pillow and ONNX Runtime raise
                    task.failed[row] = _why(error)
                    feed = {}
                if feed:
                    pending.setdefault(_shapes(feed), []).append((row, feed))
                    size += sum(item.nbytes for item in feed.values())
                    count += 1
                most = max(_PENDING_ROWS, self.recipe.batch or 0, self.recipe.fixed)
                if not feed or size >= _PENDING_BYTES or count >= most or self._alone_anyway(size):
                    self._flush(task, pending)
                    size = count = 0
                    held.close()
            self._flush(task, pending)

    def _alone_anyway(self, size: int) -> bool:
        return self.recipe.one_by_one or (self.recipe.batch is None and size > _CALL_BYTES)

    def _flush(self, task: _Task, pending: dict[Any, list[tuple[int, dict[str, Any]]]]) -> None:
        for group in pending.values():
            feeds = {
                name: np.concatenate([feed[name] for _, feed in group]) for name in group[0][1]
            }
            with self._session() as session:
                self._together(task, session, [row for row, _ in group], feeds)
        pending.clear()
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

    # ---- Running.

    def _call(self, session: Any, feeds: Mapping[str, np.ndarray]) -> list[Any]:
        found = session.run(self._wanted, {**feeds, **self.recipe.constants})
        if not all(isinstance(item, np.ndarray) for item in found):
            raise ValueError("output: got a sequence or a map, expected tensors")
        return list(found)

    def _alone(self, task: _Task, session: Any, row: int, feed: Mapping[str, np.ndarray]) -> None:
        """One call for a row."""
        try:
            block = Block([row], self._single(session, feed))
        except Exception as error:  # what ONNX Runtime raises has no common base
            task.failed[row] = _why(error)
            return
        self._keep(task, block)

    def _single(self, session: Any, feed: Mapping[str, np.ndarray]) -> list[Any]:
        """Outputs of one row: arrays with an axis 0 of length 1, or a list of one value."""
        if self.recipe.fixed > 1:
            feed = {name: np.repeat(item, self.recipe.fixed, 0) for name, item in feed.items()}
        self.calls.seen(1)
        found = self._call(session, feed)
        for place, item in enumerate(self.recipe.outputs):
            if not item.rows:
                found[place] = [found[place]]
            elif self.recipe.fixed > 1:
                found[place] = found[place][:1]
            elif found[place].shape[:1] != (1,):
                raise ValueError(
                    f"output {item.name!r}: got shape {list(found[place].shape)} for one row, "
                    f"expected length 1 on axis 0; say whole={item.name!r} where axis 0 of this "
                    "output does not count rows"
                )
        return found

    def _together(
        self, task: _Task, session: Any, rows: Sequence[int], feeds: Mapping[str, np.ndarray]
    ) -> None:
        """Runs rows of one shape in calls of as many as are equal to single ones."""
        most = self._most(feeds, len(rows))
        at = 0
        while at < len(rows):
            if self._stopped.is_set():
                raise Stopped
            count = most
            while count > len(rows) - at:
                count //= 2
            count = max(1, count)
            part = {name: item[at : at + count] for name, item in feeds.items()}
            self._on_rows(rows[at : at + count])
            self._part(task, session, list(rows[at : at + count]), part)
            at += count

    def _most(self, feeds: Mapping[str, np.ndarray], rows: int) -> int:
        """Rows of a call: a power of two, so that few numbers of rows occur."""
        if self.recipe.fixed == 1 or not all(item.rows for item in self.recipe.outputs):
            return 1
        most = self.recipe.batch or min(
            _CALL_ROWS, _CALL_BYTES * rows // max(1, sum(item.nbytes for item in feeds.values()))
        )
        most = min(most, self.recipe.fixed or most)
        return 1 << max(0, int(most).bit_length() - 1)

    def _part(
        self, task: _Task, session: Any, rows: list[int], feeds: Mapping[str, np.ndarray]
    ) -> None:
        if len(rows) == 1:
            self._alone(task, session, rows[0], feeds)
            return
        key = (_shapes(feeds), len(rows))
        known = self._equal.get(key)
        values = None
        if known is not False:
            with contextlib.suppress(Exception):  # a row that fails is found below
                values = self._batch(session, feeds, len(rows))
        if known and values is not None:
            self._keep(task, Block(rows, values))
            return
        before = len(task.failed)
        singles: list[list[Any]] = []
        for place, row in enumerate(rows):
            try:
                one = {name: item[place : place + 1] for name, item in feeds.items()}
                singles.append(self._single(session, one))
            except Exception as error:  # what ONNX Runtime raises has no common base
                task.failed[row] = _why(error)
        good = [row for row in rows if row not in task.failed]
        if len(task.failed) == before and known is None:
            self._equal[key] = values is not None and _same(values, singles)
        for row, single in zip(good, singles, strict=True):
            self._keep(task, Block([row], single))

    def _batch(self, session: Any, feeds: Mapping[str, np.ndarray], count: int) -> list[Any]:
        if 1 < self.recipe.fixed != count:
            rest = self.recipe.fixed - count
            feeds = {name: np.concatenate([item, np.repeat(item[-1:], rest, 0)])
                     for name, item in feeds.items()}  # fmt: skip
        found = self._call(session, feeds)
        if any(item.shape[:1] != (max(count, self.recipe.fixed),) for item in found):
            raise ValueError("an output does not have its rows on axis 0")
        self.calls.seen(count)
        return [item[:count] for item in found]

    def _keep(self, task: _Task, block: Block) -> None:
        try:
            task.sink.add(block)
        except _store.WriteError:
            raise
        except Exception as error:  # it cannot be encoded
            for row in block.rows:
                task.failed[row] = _why(error)

    @property
    def together(self) -> dict[str, int]:
        """How many kinds of calls may hold several rows, and how many may not."""
        found = list(self._equal.values())
        return {"equal": found.count(True), "different": found.count(False)}


class Gauge:
    """A number of rows now, and the largest that it was."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.now = self.largest = 0

    def seen(self, count: int) -> None:
        """Notes a number."""
        if count > self.largest:
            self.largest = count

    @contextlib.contextmanager
    def holding(self, count: int) -> Iterator[None]:
        """Counts rows while the block runs."""
        with self._lock:
            self.now += count
            self.largest = max(self.largest, self.now)
        try:
            yield
        finally:
            with self._lock:
                self.now -= count


def _shapes(feeds: Mapping[str, np.ndarray]) -> Any:
    return tuple((name, item.shape[1:]) for name, item in feeds.items())


def _same(values: Sequence[np.ndarray], singles: Sequence[Sequence[np.ndarray]]) -> bool:
    """Whether a call with several rows gave what calls with one gave, bit for bit."""
    for place, item in enumerate(values):
        if item.shape[1:] != singles[0][place].shape[1:]:
            return False
        for row, single in enumerate(singles):
            mine, theirs = item[row : row + 1], single[place]
            if mine.dtype == object:
                if mine.tolist() != theirs.tolist():
                    return False
            elif mine.shape != theirs.shape or mine.tobytes() != theirs.tobytes():
                return False
    return True


def _why(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}."
    text = reason(error)
    return text if isinstance(error, ValueError) or "ONNX" in str(error) else (
        text if str(error).strip() else type(error).__name__
    )  # fmt: skip


# ---- Where outputs go.


def _sink(job: Job, shard: Shard) -> Any:
    if job.format == "parquet":
        return _ParquetPart(job, shard)
    return _NpzPart(job, shard) if job.format == "npz-parts" else _Files(job, shard)


def output_suffix(format: str) -> str:
    """The ending of the files of a format; "" where a file's bytes decide."""
    return "" if format == "bytes" else f".{format}"


class _Files:
    """A file, or one for each output, for each row."""

    def __init__(self, job: Job, shard: Shard) -> None:
        self.job = job
        self.sizes: dict[str, int] = {}
        self._names = dict(enumerate(shard.entries, shard.start))
        self._ready: list[tuple[str, bytes]] = []
        self.kept: dict[str, Any] = {}
        self.kept_from = 0

    def __enter__(self) -> _Files:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def add(self, block: Block) -> None:
        """Encodes rows; they are written later, when nobody waits for the core."""
        for place, row in enumerate(block.rows):
            values = [column[place : place + 1] if isinstance(column, np.ndarray) else column[place]
                      for column in block.values]  # fmt: skip
            self._ready += self._files(self._names[row], values)

    def _files(self, entry: Entry, values: Sequence[np.ndarray]) -> list[tuple[str, bytes]]:
        outputs = self.job.recipe.outputs
        stem = _output_stem(entry)
        named = dict(zip([item.name for item in outputs], values, strict=True))
        # Rows of stacked inputs lose the axis that counted them.
        rows = {item.name: named[item.name][0] if item.rows else named[item.name]
                for item in outputs}  # fmt: skip
        if self.job.format == "npz":
            arrays = {name: _tables.text(item) for name, item in rows.items()}
            return [(f"{stem}.npz", _tables.arrays_file(arrays))]
        made = []
        for item in outputs:
            part = stem if len(outputs) == 1 else f"{stem}.{item.name}"
            if self.job.format == "npy":
                made.append((f"{part}.npy", _tables.array_file(rows[item.name])))
            elif self.job.format == "bytes":
                data = named[item.name].tobytes()
                made.append((f"{part}.{_pixels.suffix_of(data)}", data))
            else:
                data = _pixels.encode(
                    named[item.name], item.axes, self.job.recipe.pixels, self.job.format
                )
                made.append((f"{part}.{self.job.format}", data))
        return made

    def end_piece(self) -> None:
        """The columns that are kept will be those of other rows."""

    def flush(self) -> None:
        """Writes what is ready."""
        for name, data in self._ready:
            path = _store.join(self.job.output, name)
            self.sizes[name] = _store.write(path, data)
        self._ready = []

    def finish(self) -> None:
        """Writes the rest."""
        self.flush()


def _output_stem(entry: Entry) -> str:
    """The name of a row's output without its ending, as the plan has chosen it."""
    return entry.output or str(PurePosixPath(entry.name).with_suffix(""))


class _Part:
    """One file for all rows of a shard, with a column of row numbers or of names of files."""

    def __init__(self, job: Job, shard: Shard, ending: str) -> None:
        self.job = job
        self.shard = shard
        self.sizes: dict[str, int] = {}
        self.kept: dict[str, Any] = {}
        self.kept_from = 0
        self.name = f"part-{shard.number:07d}.{ending}"
        self.pieces: list[dict[str, Any]] = []
        self._blocks: list[Block] = []
        self._bytes = 0

    def __enter__(self) -> _Part:
        return self

    def __exit__(self, *error: Any) -> None:
        pass

    def add(self, block: Block) -> None:
        """Takes rows."""
        self._blocks.append(block)
        for column in block.values:
            items = [column] if isinstance(column, np.ndarray) else column
            self._bytes += sum(item.nbytes for item in items)

    def flush(self) -> None:
        """Is called when no rows wait for others; writes what has become large."""
        if self._bytes >= _PART_BYTES:
            self.end_piece()

    def end_piece(self) -> None:
        """Is called when the columns that are kept will be those of other rows."""
        if self._blocks:
            self.pieces.append(self._columns())
        if self._bytes >= _PART_BYTES:
            self.write()
            self._bytes = 0

    def _columns(self) -> dict[str, Any]:
        """The rows that were added, in order, as columns."""
        self._blocks.sort(key=lambda block: block.rows[0])
        rows = [row for block in self._blocks for row in block.rows]
        found: dict[str, Any] = {}
        if self.shard.first is None:
            found["file"] = [self.shard.entries[row - self.shard.start].name for row in rows]
        else:
            found["row"] = np.array(rows, np.int64)
        for name, column in self.kept.items():
            places = [row - self.kept_from for row in rows]
            found[name] = (column[places] if isinstance(column, np.ndarray)
                           else [column[place] for place in places])  # fmt: skip
        for place, item in enumerate(self.job.recipe.outputs):
            found[item.name] = _joined([block.values[place] for block in self._blocks])
        self._blocks = []
        return found

    def merged(self) -> dict[str, Any]:
        """All pieces as one."""
        pieces, self.pieces = self.pieces, []
        return {name: _joined([piece[name] for piece in pieces]) for name in pieces[0]}

    def write(self) -> None:
        """Writes the pieces, where the format can be written so."""

    def finish(self) -> None:
        """Writes the rest."""
        raise NotImplementedError


def _joined(columns: Sequence[Any]) -> Any:
    arrays = all(isinstance(column, np.ndarray) for column in columns)
    if arrays and len({column.shape[1:] for column in columns}) == 1:
        return np.concatenate(columns)
    return [row for column in columns for row in column]


class _NpzPart(_Part):
    def __init__(self, job: Job, shard: Shard) -> None:
        super().__init__(job, shard, "npz")

    def finish(self) -> None:
        self.end_piece()
        if self.pieces:
            path = _store.join(self.job.output, self.name)
            self.sizes[self.name] = _store.write(path, _tables.npz(self.merged()))


class _ParquetPart(_Part):
    def __init__(self, job: Job, shard: Shard) -> None:
        super().__init__(job, shard, "parquet")
        self._stack = contextlib.ExitStack()
        self._writer: Any = None
        self._stream: Any = None

    def __exit__(self, *error: Any) -> None:
        if error[0] is not None and self._writer is not None:
            with contextlib.suppress(Exception):
                self._writer.close()
            self._writer = None
        self._stack.__exit__(*error)

    def write(self) -> None:
        if not self.pieces:
            return
        table = _tables.part_table(self.merged())
        if self._writer is None:
            path = _store.join(self.job.output, self.name)
            self._stream = self._stack.enter_context(_store.writing(path))
            self._writer = _tables.arrow().parquet.ParquetWriter(self._stream, table.schema)
        try:
            self._writer.write_table(table)
        except OSError as error:
            raise _store.WriteError(error.errno, f"{self.name}: {error.strerror}") from error

    def finish(self) -> None:
        self.end_piece()
        self.write()
        if self._writer is not None:
            self._writer.close()
            self._writer = None
            self.sizes[self.name] = self._stream.tell()
            self._stack.close()
