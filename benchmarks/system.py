"""What the operating system reports about this process and the machine."""

from __future__ import annotations

import contextlib
import os
import platform
import resource
import time
from pathlib import Path

TASKS = Path("/proc/self/task")


def page_faults() -> int:
    """Minor faults of this process so far: pages that were touched for the first time."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


def _schedstat() -> dict[str, tuple[int, int]]:
    """Nanoseconds on a core and nanoseconds in the run queue, for each thread."""
    found = {}
    for task in os.listdir(TASKS):
        try:
            ran, waited, _ = (TASKS / task / "schedstat").read_text().split()
        except (FileNotFoundError, ProcessLookupError):  # the thread has ended meanwhile
            continue
        found[task] = (int(ran), int(waited))
    return found


def queue_delay() -> int:
    """Nanoseconds that the threads of this process were ready to run and had no core."""
    return sum(waited for _, waited in _schedstat().values())


def settle(patience: float = 0.3) -> None:
    """Waits until no other thread of this process runs.

    Thread pools spin for a while after their work (ONNX Runtime for tens of milliseconds), on
    the cores that the next candidate is about to use.
    """
    end = time.perf_counter() + patience
    main = str(os.getpid())
    before = _schedstat()
    while time.perf_counter() < end:
        time.sleep(0.001)
        now = _schedstat()
        busy = any(now[task] != before.get(task, (0, 0)) for task in now if task != main)
        if not busy:
            return
        before = now


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0))


def describe() -> dict[str, str]:
    """The machine and the versions, for the head of a report."""
    from importlib.metadata import PackageNotFoundError, version

    facts = {"cpu": _cpu_name(), "cores": str(cores()), "memory": _memory()}
    facts["huge pages"] = _chosen(Path("/sys/kernel/mm/transparent_hugepage/enabled"))
    facts["system"] = f"{platform.system()} {platform.release()}"
    facts["Python"] = platform.python_version()
    for package in PACKAGES:
        with contextlib.suppress(PackageNotFoundError):  # the absent peers are listed elsewhere
            facts[package] = version(package)
    return facts


PACKAGES = (
    "torch",
    "onnxruntime",
    "openvino",
    "opencv-python-headless",
    "torchvision",
    "numpy",
    "numexpr",
)


def _cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    flags = next((line for line in lines if line.startswith("flags")), "")
    sets = [name for name in ("avx2", "fma", "avx512f") if f" {name} " in f"{flags} "]
    return f"{names[0] if names else platform.processor()} ({', '.join(sets)})"


def _memory() -> str:
    return f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GiB"


def _chosen(path: Path) -> str:
    """The word in brackets: `always [madvise] never`."""
    try:
        text = path.read_text()
    except OSError:
        return "unknown"
    return text[text.find("[") + 1 : text.find("]")]
