"""A copy of the package whose only ops are faulty ones, which is built and tested in a process of
its own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
FAULTY = ROOT / "tests" / "data" / "faulty_ops"

STUB = """from myops.ops._faults import FAULTS

__all__ = ["{name}"]
{name} = FAULTS["{name}"].function
standard = FAULTS["{name}"].standard
"""


def build(tree: Path, names: list[str]) -> None:
    """Makes the tree: our sources without our ops, the faulty ops, and their three binaries."""
    ignored = shutil.ignore_patterns("*.so", "__pycache__", "*.egg-info")
    for name in ("cmake", "python", "csrc/core", "csrc/cuda", "csrc/adapters", "csrc/include"):
        shutil.copytree(ROOT / name, tree / name, ignore=ignored)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tree)
    shutil.copy(ROOT / "setup.py", tree)
    script = tree / "setup.py"
    assert 'folder="lib")' in script.read_text()
    fast = 'folder="lib", extra_compile_args=["-O0"])'  # compiled in half the time
    script.write_text(script.read_text().replace('folder="lib")', fast))
    folder = tree / "csrc" / "ops" / "faulty"
    folder.mkdir(parents=True)
    for file in FAULTY.glob("*.cpp"):
        shutil.copy(file, folder)
    shutil.copy(FAULTY / "run_suite.py", tree)
    ops = tree / "python" / "myops" / "ops"
    for file in ops.glob("*.py"):
        if file.name != "__init__.py":
            file.unlink()
    shutil.copy(FAULTY / "faults.py", ops / "_faults.py")
    for name in names:
        (ops / f"{name}.py").write_text(STUB.format(name=name))
    _run(tree, "setup.py", "--quiet", "build_ext", "--inplace")


def ask(tree: Path, wanted: dict[str, list[str] | str]) -> dict[str, Any]:
    """Runs the suite: {op: families} -> {op: {"failures": ..., "idle": ..., ...}}.

    A text instead of families is the message with which the op must refuse its call.
    """
    return json.loads(_run(tree, "run_suite.py", json.dumps(wanted)).splitlines()[-1])


def _run(tree: Path, *arguments: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(tree / "python")}
    done = subprocess.run(
        [sys.executable, *arguments], cwd=tree, env=environment, capture_output=True, text=True
    )
    if done.returncode:
        raise RuntimeError(
            f"{arguments[0]} ended with {done.returncode}:\n"
            + done.stdout[-4000:]
            + done.stderr[-4000:]
        )
    return done.stdout
