"""`quantize` of models with many nodes, and what its report says of nodes that stay as they are."""

from __future__ import annotations

import cProfile
import io
import pstats
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import onnx
import pytest
from onnx import TensorProto
from onnxruntime.quantization import quant_utils
from onnxruntime.quantization.onnx_model import ONNXModel
from precision_models import by_name, model, network, node, random_graph, value, weight
from rich.console import Console

import myops.onnx
from myops.onnx.precision import calibration, indexed


def chain(layers: int) -> onnx.ModelProto:
    """Convolutions with a bias, each with a Relu, of which every third is read twice."""
    random = np.random.default_rng(1)
    nodes, weights, last = [], [], "x"
    for n in range(layers):
        weights.append(weight(f"w{n}", random.standard_normal((3, 3, 1, 1)).astype(np.float32)))
        weights.append(weight(f"b{n}", np.zeros(3, np.float32)))
        nodes += [node("Conv", f"{last} w{n} b{n}", f"c{n}"), node("Relu", f"c{n}", f"r{n}")]
        last = f"r{n}"
        if n % 3 == 0:
            nodes.append(node("Add", f"{last} c{n}", f"a{n}"))
            last = f"a{n}"
        nodes.append(node("LpNormalization", last, f"n{n}", axis=1))
        last = f"n{n}"
    shape = [1, 3, 4, 4]
    return model(nodes, [value("x", shape)], [value(last, shape)], weights)


def quantized(source: onnx.ModelProto, shape: tuple[int, ...], **options: Any) -> Any:
    data = [{"x": np.random.default_rng(0).standard_normal(shape).astype(np.float32)}]
    return myops.onnx.quantize(source, data=data, **options)


@pytest.mark.parametrize("options", [
    {}, {"activations": "int8", "per_channel": False}, {"method": "percentile"},
], ids=str)  # fmt: skip
@pytest.mark.parametrize("source", [
    pytest.param((network(), (1, 3, 12, 10)), id="resize"),
    pytest.param((chain(5), (1, 3, 4, 4)), id="chain"),
    *(pytest.param((random_graph(seed), (4, 4)), id=f"random{seed}") for seed in range(3)),
])  # fmt: skip
def test_the_index_changes_no_model(source: Any, options: dict[str, Any]) -> None:
    found = quantized(*source, **options).model
    plain = type("Plain", (ONNXModel,), {})  # which has no index
    with mock.patch.object(indexed, "IndexedModel", plain):
        expected = quantized(*source, **options).model
    assert found.graph.node == expected.graph.node
    assert found.graph.initializer == expected.graph.initializer
    assert found.graph.output == expected.graph.output


def test_the_ranges_are_those_of_the_calibrator_of_onnxruntime(tmp_path: Path) -> None:
    from onnxruntime.quantization.calibrate import MinMaxCalibrater

    made = calibration.prepared(chain(4), ())
    feeds = [{"x": np.random.default_rng(n).standard_normal((1, 3, 4, 4)).astype(np.float32)}
             for n in range(3)]  # fmt: skip
    found, unbounded = calibration.ranges(made, feeds, "minmax", (), (), lambda text: None)
    onnx.save(made, tmp_path / "made.onnx")
    plain = MinMaxCalibrater(tmp_path / "made.onnx", ["Conv", "Relu", "Add", "LpNormalization"],
                             augmented_model_path=str(tmp_path / "augmented.onnx"))  # fmt: skip
    plain.augment_graph()
    plain.create_inference_session()
    plain.collect_data(calibration._Reader(feeds))
    expected = plain.compute_data()
    assert len(list(found.keys())) > 10
    assert unbounded == set()
    for name in list(found.keys()):
        assert found[name].range_value == expected[name].range_value


def test_the_work_grows_with_the_number_of_nodes_only() -> None:
    def work(layers: int) -> tuple[int, int]:
        source, profile, looked = chain(layers), cProfile.Profile(), 0

        def find(name: str, items: Any) -> Any:
            nonlocal looked
            looked += len(items)
            return next((item for item in items if item.name == name), None)

        with mock.patch.object(quant_utils, "find_by_name", find):
            profile.enable()
            quantized(source, (1, 3, 4, 4))
            profile.disable()
        return pstats.Stats(profile, stream=io.StringIO()).total_calls, looked  # type: ignore[attr-defined]

    work(2)  # what is imported and cached once
    (few, _), (many, looked) = work(25), work(100)
    assert many < 4.4 * few
    assert looked == 0


@pytest.mark.parametrize(("kind", "dtype"), [
    (TensorProto.DOUBLE, "float64"), (TensorProto.FLOAT16, "float16"),
    (TensorProto.BFLOAT16, "bfloat16"), (TensorProto.FLOAT, "float32"),
])  # fmt: skip
def test_nodes_that_stay_have_their_own_dtype(kind: int, dtype: str) -> None:
    nodes = [node("Cast", "x", "a", to=kind), node("Identity", "a", "b"),
             node("Cast", "b", "c", to=TensorProto.FLOAT), node("Cast", "c", "i", to=7),
             node("Neg", "i", "n"), node("Cast", "n", "y", to=TensorProto.FLOAT)]  # fmt: skip
    made = model(nodes, [value("x", [2, 4])], [value("y", [2, 4])], opset=20)
    result = quantized(made, (2, 4))
    found = by_name(result)
    assert found["Identity_b"].precision == dtype
    assert found["Neg_n"].precision == "int64"
    if dtype == "float64":
        assert found["Identity_b"].reason == "ONNX Runtime's quantizer quantizes no float64"
    console = Console(file=io.StringIO(), width=200)
    result.print(console)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert dtype in text
    assert "int64, " in text or "or int64" in text
    assert f"<td>{' or '.join(sorted({dtype, 'float32', 'int64'}))}</td>" in result._repr_html_()


def test_a_report_of_sizes_that_are_computed() -> None:
    """Nodes that compute a length stay float, which the report has words for."""
    nodes = [
        node("Shape", "x", "s"),
        node("Cast", "s", "f", to=1),
        node("Mul", "f two", "g"),
        node("Cast", "g", "i", to=7),
        node("ReduceSum", "i", "r", keepdims=0),
        node("Cast", "r", "t", to=1),
        node("Conv", "x w", "c"),
        node("Add", "c t", "y"),
    ]
    made = model(
        nodes,
        [value("x", [1, 3, 4, 4])],
        [value("y", None)],
        [weight("w", np.ones((3, 3, 1, 1), np.float32)), weight("two", np.float32(2))],
    )
    result = quantized(made, (1, 3, 4, 4))
    assert "sizes" in {item.kind for item in result.nodes}
    console = Console(file=io.StringIO(), width=200)
    result.print(console)
    assert "float32 or int64, computed from shapes alone" in console.file.getvalue()  # type: ignore[attr-defined]
    assert "computed from shapes alone" in result._repr_html_()
