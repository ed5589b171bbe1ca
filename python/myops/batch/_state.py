"""The files beside the outputs with which an interrupted run continues where it stopped.

    .myops-run/manifest.json   the identity: hashes of the model, its libraries, the source, options
    .myops-run/journal*.jsonl  a line for each shard that has begun, and for each that is done
    .myops-run/lock            locked during a run
    failed.jsonl               rows without output, and the reasons

In a folder, lines are appended to the journal. Files in a bucket cannot be appended to, so each run
writes pieces of the journal every few seconds; shards that were done after the last piece are done
again, with the same result.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import socket
import time
import uuid
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from myops.batch import _changes, _store
from myops.batch._single import Target

FOLDER = ".myops-run"
_SECONDS = 5.0  # between pieces of a journal in a bucket
_ABANDONED = 60.0  # seconds after which the lock of a bucket is that of a run that was killed
_UNSYNCED = 60.0  # seconds that a system may take until a file is on the disk


class LockedError(RuntimeError):
    """Another run works on the same output."""


@dataclass
class Record:
    """A shard that is done.

    number: Of the shard.
    done: Rows with output.
    failed: [row, name, reason] of the others.
    sizes: Bytes of each file that was written, by its name below the output.
    at: When, in seconds since 1970.
    """

    number: int
    done: int
    failed: list[list[Any]] = field(default_factory=list)
    sizes: dict[str, int] = field(default_factory=dict)
    at: float = 0.0


def _known(found: Any) -> bool:
    """Whether a line of a journal is one that a run writes. Others are damaged, as is half a line
    of a machine that lost its power: their shards are made again."""

    def counts(*numbers: Any) -> bool:
        return all(type(number) is int and number >= 0 for number in numbers)

    if not isinstance(found, dict):
        return False
    if len(found) == 1 and "begin" in found:
        return counts(found["begin"])
    if len(found) == 1 and "joined" in found:
        return counts(found["joined"])
    if len(found) == 1 and "end" in found:
        return True
    failed, sizes = found.get("failed"), found.get("sizes")
    return (
        {*found} == {item.name for item in fields(Record)}
        and counts(found["number"], found["done"])
        and isinstance(found["at"], (int, float))
        and isinstance(failed, list)
        and all(isinstance(item, list) and len(item) == 3 and counts(item[0])
                and isinstance(item[1], str) and isinstance(item[2], str) for item in failed)
        and isinstance(sizes, dict)
        and counts(*sizes.values())
    )  # fmt: skip


class State:
    """Of one output.

    Attributes:
        done: Number of a shard -> its rows with output and its failed rows, of this run and those
            before it.
        begun: Shards in progress when a run ended without closing its journal.
        joined: Bytes of the one file to which all parts were joined; None: not joined yet.
    """

    def __init__(self, target: Target) -> None:
        self.target = target
        self.output = target.output
        self.folder = _store.join(target.folder, FOLDER)
        self.remote = _store.is_remote(target.output)
        self.joined: int | None = None
        self.done: dict[int, tuple[int, list[list[Any]]]] = {}
        self.begun: set[int] = set()
        self._lock: Any = None
        self._stream: Any = None
        self._piece: list[str] = []
        self._written = time.monotonic()

    # ---- The lock.

    def lock(self) -> None:
        """Takes the lock.

        Raises:
            LockedError: Another run has it.
        """
        path = _store.join(self.folder, "lock")
        if self.remote:
            self._lock_remote(path)
            return
        try:
            os.makedirs(self.folder, exist_ok=True)
            self._lock = open(path, "a+")  # noqa: SIM115
        except OSError as error:
            raise _store.WriteError(error.errno, f"{self.folder}: {error.strerror}") from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._lock.seek(0)
            who = self._lock.read().strip() or "another process"
            self._lock.close()
            self._lock = None
            raise LockedError(f"{self.output}: another run is working on it ({who})") from None
        try:
            self._lock.truncate(0)
            self._lock.write(f"process {os.getpid()} on {socket.gethostname()}")
            self._lock.flush()
        except OSError as error:
            raise _store.WriteError(error.errno, f"{path}: {error.strerror}") from error

    def _lock_remote(self, path: str) -> None:
        with contextlib.suppress(FileNotFoundError, ValueError):
            found = json.loads(_store.read(path))
            if time.time() - found["at"] < _ABANDONED:
                raise LockedError(
                    f"{self.output}: another run is working on it ({found['who']}); if it was "
                    f"killed, wait for {_ABANDONED:.0f} seconds"
                )
        self._lock = {"who": f"process {os.getpid()} on {socket.gethostname()}",
                      "run": uuid.uuid4().hex}  # fmt: skip
        self._renew()

    def _renew(self) -> None:
        path = _store.join(self.folder, "lock")
        _store.write(path, json.dumps({**self._lock, "at": time.time()}).encode())

    # ---- The manifest and the journal.

    def open(self, identity: Mapping[str, Any]) -> bool:
        """Compares with the manifest of an earlier run on this output; returns whether there was
        one.

        Raises:
            ValueError: It was another run, or the folder contains something else.
        """
        path = _store.join(self.folder, "manifest.json")
        if not _store.exists(path):
            if self.target.single:
                if _store.exists(self.output):
                    raise ValueError(
                        f"output: {self.output} exists, and is not of a run like this; expected a "
                        "new name, or that of a run to go on with"
                    )
            elif others := [name for name in _store.names(self.output) if name != FOLDER]:
                raise ValueError(
                    f"output: {self.output} holds {others[0]!r}, which is not of a run like this; "
                    "expected an empty folder, a new one, or that of a run to go on with"
                )
            _store.write(path, json.dumps(identity, indent=1, sort_keys=True).encode())
            return False
        try:
            before = json.loads(_store.read(path))
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{path}: got no JSON ({error}); use another output") from error
        if before != identity:
            try:
                told = _changes.described(before, identity)
            except (AttributeError, LookupError, TypeError, ValueError):  # other JSON than ours
                raise ValueError(f"{path}: it is damaged; use another output") from None
            # The journal of a single file is in a hidden folder, which outlives the file.
            anew = f". To begin anew, delete {self.target.folder} and the file"
            if not self.target.single:
                anew = ""
            raise ValueError(
                f"output: {self.output} is that of another run, whose results are not mixed with "
                f"these: {told}. Expected another output, or the same run{anew}"
            )
        self._read_journal()
        return True

    def _read_journal(self) -> None:
        newest = 0.0
        records: dict[int, Record] = {}
        recent: deque[Record] = deque()
        doubtful: set[int] = set()
        for found in self._lines():
            if "begin" in found:
                self.begun.add(found["begin"])
            elif "joined" in found:
                self.joined = found["joined"]
            elif "end" in found:
                self.begun.clear()
                doubtful.clear()
            else:
                record = Record(**found)
                records[record.number] = record
                self.begun.discard(record.number)
                # While a process ends, calls of its other threads fail for that reason alone.
                doubtful.discard(record.number)
                doubtful.update([record.number] if record.failed and not self.remote else [])
                newest = max(newest, record.at)
                recent.append(record)
                while recent and recent[0].at < newest - _UNSYNCED and not self.target.single:
                    recent.popleft().sizes = {}  # not needed, and a name for each row
        if self.joined is not None and self.joined != max(0, _store.size(self.output)):
            self.joined = None  # the file was removed, and with it what had become of the parts
            newest = 0.0
        for number, record in records.items():
            old = record.at < newest - _UNSYNCED or self.joined is not None
            if old or (number not in doubtful and self._is_there(record)):
                self.done[number] = record.done, record.failed

    def _lines(self) -> Iterator[dict[str, Any]]:
        for name in _store.names(self.folder):
            if not (name.startswith("journal") and name.endswith(".jsonl")):
                continue
            with _store.opened(_store.join(self.folder, name)) as stream:
                for line in stream:
                    # Half a line is that of a machine that lost its power.
                    with contextlib.suppress(ValueError, RecursionError):
                        if line.endswith(b"\n") and _known(found := json.loads(line)):
                            yield found

    def _is_there(self, record: Record) -> bool:
        """A machine that lost its power may have lost the last files too."""
        return all(_store.size(_store.join(self.target.folder, name)) == size
                   for name, size in record.sizes.items())  # fmt: skip

    def counts(self) -> tuple[int, int]:
        """Rows with output, and failed ones."""
        return (sum(done for done, _ in self.done.values()),
                sum(len(failed) for _, failed in self.done.values()))  # fmt: skip

    def begin(self, number: int) -> None:
        """Records that a shard is in progress."""
        if not self.remote:
            self._append({"begin": number})

    def record(self, record: Record) -> None:
        """Records that a shard is done: its outputs exist."""
        record.at = time.time()
        self.done[record.number] = record.done, record.failed
        self._append(asdict(record))

    def join(self, size: int) -> None:
        """Notes that all parts are in one file of so many bytes."""
        self.joined = size
        self._append({"joined": size})

    def _append(self, line: Mapping[str, Any]) -> None:
        text = json.dumps(line) + "\n"
        if self.remote:
            self._piece.append(text)
            if time.monotonic() - self._written > _SECONDS:
                self._write_piece()
            return
        try:
            if self._stream is None:
                path = _store.join(self.folder, "journal.jsonl")
                # A line that a power cut left half written must not swallow the next one.
                torn = _ends_torn(path)
                self._stream = open(path, "a", encoding="utf-8")  # noqa: SIM115
                self._stream.write("\n" if torn else "")
            self._stream.write(text)
            self._stream.flush()
        except OSError as error:
            raise _store.WriteError(error.errno, f"{self.folder}: {error.strerror}") from error

    def _write_piece(self) -> None:
        name = f"journal-{time.time_ns():020d}-{self._lock['run'][:8]}.jsonl"
        if self._piece:
            _store.write(_store.join(self.folder, name), "".join(self._piece).encode())
        self._piece = []
        self._written = time.monotonic()
        self._renew()

    def tick(self) -> None:
        """Called regularly: renews the lock of a bucket and writes its journal."""
        if self.remote and time.monotonic() - self._written > _SECONDS:
            self._write_piece()

    def write_failures(self) -> str:
        """Writes the list of failed rows; its path, "" where no row failed."""
        path = self.target.failed
        rows = sorted((item for _, failed in self.done.values() for item in failed),
                      key=lambda item: item[0])  # fmt: skip
        if rows or _store.exists(path):
            lines = [json.dumps({"row": row, "name": name, "reason": reason}) + "\n"
                     for row, name, reason in rows]  # fmt: skip
            _store.write(path, "".join(lines).encode())
        return path if rows else ""

    def close(self) -> None:
        """Gives the lock back. Shards that were not done are not suspected: the process lives."""
        with contextlib.suppress(OSError):
            if self._stream is not None:
                self._append({"end": time.time()})
            if self.remote and self._lock is not None:
                self._write_piece()
                _store.write(_store.join(self.folder, "lock"), b"")
        if self._stream is not None:
            self._stream.close()
        if not self.remote and self._lock is not None:
            self._lock.close()
        self._stream = self._lock = None


def _ends_torn(path: str) -> bool:
    try:
        with open(path, "rb") as stream:
            stream.seek(-1, os.SEEK_END)
            return stream.read(1) != b"\n"
    except OSError:
        return False
