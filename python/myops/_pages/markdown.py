"""Markdown in a page."""

from __future__ import annotations

from typing import Any

from myops._extras import require
from myops._text import printable_lines


def html(text: str) -> Any:
    """CommonMark with tables as HTML that can stand in a page.

    HTML in the text is shown as text, pictures as links: a page loads nothing. Links to anything
    but http, https and mailto, and to places in the page or beside it, are shown as text.

    Args:
        text: Markdown.

    Returns:
        A `markupsafe.Markup`, which templates take as it is.

    Example:
        >>> print(html("*two* < 3"))
        <p><em>two</em> &lt; 3</p>
    """
    markdown_it = require("markdown_it", "an HTML page")
    markupsafe = require("markupsafe", "an HTML page")
    parser = markdown_it.MarkdownIt("commonmark", {"html": False}).enable("table").disable("image")
    parser.validateLink = _is_safe
    parser.add_render_rule("table_open", _table_open)
    parser.add_render_rule("table_close", _table_close)
    parser.add_render_rule("th_open", _cell)
    parser.add_render_rule("td_open", _cell)
    parser.add_render_rule("heading_open", _lower_heading)
    parser.add_render_rule("heading_close", _lower_heading)
    return markupsafe.Markup(parser.render(printable_lines(text)).rstrip())


def _is_safe(url: str) -> bool:
    scheme, colon, _ = url.strip().partition(":")
    if not colon or any(sign in scheme for sign in "/?#"):
        return True
    return scheme.lower() in ("http", "https", "mailto")


def _table_open(self: Any, *_: Any) -> str:
    return '<div class="wide" role="region" aria-label="Table in the notes" tabindex="0"><table>\n'


def _table_close(self: Any, *_: Any) -> str:
    return "</table></div>\n"


def _cell(self: Any, tokens: Any, index: int, options: Any, env: Any) -> str:
    # The default aligns by style attributes, which the page's policy refuses.
    tokens[index].attrs = {"scope": "col"} if tokens[index].tag == "th" else {}
    return str(self.renderToken(tokens, index, options, env))


def _lower_heading(self: Any, tokens: Any, index: int, options: Any, env: Any) -> str:
    """h1 is the page's own; the notes stand under an h2."""
    tokens[index].tag = f"h{min(int(tokens[index].tag[1]) + 2, 6)}"
    return str(self.renderToken(tokens, index, options, env))
