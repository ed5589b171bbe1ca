"""myops.ort.explain: what ran for each custom node of a model."""

from __future__ import annotations

import io
import json
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper
from ort_models import FLOAT, add_model, model_of
from rich.console import Console

import myops
import myops.onnx
import myops.ort


def add(a: str, b: str, c: str, name: str = "") -> onnx.NodeProto:
    return helper.make_node("MyAdd", [a, b], [c], name=name, domain="myops")


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A model with two nodes of ours and their function bodies."""

    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            return myops.interpolate(myops.my_add(x, x).relu(), scale_factor=2.0, mode="bilinear")

    path = tmp_path_factory.mktemp("explain") / "model.onnx"
    myops.onnx.export(Model(), (torch.rand(1, 3, 8, 8),), str(path), input_names=["x"])
    return str(path)


def test_kernels_are_listed_with_their_plans(exported: str) -> None:
    found = myops.ort.explain(exported)
    assert [(node.op, node.runs) for node in found.nodes] == [
        ("myops::MyAdd", "kernel"), ("myops::Resize", "kernel"),
    ]  # fmt: skip
    for node in found.nodes:
        (call,) = node.calls
        assert (call.runtime, call.node) == ("onnxruntime", node.name)
        assert call.plan
        assert node.ms is not None
        assert 0 < node.ms <= found.ms
    assert found.nodes[1].calls[0].outputs[0]["shape"] == [1, 3, 16, 16]
    assert found.inputs["x"]["shape"] == [1, 3, 8, 8]
    json.loads(found.to_json())


def test_function_bodies_are_named(exported: str) -> None:
    found = myops.ort.explain(exported, myops_library=False)
    assert {node.runs for node in found.nodes} == {"function body"}
    assert {node.why for node in found.nodes} == {"The library of the domain 'myops' was left out."}
    assert all(node.calls == [] and node.ms is None for node in found.nodes)
    assert found.standard_ms > 0


def test_unnamed_nodes_and_nodes_in_branches_are_listed() -> None:
    """Each gets its own calls; the file is not changed."""
    branches = {
        f"{kind}_branch": helper.make_graph(
            [add("a", "a", f"{kind}_c")], kind, [], [helper.make_tensor_value_info(
                f"{kind}_c", FLOAT, None)],
        ) for kind in ("then", "else")
    }  # fmt: skip
    model = model_of(
        [add("a", "b", "c"), add("c", "b", "d"),
         helper.make_node("If", ["yes"], ["e"], **branches)],
        {"a": (FLOAT, (4,)), "b": (FLOAT, (1,)), "yes": (TensorProto.BOOL, [])},
        {"d": (FLOAT, None), "e": (FLOAT, None)},
    )  # fmt: skip
    before = model.SerializeToString()
    found = myops.ort.explain(model, inputs={"yes": np.array(True)})
    assert model.SerializeToString() == before
    names = [node.name for node in found.nodes]
    assert len(set(names)) == 4
    assert [len(node.calls) for node in found.nodes] == [1, 1, 0, 1]  # the file has "else" first
    ran = [node for node in found.nodes if node.calls]
    assert [[item["shape"] for item in node.calls[0].inputs] for node in ran] == [
        [[4], [1]], [[4], [1]], [[4], [4]],
    ]  # fmt: skip
    assert [node.runs for node in found.nodes] == ["kernel", "kernel", "not run", "kernel"]


def loop_model() -> onnx.ModelProto:
    step = [add("x", "x", "y", "inside"), helper.make_node("Identity", ["go"], ["again"])]
    body = helper.make_graph(
        step, "body",
        [helper.make_tensor_value_info("i", TensorProto.INT64, []),
         helper.make_tensor_value_info("go", TensorProto.BOOL, []),
         helper.make_tensor_value_info("x", FLOAT, None)],
        [helper.make_tensor_value_info("again", TensorProto.BOOL, []),
         helper.make_tensor_value_info("y", FLOAT, None)],
    )  # fmt: skip
    return model_of(
        [helper.make_node("Loop", ["count", "", "a"], ["z"], body=body)],
        {"count": (TensorProto.INT64, []), "a": (FLOAT, (3,))}, {"z": (FLOAT, None)},
    )  # fmt: skip


def test_every_iteration_of_a_loop_is_counted() -> None:
    (node,) = myops.ort.explain(loop_model(), inputs={"count": np.int64(5)}).nodes
    assert (node.name, node.runs, len(node.calls)) == ("inside", "kernel", 5)


@pytest.mark.parametrize("count", [1, 3, 4, 500])
def test_the_first_calls_of_a_loop_are_printed(count: int) -> None:
    found = myops.ort.explain(loop_model(), inputs={"count": np.int64(count)})
    (node,) = json.loads(found.to_json())["nodes"]
    assert len(node["calls"]) == len(found.nodes[0].calls) == count
    text = io.StringIO()
    found.print(Console(file=text, width=200))
    more = {4: "1 more call; to_json()", 500: "497 more calls; to_json()"}.get(count)
    for shown in (text.getvalue(), str(found)):
        assert shown.count("b float32 3 -> ") == min(count, 3)
        assert more in shown if more else "more call" not in shown


@pytest.mark.parametrize("name", ["", "inner"])
@pytest.mark.parametrize("branch", [False, True])
def test_nodes_in_functions_are_listed(name: str, branch: bool) -> None:
    """They were left out, and their time counted as that of standard operators."""
    nodes = [add("x", "x", "y", name)]
    if branch:
        graphs = {key: helper.make_graph([add("x", "x", key, name)], key, [],
                                         [helper.make_tensor_value_info(key, FLOAT, None)])
                  for key in ("then_branch", "else_branch")}  # fmt: skip
        nodes = [helper.make_node("If", ["c"], ["y"], **graphs)]
    opsets = [helper.make_opsetid("myops", 1), helper.make_opsetid("", 19)]
    function = helper.make_function("local", "Block", ["x", "c"], ["y"], nodes, opsets)
    model = model_of(
        [helper.make_node("Block", ["x", "c"], ["t"], "first", domain="local"),
         helper.make_node("Neg", ["t"], ["u"]),
         helper.make_node("Block", ["u", "c"], ["y"], "second", domain="local"),
         add("y", "y", "z", "outside")],
        {"x": (FLOAT, (3,)), "c": (TensorProto.BOOL, ())},
        dict.fromkeys("tyz", (FLOAT, None)),  # ONNX Runtime asks for the types of t and y
        functions=[function],
    )  # fmt: skip
    model.opset_import.append(helper.make_opsetid("local", 1))
    found = myops.ort.explain(model)
    outer, inside = found.nodes[:3], found.nodes[3:]
    assert [(node.name, node.runs) for node in outer] == [
        ("first", "function body"), ("second", "function body"), ("outside", "kernel"),
    ]  # fmt: skip
    assert {(node.op, node.runs) for node in inside} == {("myops::MyAdd", "kernel")}
    assert all(name in node.name for node in inside)
    assert sum(len(node.calls) for node in inside) == 2  # that of "outside" is not listed twice


def test_ops_of_other_libraries_have_times() -> None:
    """com.microsoft stands for a library that is not built with myops."""
    gelu = helper.make_node("Gelu", ["a"], ["c"], name="g", domain="com.microsoft")
    model = model_of([gelu], {"a": (FLOAT, (64,))}, {"c": (FLOAT, None)})
    model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    (node,) = myops.ort.explain(model).nodes
    assert (node.op, node.runs, node.calls) == ("com.microsoft::Gelu", "kernel", [])
    assert node.ms is not None


def test_a_model_without_custom_nodes_lists_none() -> None:
    relu = helper.make_node("Relu", ["a"], ["c"])
    found = myops.ort.explain(model_of([relu], {"a": (FLOAT, (3,))}, {"c": (FLOAT, None)}))
    assert found.nodes == []
    text = io.StringIO()
    found.print(Console(file=text))
    assert "The model has no custom node." in text.getvalue()


def test_shapes_threads_and_wrong_arguments() -> None:
    found = myops.ort.explain(add_model(), shapes={"a": (7, 3)}, threads=2)
    assert found.inputs["a"]["shape"] == [7, 3]
    assert found.machine["threads"] == 2
    with pytest.raises(ValueError, match="explain: threads: got 0"):
        myops.ort.explain(add_model(), threads=0)
    with pytest.raises(RuntimeError, match="does not load"):
        myops.ort.explain(add_model(dtype=TensorProto.STRING))
