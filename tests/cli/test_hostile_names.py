"""No text of a model or of an argument reaches a terminal or a page as anything but text."""

from __future__ import annotations

import json
import re
from pathlib import Path

import onnx
import pytest
from every_command import OUTPUTS, READERS, WORDS
from hostile_models import HOSTILE, check_signs, hostile_models
from pairs import covering
from test_commands import called

from myops.cli import _console

pytestmark = pytest.mark.usefixtures("command_files")


@pytest.mark.parametrize(
    ("command", "kind", "output"), covering(READERS, [*hostile_models()], [*OUTPUTS, "terminal"])
)
def test_hostile_names_are_printed_escaped(
    command: str, kind: str, output: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No text of a file reaches the terminal as a control sequence, or forges a line."""
    onnx.save(hostile_models()[kind], tmp_path / "hostile.onnx")
    words = WORDS[command]
    assert words is not None
    if output == "terminal":
        consoles = [
            _console.CommandConsole(force_terminal=True, width=40, stderr=flag) for flag in (0, 1)
        ]
        monkeypatch.setattr(_console, "out", consoles[0])
        monkeypatch.setattr(_console, "errors", consoles[1])
    hostile = {"x": "x" + HOSTILE, "y": "y" + HOSTILE}
    given = [re.sub(r"^([xy])(?=$|:)", lambda match: hostile[match[1]], word) if place > 1 else word
             for place, word in enumerate(words("hostile.onnx", "out"))]  # fmt: skip
    status, out, errors = called(command, *given, *([output] * (output == "--json")))
    assert status in (0, 1, 2)
    assert kind != "runs" or command in ("compare", "edit") or status == 0, errors
    assert "Traceback" not in errors
    assert "fault of myops" not in errors.replace("\n", " "), errors
    if output == "--json":
        json.loads(out)
    check_signs(out.decode(), errors, wrapped=output == "terminal")


@pytest.mark.parametrize("words", [
    ["export", "net.py:hostile", "out.onnx"],
    ["export", "net.py:example", "no\x1b[31m\nfolder/out.onnx"],
    ["matrix", "net.py:hostile", "--opsets", "18", "--exporter", "torchscript", "--details"],
    ["new", HOSTILE],
    ["inspect", f"no{HOSTILE}.onnx"],
    [f"inspect{HOSTILE}"],
    ["inspect", f"--{HOSTILE}"],
    ["doctor", f"no{HOSTILE}.onnx"],
    ["extract", "good.onnx", "out.onnx", "--outputs", HOSTILE],
    ["outputs", "good.onnx", "out.onnx", HOSTILE],
])  # fmt: skip
def test_hostile_arguments_are_printed_escaped(words: list[str]) -> None:
    status, out, errors = called(*words)
    assert status in (0, 2)
    check_signs(out.decode(), errors)


@pytest.mark.parametrize("words", [
    ["compare", "net.py:deep", "--html", "page.html", "--exporter", "torchscript"],
    ["matrix", "net.py:hostile", "-o", "page.html", "--opsets", "18", "--exporter", "torchscript"],
])  # fmt: skip
def test_hostile_names_are_escaped_in_pages(words: list[str]) -> None:
    status, out, errors = called(*words)
    assert status == 0, errors
    check_signs(out.decode(), errors)
    page = Path("page.html").read_text("utf-8")
    check_signs(page)
    assert "<script>" not in page
    assert "n\\x1b[31m" in page
    assert "&lt;script&gt;$\\frac$&amp;amp;" in page
