"""What the README and the docstrings show is what happens."""

from __future__ import annotations

import doctest
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import myops
import myops.nn
import myops.onnx
import myops.testing.battery
import myops.testing.cases
from myops import _description

ROOT = Path(__file__).parents[1]


def test_readme_blocks_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert len(blocks) >= 2
    names: dict[str, Any] = {}
    for block in blocks:
        exec(compile(block, "README.md", "exec"), names)
    assert (tmp_path / "model.onnx").exists()


def test_testing_page_blocks_run() -> None:
    text = (ROOT / "docs" / "testing.md").read_text()
    names: dict[str, Any] = {}
    for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
        exec(compile(block, "testing.md", "exec"), names)
    assert names["report"].failures == [] == list(names["report"].idle)
    assert names["failure"].expected.startswith("reference: ")
    families = re.findall(r"^\| (`.*?) \|", text, re.MULTILINE)
    assert re.findall(r"`(\w+)`", " ".join(families)) == list(myops.testing.FAMILIES)


@pytest.mark.parametrize(
    "module",
    [
        *myops.ops.modules(),
        myops.nn,
        _description,
        myops.testing.battery,
        myops.testing.cases,
    ],
)
def test_docstring_examples(module: Any) -> None:
    names = {"torch": torch, "myops": myops, "np": np, **vars(module)}
    results = doctest.testmod(module, extraglobs=names, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert results.attempted > 0
    assert results.failed == 0


def test_relative_links_lead_somewhere() -> None:
    for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name}: {target}"
