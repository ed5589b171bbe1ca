"""Shape inference of values with one axis: onnx follows every element of them."""

from __future__ import annotations

from typing import Any

import onnx
import pytest
from onnx import shape_inference

import myops.onnx
from myops.onnx.graph import inference, propagation, scopes

# Three computations of a length: of a shape, of a constant, and of an axis.
MODELS = {
    "constant": "y = ConstantOfShape(n) z = Add(y, y)",
    "reshaped": "y = Reshape(x, flat) z = Mul(y, y)",
    "short": "s = Shape(x) t = Concat<axis = 0>(s, one) z = Reshape(x, t)",
}


def model_of(name: str, length: int) -> onnx.ModelProto:
    return onnx.parser.parse_model(f"""<ir_version: 8, opset_import: ["": 17]>
        g (float[2, {length}] x) => (z)
        <int64[1] n = {{{length}}}, int64[1] flat = {{-1}}, int64[1] one = {{1}}>
        {{ {MODELS[name]} }}""")


@pytest.fixture
def followed(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each call of onnx's function was one that follows values."""
    calls: list[bool] = []
    given = shape_inference.infer_shapes

    def infer_shapes(model: onnx.ModelProto, *args: Any, **options: Any) -> onnx.ModelProto:
        calls.append(bool(options.get("data_prop")))
        return given(model, *args, **options)

    monkeypatch.setattr(shape_inference, "infer_shapes", infer_shapes)
    return calls


@pytest.mark.parametrize("name", ["constant", "reshaped"])
def test_long_values_are_not_followed(name: str, followed: list[bool]) -> None:
    """150 bytes for each of 2**40 elements would be all memory, from a file of a hundred bytes."""
    model = model_of(name, 2**40)
    list(scopes.all_scopes(model))
    inference.infer(model)
    assert inference.problem(model) == ""
    myops.onnx.lower(model)
    assert followed
    assert not any(followed)


@pytest.mark.parametrize("name", MODELS)
def test_others_are(name: str, followed: list[bool]) -> None:
    model = model_of(name, 6)
    shape = inference.infer(model).graph.output[0].type.tensor_type.shape
    assert [dim.dim_value for dim in shape.dim] == {
        "constant": [6], "reshaped": [12], "short": [2, 6, 1],
    }[name]  # fmt: skip
    assert any(followed)


# Computations of a long value whose length is known only to who follows the values: z is read by
# an operator that onnx follows.
HIDDEN = {
    "product": "m = Mul(n, k) y = ConstantOfShape(m) z = Add(y, y)",
    "cast": "m = Mul(n, k) y = ConstantOfShape(m) c = Cast<to = 1>(y) z = Mul(c, c)",
    "concatenated": "m = Mul(n, one) y0 = ConstantOfShape(m) "
    + " ".join(f"y{i + 1} = Concat<axis = 0>(y{i}, y{i})" for i in range(12))
    + " z = Identity(y12)",
    "reduced": "m = Mul(n, k) s = Concat<axis = 0>(m, one) y = ConstantOfShape(s) "
    "r = ReduceMean<axes = [1], keepdims = 0>(y) z = Add(r, r)",
    "squeezed": "m = Mul(n, k) s = Concat<axis = 0>(m, one) y = ConstantOfShape(s) r = Squeeze(y) "
    "z = Add(r, r)",
    "in steps": "m = Mul(one, n) y = ConstantOfShape(m) s = Shape(y) t = Mul(s, k) "
    "u = ConstantOfShape(t) z = Sub(u, u)",
    "sliced": "m = Mul(n, k) zero = Sub(k, k) v = Slice(m, zero, k) u = Concat<axis = 0>(v) "
    "w = Mul(u, one) y = ConstantOfShape(w) z = Add(y, y)",
    "in a function": "z = d.f(n, k)",
    "before a function": "m = Mul(n, k) y = ConstantOfShape(m) z = d.g(y)",
}
FUNCTIONS = """
    <domain: "d", opset_import: ["": 17]>
    f (n, k) => (z) { m = Mul(n, k) y = ConstantOfShape(m) z = Add(y, y) }
    <domain: "d", opset_import: ["": 17]>
    g (y) => (z) { z = Add(y, y) }"""


def hidden(name: str, n: int, k: int) -> onnx.ModelProto:
    return onnx.parser.parse_model(
        f"""<ir_version: 8, opset_import: ["": 17, "d": 1]> g (float[2] x) => (z)
        <int64[1] n = {{{n}}}, int64[1] k = {{{k}}}, int64[1] one = {{1}}> {{ {HIDDEN[name]} }}"""
        + FUNCTIONS * ("function" in name)
    )


def output_shape(model: onnx.ModelProto) -> list[int]:
    (output,) = inference.infer(model).graph.output
    return [dim.dim_value for dim in output.type.tensor_type.shape.dim]


@pytest.mark.parametrize("name", HIDDEN)
def test_long_values_of_hidden_length_are_not_followed(name: str) -> None:
    """Following 2^21 elements takes 300 MB for each node; a file may state 2^40 as well."""
    shape = output_shape(hidden(name, 2048, 1024))
    assert shape in ([], [0]), "the length is known, so the values were followed"


@pytest.mark.parametrize("name", HIDDEN)
def test_short_values_of_hidden_length_are_followed(name: str) -> None:
    expected = [5 * 2**12] if name == "concatenated" else [15]
    assert output_shape(hidden(name, 5, 3)) == expected


def test_many_values_that_are_not_long_are_not_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    model = hidden("product", 50, 10)
    assert output_shape(model) == [500]
    monkeypatch.setattr(propagation, "_MOST", 900)
    assert output_shape(model) in ([], [0])


def test_lengths_that_follow_from_each_other_often_end(followed: list[bool]) -> None:
    """Each step takes a shape inference of the whole model."""
    steps = "".join(
        f"m{i} = Mul(n, one{i}) y{i} = ConstantOfShape(m{i}) c{i} = Cast<to = 7>(y{i}) "
        f"one{i + 1} = Shape(c{i}) "
        for i in range(40)
    )
    model = onnx.parser.parse_model(f"""<ir_version: 8, opset_import: ["": 17]>
        g (float[2] x) => (z)
        <int64[1] n = {{1}}, int64[1] one0 = {{1}}> {{ {steps} z = ConstantOfShape(one40) }}""")
    assert output_shape(model) in ([], [0])
    assert 5 < len(followed) < 20
