"""HTML: whole pages, and fragments for notebooks, from the templates and the stylesheet here.

    page.html       what every page shares: head, style, heading, how it was made
    <result>.html   one kind of result; the page and the fragment in a notebook show the same
    parts.html      macros that they share
    style.css       every rule is for what is inside an element of class myops, so that a fragment
                    changes nothing of the notebook around it
    markdown        notes

Values are escaped, and what no reader could see becomes an escape as in a terminal
(`myops._text.printable`). A page has a policy by which a browser runs no script on it, loads
nothing and accepts no style but ours, should something of a file get through nevertheless.
"""

from __future__ import annotations

import base64
import functools
import hashlib
from pathlib import Path
from typing import Any

from myops._extras import require
from myops._text import printable, shorten, shown_in_html

_LONGEST = 1000  # characters of a text outside of tables, whose cells scroll


def page(template: str, *, title: str, command: str = "", **values: Any) -> str:
    """A self-contained page: one file, which loads nothing.

    Args:
        template: Name of a template for the contents.
        title: Of the page; a long one is cut.
        command: What makes this page again, as it is typed; "" when nobody knows.
        values: What the template shows.
    """
    policy = f"default-src 'none'; style-src '{_hash(_style())}'; img-src data:"
    return _render("page.html", template=template, title=title, command=command, policy=policy,
                   standalone=True, **values)  # fmt: skip


def fragment(template: str, **values: Any) -> str:
    """What a notebook shows: an element with its style, without headings of a page."""
    return _render("fragment.html", template=template, standalone=False, **values)


def _render(name: str, **values: Any) -> str:
    return str(_environment().get_template(name).render(style=_style(), **values))


@functools.cache
def _environment() -> Any:
    jinja2 = require("jinja2", "an HTML page")
    found = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=shown_in_html,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters["short"] = lambda text: shorten(printable(text), _LONGEST)
    return found


@functools.cache
def _style() -> Any:
    markupsafe = require("markupsafe", "an HTML page")
    return markupsafe.Markup(Path(__file__).with_name("style.css").read_text("utf-8"))


def _hash(style: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
