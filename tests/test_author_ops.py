"""tests/data/author_ops: a package as somebody else would write it, with outputs of other dtypes
than the inputs, refusals that depend on numbers, one dtype only; built against a wheel of ours."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from installed import ROOT, copied, install, run

pytestmark = pytest.mark.slow  # test_your_own_op.py builds a package in `make test`


def test_every_family_passes_in_every_runtime(python: Path, tmp_path: Path) -> None:
    package = copied(ROOT / "tests" / "data" / "author_ops", tmp_path / "author_ops")
    install(python, package, editable=True)
    text = run(python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests", cwd=package)
    assert re.search(r"\n\d+ passed", text), text
    assert "skipped" not in text
