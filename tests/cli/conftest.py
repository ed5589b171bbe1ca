"""Fixtures of the tests of the command line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from every_command import NET
from hostile_models import HOSTILE, small


@pytest.fixture
def command_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The current folder has models and inputs; no command waits for a browser."""
    from myops.onnx.surgery.viewer import Viewer

    (tmp_path / "net.py").write_text(NET.replace("HOSTILE", repr(HOSTILE)))
    onnx.save(small(), tmp_path / "good.onnx")
    (tmp_path / "inputs").mkdir()
    np.save(tmp_path / "inputs" / "one.npy", np.float32([[1, 2]]))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Viewer, "wait", lambda self: None)
