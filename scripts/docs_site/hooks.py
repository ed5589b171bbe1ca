"""Hooks of mkdocs.yml: pages that are not files of docs/, and the links to and from them.

Added are the README as the front page, other pages and sources of the repository that a page links
to, the API pages and the reference of the command line.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.pages import Page

sys.path.insert(0, str(Path(__file__).parents[1]))

from docs_site import api, code_words, command_line, repository
from docs_site.links import Links

_links = Links()


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    config.markdown_extensions.append(_links)  # type: ignore[arg-type]
    config.nav = [*(config.nav or []), *_more_pages(config.nav)]
    config.nav.append({"Reference": [command_line.PAGE, *api.navigation()]})
    return config


def _more_pages(menu: Any) -> list[Any]:
    """The part of the menu for pages that mkdocs.yml does not name; a section for each folder."""
    named = set(_leaves(menu))
    sections: dict[str, list[str]] = {}
    for page in sorted(repository.places().values()):
        if page not in named:
            sections.setdefault(page.rpartition("/")[0], []).append(page)
    return [{folder or "More": pages} for folder, pages in sections.items()]


def _leaves(menu: Any) -> Iterator[str]:
    if isinstance(menu, str):
        yield menu
    else:
        for item in menu.values() if isinstance(menu, dict) else menu or ():
            yield from _leaves(item)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for page, text in {**api.pages(), command_line.PAGE: command_line.text()}.items():
        files.append(File.generated(config, page, content=text))
    for page, text in repository.pages().items():
        files.append(File.generated(config, page, content=text))
    for page, text in repository.sources().items():
        source = File.generated(config, page, content=text)
        source.inclusion = InclusionLevel.NOT_IN_NAV
        files.append(source)
    style = (Path(__file__).parent / "site.css").read_text()
    files.append(File.generated(config, "site.css", content=style))
    return files


def on_page_content(html: str, page: Page, config: MkDocsConfig, **_: Any) -> str:
    if page.file.src_uri == command_line.PAGE:
        for name in command_line.commands():
            config.plugins["autorefs"].register_anchor(  # type: ignore[attr-defined]
                page, command_line.identifier(name), command_line.anchor(name)
            )
    return code_words.marked(html)


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    _links.page = page.file.src_uri
    # After the language of a block stand notes for the tests that run it, such as a file's name.
    return re.sub(r"^(```\w+) .+$", r"\1", markdown, flags=re.MULTILINE)
