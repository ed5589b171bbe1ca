"""Models as they are run for a comparison: with other outputs, and with inputs and outputs of types
that NumPy has."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import onnx
from onnx import TensorProto

from myops.onnx.graph import scopes
from myops.ort import _narrow


def with_outputs(model: onnx.ModelProto, names: Iterable[str]) -> onnx.ModelProto:
    """A copy whose outputs are the given values of its graph."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    set_outputs(copy, names, {})
    return copy


def set_outputs(
    model: onnx.ModelProto, names: Iterable[str], types: Mapping[str, onnx.TypeProto]
) -> None:
    """Makes the given values of the graph the outputs of the model.

    types: Those of values for which the model states none.
    """
    graph = model.graph
    stated_in = (*graph.output, *graph.value_info, *graph.input)
    known = {**types, **{item.name: item.type for item in stated_in}}
    stated = []
    for name in names:
        item = onnx.ValueInfoProto(name=name)  # without a type: ONNX Runtime infers it
        if name in known:
            item.type.CopyFrom(known[name])
            if item.type.HasField("tensor_type"):
                item.type.tensor_type.ClearField("shape")  # an edit may have made it stale
        stated.append(item)
    del graph.output[:]
    graph.output.extend(stated)


def widen(model: onnx.ModelProto) -> dict[str, str]:
    """Makes inputs and outputs of bfloat16 and of floats of 8 bits float32, which represents all of
    their values; returns the new names of such inputs."""
    graph = model.graph
    narrow = [item for item in (*graph.input, *graph.output)
              if item.type.tensor_type.elem_type in _narrow.NUMBERS]  # fmt: skip
    if not narrow:
        return {}
    before, after, renamed, widened = [], [], {}, {}
    for item in graph.input:
        if (kind := item.type.tensor_type.elem_type) in _narrow.NUMBERS:
            wide = f"{item.name}/float32"
            before.append(onnx.helper.make_node("Cast", [wide], [item.name], to=kind))
            widened[item.name] = wide
            item.name = wide
            item.type.tensor_type.elem_type = TensorProto.FLOAT
    for item in graph.output:
        if item.type.tensor_type.elem_type in _narrow.NUMBERS:
            renamed[item.name] = f"{item.name}/narrow"
            after.append(onnx.helper.make_node("Cast", [renamed[item.name]], [item.name], to=1))
            item.type.tensor_type.elem_type = TensorProto.FLOAT
    for node in (*before, *scopes.all_nodes(graph.node)):
        for names in (node.input, node.output):
            for place, name in enumerate(names):
                names[place] = renamed.get(name, name)
    nodes = [*before, *graph.node, *after]
    kept = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
    del graph.node[:]
    graph.node.extend(kept)
    del graph.value_info[:]
    return widened


def wide_feeds(
    feeds: Mapping[str, np.ndarray], widened: Mapping[str, str]
) -> dict[str, np.ndarray]:
    """The inputs of a model that `widen` changed."""
    return {
        widened.get(name, name): np.asarray(array, np.float32) if name in widened else array
        for name, array in feeds.items()
    }
