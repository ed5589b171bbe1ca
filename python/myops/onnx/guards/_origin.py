"""Finds where a difference or a failure starts: the node of the file, and the line of the model."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import onnx
import torch

from myops.onnx.exporting.recorded import SourceLine, last_place, traced_place
from myops.onnx.guards import _advice, _op_rules, _writes
from myops.onnx.guards._difference import OutputDifference
from myops.onnx.guards._exported import Exported, runnable, unchanged

# Of a run in PyTorch, and of a comparison of the outputs; one of all layers takes several.
_SECONDS = 2.0
_TRACE, _CALL = "pkg.torch.onnx.stack_trace", "pkg.torch.onnx.fx_node"
_TARGET = re.compile(r"target=torch\.ops\.(\w+)\.(\w+)")
# A call that reads a length, or computes with lengths in Python.
_OF_LENGTHS = re.compile(
    r"target=(torch\.ops\.aten\.sym_size|_?operator\.(?!getitem)|math\.|torch\.sym_)"
)
_FLOATS = re.compile(r"target=(_?operator\.truediv|torch\.sym_float)")
# How ONNX Runtime names the node that it refuses or fails at, and how onnx.checker does.
_NAMED = re.compile(
    r"(?:Name:|with name |[Nn]ode:? ?)[('\"]([^'\")]+)[)'\"]|node name: ([^\s)]+)\)"
)


def of_failure(exported: Exported, error: Exception, known: bool = False) -> str:
    """For a model that ONNX Runtime or onnx.checker refuses: a sentence, or nothing.

    Args:
        known: Whether the cause is known, so that the operator needs no other translation.
    """
    names = {name for found in _NAMED.findall(str(error)) for name in found if name}
    nodes = [node for node in exported.final.graph.node if node.name in names]
    return _said(exported, nodes[0], "It fails at", known) if nodes else ""


def of_difference(
    exported: Exported,
    changes: Mapping[str, torch.Tensor],
    difference: OutputDifference,
    seconds: float = 0.0,
) -> str:
    """A sentence about where a difference starts, or "" if it is not found.

    Args:
        changes: The inputs that are not the example's.
        seconds: How long comparing the outputs took at these inputs.
    """
    if difference.text.startswith("dtype "):
        name = exported.final.graph.output[difference.output].name
        nodes = [item for item in exported.final.graph.node if name in item.output]
        return _said(exported, nodes[0], "The output comes from") if nodes else ""
    quick = max(exported.seconds, seconds) < _SECONDS
    writes = _writes.lost(exported, changes) if quick else ""
    if writes:
        return writes
    node = _first(exported, changes) if quick else None
    if node is not None:
        return _said(exported, node, "The difference starts at")
    inexact = (n for n in exported.final.graph.node if _FLOATS.search(_metadata(n).get(_CALL, "")))
    place = next(filter(None, (_place(exported, n) for n in inexact)), None)
    if place is None:
        return ""
    return (
        f"Python computes with lengths in float64, the file in float32, at {place}."
        f"{_advice.instead([place])}"
    )


def _first(exported: Exported, changes: Mapping[str, torch.Tensor]) -> onnx.NodeProto | None:
    """The first node whose inputs are PyTorch's and whose result is not; of several that together
    make this result, the first with a line of the model."""
    from myops.onnx.comparison.with_pytorch import ComparisonSettings, compared

    args, kwargs = exported.inputs.call(changes)
    try:
        with torch.no_grad(), unchanged(exported.model):
            settings = ComparisonSettings(exported.libraries, export_again=False)
            report = compared(runnable(exported.model), args, kwargs, exported.final, settings)
    except Exception:  # it cannot pair what it does not know; the difference is told anyway
        return None
    found = report.first_mismatch
    if found is None or not found.nodes:
        return None
    names = [label.partition(" ")[2].strip("'") for label in found.nodes]
    nodes = [n for n in exported.final.graph.node if {n.name, *n.output[:1]} & set(names)]
    return next((n for n in nodes if _place(exported, n)), nodes[0] if nodes else None)


def _said(exported: Exported, node: onnx.NodeProto, start: str, known: bool = False) -> str:
    place = _place(exported, node)
    call = _metadata(node).get(_CALL, "")
    target = _TARGET.search(call)
    operator = f"{target.group(1)}::{target.group(2)}" if target else ""
    title = f"{node.domain}::" if node.domain not in ("", "ai.onnx") else ""
    told = f"{start} the node {title}{node.op_type} {node.name or node.output[0]!r}"
    info = _op_rules.op_behind(exported, node) if not known else None
    if info is not None:
        at = f" for the call at {place}" if place is not None else ""
        return f"{told}, which {_op_rules.title(info)} wrote{at}. {_op_rules.ADVICE}"
    if (not known and _OF_LENGTHS.search(call)) or node.op_type == "Shape":
        where = f" at {place}" if place is not None else ""
        return f"{told}, which belongs to a computation with lengths{where}." + (
            _advice.instead([place]) if place is not None else ""
        )
    if place is not None:
        told += f", which stands for {operator or 'a call'} at {place}"
    elif operator:
        told += f", which stands for {operator}"
    return f"{told}." if known else f"{told}. {_advice.of_operator(operator)}"


def _metadata(node: onnx.NodeProto) -> dict[str, str]:
    return {item.key: item.value for item in node.metadata_props}


def _place(exported: Exported, node: onnx.NodeProto) -> SourceLine | None:
    return last_place(_metadata(node).get(_TRACE, "")) or _traced(exported, node)


def _traced(exported: Exported, node: Any) -> SourceLine | None:
    if exported.recorded is None:
        return None
    origins = [exported.recorded.origins.get(name, "") for name in node.output]
    return next(filter(None, map(traced_place, origins)), None)
