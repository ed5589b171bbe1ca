"""The command `myops new`. The files that it writes are tested in test_your_own_op.py."""

from __future__ import annotations

import json
from pathlib import Path

from test_commands import call


def test_command_writes_a_package(tmp_path: Path) -> None:
    words = ("new", "mine", "--directory", tmp_path, "--op", "swish")
    status, out, errors = call(*words)
    assert (status, errors) == (0, "")
    assert "pip install --no-build-isolation" in out
    assert (tmp_path / "mine" / "csrc" / "swish.cpp").is_file()
    status, out, errors = call(*words)
    assert (status, out) == (2, "")
    assert "mine exists already; nothing was written" in errors


def test_command_prints_json(tmp_path: Path) -> None:
    status, out, _ = call("new", "mine", "--directory", tmp_path, "--json")
    assert status == 0
    data = json.loads(out)
    assert data["folder"] == str(tmp_path / "mine")
    assert "src/mine/__init__.py" in data["files"]
    assert all((tmp_path / "mine" / name).is_file() for name in data["files"])


def test_wrong_arguments_are_refused(tmp_path: Path) -> None:
    status, out, errors = call("new", "My Ops", "--directory", tmp_path)
    assert (status, out) == (2, "")
    assert "such as 'my_ops'" in errors
    assert not list(tmp_path.iterdir())
