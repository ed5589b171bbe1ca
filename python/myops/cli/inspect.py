"""`myops inspect`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from myops.cli import _console, _graphs

if TYPE_CHECKING:
    from myops.onnx.surgery.summary import Summary, Value


def inspect(
    model: _graphs.Model,
    nodes: Annotated[bool, typer.Option("--nodes", help="Also list every node.")] = False,
    modules: Annotated[
        bool,
        typer.Option("--modules", help="Also list the PyTorch modules that --module takes."),
    ] = False,
    json: _graphs.Json = False,
) -> None:
    """Show what an ONNX model holds: inputs, outputs, operators, who runs them, weights.

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
    _show(summary)
    if nodes:
        _show_nodes(summary)
    if modules:
        _show_modules(summary)


def _show(summary: Summary) -> None:
    say = _console.say
    opsets = ", ".join(f"{name} {version}" for name, version in summary.opsets.items())
    say(f"{summary.path}: graph {summary.graph!r}, IR version {summary.ir_version}")
    say(f"made by    {summary.producer or 'unknown'}")
    say(f"opsets     {opsets or 'none'}")
    for title, values in (("inputs", summary.inputs), ("outputs", summary.outputs)):
        for number, value in enumerate(values):
            say(f"{title if not number else '':<10} {_value(value)}")
        if not values:
            say(f"{title:<10} none")
    weights = f"{summary.initializers + summary.constants}, "
    weights += _graphs.size(summary.initializer_bytes + summary.constant_bytes)
    if summary.constants:
        weights += f"; {summary.constants} of them in Constant nodes"
        weights += f", {_graphs.size(summary.constant_bytes)}" if summary.initializers else ""
    if summary.external_files:
        weights += f", in {', '.join(summary.external_files[:4])}"
        weights += ", ..." if len(summary.external_files) > 4 else ""
    say(f"weights    {weights}")
    inside = f", {summary.in_bodies} of them in bodies of If, Loop, Scan"
    say(f"nodes      {summary.node_count}{inside if summary.in_bodies else ''}")
    for name, count in summary.op_counts.items():
        say(f"{count:>10} {name}")
    for domain in summary.domains:
        version = "NOT IMPORTED" if domain.version is None else f"version {domain.version}"
        say(f"domain     {domain.name}, {version}: {domain.provider}")
    for name, count in summary.functions.items():
        say(f"function   {name}, {count} nodes")
    for key, text in summary.metadata.items():
        shown = text if len(text) <= 200 else f"{text[:200]}... ({len(text)} characters)"
        say(f"metadata   {key}: {shown}")


def _show_nodes(summary: Summary) -> None:
    for node in summary.nodes:
        kind = f"{node.domain}::{node.op_type}" if node.domain else node.op_type
        where = f"  in a body of {node.where}" if node.where else ""
        inputs, outputs = ", ".join(node.inputs), ", ".join(node.outputs)
        _console.say(f"{node.name or '(no name)'}  {kind}({inputs}) -> {outputs}{where}")
        for name, value in node.attributes.items():
            _console.say(f"    {name} = {value}")


def _show_modules(summary: Summary) -> None:
    for item in summary.modules:
        call = f" (call {item.call})" if item.call else ""
        inputs, outputs = ", ".join(item.inputs), ", ".join(item.outputs)
        _console.say(f"module     {item.path}{call}  {item.nodes} nodes  ({inputs}) -> {outputs}")
    if not summary.modules:
        _console.say("module     none: the nodes say nothing of PyTorch modules")


def _value(value: Value) -> str:
    if value.shape is None:
        return f"{value.name}  {value.dtype}"
    dims = ", ".join("?" if dim is None else str(dim) for dim in value.shape)
    return f"{value.name}  {value.dtype} [{dims}]"
