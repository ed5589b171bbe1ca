"""The pages in a browser: at the widths of a phone and of a desktop, in light and dark mode."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import looking
import pages
import pytest

NAMES = [*pages.REPORTS, *pages.MATRICES]
WIDTHS = (390, 1400)
SCHEMES = ("light", "dark")

Show = Callable[..., Any]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Every page, written once."""
    folder = tmp_path_factory.mktemp("pages")
    found = {name: folder / f"{name.replace(' ', '_')}.html" for name in NAMES}
    for name, make in pages.REPORTS.items():
        make().write_html(found[name])
    for name, matrix in pages.MATRICES.items():
        matrix().save(found[name])
    return found


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("width", [320, *WIDTHS])
@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_wider_than_the_window(
    name: str, width: int, scheme: str, files: dict[str, Path], show: Show
) -> None:
    driver = show(files[name], width, scheme)
    assert looking.strays(driver) == []
    whole, shown = looking.widths(driver)
    assert whole <= shown <= width
    assert driver.get_log("browser") == []  # the page obeys its own policy


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", NAMES)
def test_headers_of_rows_and_columns_stay_visible(
    name: str, width: int, files: dict[str, Path], show: Show
) -> None:
    found = looking.heads(show(files[name], width, height=500))
    for table in found:
        assert table["row"] == table["column"] == 0, table
        assert table["corner_is_head"] or not table["has_column_heads"], table
        assert table["row_head_on_top"] or not table["has_row_heads"], table
    tables = [table for table in found if table["has_row_heads"]]
    if name in ("failing", "committed matrix", "hostile matrix") and (
        width == 390 or name == "hostile matrix"
    ):  # they do scroll, both ways
        assert any(all(table["scrolled"]) for table in tables)
    for table in tables:
        assert [there > 0 for there in table["scrolled"]] == [more > 0 for more in table["larger"]]


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", NAMES)
def test_text_has_enough_contrast(
    name: str, width: int, scheme: str, files: dict[str, Path], show: Show
) -> None:
    driver = show(files[name], width, scheme)
    found = looking.contrasts(driver)
    assert found
    assert found[0][0] >= 4.5, found[:5]
    dark = driver.execute_script("return getComputedStyle(document.body).backgroundColor")
    assert dark == {"light": "rgb(255, 255, 255)", "dark": "rgb(22, 24, 28)"}[scheme]


@pytest.mark.parametrize("width", [320, 390, 720, 760, 1000, 1400])
@pytest.mark.parametrize("name", ["failing", "hostile report", "odd report"])
def test_the_plot_is_legible(name: str, width: int, files: dict[str, Path], show: Show) -> None:
    (plot,) = looking.plots(show(files[name], width))
    assert plot["width"] > 0.8 * min(width, 500)
    assert len(plot["texts"]) >= 5
    for text in plot["texts"]:
        assert 10 <= text["size"] <= 17, text
        assert text["box"][0] >= -1, text
        assert text["box"][2] <= plot["width"] + 1, text
    for one, other in itertools.combinations(plot["texts"], 2):
        a, b = one["box"], other["box"]
        apart = a[2] <= b[0] or b[2] <= a[0] or a[3] <= b[1] + 2 or b[3] <= a[1] + 2
        assert apart, (one, other)


@pytest.mark.parametrize("width", WIDTHS)
def test_pictures_are_large_enough(width: int, files: dict[str, Path], show: Show) -> None:
    script = """return Array.from(document.querySelectorAll('.pictures img:not(.scale)')).map(
        item => [item.naturalWidth, item.getBoundingClientRect().width, item.alt])"""
    found = show(files["failing"], width).execute_script(script)
    assert len(found) >= 9
    for pixels, shown, text in found:
        assert pixels == 16
        assert shown >= 150
        assert text


def test_tables_are_reachable_by_keyboard_and_named(files: dict[str, Path], show: Show) -> None:
    from selenium.webdriver import ActionChains, Keys

    driver = show(files["committed matrix"])
    stops = looking.tab_stops(driver)
    assert stops == [
        ("DIV", "Verdicts of torchscript"), ("SUMMARY", "Why cells of torchscript are not ok"),
        ("DIV", "Verdicts of dynamo"), ("SUMMARY", "Why cells of dynamo are not ok"),
        ("DIV", "Table in the notes"),
    ]  # fmt: skip
    driver.execute_script("document.querySelector('.wide').focus()")
    ActionChains(driver).send_keys(Keys.END).perform()
    script = "return document.querySelector('.wide').scrollTop > 0"
    from selenium.webdriver.support.ui import WebDriverWait

    assert WebDriverWait(driver, 10).until(lambda found: found.execute_script(script))


def test_a_cell_links_to_its_reason(files: dict[str, Path], show: Show) -> None:
    from selenium.webdriver.common.by import By

    driver = show(files["committed matrix"], 390)
    cell = driver.find_element(By.CSS_SELECTOR, "td.silently-wrong a")
    driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", cell)
    cell.click()
    script = """
      const row = document.querySelector('tr:target'), box = row.getBoundingClientRect();
      const heads = row.closest('table').querySelector('th').getBoundingClientRect();
      return [row.checkVisibility(), box.top >= heads.bottom - 1 && box.top < innerHeight - 20,
              row.innerText];
    """
    visible, in_sight, text = driver.execute_script(script)
    assert visible
    assert in_sight
    assert text.startswith("silently wrong")


def test_notes_are_rendered(files: dict[str, Path], show: Show) -> None:
    script = """
      const notes = document.querySelector('.notes');
      const missing = ['table', 'ul', 'code', 'strong', 'pre', 'h3', 'p'].filter(
        name => !notes.querySelector(name));
      return [notes.innerText, missing, Array.from(notes.querySelectorAll('a')).map(a => a.href)];
    """
    text, missing, _ = show(files["committed matrix"]).execute_script(script)
    assert missing == ["pre", "h3"]  # which these notes do not have
    assert "**" not in text
    assert "|---" not in text
    text, missing, links = show(files["hostile matrix"]).execute_script(script)
    assert missing == []
    assert links == ["https://example.org/?q=1&r=%222%22", "https://example.org/a.png"]
    assert "<script>window.hacked = 4</script>" in text


@pytest.mark.parametrize("name", ["hostile report", "hostile matrix"])
def test_names_of_a_model_are_escaped(name: str, files: dict[str, Path], show: Show) -> None:
    driver = show(files[name])
    script = """
      const named = new Set();
      for (const item of document.querySelectorAll('*')) {
        named.add(item.tagName.toLowerCase());
        for (const attribute of item.attributes) { named.add('@' + attribute.name); }
      }
      return [window.hacked ?? null, Array.from(named), document.body.textContent,
              Array.from(document.images).filter(i => !i.src.startsWith('data:image/png')).length];
    """
    hacked, named, text, foreign = driver.execute_script(script)
    assert hacked is None
    assert foreign == 0
    assert not {item for item in named if re.match(r"@on|@style$|@srcdoc|script$|iframe$", item)}
    assert "<script>window.hacked = 1</script>" in text
    assert "{{ 7 * 7 }}" in text
    assert "\\x1b[31m\\n\\u202e" in text  # invisible characters are written out
    assert "\u202e" not in text


BREACHES = [
    "<script>document.title = 'hacked'</script>",
    "<img src=x onerror=\"document.title = 'hacked'\">",
    '<img src="https://example.org/a.png">',
    "<style>body { background: url(https://example.org/b.png) !important }</style>",
    '<p style="position: fixed; inset: 0">over everything</p>',
    '<iframe src="https://example.org"></iframe>',
]


@pytest.mark.parametrize("breach", BREACHES)
@pytest.mark.parametrize("name", ["failing", "committed matrix"])
def test_the_content_security_policy_blocks_scripts(
    name: str, breach: str, files: dict[str, Path], show: Show, tmp_path: Path
) -> None:
    page = files[name].read_text("utf-8")
    (tmp_path / "breached.html").write_text(page.replace("<main>", f"<main>{breach}"), "utf-8")
    driver = show(tmp_path / "breached.html")
    said = [item["message"] for item in driver.get_log("browser")]
    assert any("Content Security Policy" in text for text in said), said
    assert driver.title != "hacked"
    background = driver.execute_script("return getComputedStyle(document.body).backgroundImage")
    assert background == "none"


def test_the_command_is_shown_on_the_page(files: dict[str, Path], show: Show) -> None:
    script = "return document.querySelector('#remake + pre')?.innerText ?? null"
    found = show(files["failing"]).execute_script(script)
    assert found == "myops compare net.py:example net.onnx --html report.html"
    assert show(files["empty report"]).execute_script(script) is None
