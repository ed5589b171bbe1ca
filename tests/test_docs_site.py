"""The documentation's site: it has a page for every public name and no broken link."""

from __future__ import annotations

import html.parser
import inspect
import re
from functools import cache
from pathlib import Path
from urllib.parse import unquote, urlsplit

import myops
import myops.cli

ROOT = Path(__file__).parents[1]


class _Page(html.parser.HTMLParser):
    """The anchors of a page, its links, and the files that a browser loads with it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attributes}
        if "id" in found:
            self.anchors.add(found["id"])
        if tag == "a" and "href" in found:
            self.links.append(found["href"])
        elif "src" in found or (tag == "link" and found.get("rel") != "canonical"):
            self.loaded.append(found.get("src") or found.get("href", ""))


@cache
def _page(file: Path) -> _Page:
    return _Page(file.read_text())


def _public() -> list[str]:
    """Every name that `dir()` shows of `myops` and of the modules in it."""
    found = ["myops"]
    for name in dir(myops):
        if not name.startswith("__"):
            found.append(f"myops.{name}")
            value = getattr(myops, name)
            if inspect.ismodule(value):
                found += [f"myops.{name}.{inner}" for inner in dir(value) if inner[:2] != "__"]
    return found


def test_every_public_name_has_a_page(site: Path) -> None:
    names = _public()
    assert {"myops.resize", "myops.onnx.export", "myops.testing.FAMILIES"} <= {*names}
    pages = {anchor for file in (site / "api").rglob("*.html") for anchor in _page(file).anchors}
    assert [name for name in names if name not in pages] == []


def test_pages_show_the_documentation_of_their_name(site: Path) -> None:
    """Not that of another object of the same name, and not an empty page."""
    for name in _public():
        value = eval(name, {"myops": myops})
        if inspect.isroutine(value) or inspect.isclass(value):
            module, _, last = name.rpartition(".")
            text = (site / "api" / module / f"{last}.html").read_text()
            first = re.split(r"[`<>&\"'*_.:;,]", str(inspect.getdoc(value)))[0].strip()
            shown = " ".join(re.sub(r"<[^>]*>", "", text).split())
            assert " ".join(first.split()) in shown, name


def test_lists_are_lists(site: Path) -> None:
    """An item after a block or a paragraph needs an empty line before it."""
    for file in site.rglob("*.html"):
        for paragraph in re.findall(r"<p>(?:(?!</p>).)*</p>", file.read_text(), re.DOTALL):
            assert not re.search(r"(?:^<p>|\n)(?:- |\d+\. )", paragraph), (file, paragraph)


def test_options_in_a_line_of_text_stay_whole(site: Path) -> None:
    assert '<span class="word">--fail-on</span>' in (site / "command_line.html").read_text()
    assert (site / "site.css").exists()


def test_examples_are_shown_as_code(site: Path) -> None:
    """Of the package too, whose docstring is merged with its type stub."""
    for file in (site / "api").rglob("*.html"):
        assert "<blockquote>" not in file.read_text(), file
    assert "&gt;&gt;&gt; </span>" in (site / "api" / "myops" / "index.html").read_text()


def test_every_command_is_in_the_reference(site: Path) -> None:
    page = _page(site / "reference.html")
    assert {f"myops-{name}" for name in myops.cli.commands()} <= page.anchors
    text = re.sub(r"</?span[^>]*>", "", (site / "reference.html").read_text())
    for option in ("--against FILE|lowered", "--fail-on", "--json"):
        assert option in text
    assert "[default: 1]" in text


def test_every_page_of_docs_is_in_the_site(site: Path) -> None:
    for page in (ROOT / "docs").rglob("*.md"):
        place = page.relative_to(ROOT / "docs")
        name = "index.html" if place.name == "README.md" else f"{place.stem}.html"
        assert (site / place.parent / name).exists(), page


def test_links_have_a_target(site: Path) -> None:
    """Those to files of the repository that are not in docs/ too."""
    outside = _page(site / "examples" / "hosts" / "index.html").links
    assert "libtorch/main.cpp.html" in outside
    for file in site.rglob("*.html"):
        for link in _page(file).links:
            parts = urlsplit(link)
            if parts.scheme in ("http", "https", "mailto") or file.name == "404.html":
                continue
            target = (file.parent / unquote(parts.path)).resolve() if parts.path else file
            target = target / "index.html" if target.is_dir() else target
            assert target.exists(), f"{file.relative_to(site)}: {link}"
            if parts.fragment and target.suffix == ".html":
                anchor = unquote(parts.fragment)
                assert anchor in _page(target).anchors, f"{file.relative_to(site)}: {link}"


def test_names_in_the_text_link_to_their_pages(site: Path) -> None:
    links = _page(site / "export.html").links
    assert "api/myops.onnx/export.html#myops.onnx.export" in links
    assert "reference.html#myops-compare" in _page(site / "index.html").links


def test_no_page_loads_from_another_host(site: Path) -> None:
    for file in site.rglob("*.html"):
        for address in _page(file).loaded:
            assert not urlsplit(address).netloc, f"{file.relative_to(site)}: {address}"
    for style in site.rglob("*.css"):
        assert not re.search(r"url\([\"']?(https?:)?//", style.read_text()), style
