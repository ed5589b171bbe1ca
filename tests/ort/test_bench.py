"""`myops.ort.bench`: what is measured, in which order, on which inputs."""

from __future__ import annotations

import json
import time

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from rich.console import Console

from myops.ort import _bench, bench


def model(kind="Relu", depth=1, inputs=("x",), shape=("n", 4)):
    nodes = [helper.make_node("Sum", list(inputs), ["v0"])]
    nodes += [helper.make_node(kind, [f"v{i}"], [f"v{i + 1}"]) for i in range(depth)]
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, list(shape))
              for name in (*inputs, f"v{depth}")]  # fmt: skip
    graph = helper.make_graph(nodes, "graph", values[:-1], values[-1:])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def ours():
    node = helper.make_node("MyAdd", ["a", "b"], ["y"], domain="myops")
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n"]) for name in "aby"]
    graph = helper.make_graph([node], "graph", values[:2], values[2:])
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("myops", 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=8)


class Session:
    """A session whose runs take a given time and are recorded in a log."""

    def __init__(self, name, seconds, log):
        self._name, self._seconds, self._log = name, seconds, log

    def get_inputs(self):
        return []

    get_outputs = get_inputs

    def run(self, names, feed):
        self._log.append(self._name)
        end = time.perf_counter() + self._seconds
        while time.perf_counter() < end:
            pass


def test_models_take_turns_and_warm_up_first():
    log: list[str] = []
    sessions = {name: Session(name, 0.0, log) for name in "ab"}
    times = _bench._measured(sessions, {}, 2, 4, 1.0)
    assert log == [*"aabb", *"ab", *"ba", *"ab", *"ba"]
    assert {name: len(item) for name, item in times.items()} == {"a": 4, "b": 4}


def test_statistics_are_computed_from_the_runs():
    sessions = {"slow": Session("slow", 0.02, []), "fast": Session("fast", 0.005, [])}
    times = _bench._measured(sessions, {}, 0, None, 0.1)
    assert len(times["slow"]) >= 10  # at least, though the time is up before
    assert min(times["slow"]) >= 0.02
    base = float(np.percentile(times["slow"], 50))
    slow, fast = (_bench._timing(name, 1, times[name], base) for name in ("slow", "fast"))
    assert slow.relative == 1
    assert fast.relative == pytest.approx(np.median(times["fast"]) / base)
    assert fast.fastest == min(times["fast"])
    assert fast.throughput == pytest.approx(len(times["fast"]) / sum(times["fast"]))
    for item in (slow, fast):
        levels = [item.fastest, *item.percentiles.values()]
        assert levels == sorted(levels)
        assert list(item.percentiles) == [50, 90, 99]
        assert item.percentiles[99] in times[item.name]


def test_seconds_limits_the_time():
    sessions = {"a": Session("a", 0.001, [])}
    start = time.perf_counter()
    times = _bench._measured(sessions, {}, 0, None, 0.2)
    assert 0.15 < time.perf_counter() - start < 2
    assert len(times["a"]) > 20


def test_a_larger_model_takes_longer():
    found = bench(model(shape=(256, 256)), model("Erf", 60, shape=(256, 256)), seconds=0.2)
    assert found.timings[1].relative > 5
    assert [item.name for item in found.timings] == ["the model", "the other"]


def test_lowered_is_the_model_in_standard_operators():
    found = bench(ours(), "lowered", threads=[2, 1, 2], repeat=5, warmup=0, dims={"n": 7})
    assert [(t.name, t.threads, t.runs) for t in found.timings] == [
        ("the model", 2, 5), ("lowered", 2, 5), ("the model", 1, 5), ("lowered", 1, 5)
    ]  # fmt: skip
    assert found.differences["lowered"] < 1e-5
    assert found.inputs["a"] == {"dtype": "float32", "shape": [7], "invented": ""}
    with pytest.raises(ValueError, match="no node of an op library"):
        bench(model(), "lowered")


def test_different_results_are_reported():
    found = bench(model("Relu"), [model("Neg"), model("Relu")], repeat=1)
    assert found.differences["the other"] > 0.1
    assert found.differences["the other (2)"] == 0


def test_inputs_from_files_and_wrong_inputs(tmp_path):
    np.save(tmp_path / "x.npy", np.ones((3, 4), np.float32))
    found = bench(model(), inputs={"x": str(tmp_path / "x.npy")}, repeat=1)
    assert found.inputs["x"] == {"dtype": "float32", "shape": [3, 4], "invented": ""}
    found = bench(model(), repeat=1)
    assert "'n'" in found.inputs["x"]["invented"]
    half = model()
    for item in (*half.graph.input, *half.graph.output):
        item.type.tensor_type.elem_type = TensorProto.FLOAT16
    found = bench(half, inputs={"x": str(tmp_path / "x.npy")}, repeat=1)
    assert found.inputs["x"]["dtype"] == "float16"
    with pytest.raises(ValueError, match="no input 'z'"):
        bench(model(), inputs={"z": np.ones(3)})
    with pytest.raises(ValueError, match="has the inputs 'w', expected those of the first"):
        bench(model(), model(inputs=("w",)))
    with pytest.raises(RuntimeError, match=r"does not run; .* were tried"):
        bench(model(shape=("n", 4)), shapes={"x": [2, 5]})


@pytest.mark.parametrize(("options", "text"), [
    ({"threads": []}, "threads"), ({"threads": [0]}, "threads"), ({"warmup": -1}, "warmup"),
    ({"repeat": 0}, "repeat"), ({"repeat": 10**9}, "repeat"), ({"seconds": 0}, "seconds"),
    ({"seconds": float("nan")}, "seconds"),
])  # fmt: skip
def test_wrong_arguments_are_refused(options, text):
    with pytest.raises(ValueError, match=f"bench: {text}: got"):
        bench(model(), **options)


def test_unloadable_files_are_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="no such file"):
        bench(tmp_path / "gone.onnx")
    with pytest.raises(FileNotFoundError, match="no such file"):
        bench(model(), str(tmp_path / "gone.onnx"))
    with pytest.raises(RuntimeError, match=r"does not load the model: .*NoSuchOp"):
        bench(model("NoSuchOp"))


def test_a_file_named_lowered_is_preferred_to_the_keyword(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    onnx.save(model(), "lowered")
    assert bench(model(), "lowered", repeat=1).differences == {"lowered": 0.0}


def test_result_as_text_and_json(capsys):
    found = bench(ours(), "lowered", repeat=3, threads=[64])
    found.print(Console(width=150))
    shown = capsys.readouterr().out
    assert "p50 ms" in shown
    assert "outputs of lowered: apart by" in shown
    assert "64 threads share" in shown
    assert "Of 3 runs, the 99th percentile is the slowest of them." in shown
    data = json.loads(found.to_json())
    assert data["timings"][0]["percentiles"].keys() == {"50", "90", "99"}
    assert data["machine"]["cores"] >= 1
