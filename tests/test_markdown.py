"""Notes in a page: Markdown becomes HTML, and any other content is escaped."""

from __future__ import annotations

import html.parser
from typing import Any

import pytest

from myops._pages.markdown import html as rendered


def tags(text: str) -> set[tuple[str, str]]:
    """(tag, attribute=value) of everything in the HTML, with an entry (tag, "") for each tag."""
    found: set[tuple[str, str]] = set()

    class Reader(html.parser.HTMLParser):
        def handle_starttag(self, tag: str, attributes: Any) -> None:
            found.add((tag, ""))
            found.update((tag, f"{name}={value}") for name, value in attributes)

    Reader().feed(text)
    return found


def test_notes_become_html() -> None:
    text = rendered(
        "# One\n\n###### Six\n\n*a* **b** `c<d`\n\n- e\n- f\n\n1. g\n\n> h\n\n```\ni & j\n```\n\n"
        "| k | l |\n|:-:|--:|\n| m | `n` |\n\n[o](page.html#p) <https://example.org/q?r&s>\n\n---\n"
    )
    for part in ("<h3>One</h3>", "<h6>Six</h6>", "<em>a</em>", "<strong>b</strong>",
                 "<code>c&lt;d</code>", "<li>e</li>", "<ol>", "<blockquote>", "i &amp; j",
                 '<th scope="col">k</th>', "<td>m</td>", '<a href="page.html#p">o</a>',
                 '<a href="https://example.org/q?r&amp;s">', "<hr"):  # fmt: skip
        assert part in text, part
    assert text.count('<div class="wide"') == text.count("</table></div>") == 1
    assert "style" not in text


def test_empty_notes_become_nothing() -> None:
    assert rendered("") == ""
    assert rendered("\n\n") == ""


@pytest.mark.parametrize("url", [
    "javascript:alert(1)", "JaVaScRiPt:alert(1)", "java\tscript:alert(1)",
    "&#106;avascript:alert(1)", "vbscript:x", "data:text/html,<script>alert(1)</script>",
    "data:image/svg+xml,<svg/>",
    "file:///etc/passwd", "blob:x", "\x01javascript:alert(1)", "%6Aavascript:alert(1)",
])  # fmt: skip
@pytest.mark.parametrize("form", ["[a]({})", "[a](<{}>)", "![a]({})", "<{}>", "[a]\n\n[a]: {}"])
def test_unsafe_links_stay_text(url: str, form: str) -> None:
    allowed = ("http:", "https:", "mailto:")
    for tag, attribute in tags(rendered(form.format(url))):
        assert tag in ("p", "a")
        name, _, value = attribute.partition("=")
        assert name in ("", "href")
        scheme = value.split(":")[0] + ":" if ":" in value else ""
        assert not scheme or scheme.lower() in allowed or "%" in scheme, value


@pytest.mark.parametrize("text", [
    "<script>alert(1)</script>", "<img src=x onerror=alert(1)>", "a <b onclick=alert(1)>b</b>",
    "<!-- --><script>alert(1)</script>", "<svg/onload=alert(1)>", "`<script>`", "# <script>",
    "| <script> |\n|--|\n| <img src=x> |", "```<script>\n</code></pre><script>\n```",
    '[a](b "c\\" onmouseover=\\"alert(1)")', '![" onerror="alert(1)](x)', "&lt;script&gt;",
    "[<img src=x>](y)", "```x\" onclick=\"alert(1)\n```",
])  # fmt: skip
def test_html_in_notes_stays_text(text: str) -> None:
    found = tags(rendered(text))
    assert {tag for tag, _ in found} <= {"p", "a", "h3", "code", "pre", "div", "table", "thead",
                                         "tbody", "tr", "th", "td"}  # fmt: skip
    names = {attribute.partition("=")[0] for _, attribute in found if attribute}
    assert names <= {"href", "title", "class", "role", "aria-label", "tabindex", "scope"}


def test_invisible_characters_are_written_out() -> None:
    assert rendered("a\x1b[31mb\u202ec\x00") == "<p>a\\x1b[31mb\\u202ec\\x00</p>"


def test_deeply_nested_notes_are_converted() -> None:
    for text in ("[" * 20_000, "*" * 20_000, "> " * 5_000 + "a", "- " * 5_000 + "a", "`" * 20_000):
        assert rendered(text)
