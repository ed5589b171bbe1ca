"""Parts that the commands on graphs share: arguments, files, warnings, names with any character."""

from __future__ import annotations

import contextlib
import os
import sys
import warnings
from collections.abc import Collection, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any

import typer

from myops import _terminal
from myops.cli import _console

Model = Annotated[
    Path, typer.Argument(help="The ONNX model; - reads it from stdin.", metavar="MODEL.onnx")
]
Output = Annotated[
    Path, typer.Argument(help="The file to write; - writes it to stdout.", metavar="OUT.onnx")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
Module = Annotated[
    str | None,
    typer.Option(
        help="Path of a PyTorch module, as in model.named_modules(). Without one, those of the "
        "model are listed.",
        metavar="PATH",
    ),
]
Call = Annotated[
    int | None, typer.Option(help="Which call of the module, if there are several; from 0.")
]


STREAM = Path("-")


def source(model: Path) -> Path | bytes:
    """What the library reads: the path, or the bytes from stdin for "-"."""
    if model != STREAM:
        return model
    if sys.stdin is None:  # closed, as by <&-
        raise ValueError("MODEL: got -, expected a model piped into stdin, which is closed")
    if sys.stdin.isatty():
        raise ValueError("MODEL: got -, expected a model piped into stdin")
    from myops.onnx.graph.files import Stdin

    return Stdin(sys.stdin.buffer.read())


def sources(first: Path, second: Path) -> tuple[Path | bytes, Path | bytes]:
    """What the library reads of two models, of which one may be "-"."""
    if first == second == STREAM:
        raise ValueError("got - for both models, expected it once: stdin holds one model")
    return source(first), source(second)


class Destination:
    """Where a command writes a model, and where it says what it did.

    The model goes to stdout for "-"; what the command says goes to stderr then.

    Args:
        output: What the user typed.
        what: What messages call it.
        read: A file that must not be overwritten.
        json: Whether the command prints JSON.

    Raises:
        ValueError: It is the file that is read, or stdout is to hold the model and JSON.
        FileNotFoundError: Its folder does not exist.
    """

    def __init__(self, output: Path, what: str, read: Path, json: bool) -> None:
        to_stdout = output == STREAM
        if to_stdout and json:
            raise ValueError(
                f"--json: got {what} - as well, expected one of them: both are for stdout"
            )
        if to_stdout and sys.stdout is None:
            raise ValueError(f"{what}: got -, expected a file: stdout is closed")
        if not to_stdout:
            refuse_same(output, read, what)
            refuse_unwritable(output, what)
        self.file: Any = sys.stdout.buffer if to_stdout else output
        self.name = "stdout" if to_stdout else str(output)
        # Messages go to stderr if the model goes to stdout.
        self.console = _console.errors if to_stdout else _console.out

    def say(self, text: str) -> None:
        """A line about the result."""
        _terminal.say(self.console, text)

    def undisturbed(self) -> contextlib.AbstractContextManager[Any]:
        """In this context, what code of others prints goes to stderr if the model goes to
        stdout."""
        return contextlib.redirect_stdout(sys.stderr) if self.name == "stdout" else nullcontext()


class Writing(Destination):
    """A command that reads a model and writes another: where from, where to, and what it says."""

    def __init__(self, model: Path, output: Path, json: bool) -> None:
        super().__init__(output, "OUT", model, json)
        self.source = source(model)


def refuse_no_module(module: str | None, model: Any) -> None:
    """Lists the modules of a model when --module came without a path.

    Raises:
        ValueError: It did.
    """
    from myops.onnx import module_paths

    if module == "":
        known = module_paths.names(model)
        none = f"The model has none: {module_paths.NO_MODULES}."
        found = module_paths.listing(known) if known else none
        raise ValueError(f"--module: got no path, expected that of a PyTorch module. {found}")


def refuse_same(output: Path, model: Path, what: str) -> None:
    """Raises ValueError when a file to write is the one that is read, or has its weights."""
    with contextlib.suppress(OSError):  # one of them does not exist
        if os.path.samefile(output, model):
            raise ValueError(
                f"{what}: got {output}, which is the model that is read; expected another file, so "
                "that nothing is lost"
            )
    if output.is_file():
        from myops.onnx.graph import storage

        try:
            storage.refuse_weights_of(model, output)
        except ValueError as error:
            raise ValueError(f"{what}: {error}") from None


def refuse_unwritable(output: Path, what: str) -> None:
    """Refuses a file that cannot be written, before the work rather than after it.

    Raises:
        OSError: It is a folder, its folder does not exist, or nothing can be written there.
    """
    from myops.onnx.graph import writing

    writing.refuse_unwritable(output, what)


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
            _console.message("warning", text, "bold yellow")


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
