"""The reference of the command line, from the parsers of its commands."""

from __future__ import annotations

import functools
from typing import Any

import typer

from myops import cli

PAGE = "reference.md"


@functools.cache
def commands() -> dict[str, Any]:
    """The parsers by the commands' names."""
    return dict(typer.main.get_command(cli.app()).commands)  # type: ignore[attr-defined]


def anchor(command: str) -> str:
    return f"myops-{command}"


def identifier(command: str) -> str:
    """The name of a command in cross-references; its anchor may also exist on another page."""
    return f"command {command}"


def text() -> str:
    """The text of the page."""
    parts = [
        "# The commands",
        "What `myops COMMAND --help` prints. "
        "[The command line](command_line.md) has what holds for all commands.",
    ]
    for name, parser in sorted(commands().items()):
        context = typer.Context(parser, info_name=f"myops {name}")
        parts.append(f"## myops {name} {{: #{anchor(name)} }}")
        parts.append(f"```\n{' '.join(_usage(parser, context))}\n```")
        parts.append(_paragraphs(parser.help or ""))
        for title in ("argument", "option"):
            rows = [item for item in parser.get_params(context) if item.param_type_name == title]
            if rows:
                cells = [_row(item, context) for item in rows]
                parts.append("\n".join([f"| {title} | |", "|---|---|", *cells]))
        parts.append(_plain(parser.epilog or ""))
    return "\n\n".join(parts) + "\n"


def _usage(parser: Any, context: Any) -> list[str]:
    return [context.info_name, *parser.collect_usage_pieces(context)]


def _row(item: Any, context: Any) -> str:
    form, words = item.get_help_record(context)
    return f"| `{_cell(form)}` | {_cell(_plain(words))} |"


def _plain(markup: str) -> str:
    """The commands escape what Rich would take for its markup."""
    return markup.replace("\\[", "[")


def _cell(words: str) -> str:
    return " ".join(words.split()).replace("|", "\\|")


def _paragraphs(help_text: str) -> str:
    """A help text as Markdown; examples as code."""
    found = []
    for paragraph in _plain(help_text).split("\n\n"):
        if paragraph.startswith("Example: "):
            found.append(f"```\n{paragraph.removeprefix('Example: ')}\n```")
        else:
            found.append(paragraph)
    return "\n\n".join(found)
