"""A warning of inputs on which no output of the file depends.

One exporter leaves them out of the file, and the other keeps them: a caller who gives inputs by
position, or all of them by name, has to know.
"""

from __future__ import annotations

from collections.abc import Sequence

from myops.onnx.graph import scopes
from myops.onnx.guards._exported import Exported


def leads_to_output(exported: Exported, name: str) -> bool:
    graph = exported.final.graph
    reached = {name}
    for node in graph.node:
        inner = scopes.all_nodes([node])
        if any(reached.intersection(item.input) for item in inner):
            reached.update(node.output)
    return any(item.name in reached for item in graph.output)


def warn(exported: Exported, checks: Sequence[str]) -> None:
    """Warns of them, except of those that the check "frozen_input" has named."""
    present = exported.graph_inputs
    names = [slot.name for slot in exported.inputs.slots if slot.name not in exported.doubtful]
    lost = [name for name in names if name not in present]
    kept = [name for name in names if name in present and not leads_to_output(exported, name)]
    unseen = "" if "frozen_input" in checks else " (it was not checked whether one should)"
    if lost:
        rest = _quoted(list(present)) if present else "none"
        keeps = ' exporter="dynamo" keeps them.' if exported.exporter == "torchscript" else ""
        exported.warn(
            f"the file has no input {_quoted(lost)}: no output depends on it{unseen}, and the "
            f"exporter leaves such inputs out. The inputs of the file: {rest}.{keeps}"
        )
    if kept:
        exported.warn(
            f"no output depends on the input {_quoted(kept)}{unseen}. The file has it all the "
            "same, and whoever runs the file has to give a value."
        )


def _quoted(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names))
