"""simplify of models whose values are optional, sequences, or neither."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from precision_models import model, node, value, weight

from myops.onnx.graph import inference
from myops.onnx.graph.structure import GraphError
from myops.onnx.surgery.slimming import SimplifyError, simplify

TENSOR = helper.make_tensor_type_proto(TensorProto.FLOAT, ["n", 3])
SEQUENCE = helper.make_sequence_type_proto(TENSOR)
OPTIONAL = helper.make_optional_type_proto(TENSOR)
OPTIONAL_SEQUENCE = helper.make_optional_type_proto(SEQUENCE)
ARRAY = np.float32([[1, -2, 3]])
ONE = weight("one", np.float32(1))
# Nodes that onnxslim makes fewer: an Identity, and a constant.
ENDING = [node("Identity", "c", "d"), node("Add", "one one", "two"), node("Add", "d two", "y")]


def typed(name: str, kind: onnx.TypeProto) -> onnx.ValueInfoProto:
    return helper.make_value_info(name, kind)


def body(title: str, nodes: list[Any], made: str, kind: onnx.TypeProto) -> onnx.GraphProto:
    return helper.make_graph(nodes, title, [], [typed(made, kind)])


CASES = {
    "an optional input": (
        [node("OptionalGetElement", "o", "c"), *ENDING], [typed("o", OPTIONAL)], {"o": ARRAY},
    ),
    "an optional sequence": (
        [node("OptionalGetElement", "o", "s"), node("ConcatFromSequence", "s", "c", axis=0),
         *ENDING],
        [typed("o", OPTIONAL_SEQUENCE)], {"o": [ARRAY, ARRAY]},
    ),
    "an optional value inside": (
        [node("Optional", "x", "o"), node("OptionalGetElement", "o", "c"), *ENDING],
        [typed("x", TENSOR)], {"x": ARRAY},
    ),
    "an optional value that is stated": (
        [node("Optional", "x", "o"), node("OptionalGetElement", "o", "c"), *ENDING],
        [typed("x", TENSOR)], {"x": ARRAY},
    ),
    "a sequence": (
        [node("ConcatFromSequence", "s", "c", axis=0), *ENDING], [typed("s", SEQUENCE)],
        {"s": [ARRAY, ARRAY]},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_values_that_are_no_tensors(name: str) -> None:
    nodes, inputs, feeds = CASES[name]
    source = model(nodes, inputs, [value("y", None)], [ONE])
    if "stated" in name:
        source.graph.value_info.append(typed("o", OPTIONAL))
    result = simplify(source, inputs=feeds)
    assert result.difference == 0
    assert result.notes == ()
    assert (result.before["Add"], result.after["Add"]) == (2, 1)
    assert "Identity" not in result.after
    assert inference.problem(result.model) == ""
    assert list(result.model.graph.input) == list(source.graph.input)


@pytest.mark.parametrize("kind", [OPTIONAL, SEQUENCE, OPTIONAL_SEQUENCE], ids=["o", "s", "os"])
def test_outputs_keep_their_types(kind: onnx.TypeProto) -> None:
    nodes = {
        "optional_type": [node("Optional", "x", "y")],
        "sequence_type": [node("SequenceConstruct", "x x", "y")],
    }
    made = [node("SequenceConstruct", "x x", "s"), node("Optional", "s", "y")]
    if kind != OPTIONAL_SEQUENCE:
        made = nodes[str(kind.WhichOneof("value"))]
    source = model(made, [typed("x", TENSOR)], [typed("y", kind)])
    result = simplify(source)
    assert result.difference == 0
    assert result.model.graph.output[0].type == kind


def branches(one: onnx.TypeProto, name: str = "e") -> onnx.ModelProto:
    """An If whose branches make an optional value, one of them an empty one."""
    empty = helper.make_node("Optional", [], [name], type=TENSOR)
    graphs = {
        "then_branch": body("then", [node("Optional", "x", "t")], "t", OPTIONAL),
        "else_branch": body("else", [empty], name, one),
    }
    nodes = [node("If", "q", "o", **graphs), node("OptionalHasElement", "o", "y")]
    inputs = [value("q", [], TensorProto.BOOL), typed("x", TENSOR)]
    return model(nodes, inputs, [value("y", [], TensorProto.BOOL)])


def test_bodies_keep_their_types() -> None:
    result = simplify(branches(OPTIONAL))
    assert result.difference == 0
    assert inference.problem(result.model) == ""
    (choice,) = [item for item in result.model.graph.node if item.op_type == "If"]
    assert [item.g.output[0].type for item in choice.attribute] == [OPTIONAL, OPTIONAL]


def test_two_types_of_one_name_are_refused() -> None:
    with pytest.raises(SimplifyError, match="got two values 't' in different bodies"):
        simplify(branches(OPTIONAL_SEQUENCE, "t"), check=False)


def test_what_to_do_is_said() -> None:
    nodes, inputs, _ = CASES["an optional input"]
    source = model(nodes, inputs, [value("y", None)], [ONE])
    with pytest.raises(
        GraphError, match=r"given as an array, a list of arrays or None; .*no-check"
    ):
        simplify(source)
    assert simplify(source, check=False).after["Add"] == 1
    with pytest.raises(GraphError, match="fixed: o: got a value that is no tensor"):
        simplify(source, fixed={"o": [2, 3]})
