"""The two names of the standard operators' domain: "" and "ai.onnx", which mean the same.

Exporters write the first. ONNX Runtime knows both; onnx's shape inference, inliner and version
converter know only the first, so a model that is read gets that one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import onnx

from myops.onnx.graph.structure import graphs_of, subgraphs

_ALIAS = "ai.onnx"


def usual(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model itself, or, where it says "ai.onnx", a copy that says "" instead."""
    if next(_aliased(model), None) is None:
        return model
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    make_usual(copy)
    return copy


def make_usual(model: onnx.ModelProto) -> None:
    """Writes "" instead of "ai.onnx", in the model itself."""
    for item in [*_aliased(model)]:
        item.domain = ""
        if isinstance(item, onnx.NodeProto):
            item.ClearField("domain")  # as helpers and exporters leave it
    for holder in (model, *model.functions):
        imports = holder.opset_import
        # Of several versions of one domain, ONNX Runtime takes the last.
        last = {item.domain: number for number, item in enumerate(imports)}
        for number in reversed(range(len(imports))):
            if not imports[number].domain and last[""] != number:
                del imports[number]


def _aliased(model: onnx.ModelProto) -> Iterator[Any]:
    """Everything with the domain "ai.onnx": imports, functions, nodes."""
    for holder in (model, *model.functions):
        yield from (item for item in holder.opset_import if item.domain == _ALIAS)
    yield from (item for item in model.functions if item.domain == _ALIAS)
    for nodes in (model.graph.node, *(item.node for item in model.functions)):
        yield from (node for node in _all(nodes) if node.domain == _ALIAS)


def _all(nodes: Iterable[Any]) -> Iterator[Any]:
    for node in nodes:
        yield node
        for inner in subgraphs(node):
            for graph in graphs_of(inner):
                yield from graph.node
