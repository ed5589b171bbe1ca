"""Functions of a model that call themselves, or each other so often that no memory holds the nodes.

Shape inference, inlining and ONNX Runtime replace each call by nodes: as many as 2^levels.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import onnx
import pytest
from onnx import helper
from surgery_models import FLOAT, info, model_of

import myops.onnx
import myops.ort
from myops.onnx.graph import calls

Chain = list[onnx.FunctionProto]


def function(name: str, nodes: list[onnx.NodeProto], attributes: Any = ()) -> onnx.FunctionProto:
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("f", 1)]
    return helper.make_function("f", name, ["a"], ["z"], nodes, opsets, attributes)


def calling(name: str, called: str, times: int, domain: str = "f") -> onnx.FunctionProto:
    """A function that calls another several times, one call after the other."""
    values = ["a", *(f"v{number}" for number in range(times - 1)), "z"]
    nodes = [helper.make_node(called, [values[i]], [values[i + 1]], domain=domain)
             for i in range(times)]  # fmt: skip
    return function(name, nodes)


def chain(levels: int, times: int) -> Chain:
    """F0 calls F1 `times` times, and so on; the last calls Neg."""
    made = [calling(f"F{n}", f"F{n + 1}", times) for n in range(levels - 1)]
    return [*made, calling(f"F{levels - 1}", "Neg", times, "")]


def model(functions: Chain, *nodes: onnx.NodeProto) -> onnx.ModelProto:
    used = list(nodes) or [helper.make_node("F0", ["x"], ["y"], domain="f")]
    own = helper.make_node("MyAdd", ["y", "y"], ["sum"], "add", domain="myops")
    values = [info("x", FLOAT, [2])], [info("sum", FLOAT, [2])]
    return model_of([*used, own], *values, domains=["f", "myops"], functions=functions)


FUNCTIONS: dict[str, Callable[[onnx.ModelProto], Any]] = {
    "lower": myops.onnx.lower,
    "upgrade_ops": myops.onnx.upgrade_ops,
    "simplify": myops.onnx.simplify,
    "add_function_bodies": myops.onnx.add_function_bodies,
    "add_outputs": lambda given: myops.onnx.add_outputs(given, ["y"]),
    "extract": lambda given: myops.onnx.extract(given, outputs=["y"]),
    "edit": lambda given: myops.onnx.edit(given, rename={"y": "w"}),
    "explain": lambda given: myops.ort.explain(given),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_too_many_nodes_are_refused_in_time(name: str) -> None:
    began = time.perf_counter()
    with pytest.raises(calls.CallsError, match="functions: got calls that stand for more than"):
        FUNCTIONS[name](model(chain(40, 2)))
    assert time.perf_counter() - began < 5


def test_what_expands_nothing_works() -> None:
    many = model(chain(40, 2))
    assert len(myops.onnx.inspect(many).functions) == 40
    assert myops.onnx.diff(many, many).equal
    report = myops.ort.doctor(many)
    assert [finding.code for finding in report.errors] == ["functions-endless"]


def test_the_number_of_nodes_is_exact() -> None:
    """2^16 + 2^15 + ... nodes are accepted, and as many more are not."""
    levels = 0
    while 2 ** (levels + 1) - 1 <= calls.MOST:
        levels += 1
    calls.refuse_endless(model(chain(levels - 1, 2)))
    with pytest.raises(calls.CallsError):
        calls.refuse_endless(model(chain(levels, 2)))


def test_a_few_calls_work() -> None:
    few = model(chain(8, 2))
    assert len(myops.onnx.lower(few).graph.node) > 1
    assert myops.onnx.simplify(few).difference == 0
    assert not myops.ort.doctor(few).errors


@pytest.mark.parametrize("others", [[], ["F1"], ["F1", "F2"]])
def test_recursion_is_refused(others: list[str]) -> None:
    names = ["F0", *others]
    functions = [calling(name, called, 1)
                 for name, called in zip(names, [*others, "F0"], strict=True)]  # fmt: skip
    through = " through " + ", ".join(f"'f::{name}'" for name in others) if others else ""
    with pytest.raises(calls.CallsError, match=f"got 'f::F0', which calls itself{through}, exp"):
        myops.onnx.lower(model(functions))
    assert myops.onnx.inspect(model(functions)).functions


def test_deep_calls_are_refused() -> None:
    calls.refuse_endless(model(chain(calls.DEEPEST, 1)))
    with pytest.raises(calls.CallsError, match="calls inside each other"):
        myops.onnx.lower(model(chain(5000, 1)))


def branch(name: str, node: onnx.NodeProto) -> onnx.GraphProto:
    return helper.make_graph([node], name, [], [info(node.output[0], FLOAT, None)])


def test_calls_in_branches_count() -> None:
    functions = []
    for number in range(40):
        called, domain = (f"F{number + 1}", "f") if number < 39 else ("Neg", "")
        then, other = (branch(name, helper.make_node(called, ["a"], [name], domain=domain))
                       for name in ("then", "other"))  # fmt: skip
        positive = helper.make_node("ReduceMax", ["a"], ["m"], keepdims=0)
        cast = helper.make_node("Cast", ["m"], ["c"], to=onnx.TensorProto.BOOL)
        choice = helper.make_node("If", ["c"], ["z"], then_branch=then, else_branch=other)
        functions.append(function(f"F{number}", [positive, cast, choice]))
    with pytest.raises(calls.CallsError, match="stand for more than"):
        myops.onnx.lower(model(functions))


def test_graphs_that_are_passed_to_functions_count() -> None:
    """Each call has one node, but its function writes the graph that it gets twice."""

    def choosing(name: str, graphs: dict[str, Any]) -> onnx.NodeProto:
        node = helper.make_node("If", ["a"], [name], **graphs)
        for given in () if graphs else ("then_branch", "else_branch"):
            node.attribute.add(name=given, ref_attr_name="g", type=onnx.AttributeProto.GRAPH)
        return node

    twice = function("Twice", [choosing("z", {})], ["g"])
    inner = branch("leaf", helper.make_node("Neg", ["x"], ["n"]))
    for number in range(22):
        inner = branch(f"b{number}", helper.make_node("Twice", ["x"], [f"n{number}"], domain="f",
                                                      g=inner))  # fmt: skip
    given = helper.make_node("Twice", ["x"], ["y"], domain="f", g=inner)
    with pytest.raises(calls.CallsError, match="stand for more than"):
        calls.refuse_endless(model([twice], given))


def test_large_graphs_are_not_refused() -> None:
    names = ["x", *(f"v{number}" for number in range(calls.MOST)), "y"]
    nodes = [helper.make_node("Neg", [names[i]], [names[i + 1]]) for i in range(len(names) - 1)]
    calls.refuse_endless(model(chain(2, 2), *nodes))
