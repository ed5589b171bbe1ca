"""A model file is untrusted input: whatever its nodes say, ONNX Runtime refuses it or runs it. In a
child process, which must neither crash nor hang."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import settings

COUNT = 10 * settings.default.max_examples
HERE = Path(__file__).parent


def run(first: int, last: int, seconds: float) -> dict[str, int]:
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(sys.path),
        "MYOPS_MAX_BYTES": "100000000",
    }
    command = [sys.executable, str(HERE / "model_files.py"), str(first), str(last)]
    try:
        process = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=seconds, check=False
        )
    except subprocess.TimeoutExpired as error:
        printed = (error.stdout or b"").decode().split()
        pytest.fail(f"mutation {printed[-1] if printed else first} hangs")
    lines = process.stdout.splitlines()
    if process.returncode != 0:
        last_lines = process.stderr[-2000:]
        pytest.fail(f"mutation {lines[-1]}: status {process.returncode}\n{last_lines}")
    return json.loads(lines[-1])


def test_damaged_models_give_errors() -> None:
    outcomes = run(0, COUNT, seconds=120 + COUNT)
    assert sum(outcomes.values()) == COUNT
    # Refused when loaded, refused when run, and harmless: all of them must occur.
    assert {"ran", "Fail", "InvalidArgument"} <= set(outcomes), outcomes
    assert outcomes["ran"] < COUNT / 2, outcomes
