"""Models of 2 GiB and more, with a lower limit: weights that do not fit into one message."""

from __future__ import annotations

import gc
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import myops.onnx
import myops.ort
from myops.ort import _large, _session

LENGTH = 150


@pytest.fixture(autouse=True)
def low_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_session, "_MAX_BYTES", 20_000)


def model(kind: int = TensorProto.FLOAT, scale: float = 1.0) -> onnx.ModelProto:
    """2 (x @ w) + x @ w, its last node in a function of the file; one weight above the limit."""
    rng = np.random.default_rng(0)
    weight = scale * rng.normal(size=(LENGTH, LENGTH))
    tensor = numpy_helper.from_array(weight.astype(helper.tensor_dtype_to_np_dtype(kind)), "w")
    nodes = [
        helper.make_node("Cast", ["w"], ["v"], to=TensorProto.FLOAT),
        helper.make_node("MatMul", ["x", "v"], ["m"]),
        helper.make_node("MyAdd", ["m", "m"], ["a"], domain="myops"),
        helper.make_node("Same", ["a"], ["y"], domain="local"),
    ]
    opsets = [helper.make_opsetid("", 19), helper.make_opsetid("myops", 1)]
    same = helper.make_function(
        "local", "Same", ["i"], ["o"], [helper.make_node("Identity", ["i"], ["o"])], opsets[:1]
    )
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", LENGTH])
              for name in "xy"]  # fmt: skip
    graph = helper.make_graph(nodes, "graph", values[:1], values[1:], [tensor])
    opsets.append(helper.make_opsetid("local", 1))
    return helper.make_model(graph, opset_imports=opsets, ir_version=10, functions=[same])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "large.onnx"
    onnx.save(model(), file, save_as_external_data=True, location="large.data", size_threshold=0)
    return file


@pytest.mark.parametrize("level", ["ORT_DISABLE_ALL", "ORT_ENABLE_ALL"])
@pytest.mark.parametrize(
    "kind", [TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.INT8, TensorProto.DOUBLE]
)
def test_a_proto_runs_and_its_weights_are_kept(kind: int, level: str) -> None:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, level)
    given = model(kind, 9)
    x = np.random.default_rng(1).random((2, LENGTH), np.float32)
    wanted = 3 * x @ numpy_helper.to_array(given.graph.initializer[0]).astype(np.float32)
    session = myops.ort.session(given, session_options=options)
    del given, options
    gc.collect()
    others = [np.full((LENGTH, LENGTH), 7, np.float32) for _ in range(50)]
    np.testing.assert_allclose(session.run(None, {"x": x})[0], wanted, rtol=1e-4, atol=1e-3)
    assert others


def test_options_that_hold_weights_serve_one_session() -> None:
    """ONNX Runtime would give them to another model wherever a name is the same."""
    options = onnxruntime.SessionOptions()
    myops.ort.session(model(), session_options=options)
    assert options in _large._held
    with pytest.raises(ValueError, match=r"session_options: got those .* expected new ones"):
        myops.ort.session(model(scale=2), session_options=options)


@pytest.mark.parametrize("kind", [TensorProto.BFLOAT16, TensorProto.FLOAT8E5M2])
def test_other_types_are_refused(kind: int) -> None:
    with pytest.raises(ValueError, match=r"types that NumPy lacks.*save_as_external_data=True"):
        myops.ort.session(model(kind))


def test_files_with_external_weights_are_explained(path: Path) -> None:
    """Nodes without a name get one in a copy, which has the weights."""
    node = myops.ort.explain(path, dims={"n": 2}).nodes[0]
    assert (node.op, node.runs) == ("myops::MyAdd", "kernel")


def test_files_with_external_weights_are_timed_against_their_lowered_form(path: Path) -> None:
    result = myops.ort.bench(path, "lowered", dims={"n": 2}, repeat=2)
    assert result.differences["lowered"] <= 1e-5


@pytest.mark.parametrize("backend", ["ort", "ort-no-optimization", "reference"])
def test_files_with_external_weights_are_compared(path: Path, backend: str) -> None:
    standard = path.with_name("standard.onnx")
    myops.onnx.lower(path, f=standard)
    for options in ({"backend": backend}, {"against": backend}):
        report = myops.onnx.compare_files(path, standard, dims={"n": 2}, **options)
        assert report.passed
        assert {row.name for row in report.values} >= {"m", "a", "y"}
