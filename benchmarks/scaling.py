"""Whether the cost grows faster than the size: one axis at a time, our ops only, in torch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise

from benchmarks.case import Candidate, Case
from benchmarks.cases import deform_conv2d, my_add, resize
from benchmarks.cases.deform_conv2d import DeformCase, Problem
from benchmarks.cases.my_add import MyAddCase
from benchmarks.cases.resize import ResizeCase
from benchmarks.measure import Plan
from benchmarks.runner import run_case

PLAN = Plan(rounds=7, sample=0.005, budget=0.2)


@dataclass(frozen=True)
class Sweep:
    """One line of the plot: sizes along an axis, and the case at each."""

    group: str
    axis: str
    sizes: tuple[int, ...]
    make: Callable[[int], Case]


@dataclass(frozen=True)
class Point:
    """Cost of `units` pixels, channels or images at one size."""

    group: str
    axis: str
    size: int
    seconds: float


def sweeps() -> list[Sweep]:
    """Pixels, channels and batch of each op; what is not swept stays small enough for a core."""
    found = [Sweep("my_add", "pixels", (10**4, 10**5, 10**6, 10**7), MyAddCase)]
    for mode, backward in (("cubic", False), ("linear", False), ("cubic", True)):
        group = f"resize {mode}" + " backward" * backward
        found += [
            Sweep(
                group,
                "pixels",
                (32**2, 64**2, 128**2, 256**2, 512**2),
                lambda n, m=mode, b=backward: _resize(m, b, side=round(n**0.5)),
            ),
            Sweep(
                group,
                "channels",
                (1, 3, 4, 8, 16, 32, 64),
                lambda n, m=mode, b=backward: _resize(m, b, channels=n),
            ),
            Sweep(
                group,
                "batch",
                (1, 2, 4, 8, 16),
                lambda n, m=mode, b=backward: _resize(m, b, batch=n),
            ),
        ]
    for backward in (False, True):
        group = "deform_conv2d" + " backward" * backward
        found += [
            Sweep(
                group,
                "pixels",
                (16**2, 32**2, 64**2, 128**2),
                lambda n, b=backward: _deform(b, side=round(n**0.5)),
            ),
            Sweep(
                group,
                "channels",
                (8, 16, 32, 64, 128, 256),
                lambda n, b=backward: _deform(b, channels=n),
            ),
            Sweep(group, "batch", (1, 2, 4, 8), lambda n, b=backward: _deform(b, batch=n)),
        ]
    return found


def _resize(
    mode: str, backward: bool, batch: int = 1, channels: int = 3, side: int = 128
) -> ResizeCase:
    return ResizeCase(mode, (batch, channels, side, side), 2.0, backward=backward)


def _deform(backward: bool, batch: int = 1, channels: int = 64, side: int = 32) -> DeformCase:
    # The filters stay 64: with as many as channels the cost would be quadratic by definition.
    return DeformCase("", Problem(batch, channels, side, side, 64), backward=backward)


def run(sweep: Sweep) -> Iterator[Point]:
    """Measures one line at one thread."""
    for size in sweep.sizes:
        case = sweep.make(size)
        result = run_case(case, _torch_only, [], 1, PLAN)
        best = result.best("torch", output="given") or result.best("torch")
        case.release()
        if best is None:
            raise RuntimeError(f"{sweep.group}, {sweep.axis} {size}: wrong: {result.wrong}")
        yield Point(sweep.group, sweep.axis, size, best.seconds)


def _torch_only(case: Case, threads: int) -> Iterator[Candidate]:
    for module in (my_add, resize, deform_conv2d):
        if module.__name__.endswith(f".{case.op}"):
            yield from (item for item in module.ours(case, threads) if item.side == "torch")


def steepness(points: list[Point]) -> float:
    """The largest growth of the cost for one unit along a line: 1.0 is linear or better.

    For each pair of neighbours: cost for one unit at the larger size / at the smaller. A fixed
    cost of a call makes it fall; only a growth is a fault.
    """
    costs = [point.seconds / point.size for point in sorted(points, key=lambda item: item.size)]
    return max((after / before for before, after in pairwise(costs)), default=1)
