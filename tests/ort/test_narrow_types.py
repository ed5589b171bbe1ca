"""Models with inputs or outputs of types that NumPy does not have, in the tools that run them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import myops.onnx
import myops.ort

NARROW = {"bfloat16": "BFLOAT16", "float8_e4m3fn": "FLOAT8E4M3FN", "float8_e5m2": "FLOAT8E5M2",
          "float8_e4m3fnuz": "FLOAT8E4M3FNUZ", "float8_e5m2fnuz": "FLOAT8E5M2FNUZ"}  # fmt: skip


def model(folder: Path, types: tuple[int, ...], shape: Any = ("N",)) -> str:
    """A chain of casts through these types."""
    nodes = [helper.make_node("Cast", [f"v{i}"], [f"v{i + 1}"], to=kind)
             for i, kind in enumerate(types[1:])]  # fmt: skip
    last = f"v{len(nodes)}"
    graph = helper.make_graph(
        nodes, "casts", [helper.make_tensor_value_info("v0", types[0], shape)],
        [helper.make_tensor_value_info(last, types[-1], shape)],
    )  # fmt: skip
    path = folder / "model.onnx"
    opsets = [helper.make_opsetid("", 21)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=10), path)
    return str(path)


@pytest.mark.parametrize("shape", [("N",), (), (0, 3)])
@pytest.mark.parametrize("narrow", NARROW)
@pytest.mark.parametrize("place", ["input", "output", "both"])
def test_a_model_that_runs_is_run(place: str, narrow: str, shape: Any, tmp_path: Path) -> None:
    """doctor said that it fails; the others refused it."""
    wide, kind = TensorProto.FLOAT, getattr(TensorProto, NARROW[narrow])
    types = {"input": (kind, wide), "output": (wide, kind), "both": (kind, wide, kind)}[place]
    path = model(tmp_path, types, shape)
    report = myops.ort.doctor(path, run=True)
    assert (report.verdict, report.exit_status, report.findings) == ("runs", 0, [])
    (given,) = report.inputs.values()
    assert given["dtype"] == ("float32" if place == "output" else narrow)
    assert myops.ort.explain(path).ms > 0
    result = myops.ort.bench(path, path, repeat=2, warmup=0)
    assert list(result.differences.values()) == [0.0]
    assert myops.onnx.compare_files(path, path).passed


def test_results_are_compared_as_numbers(tmp_path: Path) -> None:
    """With bits, 1.0 and its neighbour would differ by one, and NaN would not be seen."""
    path = model(tmp_path, (TensorProto.FLOAT, TensorProto.BFLOAT16), (3,))
    (tmp_path / "other").mkdir()
    types = (TensorProto.FLOAT, TensorProto.FLOAT8E5M2, TensorProto.BFLOAT16)
    other = model(tmp_path / "other", types, (3,))
    x = np.float32([1.125, 2, 3])  # 1.125 is 1 in float8_e5m2
    result = myops.ort.bench(path, other, inputs={"v0": x}, repeat=2)
    assert result.differences == {other: 0.125 / 3}
    nan = myops.ort.doctor(path, run=True, inputs={"v0": np.float32([1, np.nan, 3])})
    assert [finding.code for finding in nan.findings] == ["not-finite"]


@pytest.mark.parametrize("given", [np.float32, np.int64])
def test_arrays_of_numbers_are_converted(given: Any, tmp_path: Path) -> None:
    kind = TensorProto.FLOAT8E4M3FN
    path = model(tmp_path, (kind, TensorProto.FLOAT))
    np.save(tmp_path / "x.npy", given([1, 2, 3]))
    for inputs in ({"v0": str(tmp_path / "x.npy")}, {"v0": given([1, 2, 3])}):
        report = myops.ort.doctor(path, run=True, inputs=inputs)
        assert report.verdict == "runs"
        assert report.inputs["v0"]["shape"] == [3]
        assert myops.ort.explain(path, inputs=inputs).inputs["v0"]["dtype"] == "float8_e4m3fn"


def test_a_file_of_bfloat16_is_read(tmp_path: Path) -> None:
    """NumPy writes its elements as two bytes without a meaning."""
    import ml_dtypes

    path = model(tmp_path, (TensorProto.BFLOAT16, TensorProto.FLOAT))
    np.save(tmp_path / "x.npy", np.array([1, 2, 3], ml_dtypes.bfloat16))
    asked = {"v0": str(tmp_path / "x.npy")}
    assert myops.ort.doctor(path, run=True, inputs=asked).verdict == "runs"
    assert myops.ort.explain(path, inputs=asked).inputs["v0"]["dtype"] == "bfloat16"


@pytest.mark.parametrize("inputs", [{}, {"v0": np.int8([1, 2])}])
def test_types_that_nobody_can_give_are_named(inputs: Any, tmp_path: Path) -> None:
    """Without the advice to give an array, which failed too, as the fault of the model."""
    path = model(tmp_path, (TensorProto.INT4, TensorProto.FLOAT), (2,))
    report = myops.ort.doctor(path, run=True, inputs=inputs)
    assert (report.verdict, report.exit_status) == ("loads", 0)
    (finding,) = report.findings
    assert finding.code == "not-run"
    assert finding.why.startswith("input 'v0' is int4, and ONNX Runtime takes no arrays")
    assert "--input" not in finding.fix
    with pytest.raises(ValueError, match="input 'v0' is int4, and ONNX Runtime takes no arrays"):
        myops.ort.explain(path, inputs=inputs)


def test_results_of_four_bits_are_no_failure(tmp_path: Path) -> None:
    path = model(tmp_path, (TensorProto.FLOAT, TensorProto.INT4))
    assert myops.ort.doctor(path, run=True).verdict == "runs"
    assert myops.ort.explain(path).ms > 0


def test_simplify_compares_them(tmp_path: Path) -> None:
    path = model(tmp_path, (TensorProto.BFLOAT16, TensorProto.FLOAT, TensorProto.BFLOAT16))
    assert myops.onnx.simplify(path).model.graph.output[0].name == "v2"
