"""The engine of one machine: threads that share the cores.

Each thread works on a shard: it reads, then decodes, runs and encodes, then writes. For the middle
part it needs a core: there is one session for each core, so that additional threads can only read
and write. Only the data of these threads is in memory.
"""

from __future__ import annotations

import contextlib
import os
import queue
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from myops.batch._isolated import Isolated
from myops.batch._job import Job, Stopped, make_session
from myops.batch._plan import Shard
from myops.batch._work import Worker

READERS = {False: 2, True: 16}  # threads beyond the workers; for each worker where it is remote


def cores() -> int:
    """How many cores this process may use: of its affinity, and of the share of a container."""
    found = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    count = found or 1
    with contextlib.suppress(OSError, ValueError):
        with open("/sys/fs/cgroup/cpu.max", encoding="ascii") as stream:
            quota, period = stream.read().split()
        count = min(count, max(1, round(int(quota) / int(period))))
    return count


def sizes(workers: int | None, threads: int | None, calls: int) -> tuple[int, int]:
    """The number of simultaneous calls, and the threads of each, for the number of cores.

    One thread per call gives the most rows per second, because calls of different rows never wait
    for each other. Calls get several threads only if there are fewer calls than cores.
    """
    count = cores()
    if workers is None and threads is None:
        workers = max(1, min(count, calls))
    if workers is None:
        workers = max(1, count // (threads or 1))
    return workers, threads or max(1, count // workers)


class Local:
    """Runs shards.

    Args:
        job: What to do.
        workers: Simultaneous calls.
        isolate: Whether each worker is a separate process.
        remote: Whether source or output are on another machine.
        readers: Additional threads; None: as in READERS.
        session: An existing session to use.
    """

    def __init__(
        self,
        job: Job,
        workers: int,
        isolate: bool,
        remote: bool,
        readers: int | None = None,
        session: Any = None,
    ) -> None:
        self.job = job
        self.workers = workers
        self.isolate = isolate
        more = readers if readers is not None else READERS[remote] * (workers if remote else 1)
        self.threads = workers if isolate else workers + more
        self.stopped = threading.Event()
        self._session = session
        self.worker: Worker | None = None
        self.calls = self.in_memory = 0
        self._others: list[Isolated] = []

    def run(self, shards: Iterable[Shard], suspected: set[int]) -> Iterator[tuple[str, Any]]:
        """Yields ("begin", number) and ("record", Record), each before the next is asked for.

        Args:
            suspected: Shards in which an earlier run ended; they are run in another process.

        Raises:
            WriteError: An output cannot be written. What else a worker raises comes through.
        """
        waiting = iter(shards)
        lock = threading.Lock()
        # Short: threads do not run far ahead of the journal.
        said: queue.Queue[tuple[str, Any, threading.Event]] = queue.Queue(maxsize=1)

        def tell(kind: str, value: Any) -> None:
            written = threading.Event()
            while not self.stopped.is_set():
                with contextlib.suppress(queue.Full):
                    said.put((kind, value, written), timeout=0.2)
                    break
            # A shard may end the process, so it must be in the journal before it is run.
            while kind == "begin" and not self.stopped.is_set() and not written.wait(0.2):
                pass

        def work() -> None:
            own: Isolated | None = None
            try:
                while not self.stopped.is_set():
                    with lock:
                        shard = next(waiting, None)
                    if shard is None:
                        break
                    tell("begin", shard.number)
                    if self.stopped.is_set():
                        break  # it may not be in the journal
                    if self.isolate or shard.number in suspected:
                        if own is None:
                            own = Isolated(self.job, self.stopped)
                            self._others.append(own)
                        tell("record", own.process(shard))
                    else:
                        assert self.worker is not None
                        tell("record", self.worker.process(shard))
            except Stopped:
                pass
            except BaseException as error:
                tell("error", error)
            finally:
                if own is not None:
                    own.close()
                tell("end", None)

        if not self.isolate:
            self.worker = Worker(self.job, self._sessions(), self.stopped)
        threads = [threading.Thread(target=work, name=f"myops-batch-{place}", daemon=True)
                   for place in range(self.threads)]  # fmt: skip
        try:
            for thread in threads:
                thread.start()
            left = len(threads)
            while left:
                try:
                    kind, value, written = said.get(timeout=0.5)
                except queue.Empty:
                    yield "tick", None
                    continue
                if kind == "error":
                    raise value
                if kind == "end":
                    left -= 1
                else:
                    yield kind, value
                    written.set()
        finally:
            self.stopped.set()
            for item in self._others:
                item.kill()
            for thread in threads:
                thread.join()
            if self.worker is not None:
                self.worker.close()
                self.calls = self.worker.runner.largest
                self.in_memory = self.worker.in_memory.largest

    def _sessions(self) -> list[Any]:
        """One for each call at once. Without threads of its own one session serves all of them."""
        job = self.job
        make: Callable[[], Any] = lambda: make_session(  # noqa: E731
            job.model, job.libraries, job.named_libraries, job.threads
        )
        first = self._session or make()
        if job.threads == 1:
            return [first] * self.workers
        return [first, *(make() for _ in range(self.workers - 1))]
