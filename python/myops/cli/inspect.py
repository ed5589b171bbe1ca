"""`myops inspect`."""

from __future__ import annotations

from typing import Annotated

import typer

from myops.cli import _console, _graphs


def inspect(
    model: _graphs.Model,
    nodes: Annotated[bool, typer.Option("--nodes", help="Also list every node.")] = False,
    modules: Annotated[
        bool,
        typer.Option("--modules", help="Also list the PyTorch modules that --module takes."),
    ] = False,
    json: _graphs.Json = False,
) -> None:
    """Show what an ONNX model contains: inputs, outputs, operators, what runs them, weights.

    Example: myops inspect model.onnx --nodes

    Example: myops inspect model.onnx --modules
    """
    from myops.onnx.surgery.summary import inspect as inspect_

    with _console.progress("reading"), _graphs.warned():
        summary = inspect_(_graphs.source(model))
    if json:
        data = summary.as_dict()
        if not nodes:
            del data["nodes"]
        if not modules:
            del data["modules"]
        _console.print_json(data)
        return
    summary.print(_console.out, nodes=nodes, modules=modules)
