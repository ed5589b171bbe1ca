"""What is lost without a kernel: random configurations with it and without it, in turns.

    python benchmarks/ablation.py resize.lanes resize.planes --seed 21 --count 60 --threads 1

A kernel is turned off by MYOPS_DISABLE_KERNEL, which is read when the library is loaded, so each
variant has a process of its own; only one of them works at a time. Configurations that run the same
plan in both are left out, unless the kernel is one of --hidden: what reports do not show, such as
a cache.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).parents[1]
HIDDEN = ("resize.table_cache", "resize.prefetch", "resize.downscale_by_two")
ROUNDS, SAMPLE = 9, 0.004  # samples of each variant, seconds of each


class Variant:
    """A process that measures with some kernels turned off."""

    def __init__(self, disabled: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, __file__, "--worker"],
            env={**os.environ, "MYOPS_DISABLE_KERNEL": disabled, "PYTHONPATH": str(ROOT)},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def ask(self, **request: Any) -> Any:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def compared(kernel: str, kinds: list[str], seed: int, count: int, threads: int) -> Iterator[Any]:
    """(kind, configuration, without / with) where the kernel makes a difference to the plan."""
    variants = [Variant(""), Variant(kernel)]
    try:
        for number in range(count):
            for kind in kinds:
                made = [
                    one.ask(kind=kind, seed=seed, number=number, threads=threads)
                    for one in variants
                ]
                if made[0]["plan"] == made[1]["plan"] and kernel not in HIDDEN:
                    continue
                taken: list[list[float]] = [[], []]
                for turn in range(ROUNDS):
                    for index in (turn % 2, 1 - turn % 2):
                        taken[index].append(variants[index].ask(sample=SAMPLE))
                yield kind, made[0]["shape"], median(taken[1]) / median(taken[0])
    finally:
        for one in variants:
            one.close()


def row(kernel: str, found: list[Any]) -> str:
    """A line of a Markdown table."""
    if not found:
        return f"| {kernel} | 0 | | | | | |"
    ratios = sorted(ratio for _, _, ratio in found)
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    kind, shape, most = max(found, key=lambda item: item[2])
    gains, costs = (sum(map(test, ratios)) for test in (lambda r: r > 1.1, lambda r: r < 0.95))
    return (
        f"| {kernel} | {len(found)} | {mean:.2f} | {ratios[len(ratios) // 2]:.2f} | {gains} | "
        f"{costs} | {most:.2f}: {kind} {shape} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("kernels", nargs="*", help='names as in MYOPS_DISABLE_KERNEL, "op.kernel"')
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=60, help="configurations of each kind")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.worker:
        return work()
    print("| kernel | configurations | without / with | median | above 1.10 | below 0.95 | most |")
    print("|---|---|---|---|---|---|---|")
    for kernel in given.kernels:
        op = kernel.partition(".")[0]
        kinds = [op] if op == "my_add" else [op, f"{op} backward"]
        found = list(compared(kernel, kinds, given.seed, given.count, given.threads))
        print(row(kernel, found), flush=True)


def work() -> None:
    """Answers requests: a configuration to make, or a sample of it to take."""
    import torch

    from benchmarks.random_shapes.run import problem_of
    from myops._recording import recorded

    run: Any = None
    for line in sys.stdin:
        request = json.loads(line)
        if "sample" in request:
            answer: Any = _seconds(run, request["sample"])
        else:
            torch.set_num_threads(request["threads"])
            shape, problem = problem_of(request["kind"], request["seed"], request["number"])
            run = problem.ours
            run()
            with recorded() as calls:
                run()
            plan = [[step["kernel"], step["axis"]] for call in calls for step in call["plan"]]
            answer = {"shape": str(shape), "plan": plan}
        print(json.dumps(answer), flush=True)


def _seconds(run: Any, sample: float) -> float:
    """Of one call, from as many as fill the sample."""
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
