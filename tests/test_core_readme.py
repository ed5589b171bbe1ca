"""csrc/core/README.md names files and functions that exist, and every source file of core."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
CSRC = ROOT / "csrc"
README = (CSRC / "core" / "README.md").read_text()
STEPS = re.findall(r"`([\w/]+\.(?:cpp|h)):(\w+)`", README)
PYTHON_STEPS = re.findall(r"`([\w/]+\.py):(\w+)`", README)


@pytest.mark.parametrize(("file", "function"), STEPS, ids=":".join)
def test_steps_of_a_call_exist(file: str, function: str) -> None:
    # A definition: the name and its parameters, and a body or the macro that declares it.
    code = (CSRC / file).read_text()
    assert re.search(rf"\b{function}\([^;]*\{{", code), f"{file} defines no {function}"


@pytest.mark.parametrize(("file", "function"), PYTHON_STEPS, ids=":".join)
def test_python_steps_of_a_call_exist(file: str, function: str) -> None:
    assert re.search(rf"^ *def {function}\(", (ROOT / file).read_text(), re.MULTILINE)


def test_the_table_lists_every_file() -> None:
    named = set(re.findall(r"`(\w+\.(?:cpp|h))`", README))
    sources = {path.name for path in (CSRC / "core").glob("*.cpp")}
    assert sources <= named
    assert named <= {path.name for path in (CSRC / "core").iterdir()}
    assert len(STEPS) > 10
    assert len(PYTHON_STEPS) > 2


def test_the_page_of_cuda_lists_every_file() -> None:
    folder = CSRC / "cuda"
    named = re.findall(r"`(\w+\.(?:cpp|h))`", (folder / "README.md").read_text())
    assert set(named) == {path.name for path in folder.iterdir()} - {"README.md"}
