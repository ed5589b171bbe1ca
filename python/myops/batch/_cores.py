"""The cores of a machine, represented by the sessions that may run at once."""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from myops.batch._job import Stopped

_WORTH_SHARING = 1e-3  # seconds of a call from which on another thread is asked to help

Item = TypeVar("Item")


class Cores:
    """A pool of sessions; threads take one for calls, and also for decoding and encoding.

    Args:
        sessions: As many as calls may run at once; the same one may be there several times.
        stopped: Set when the run is to end.
    """

    def __init__(self, sessions: Sequence[Any], stopped: threading.Event) -> None:
        self._free: queue.LifoQueue[Any] = queue.LifoQueue()
        for item in sessions:
            self._free.put(item)
        self._stopped = stopped
        self._helpers = ThreadPoolExecutor(len(sessions), "myops-batch-helper")

    @contextlib.contextmanager
    def one(self) -> Iterator[Any]:
        """A session, as soon as one is free.

        Raises:
            Stopped: The run is to end.
        """
        while True:
            if self._stopped.is_set():
                raise Stopped
            with contextlib.suppress(queue.Empty):
                session = self._free.get(timeout=0.2)
                break
        try:
            yield session
        finally:
            self._free.put(session)

    def each(self, items: Sequence[Item], do: Callable[[Any, Item], None]) -> None:
        """Calls do(session, item) for all items, in this thread and on idle cores.

        Idle cores help if a shard is the last one, or the only one, and its calls take long.

        Raises:
            Stopped: The run is to end.
        """
        waiting = iter(items)
        lock = threading.Lock()
        helping: list[Future[None]] = []

        def run(session: Any) -> Iterator[float]:
            """Works on items, and says how long each took."""
            while True:
                if self._stopped.is_set():
                    raise Stopped
                with lock:
                    item = next(waiting, None)
                if item is None:
                    return
                started = time.perf_counter()
                do(session, item)
                yield time.perf_counter() - started

        def help() -> None:
            with contextlib.suppress(queue.Empty):
                session = self._free.get_nowait()
                try:
                    for _ in run(session):
                        pass
                finally:
                    self._free.put(session)

        with self.one() as session:
            for seconds in run(session):
                more = min(self._free.qsize(), len(items) - 1 - len(helping))
                if seconds > _WORTH_SHARING and more > 0:
                    helping += [self._helpers.submit(help) for _ in range(more)]
        for future in helping:
            future.result()

    def close(self) -> None:
        """Ends the threads."""
        self._helpers.shutdown(wait=False)
