"""Hooks of a test run. With MYOPS_CI=1 a skipped test is a failure: CI has everything it needs.

What processes need that run tests is in around_tests.py, which imports torch. With pytest-xdist the
process that starts the others, which wait for it, runs no tests and does without.
"""

from __future__ import annotations

import gc
import importlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import slow_tests
import slowest
import warm


def pytest_configure(config: pytest.Config) -> None:
    if getattr(config.option, "dist", "no") == "no" or hasattr(config, "workerinput"):
        gc.disable()  # until pytest_collection_finish: imports leave almost no garbage
        config.pluginmanager.register(importlib.import_module("around_tests"))


@pytest.hookimpl(wrapper=True, tryfirst=True)  # -m chooses by the marks meanwhile
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Iterator[None]:
    slow_tests.mark(items)
    yield
    items[:] = slow_tests.longest_files_first(items)


def pytest_collection_finish() -> None:
    """What imports left lives until the process ends. Garbage collections that look at it take a
    tenth of the time of the tests; another tenth is saved by collections that are less frequent,
    because exporters and compilers create many objects."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 10, 10)
    gc.enable()


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


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    outcome = yield
    report = outcome.get_result()
    if report.skipped and not hasattr(report, "wasxfail") and os.environ.get("MYOPS_CI") == "1":
        report.outcome = "failed"
        report.longrepr = f"skipped although CI can run it: {call.excinfo}"
