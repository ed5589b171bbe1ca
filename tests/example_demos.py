"""The demo of examples/super_resolution, run once for all tests that use its files."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

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
