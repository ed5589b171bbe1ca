"""Executes docs/tutorial.md: writes its files, runs its commands, compares their output.

A block whose first line names a file (```python rules.py) is written to it; ```sh is run; ```text
is the output of the command before it, in which "..." stands for some lines; and ```sh host is
left to another test, because it needs an ONNX Runtime for C++. All blocks run in one folder, in the
order of the page.
"""

from __future__ import annotations

import os
import re
import subprocess
import time
from pathlib import Path

import pytest
from installed import ROOT, compiling

PAGE = ROOT / "docs" / "tutorial.md"
_BLOCK = re.compile(r"^```(\w+)(?: (\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks() -> list[tuple[str, str, str]]:
    """(language, file or "host" or "", text) of every block."""
    return [(one, two, text) for one, two, text in _BLOCK.findall(PAGE.read_text())]


def play(python: Path, folder: Path) -> dict[str, str]:
    """Runs all blocks except those for hosts; returns the output of each sh block by its text."""
    said: dict[str, str] = {}
    last = ""
    for language, title, text in blocks():
        if title == "host":
            continue
        if title:
            file = folder / title
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        elif language == "text":
            rest = _plain(last)
            for part in _plain(text).split("...\n"):
                assert part in rest, f"the page shows\n{part}\nbut it says\n{rest}"
                rest = rest.partition(part)[2]
        else:
            assert language == "sh", language
            last = said[text] = shell(text, folder, python)
    return said


def shell(text: str, folder: Path, python: Path, **more: str) -> str:
    """The output of commands, with `python` and `myops` of the environment."""
    paths = os.pathsep.join([str(python.parent), os.environ.get("PATH", "")])
    environment = {**compiling(folder), "PATH": paths, "PIP_NO_INDEX": "1", "PIP_NO_DEPS": "1"}
    start = time.perf_counter()
    done = subprocess.run(
        ["sh", "-eu", "-c", text],
        cwd=folder,
        env={**environment, **more},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, f"{text}\n{done.stdout}{done.stderr}"[-8000:]
    print(f"{time.perf_counter() - start:.0f} s: {text.strip().splitlines()[0]} ...")
    return done.stdout


def _plain(text: str) -> str:
    """Replaces what differs from run to run: seconds, and the spaces before them."""
    return re.sub(r" +[\d.]+ ?s\b", " T s", text).strip()


@pytest.fixture(scope="session")
def tutorial(python: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """The folder after the last block, and the output of the commands."""
    folder = tmp_path_factory.mktemp("tutorial")
    return folder, play(python, folder)
