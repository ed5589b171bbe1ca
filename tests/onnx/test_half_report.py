"""`to_half`: the kernels of a runtime, arguments, the report, and files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper
from onnxruntime.capi.onnxruntime_pybind11_state import InvalidGraph
from onnxruntime.capi.onnxruntime_pybind11_state import NotImplemented as NoKernel
from precision_models import HALVES, X, check, network, node, run, value

import myops.onnx
from myops.onnx.precision import kernels
from myops.onnx.precision.losses import relative_l2


def executed(made: onnx.ModelProto, x: Any, prefix: Path) -> list[str]:
    """The op types that ONNX Runtime runs, according to its profiler; none if it refuses the
    model."""
    options = onnxruntime.SessionOptions()
    options.enable_profiling, options.log_severity_level = True, 4
    options.profile_file_prefix = str(prefix)
    try:
        session = onnxruntime.InferenceSession(
            made.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
    except (NoKernel, InvalidGraph):
        return []
    binding = session.io_binding()
    binding.bind_ortvalue_input("x", x)
    binding.bind_output("y")
    session.run_with_iobinding(binding)
    events = json.loads(Path(session.end_profiling()).read_text())
    return [item["args"]["op_name"] for item in events if "op_name" in item.get("args", {})]


@pytest.mark.parametrize("op_type", ["Concat", "Identity", "Relu", "Sigmoid", "Sin", "Transpose"])
@pytest.mark.parametrize("dtype", list(HALVES))
def test_missing_kernels_are_those_that_onnxruntime_lacks(
    dtype: str, op_type: str, tmp_path: Path
) -> None:
    """ONNX Runtime has a kernel in half precision, or refuses the node, or puts casts around it."""
    imports, number = [helper.make_opsetid("", 20)], HALVES[dtype]
    made = node(op_type, "x", "y", **({"axis": 0} if op_type == "Concat" else {}))
    graph = helper.make_graph([made], "g", [value("x", [2], number)], [value("y", [2], number)])
    ones = np.ones(2, np.float16 if dtype == "float16" else ml_dtypes.bfloat16)
    ran = executed(
        helper.make_model(graph, opset_imports=imports, ir_version=9),
        onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(ones, number),
        tmp_path / "profile",
    )
    missing = kernels.missing(made, {0: number}, {0: number}, imports, 9)
    assert bool(missing) == (ran != [op_type]), (missing, ran)
    assert not kernels.missing(made, {0: 1}, {0: 1}, imports, 9)


def test_wrong_arguments_are_refused() -> None:
    source = network()
    for wrong, text in (
        ({"dtype": "float8"}, "dtype"), ({"runtime": "gpu"}, "runtime"),
        ({"metric": "l3"}, "metric"), ({"max_loss": -1}, "max_loss"),
        ({"layer_loss": float("nan")}, "layer_loss"), ({"keep": ["Convolution"]}, "Conv"),
        ({"data": []}, "data: got no inputs"), ({"data": [{"z": X}]}, "'z'"),
        ({"data": [{"x": X[0]}]}, r"got shape \[3, 12, 10\]"),
        ({"data": [{"x": X}], "inputs": {"x": X}}, "expected one of them"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=text):
            myops.onnx.to_half(source, **wrong)  # type: ignore[arg-type]


def test_the_report_as_text_json_and_html(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    result = myops.onnx.to_half(network(), data=[{"x": X}], keep_io_types=True)
    result.print()
    text = capsys.readouterr().out
    assert "no kernel in this runtime" in text or "Conv" not in text
    assert "loss on 1 input" in text
    result.print(all_nodes=True)
    assert len(capsys.readouterr().out.splitlines()) > len(result.nodes)
    data = json.loads(json.dumps(result.to_dict()))
    assert len(data["nodes"]) == len(result.nodes)
    assert data["holds"] is True
    page = result._repr_html_()
    assert "float16" in page


def test_external_data_is_read(tmp_path: Path) -> None:
    """Weights in other files are read, and the new ones are in the file."""
    source = network()
    path = tmp_path / "outside.onnx"
    onnx.save(source, path, save_as_external_data=True, size_threshold=0, location="w.bin")
    result = myops.onnx.to_half(path, tmp_path / "half.onnx", keep_io_types=True)
    check(source, result)
    (got,) = run(onnx.load(tmp_path / "half.onnx"), {"x": X})
    (expected,) = run(network(), {"x": X})
    assert relative_l2(expected, got) < 2e-3
    assert numpy_helper.to_array(result.model.graph.initializer[0]).dtype in (
        np.float16, ml_dtypes.bfloat16, np.float32)  # fmt: skip
