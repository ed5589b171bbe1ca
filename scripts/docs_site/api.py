"""The API pages: one for each public name, from its docstring, and one for each module."""

from __future__ import annotations

import functools
import inspect
from types import ModuleType
from typing import Any

import myops

FOLDER = "api"


@functools.cache
def modules() -> dict[str, ModuleType]:
    """`myops` and the public modules in it, by their names."""
    inner = {name: getattr(myops, name) for name in _public(myops)}
    found = {f"myops.{name}": value for name, value in inner.items() if inspect.ismodule(value)}
    return {"myops": myops, **found}


@functools.cache
def names() -> dict[str, Any]:
    """All public names, modules too: what `dir()` shows of `myops` and of its public modules."""
    found: dict[str, Any] = dict(modules())
    for name, module in modules().items():
        found.update({f"{name}.{inner}": getattr(module, inner) for inner in _public(module)})
    return found


def _public(module: ModuleType) -> list[str]:
    return [name for name in dir(module) if not name.startswith("__")]


def page(name: str) -> str:
    """The place of a name's page in the site: a folder for each module."""
    if name in modules():
        return f"{FOLDER}/{name}/index.md"
    module, _, inner = name.rpartition(".")
    return f"{FOLDER}/{module}/{inner}.md"


def pages() -> dict[str, str]:
    """The Markdown of every page; mkdocstrings puts the docstrings into it."""
    return {page(name): _text(name, value) for name, value in names().items()}


def _text(name: str, value: Any) -> str:
    if name not in modules():
        described = inspect.isclass(value) or inspect.isroutine(value)
        module, _, inner = name.rpartition(".")
        today = getattr(value, "__name__", inner) if described else inner
        if today != inner and names().get(f"{module}.{today}") is value:
            heading = f"# {inner} {{: #{name} }}"
            return f"{heading}\n\nAn earlier name of [`{today}`]({today}.md). {_summary(value)}\n"
        # The search finds a name before longer names that begin with it.
        longer = any(other.startswith(f"{name}_") for other in names())
        boost = "---\nsearch:\n  boost: 4\n---\n\n" if longer else ""
        # A module within a public one is shown with all that is in it.
        return f"{boost}::: {name}\n"
    rows = [
        f"| [`{inner}`]({inner}.md) | {_summary(getattr(value, inner))} |"
        for inner in _public(value)
        if f"{name}.{inner}" not in modules()
    ]
    table = ["| name | |", "|---|---|", *rows]
    return "\n".join([f"::: {name}", "    options:", "      members: false", "", *table, ""])


def _summary(value: Any) -> str:
    described = inspect.ismodule(value) or inspect.isclass(value) or inspect.isroutine(value)
    text = inspect.getdoc(value) if described else ""
    return " ".join((text or "").split("\n\n")[0].split()).replace("|", "\\|")


def navigation() -> list[Any]:
    """The API's part of the navigation."""
    return [
        {name: [page(name), *({inner: page(f"{name}.{inner}")} for inner in _public(module)
                              if f"{name}.{inner}" not in modules())]}
        for name, module in modules().items()
    ]  # fmt: skip
