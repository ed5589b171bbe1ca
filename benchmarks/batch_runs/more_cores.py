"""The defaults on more cores than this machine has: calls of the model wait, not compute."""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import myops.batch
from benchmarks.batch_runs.inputs import tiny
from benchmarks.batch_runs.timing import timed


class Waiting:
    """A session whose calls wait as long as a model would take on some of so many cores.

    Args:
        session: What answers.
        seconds: Of a call with one thread.
        parallel: The share of the work that threads divide among them (Amdahl's law).
        threads: Of a call.
        free: The cores; a call waits until its threads have some.
    """

    def __init__(
        self, session: Any, seconds: float, parallel: float, threads: int, free: threading.Semaphore
    ) -> None:
        self._session = session
        self._seconds = seconds * (1 - parallel + parallel / threads)
        self._threads = threads
        self._free = free

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)

    def run(self, names: Any, feeds: dict[str, np.ndarray]) -> Any:
        rows = len(next(iter(feeds.values())))
        for _ in range(self._threads):
            self._free.acquire()
        time.sleep(self._seconds * rows)
        for _ in range(self._threads):
            self._free.release()
        return self._session.run(names, feeds)


def on_more_cores(folder: Path, cores: int, count: int) -> None:
    """The default of --workers and --threads on `cores` cores, beside all others."""
    from myops.batch import _local, _run

    np.save(folder / "waiting.npy", np.zeros((count, 4), np.float32))
    model = tiny(folder)
    free = threading.Semaphore(cores)
    make = _run.make_session

    def waiting(*words: Any) -> Any:
        return Waiting(make(*words), 0.02, 0.9, words[3] if len(words) > 3 else 1, free)

    def ours(out: Path, **words: Any) -> None:
        myops.batch.run(model, folder / "waiting.npy", out, batch=1, **words)

    candidates: dict[str, Callable[[Path], Any]] = {"myops run": ours}
    for exponent in range(cores.bit_length() + 1):
        for threads in (1, 2, 4, 8, 16):
            workers = 2**exponent
            if cores // 2 <= workers * threads <= cores * 2 and threads <= cores:
                words = {"workers": workers, "threads": threads}
                candidates[f"  --workers {workers} --threads {threads}"] = functools.partial(
                    ours, **words
                )
    before = _local.cores
    _local.cores = lambda: cores
    _run.make_session = _local.make_session = waiting
    try:
        print(f"calls of 20 ms, 90% of them parallel, {count} rows, as on {cores} cores")
        timed(candidates, 1, count)
    finally:
        _local.cores = before
        _run.make_session = _local.make_session = make
