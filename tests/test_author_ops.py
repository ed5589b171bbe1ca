"""tests/data/author_ops: a package of another author with unusual ops, such as outputs of other
dtypes than the inputs, and refusals that depend on numbers. It is built against a wheel of ours."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from installed import ROOT, copied, install, run

pytestmark = pytest.mark.slow  # test_your_own_op.py builds a package in `make test`


def test_every_family_passes_in_every_runtime(python: Path, tmp_path: Path) -> None:
    """One of its ops is first a prototype, then built: callers and exported files do not change."""
    package = copied(ROOT / "tests" / "data" / "author_ops", tmp_path / "author_ops")
    network = (python, package / "prototype" / "network.py")
    drafted = run(*network, "nms_prototype", "draft.onnx", "draft.onnx", cwd=tmp_path)
    install(python, package, editable=True)
    moved = run(*network, "author_ops", "moved.onnx", "draft.onnx", cwd=tmp_path)
    assert moved == drafted
    assert (tmp_path / "moved.onnx").read_bytes() == (tmp_path / "draft.onnx").read_bytes()
    text = run(python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests", cwd=package)
    assert re.search(r"\n\d+ passed", text), text
    assert "skipped" not in text
