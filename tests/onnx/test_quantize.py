"""`quantize`: ONNX Runtime's quantizer on models with custom nodes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper
from onnxruntime.capi.onnxruntime_pybind11_state import Fail
from precision_models import by_name, check, model, network, node, value, weight
from prototype_ops import soft_clip_prototype

import myops
import myops.onnx
import myops.ort
from myops.onnx.graph import scopes
from myops.onnx.precision.integer_ops import declared
from myops.onnx.precision.losses import relative_l2

RANDOM = np.random.default_rng(3)
DATA = [{"x": RANDOM.standard_normal((1, 3, 12, 10)).astype(np.float32)} for _ in range(4)]


def run(made: onnx.ModelProto, feeds: dict[str, Any], level: str = "all") -> list[Any]:
    options = onnxruntime.SessionOptions()
    if level != "all":
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return myops.ort.session(made, session_options=options).run(None, feeds)


def resize_of(made: onnx.ModelProto) -> onnx.NodeProto:
    (found,) = [n for n in made.graph.node if n.domain == "myops"]
    return found


def test_the_quantizer_of_onnxruntime_alone_fails(tmp_path: Path) -> None:
    """The reason for our code: if this runs one day, less of it is needed."""
    from onnxruntime.quantization import CalibrationDataReader, quantize_static

    class Reader(CalibrationDataReader):
        def get_next(self) -> None:
            return None

    with pytest.raises(Fail, match="myops"):
        quantize_static(network(), tmp_path / "out.onnx", Reader())


@pytest.mark.parametrize("activations", ["uint8", "int8"])
@pytest.mark.parametrize("method", ["minmax", "entropy", "percentile"])
def test_a_network_is_quantized(method: str, activations: str, tmp_path: Path) -> None:
    source = network(channels=16)
    path = tmp_path / "int8.onnx"
    steps: list[str] = []
    result = myops.onnx.quantize(source, path, data=DATA, method=method, activations=activations,
                                 progress=lambda text: steps.append(text))  # fmt: skip
    assert steps.count("calibration") == len(DATA)
    assert [item.name for item in result.model.graph.input] == ["x"]
    assert [item.name for item in result.model.graph.output] == ["y"]
    assert result.losses["y"] < 0.15
    loaded = onnx.load(path)
    expected = [run(source, feed)[0] for feed in DATA]
    got = [run(loaded, feed)[0] for feed in DATA]
    losses = [relative_l2(a, b) for a, b in zip(expected, got, strict=True)]
    assert max(losses) == pytest.approx(result.losses["y"], rel=1e-3)
    assert result.bytes_after < result.bytes_before
    kinds = {t.data_type for t in loaded.graph.initializer
             if t.name.startswith("W") and t.name.endswith("_quantized")}  # fmt: skip
    assert kinds == {TensorProto.INT8}
    losing = [item.loss for item in result.worst]
    assert losing == sorted(losing, reverse=True)
    assert {"Conv_c1", "Conv_c2", "Conv_y"} <= {item.name.split("'")[1] for item in result.worst}


def test_resize_runs_on_integers() -> None:
    """The node reads the output of a quantize node, and its result equals that of a float node
    between dequantize and quantize."""
    result = myops.onnx.quantize(network(), data=DATA, reduce_range=False)
    made = resize_of(result.model)
    makers = {name: n.op_type for n in result.model.graph.node for name in n.output}
    readers = {name: n.op_type for n in result.model.graph.node for name in n.input}
    assert makers[made.input[0]] == "QuantizeLinear"
    assert readers[made.output[0]] == "DequantizeLinear"
    assert by_name(result)["Resize_u"].precision == "int8"
    # The same file with the node in float, between dequantize and quantize.
    floats = onnx.ModelProto()
    floats.CopyFrom(result.model)
    again = resize_of(floats)
    pair = next(n for n in floats.graph.node if again.output[0] in n.input)
    given, out = again.input[0], again.output[0]
    place = list(floats.graph.node).index(again)
    again.input[0], again.output[0] = "wide_in", "wide_out"
    parameters = list(pair.input[1:])
    floats.graph.node.insert(
        place, helper.make_node("DequantizeLinear", [given, *parameters], ["wide_in"])
    )
    floats.graph.node.insert(
        place + 2, helper.make_node("QuantizeLinear", ["wide_out", *parameters], [out])
    )
    for feed in DATA:
        one, two = run(result.model, feed, "none")[0], run(floats, feed, "none")[0]
        assert relative_l2(two, one) < 0.01  # ties are rounded away from zero and to even


@pytest.mark.parametrize(("attributes", "declares"), [
    ({"mode": "nearest"}, True), ({"mode": "linear"}, True),
    ({"mode": "linear", "antialias": 1}, True), ({"mode": "cubic"}, False),
    ({"mode": "linear", "coordinate_transformation_mode": "tf_crop_and_resize"}, False),
    ({}, True),
])  # fmt: skip
def test_resize_declares_its_integer_modes(attributes: dict[str, Any], declares: bool) -> None:
    made = node("Resize", "x - scales", "y", "myops", **attributes)
    places, why = declared(made, "uint8")
    assert (places == {0: 0}) == declares
    assert bool(why) != declares


@pytest.mark.parametrize("mode", ["nearest", "linear"])
@pytest.mark.parametrize("seed", range(4))
def test_resize_of_integers_equals_resize_of_floats(mode: str, seed: int) -> None:
    """Resizing the integers and resizing the values that they represent agree up to one
    rounding."""
    random = np.random.default_rng(seed)
    scale, zero = np.float32(random.uniform(0.01, 2)), int(random.integers(0, 256))
    integers = random.integers(0, 256, (1, 2, 7, 9)).astype(np.uint8)
    scales = weight("scales", np.float32([1, 1, *random.uniform(0.4, 3, 2)]))
    made = node("Resize", "x - scales", "y", "myops", mode=mode)
    narrow = model([made], [value("x", None, TensorProto.UINT8)],
                   [value("y", None, TensorProto.UINT8)], [scales])  # fmt: skip
    wide = model([made], [value("x")], [value("y")], [scales])
    (one,) = run(narrow, {"x": integers})
    (two,) = run(wide, {"x": (integers.astype(np.float32) - zero) * scale})
    steps = np.abs((one.astype(np.float64) - zero) - two.astype(np.float64) / scale)
    assert steps.max() <= (1e-3 if mode == "nearest" else 0.501)


def test_custom_nodes_that_declare_nothing_stay_float() -> None:
    """MyAdd and a cubic Resize stay float; the standard Resize beside them is quantized."""
    weights = [weight("W", (RANDOM.standard_normal((4, 3, 1, 1)) / 2).astype(np.float32)),
               weight("scales", np.float32([1, 1, 2, 2]))]  # fmt: skip
    nodes = [node("Conv", "x W", "c"), node("MyAdd", "c c", "a", "myops"),
             node("Resize", "c - scales", "u", "myops", mode="cubic"),
             node("Resize", "c - scales", "v", mode="linear"), node("Relu", "u", "r"),
             node("Add", "r v", "y")]  # fmt: skip
    source = model(nodes, [value("x", [1, 3, "h", "w"])], [value("y"), value("a")], weights)
    result = myops.onnx.quantize(source, data=DATA)
    found = by_name(result)
    assert found["MyAdd_a"].reason == "its op does not declare what it is on integers"
    assert "needs the numbers themselves" in found["Resize_u"].reason
    assert found["Resize_v"].precision == found["Conv_c"].precision == "int8"
    assert max(result.losses.values()) < 0.05
    int8 = myops.onnx.quantize(network(), data=DATA, activations="int8")
    found = by_name(int8)["Resize_u"]
    assert found.precision == "int8" or found.reason == "its op takes no int8"


def test_a_custom_op_named_like_a_standard_op_stays_custom() -> None:
    """Another library has an op with the name MatMul, which subtracts."""

    def subtract(a: Any, b: Any) -> Any:
        """a - b."""
        return a - b

    myops.prototype(
        subtract, domain="quantize_test", onnx_type="MatMul", types={"T": ["float32"]},
        inputs=[myops.Input("a", "T", "One."), myops.Input("b", "T", "Other.")],
        outputs=[myops.Output("y", "T", "Difference.")],
        shape=lambda inputs, attributes: [inputs[0].shape],
    )  # fmt: skip
    nodes = [node("Conv", "x W", "c"), node("MatMul", "c half", "y", "quantize_test")]
    weights = [weight("W", np.ones((3, 3, 1, 1), np.float32)), weight("half", np.float32([0.5]))]
    source = model(nodes, [value("x", [1, 3, 4, 4])], [value("y")], weights)
    source.opset_import.append(helper.make_opsetid("quantize_test", 1))
    from myops.onnx.precision.quantization import Quantization

    work = Quantization(source, "uint8", True, False, (), None, [], lambda *a: None)  # type: ignore[arg-type]
    work.prepare()
    assert work.reasons["MatMul_y"][0] == "custom"


def test_nested_graphs_functions_and_unnamed_nodes() -> None:
    """An If in the graph, functions of the file, unnamed nodes, function bodies of our nodes."""
    inner = helper.make_function(
        "mine", "Block", ["a", "w"], ["b"],
        [helper.make_node("Conv", ["a", "w"], ["c"]), helper.make_node("Relu", ["c"], ["b"])],
        [helper.make_opsetid("", 20)],
    )  # fmt: skip
    branch = {
        name: helper.make_graph([node(op, "h", f"{name}_y")], name, [], [value(f"{name}_y")])
        for name, op in (("then_branch", "Relu"), ("else_branch", "Tanh"))
    }
    nodes = [node("Block", "x W", "h", "mine"), node("If", "yes", "y", **branch)]
    weights = [weight("W", (RANDOM.standard_normal((3, 3, 1, 1)) / 2).astype(np.float32)),
               weight("yes", np.array(True))]  # fmt: skip
    source = model(nodes, [value("x", [1, 3, 12, 10])], [value("y")], weights, functions=[inner])
    for item in source.graph.node:
        item.name = ""
    result = myops.onnx.quantize(source, data=DATA)
    check(source, result)
    assert result.losses["y"] < 0.05
    kinds = {item.op_type: item.kind for item in result.nodes}
    assert kinds["If"] == "body"
    assert kinds["Conv"] == ""
    portable = myops.onnx.quantize(myops.onnx.add_function_bodies(network()), data=DATA)
    assert any(map(scopes.is_body, portable.model.functions))
    alone = onnxruntime.InferenceSession(portable.model.SerializeToString())
    (got,) = alone.run(None, DATA[0])
    assert relative_l2(run(network(), DATA[0])[0], got) < 0.1


@pytest.mark.parametrize("inside", [False, True])
def test_a_prototype_runs_during_calibration(inside: bool) -> None:
    """It runs in Python, also in a branch, between two quantized layers."""
    soft_clip_prototype("calibrated")

    def clip(given: str, made: str) -> Any:
        return node("SoftClip", given, made, "calibrated", limit=2.0)

    middle = [clip("a", "b")]
    if inside:
        branches = {
            branch: helper.make_graph(
                [clip("a", f"{branch}_y")], branch, [], [value(f"{branch}_y")]
            )
            for branch in ("then_branch", "else_branch")
        }
        middle = [node("If", "yes", "b", **branches)]
    nodes = [node("MatMul", "x W", "a"), *middle, node("MatMul", "b W", "y")]
    weights = [weight("W", (RANDOM.standard_normal((10, 10)) / 3).astype(np.float32)),
               weight("yes", np.array(True))]  # fmt: skip
    source = model(nodes, [value("x", [1, 3, 12, 10])], [value("y")], weights)
    source.opset_import.append(helper.make_opsetid("calibrated", 1))
    result = myops.onnx.quantize(source, data=DATA)
    check(source, result)
    assert 0 < result.losses["y"] < 0.05
    assert {item.op_type for item in result.nodes if item.precision == "int8"} == {"MatMul"}
