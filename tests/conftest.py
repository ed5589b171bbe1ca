"""Shared set-up. With MYOPS_CI=1 a skipped test is a failure: CI has everything it needs."""

from __future__ import annotations

import contextlib
import gc
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import slow_tests
import slowest
import torch
import warm
from docs_site import site  # noqa: F401  (fixtures)
from installed import python, wheel  # noqa: F401
from tutorial import tutorial  # noqa: F401

from myops._torch import seeds
from myops.onnx.exporting.computed_once import computed_once
from myops.ort import _extensions

SEED = 20240229


@pytest.hookimpl(wrapper=True, tryfirst=True)  # -m chooses by the marks meanwhile
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Iterator[None]:
    slow_tests.mark(items)
    yield
    items[:] = slow_tests.longest_files_first(items)


def pytest_sessionstart(session: pytest.Session) -> None:
    """Exports of tests that call torch themselves are as quick as those of `myops.onnx.export`."""
    exports = computed_once()
    exports.__enter__()
    session.config.add_cleanup(lambda: exports.__exit__(None, None, None))
    with contextlib.suppress(ImportError):
        _extensions.load()  # before a test file imports it, which would slow down child processes


def pytest_collection_finish() -> None:
    """What imports left lives until the process ends. Garbage collections that look at it take a
    tenth of the time of the tests; another tenth is saved by collections that are less frequent,
    because exporters and compilers create many objects."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 10, 10)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Writes the CPU time of a test and of its child processes for scripts/slowest.py; unlike the
    elapsed time, it is the same on a busy machine. A fixture counts for the first test that uses
    it."""
    before = sum(os.times()[:4]) + warm.used
    yield
    file = os.environ.get("MYOPS_TEST_SECONDS")
    if file:
        with open(file, "a") as stream:
            stream.write(f"{sum(os.times()[:4]) + warm.used - before:.2f} {item.nodeid}\n")


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Writes build/slowest.md, the times of the tests, at the end of `make test`."""
    file = os.environ.get("MYOPS_TEST_SECONDS")
    if file and "PYTEST_XDIST_WORKER" not in os.environ and Path(file).exists():
        Path(file).with_name("slowest.md").write_text(slowest.page(slowest.read(file)))


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


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    outcome = yield
    report = outcome.get_result()
    if report.skipped and not hasattr(report, "wasxfail") and os.environ.get("MYOPS_CI") == "1":
        report.outcome = "failed"
        report.longrepr = f"skipped although CI can run it: {call.excinfo}"
