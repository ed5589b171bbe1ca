"""The examples of docs/graphs.md run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest


def test_code_blocks_of_the_page_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = Path(__file__).parents[2] / "docs" / "graphs.md"
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
    assert len(blocks) == 4
    names: dict[str, Any] = {}
    for block in blocks:
        exec(compile(block, page.name, "exec"), names)
    assert (tmp_path / "ours.onnx").exists()
