"""Check "lost_node": every custom operator that the model calls is in the graph.

A custom operator is one of the dispatcher outside torch's own namespaces, or a
torch.autograd.Function with a `symbolic`. The exporter based on torch.export never reads
`symbolic`, and decomposes operators that are composed of others: it writes their parts, without a
warning.
"""

from __future__ import annotations

import io
import warnings
from typing import Any

import onnx
import torch
from torch.utils import _pytree as pytree

from myops import _libraries
from myops.onnx.graph import scopes
from myops.onnx.guards._calls import CallRecorder
from myops.onnx.guards._errors import ExportCheckError
from myops.onnx.guards._exported import Exported

NAME = "lost_node"
_STANDARD = ("", "ai.onnx", "ai.onnx.ml")


def check(exported: Exported) -> None:
    calls = exported.calls
    nodes = _nodes(exported.written)
    kept = _kept(exported, calls, nodes)
    for name in sorted(calls.operators - calls.unread):
        parts = calls.made_of.get(name, set())
        replaced = bool(parts) and parts <= kept & calls.operators  # it only calls kept ones
        within = all(outer & kept for outer in calls.callers[name])  # only kept ones call it
        if name not in kept and not replaced and not within:
            raise ExportCheckError(NAME, _lost_operator(exported, name))
    for function, (arguments, inside) in calls.functions.items():
        if inside and inside <= kept:
            continue  # what it calls is in the graph
        missing = sorted(_written_by(function, arguments, exported) - nodes)
        if missing:
            raise ExportCheckError(NAME, _lost_function(exported, function, missing))


def _nodes(model: onnx.ModelProto) -> set[tuple[str, str]]:
    lists = [model.graph.node, *(function.node for function in model.functions)]
    return {(n.domain, n.op_type) for nodes in lists for n in scopes.all_nodes(nodes)}


def _kept(exported: Exported, calls: CallRecorder, nodes: set[tuple[str, str]]) -> set[str]:
    """The custom operators that the exporter has translated as such."""
    ours = {info.qualified: info for info in _libraries.nodes()}
    if exported.program is not None:
        kept = _targets(exported.program.graph_module)
    else:
        from torch.onnx._internal.torchscript_exporter import registration

        known = registration.registry.all_functions()
        symbolic = [inside for _, inside in calls.functions.values()]
        kept = {name for name in calls.operators if name in known} | set().union(*symbolic)
    for name, info in ours.items():
        if (info.domain, info.onnx_type) not in nodes:
            kept.discard(name)
    # A program without writes has the form without writes of an op that writes into its inputs.
    forms = {
        f"{i.namespace}::{i.in_place}" for i in ours.values() if i.in_place and i.qualified in kept
    }
    return kept | forms


def _targets(module: Any) -> set[str]:
    graphs = [m.graph for m in module.modules() if isinstance(m, torch.fx.GraphModule)]
    targets = [node.target for graph in graphs for node in graph.nodes]
    return {t.name().partition(".")[0] for t in targets if isinstance(t, torch._ops.OpOverload)}


def _written_by(function: Any, arguments: Any, exported: Exported) -> set[tuple[str, str]]:
    """The nodes of custom domains that a `symbolic` writes, found by exporting one call."""
    leaves, spec = pytree.tree_flatten(tuple(arguments))
    places = [place for place, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]

    class Call(torch.nn.Module):
        def forward(self, *tensors: torch.Tensor) -> Any:
            filled = list(leaves)
            for place, tensor in zip(places, tensors, strict=True):
                filled[place] = tensor
            return function.apply(*pytree.tree_unflatten(filled, spec))

    example = tuple(leaves[place].detach() for place in places)
    stream: Any = io.BytesIO()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.onnx.export(
                Call(), example, stream, dynamo=False, opset_version=min(exported.opset, 20)
            )
    except Exception as error:
        exported.warn(
            f"{NAME}: {function.__name__}.symbolic could not be run alone, so whether its nodes "
            f"are in the graph was not checked: {str(error).strip().splitlines()[0]}"
        )
        return set()
    found = _nodes(onnx.load_from_string(stream.getvalue()))
    return {item for item in found if item[0] not in _STANDARD}


def _lost_operator(exported: Exported, name: str) -> str:
    return (
        f"the model calls the operator {name}, but the exporter decomposed it, computed it while "
        f'exporting or dropped it (exporter="{exported.exporter}"). Register how it is written: '
        f'myops.onnx.register_symbolic("{name}", lambda g, ...: g.op("domain::Type", ...)); and '
        "give it an implementation of its own, not one composed of other operators or of Python "
        "numbers."
    )


def _lost_function(exported: Exported, function: Any, missing: list[tuple[str, str]]) -> str:
    titles = ", ".join(f"{domain}::{op_type}" for domain, op_type in missing)
    reason = (
        'The exporter "dynamo" does not read `symbolic` and wrote what forward is made of. Make '
        "forward call an operator of the dispatcher (torch.library.custom_op) and register how it "
        "is written, myops.onnx.register_symbolic, which both exporters read; or use "
        'exporter="torchscript".'
        if exported.exporter == "dynamo"
        else "Its result was probably computed while exporting, or is not used."
    )
    return f"{function.__name__}.symbolic writes {titles}, but the graph has no such node. {reason}"
