"""How much slower ops are without a kernel: random configurations, or the cases of `make bench`,
with all kernels and with all but one.

    python benchmarks/ablation.py resize.lanes resize.planes --seed 21 --count 60 --threads 1
    python benchmarks/ablation.py resize.gather +resize.streaming --cases

A kernel is turned off by MYOPS_DISABLE_KERNEL, which is read when the library is loaded, so each
variant has a process of its own; only one of them works at a time, in turns. Configurations that
run the same plan in both are left out, unless the kernel is marked by a plus sign, as in
+resize.table_cache: what reports do not show, such as a cache.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median
from typing import Any

import torch

sys.path[0] = str(Path(__file__).resolve().parents[1])
ROUNDS, SAMPLE = 7, 0.003  # number of samples of each variant, seconds of each sample


class Variant:
    """A process that measures with a kernel turned off; "" for none."""

    def __init__(self, disabled: str) -> None:
        context = multiprocessing.get_context("fork")  # torch is imported once for all
        self.pipe, other = context.Pipe()
        context.Process(target=_work, args=(other, disabled), daemon=True).start()

    def ask(self, **request: Any) -> Any:
        self.pipe.send(request)
        return self.pipe.recv()


def ablate(
    kernels: list[str], requests: Iterable[dict[str, Any]], minutes: float
) -> dict[str, list[tuple[float, str]]]:
    """For each kernel the calls in which it makes a difference: time without it, relative to the
    time with it, and what was called."""
    variants = {"": Variant(""), **{name: Variant(name.lstrip("+")) for name in kernels}}
    found: dict[str, list[tuple[float, str]]] = {name: [] for name in kernels}
    end = time.monotonic() + 60 * minutes
    for request in requests:
        if time.monotonic() > end:
            break
        made = {name: one.ask(**request) for name, one in variants.items()}
        active = [
            name for name, (_, plan) in made.items()
            if name == "" or name.startswith("+") or plan != made[""][1]
        ]  # fmt: skip
        if len(active) == 1:
            continue
        taken: dict[str, list[float]] = {name: [] for name in active}
        for turn in range(ROUNDS):
            for name in active[turn % len(active) :] + active[: turn % len(active)]:
                taken[name].append(variants[name].ask(sample=SAMPLE))
        for name in active[1:]:
            ratio = median(taken[name]) / median(taken[""])
            found[name].append((ratio, made[name][0]))
    return found


def case_calls(op: str) -> Iterator[tuple[str, Callable[[], Any]]]:
    """The calls in the cases of an op, by every way of calling it from torch."""
    from benchmarks.discover import all_cases

    for case, module in all_cases():
        if case.op == op:
            for candidate in module.ours(case, 1):
                if candidate.side == "torch":
                    yield f"{case.group} {case.name}, {candidate.name}", candidate.run


# Both are iterated after the variants have started, which must not inherit a loaded library.
def case_requests(op: str, threads: int) -> Iterator[dict[str, Any]]:
    for number, _ in enumerate(case_calls(op)):
        yield {"op": op, "case": number, "threads": threads}


def random_requests(op: str, seed: int, count: int, threads: int) -> Iterator[dict[str, Any]]:
    from benchmarks.random_shapes.run import kinds

    for number in range(count):
        for kind in kinds([op]):
            yield {"kind": kind, "seed": seed, "number": number, "threads": threads}


def row(kernel: str, found: list[tuple[float, str]]) -> str:
    """A line of a Markdown table."""
    if not found:
        return f"| {kernel} | 0 | | | | | |"
    ratios = sorted(ratio for ratio, _ in found)
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    gains, costs = sum(r > 1.1 for r in ratios), sum(r < 0.95 for r in ratios)
    most = "; ".join(f"{ratio:.2f}: {text}" for ratio, text in sorted(found)[:-4:-1])
    return (
        f"| {kernel} | {len(found)} | {mean:.2f} | {ratios[len(ratios) // 2]:.2f} | {gains} | "
        f"{costs} | {most} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("kernels", nargs="+", help='names as in MYOPS_DISABLE_KERNEL, "op.kernel"')
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=60, help="configurations of each kind")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=math.inf)
    parser.add_argument("--json", type=Path, default=None, help="write every ratio")
    parser.add_argument("--cases", action="store_true", help="those of `make bench`, not random")
    given = parser.parse_args()
    op = given.kernels[0].lstrip("+").partition(".")[0]
    if given.cases:
        requests = case_requests(op, given.threads)
    else:
        requests = random_requests(op, given.seed, given.count, given.threads)
    found = ablate(given.kernels, requests, given.minutes)
    print("| kernel | configurations | without / with | median | above 1.10 | below 0.95 | most |")
    print("|---|---|---|---|---|---|---|")
    for kernel in given.kernels:
        print(row(kernel, found[kernel]))
    if given.json is not None:
        given.json.write_text(json.dumps(found, indent=1))


def _work(pipe: Connection, disabled: str) -> None:
    """Answers requests: a configuration to make, or a sample of it to take."""
    os.environ["MYOPS_DISABLE_KERNEL"] = disabled
    from benchmarks.random_shapes.run import problem_of
    from myops._recording import recorded

    run: Callable[[], Any] = tuple
    while True:
        request = pipe.recv()
        if "sample" in request:
            pipe.send(_seconds(run, request["sample"]))
            continue
        torch.set_num_threads(request["threads"])
        if "case" in request:
            text, run = next(islice(case_calls(request["op"]), request["case"], None))
        else:
            shape, problem = problem_of(request["kind"], request["seed"], request["number"])
            text, run = f"{request['kind']} {shape}", problem.ours
        run()
        with recorded() as calls:
            run()
        plan = [[step["kernel"], step["axis"]] for call in calls for step in call["plan"]]
        pipe.send((text, plan))


def _seconds(run: Callable[[], Any], sample: float) -> float:
    """Seconds of one call; as many calls are timed as fill the sample."""
    run()
    begin, calls = time.perf_counter(), 0
    while True:
        run()
        calls += 1
        passed = time.perf_counter() - begin
        if passed >= sample:
            return passed / calls


if __name__ == "__main__":
    main()
