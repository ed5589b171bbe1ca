"""A plugin of pytest: the fixtures of several files, and what happens around every test."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator

import numpy as np
import pytest
import torch
from docs_site import site  # noqa: F401  (fixtures)
from installed import python, wheel  # noqa: F401
from tutorial import tutorial  # noqa: F401

from myops._torch import seeds
from myops.onnx.exporting.computed_once import computed_once
from myops.ort import _extensions

SEED = 20240229


def pytest_sessionstart(session: pytest.Session) -> None:
    """Exports of tests that call torch themselves are as quick as those of `myops.onnx.export`."""
    exports = computed_once()
    exports.__enter__()
    session.config.add_cleanup(lambda: exports.__exit__(None, None, None))
    for device in (torch.cuda, torch.xpu):  # torch.manual_seed keeps a seed for the start of each,
        if not device.is_available():  # with a stack trace, which takes milliseconds
            device.manual_seed_all = lambda seed: None  # type: ignore[method-assign]
    with contextlib.suppress(ImportError):
        _extensions.load()  # before a test file imports it, which would slow down child processes


@pytest.fixture(autouse=True)
def _seeded() -> Iterator[None]:
    """Each test has the same random numbers in any order of the tests."""
    seeds.seed(SEED)
    np.random.seed(SEED)
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


@pytest.fixture(autouse=True)
def _undone() -> Iterator[None]:
    """Checks that a test has undone its changes to exports and to torch's own operators, which
    would affect later tests in the same process."""
    yield
    registry = sys.modules.get("myops.onnx.symbolics.registry")
    left = [name for name in registry.registered if name.startswith("aten::")] if registry else []
    assert not left, f"still registered: {left}"
    interpolate = sys.modules.get("myops._torch.interpolate")
    assert interpolate is None or not interpolate.is_patched()


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(SEED)
