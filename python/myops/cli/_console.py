"""What all commands share: consoles, JSON, progress, which errors are the user's."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable, Iterator
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

# Errors that a user can do something about; anything else is a fault of ours, with a traceback.
EXPECTED = (ValueError, OSError, ImportError, RuntimeError)

out = Console()
errors = Console(stderr=True)  # also progress: what goes to stdout can be piped on


def print_json(data: Any) -> None:
    """Writes data to stdout as JSON; numbers that JSON does not know become strings."""
    json.dump(_plain(data), sys.stdout, indent=2, allow_nan=False)
    sys.stdout.write("\n")


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
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
    )  # fmt: skip
    with Progress(*columns, console=errors, transient=True, disable=not errors.is_terminal) as bar:
        task = bar.add_task(what, total=total)

        def advance(text: str = "", steps: int = 1, total: int | None = None) -> None:
            shown = f"{what}: {text}" if text else what
            bar.update(task, advance=steps, description=shown, total=total)

        yield advance
