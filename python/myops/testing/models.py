"""Models of one node, for runtimes that run graphs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

from myops import _description
from myops._description import OpInfo
from myops._dtypes import NARROW_FLOATS
from myops._op_parts import AttributeInfo
from myops.onnx.exporting import finishing
from myops.onnx.matrix import narrow_floats
from myops.onnx.schema import ELEMENT_TYPES, attribute_proto
from myops.testing.calls import OpCall

# The Python types of attributes; the others are lists.
_FITTING: dict[str, Any] = {
    "bool": int, "int": int, "float": (int, float), "double": (int, float), "string": str,
}  # fmt: skip
OPSET = 20  # the default of myops.onnx.export; ONNX Runtime 1.17 knows it


def node_model(
    info: OpInfo,
    call: OpCall,
    dims: Sequence[Sequence[Any] | None] | None = None,
    opset: int = OPSET,
) -> onnx.ModelProto:
    """A model of one node for calls like this one.

    Inputs and outputs in bfloat16 and floats of 8 bits are float32, which is exact, because ONNX
    Runtime's Python API has no such arrays.

    Args:
        dims: Lengths or names of each input. Default: a different name for each axis; lists such as
            scales have their actual length.
        opset: Of ai.onnx.
    """
    wanted = info.present(info.nested(call.inputs), call.attributes)
    info = info.expanded(len(call.inputs))
    nodes: list[onnx.NodeProto] = []
    inputs: list[onnx.ValueInfoProto] = []
    names: list[str] = []
    for number, (item, array) in enumerate(zip(info.inputs, call.inputs, strict=True)):
        if array is None:
            names.append("")
            continue
        lengths = None if dims is None else dims[number]
        if lengths is None:
            lengths = [f"{item.name}_{axis}" for axis in range(array.ndim)]
            lengths = list(array.shape) if item.values else lengths
        dtype = str(array.dtype)
        inputs.append(helper.make_tensor_value_info(item.name, _outside(dtype), lengths))
        names.append(item.name)
        if dtype in NARROW_FLOATS:
            names[-1] = f"{item.name}_{dtype}"
            nodes.append(narrow_floats.cast(item.name, names[-1], ELEMENT_TYPES[dtype]))
    while names and not names[-1]:
        names.pop()
    pairs = zip(info.outputs, wanted, strict=True)
    outputs = [item.name if given else "" for item, given in pairs]
    while not outputs[-1]:
        outputs.pop()
    settings = _settings(info, call.attributes)
    nodes.append(helper.make_node(info.onnx_type, names, outputs, domain=info.domain))
    nodes[-1].attribute.extend(settings.values())
    if info.since_version > 1:
        nodes[-1].attribute.append(helper.make_attribute(_description.VERSION, info.since_version))
    results = []
    named = [name for name in outputs if name]
    for output, dtype in zip(named, output_dtypes(info, call, wanted), strict=True):
        result = output
        if dtype in NARROW_FLOATS:
            result = f"{output}_float32"
            nodes.append(helper.make_node("Cast", [output], [result], to=TensorProto.FLOAT))
        results.append(helper.make_tensor_value_info(result, _outside(dtype), None))
    graph = helper.make_graph(nodes, info.name, inputs, results)
    opsets = [
        helper.make_opsetid("", opset),
        helper.make_opsetid(info.domain, info.since_version),
    ]
    model = helper.make_model(graph, opset_imports=opsets)
    finishing.set_lowest_ir_version(model)
    return model


def between_nodes(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with a node before each input and one after each output.

    ONNX Runtime may overwrite only values between two nodes, not inputs and outputs of the model.
    """
    changed = onnx.ModelProto()
    changed.CopyFrom(model)
    graph = changed.graph
    names = {item.name: f"{item.name}_inside" for item in [*graph.input, *graph.output]}
    nodes = list(graph.node)
    for node in nodes:
        node.input[:] = [names.get(name, name) for name in node.input]
        node.output[:] = [names.get(name, name) for name in node.output]
    before = [_copying(item, names[item.name]) for item in graph.input]
    behind = [
        helper.make_node("Identity", [names[item.name]], [item.name]) for item in graph.output
    ]
    del graph.node[:]
    graph.node.extend([*before, *nodes, *behind])
    return changed


def _copying(source: onnx.ValueInfoProto, result: str) -> onnx.NodeProto:
    """A node that copies. (Identity returns the memory of its input, and a scalar has no axis.)"""
    if not source.type.tensor_type.shape.dim:
        return helper.make_node("Identity", [source.name], [result])
    return helper.make_node("Concat", [source.name], [result], axis=0)


def _outside(dtype: str) -> int:
    if dtype in NARROW_FLOATS:
        return TensorProto.FLOAT
    known = ELEMENT_TYPES.get(dtype)
    return helper.np_dtype_to_tensor_dtype(np.dtype(dtype)) if known is None else known


def _settings(info: OpInfo, attributes: Mapping[str, Any]) -> dict[str, onnx.AttributeProto]:
    """The attributes that differ from their defaults, in the form for a node."""
    settings = {}
    for item in info.attributes:
        value = attributes.get(item.name)
        value = list(value) if isinstance(value, tuple) else value
        default = list(item.default) if isinstance(item.default, tuple) else item.default
        fits = isinstance(value, _FITTING.get(item.type, list))
        if (item.is_written(value) if fits else value is not None) and value != default:
            settings[item.name] = _attribute(item, value)
    return settings


def _attribute(item: AttributeInfo, value: Any) -> onnx.AttributeProto:
    """The attribute in the declared type; a value of another kind, which should be refused, keeps
    its type."""
    if isinstance(value, _FITTING.get(item.type, list)):
        try:
            return attribute_proto(item, value)
        except (TypeError, ValueError):
            pass  # elements of another kind
    return helper.make_attribute(item.name, int(value) if isinstance(value, bool) else value)


def output_dtypes(info: OpInfo, call: OpCall, wanted: Sequence[bool] | None = None) -> list[str]:
    """The dtypes of the outputs that the call computes, from the description: that of the first
    input with the output's type parameter.

    `wanted`: which outputs the call computes, if `info` is that of a node.
    """
    if wanted is None:
        wanted = info.present(info.nested(call.inputs), call.attributes)
    info = info.expanded(len(call.inputs))
    found = []
    for output, given in zip(info.outputs, wanted, strict=True):
        like = [
            str(array.dtype)
            for item, array in zip(info.inputs, call.inputs, strict=True)
            if item.type == output.type and array is not None
        ]
        if not given:
            continue
        found.append(like[0] if like else info.types[output.type][0])
    return found


def feeds(info: OpInfo, call: OpCall) -> dict[str, np.ndarray]:
    """The inputs for a session of `node_model`."""
    return {
        item.name: narrow_floats.fed(array)
        for item, array in zip(info.expanded(len(call.inputs)).inputs, call.inputs, strict=True)
        if array is not None
    }
