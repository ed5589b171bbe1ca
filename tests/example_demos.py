"""The demo of examples/super_resolution, run once for all tests that use its files; and imports of
an example's modules."""

from __future__ import annotations

import contextlib
import importlib
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType

import pytest
import shared
import warm

FOLDER = Path(__file__).parents[1] / "examples" / "super_resolution"


def super_resolution(
    factory: pytest.TempPathFactory,
) -> tuple[subprocess.CompletedProcess[str], Path]:
    """The finished demo with the exporter "dynamo", and its output folder."""
    folder = shared.once(factory, "super_resolution", _run)
    result = json.loads((folder / "result.json").read_text())
    return subprocess.CompletedProcess(["demo.py"], *result), folder / "output"


def _run(folder: Path) -> None:
    words = ("--output", folder / "output", "--exporter", "dynamo")
    done = warm.run(FOLDER / "demo.py", *words)
    result = [done.returncode, done.stdout, done.stderr]
    (folder / "result.json").write_text(json.dumps(result))


@contextlib.contextmanager
def imported(folder: Path, names: Sequence[str]) -> Iterator[dict[str, ModuleType]]:
    """The modules of an example, imported as its scripts import each other. Those of another
    example may have the same names."""
    before = {name: sys.modules.pop(name, None) for name in names}
    sys.path.insert(0, str(folder))
    try:
        yield {name: importlib.import_module(name) for name in names}
    finally:
        sys.path.remove(str(folder))
        for name, module in before.items():
            sys.modules.pop(name, None)
            if module is not None:
                sys.modules[name] = module
