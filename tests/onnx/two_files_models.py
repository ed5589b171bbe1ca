"""Models for the tests of `diff` and `compare_files`, and functions that change them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from surgery_models import FLOAT, info, model_of

INT64, BOOL = TensorProto.INT64, TensorProto.BOOL


def copied(model: onnx.ModelProto) -> onnx.ModelProto:
    return onnx.ModelProto.FromString(model.SerializeToString())


def constant(name: str, value: Any, dtype: Any = np.float32) -> onnx.TensorProto:
    return numpy_helper.from_array(np.asarray(value, dtype), name)


def weight_of(model: onnx.ModelProto, name: str) -> np.ndarray:
    (tensor,) = [item for item in model.graph.initializer if item.name == name]
    return numpy_helper.to_array(tensor)


def set_weight(model: onnx.ModelProto, name: str, value: Any) -> None:
    (tensor,) = [item for item in model.graph.initializer if item.name == name]
    tensor.CopyFrom(numpy_helper.from_array(np.asarray(value), name))


def values_by_name(report: Any) -> dict[str, Any]:
    return {value.name: value for value in report.values}


def dense_layers(depth: int = 12) -> onnx.ModelProto:
    """`depth` dense layers, y = tanh(x @ w + b), whose values are named by the layer's number."""
    rng = np.random.default_rng(7)
    nodes, weights, last = [], [], "x"
    for number in range(depth):
        weights += [constant(f"w{number}", rng.standard_normal((6, 6)) / 2),
                    constant(f"b{number}", rng.standard_normal(6) / 2)]  # fmt: skip
        names = [f"{kind}{number}" for kind in ("mul", "add", "tanh")]
        nodes += [
            helper.make_node("MatMul", [last, f"w{number}"], names[:1], f"node_{names[0]}"),
            helper.make_node("Add", [names[0], f"b{number}"], names[1:2], f"node_{names[1]}"),
            helper.make_node("Tanh", [names[1]], names[2:], f"node_{names[2]}"),
        ]
        last = names[2]
    nodes.append(helper.make_node("Identity", [last], ["y"], "end"))
    ends = [info("x", FLOAT, ["n", 6]), info("y", FLOAT, ["n", 6])]
    return model_of(nodes, ends[:1], ends[1:], weights)


def renamed(model: onnx.ModelProto, name: Callable[[str], str]) -> onnx.ModelProto:
    """Other names for everything but inputs and outputs, in the bodies too."""
    copy = copied(model)
    kept = {item.name for item in (*copy.graph.input, *copy.graph.output)}

    def other(old: str) -> str:
        return old if old in kept or not old else name(old)

    def rename(graph: Any) -> None:
        for item in (*graph.initializer, *graph.value_info, *graph.input, *graph.output):
            item.name = other(item.name)
        for node in graph.node:
            node.name = name(node.name)
            node.input[:] = map(other, node.input)
            node.output[:] = map(other, node.output)
            for item in node.attribute:
                if item.HasField("g"):
                    rename(item.g)

    rename(copy.graph)
    return copy


def loop(step: str = "Mul", growing: bool = False) -> onnx.ModelProto:
    """state = state * factor, `trips` times; inside, an If changes the sign each time that the
    state is large. With `growing`, the state gets longer in each iteration."""
    branches = [
        helper.make_graph([helper.make_node(kind, ["scaled"], [f"out_{name}"], f"{name}_{kind}")],
                          name, [], [info(f"out_{name}", FLOAT, None)])
        for name, kind in (("then", "Neg"), ("else", "Identity"))
    ]  # fmt: skip
    nodes = [
        helper.make_node(step, ["state", "factor"], ["scaled"], "scale"),
        helper.make_node("ReduceMax", ["scaled"], ["largest"], "largest", keepdims=0),
        helper.make_node("Greater", ["largest", "limit"], ["large"], "compare"),
        helper.make_node("If", ["large"], ["turned"], "turn", then_branch=branches[0],
                         else_branch=branches[1]),
        helper.make_node("Identity", ["going"], ["go_on"], "go"),
    ]  # fmt: skip
    last = "turned"
    if growing:
        nodes.append(helper.make_node("Concat", ["turned", "one"], ["longer"], "grow", axis=0))
        last = "longer"
    body = helper.make_graph(
        nodes, "body",
        [info("number", INT64, []), info("going", BOOL, []), info("state", FLOAT, None)],
        [info("go_on", BOOL, []), info(last, FLOAT, None)],
        [constant("one", [1.0])],
    )  # fmt: skip
    outer = [
        helper.make_node("Abs", ["x"], ["start"], "abs"),
        helper.make_node("Loop", ["trips", "always", "start"], ["state_out"], "repeat", body=body),
        helper.make_node("Sum", ["state_out"], ["y"], "sum"),
    ]
    inputs, outputs = [info("x", FLOAT, [3])], [info("y", FLOAT, None)]
    weights = [
        constant("trips", 4, np.int64),
        constant("always", True, bool),
        constant("factor", [2.0]),
        constant("limit", 9.0),
    ]
    return model_of(outer, inputs, outputs, weights)


def node_named(graph: Any, name: str) -> onnx.NodeProto:
    """The node of that name, in the graph or in a graph inside it."""
    for node in graph.node:
        if node.name == name:
            return node
        for item in node.attribute:
            if item.HasField("g"):
                try:
                    return node_named(item.g, name)
                except LookupError:
                    pass
    raise LookupError(name)


def unary(*kinds: str, shape: Any = (2, 5)) -> onnx.ModelProto:
    """Operators of one input in a row; their results are called a, b, c ..."""
    names = ["x", *(chr(ord("a") + number) for number in range(len(kinds)))]
    nodes = [helper.make_node(kind, [names[place]], [names[place + 1]], f"{kind}{place}")
             for place, kind in enumerate(kinds)]  # fmt: skip
    ends = [info(name, FLOAT, list(shape)) for name in (names[0], names[-1])]
    return model_of(nodes, ends[:1], ends[1:])
