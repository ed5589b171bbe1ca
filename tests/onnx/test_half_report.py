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
from precision_models import HALVES, X, check, model, network, node, run, value
from typer.testing import CliRunner

import myops.onnx
from myops import cli
from myops.onnx.graph import files
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


def file_sizes(*paths: Path) -> int:
    return sum(path.stat().st_size for path in paths)


def test_sizes_are_those_of_the_files(tmp_path: Path) -> None:
    source, target = tmp_path / "outside.onnx", tmp_path / "half.onnx"
    made = network()
    made.graph.doc_string = "What is no weight counts too. " * 20
    onnx.save(made, tmp_path / "inside.onnx")
    onnx.save(made, source, save_as_external_data=True, size_threshold=0, location="w.bin")
    result = myops.onnx.to_half(source, target, data=[{"x": X}])
    assert result.bytes_before == file_sizes(source, tmp_path / "w.bin")
    assert result.bytes_after == file_sizes(target)
    inside = myops.onnx.to_half(tmp_path / "inside.onnx", data=[{"x": X}])
    assert inside.bytes_before == file_sizes(tmp_path / "inside.onnx")
    assert inside.bytes_after == len(inside.model.SerializeToString())
    given = myops.onnx.to_half(network(), data=[{"x": X}])
    assert given.bytes_before == len(network().SerializeToString())


def test_sizes_include_weights_beside_a_large_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As those of 2 GB and more; a file left there by an earlier run does not count."""
    source, target = tmp_path / "net.onnx", tmp_path / "half.onnx"
    onnx.save(network(channels=64), source)
    data = tmp_path / "half.onnx.data"
    data.write_bytes(bytes(1000))
    result = myops.onnx.to_half(source, target, data=[{"x": X}])
    assert result.bytes_after == file_sizes(target)
    monkeypatch.setattr(files, "LIMIT", 2**24 + 1000)
    result = myops.onnx.to_half(source, target, data=[{"x": X}])
    assert data.stat().st_size > 1000
    assert result.bytes_after == file_sizes(target, data)


def test_a_model_of_which_nothing_becomes_half(tmp_path: Path) -> None:
    """The report says so and what to do, and the command's exit status is 1."""
    source = model([node("Sin", "x", "y")], [value("x", [3])], [value("y", [3])])
    onnx.save(source, tmp_path / "sin.onnx")
    words = ["half", str(tmp_path / "sin.onnx"), str(tmp_path / "half.onnx")]
    ended = CliRunner().invoke(cli.app(), words)
    assert ended.exit_code == 1
    text = " ".join(ended.output.split())
    assert "0 of 1 nodes in float16" in text
    assert 'No node became half; see the reasons. To convert more: runtime="any"' in text
    assert not myops.onnx.to_half(source).converted
    assert myops.onnx.to_half(source, runtime="any").converted
    integers = model([node("Neg", "x", "y")], [value("x", [3], 7)], [value("y", [3], 7)])
    result = myops.onnx.to_half(integers)
    assert not result.converted
    assert "No node became half: none has float32 values." in result.notes


def test_weights_in_half_alone_are_a_conversion() -> None:
    """Where this machine's ONNX Runtime lacks the kernels, the file is smaller nevertheless."""
    result = myops.onnx.to_half(network(), data=[{"x": X}], keep=["Add", "Relu", "myops::Resize"])
    assert result.converted
    assert result.to_dict()["converted"] is True


@pytest.mark.parametrize("metric", ["relative-l2", "sqnr"])
def test_outputs_without_floats_have_a_share(metric: str, capsys: pytest.CaptureFixture[str]):
    """A norm of the error says nothing of bools."""
    made = model([node("Tanh", "x", "y"), node("Greater", "y zero", "mask")], [value("x")],
                 [value("y"), value("mask", kind=onnx.TensorProto.BOOL)],
                 [numpy_helper.from_array(np.float32(0), "zero")])  # fmt: skip
    myops.onnx.to_half(made, inputs={"x": X}, runtime="any", metric=metric).print()
    lines = [line.split(maxsplit=1)[1] for line in capsys.readouterr().out.splitlines()
             if line.startswith("  ")]  # fmt: skip
    unit = "" if metric == "relative-l2" else "dB "
    assert lines[:2] == [f"{unit}y", "mask: share of the elements that differ"]
