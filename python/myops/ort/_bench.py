"""`bench`: how long a model takes, beside others that are measured in turn with it."""

from __future__ import annotations

import dataclasses
import gc
import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx

from myops import _given
from myops._checked import checked
from myops._text import for_markup, printable
from myops.onnx.graph import files, scopes
from myops.ort import _narrow
from myops.ort._measuring import MOST_THREADS, fed, machine, opened

if TYPE_CHECKING:
    from rich.console import Console

LOWERED = "lowered"
PERCENTILES = (50, 90, 99)
_LEAST = 10  # runs at least, however long they take
_MOST = 100_000


@dataclass(frozen=True)
class Timing:
    """How long one model took with one number of threads; times are in seconds.

    Attributes:
        name: The file, or "lowered".
        threads: Of the session, for one node.
        runs: How many were measured.
        fastest: The shortest run.
        mean: The mean of all runs.
        percentiles: 50, 90 and 99 percent of the runs took at most this long.
        throughput: Runs a second, one after the other.
        relative: The 50th percentile over that of the first model with as many threads.
    """

    name: str
    threads: int
    runs: int
    fastest: float
    mean: float
    percentiles: dict[int, float]
    throughput: float
    relative: float


@dataclass(frozen=True)
class Benchmark:
    """The result of `myops.ort.bench`.

    Attributes:
        timings: One for each model and number of threads.
        inputs: dtype and shape of each input, and what of it was invented.
        differences: How far the outputs of each further model are from those of the first, over
            their largest element where that is above 1; infinite for other shapes.
        notes: What else is worth knowing.
        machine: CPU, cores, and the version of ONNX Runtime.
    """

    timings: list[Timing]
    inputs: dict[str, dict[str, Any]]
    differences: dict[str, float]
    notes: list[str]
    machine: dict[str, Any]

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        return dataclasses.asdict(self)

    def to_json(self) -> str:
        """The same as text; infinities are strings."""
        from myops.cli._console import _plain

        return json.dumps(_plain(self.to_dict()), indent=2, allow_nan=False)

    def print(self, console: Console | None = None) -> None:
        """A table in the terminal; times are in milliseconds."""
        from rich.table import Table
        from rich.text import Text

        from myops._terminal import Console as Terminal
        from myops._terminal import line

        console = console or Terminal()
        for number, (name, item) in enumerate(self.inputs.items()):
            made = f"; invented: {item['invented']}" if item["invented"] else ""
            title = "" if number else "inputs"
            line(console, for_markup(f"{title:<7} {name} {item['dtype']}{item['shape']}{made}"))
        line(console, for_markup(
            f"{'on':<7} {self.machine['cpu']}, {self.machine['cores']} cores, ONNX Runtime "
            f"{self.machine['onnxruntime']}"
        ))  # fmt: skip
        table = Table(box=None, pad_edge=False)
        table.add_column("model", overflow="fold")
        for heading in ("threads", "runs", "min ms", *(f"p{p} ms" for p in PERCENTILES),
                        "runs/s", "relative"):  # fmt: skip
            table.add_column(heading, justify="right", no_wrap=True)
        for timing in self.timings:
            times = [timing.fastest, *timing.percentiles.values()]
            table.add_row(
                Text(printable(timing.name)), str(timing.threads), str(timing.runs),
                *(f"{1000 * value:.3f}" for value in times), f"{timing.throughput:.1f}",
                f"{timing.relative:.2f}",
            )  # fmt: skip
        console.print(table)
        for name, found in self.differences.items():
            line(console, for_markup(f"outputs of {name}: apart by {found:.2g}"))
        for note in self.notes:
            line(console, f"[yellow]note[/] {for_markup(note)}")


@checked()
def bench(
    model: files.Model,
    against: files.Model | Sequence[files.Model] = (),
    *,
    inputs: Mapping[str, Any] | None = None,
    dims: Mapping[str, int] | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    threads: Sequence[int] = (1,),
    warmup: int = 3,
    repeat: int | None = None,
    seconds: float = 2.0,
    libraries: Sequence[str | os.PathLike[str]] = (),
    progress: Callable[[str], None] | None = None,
) -> Benchmark:
    """Measures how long a model takes in ONNX Runtime, on the CPU.

    All models are loaded first and then run in turn, one run each, in an order that changes from
    round to round, so that other load on the machine affects all of them alike. Each run is one
    call of `session.run` with NumPy arrays, all on the same inputs.

    Args:
        model: A path, the bytes of a file, or a ModelProto.
        against: Another model or several, with the same inputs. "lowered" is `model` with the
            nodes of op libraries in standard operators (`myops.onnx.lower`).
        inputs: Arrays, or paths of .npy files, by name. What is left out is invented, as by
            `myops.ort.doctor`; floats are drawn from the normal distribution where that runs.
        dims: Lengths of axes that the model leaves open, by name or as "INPUT:AXIS".
        shapes: Shapes of invented inputs.
        threads: How many threads a session has for one node; several are measured one by one.
        warmup: Runs of each session that are not measured.
        repeat: Measured runs of each session. Default: as many as fit into `seconds`, at least 10.
        seconds: How long the runs of each session may take together.
        libraries: Custom-op libraries that a model needs besides those of op libraries.
        progress: Called with what is done now.

    Returns:
        The timings.

    Raises:
        ValueError: An argument makes no sense, models with other inputs, or "lowered" for a model
            without nodes of op libraries, or that cannot be lowered.
        FileNotFoundError: No such file or library.
        RuntimeError: A model does not load, or runs on no inputs that were tried.

    Example:
        >>> result = myops.ort.bench("upscale.onnx", "lowered", threads=[1, 2], seconds=0.2)
        >>> result.print()
        inputs ...
        >>> best, worst = (result.timings[0].percentiles[level] for level in (50, 99))  # seconds
        >>> assert 0 < best <= worst
    """
    _check(threads, warmup, repeat, seconds)
    say = progress or (lambda text: None)
    say("loading")
    titles = dict(_candidates(model, against))
    names = list(titles)
    count = list(dict.fromkeys(threads))
    sessions = {
        (name, number): opened(name, titles[name], number, libraries)
        for number in count
        for name in names
    }
    feed, shown = fed(titles, sessions, count[0], (inputs or {}, dims or {}, shapes or {}))
    first = _narrow.results(sessions[names[0], count[0]], feed)
    differences = {name: _difference(first, _narrow.results(sessions[name, count[0]], feed))
                   for name in names[1:]}  # fmt: skip
    timings: list[Timing] = []
    for number in count:
        say(f"{number} threads" if number > 1 else "1 thread")
        runs = {name: sessions[name, number] for name in names}
        times = _measured(runs, feed, warmup, repeat, seconds)
        base = float(np.percentile(times[names[0]], 50))
        timings += [_timing(name, number, times[name], base) for name in names]
    facts = machine()
    return Benchmark(timings, shown, differences, _notes(timings, count, facts), facts)


def _check(threads: Sequence[int], warmup: int, repeat: int | None, seconds: float) -> None:
    listed = isinstance(threads, Iterable) and not isinstance(threads, (str, bytes))
    if not listed or getattr(threads, "ndim", 1) == 0 or not len(threads):
        raise ValueError(f"bench: threads: got {threads!r}, expected a list of numbers from 1 on")
    for number in threads:
        _given.whole("bench: threads", number, 1, MOST_THREADS)
    _given.whole("bench: warmup", warmup, 0, _MOST)
    if repeat is not None:
        _given.whole("bench: repeat", repeat, 1, _MOST)
    _given.seconds("bench: seconds", seconds)


def _candidates(
    model: files.Model, against: files.Model | Sequence[files.Model]
) -> Iterator[tuple[str, Any]]:
    """Names and what is loaded under them; two models of one name get numbers."""
    alone = isinstance(against, (str, os.PathLike, bytes, bytearray, memoryview, onnx.ModelProto))
    others: list[Any] = [against] if alone else list(against)  # type: ignore[arg-type]
    seen: dict[str, int] = {}
    for place, item in enumerate([model, *others]):
        if place and isinstance(item, str) and item == LOWERED and not os.path.exists(item):
            name, item = LOWERED, _lowered(model)
        elif isinstance(item, (str, os.PathLike)):
            name = os.fspath(item)
        else:
            name = "the model" if not place else "the other"
        seen[name] = seen.get(name, 0) + 1
        yield (name if seen[name] == 1 else f"{name} ({seen[name]})"), item


def _lowered(model: files.Model) -> onnx.ModelProto:
    from myops.onnx.lowering import lower

    proto = files.load(model)
    lists = [proto.graph.node, *(function.node for function in proto.functions)]
    if not any(scopes.is_ours(node) for nodes in lists for node in scopes.all_nodes(nodes)):
        raise ValueError(
            "bench: against: got 'lowered', but the model has no node of an op library, so it is "
            "in standard operators already"
        )
    return lower(proto)


def _difference(one: Sequence[Any], other: Sequence[Any]) -> float:
    from myops.onnx.surgery import _trial

    if len(one) != len(other):
        return float("inf")
    return max((_trial.difference(a, b) for a, b in zip(one, other, strict=True)), default=0.0)


def _measured(
    sessions: Mapping[str, Any], feed: Mapping[str, np.ndarray], warmup: int,
    repeat: int | None, seconds: float,
) -> dict[str, list[float]]:  # fmt: skip
    """The times of each session; they run in turn."""
    runs = {name: _narrow.bound(session, feed) for name, session in sessions.items()}
    for run in runs.values():
        for _ in range(warmup):
            run()
    names = list(sessions)
    times: dict[str, list[float]] = {name: [] for name in names}
    clock = time.perf_counter
    collected = gc.isenabled()
    gc.disable()  # otherwise a garbage collection may happen during one of the runs
    try:
        spent = 0.0
        while True:
            rounds = len(times[names[0]])
            done = repeat is not None and rounds == repeat
            enough = repeat is None and spent >= seconds * len(names) and rounds >= _LEAST
            if done or enough or rounds == _MOST:
                break
            shift = rounds % len(names)
            for name in names[shift:] + names[:shift]:
                run = runs[name]
                start = clock()
                run()
                taken = clock() - start
                times[name].append(taken)
                spent += taken
    finally:
        if collected:
            gc.enable()
    return times


def _timing(name: str, threads: int, times: Sequence[float], base: float) -> Timing:
    levels = [float(value) for value in np.percentile(times, PERCENTILES, method="higher")]
    total = float(np.sum(times))
    middle = float(np.percentile(times, 50))
    return Timing(
        name=name, threads=threads, runs=len(times), fastest=float(np.min(times)),
        mean=total / len(times), percentiles=dict(zip(PERCENTILES, levels, strict=True)),
        throughput=len(times) / total, relative=middle / base,
    )  # fmt: skip


def _notes(
    timings: Sequence[Timing], threads: Sequence[int], machine: Mapping[str, Any]
) -> list[str]:
    cores, notes = machine["cores"], []
    if max(threads) > cores:
        notes.append(f"{max(threads)} threads share {cores} cores.")
    few = min(item.runs for item in timings)
    if few <= 100:
        notes.append(f"Of {few} runs, the 99th percentile is the slowest of them.")
    return notes
