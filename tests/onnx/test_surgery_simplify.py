"""simplify and view: custom nodes and numbers stay, documentation is served."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import urllib.request
from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from surgery_models import FLOAT, captured, exported, info, linear, model_of, run, zoo

from myops import _description
from myops.onnx.surgery import slimming, viewer
from myops.onnx.surgery.slimming import SimplifyError, simplify


@pytest.mark.parametrize("exporter", ["dynamo", "torchscript"])
def test_our_node_stays_and_constants_behind_it_fold(exporter: str) -> None:
    model = exported("upscale", exporter)
    result = simplify(model)
    assert result.difference is not None
    assert result.difference <= 1e-6
    assert result.before["myops::Resize"] == result.after["myops::Resize"] == 1
    assert sum(result.after.values()) < sum(result.before.values())
    assert len(result.model.functions) == 1
    feeds = {"x": np.random.rand(1, 3, 6, 5).astype(np.float32), "factor": np.float32([3, 2])}
    np.testing.assert_allclose(run(result.model, **feeds)[0], run(model, **feeds)[0], atol=1e-5)


def test_shapes_are_inferred_behind_our_node() -> None:
    """Only with the shape of our node's output its Shape and what hangs on it can fold."""
    nodes = [
        helper.make_node("MyAdd", ["X", "X"], ["a"], domain="myops"),
        helper.make_node("Shape", ["a"], ["s"]),
        helper.make_node("Reshape", ["a", "s"], ["r"]),
        helper.make_node("Relu", ["r"], ["Y"]),
    ]
    model = model_of(nodes, [info("X", FLOAT, [2, 3])], [info("Y", FLOAT, [2, 3])],
                     domains=["myops"])  # fmt: skip
    assert simplify(model).after == {"Relu": 1, "myops::MyAdd": 1}


def test_functions_bodies_and_other_domains() -> None:
    for model in (zoo(), captured()):
        result = simplify(model)
        assert result.difference == 0
    kept = Counter(node.domain for node in simplify(zoo()).model.graph.node)
    assert kept == {"com.microsoft": 1, "ai.onnx.contrib": 1, "other": 1, "": 1}


def test_equal_custom_nodes_are_not_merged() -> None:
    nodes = [helper.make_node("MyAdd", ["X", "X"], [name], domain="myops") for name in "ab"]
    nodes.append(helper.make_node("Mul", ["a", "b"], ["Y"]))
    model = model_of(nodes, [info("X", FLOAT, [2])], [info("Y", FLOAT, [2])], domains=["myops"])
    assert simplify(model).after["myops::MyAdd"] == 2


def test_what_the_tool_breaks_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "small.onnx"
    model = exported("upscale")
    honest = slimming._slim

    def spoil(source: onnx.ModelProto, skipped: list[str]) -> onnx.ModelProto:
        result = honest(source, skipped)
        bias = next(t for t in result.graph.initializer if t.name.endswith("tail.bias"))
        array = numpy_helper.to_array(bias) + np.float32(0.01)
        bias.CopyFrom(numpy_helper.from_array(array, bias.name))
        return result

    def lose(source: onnx.ModelProto, skipped: list[str]) -> onnx.ModelProto:
        result = honest(source, skipped)
        node = next(n for n in result.graph.node if n.domain == "myops")
        node.CopyFrom(helper.make_node("Identity", node.input[:1], node.output))
        return result

    for fault, text in ((spoil, "output 'y' differs by"), (lose, "lost custom nodes: 1 myops")):
        monkeypatch.setattr(slimming, "_slim", fault)
        with pytest.raises(SimplifyError, match=text):
            simplify(model, target)
    assert not target.exists()


def test_a_model_that_random_inputs_do_not_fit() -> None:
    inputs = [info("X", FLOAT, ["n"]), info("I", onnx.TensorProto.INT64, ["m", "n"])]
    nodes = [helper.make_node("Reshape", ["X", "shape"], ["Y"])]
    shape = numpy_helper.from_array(np.int64([7, 3]), "shape")
    model = model_of(nodes, inputs[:1], [info("Y", FLOAT, [7, 3])], [shape])
    with pytest.raises(ValueError, match="does not run on random inputs"):
        simplify(model)
    assert simplify(model, shapes={"X": [21]}).difference == 0
    assert simplify(model, inputs={"X": np.ones(21, np.float32)}).difference == 0
    assert simplify(model, check=False).difference is None
    with pytest.raises(ValueError, match="no 'Z'"):
        simplify(model, shapes={"Z": [21]})


def fetch(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=10) as answer:
        return answer.read()


def test_view_serves_page_model_and_documentation(tmp_path: Path) -> None:
    pytest.importorskip("netron")
    path = tmp_path / "upscale.onnx"
    onnx.save(exported("upscale"), path)
    with viewer.view(path, browser=False) as running:
        folder = Path(running._folder.name)
        assert b"/data/upscale.onnx" in fetch(f"{running.url}/")
        entries = json.loads(fetch(f"{running.url}/onnx-metadata.json"))
        shown = onnx.ModelProto.FromString(fetch(f"{running.url}/data/upscale.onnx"))
    assert not folder.exists()
    with pytest.raises(OSError):  # noqa: PT011  refused or reset
        fetch(f"{running.url}/")
    standard = next(entry for entry in entries if entry["module"] == "ai.onnx")
    ours = {entry["name"]: entry for entry in entries if entry["module"] == "myops"}
    for op in _description.onnx_ops():
        entry = ours[op.onnx_type]
        assert set(entry) <= {*standard, "category", "attributes", "inputs", "outputs",
                              "type_constraints", "min_input", "max_input", "min_output",
                              "max_output"}  # fmt: skip
        assert entry["description"] == op.doc
        assert [item["name"] for item in entry["inputs"]] == [item.name for item in op.inputs]
        documented = {item["name"]: item["description"] for item in entry["attributes"]}
        assert set(documented) == {item.name for item in op.attributes}
        assert all(documented.values())
    # Netron shows a function instead of the documentation, so there is none; edges have shapes.
    assert not shown.functions
    assert any(item.name == "resize" for item in shown.graph.value_info)


def test_view_from_the_command_line(tmp_path: Path) -> None:
    pytest.importorskip("netron")
    path = tmp_path / "linear.onnx"
    onnx.save(linear(), path)
    with socket.socket() as probe:
        probe.bind(("localhost", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "myops", "view", str(path), "--no-browser", "--port",
               str(port), "--json"]  # fmt: skip
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            said = "".join(process.stdout.readline() for _ in range(3))
            url = json.loads(said)["url"]
            assert url == f"http://localhost:{port}"
            assert onnx.ModelProto.FromString(fetch(f"{url}/data/linear.onnx")).graph.node
            taken = subprocess.run(command, capture_output=True, text=True, check=False)
            assert taken.returncode == 2
            assert f"port {port} cannot be used" in taken.stderr
        finally:
            os.kill(process.pid, signal.SIGTERM)
            process.wait(10)


def test_without_netron(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(viewer.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r"pip install .myops\[view\]"):
        viewer.view(linear(), browser=False)
