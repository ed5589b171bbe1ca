"""No call keeps memory: each op, on each way into it, refused calls too (tests/leaks.py)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import leaks
import pytest

# What the collector and torch's tables vary by. A third of the calls of each way keep less: 0.6
# bytes a call on the ways that are called 10^5 times, 40 on the slowest, of 1,500 calls.
LIMIT = 20_000  # bytes


@pytest.mark.parametrize("group", leaks.GROUPS)
def test_calls_keep_nothing(group: str) -> None:
    found = ask(group)
    assert len(found) >= 4
    grown = {
        name: f"{kept / count:.1f} bytes a call"
        for name, (count, kept) in found.items()
        if kept > LIMIT
    }
    assert not grown


def test_a_leak_of_one_byte_is_seen() -> None:
    (kept,) = (kept for _, kept in ask("probe").values())
    assert kept > LIMIT


def ask(group: str) -> dict[str, tuple[int, int]]:
    environment = {**os.environ, "PYTHONMALLOC": "malloc", "MALLOC_ARENA_MAX": "1"}
    done = subprocess.run(
        [sys.executable, Path(leaks.__file__), group],
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    answer: dict[str, tuple[int, int]] = json.loads(done.stdout.splitlines()[-1])
    return answer
