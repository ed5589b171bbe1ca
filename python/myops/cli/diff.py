"""`myops diff`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from myops.cli import _console, _graphs

VERDICT = "they differ"


def diff(
    first: Annotated[
        Path, typer.Argument(help="The model before; - reads it from stdin.", metavar="A.onnx")
    ],
    second: Annotated[
        Path, typer.Argument(help="The model after; - reads it from stdin.", metavar="B.onnx")
    ],
    all: Annotated[
        bool, typer.Option("--all", help="Show every change, and everything that was renamed.")
    ] = False,
    json: _graphs.Json = False,
) -> None:
    """Show the differences between two ONNX models.

    Nodes, attributes, connections, constants with their numbers, inputs and
    outputs, operator sets, metadata and functions, also inside If, Loop and Scan.

    Nodes are paired by what they compute: another name or another order alone is
    not a difference.

    Example: myops diff before.onnx after.onnx
    """
    from myops.onnx.two_files.diffing import diff as diff_

    with _console.progress("comparing"):
        found = diff_(*_graphs.sources(first, second))
    found.first, found.second = (
        "stdin" if path == _graphs.STREAM else str(path) for path in (first, second)
    )
    if json:
        _console.print_json(found.to_dict())
    else:
        found.print(_console.out, all_changes=all)
    if not found.equal:
        raise typer.Exit(1)
