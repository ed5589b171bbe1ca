"""A headless Chromium in which the pages are tested."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from chromium_process import OPTIONS, started


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A browser takes a minute; `make test` tests the text of the pages."""
    for item in items:
        if item.path.parent == Path(__file__).parent:
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The driver of one browser for all tests."""
    yield from started(OPTIONS, tmp_path_factory.mktemp("chromium"))


@pytest.fixture
def show(chromium: Any) -> Callable[..., Any]:
    """show(path, width, scheme): the page in a window of that width; the driver."""

    def shown(path: Path, width: int = 1400, scheme: str = "light", height: int = 900) -> Any:
        chromium.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
            "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600,
        })  # fmt: skip
        feature = {"name": "prefers-color-scheme", "value": scheme}
        chromium.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
        chromium.get_log("browser")  # of the page before
        chromium.get(path.as_uri())
        return chromium

    return shown
