"""Draws calls of our ops from the product of their options and compares each with a reference.

    python tests/fuzz/campaign.py                          for 60 seconds, a new seed
    python tests/fuzz/campaign.py --seconds 600 --ops resize interpolate
    python tests/fuzz/campaign.py --ops resize --case 123  one call, which is that number's
    python tests/fuzz/campaign.py --ops resize --options '{"order": 0}' --case 123
                                                           the same with an option changed

Calls run in a child process, so that one that crashes is a finding like others and the rest still
runs. At the end come the calls by op and by option; the status is 1 if there was a finding.
"""

from __future__ import annotations

import argparse
import collections
import importlib
import json
import os
import random
import subprocess
import sys
import time
import traceback
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
OPS = tuple(sorted(path.stem.removeprefix("calls_") for path in HERE.glob("calls_*.py")))

# glibc fills new memory with 0x7f: huge numbers, or NaN in float16, where nobody has written yet.
FILLED = "glibc.malloc.perturb=128:glibc.malloc.tcache_count=0"

# Half of the time, results beyond 16 KiB count as larger than the caches, and are stored past them
# on every CPU; others would have to be a thousand times as large.
ENVIRONMENTS = ({}, {"MYOPS_CACHED_BYTES": "16384", "MYOPS_STREAMING_STORES": "1"})


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--ops", nargs="+", default=OPS, choices=OPS)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--findings", type=int, default=5, help="stop after so many of an op")
    parser.add_argument("--case", type=int, default=None, help="one call")
    parser.add_argument("--options", type=json.loads, default={}, help="of it, changed")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


def say(kind: str, *values: Any) -> None:
    print(json.dumps([kind, *values]), flush=True)


def child(arguments: argparse.Namespace) -> None:
    """Says what it does before it does it: [case], [wrong] and, at the end, [counts]."""
    modules = {op: importlib.import_module(f"calls_{op}") for op in arguments.ops}
    counts: collections.Counter[str] = collections.Counter()
    found: collections.Counter[str] = collections.Counter()
    rng = random.Random(arguments.seed)
    end, last = time.monotonic() + arguments.seconds, time.monotonic()
    while time.monotonic() < end:
        for op in arguments.ops:
            if found[op] >= arguments.findings:
                continue
            case = rng.getrandbits(48)
            say("case", op, case)
            options = modules[op].draw(case)
            try:
                modules[op].check(options)
            except Exception:  # a finding, whatever it is
                found[op] += 1
                say("wrong", op, case, traceback.format_exc(limit=-2))
            counts[op] += 1
            counts.update(f"{op}: {item}" for item in modules[op].classes(options))
        if min(found[op] for op in arguments.ops) >= arguments.findings:
            break
        if time.monotonic() - last > 5:
            say("counts", counts)
            counts.clear()
            last = time.monotonic()
    say("counts", counts)


def repeat(op: str, case: int, variables: dict[str, str]) -> str:
    isa = os.environ.get("MYOPS_ISA")
    variables = {**({"MYOPS_ISA": isa} if isa else {}), **variables}
    prefix = "".join(f"{name}={value} " for name, value in variables.items())
    return f"{prefix}python tests/fuzz/campaign.py --ops {op} --case {case}"


def campaign(arguments: argparse.Namespace) -> tuple[list[str], collections.Counter[str]]:
    """What was found, and the calls by op and option."""
    findings: list[str] = []
    counts: collections.Counter[str] = collections.Counter()
    for number, variables in enumerate(ENVIRONMENTS):
        seconds, seed = arguments.seconds / len(ENVIRONMENTS), arguments.seed + 1000 * number
        found, counted = part(arguments, seed, seconds, variables)
        findings += found
        counts += counted
    return findings, counts


def part(
    arguments: argparse.Namespace, seed: int, seconds: float, variables: dict[str, str]
) -> tuple[list[str], collections.Counter[str]]:
    """With some environment variables."""
    findings: list[str] = []
    counts: collections.Counter[str] = collections.Counter()
    end = time.monotonic() + seconds
    while True:
        left = end - time.monotonic()
        command = [sys.executable, __file__, "--child", "--seed", str(seed), "--seconds", str(left),
                   "--findings", str(arguments.findings), "--ops", *arguments.ops]  # fmt: skip
        environment = {"GLIBC_TUNABLES": FILLED, **os.environ, **variables}
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
        last: tuple[str, int] | None = None
        assert process.stdout is not None
        for line in process.stdout:
            kind, *values = json.loads(line)
            if kind == "case":
                last = values[0], values[1]
            elif kind == "wrong":
                op, case, text = values
                options = importlib.import_module(f"calls_{op}").draw(case)
                findings.append(f"{text}{json.dumps(options)}\n    {repeat(op, case, variables)}")
                print(findings[-1], flush=True)
            else:
                counts.update(values[0])
        status = process.wait()
        if status == 0:
            return findings, counts
        if last is None:
            raise RuntimeError(f"the child process ended with {status} before its first call")
        op, case = last
        options = importlib.import_module(f"calls_{op}").draw(case)
        findings.append(
            f"{op}: the process ended with {status}\n{json.dumps(options)}\n"
            f"    {repeat(op, case, variables)}"
        )
        print(findings[-1], flush=True)
        seed += 1
        if end - time.monotonic() < 1 or len(findings) >= arguments.findings * len(arguments.ops):
            return findings, counts


def main(given: list[str] | None = None) -> int:
    sys.path[:0] = [str(HERE), str(HERE.parent)]
    arguments = parse(given)
    if arguments.case is not None:
        (op,) = arguments.ops
        module = importlib.import_module(f"calls_{op}")
        options = module.draw(arguments.case) | arguments.options
        print(json.dumps(options, indent=1))
        module.check(options)
        print("right")
        return 0
    if arguments.seed is None:
        arguments.seed = random.SystemRandom().getrandbits(32)
    if arguments.child:
        child(arguments)
        return 0
    print(f"--seed {arguments.seed}, MYOPS_ISA={os.environ.get('MYOPS_ISA', '')}", flush=True)
    findings, counts = campaign(arguments)
    for name in sorted(counts, key=lambda name: (name.split(":")[0], name)):
        print(f"{counts[name]:9,}  {name}")
    print(f"{len(findings)} findings in {sum(counts[op] for op in arguments.ops):,} calls")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
