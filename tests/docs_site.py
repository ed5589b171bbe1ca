"""The documentation's site, built once for all tests and processes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import shared
import warm

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the site. A broken link, or a page that is missing in the menu, is an error."""
    pytest.importorskip("mkdocs", reason="mkdocs is of the extra docs")
    return shared.once(tmp_path_factory, "site", build)


def build(folder: Path) -> None:
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    words = ("-m", "mkdocs", "build", "--strict", "--site-dir", folder)
    done = warm.run(*words, cwd=ROOT, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
