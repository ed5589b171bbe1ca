"""The documentation's site as a browser shows it: at two widths, and its search."""

from __future__ import annotations

import functools
import http.server
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import looking
import pytest

# One page of each kind: the front page, wide tables, long code, a signature, a module, the
# commands.
PAGES = (
    "index.html", "opset_matrix.html", "performance.html", "performance_tables.html",
    "tutorial.html", "ops.html",
    "api/myops.onnx/export.html", "api/myops.onnx/index.html", "reference.html",
    "examples/hosts/libtorch/main.cpp.html",
)  # fmt: skip


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None: ...


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    """The site on a server of this machine: search needs one."""
    handler = functools.partial(_Quiet, directory=str(site))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def _show(driver: Any, address: str, width: int) -> None:
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
        "width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600,
    })  # fmt: skip
    driver.get_log("browser")
    driver.get(address)


@pytest.mark.parametrize("width", [390, 1400])
@pytest.mark.parametrize("page", PAGES)
def test_nothing_is_wider_than_the_window(
    page: str, width: int, address: str, chromium: Any
) -> None:
    _show(chromium, f"{address}/{page}", width)
    whole, shown = looking.widths(chromium)
    assert whole <= shown <= width
    # What is wider scrolls in a frame of its own.
    strays = chromium.execute_script("""
        const width = document.documentElement.clientWidth;
        return Array.from(document.querySelectorAll('.md-content *'))
          .filter(item => item.checkVisibility())
          .filter(item => item.getBoundingClientRect().right > width + 0.5)
          .filter(item => !item.parentElement.closest('pre, .md-typeset__scrollwrap, .highlight'))
          .map(item => item.outerHTML.slice(0, 200));""")
    assert strays == []
    assert chromium.get_log("browser") == []


def test_search_finds_a_function(address: str, chromium: Any) -> None:
    from selenium.webdriver.common.by import By

    _show(chromium, f"{address}/tutorial.html", 1400)
    chromium.find_element(By.CSS_SELECTOR, "input.md-search__input").send_keys("deform_conv2d")
    script = """return Array.from(document.querySelectorAll('a.md-search-result__link')).map(
        item => item.getAttribute('href'))"""
    found: list[str] = []
    end = time.monotonic() + 60
    while not found and time.monotonic() < end:
        time.sleep(0.2)
        found = chromium.execute_script(script)
    assert "api/myops/deform_conv2d.html" in found[0]
