"""Candidates in turns, and the memory of a run."""

from __future__ import annotations

import functools
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np


def timed(candidates: dict[str, Callable[[Path], Any]], rounds: int, rows: int) -> None:
    """Prints rows a second of each, in turns."""
    seconds: dict[str, list[float]] = {name: [] for name in candidates}
    # In another order each time: what ran before decides what is in the caches and on the disk.
    order, random = list(candidates.items()), np.random.default_rng(0)
    for _ in range(rounds):
        random.shuffle(order)
        for name, run in order:
            with tempfile.TemporaryDirectory() as folder:
                start = time.perf_counter()
                run(Path(folder) / "out")
                seconds[name].append(time.perf_counter() - start)
    first = statistics.median(next(iter(seconds.values())))
    for name, found in seconds.items():
        median = statistics.median(found)
        print(f"  {name:<36} {rows / median:10.1f} rows/s  {first / median:5.2f} x", flush=True)


def settings(run: Callable[..., Any], **more: Sequence[int]) -> dict[str, Callable[[Path], Any]]:
    """The defaults, and what they are chosen among."""
    found: dict[str, Callable[[Path], Any]] = {"myops run": run}
    choices: list[dict[str, int]] = [{"workers": workers, "threads": threads} for workers, threads
                                     in ((1, 1), (1, 2), (2, 1), (2, 2), (3, 1))]  # fmt: skip
    choices += [{name: value} for name, values in more.items() for value in values]
    for choice in choices:
        words = " ".join(f"--{name} {value}" for name, value in choice.items())
        found[f"  {words}"] = functools.partial(run, **choice)
    return found


class Memory:
    """The most memory that this process has written to, in MiB, while a block runs."""

    def __enter__(self) -> Memory:
        self.before = self.most = self._now()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._ended.wait(0.01):
            self.most = max(self.most, self._now())

    @staticmethod
    def _now() -> float:
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("RssAnon"))
