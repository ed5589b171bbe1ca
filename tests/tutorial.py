"""Plays docs/tutorial.md: writes its files, types its commands, compares what they say.

A block whose first line names a file (```python rules.py) is written to it; ```sh is run; ```text
is what the command before it says, "..." standing for some lines; and ```sh host is left to a test
of its own, as it needs an ONNX Runtime for C++. All of it in one folder, in the page's order.
"""

from __future__ import annotations

import os
import re
import subprocess
import time
from pathlib import Path

import pytest
from installed import ROOT, outside

PAGE = ROOT / "docs" / "tutorial.md"
_BLOCK = re.compile(r"^```(\w+)(?: (\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks() -> list[tuple[str, str, str]]:
    """(language, file or "host" or "", text) of every block."""
    return [(one, two, text) for one, two, text in _BLOCK.findall(PAGE.read_text())]


def play(python: Path, folder: Path) -> dict[str, str]:
    """All but the blocks for hosts; what each sh block said, by its text."""
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
    """What commands say, where `python` and `myops` are those of the environment."""
    paths = os.pathsep.join([str(python.parent), os.environ.get("PATH", "")])
    environment = {**outside(), "PATH": paths, "PIP_NO_INDEX": "1", "PIP_NO_DEPS": "1", **more}
    start = time.perf_counter()
    done = subprocess.run(
        ["sh", "-eu", "-c", text], cwd=folder, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, f"{text}\n{done.stdout}{done.stderr}"[-8000:]
    print(f"{time.perf_counter() - start:.0f} s: {text.strip().splitlines()[0]} ...")
    return done.stdout


def _plain(text: str) -> str:
    """Without what differs from run to run: seconds, and the spaces before them."""
    return re.sub(r" +[\d.]+ ?s\b", " T s", text).strip()


@pytest.fixture(scope="session")
def tutorial(python: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """The folder of somebody who has worked through the page, and what the commands said."""
    folder = tmp_path_factory.mktemp("tutorial")
    return folder, play(python, folder)
