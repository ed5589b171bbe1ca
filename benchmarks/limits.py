"""What the machine can do at best, measured in the same run: bandwidth, multiply-adds, a GEMM."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import torch

SOURCE = Path(__file__).with_name("limits.cpp")
MEBIBYTES = 256

MEANING = {
    "read": "GB/s, sum of an array",
    "write": "GB/s, plain stores",
    "write nt": "GB/s, stores around the cache",
    "copy": "GB/s",
    "copy nt": "GB/s",
    "triad": "GB/s, a = 3b + c",
    "triad nt": "GB/s",
    "triad in cache": "GB/s, 3 arrays of 2 MiB",
    "fma": "GFLOP/s, in registers, AVX2 or AVX-512, whichever is faster",
    "gemm": "GFLOP/s, torch.mm of 1024x1024",
}


def measure_limits(threads: int) -> dict[str, float]:
    """The limits of `threads` threads; without a C++ compiler only the GEMM."""
    found = {}
    compiler = os.environ.get("CXX") or shutil.which("c++")
    if compiler is not None:
        with tempfile.TemporaryDirectory() as folder:
            program = str(Path(folder) / "limits")
            flags = ["-O3", "-march=native", "-fopenmp"]
            subprocess.run([compiler, *flags, str(SOURCE), "-o", program], check=True)
            command = [program, str(threads), str(MEBIBYTES)]
            found = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    return {**found, "gemm": _gemm(threads)}


def _gemm(threads: int, length: int = 1024) -> float:
    torch.set_num_threads(threads)
    a, b = torch.randn(length, length), torch.randn(length, length)
    out = torch.zeros(length, length)
    best = float("inf")
    for _ in range(10):
        start = time.perf_counter()
        torch.mm(a, b, out=out)
        best = min(best, time.perf_counter() - start)
    return 2 * length**3 / best / 1e9


def memory_roof(limits: dict[str, float]) -> float:
    """The fastest way to read two arrays and write one, in GB/s."""
    return max(limits[name] for name in ("triad", "triad nt") if name in limits)


def roof(limits: dict[str, float], flops: float, size: float) -> float:
    """The least seconds that a float32 program needs if its data are in memory, not in a cache."""
    return max(size / 1e9 / memory_roof(limits), flops / 1e9 / limits["fma"])
