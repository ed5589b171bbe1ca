"""Mutation testing of the kernels of an op: which faults would the tests not notice?

    python scripts/mutants.py deform_conv2d --count 100 --seed 1

Every comparison, bound, sum, product, minimum, index and condition in the kernel's headers gets a
mutation: off by one, doubled, never, always. All of them are compiled at once, so that a mutant
needs no compilation of its own. Each one is tested, the quickest tests first, until one fails:

1. the kernel tests (tests/native/kernel_tests.cpp and the tests of the op beside it);
2. the fuzzer in C++ (tests/fuzz), for --calls, half of them with non-temporal stores;
3. with --pytest PATHS: these tests in Python, with a package that has the kernel in it (`make
   build` comes first: its other objects are those of the last build).

Mutants that no test notices are listed; `--again --only N --calls 50000` tests one again. Programs
are compiled with little optimisation; with --sanitize under AddressSanitizer and
UndefinedBehaviorSanitizer, which notice reads just beyond an array and take four times as long.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import resource
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

from mutant_build import (
    ISA,
    ROOT,
    Site,
    compile_all,
    link_package,
    link_programs,
    sites_of,
    tests_of,
)


def fails(command: list[str], seconds: float, number: int, **environment: str) -> str:
    """Why `command` fails with this mutation, in a line; "" if it does not fail."""
    env = {**os.environ, "MYOPS_ISA": ISA, "MYOPS_MUTANT": str(number), **environment}

    def limit() -> None:
        # CPU time: a loop without end is a failure, a busy machine is not.
        resource.setrlimit(resource.RLIMIT_CPU, (int(seconds), int(seconds) + 5))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

    with tempfile.TemporaryDirectory() as folder:  # the fuzzer writes its findings there
        done = subprocess.run(
            command, env=env, cwd=folder, preexec_fn=limit, capture_output=True, text=True,
            errors="replace",
        )  # fmt: skip
    if done.returncode == 0:
        return ""
    if done.returncode < 0:
        return f"signal {-done.returncode}"
    lines = (done.stderr + done.stdout).splitlines()
    words = [line for line in lines if re.search("FAILED|ERROR: |runtime error", line)]
    return words[0][:90] if words else f"exit status {done.returncode}"


class Killers:
    def __init__(self, build: Path, op: str, arguments: argparse.Namespace) -> None:
        self.build, self.op, self.arguments = build, op, arguments

    def killer(self, number: int) -> str:
        """The test that noticed the mutation, with its message; "" if none did."""
        for tests in tests_of(self.op):
            found = fails([str(self.build / tests)], 60, number)
            if found:
                return f"{tests}: {found}"
        half = self.arguments.calls // 2
        for streams in ("0", "1") if half else ():
            found = fails(
                [str(self.build / "fuzz_ops"), f"-seed={self.arguments.seed}", f"-runs={half}"],
                60 + half / 25, number, MYOPS_FUZZ_OP=self.op, MYOPS_STREAMING_STORES=streams,
            )  # fmt: skip
            if found:
                return f"fuzzer: {found}"
        if not self.arguments.pytest:
            return ""
        paths = [str(ROOT / path) for path in self.arguments.pytest]
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider",
                   f"--rootdir={ROOT}", *paths]  # fmt: skip
        found = fails(command, 900, number, PYTHONPATH=str(self.build / "python"))
        return f"pytest: {found}" if found else ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("op", choices=sorted(path.name for path in (ROOT / "csrc/ops").iterdir()))
    parser.add_argument("--count", type=int, default=100, help="a sample of so many")
    parser.add_argument("--seed", type=int, default=1, help="of the sample and of the fuzzer")
    parser.add_argument("--calls", type=int, default=8000, help="of the fuzzer, for a mutant")
    parser.add_argument("--sanitize", action="store_true", help="under sanitizers")
    parser.add_argument("--pytest", nargs="+", default=[], metavar="PATH", help="tests in Python")
    parser.add_argument("--only", type=int, nargs="+", default=None, help="these numbers")
    parser.add_argument("--again", action="store_true", help="with the kernel as compiled before")
    arguments = parser.parse_args()

    build = ROOT / "build/mutants" / (arguments.op + "-sanitized" * arguments.sanitize)
    every = sites_of(arguments.op)
    kept = build / "compiled.txt"
    if arguments.again:
        numbers = {int(number) for number in kept.read_text().split()}
        sites = [site for site in every if site.number in numbers]
    else:
        sites = compile_all(build, arguments.op, every, arguments.sanitize)
        kept.write_text(" ".join(str(site.number) for site in sites))
    link_programs(build, arguments.op, arguments.sanitize)
    if arguments.pytest and arguments.sanitize:
        parser.error("--pytest and --sanitize: choose one; Python itself has no sanitizers")
    if arguments.pytest and not (build / "python").exists():
        link_package(build, arguments.op)

    killers = Killers(build, arguments.op, arguments)
    wrong = killers.killer(-1)
    if wrong:
        raise SystemExit(f"without a mutation: {wrong}")
    sample: list[Site] = sites
    if arguments.only is not None:
        sample = [site for site in sites if site.number in arguments.only]
    elif arguments.count < len(sites):
        sample = random.Random(arguments.seed).sample(sites, arguments.count)
    results: Counter[str] = Counter({"did not compile": len(every) - len(sites)})
    for site in sorted(sample, key=lambda site: site.number):
        killer = killers.killer(site.number)
        results["killed" if killer else "survived"] += 1
        print(f"{'killed  ' if killer else 'SURVIVED'} {site}  {killer}", flush=True)
    print(
        ", ".join(f"{count} {what}" for what, count in results.items()),
        f"of {len(every)} mutations",
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
