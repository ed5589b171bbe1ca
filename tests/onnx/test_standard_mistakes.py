"""Mistakes in `standard(g)` of an op: each error names the op, what the function returned or asked
for, and what was expected; none blames the exporter or the model."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from onnx import TensorProto, helper

import myops
from myops.onnx import ExportCheckError, LoweringError, export, lower

_numbers = itertools.count()


def made(standard: Callable[[Any], Any], **settings: Any) -> Any:
    given = {
        "function": lambda x, w=None, *, k: x * k,
        "types": {"T": ["float32"]},
        "inputs": [myops.Input("x", "T", "."), myops.Input("w", "T", ".", optional=True)],
        "outputs": [myops.Output("y", "T", ".")],
        "attributes": [myops.Attribute("k", 2, ".")],
        "shape": lambda inputs, attributes: [inputs[0].shape],
    }
    name = f"rule{next(_numbers)}"
    return myops.prototype(
        domain="standard_mistakes", name=name, standard=standard, **{**given, **settings}
    )


def lowered(op: Any, opset: int = 18) -> Any:
    kind = "".join(word.capitalize() for word in op.__name__.split("_"))
    node = helper.make_node(kind, ["x"], ["y"], "call", domain="standard_mistakes")
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 3]) for name in "xy"]
    graph = helper.make_graph([node], "graph", infos[:1], infos[1:])
    imports = [helper.make_opsetid("", opset), helper.make_opsetid("standard_mistakes", 1)]
    return lower(helper.make_model(graph, opset_imports=imports, ir_version=8))


def two(g: Any) -> str:
    return g.constant(np.float32(2))


def product(g: Any, *inputs: Any) -> str:
    return g.op("Mul", *(inputs or (g.input("x"), two(g))))


EXPECTED = r"expected a list with one name for each output: \[y\]"
MISTAKES: dict[str, tuple[Callable[[Any], Any], str]] = {
    "name": (lambda g: product(g), f"standard: got 'call/Mul', {EXPECTED}"),
    "nothing": (lambda g: None, f"standard: got None, {EXPECTED}"),
    "two_names": (lambda g: [product(g)] * 2, f"standard: got 2 names, {EXPECTED}"),
    "no_names": (lambda g: [], f"standard: got 0 names, {EXPECTED}"),
    "number": (lambda g: [2], r"standard: got 2 for y, expected what g.op\(...\) or g.input"),
    "unknown_name": (lambda g: ["z"], "standard: got 'z' for y, expected what g.op"),
    "left_out": (lambda g: [""], 'standard: got "" for y, expected a name: only an output with on'),
    "input": (
        lambda g: [product(g, g.input("X"), two(g))],
        r"standard: g.input\('X'\): got a name that the op does not have, expected one of 'x', 'w'"
        r". Did you mean 'x'",
    ),
    "value": (
        lambda g: [g.value("v")],
        r"standard: g.value\('v'\): got a name that the op does not have",
    ),
    "attribute": (
        lambda g: [product(g, g.input("x"), g.constant(np.float32(g.attribute("kk"))))],
        r"standard: g.attribute\('kk'\): got a name that the op does not have, expected 'k'",
    ),
    "no_list": (
        lambda g: g.inputs("x"),
        r"standard: g.inputs\('x'\): got an input of one tensor, expected a variadic one",
    ),
    "number_as_input": (
        lambda g: [product(g, g.input("x"), 2)],
        r"standard: g.op\('Mul'\): got 2 as input 1, expected a name or an array .* g.constant",
    ),
    "none_as_input": (
        lambda g: [g.op("Clip", g.input("x"), None, two(g))],
        r"standard: g.op\('Clip'\): got None as input 1, expected a name .*is left out is \"\"",
    ),
    "dtype_of_absent": (
        lambda g: [product(g, g.input("x"), g.constant(np.array(2, g.dtype("w"))))],
        r"standard: g.dtype\('w'\): got an input that the call leaves out, expected one that is",
    ),
    "operator": (
        lambda g: [g.op("Mull", g.input("x"), two(g))],
        r"standard: g.op\('Mull'\): got no operator of ai.onnx, expected one. Did you mean 'Mul'",
    ),
    "inputs_of_a_node": (
        lambda g: [g.op("Mul", g.input("x"))],
        r"standard: g.op\('Mul'\): got 1 input, expected 2 inputs",
    ),
    "outputs_of_a_node": (
        lambda g: [*g.op("Mul", g.input("x"), two(g), outputs=2)][:1],
        r"standard: g.op\('Mul'\): got 2 outputs, expected 1 output",
    ),
    "attribute_of_a_node": (
        lambda g: [g.op("Softmax", g.input("x"), axes=1)],
        r"standard: g.op\('Softmax'\): got attribute axes, expected the attributes axis. "
        "Did you mean 'axis'",
    ),
    "attribute_of_none": (
        lambda g: [g.op("Sign", g.input("x"), axis=1)],
        r"standard: g.op\('Sign'\): got attribute axis, expected no attributes",
    ),
    "required_attribute": (
        lambda g: [g.op("Cast", g.input("x"))],
        r"standard: g.op\('Cast'\): got no attribute to, expected one: it is required",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_are_named(mistake: str) -> None:
    standard, text = MISTAKES[mistake]
    op = made(standard)
    with pytest.raises(ValueError, match=f"{op.__name__}: {text}") as error:
        lowered(op)
    assert not isinstance(error.value, LoweringError)  # which becomes a warning in some exports


@pytest.mark.parametrize(
    ("operator", "opset", "text"),
    [
        ("Gelu", 18, "Gelu, which `standard` of .* writes, is new in opset 20. Take opset 20"),
        ("Upsample", 13, "Upsample is deprecated there"),
    ],
)
def test_an_operator_of_other_opsets_is_refused(operator: str, opset: int, text: str) -> None:
    with pytest.raises(LoweringError, match=f"cannot be written in ai.onnx opset {opset}: {text}"):
        lowered(made(lambda g: [g.op(operator, g.input("x"))]), opset)


@pytest.mark.parametrize(
    ("opset", "write", "text"),
    [
        (17, lambda g: g.op("ReduceMax", g.input("x"), g.constant(np.int64([1]))),
         "ReduceMax, which `standard` of .* writes with 2 inputs, has 1 input there. Take opset 18 "
         "or later, or write another node where g.opset is less"),
        (18, lambda g: g.op("ReduceMax", g.input("x"), axes=[1]),
         "ReduceMax, which `standard` of .* writes with the attribute axes, has the attributes "
         "keepdims, noop_with_empty_axes there. Write it for g.opset 18 too"),
    ],
)  # fmt: skip
def test_a_node_of_other_opsets_is_refused(opset: int, write: Any, text: str) -> None:
    with pytest.raises(LoweringError, match=f"cannot be written in ai.onnx opset {opset}: {text}"):
        lowered(made(lambda g: [write(g)]), opset)


def test_an_array_is_a_name() -> None:
    def standard(g: Any) -> list[Any]:
        x = myops.onnx.arrays.Array(g, np.float32, name=g.input("x"))
        return [x * 2]

    assert [node.op_type for node in lowered(made(standard)).graph.node] == ["Constant", "Mul"]


class Model(torch.nn.Module):
    def __init__(self, op: Any) -> None:
        super().__init__()
        self.op = op

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        return self.op(*inputs) + 1


WHERE = "which `standard` of the op standard_mistakes::rule\\d+ wrote for the call at .*{}"


@pytest.mark.parametrize("target", ["onnx", "myops"])
@pytest.mark.parametrize("exporter", ["dynamo", "torchscript"])
def test_an_export_names_the_op_whose_rule_is_wrong(exporter: str, target: str) -> None:
    line = "test_standard_mistakes.py:\\d+: return self.op"
    wrong = Model(made(lambda g: [g.op("Add", g.input("x"), two(g))]))
    settings = {"exporter": exporter, "opset_version": 18, "target": target}
    with pytest.raises(ExportCheckError, match=f"numbers: .*{WHERE.format(line)}") as error:
        export(wrong, torch.randn(2, 3), **settings)
    assert "register_symbolic" not in str(error.value)
    wide = Model(made(lambda g: [product(g, g.input("x"), g.constant(np.array(2.0)))]))
    with pytest.raises((RuntimeError, ExportCheckError), match=WHERE.format(line)) as error:
        export(wide, torch.randn(2, 3), **settings)
    assert "torch's exporter wrote" not in str(error.value)


@pytest.mark.parametrize("target", ["onnx", "myops"])
@pytest.mark.parametrize("exporter", ["dynamo", "torchscript"])
def test_an_input_that_the_rule_does_not_use_is_named(exporter: str, target: str) -> None:
    op = made(lambda g: [product(g)], function=lambda x, w, *, k: x * k + (0 if w is None else w))
    with pytest.raises(
        ExportCheckError,
        match=r"but not that of the exported model: `standard` of the op standard_mistakes::rule"
        r".* does not use the input 'w'",
    ):
        export(
            Model(op), (torch.randn(2, 3), torch.randn(2, 3)),
            exporter=exporter, opset_version=18, target=target,
        )  # fmt: skip


def test_an_input_that_the_rule_uses_for_another_output_only() -> None:
    op = made(
        lambda g: [product(g), g.op("Relu", g.input("w"))],
        function=lambda x, w, *, k: (x * k + w, w.clip(0)),
        outputs=[myops.Output("y", "T", "."), myops.Output("z", "T", ".")],
        shape=lambda inputs, attributes: [inputs[0].shape] * 2,
    )
    for exporter in ("dynamo", "torchscript"):
        with pytest.raises(ExportCheckError, match="does not use the input 'w' for y"):
            export(
                Model(lambda *inputs: op(*inputs)[0]), (torch.randn(2, 3), torch.randn(2, 3)),
                exporter=exporter, opset_version=18, target="onnx",
            )  # fmt: skip


def test_a_rule_of_an_upgrade_is_named_so() -> None:
    first = made(lambda g: [product(g)], onnx_type="Upgraded", upgrade=lambda g: None)
    made(lambda g: [product(g)], onnx_type="Upgraded", since_version=2)
    node = helper.make_node("Upgraded", ["x"], ["y"], "call", domain="standard_mistakes")
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 3]) for name in "xy"]
    imports = [helper.make_opsetid("", 18), helper.make_opsetid("standard_mistakes", 1)]
    graph = helper.make_graph([node], "graph", infos[:1], infos[1:])
    with pytest.raises(ValueError, match=f"{first.__name__}: upgrade: got None, {EXPECTED}"):
        myops.onnx.upgrade_ops(helper.make_model(graph, opset_imports=imports, ir_version=8))
