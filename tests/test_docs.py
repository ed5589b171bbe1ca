"""The examples of README, docs and docstrings run and give what they show."""

from __future__ import annotations

import doctest
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import warm

import myops
import myops.nn
import myops.onnx
import myops.testing.cases
import myops.testing.suite
from myops import _op_parts
from myops.onnx import arrays, lowering

ROOT = Path(__file__).parents[1]


def blocks(page: str) -> list[str]:
    """The Python of a page. (A title after "python" leaves a block to another test.)"""
    found = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)
    assert found, page
    return found


@pytest.mark.parametrize(
    ("pages", "written"),
    [
        (["README.md", "docs/onnxruntime.md", "docs/doctor.md"], "model.onnx"),
        (["docs/your_own_op.md"], "clip.onnx"),
        (["docs/reports.md"], "report.html"),
        (["docs/compare.md"], "model.onnx"),
    ],
)
def test_code_blocks_of_the_pages_run(
    pages: list[str], written: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One page after the other. (Those of your_own_op.md that need a package are run by
    test_your_own_op.py.)"""
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for page in pages:
        for block in blocks(page):
            exec(compile(block, page, "exec"), names)
    assert (tmp_path / written).exists()


def test_the_page_on_ops_names_all_that_writes_a_standard_form() -> None:
    page = (ROOT / "docs" / "your_own_op.md").read_text()
    methods = [name for name in vars(lowering.Builder) if not name.startswith("_")]
    for name in (*methods, "opset", "hints"):
        assert re.search(rf"^\| `g\.{name}\b", page, re.MULTILINE), name
    for name in arrays.__all__:
        if name != "Array":
            assert re.search(rf"^\| `{name}\(", page, re.MULTILINE), name
    for name in vars(arrays.Array):
        if not name.startswith("_"):
            assert f"`{name}`" in page, name


def test_code_blocks_of_the_export_page_run(tmp_path: Path) -> None:
    """In a process of their own: they change how torch's exporters write an operator of torch."""
    (tmp_path / "page.py").write_text("\n".join(blocks("docs/export.md")))
    done = warm.run("page.py", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "enlarge.onnx").exists()


def test_code_blocks_of_the_testing_page_run() -> None:
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
        _op_parts,
        myops.testing.suite,
        myops.testing.cases,
    ],
)
def test_docstring_examples(module: Any) -> None:
    names = {"torch": torch, "myops": myops, "np": np, **vars(module)}
    results = doctest.testmod(module, extraglobs=names, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert results.attempted > 0
    assert results.failed == 0


def anchors(page: Path) -> set[str]:
    """The anchors of a page: its headings, as code hosts write them."""
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", item.lower()).replace(" ", "-") for item in headings}


PAGES = [
    *ROOT.glob("*.md"),
    *(ROOT / "docs").rglob("*.md"),
    *(ROOT / "examples").glob("*/*.md"),
    ROOT / "benchmarks" / "README.md",
]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_relative_links_have_a_target(page: Path) -> None:
    prose = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    for target, anchor in re.findall(r"\]\(([^)#:]*)(?:#([^)]*))?\)", prose):
        linked = page.parent / target if target else page
        assert linked.exists(), target
        assert not anchor or anchor in anchors(linked), f"{target}#{anchor}"


def test_decision_records_are_listed() -> None:
    """Each is in the table of docs/adr/README.md and in the site's menu."""
    records = {path.name for path in (ROOT / "docs" / "adr").glob("[0-9]*.md")}
    table = re.findall(r"^\| \[\d{4}\]\(([^)]+)\)", (ROOT / "docs/adr/README.md").read_text(), re.M)
    menu = re.findall(r"- adr/(\d.+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)
    assert sorted(records) == table == menu
