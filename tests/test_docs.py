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
import myops.testing.cases
import myops.testing.suite
from myops import _description

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize(
    ("page", "written"),
    [
        ("README.md", "model.onnx"),
        ("docs/your_own_op.md", "clip.onnx"),
        ("docs/reports.md", "report.html"),
    ],
)
def test_blocks_run(
    page: str, written: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """(Those of your_own_op.md that need a package are run by test_your_own_op.py.)"""
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)
    assert blocks
    names: dict[str, Any] = {}
    for block in blocks:
        exec(compile(block, page, "exec"), names)
    assert (tmp_path / written).exists()


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
        myops.testing.suite,
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
        prose = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
        for target in re.findall(r"\]\(([^)#:]+)\)", prose):
            assert (page.parent / target).exists(), f"{page.name}: {target}"
