"""Shape inference of values with one axis: onnx follows every element of them."""

from __future__ import annotations

from typing import Any

import onnx
import pytest
from onnx import shape_inference

import myops.onnx
from myops.onnx.graph import inference, scopes

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
