"""Nodes that draw random numbers, for onnxslim: it computes those without inputs once and for all,
merges equal ones, and drops each Dropout. Meanwhile each is a custom node of its own type."""

from __future__ import annotations

import zlib
from collections.abc import Iterable

import onnx

from myops.onnx.graph import randomness, structure

_DOMAIN = "myops.random"
# An input of the model that all of them read: what depends on constants alone is computed, and one
# node that cannot be computed would keep all others.
_INPUT = "myops.random.input"

Kinds = dict[str, tuple[str, str]]


def put_in(model: onnx.ModelProto, functions: Iterable[onnx.FunctionProto]) -> Kinds:
    """Renames such nodes; the result is for `taken_out`. Their outputs should have stated types.

    functions: Those that the model had.
    """
    drawing = randomness.random_functions(functions)
    off = randomness.known_false(model)
    kinds: Kinds = {}
    for graph in structure.graphs_of(model.graph):
        for node in graph.node:
            # A node with bodies draws in these, where the nodes are renamed.
            if any(structure.subgraphs(node)) or not randomness.is_random(node, drawing, off):
                continue
            name = f"{node.op_type}{len(kinds)}"
            kinds[name] = node.domain, node.op_type
            node.domain, node.op_type = _DOMAIN, name
            node.input.append(_INPUT)
    if kinds:
        tensor = onnx.helper.make_tensor_value_info(_INPUT, onnx.TensorProto.FLOAT, [])
        model.graph.input.append(tensor)
        model.opset_import.append(onnx.helper.make_opsetid(_DOMAIN, 1))
    return kinds


def taken_out(model: onnx.ModelProto | None, kinds: Kinds) -> onnx.ModelProto | None:
    """Undoes `put_in`, and returns the model."""
    if model is None:
        return None
    for graph in structure.graphs_of(model.graph):
        for node in graph.node:
            if node.domain == _DOMAIN:
                node.domain, node.op_type = kinds[node.op_type]
                node.input.pop()
        kept = [item for item in graph.input if item.name != _INPUT]
        del graph.input[:]
        graph.input.extend(kept)
    imports = [item for item in model.opset_import if item.domain != _DOMAIN]
    del model.opset_import[:]
    model.opset_import.extend(imports)
    return model


def seeded(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model, with a seed in each such node that has none, so that two models can be compared.

    It follows from the name of the output, so that a node keeps it when others go.
    """
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    for graph in [*copy.functions, *structure.graphs_of(copy.graph)]:
        for node in graph.node:
            if any(structure.subgraphs(node)) or not randomness.is_random(node):
                continue
            if all(item.name != "seed" for item in node.attribute):
                seed = zlib.crc32(node.output[0].encode()) & 0xFFFF
                number = seed if node.op_type == "Dropout" else float(seed)
                node.attribute.append(onnx.helper.make_attribute("seed", number))
    return copy
