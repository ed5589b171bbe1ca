"""What the memory of a large result costs, with four ways to get it from the system."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.also._row import Row
from benchmarks.measure import Plan
from benchmarks.result import Result

TITLE = "Page faults of a large result"
EXPLANATION = (
    "`my_add` of 10^7 elements with a result that torch allocates (40 MB), each setting in a "
    "process of its own: as it is (our ops ask for huge pages), without huge pages, with torch's "
    "huge pages, and with a malloc that keeps freed memory. With `out=` no new pages are needed."
)
SHOWN = ("myops.my_add", "myops.my_add, out=", "torch.add(alpha=2)", "torch.add(alpha=2, out=)")
SETTINGS = {
    "as it is": {},
    "MYOPS_HUGE_PAGES=0": {"MYOPS_HUGE_PAGES": "0"},
    "THP_MEM_ALLOC_ENABLE=1": {"THP_MEM_ALLOC_ENABLE": "1"},
    "MALLOC_MMAP_MAX_=0": {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(2**32)},
}


def rows(threads: int, plan: Plan) -> Iterator[Row]:
    for name, environment in SETTINGS.items():
        result = _run(threads, plan, environment)
        for item in result.measurements:
            if item.name in SHOWN:
                yield Row(
                    f"{item.name}, {name}",
                    threads,
                    item.seconds * 1e3,
                    "ms",
                    "at most",
                    None,
                    f"{item.faults:.0f} faults",
                    item.disturbed,
                )


def _run(threads: int, plan: Plan, environment: dict[str, str]) -> Result:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "result.json"
        command = [sys.executable, str(Path(__file__).parents[1] / "run.py"), "--op", "my_add"]
        command += ["--case", "1e7", "--threads", str(threads), "--rounds", str(plan.rounds)]
        command += ["--budget", str(plan.budget), "--json", str(path)]
        subprocess.run(command, check=True, capture_output=True, env={**os.environ, **environment})
        return Result.from_json(json.loads(path.read_text())["results"][0])
