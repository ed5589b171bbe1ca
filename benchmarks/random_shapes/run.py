"""Measures random configurations: ours and its peers in turns, in one process."""

from __future__ import annotations

import gc
import importlib
import math
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import torch

from benchmarks.measure import Measurement, Plan, measure
from benchmarks.random_shapes.draw import KINDS, draw
from benchmarks.random_shapes.problem import Problem
from benchmarks.random_shapes.result import Measured, summaries

PLAN = Plan(rounds=7, sample=0.002, budget=0.06)
# Below it a configuration is measured once more with three times the samples, which replace the
# first ones: whether it is slower than its peer is then no matter of a disturbance.
CLOSE = 1.05
WORST = 10  # how many of each kind are shown with their plans


class WrongResultError(RuntimeError):
    """Ours computes something else than the reference."""


def kinds(ops: Sequence[str]) -> list[str]:
    return [kind for kind in KINDS if any(word in kind for word in ops)]


def run(
    seed: int,
    count: int,
    threads: Sequence[int],
    ops: Sequence[str] = ("",),
    plan: Plan = PLAN,
    minutes: float = math.inf,
    show: Callable[[Measured], None] | None = None,
) -> list[Measured]:
    """Measures `count` configurations of each kind, in turns, so that all kinds are there when the
    time is up.

    Raises:
        WrongResultError: Ours differs from the float64 reference.
    """
    results = []
    end = time.monotonic() + 60 * minutes
    for number in range(count):
        for kind in kinds(ops):
            if time.monotonic() > end:
                return results
            for found in measured(kind, seed, number, threads, plan):
                results.append(found)
                if show is not None:
                    show(found)
    return results


def problem_of(kind: str, seed: int, number: int) -> tuple[object, Problem]:
    """A configuration and its candidates."""
    shape = draw(kind, seed, number)
    module = importlib.import_module(f"benchmarks.random_shapes.{kind.split()[0]}")
    data = zlib.crc32(f"{kind} {seed} {number}".encode())
    return shape, module.problem(shape, data)


def measured(
    kind: str, seed: int, number: int, threads: Sequence[int], plan: Plan = PLAN
) -> Iterator[Measured]:
    """One configuration at each number of threads."""
    shape, problem = problem_of(kind, seed, number)
    right, wrong = [], {}
    for candidate in problem.candidates:
        try:
            error = problem.error(candidate)
        except Exception:  # raised by other libraries, whose errors have no common base class
            if candidate.side == "torch":
                raise
            continue
        if error <= problem.tolerance:
            right.append(candidate)
        elif candidate.side == "torch":
            raise WrongResultError(
                f"{kind} of seed {seed}, number {number}: {shape}: got an error of {error:.1e} of "
                f"the largest element, expected at most {problem.tolerance:.0e}"
            )
        else:
            wrong[candidate.name] = error
    for count in threads:
        _set_threads(count)
        taken = measure(right, plan)
        if len(taken) > 1 and _ratio(taken) < CLOSE:
            again = replace(plan, rounds=3 * plan.rounds, budget=3 * plan.budget)
            taken = measure(right, again)
        if len(taken) < 2:
            continue  # no peer computes this
        peer = min(taken[1:], key=lambda item: item.seconds)
        yield Measured(
            kind, seed, number, count, str(shape), getattr(shape, "dtype", ""), taken[0].seconds,
            peer.name, peer.seconds, taken[0].disturbed or peer.disturbed, [], wrong,
        )  # fmt: skip
    del problem, right
    gc.collect()


def _ratio(taken: Sequence[Measurement]) -> float:
    return min(item.seconds for item in taken[1:]) / taken[0].seconds


def _set_threads(count: int) -> None:
    torch.set_num_threads(count)
    try:
        import cv2
    except ImportError:
        return
    cv2.setNumThreads(count)


def explain_worst(results: Sequence[Measured]) -> None:
    """Adds the plan of ours to the slowest of each kind and number of threads."""
    from myops._recording import recorded

    for summary in summaries(results):
        for item in summary.results[:WORST]:
            _set_threads(item.threads)
            _, problem = problem_of(item.kind, item.seed, item.number)
            problem.ours()
            with recorded() as calls:
                problem.ours()
            item.plan = [
                f"{step['kernel']} ({step['axis']}): {step['reason']}, {step['pieces']} pieces"
                for call in calls
                for step in call["plan"]
            ]
