"""Properties of every command, with every kind of input and every way to read its output.

A new command needs a line in `WORDS` (every_command.py); without it these tests fail.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import onnx
import pytest
from every_command import OUTPUTS, READERS, WORDS
from hostile_models import check_signs
from pairs import covering
from test_commands import COMMANDS, called

import myops.cli
from myops.cli import _console

pytestmark = pytest.mark.usefixtures("command_files")


def ways(kind: str, folder: Path) -> Path:
    """A file of a kind that users may give instead of a model."""
    good = (folder / "good.onnx").read_bytes()
    contents = {
        "empty": b"", "zeros": bytes(1000), "junk": np.random.default_rng(0).bytes(5000),
        "truncated": good[:-20], "web page": b"<!doctype html><html></html>",
        "pickle": b"\x80\x02}q\x00.", "archive": b"PK\x03\x04 and more", "text": b"hello\n" * 9,
        "no graph": onnx.ModelProto(ir_version=8).SerializeToString(),
    }  # fmt: skip
    if kind == "folder":
        return folder
    if kind == "device":
        return Path("/dev/zero")
    path = folder / f"{kind.replace(' ', '_')}.onnx"
    if kind in contents:
        path.write_bytes(contents[kind])
    return path


KINDS = ("missing", "folder", "device", "empty", "zeros", "junk", "truncated", "web page", "pickle",
         "archive", "text", "no graph")  # fmt: skip
EXAMINED = set(KINDS) - {"missing", "folder", "device"}  # what doctor has a verdict on


def test_every_command_is_tested() -> None:
    assert sorted(WORDS) == COMMANDS


@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.parametrize("command", READERS)
def test_valid_models_succeed(command: str, output: str, tmp_path: Path) -> None:
    words = WORDS[command]
    assert words is not None
    given = [command, *words("good.onnx", "out"), *([output] * (output != "text"))]
    status, out, errors = called(*given)
    assert status == 0, errors
    assert out
    if output == "--json":
        assert "error" not in json.loads(out)
    check_signs(out.decode(), errors)


@pytest.mark.parametrize(("command", "kind", "output"), covering(READERS, KINDS, OUTPUTS))
def test_files_that_are_no_model_are_refused(
    command: str, kind: str, output: str, tmp_path: Path
) -> None:
    words = WORDS[command]
    assert words is not None
    path = ways(kind, tmp_path)
    before = sorted(tmp_path.iterdir())
    given = [command, *words(path, tmp_path / "out"), *([output] * (output != "text"))]
    status, out, errors = called(*given)
    verdict = command == "doctor" and kind in EXAMINED
    assert status == (1 if verdict else 2), errors
    said = out.decode() if verdict else errors
    assert path.name in said.replace("\n", "") if kind != "folder" else "folder" in said
    assert "Traceback" not in errors
    if output == "--json":
        data = json.loads(out)
        assert verdict or (data["status"] == 2 and data["error"].split("\n")[0] in errors)
    elif not verdict:
        assert errors.startswith("error: ")
        assert not out
    check_signs(out.decode(), errors)
    after = [path for path in sorted(tmp_path.iterdir()) if path.name != "__pycache__"]
    assert after == before, "a file was written"


@pytest.mark.parametrize("command", COMMANDS)
def test_help_shows_all_of_its_text(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """No part of it, such as [view], is taken for markup; --debug and the statuses are listed."""
    monkeypatch.setenv("COLUMNS", "5000")
    monkeypatch.setattr(_console.sys.stdout, "columns", 5000, raising=False)
    status, out, _ = called(command, "--help")
    assert status == 0
    shown = re.sub(r"[\s│]+", " ", out.decode())
    module = myops.cli.commands()[command]
    documented = getattr(module, module.__name__.rpartition(".")[2]).__doc__
    for word in documented.replace("\b", "").split():
        assert word in shown
    assert "Exit status: 0 all is well;" in shown
    assert "2 wrong usage, or it could not be done." in shown
    assert ("; 1 " in shown) == hasattr(module, "VERDICT")
    for option in ("--json", "--debug"):
        assert option in shown


@pytest.mark.parametrize("command", COMMANDS)
def test_wrong_usage_has_status_2(command: str) -> None:
    for output in ([], ["--json"]):
        status, out, errors = called(command, "--no-such-option", *output)
        assert status == 2
        assert errors.startswith("error: No such option")
        assert bool(out) == bool(output)
        if output:
            assert json.loads(out)["error"].startswith("No such option")


@pytest.mark.parametrize(("text", "option"), [
    ("compare net.py:example good.onnx", "--rtol"),
    ("compare net.py:example good.onnx", "--atol"),
    ("simplify good.onnx out.onnx", "--tolerance"),
    ("matrix net.py:example", "--tolerance"),
])  # fmt: skip
@pytest.mark.parametrize("value", ["-1", "-1e-9", "nan", "x"])
def test_negative_tolerances_are_refused(text: str, option: str, value: str) -> None:
    status, out, errors = called(*text.split(), option, value)
    assert (status, out) == (2, b"")
    assert option in errors
    assert "Traceback" not in errors
