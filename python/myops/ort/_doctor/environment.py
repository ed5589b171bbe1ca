"""What is installed here, and which parts of it cannot work together."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import myops
from myops.ort._doctor import elf, process
from myops.ort._doctor.report import ERROR, WARNING, Finding

PACKAGES = (
    "torch", "onnx", "onnxruntime", "onnxruntime-extensions", "onnxscript", "onnx-ir", "protobuf",
    "numpy", "ml_dtypes",
)  # fmt: skip

# Instruction sets that matter for kernels, as the operating system calls them.
_FLAGS = (
    "sse2", "sse4_1", "sse4_2", "avx", "f16c", "fma", "avx2", "avx512f", "avx512bw", "avx512vl",
    "avx512_vnni", "avx512_bf16", "avx512_fp16", "avx_vnni", "amx_tile", "amx_int8", "amx_bf16",
    "asimd", "asimdhp", "asimddp", "bf16", "i8mm", "sve", "sve2",
)  # fmt: skip


def examine(advance: Callable[[str], None]) -> tuple[dict[str, Any], Any, list[Finding]]:
    """Versions, CPU and providers; the child's report of ONNX Runtime; findings."""
    outcome = process.run(
        {"kind": "environment", "about": "looking at onnxruntime"}, 120.0, advance
    )
    runtime = outcome.last("environment")
    packages = {name: version(name) for name in PACKAGES}
    variants = runtimes()
    facts: dict[str, Any] = {
        "myops": myops.__version__,
        "python": f"{platform.python_version()} ({sys.executable})",
        "system": f"{platform.platform()}",
        "machine": elf.this_machine(),
        "packages": {name: found for name, found in packages.items() if name != "onnxruntime"},
        "onnxruntime": variants or ({"onnxruntime": runtime["version"]} if runtime else {}),
        "onnxruntime_path": runtime["path"] if runtime else None,
        "providers": runtime["providers"] if runtime else [],
        "cpu": cpu(),
        "kernels": instruction_set(),
        "library": None,
        "environment": {k: v for k, v in os.environ.items() if k.startswith("MYOPS_")},
    }
    findings = []
    if runtime is None:
        findings.append(_broken_runtime(outcome, variants))
    elif tuple(int(part) for part in re.findall(r"\d+", runtime["version"])[:2]) < (1, 17):
        findings.append(Finding(
            "onnxruntime-too-old", ERROR, f"onnxruntime {runtime['version']} is installed.",
            "myops needs 1.17 or later.", "pip install --upgrade onnxruntime",
        ))  # fmt: skip
    if len(variants) > 1:
        findings.append(_several(variants, runtime))
    return facts, outcome, findings


def version(name: str) -> str | None:
    """The version of an installed package, without importing it."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def runtimes() -> dict[str, str]:
    """Every installed distribution that brings the package `onnxruntime`, with its version.

    There are many: onnxruntime, onnxruntime-gpu, -directml, -openvino, ort-nightly ...
    """
    found = {}
    for item in importlib.metadata.distributions():
        try:
            name = item.metadata["Name"]
            folders = (item.read_text("top_level.txt") or "").split()
            if not folders:
                record = item.read_text("RECORD") or ""
                folders = ["onnxruntime"] if "\nonnxruntime/" in "\n" + record else []
        except Exception:  # a broken installation of another package
            continue
        if name and "onnxruntime" in folders:
            found[re.sub(r"[-_.]+", "-", name).lower()] = item.version
    return found


def _several(variants: dict[str, str], runtime: Any) -> Finding:
    shown = " and ".join(f"{name} {number}" for name, number in variants.items())
    wins = (
        f" What Python imports now calls itself {runtime['version']} and knows " if runtime else ""
    )
    wins += f"{', '.join(runtime['providers'])}." if runtime else ""
    return Finding(
        "onnxruntime-several", ERROR if runtime is None else WARNING,
        f"{shown} are installed beside each other.",
        "They bring the same files, in the same folder: the one that was installed last wins, and "
        f"removing either breaks the other.{wins}",
        f"Keep one: `pip uninstall -y {' '.join(variants)}`, then install that one again.",
    )  # fmt: skip


def _broken_runtime(outcome: process.ChildOutcome, variants: dict[str, str]) -> Finding:
    failed = outcome.last("failed")
    text = failed["error"] if failed else f"{outcome.death}\n{outcome.stderr.strip()[-500:]}"
    if not variants and failed and "No module named" in text:
        return Finding(
            "onnxruntime-missing", ERROR, "onnxruntime is not installed.",
            f"This Python ({sys.executable}) does not find it.",
            "pip install 'onnxruntime>=1.17' (with a GPU: onnxruntime-gpu, never both)", text,
        )  # fmt: skip
    return Finding(
        "onnxruntime-broken", ERROR, "onnxruntime is installed but cannot be imported.",
        "See the message. Often another file of that name is in the way, two variants were "
        "installed into each other, or the system is older than the package.",
        "Install it again: pip install --force-reinstall onnxruntime", text,
    )  # fmt: skip


def cpu() -> dict[str, Any]:
    """The processor's name, its cores that this process may use, and its instruction sets."""
    name, flags = platform.processor() or platform.machine(), set[str]()
    info = Path("/proc/cpuinfo")
    if info.is_file():
        text = info.read_text(errors="replace")
        found = re.search(r"^(?:model name|Model)\s*:\s*(.+)$", text, re.M)
        name = found[1] if found else name
        listed = re.search(r"^(?:flags|Features)\s*:\s*(.+)$", text, re.M)
        flags = set(listed[1].split()) if listed else set()
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {"name": name, "cores": cores, "features": [flag for flag in _FLAGS if flag in flags]}


def instruction_set() -> str:
    """What the kernels of myops run on here; MYOPS_ISA may force it."""
    from myops import _numpy

    try:
        chosen = _numpy.instruction_set()
    except ValueError as error:
        return str(error)
    others = [name for name in _numpy.instruction_sets() if name != chosen]
    return f"{chosen} (this CPU has also {', '.join(others)})" if others else chosen
