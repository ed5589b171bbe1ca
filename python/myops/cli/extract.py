"""`myops extract`."""

from __future__ import annotations

from typing import Annotated

import typer

from myops._text import number_of
from myops.cli import _console, _graphs


def extract(
    model: _graphs.Model,
    output: _graphs.Output,
    inputs: Annotated[
        str, typer.Option(help="Values that become inputs. Default: the model's.", metavar="A,B")
    ] = "",
    outputs: Annotated[
        str, typer.Option(help="Values that become outputs. Default: the model's.", metavar="C")
    ] = "",
    module: _graphs.Module = None,
    call: _graphs.Call = None,
    json: _graphs.Json = False,
) -> None:
    """Cut a part out of a model, as a model of its own.

    The part is named by its values (myops inspect --nodes shows them), or by the PyTorch module
    that it came from.

    Example: myops extract model.onnx part.onnx --inputs conv1 --outputs relu2

    Example: myops extract model.onnx part.onnx --module backbone.layer1
    """
    from myops.onnx.graph import files
    from myops.onnx.surgery.extraction import extract as extract_

    writing = _graphs.Writing(model, output, json)
    light = files.load(writing.source, weights=False)
    _graphs.refuse_no_module(module, light)
    known = _graphs.known_names(light)
    with _console.progress("extracting"), _graphs.warned() as warnings:
        part = extract_(
            writing.source,
            _graphs.names(inputs, known),
            _graphs.names(outputs, known),
            writing.file,
            module=module,
            call=call,
        )
    weights = {tensor.name for tensor in part.graph.initializer}
    taken = [item.name for item in part.graph.input if item.name not in weights]
    given = [item.name for item in part.graph.output]
    if json:
        _console.print_json({
            "output": str(output), "inputs": taken, "outputs": given,
            "nodes": len(part.graph.node), "warnings": warnings,
        })  # fmt: skip
        return
    writing.say(f"{writing.name}: {number_of(len(part.graph.node), 'node')}")
    writing.say(f"inputs   {', '.join(taken) or 'none'}")
    writing.say(f"outputs  {', '.join(given)}")
