"""`myops.onnx.compare_files`: inputs, those of the caller and those of the files."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from surgery_models import FLOAT, info, model_of
from two_files_models import (
    copied,
    dense_layers,
    unary,
    values_by_name,
)

import myops.onnx
import myops.ort
from myops.onnx import compare_files


def _refused_everywhere(model, inputs, text):
    """Checks that each function that takes arrays for the inputs refuses these."""
    for call in (
        lambda: compare_files(model, model, inputs=inputs),
        lambda: myops.ort.bench(model, inputs=inputs),
        lambda: myops.ort.explain(model, inputs=inputs),
        lambda: myops.onnx.to_half(model, inputs=inputs),
    ):
        with pytest.raises(ValueError, match=text):
            call()


def test_nan_in_inputs_agrees_with_itself_only():
    ends = [info("x", FLOAT, [3])], [info("y", FLOAT, [3])]
    keeps = model_of([helper.make_node("Neg", ["x"], ["y"])], *ends)
    drops = model_of([helper.make_node("Max", ["x", "low"], ["m"]),
                      helper.make_node("IsNaN", ["x"], ["n"]),
                      helper.make_node("Where", ["n", "low", "m"], ["c"]),
                      helper.make_node("Neg", ["c"], ["y"])], *ends,
                     [numpy_helper.from_array(np.float32(-9), "low")])  # fmt: skip
    inputs = {"x": np.float32([1, np.nan, -2])}
    assert compare_files(keeps, keeps, inputs=inputs).passed
    report = compare_files(keeps, drops, inputs=inputs)
    assert not report.passed
    assert values_by_name(report)["y"].difference.max_abs == np.inf
    inputs["x"][1] = 0
    assert compare_files(keeps, drops, inputs=inputs).passed


def test_inputs_with_a_value_in_the_file():
    """`bench` and `explain` run with another one; functions that also run nodes alone refuse it."""
    model = model_of([helper.make_node("Mul", ["x", "w"], ["y"])],
                     [info("x", FLOAT, [3]), info("w", FLOAT, [3])], [info("y", FLOAT, [3])],
                     [numpy_helper.from_array(np.ones(3, np.float32), "w")])  # fmt: skip
    inputs = {"w": np.zeros(3, np.float32)}
    for call in (compare_files, myops.onnx.to_half):
        arguments = (model, model) if call is compare_files else (model,)
        with pytest.raises(ValueError, match="w: got an input that has a value in the file"):
            call(*arguments, inputs=inputs)
    assert set(myops.ort.bench(model, inputs=inputs, seconds=0.01).inputs) == {"x", "w"}
    assert set(myops.ort.explain(model, inputs=inputs).inputs) == {"x", "w"}


@pytest.mark.parametrize("shape", [(2, 4, 8), (2, 3), (2, 3, 4, 5)])
def test_arrays_of_another_shape_are_refused(shape):
    model = model_of([helper.make_node("Sin", ["x"], ["y"])], [info("x", FLOAT, ["n", 3, None])],
                     [info("y", FLOAT, ["n", 3, None])])  # fmt: skip
    stated = [tensor.dim_param or tensor.dim_value
              for tensor in model.graph.input[0].type.tensor_type.shape.dim]  # fmt: skip
    assert stated[:2] == ["n", 3]
    inputs = {"x": np.ones(shape, np.float32)}
    text = rf"inputs: x: got an array of shape \[{', '.join(map(str, shape))}\], expected \[n, 3, "
    _refused_everywhere(model, inputs, text)


def test_a_shape_that_onnxruntime_refuses_is_explained():
    model = model_of([helper.make_node("Sin", ["x"], ["y"])], [info("x", FLOAT, ["n", 3])],
                     [info("y", FLOAT, ["n", 3])])  # fmt: skip
    for call in (
        lambda: compare_files(model, model, shapes={"x": [2, 4]}),
        lambda: myops.ort.explain(model, shapes={"x": [2, 4]}),
    ):
        with pytest.raises(RuntimeError, match="does not run") as caught:
            call()
        assert "index: 1 Got: 4 Expected: 3" in str(caught.value)
        assert "INVALID_ARGUMENT" not in str(caught.value)
        assert str(caught.value).endswith('inputs={"NAME": "FILE.npy"}')


@pytest.mark.parametrize("dtype", ["float64", "float16", "int32"])
def test_arrays_of_another_type_are_refused(dtype):
    """As ONNX Runtime refuses them: a conversion would hide what the caller will meet there."""
    model = model_of([helper.make_node("Sin", ["x"], ["y"])], [info("x", FLOAT, [5])],
                     [info("y", FLOAT, [5])])  # fmt: skip
    inputs = {"x": np.ones(5, dtype)}
    text = f"inputs: x: got an array of {dtype}, expected float32; convert it"
    _refused_everywhere(model, inputs, text)


def test_inputs_with_other_names_are_paired_in_order():
    def model(*names):
        nodes = [helper.make_node("Sum", list(names), ["y"], "sum")]
        inputs = [info(name, FLOAT, [3]) for name in names]
        return model_of(nodes, inputs, [info("y", FLOAT, [3])])

    report = compare_files(model("a", "b"), model("p", "q"))
    assert report.passed
    assert any("paired in order: 'a' and 'p'" in note for note in report.notes)
    with pytest.raises(ValueError, match="nothing is known of 'c'"):
        compare_files(model("a", "b"), model("a", "b", "c"))
    report = compare_files(model("a", "b"), model("a"))
    assert not report.passed
    assert any("Only the first has the input 'b'" in note for note in report.notes)


@pytest.mark.parametrize(("other", "said"), [
    (info("x", FLOAT, [1, 3, 8, 8]), ""), (info("x", FLOAT, [1, "c", None, 8]), ""),
    (info("x", FLOAT, None), ""), (info("x", TensorProto.FLOAT16, [1, 3, 8, 8]), ""),
    (info("x", FLOAT, [1, 10]), "'x' float32[1, 10]"),
    (info("x", FLOAT, [1, 3, 9, "w"]), "'x' float32[1, 3, 9, w]"),
    (info("x", TensorProto.INT64, [1, 3, 8, 8]), "'x' int64[1, 3, 8, 8]"),
    (info("tokens", TensorProto.INT64, ["b", None]), "'tokens' int64[b, ?]"),
    (helper.make_tensor_sequence_value_info("x", FLOAT, None), "'x' sequence"),
])  # fmt: skip
def test_files_with_other_inputs_are_refused(other, said):
    """They were reported as a difference at the node that does not run on the first's inputs."""
    first = model_of(
        [helper.make_node("Neg", ["x"], ["y"])], [info("x", FLOAT, [1, 3, 8, 8])],
        [info("y", FLOAT, None)],
    )  # fmt: skip
    number = other.type.tensor_type.elem_type
    second = model_of(
        [helper.make_node("Neg", [other.name], ["y"])], [other], [info("y", number or FLOAT, None)]
    )
    if not said:
        assert compare_files(first, second).passed
        return
    with pytest.raises(ValueError, match="inputs differ") as caught:
        compare_files(first, second)
    assert f"'x' float32[1, 3, 8, 8] in the first and {said}" in str(caught.value)


def test_wrong_arguments_are_refused(tmp_path):
    with pytest.raises(ValueError, match="expected a second file"):
        compare_files(dense_layers())
    with pytest.raises(ValueError, match="Did you mean 'reference'"):
        compare_files(dense_layers(), against="refrence")
    with pytest.raises(ValueError, match="no input 'z'; its input is x"):
        compare_files(dense_layers(), dense_layers(), inputs={"z": np.ones(3)})
    with pytest.raises(ValueError, match="no open length 'm'; its open lengths are "):
        compare_files(dense_layers(), dense_layers(), dims={"m": 3})
    with pytest.raises(FileNotFoundError, match=r"no such file: .*gone\.onnx"):
        compare_files(dense_layers(), tmp_path / "gone.onnx")
    with pytest.raises(RuntimeError, match="does not run"):
        compare_files(dense_layers(), dense_layers(), shapes={"x": [3, 7]})
    broken = copied(dense_layers())
    broken.graph.node[0].op_type = "NoSuchOp"
    with pytest.raises(RuntimeError, match=r"the second file: .*NoSuchOp"):
        compare_files(dense_layers(), broken)
    unknown = copied(unary("Abs"))
    unknown.graph.input[0].type.tensor_type.ClearField("shape")
    with pytest.raises(ValueError, match=r"states no shape\. Say what the inputs are like"):
        compare_files(unknown, unknown)


def test_dims_shapes_and_inputs_are_used():
    report = compare_files(dense_layers(), dense_layers(), dims={"n": 3})
    assert values_by_name(report)["y"].shape == (3, 6)
    assert report.inputs["x"]["invented"] == ""
    assert compare_files(dense_layers(), dense_layers(), shapes={"x": [5, 6]}).inputs["x"][
        "shape"
    ] == [5, 6]
