"""The examples of docs/two_files.md run, and its tables are complete."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from myops.onnx.two_files import backends, matching, rows, tracing

PAGE = (Path(__file__).parents[2] / "docs" / "two_files.md").read_text()


def test_code_blocks_of_the_page_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    blocks = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert len(blocks) == 3
    for block in blocks:
        exec(compile(block, "two_files.md", "exec"), names)


def test_the_tables_of_the_page_are_complete() -> None:
    listed = re.findall(r"^\| `?([\w-]+)`? \|", PAGE, re.MULTILINE)
    ways = [matching.SAME, matching.PLACE, matching.REPLACED, matching.NAME, rows.NUMBERS]
    assert listed == ["backend", *backends.BACKENDS, *ways]
    assert f"up to {tracing.MOST_ITERATIONS} of a loop and 1 GiB" in PAGE
    assert tracing.MOST_BYTES == 2**30
