"""Names of digits alone, which TorchScript refuses: it numbers its own values by such."""

from __future__ import annotations

from collections.abc import Iterable

import onnx

from myops.onnx.graph import scopes
from myops.onnx.graph.renaming import rename_values


def stand_ins(names: Iterable[str]) -> dict[str, str]:
    """Other names for those of digits alone, for the exporter."""
    names = list(names)
    found: dict[str, str] = {}
    for name in names:
        if name.isascii() and name.isdigit():
            other = f"_{name}"
            while other in names or other in found.values():
                other = f"_{other}"
            found[name] = other
    return found


def put_back(model: onnx.ModelProto, others: dict[str, str]) -> None:
    """Gives inputs and outputs the names that others stand for."""
    if not others:
        return
    fresh = scopes.Names(model).fresh
    graph = model.graph
    changes = {other: name for name, other in others.items()}
    values = {name for node in scopes.all_nodes(graph.node) for name in (*node.input, *node.output)}
    for name in {*others} & values:  # a value that TorchScript has numbered so
        changes[name] = fresh(name)
    rename_values(graph, changes)
