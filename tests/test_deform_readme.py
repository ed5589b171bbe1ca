"""csrc/ops/deform_conv2d/README.md names the kernels that the code reports, and existing files."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "csrc" / "ops" / "deform_conv2d"
README = (FOLDER / "README.md").read_text()
PLACES = re.findall(r"`(\w+\.(?:cpp|h)):(\w+)`", README)


def code() -> str:
    return "\n".join(file.read_text() for file in FOLDER.glob("*.h"))


def first_arguments(source: str) -> list[str]:
    """The first argument of each call of `report`."""
    found = []
    for call in re.finditer(r"context_?\.report\(", source):
        text, depth, place = "", 0, call.end()
        strings = re.compile(r'"(?:[^"\\]|\\.)*"|.', re.S)
        while True:
            token = strings.match(source, place)
            assert token
            depth += {"(": 1, ")": -1}.get(token[0], 0)
            if depth < 0 or (token[0] == "," and not depth):
                break
            text += token[0]
            place = token.end()
        found.append(text)
    return found


def test_the_tables_list_every_kernel() -> None:
    rows = re.findall(r"^\| `(\w+)` \|", README, re.M)
    reported = {name for text in first_arguments(code()) for name in re.findall(r'"(\w+)"', text)}
    assert "jobs" in reported
    assert set(rows) == reported


@pytest.mark.parametrize(("file", "name"), PLACES, ids=":".join)
def test_names_in_the_tables_exist(file: str, name: str) -> None:
    assert re.search(rf"\b{name}\b", (FOLDER / file).read_text()), f"{file} has no {name}"


def test_the_table_lists_every_file() -> None:
    named = set(re.findall(r"`(\w+\.h)`", README.partition("## Files")[2]))
    files = {file.name for file in FOLDER.glob("*.h")} - {"kernels.h"}
    assert named == files


def test_the_page_of_cuda_lists_every_file_and_kernel() -> None:
    folder = FOLDER / "cuda"
    page = (folder / "README.md").read_text()
    files = {path.name: path.read_text() for path in folder.glob("*.h")}
    kernels = re.findall(r"MYOPS_(?:BLOCK_)?KERNEL\((\w+),", "\n".join(files.values()))
    assert len(kernels) > 10
    assert set(re.findall(r"`(\w+\.h)`", page)) == {*files} - {"entry.h"}
    table = page.partition("|---|")[2]
    assert set(re.findall(r"`(\w+)`", table)) == set(kernels)
    assert "cuda_tiles" in (folder / "sources.cpp").read_text()
