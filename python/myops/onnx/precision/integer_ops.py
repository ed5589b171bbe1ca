"""Custom nodes on integers, if their op declares how it works on them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import onnx
from onnx import numpy_helper

from myops import _author_errors, _libraries
from myops._op_library import IntegerOp
from myops.onnx.graph import scopes
from myops.onnx.precision.integer_forms import DEQUANTIZE, QUANTIZE, Form, form_of
from myops.onnx.schema import node_attributes


def declared(node: onnx.NodeProto, dtype: str) -> tuple[dict[int, int] | Form, str]:
    """Which outputs of a custom node have scale and zero point of which input, by index, or the op
    that computes it on integers.

    Args:
        node: A node of an op library.
        dtype: "uint8" or "int8", which the op has to accept.

    Returns:
        Indices of outputs and inputs, or the form; or {} and the reason.
    """
    info = scopes.op_of(node)
    if info is None:
        return {}, "nothing describes its op"
    library = _libraries.find(node.domain)
    rule = None if library is None else library.quantized_rule(info)
    if rule is None:
        return {}, "its op does not declare what it is on integers"
    try:
        found = rule(node_attributes(info, node))
    except Exception as error:
        named = _author_errors.named(info.name, "quantized", error)
        if named is None:
            raise
        raise named from error
    if not isinstance(found, (IntegerOp, Mapping)):
        raise ValueError(
            f"{info.name}: quantized: got {found!r}, expected a dict of outputs and their inputs, "
            "or a myops.IntegerOp"
        )
    if isinstance(found, IntegerOp):
        return form_of(library, info, found, dtype)
    names = dict(found)
    if not names:
        return {}, "with these attributes its op needs the numbers themselves"
    inputs = {item.name: place for place, item in enumerate(info.inputs)}
    outputs = {item.name: place for place, item in enumerate(info.outputs)}
    places = {}
    for made, given_name in names.items():
        if made not in outputs or given_name not in inputs:
            raise ValueError(
                f"{info.name}: quantized: got {{{made!r}: {given_name!r}}}, expected an output of "
                f"{', '.join(outputs)} and an input of {', '.join(inputs)}"
            )
        kinds = (info.outputs[outputs[made]].type, info.inputs[inputs[given_name]].type)
        if any(dtype not in info.types[kind] for kind in kinds):
            return {}, f"its op takes no {dtype}"
        places[outputs[made]] = inputs[given_name]
    return places, ""


def put_on_integers(model: onnx.ModelProto, places: dict[str, dict[int, int]]) -> list[str]:
    """Lets custom nodes between dequantize and quantize nodes run on the integers themselves.

    Args:
        model: It is changed.
        places: Nodes by name, and the indices of outputs and inputs with the same scale.

    Returns:
        The names of the nodes that run on integers now.
    """
    graph = model.graph
    makers = {name: node for node in graph.node for name in node.output}
    readers: dict[str, list[onnx.NodeProto]] = {}
    for node in scopes.all_nodes(graph.node):
        for name in node.input:
            readers.setdefault(name, []).append(node)
    shown = {item.name for item in graph.output}
    weights = {tensor.name: tensor for tensor in graph.initializer}
    done, dropped = [], set()
    for node in graph.node:
        pairs = places.get(node.name)
        if not pairs:
            continue
        found: list[Any] = []
        for made, given in pairs.items():
            before = makers.get(node.input[given])
            after = readers.get(node.output[made], [])
            if (
                before is None or before.op_type != DEQUANTIZE or len(after) != 1
                or after[0].op_type != QUANTIZE or node.output[made] in shown
                or not _same(before, after[0], weights)
            ):  # fmt: skip
                break
            found.append((made, given, before, after[0]))
        else:
            for made, given, before, after_ in found:
                node.input[given] = before.input[0]
                node.output[made] = after_.output[0]
                dropped.add(after_.output[0])
            done.append(node.name)
    kept = [node for node in graph.node
            if node.op_type != QUANTIZE or node.output[0] not in dropped]  # fmt: skip
    _keep(graph, _read(graph, kept))
    return done


def _same(before: onnx.NodeProto, after: onnx.NodeProto, weights: dict[str, Any]) -> bool:
    """Whether both nodes have the same scale and zero point."""
    pairs = list(zip(before.input[1:], after.input[1:], strict=False))
    return len(before.input) == len(after.input) and all(
        one == two
        or (
            one in weights
            and two in weights
            and (numpy_helper.to_array(weights[one]) == numpy_helper.to_array(weights[two])).all()
        )
        for one, two in pairs
    )


def _read(graph: Any, nodes: list[onnx.NodeProto]) -> list[onnx.NodeProto]:
    """The nodes without the dequantize nodes that nothing reads any longer."""
    used = {name for node in scopes.all_nodes(nodes) for name in node.input}
    used.update(item.name for item in graph.output)
    return [node for node in nodes if node.op_type != DEQUANTIZE or used.intersection(node.output)]


def _keep(graph: Any, nodes: list[onnx.NodeProto]) -> None:
    kept = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
    before = {name for node in graph.node for name in node.input}
    after = {name for node in scopes.all_nodes(kept) for name in node.input}
    gone = before - after - {item.name for item in graph.output}
    weights = [item for item in graph.initializer if item.name not in gone]
    if len(weights) < len(graph.initializer):
        weights = [onnx.TensorProto.FromString(item.SerializeToString()) for item in weights]
        del graph.initializer[:]
        graph.initializer.extend(weights)
    del graph.node[:]
    graph.node.extend(kept)
    # Types of values that were removed, or became integers, are no longer right.
    made = {name for node in kept for name in node.output}
    stated = [item for item in graph.value_info if item.name in made]
    stated = [onnx.ValueInfoProto.FromString(item.SerializeToString()) for item in stated]
    del graph.value_info[:]
    graph.value_info.extend(stated)
