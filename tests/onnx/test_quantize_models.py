"""`quantize`: models and arguments that it refuses, models that are unusual, and the report."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from precision_models import model, network, node, value, weight

import myops
import myops.onnx
import myops.ort

RANDOM = np.random.default_rng(3)
DATA = [{"x": RANDOM.standard_normal((1, 3, 12, 10)).astype(np.float32)} for _ in range(4)]


def test_wrong_arguments_are_refused() -> None:
    old = network()
    old.opset_import[0].version = 10
    for source, more, text in (
        (network(), {"method": "mean"}, "minmax"), (network(), {"activations": "int4"}, "int8"),
        (network(), {"keep": ["Convolution"]}, "Conv"), (network(), {"most": 0}, "at least 1"),
        (network(), {"max_loss": -1}, "max_loss"), (network(), {"metric": "l3"}, "metric"),
        (old, {}, "opset 10, expected 13 or later for per_channel"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=text):
            myops.onnx.quantize(source, data=DATA, **more)  # type: ignore[arg-type]


def test_a_model_that_is_quantized_already_is_refused() -> None:
    inner = helper.make_graph(
        [node("QuantizeLinear", "x s z", "q"), node("DequantizeLinear", "q s z", "d")],
        "then", [], [value("d")],
    )  # fmt: skip
    other = helper.make_graph([node("Identity", "x", "e")], "else", [], [value("e")])
    branches = [helper.make_node("If", ["c"], ["y"], then_branch=inner, else_branch=other)]
    constants = [
        weight("s", np.float32(0.1)), weight("z", np.uint8(3)), weight("c", np.array(True)),
    ]  # fmt: skip
    nested = model(branches, [value("x", [1, 3, "h", "w"])], [value("y")], constants)
    for source, text in (
        (myops.onnx.quantize(network(), data=DATA).model, r"[0-9]+ QuantizeLinear nodes"),
        (nested, "1 DequantizeLinear and 1 QuantizeLinear nodes"),
    ):
        with pytest.raises(ValueError, match=f"{text}, which is quantized.*expected a float"):
            myops.onnx.quantize(source, data=DATA)


def test_the_report_as_text_json_and_html(capsys: pytest.CaptureFixture[str]) -> None:
    result = myops.onnx.quantize(network(), data=DATA)
    result.print(all_nodes=True)
    text = capsys.readouterr().out
    assert "nodes in int8" in text
    assert "alone loses" in text
    assert json.loads(json.dumps(result.to_dict()))["calibrated"] == 4
    assert "uint8 activations" in result._repr_html_()


def test_external_data_is_read(tmp_path: Path) -> None:
    path = tmp_path / "outside.onnx"
    onnx.save(network(), path, save_as_external_data=True, size_threshold=0, location="w.bin")
    result = myops.onnx.quantize(path, tmp_path / "int8.onnx", data=DATA)
    assert result.losses["y"] < 0.1
    assert numpy_helper.to_array(result.model.graph.initializer[0]) is not None


def test_an_input_with_a_default_that_becomes_a_constant_is_named() -> None:
    made = network()
    made.graph.input.append(helper.make_tensor_value_info("b1", TensorProto.FLOAT, [8]))
    result = myops.onnx.quantize(made, data=DATA)
    assert [item.name for item in result.model.graph.input] == ["x"]
    assert any("'b1' had a default" in note for note in result.notes)


@pytest.mark.parametrize("opset", [17, 19])
def test_layers_in_float16_are_quantized_from_opset_19_on(opset: int) -> None:
    """Before, QuantizeLinear reads float32 only, and such a model did not load."""
    random = np.random.default_rng(0)
    kinds = {"x": (TensorProto.FLOAT16, ["n", 8]), "y": (TensorProto.FLOAT, ["n", 4])}
    x, y = (helper.make_tensor_value_info(name, *kind) for name, kind in kinds.items())
    nodes = [
        node("MatMul", "x v", "h"), helper.make_node("Cast", ["h"], ["f"], to=1),
        node("MatMul", "f w", "y"),
    ]  # fmt: skip
    weights = [weight("v", random.standard_normal((8, 8)).astype(np.float16)),
               weight("w", random.standard_normal((8, 4)).astype(np.float32))]  # fmt: skip
    made = helper.make_model(
        helper.make_graph(nodes, "g", [x], [y], weights),
        opset_imports=[helper.make_opsetid("", opset)], ir_version=9,
    )  # fmt: skip
    data = [{"x": random.standard_normal((5, 8)).astype(np.float16)} for _ in range(4)]
    result = myops.onnx.quantize(made, data=data)
    products = [item for item in result.nodes if item.op_type == "MatMul"]
    assert [item.precision for item in products] == ["int8" if opset == 19 else "float16", "int8"]
    assert result.losses["y"] < 0.05
