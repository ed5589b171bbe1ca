"""The doctor runs models on invented inputs; a failure on these is no error of the model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from doctor_cases import FLOAT, examine
from onnx import TensorProto, helper, numpy_helper

from myops.onnx.surgery import _demands
from myops.ort import doctor
from myops.ort._doctor import feeds
from myops.ort._doctor.feeds import Asked

INT64 = TensorProto.INT64
rng = np.random.default_rng(0)


def node(kind: str, inputs: str, output: str, **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(
        kind, inputs.split(), [output], f"{kind.lower()}_{output}", **attributes
    )


def model(inputs: dict[str, tuple[int, list[Any]]], nodes: Any, **weights: Any) -> onnx.ModelProto:
    values = [helper.make_tensor_value_info(name, *kind) for name, kind in inputs.items()]
    outputs = [helper.make_empty_tensor_value_info(nodes[-1].output[0])]
    numbers = [
        numpy_helper.from_array(
            rng.normal(size=item).astype(np.float32) if isinstance(item, tuple)
            else np.array(item, np.int64),
            name,
        )
        for name, item in weights.items()
    ]  # fmt: skip
    graph = helper.make_graph(nodes, "g", values, outputs, numbers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


PICTURE = {"x": (FLOAT, ["n", "c", "h", "w"])}
UNNAMED = {"x": (FLOAT, [None, None, None, None])}
DOWN = {"kernel_shape": [2, 2], "strides": [2, 2]}


def pyramid() -> onnx.ModelProto:
    """Halved and enlarged five times: lengths must be multiples of 32."""
    nodes, before = [node("Conv", "x k", "d0", pads=[1, 1, 1, 1])], "d0"
    for level in range(1, 6):
        nodes.append(node("MaxPool", before, f"d{level}", **DOWN))
        before = f"d{level}"
    for level in range(5, 0, -1):
        nodes.append(helper.make_node("Resize", [before, "", "twice"], [f"u{level}"]))
        nodes.append(node("Add", f"u{level} d{level - 1}", f"s{level}"))
        before = f"s{level}"
    found = model(PICTURE, nodes, k=(3, 3, 3, 3))
    found.graph.initializer.append(numpy_helper.from_array(np.float32([1, 1, 2, 2]), "twice"))
    return found


HEALTHY = {
    "fully convolutional": model(PICTURE, [node("Conv", "x k", "y")], k=(8, 3, 3, 3)),
    "unnamed axes": model(UNNAMED, [node("Conv", "x k", "y")], k=(8, 3, 3, 3)),
    "in groups": model(UNNAMED, [node("Conv", "x k", "y", group=4)], k=(8, 2, 3, 3)),
    "channels behind an activation": model(
        UNNAMED, [node("Relu", "x", "a"), node("Conv", "a k", "y")], k=(8, 5, 3, 3)),
    "a head for 224 pixels": model(
        PICTURE, [node("AveragePool", "x", "a", kernel_shape=[32, 32], strides=[32, 32]),
                  node("Flatten", "a", "b"), node("MatMul", "b w", "y")], w=(3 * 7 * 7, 10)),
    "a head for 320 pixels": model(
        PICTURE, [node("AveragePool", "x", "a", kernel_shape=[32, 32], strides=[32, 32]),
                  node("Flatten", "a", "b"), node("MatMul", "b w", "y")], w=(3 * 10 * 10, 10)),
    "a pyramid": pyramid(),
    "a fixed Reshape": model({"x": (FLOAT, ["n", None])}, [node("Reshape", "x s", "y")],
                             s=[1, 3, 20, 20]),
    "a Reshape of rows": model({"x": (FLOAT, ["n", 48])}, [node("Reshape", "x s", "y")],
                               s=[0, 3, 16]),
    "a perceptron": model(
        {"x": (FLOAT, ["n", None])},
        [node("Gemm", "x w b", "a", transB=1), node("Relu", "a", "r"), node("MatMul", "r v", "y")],
        w=(20, 37), b=(20,), v=(20, 5)),
    "a recurrent net": model(
        {"x": (FLOAT, ["time", "n", None])}, [helper.make_node("LSTM", ["x", "w", "r"], ["y"],
                                                               hidden_size=6)],
        w=(1, 24, 11), r=(1, 24, 6)),
    "embeddings": model({"ids": (INT64, ["n", "time"])},
                        [node("Gather", "table ids", "a"), node("MatMul", "a w", "y")],
                        table=(50, 12), w=(12, 4)),
    "past and present": model(
        {"past": (FLOAT, ["n", "p", 8]), "new": (FLOAT, ["n", 1, 8]),
         "mask": (FLOAT, ["n", "p + 1"])},
        [node("Concat", "past new", "a", axis=1), node("ReduceSum", "a axes", "b", keepdims=0),
         node("Mul", "b mask", "y")], axes=[2]),
    "lengths that must be equal": model(
        {"a": (FLOAT, ["p", 4]), "b": (FLOAT, ["q", 4])}, [node("Add", "a b", "y")]),
}  # fmt: skip


@pytest.mark.parametrize("name", HEALTHY)
def test_healthy_models_run_on_invented_inputs(name: str) -> None:
    report = examine(HEALTHY[name], run=True)
    assert (report.verdict, report.exit_status) == ("runs", 0), report
    assert report.inputs_are_invented
    assert "on invented inputs" in report.summary
    for item in HEALTHY[name].graph.input:
        facts = report.inputs[item.name]
        assert len(facts["shape"]) == len(item.type.tensor_type.shape.dim)


PICKY = model(  # the number must be 16000, as in many models of speech: else an index is too large
    {"x": (FLOAT, ["n", 512]), "rate": (INT64, [])},
    [node("Sub", "k rate", "a"), node("Gather", "table a", "g"), node("Mul", "x g", "y")],
    k=16000, table=(3,),
)  # fmt: skip


def test_a_failure_on_invented_inputs_is_a_warning() -> None:
    report = doctor(PICKY, run=True)
    assert (report.verdict, report.exit_status) == ("loads", 0), report
    (finding,) = [item for item in report.findings if item.code == "not-run"]
    assert finding.severity == "warning"
    assert "invented inputs" in finding.what
    assert "rate: the integers" in finding.why
    assert "may be right" in finding.why
    for option in ("--shape NAME:1x3x320x320", "--dim NAME=LENGTH", "--input NAME=FILE.npy"):
        assert option in finding.fix
    assert finding.message
    right = {"rate": np.array(16000, np.int64)}
    assert doctor(PICKY, inputs=right).verdict == "runs"
    report = doctor(PICKY, inputs={**right, "rate": np.array(1, np.int64)}, dims={"n": 1})
    assert (report.verdict, report.exit_status) == ("fails when it runs", 1)  # nothing is invented


def test_a_failure_with_any_input_is_an_error() -> None:
    """Fixed shapes; and, beside an open length, a node that does not depend on it."""
    bad = [node("Relu", "f", "r"), node("Reshape", "r s", "b")]
    fixed = model({"f": (FLOAT, [2, 3])}, bad, s=[7])
    report = examine(fixed, run=True)
    assert report.exit_status == 1, report
    both = model(
        {"f": (FLOAT, [2, 3]), "x": (FLOAT, ["n"])}, [*bad, node("Add", "b x", "y")], s=[7]
    )
    report = examine(both, run=True)
    assert report.exit_status == 1, report
    healthy_elsewhere = model({"f": (FLOAT, ["n", 3])}, bad, s=[7])
    report = examine(healthy_elsewhere, run=True)
    assert report.exit_status == 0, report
    assert any(item.code == "not-run" for item in report.findings)


def test_shapes_and_dims_of_the_caller_are_used(tmp_path: Path) -> None:
    from test_doctor_models import found

    head = HEALTHY["a head for 224 pixels"]
    for asked in ({"shapes": {"x": [2, 3, 224, 224]}}, {"dims": {"h": 224, "w": 224}},
                  {"inputs": {"x": np.ones((1, 3, 224, 224), np.float32)}}):  # fmt: skip
        report = doctor(head, **asked)
        assert report.verdict == "runs", report
    assert report.inputs["x"] == {"dtype": "float32", "shape": [1, 3, 224, 224], "invented": ""}
    report = doctor(head, shapes={"x": [1, 3, 64, 64]})
    assert (report.verdict, report.exit_status) == ("fails when it runs", 1)
    assert found(report, "run-failed")
    unnamed = HEALTHY["unnamed axes"]
    report = doctor(unnamed, dims={"x:2": 40, "x:3": 30})
    assert report.inputs["x"]["shape"] == [16, 3, 40, 30]
    for wrong, text in (({"shapes": {"q": [1]}}, "the model has no input 'q'; its input"),
                        ({"dims": {"x:4": 1}}, "the model has no open length 'x:4'"),
                        ({"shapes": {"x": [1, 2]}}, "got 2 lengths, expected 4")):  # fmt: skip
        with pytest.raises(ValueError, match=text):
            doctor(unnamed, **wrong)


def test_command_accepts_shapes_and_dims(tmp_path: Path) -> None:
    from typer.testing import CliRunner

    from myops.cli import app

    path = tmp_path / "net.onnx"
    onnx.save(HEALTHY["unnamed axes"], path)
    for words, shape in ((["--run"], [16, 3, 16, 16]), (["--shape", "x:1x3x9x8"], [1, 3, 9, 8]),
                         (["--shape", "x:1,3,9,8"], [1, 3, 9, 8]),
                         (["--dim", "x:0=1", "--dim", "x:2=9"], [1, 3, 9, 16])):  # fmt: skip
        done = CliRunner().invoke(app(), ["doctor", str(path), *words, "--json"])
        assert done.exit_code == 0, done.output
        assert json.loads(done.stdout)["inputs"]["x"]["shape"] == shape
    done = CliRunner().invoke(app(), ["doctor", str(path), "--run"], env={"COLUMNS": "200"})
    assert "invented: the lengths 'x:0', 'x:2', 'x:3'" in done.stdout
    done = CliRunner().invoke(app(), ["doctor", str(path), "--shape", "x=a"])
    assert "expected NAME:1x3x320x320" in str(done.exception)


@pytest.mark.parametrize(("text", "length"), [
    ("p", 5), ("p + 1", 6), ("2*p", 10), ("p // 2", 2), ("p - q % 4", 2), ("3", 3), ("p + r", None),
    ("__import__('os')", None), ("p ** 9", None), ("p / 0", None), ("(" * 999, None), ("", None),
    ("a name", None),
])  # fmt: skip
def test_formulas_of_lengths_are_evaluated(text: str, length: int | None) -> None:
    assert _demands.evaluated(text, {"p": 5, "q": 7}) == length


def test_invented_lengths_fit_the_nodes() -> None:
    made = feeds.make(HEALTHY["a perceptron"], Asked())
    assert made.feeds[0]["x"].shape == (16, 37)
    assert made.invented == {"x": "the length 'n'"}
    assert feeds.make(HEALTHY["a perceptron"], Asked(dims={"n": 2})).invented == {}


@pytest.mark.parametrize("rank", range(1, 8))
@pytest.mark.parametrize("open_axes", [1, 2, 8])
def test_inputs_of_every_rank_can_be_made_up(rank: int, open_axes: int) -> None:
    """What is tried later is left out where it is too large: five axes of 640."""
    shape = [f"n{axis}" if axis >= rank - open_axes else 2 for axis in range(rank)]
    x = onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, shape)
    y = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, shape)
    node = onnx.helper.make_node("Relu", ["x"], ["y"])
    model = onnx.helper.make_model(onnx.helper.make_graph([node], "g", [x], [y]))
    made = feeds.make(model, Asked())
    assert [feed["x"].ndim for feed in made.feeds] == [rank] * len(made.feeds)
    assert made.feeds[0]["x"].shape == tuple(n if isinstance(n, int) else 16 for n in shape)
    assert "n" in made.invented["x"]
