"""A worker in a separate process, for models that may end the process in which they run.

The process gets shards, and reports each row before it decodes or runs it. If the process ends, the
row that it reported last fails with the reason, and a new process continues with the others.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import struct
import subprocess
import sys
import threading
from collections.abc import Sequence
from typing import Any

from myops.batch import _store
from myops.batch._job import Job, Stopped, make_session
from myops.batch._plan import Shard
from myops.batch._state import Record
from myops.batch._work import Worker


class Isolated:
    """Works like a `Worker`, in another process; for one thread at a time.

    Args:
        job: What to do.
        stopped: Set when the run is to end.
    """

    def __init__(self, job: Job, stopped: threading.Event) -> None:
        self._job = job
        self._stopped = stopped
        self._process: subprocess.Popen[bytes] | None = None

    def process(self, shard: Shard) -> Record:
        """Makes the outputs of a shard.

        Raises:
            Stopped: The run is to end.
            WriteError: An output cannot be written.
        """
        skip: dict[int, str] = {}
        singly = False
        while True:
            if self._stopped.is_set():
                raise Stopped
            rows: Sequence[int] = []
            try:
                process = self._running()
                _send(process.stdin, ("shard", shard, skip, singly))
                while True:
                    kind, value = _receive(process.stdout)
                    if kind != "rows":
                        break
                    rows = value
            except (EOFError, BrokenPipeError, ConnectionError):
                status = self._end()
                if self._stopped.is_set():
                    raise Stopped from None
                if not rows:
                    raise RuntimeError(
                        f"a worker's process ended before it had a row: {died(status)}"
                    ) from None
                if len(rows) == 1:
                    skip[rows[0]] = f"The process that ran it ended: {died(status)}."
                singly = True  # until the row is found
                continue
            if kind == "error":
                raise value
            assert isinstance(value, Record)
            return value

    def start(self) -> None:
        """Starts the process, so that it is ready for the first shard."""
        self._running()

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._process.poll() is not None:
            self._process = subprocess.Popen(
                [sys.executable, "-c", "from myops.batch._isolated import main; main()"],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True,
            )  # fmt: skip
            _send(self._process.stdin, self._job)
        return self._process

    def _end(self) -> int:
        process, self._process = self._process, None
        if process is None:
            return 0
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()
        return process.wait()

    def kill(self) -> None:
        """Ends the process while another thread waits for it; that thread's `process` raises."""
        process = self._process
        if process is not None:
            process.kill()

    def close(self) -> None:
        """Ends the process."""
        if self._process is not None:
            self._process.kill()
            self._end()


def died(status: int) -> str:
    """A text that says how a process ended."""
    if status < 0:
        try:
            return f"signal {signal.Signals(-status).name}"
        except ValueError:
            return f"signal {-status}"
    return f"status {status}"


def _send(stream: Any, item: Any) -> None:
    data = pickle.dumps(item)
    stream.write(struct.pack("<Q", len(data)) + data)
    stream.flush()


def _receive(stream: Any) -> Any:
    head = stream.read(8)
    if len(head) < 8:
        raise EOFError
    (size,) = struct.unpack("<Q", head)
    data = stream.read(size)
    if len(data) < size:
        raise EOFError
    return pickle.loads(data)


def main() -> None:
    """The main function of the process, which ends when it gets no more shards."""
    own = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what models print must not be taken for an answer
    stream = sys.stdin.buffer
    try:
        job = _receive(stream)
    except EOFError:
        return
    worker: Any = None
    failed: Exception | None = None
    try:  # now, not with the first shard: an actor of Ray waits for that one meanwhile
        session = make_session(job.model, job.libraries, job.named_libraries, job.threads)
        worker = Worker(
            job, [session], threading.Event(), lambda rows: _send(own, ("rows", [*rows]))
        )
    except Exception as error:
        failed = error
    while True:
        try:
            _, shard, skip, singly = _receive(stream)
        except EOFError:
            return
        try:
            if failed is not None:
                raise failed
            answer = ("record", worker.process(shard, skip, singly))
        except _store.WriteError as error:
            answer = ("error", _store.WriteError(str(error)))
        except Exception as error:
            kind = type(error) if type(error) in (ImportError, ValueError) else RuntimeError
            answer = ("error", kind(f"{error}"))
        _send(own, answer)
