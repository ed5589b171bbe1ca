"""What a new user waits for: imports, first calls, and the size and installation of the wheel.

    python benchmarks/first_minutes.py                         imports and first calls
    python benchmarks/first_minutes.py --wheel dist/*.whl      also the wheel

Each import or call runs in interpreters of its own, in turns; what it needs besides ours is
imported before the clock starts. All times are those of the processor: an import uses one core and,
with files in memory, waits for nothing. The exit status is 1 where a goal is missed.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

_CODE = """
import time
{before}
start = time.process_time()
{measured}
print((time.process_time() - start) * 1e3)
"""


@dataclass(frozen=True)
class FirstUse:
    """An import or a call: what is run before, what is measured, and the goal in milliseconds."""

    title: str
    before: str
    measured: str
    goal: float | None = None


IMAGE = "import torch, myops; x = torch.ones(1, 1, 8, 8); offset = torch.zeros(1, 2, 8, 8)"

FIRST_USES = (
    FirstUse("import myops, torch there", "import torch", "import myops", 50),
    FirstUse("import myops, numpy there", "import numpy", "import myops", 50),
    FirstUse("import myops.ort, onnxruntime there", "import onnxruntime", "import myops.ort", 150),
    FirstUse("first my_add", IMAGE, "myops.my_add(x, x)", 400),
    FirstUse("first interpolate", IMAGE, "myops.interpolate(x, size=(16, 16))", 400),
    FirstUse("first deform_conv2d", IMAGE, "myops.deform_conv2d(x, offset, x[..., :1, :1])", 400),
    FirstUse("import numpy, to compare", "pass", "import numpy"),
    FirstUse("import onnxruntime, to compare", "pass", "import onnxruntime"),
    FirstUse("import torch, to compare", "pass", "import torch"),
)  # fmt: skip


def milliseconds(case: FirstUse) -> float:
    """Processor time of it in a new interpreter."""
    code = _CODE.format(before=case.before, measured=case.measured)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return float(done.stdout)


def measure(repeats: int) -> list[float]:
    """The median of each. One round before is not counted: it fills the file cache."""
    rounds = [[milliseconds(case) for case in FIRST_USES] for _ in range(repeats + 1)]
    return [statistics.median(column) for column in zip(*rounds[1:], strict=True)]


def wheel_lines(wheel: Path) -> list[str]:
    """Size of a wheel, unpacked size, and what it takes to install it alone."""
    unpacked = sum(item.file_size for item in zipfile.ZipFile(wheel).infolist())
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index",
                   "--target", folder, str(wheel)]  # fmt: skip
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return [
        f"| size of the wheel | {wheel.stat().st_size / 2**20:.1f} MiB | |",
        f"| size when installed | {unpacked / 2**20:.1f} MiB | |",
        f"| pip install of the wheel alone | {seconds:.1f} s | |",
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--wheel", type=Path)
    arguments = parser.parse_args()
    print("| what | measured | goal |\n|---|---|---|")
    missed = 0
    for case, median in zip(FIRST_USES, measure(arguments.repeats), strict=True):
        goal = "" if case.goal is None else f"below {case.goal:g} ms"
        missed += case.goal is not None and median >= case.goal
        print(f"| {case.title} | {median:.0f} ms | {goal} |")
    if arguments.wheel is not None:
        print("\n".join(wheel_lines(arguments.wheel)))
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
