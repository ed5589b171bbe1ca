"""Custom nodes that another op computes on integers, as their op declares with `IntegerOp`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

from myops._description import OpInfo
from myops._op_library import IntegerOp

QUANTIZE, DEQUANTIZE = "QuantizeLinear", "DequantizeLinear"


@dataclass(frozen=True)
class Form:
    """Another op that computes a node on integers.

    Attributes:
        info: The op.
        places: Places of the node's inputs, by name.
        activations: Places that become integers with one scale.
        weights: Places of constants that become int8, with the axis of their scales.
        limits: Attributes, with the places whose largest magnitude they get.
    """

    info: OpInfo
    places: Mapping[str, int]
    activations: list[int]
    weights: dict[int, int]
    limits: dict[str, int]


def form_of(library: Any, info: OpInfo, op: IntegerOp, dtype: str) -> tuple[Any, str]:
    """The form that an op declares, checked."""
    other = library.info(op.name)
    places = {item.name: place for place, item in enumerate(info.inputs)}
    given = {item.name: item for item in other.inputs}
    integers = [*op.activations, *op.weights]
    needed = [*places, *(f"{name}_scale" for name in integers)]
    missing = sorted({*needed, *integers, *op.limits.values()} - {*places, *needed})
    missing += [name for name in needed if name not in given]
    extra = given.keys() - {*needed, *(f"{name}_zero_point" for name in integers)}
    limits = {item.name for item in other.attributes if item.type == "float"}
    if missing or extra or not limits.issuperset(op.limits) or not other.onnx_type:
        wrong = [*missing, *sorted(extra), *sorted(op.limits.keys() - limits)]
        raise ValueError(
            f"{info.name}: quantized: got IntegerOp({op.name!r}, ...), expected an op with a node, "
            f"the inputs {', '.join(needed)} and the float attributes of limits; what differs: "
            f"{', '.join(wrong) or 'it has no node'}"
        )
    for name in integers:
        kind = dtype if name in op.activations else "int8"
        if kind not in other.types[given[name].type]:
            return {}, f"{op.name} takes no {kind}"
    return Form(
        other, places, [places[name] for name in op.activations],
        {places[name]: axis for name, axis in op.weights.items()},
        {name: places[source] for name, source in op.limits.items()},
    ), ""  # fmt: skip


def lacks(form: Form, node: onnx.NodeProto, model: onnx.ModelProto) -> str:
    """Why a node of a model cannot have its form: "" if it can."""
    versions = {item.domain: item.version for item in model.opset_import}
    if versions.get(node.domain, 1) < form.info.since_version:
        return f"{form.info.node} needs version {form.info.since_version} of its domain"
    weights = {item.name: item.data_type for item in model.graph.initializer}
    names = {place: name for name, place in form.places.items()}
    for place in form.weights:
        if weights.get(node.input[place]) != onnx.TensorProto.FLOAT:
            return f"its {names[place]} is no constant in float32"
    return ""


def replace(
    model: onnx.ModelProto, forms: Mapping[str, Form], limits: Mapping[str, Mapping[str, float]]
) -> list[str]:
    """Puts the forms of nodes in their place, where dequantize nodes are in front of them.

    Args:
        model: It is changed.
        forms: By the names of nodes.
        limits: Attributes, by the names of nodes.

    Returns:
        The names of the nodes that were replaced.
    """
    graph = model.graph
    makers = {name: node for node in graph.node for name in node.output}
    weights = {tensor.name: tensor for tensor in graph.initializer}
    done = []
    for node in graph.node:
        form = forms.get(node.name)
        if form is None:
            continue
        before = {place: makers.get(node.input[place]) for place in form.activations}
        before |= {place: makers.get(node.input[place]) for place in form.weights}
        if not all(_fits(form, place, maker, weights) for place, maker in before.items()):
            continue
        given = {name: node.input[place] for name, place in form.places.items()
                 if place < len(node.input)}  # fmt: skip
        names = {place: name for name, place in form.places.items()}
        for place, maker in before.items():
            assert maker is not None
            parameters = dict(zip(("", "_scale", "_zero_point"), maker.input, strict=False))
            for end in parameters.keys() - {""}:
                if any(item.name == f"{names[place]}{end}" for item in form.info.inputs):
                    parameters[end] = _list(graph, weights, parameters[end])
            given |= {f"{names[place]}{end}": name for end, name in parameters.items()}
        known = {item.name for item in form.info.attributes}
        taken = [item for item in node.attribute if item.name in known]
        inputs = [given.get(item.name, "") for item in form.info.inputs]
        while inputs and not inputs[-1]:
            inputs.pop()
        node.op_type = form.info.onnx_type
        del node.input[:], node.attribute[:]
        node.input.extend(inputs)
        node.attribute.extend(taken)
        for name, limit in limits.get(node.name, {}).items():
            node.attribute.append(onnx.helper.make_attribute(name, limit))
        done.append(node.name)
    return done


def _list(graph: Any, weights: dict[str, Any], name: str) -> str:
    """A constant that is a scalar, as a list: ONNX Runtime's shape inference for custom ops takes a
    scalar for a tensor of unknown shape, and then infers nothing."""
    if weights[name].dims:
        return name
    made = f"{name}_list"
    if made not in weights:
        listed = numpy_helper.from_array(numpy_helper.to_array(weights[name]).reshape(1), made)
        graph.initializer.append(listed)
        weights[made] = listed
    return made


def _fits(form: Form, place: int, maker: Any, weights: Mapping[str, Any]) -> bool:
    """Whether a dequantize node makes an input from integers as the form takes them."""
    if maker is None or maker.op_type != DEQUANTIZE:
        return False
    if place not in form.weights:
        known = all(name in weights for name in maker.input[1:])
        return known and numpy_helper.to_array(weights[maker.input[1]]).size == 1
    if any(name not in weights for name in maker.input):
        return False
    integers, scale, *zeros = (numpy_helper.to_array(weights[name]) for name in maker.input)
    axis = next((item.i for item in maker.attribute if item.name == "axis"), 1) % integers.ndim
    along = scale.size == 1 or axis == form.weights[place]
    return bool(integers.dtype == np.int8 and along and not any(zero.any() for zero in zeros))
