"""Models for the tests of the graph tools, not made by these tools."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import onnx
import onnxruntime
import torch
from onnx import TensorProto, helper, numpy_helper

import myops.onnx

FLOAT = TensorProto.FLOAT
info = helper.make_tensor_value_info


def model_of(
    nodes: Any, inputs: Any, outputs: Any, constants: Any = (), *, opset: int = 17, ir: int = 8,
    domains: Any = (), functions: Any = (),
) -> onnx.ModelProto:  # fmt: skip
    graph = helper.make_graph(nodes, "graph", inputs, outputs, list(constants))
    imports = [helper.make_opsetid("", opset), *(helper.make_opsetid(d, 1) for d in domains)]
    return helper.make_model(graph, opset_imports=imports, ir_version=ir, functions=list(functions))


def linear() -> onnx.ModelProto:
    """a * x + b, written with onnx.helper."""
    names = [info(name, FLOAT, [10, 10]) for name in ("a", "x", "b", "output")]
    nodes = [helper.make_node("Mul", ["a", "x"], ["c"]),
             helper.make_node("Add", ["c", "b"], ["output"])]  # fmt: skip
    return model_of(nodes, names[:3], names[3:], opset=15)


class Branches(torch.nn.Module):
    """Convolutions, two branches of which are added."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.convs1, self.convs2, self.convs3, self.convs4 = (
            torch.nn.Sequential(*(torch.nn.Conv2d(3, 3, 3) for _ in range(count)))
            for count in (3, 2, 2, 3)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.convs1(x)
        return self.convs4(self.convs2(x) + self.convs3(x))


class Upscale(torch.nn.Module):
    """A node of ours between convolutions, its factor an input."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(4)
        self.head = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3, padding=1), torch.nn.ReLU())
        self.tail = torch.nn.Conv2d(4, 3, 3, padding=1)

    def forward(self, x: torch.Tensor, factor: torch.Tensor) -> torch.Tensor:
        y = self.head(x)
        return self.tail(myops.interpolate(y, scale_factor=factor, mode="bicubic"))


@functools.cache
def _exported(kind: str, exporter: str) -> bytes:
    if kind == "branches":
        model = myops.onnx.export(Branches(), (torch.rand(1, 3, 20, 20),), exporter=exporter,
                                  input_names=["x"], output_names=["y"])  # fmt: skip
    else:
        args = (torch.rand(2, 3, 8, 8), torch.tensor([2.0, 2.0]))
        model = myops.onnx.export(
            Upscale(), args, exporter=exporter, input_names=["x", "factor"], output_names=["y"],
            dynamic_axes={"x": {0: "n", 2: "h", 3: "w"}},
        )  # fmt: skip
    return model.SerializeToString()


def exported(kind: str, exporter: str = "dynamo") -> onnx.ModelProto:
    return onnx.ModelProto.FromString(_exported(kind, exporter))


def captured() -> onnx.ModelProto:
    """The branches of an If read `mid` and the weight `w` from outside."""
    then = helper.make_graph([helper.make_node("Add", ["mid", "w"], ["t"])], "then", [],
                             [info("t", FLOAT, [3])])  # fmt: skip
    other = helper.make_graph([helper.make_node("Identity", ["mid"], ["e"])], "else", [],
                              [info("e", FLOAT, [3])])  # fmt: skip
    nodes = [
        helper.make_node("Relu", ["X"], ["mid"]),
        helper.make_node("Neg", ["X"], ["side"]),
        helper.make_node("If", ["flag"], ["Z"], "choose", then_branch=then, else_branch=other),
        helper.make_node("Add", ["Z", "side"], ["Y"]),
    ]
    inputs = [info("X", FLOAT, [3]), info("flag", TensorProto.BOOL, [])]
    weight = numpy_helper.from_array(np.float32([1, 2, 3]), "w")
    return model_of(nodes, inputs, [info("Y", FLOAT, [3])], [weight])


def three_domains() -> onnx.ModelProto:
    """Nodes of com.microsoft, of ai.onnx.contrib and of a model-local function."""
    grow = helper.make_function(
        "other", "Grow", ["x"], ["y"],
        [helper.make_node("Constant", [], ["s"], value_floats=[1.0, 3.0]),
         helper.make_node("Resize", ["x", "", "s"], ["y"])],
        [helper.make_opsetid("", 17)],
    )  # fmt: skip
    nodes = [
        helper.make_node("Gelu", ["X"], ["a"], domain="com.microsoft"),
        helper.make_node("Inverse", ["a"], ["b"], domain="ai.onnx.contrib"),
        helper.make_node("Grow", ["b"], ["c"], domain="other"),
        helper.make_node("Relu", ["c"], ["Y"]),
    ]
    inputs, outputs = [info("X", FLOAT, [3, 3])], [info("Y", FLOAT, [3, 9])]
    domains = ["com.microsoft", "ai.onnx.contrib", "other"]
    return model_of(nodes, inputs, outputs, domains=domains, functions=[grow])


def run(model: Any, **feeds: Any) -> list[np.ndarray]:
    """ONNX Runtime without our library and without optimizations, which may round differently."""
    data = model if isinstance(model, str) else model.SerializeToString()
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    return session.run(None, feeds)
