"""Parts that all commands share: consoles, JSON, progress, messages."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from myops import _terminal
from myops._terminal import Console as TerminalConsole
from myops._text import printable, printable_lines


class CommandConsole(TerminalConsole):
    """The console of a command, whose reader may go: the command ends then, as others in a pipe."""

    def on_broken_pipe(self) -> None:
        raise SystemExit(reader_has_gone())


out = CommandConsole()
errors = CommandConsole(stderr=True)  # for progress too, so that stdout can be piped on
_json_stream: Any = None  # stdout, while everything else that is printed goes to stderr
_said: dict[str, Any] = {"json": False, "error": ""}  # of this run


def message(kind: str, text: str, style: str) -> None:
    """A message on stderr: "kind: text", in as many lines as the text has."""
    from rich.text import Text

    if kind == "error":
        _said["error"] = text
    lines = printable_lines(text).split("\n")
    errors.print(Text.assemble((f"{kind}:", style), " ", "\n  ".join(lines)), soft_wrap=True)


def say(text: str) -> None:
    """Prints a line of text unchanged, without automatic colours."""
    _terminal.say(out, text)


@contextlib.contextmanager
def only_json() -> Iterator[None]:
    """Sends everything but `print_json` to stderr: models and tools of others print, too."""
    global _json_stream
    before, _json_stream = _json_stream, sys.stdout
    _said.update(json=False, error="")
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        _json_stream = before


def print_json(data: Any) -> None:
    """Writes data to stdout as JSON; numbers that JSON does not know become strings."""
    stream = _json_stream or sys.stdout
    _said["json"] = True
    json.dump(_plain(data), stream, indent=2, allow_nan=False)
    stream.write("\n")


def json_was_printed() -> bool:
    """Whether the command printed its result, in this `only_json`."""
    return bool(_said["json"])


def last_error() -> str:
    """The text of the newest error message."""
    return str(_said["error"])


def usage(error: Any, extra: str = "") -> int:
    """Prints what is wrong with the command line; returns the exit status.

    Args:
        error: What typer raised.
        extra: What to do about an argument that the command does not take.
    """
    context = getattr(error, "ctx", None)
    if not error.format_message() or type(error).__name__ == "NoArgsIsHelpError":
        error.show()  # the command without arguments prints its help
        return 2
    text = error.format_message()
    if extra and "unexpected extra argument" in text:
        text = f"{text.rstrip('.')}: {extra}"
    message("error", text, "bold red")
    if context is not None:
        errors.print(context.get_usage(), markup=False, soft_wrap=True)
        errors.print(f"Help: {context.command_path} --help", markup=False, soft_wrap=True)
    return 2


def reader_has_gone() -> int:
    """Discards the remaining output; returns the exit status, that of other programs in a pipe."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 141


def _plain(item: Any) -> Any:
    if isinstance(item, dict):
        return {str(key): _plain(value) for key, value in item.items()}
    if isinstance(item, (list, tuple)):
        return [_plain(value) for value in item]
    if isinstance(item, float) and (item != item or item in (float("inf"), float("-inf"))):
        return str(item)
    if item is None or isinstance(item, (str, int, float, bool)):
        return item
    return _plain(item.item()) if hasattr(item, "item") else str(item)


@contextlib.contextmanager
def progress(what: str, total: int | None = None) -> Iterator[Callable[..., None]]:
    """A bar on stderr while something runs, gone afterwards; nothing when stderr is no terminal.

    Yields:
        advance(text="", steps=1, total=None): moves the bar and says what comes now.
    """
    columns = (
        TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(),
        TimeElapsedColumn(),
    )  # fmt: skip
    with Progress(*columns, console=errors, transient=True, disable=not errors.is_terminal) as bar:
        task = bar.add_task(what, total=total)

        def advance(text: str = "", steps: int = 1, total: int | None = None) -> None:
            shown = f"{what}: {printable(text)}" if text else what
            bar.update(task, advance=steps, description=shown, total=total)

        yield advance
