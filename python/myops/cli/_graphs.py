"""What the commands on graphs share: arguments, warnings, names with any sign."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from myops.cli import _console

Model = Annotated[Path, typer.Argument(help="The ONNX model.", metavar="MODEL.onnx")]
Output = Annotated[Path, typer.Argument(help="The file to write.", metavar="OUT.onnx")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
Module = Annotated[
    str | None,
    typer.Option(help="Path of a PyTorch module, as in model.named_modules().", metavar="PATH"),
]
Call = Annotated[
    int | None, typer.Option(help="Which call of the module, if there are several; from 0.")
]


@contextlib.contextmanager
def warned() -> Iterator[list[str]]:
    """Warnings go to stderr as sentences, each once, and into the list that this yields."""
    texts: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        yield texts
    for item in caught:
        text = str(item.message)
        if text not in texts and not issubclass(item.category, DeprecationWarning):
            texts.append(text)
            _console.errors.print(f"[bold yellow]warning:[/] {escape(text)}", highlight=False)


def say(text: str) -> None:
    """A line of text as it is, without colours by guess."""
    _console.out.print(text, markup=False, highlight=False, soft_wrap=True)


def names(text: str, known: Collection[str]) -> list[str]:
    """The names in "a,b"; a name that itself has a comma is found when the model has it."""
    parts, found = text.split(","), []
    while parts:
        for end in range(len(parts), 0, -1):
            name = ",".join(parts[:end]).strip()
            if end == 1 or name in known:
                found.append(name)
                del parts[:end]
                break
    return [name for name in found if name]


def split(text: str, sign: str, known: Collection[str], form: str) -> tuple[str, str]:
    """The two sides of a sign; of several, the one behind a name that the model has.

    Raises:
        ValueError: The sign is missing.
    """
    places = [place for place, letter in enumerate(text) if letter == sign]
    if not places:
        raise ValueError(f"got {text!r}, expected {form}")
    place = next((p for p in reversed(places) if text[:p] in known), places[0])
    return text[:place], text[place + 1 :]


def known_names(model: Any) -> set[str]:
    """Names of values and nodes of the main graph."""
    graph = model.graph
    found = {item.name for item in [*graph.input, *graph.initializer, *graph.node]}
    found.update(name for node in graph.node for name in node.output)
    return found - {""}
