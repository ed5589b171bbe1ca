"""Starts a headless Chromium."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

# Options with which it makes no requests of its own.
OPTIONS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--disable-dev-shm-usage",
)  # fmt: skip


def started(arguments: Iterable[str], folder: Path) -> Iterator[Any]:
    """Starts a browser with these options, and ends it."""
    browser, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if browser is None or driver is None:
        pytest.skip("no chromium and chromedriver; on Debian: apt-get install chromium-driver")
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is of the extra test")
    options = webdriver.ChromeOptions()
    options.binary_location = browser
    for option in arguments:
        options.add_argument(option)
    options.add_argument(f"--user-data-dir={folder}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    found = webdriver.Chrome(options, webdriver.ChromeService(driver))
    found.set_page_load_timeout(60)
    yield found
    found.quit()
