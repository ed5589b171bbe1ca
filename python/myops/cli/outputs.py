"""`myops outputs`."""

from __future__ import annotations

from typing import Annotated

import typer

from myops._text import number_of
from myops.cli import _console, _graphs


def outputs(
    model: _graphs.Model,
    output: _graphs.Output,
    names: Annotated[
        list[str] | None, typer.Argument(help="Values to show.", metavar="[NAME]...")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Every value that a node makes.")] = (
        False
    ),
    module: _graphs.Module = None,
    call: _graphs.Call = None,
    json: _graphs.Json = False,
) -> None:
    """Add values inside a model to its outputs, so that a run returns them.

    Example: myops outputs model.onnx verbose.onnx relu1 relu2

    Example: myops outputs model.onnx verbose.onnx --module backbone.layer1
    """
    from myops.onnx.graph import files
    from myops.onnx.surgery.outputs import add_outputs

    writing = _graphs.Writing(model, output, json)
    if module == "":
        _graphs.refuse_no_module(module, files.load(writing.source, weights=False))
    with _console.progress("adding outputs"), _graphs.warned() as warnings:
        changed = add_outputs(
            writing.source,
            names or [],
            writing.file,
            module=module,
            call=call,
            everything=everything,
        )
    given = [item.name for item in changed.graph.output]
    untyped = [i.name for i in changed.graph.output if not i.type.WhichOneof("value")]
    if json:
        data = {"output": str(output), "outputs": given, "untyped": untyped, "warnings": warnings}
        _console.print_json(data)
        return
    writing.say(f"{writing.name}: {number_of(len(given), 'output')}")
    for name in given:
        writing.say(f"  {name}{'  (type unknown)' if name in untyped else ''}")
