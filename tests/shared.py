"""Files that take long to make, made once for all processes of a test run.

Each process of pytest-xdist has session fixtures of its own; the folder above theirs is that of the
run. The first process that asks makes the files there; the others wait and use them.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from filelock import FileLock  # which torch requires


def once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], None]) -> Path:
    """The folder `name` of this run, filled by `make(folder)`. Nobody may write to it later."""
    root = factory.getbasetemp()
    if os.environ.get("PYTEST_XDIST_WORKER"):
        root = root.parent
    folder, done = root / name, root / f"{name}.done"
    with FileLock(root / f"{name}.lock"):
        if not done.exists():
            shutil.rmtree(folder, ignore_errors=True)  # of an attempt that failed
            folder.mkdir()
            make(folder)
            done.touch()
    return folder
