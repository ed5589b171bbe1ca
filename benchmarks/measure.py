"""Timing: candidates in turns, in rotated order, without the samples that were disturbed."""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from statistics import median, quantiles
from typing import Any

from benchmarks import system
from benchmarks.case import Candidate, Output, Side

# A sample is dropped if the process waited for a core for more than this part of the time.
DISTURBED = 0.05
FEWEST = 3


@dataclass(frozen=True)
class Plan:
    """How much to measure.

    Attributes:
        rounds: Clean samples wanted from each candidate.
        sample: Seconds that a sample should last; short calls are repeated.
        budget: Seconds for one candidate of one case. Slow ones get fewer samples for it, and at
            least FEWEST.
    """

    rounds: int = 15
    sample: float = 0.005
    budget: float = 0.5


@dataclass(frozen=True)
class Sample:
    """Seconds and page faults of one call, and the part of the time spent waiting for a core."""

    seconds: float
    faults: float
    waited: float


@dataclass
class Measurement:
    """The result for one candidate; `clean` of `taken` samples count."""

    name: str
    side: Side
    output: Output
    seconds: float
    spread: float
    faults: float
    clean: int
    taken: int
    disturbed: bool
    samples: list[Sample] = field(default_factory=list, repr=False)

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def measure(candidates: Sequence[Candidate], plan: Plan) -> list[Measurement]:
    """Measures all candidates in turns; their results have been checked before."""
    repeats, wanted = [], []
    for candidate in candidates:
        seconds = _calibrate(candidate.run)
        count = max(1, math.ceil(plan.sample / seconds))
        cost = seconds * (count + 1)  # the call before each sample is not timed
        repeats.append(count)
        wanted.append(min(plan.rounds, max(FEWEST, int(plan.budget / cost))))
    samples: list[list[Sample]] = [[] for _ in candidates]
    gc.collect()
    gc.disable()
    try:
        for turn in range(2 * plan.rounds):
            for index in rotated(len(candidates), turn):
                taken = samples[index]
                if is_due(turn, plan.rounds, wanted[index], len(taken), count_clean(taken)):
                    taken.append(_sample(candidates[index].run, repeats[index]))
    finally:
        gc.enable()
    return [
        summarise(candidate, taken) for candidate, taken in zip(candidates, samples, strict=True)
    ]


def rotated(count: int, turn: int) -> list[int]:
    """The order of one round: each candidate is the first once in `count` rounds."""
    return [(turn + step) % count for step in range(count)]


def is_due(turn: int, rounds: int, wanted: int, taken: int, clean: int) -> bool:
    """Whether a candidate is measured in this round.

    In the first `rounds` rounds its samples are spread evenly; in as many again it makes up for
    those that were dropped.
    """
    if turn >= rounds:
        return clean < wanted and taken < 2 * wanted
    return taken < wanted and turn * wanted // rounds >= taken


def count_clean(samples: Sequence[Sample]) -> int:
    return sum(sample.waited <= DISTURBED for sample in samples)


def summarise(candidate: Candidate, samples: Sequence[Sample]) -> Measurement:
    """Median and spread (interquartile range / median) of the clean samples.

    With fewer than FEWEST clean ones, the least disturbed are taken, and the row says so.
    """
    clean = count_clean(samples)
    kept = sorted(samples, key=lambda sample: sample.waited)[: max(clean, FEWEST)]
    seconds = [sample.seconds for sample in kept]
    middle = median(seconds)
    low, _, high = quantiles(seconds, n=4) if len(seconds) > 1 else (middle, middle, middle)
    return Measurement(
        name=candidate.name,
        side=candidate.side,
        output=candidate.output,
        seconds=middle,
        spread=(high - low) / middle,
        faults=median(sample.faults for sample in kept),
        clean=clean,
        taken=len(samples),
        disturbed=clean < min(FEWEST, len(samples)),
        samples=list(samples),
    )


def _calibrate(run: Callable[[], Any]) -> float:
    """Seconds of one call, roughly; the call has been warmed by the check of its results."""
    run()
    best = math.inf
    spent = 0.0
    for _ in range(5):
        start = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - start)
        spent += best
        if spent > 0.05:
            break
    return best


def _sample(run: Callable[[], Any], repeats: int) -> Sample:
    system.settle()
    run()  # wakes its threads, and loads into the caches what other candidates have evicted
    turns = range(repeats)
    waited = system.queue_delay()
    faults = system.page_faults()
    start = time.perf_counter_ns()
    for _ in turns:
        run()
    elapsed = time.perf_counter_ns() - start
    faults = system.page_faults() - faults
    waited = system.queue_delay() - waited
    return Sample(elapsed / repeats / 1e9, faults / repeats, waited / elapsed)
