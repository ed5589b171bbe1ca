"""The command line `myops COMMAND`. A file a command, each thin over a function of the library.

A module of this folder without a leading underscore is a command: its function of the same name
(a trailing underscore aside) holds the parameters. Modules import what is heavy inside that
function, so that `myops --help` answers at once.

Exit status: 0 all is well, 1 what the command looked for is wrong, 2 it could not be done.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
import sys
from inspect import signature

import typer
from rich.markup import escape

import myops
from myops.cli import _console


def app() -> typer.Typer:
    """The application with all commands."""
    found = typer.Typer(
        help="Tools around ONNX models of PyTorch, with custom operators: look into a model, "
        "change it, compare it with PyTorch, find out why it does not load.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    found.callback()(_common)
    for item in pkgutil.iter_modules(__path__):
        if not item.name.startswith("_"):
            module = importlib.import_module(f"myops.cli.{item.name}")
            name = item.name.rstrip("_")
            command = getattr(module, item.name)
            parameters = signature(command).parameters.values()
            needs_some = any(item.default is item.empty for item in parameters)
            found.command(name.replace("_", "-"), no_args_is_help=needs_some)(command)
    return found


def _version(wanted: bool) -> None:
    if wanted:
        print(f"myops {myops.__version__}")
        raise typer.Exit


def _common(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Print the version and stop."
    ),
) -> None:
    """What comes before the command."""


def main() -> None:
    """Runs the command of `sys.argv`; what went wrong becomes a sentence and exit status 2.

    MYOPS_DEBUG=1 shows the traceback instead.
    """
    try:
        app()()
    except _console.EXPECTED as error:
        if os.environ.get("MYOPS_DEBUG"):
            raise
        _console.errors.print(f"[bold red]error:[/] {escape(str(error) or type(error).__name__)}")
        sys.exit(2)
