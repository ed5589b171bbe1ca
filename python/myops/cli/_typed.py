"""The command line as typed, for files that the command writes."""

from __future__ import annotations

import shlex
from typing import Any

import typer


def command(context: typer.Context) -> str:
    """The command that is running, so that a shell does the same again in this folder.

    Arguments come first, then the options that were given, by their long names.

    Example: "myops matrix 'my models.py:cases' --opsets 9-12 -o page.html"
    """
    arguments: list[str] = []
    options: list[str] = []
    for parameter in context.command.params:
        name = parameter.name or ""
        source: Any = context.get_parameter_source(name)
        if source is None or source.name != "COMMANDLINE":
            continue
        value = context.params.get(name)
        values = [str(item) for item in (value if isinstance(value, (list, tuple)) else [value])]
        if parameter.param_type_name == "argument":
            arguments += values
        elif isinstance(value, bool):
            options.append(parameter.opts[0] if value else parameter.secondary_opts[0])
        else:
            for item in values:  # "--dim=-1" where "--dim -1" would be two options
                dash = item.startswith("-")
                options += [f"{parameter.opts[0]}={item}"] if dash else [parameter.opts[0], item]
    if any(item.startswith("-") and item != "-" for item in arguments):
        words = [*options, "--", *arguments]
    else:
        words = [*arguments, *options]
    return " ".join(["myops", str(context.info_name), *map(_quoted, words)])


def _quoted(word: str) -> str:
    """For a shell; what is no visible character as bash and others write it: $'a\\nb'."""
    if word.isprintable():
        return shlex.quote(word)
    shown = "".join(
        sign if sign.isprintable() and sign not in "\\'" else _escaped(sign) for sign in word
    )
    return f"$'{shown}'"


def _escaped(sign: str) -> str:
    if sign in "\\'":
        return f"\\{sign}"
    return "".join(f"\\x{byte:02x}" for byte in sign.encode("utf-8", "surrogateescape"))
