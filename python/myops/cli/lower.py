"""`myops lower`."""

from __future__ import annotations

from collections import Counter
from typing import Annotated

import typer

from myops._text import number_of
from myops.cli import _console, _graphs


def lower(
    model: _graphs.Model,
    output: _graphs.Output,
    opset: Annotated[
        int | None, typer.Option(help="Opset of ai.onnx in the result. Default: the model's.")
    ] = None,
    json: _graphs.Json = False,
) -> None:
    """Write a model's myops nodes in standard operators, so that any runtime knows them.

    myops upgrade does the reverse.

    Example: myops lower model.onnx standard.onnx --opset 17
    """
    from myops.onnx.graph import scopes, storage
    from myops.onnx.lowering import lower as lower_

    writing = _graphs.Writing(model, output, json)
    loaded = storage.load(writing.source)
    with _console.progress("lowering"), _graphs.warned() as warnings:
        lowered = lower_(writing.source, opset, writing.file)
    inlined = scopes.inline_callers(loaded)
    nodes = scopes.all_nodes(inlined.graph.node)
    replaced = Counter(node.op_type for node in nodes if scopes.is_ours(node))
    count = sum(1 for _ in scopes.all_nodes(lowered.graph.node))
    if json:
        _console.print_json({"output": str(output), "replaced": replaced, "nodes": count,
                             "warnings": warnings})  # fmt: skip
        return
    what = ", ".join(f"{number} {name}" for name, number in sorted(replaced.items())) or "no node"
    writing.say(f"{writing.name}: {what} replaced, {number_of(count, 'node')}")
