"""Small models for the tests in this folder."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper
from runtimes import feeds, node_model

import myops.ort

FLOAT = TensorProto.FLOAT


def model_of(
    nodes: list[onnx.NodeProto], inputs: dict[str, Any], outputs: dict[str, Any], **graph: Any
) -> onnx.ModelProto:
    """A model; `inputs` and `outputs` are name: (element type, shape)."""
    infos = [
        [helper.make_tensor_value_info(name, *kind) for name, kind in values.items()]
        for values in (inputs, outputs)
    ]
    functions = graph.pop("functions", [])
    return helper.make_model(
        helper.make_graph(nodes, "test", *infos, **graph),
        opset_imports=[helper.make_opsetid("", 19), helper.make_opsetid("myops", 1)],
        ir_version=10,
        functions=functions,
    )


def add_model(a: Any = ("N", 3), b: Any = (3,), dtype: int = FLOAT) -> onnx.ModelProto:
    node = helper.make_node("MyAdd", ["a", "b"], ["c"], domain="myops")
    return model_of([node], {"a": (dtype, a), "b": (dtype, b)}, {"c": (dtype, None)})


def run_model(name: str, inputs: list[Any], attributes: dict[str, Any]) -> list[np.ndarray]:
    session = myops.ort.session(node_model(name, inputs, attributes))
    return session.run(None, feeds(name, inputs))
