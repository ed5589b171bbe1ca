"""Which nodes draw random numbers: they have other results each time, whatever their inputs."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import onnx
from onnx import numpy_helper

from myops.onnx.graph.structure import graphs_of, is_custom, subgraphs

_RANDOM = {"RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Bernoulli",
           "Multinomial"}  # fmt: skip
_TRAINING = 2  # the input of Dropout which says whether it draws

Names = Collection[tuple[str, str]]


def is_random(node: onnx.NodeProto, functions: Names = (), off: Collection[str] = ()) -> bool:
    """Whether a node, or one in its bodies, may draw random numbers. A custom operator is not known
    to.

    Args:
        node: The node.
        functions: Domain and name of functions whose calls draw: `random_functions`.
        off: Values that are known to be false: `known_false`.
    """
    if is_custom(node.domain):
        found = (node.domain, node.op_type) in functions
    elif node.op_type == "Dropout":
        found = any(name and name not in off for name in node.input[_TRAINING:])
    else:
        found = node.op_type in _RANDOM
    return found or any(
        is_random(inner, functions, off) for body in subgraphs(node) for inner in body.node
    )


def random_functions(functions: Iterable[onnx.FunctionProto]) -> Names:
    """Domain and name of the functions whose calls draw random numbers."""
    waiting = list(functions)
    found: set[tuple[str, str]] = set()
    while drawing := [
        item for item in waiting if any(is_random(node, found) for node in item.node)
    ]:
        found.update((item.domain, item.name) for item in drawing)
        waiting = [item for item in waiting if (item.domain, item.name) not in found]
    return found


def known_false(model: onnx.ModelProto) -> set[str]:
    """Names of constants that are false, as exporters give them to Dropout."""
    inputs = {item.name for item in model.graph.input}
    found: set[str] = set()
    for graph in graphs_of(model.graph):
        constants = {item.name: item for item in graph.initializer if item.name not in inputs}
        for node in graph.node:
            if node.op_type == "Constant" and not is_custom(node.domain):
                constants.update((node.output[0], item.t) for item in node.attribute[:1])
        found.update(
            name
            for name, tensor in constants.items()
            if tensor.data_type == onnx.TensorProto.BOOL
            and tensor.data_location != onnx.TensorProto.EXTERNAL
            and not numpy_helper.to_array(tensor).any()
        )
    return found
