"""What `standard(g)` of an op has to do with a wrong file: it wrote the node, or lost an input."""

from __future__ import annotations

from collections.abc import Iterable

import onnx

from myops._description import OpInfo
from myops.onnx.graph import scopes
from myops.onnx.graph.structure import reads
from myops.onnx.guards._exported import Exported

ADVICE = (
    "Correct it there; myops.testing.check_op compares it with the op (only=['bodies']), and "
    "docs/your_own_op.md lists what g has."
)


def title(info: OpInfo) -> str:
    return f"`standard` of the op {info.qualified}"


def op_behind(exported: Exported, node: onnx.NodeProto) -> OpInfo | None:
    """The op whose `standard` wrote a node of the file; None if an exporter wrote it.

    A node that an op is written in has the name of the op's node before its own. The node of a
    prototype is run as its function body, which `standard` wrote.
    """
    bodies = {(item.domain, item.name) for item in exported.final.functions}
    own = scopes.op_of(node)
    if own is not None and own.is_prototype and (node.domain, node.op_type) in bodies:
        return own
    found: dict[str, OpInfo] = {}
    for call in scopes.all_nodes(exported.written.graph.node):
        info = scopes.op_of(call)
        name = call.name or next(iter(call.output), "")
        if info is not None and node.name.startswith(f"{name}/"):
            found[name] = info
    return found[max(found, key=len)] if found else None


def where_lost(exported: Exported, name: str) -> str:
    """The op whose `standard` leaves an input unused that depends on this input of the model, as a
    sentence; "" if there is none."""
    after = _reached(exported.final, name)
    results = {item.name for item in exported.written.graph.output}
    for node in exported.written.graph.node:
        info = scopes.op_of(node)
        places = [number for number, item in enumerate(node.input) if item in after]
        if info is None or not places:
            continue
        lost = [
            declared.name
            for declared, output in zip(info.outputs, node.output, strict=False)
            if output and output not in after and results & _reached(exported.written, output)
        ]
        if lost:
            inputs = ", ".join(repr(info.inputs[place].name) for place in places)
            return (
                f"{title(info)}, which wrote the node {node.name or node.output[0]!r} in standard "
                f"nodes, does not use the input {inputs} for {', '.join(lost)}. {ADVICE}"
            )
    return ""


def _reached(model: onnx.ModelProto, name: str) -> set[str]:
    """The values that depend on an input of the model."""
    bodies = {(item.domain, item.name): item for item in model.functions}

    def follow(nodes: Iterable[onnx.NodeProto], reached: set[str]) -> set[str]:
        for node in nodes:
            if not reached.intersection(reads(node)):
                continue
            body = bodies.get((node.domain, node.op_type))
            if body is None:
                reached.update(node.output)
                continue
            pairs = zip(body.input, node.input, strict=False)
            inside = follow(body.node, {inner for inner, outer in pairs if outer in reached})
            reached.update(
                outer for inner, outer in zip(body.output, node.output, strict=False)
                if inner in inside
            )  # fmt: skip
        return reached - {""}

    return follow(model.graph.node, {name})
