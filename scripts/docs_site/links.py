"""Links of the site's pages: to files of the repository, and from names in code to their pages.

Also what code hosts and Python-Markdown read differently.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any
from xml.etree.ElementTree import Element

from markdown import Markdown
from markdown.extensions import Extension
from markdown.treeprocessors import Treeprocessor
from markdown.util import AtomicString

from docs_site import api, command_line, repository

_HEADINGS = frozenset({"h1", "h2", "h3", "h4", "h5", "h6"})


class Links(Extension):
    """`page` is the page that is being rendered, by its place in the site."""

    page = ""

    def extendMarkdown(self, md: Markdown) -> None:  # noqa: N802
        # After the inline patterns (20) and before MkDocs looks at the links (0).
        md.treeprocessors.register(_Pipes(), "myops_pipes", 7)
        md.treeprocessors.register(_Repository(self), "myops_repository", 6)
        md.treeprocessors.register(_Names(), "myops_names", 5)


class _Pipes(Treeprocessor):
    """A pipe in a table's code is written \\| for code hosts; Python-Markdown wants | alone."""

    def run(self, root: Element) -> None:
        for cell in (*root.iter("td"), *root.iter("th")):
            for code in cell.iter("code"):
                if isinstance(code.text, str):
                    code.text = AtomicString(code.text.replace("\\|", "|"))


class _Repository(Treeprocessor):
    def __init__(self, links: Links) -> None:
        super().__init__()
        self._links = links

    def run(self, root: Element) -> None:
        for element in root.iter():
            for attribute in ("href", "src"):
                target = element.get(attribute)
                if target is not None and element.tag in ("a", "img"):
                    element.set(attribute, repository.link(self._links.page, target))


class _Names(Treeprocessor):
    """Code such as `myops.onnx.export(...)` or `myops compare` leads to its page."""

    def run(self, root: Element) -> None:
        for parent, position, code in list(_inline_code(root)):
            identifier = _identifier(str(code.text))
            if identifier is not None:
                link = Element("autoref", {"identifier": identifier, "optional": ""})
                link.tail, code.tail = code.tail, None
                parent[position] = link
                link.append(code)


def _inline_code(parent: Any) -> Iterator[tuple[Element, int, Element]]:
    for position, child in enumerate(parent):
        if child.tag == "code" and isinstance(child.text, str) and not len(child):
            yield parent, position, child
        elif child.tag not in ("a", "pre", "autoref", *_HEADINGS):
            yield from _inline_code(child)


def _identifier(code: str) -> str | None:
    """The anchor of the name that a piece of code mentions, or None."""
    name = re.match(r"[\w.]+", code)
    if name is not None and name[0] in api.names() and code[name.end() :][:1] in ("", "("):
        return name[0]
    command = re.match(r"myops ([a-z-]+)", code)
    if command is not None and command[1] in command_line.commands():
        return command_line.identifier(command[1])
    return None
