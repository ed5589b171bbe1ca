"""simplify: shapes that are inferred, stated, or fixed by the caller."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from surgery_models import FLOAT, info, model_of

import myops.onnx
import myops.ort
from myops.onnx.graph.structure import GraphError
from myops.onnx.surgery import slimming
from myops.onnx.surgery.slimming import simplify


def test_shapes_are_inferred_behind_our_node() -> None:
    """Shape and Reshape can be folded only if the shape of our node's output is known."""
    nodes = [
        helper.make_node("MyAdd", ["X", "X"], ["a"], domain="myops"),
        helper.make_node("Shape", ["a"], ["s"]),
        helper.make_node("Reshape", ["a", "s"], ["r"]),
        helper.make_node("Relu", ["r"], ["Y"]),
    ]
    model = model_of(nodes, [info("X", FLOAT, [2, 3])], [info("Y", FLOAT, [2, 3])],
                     domains=["myops"])  # fmt: skip
    assert simplify(model).after == {"Relu": 1, "myops::MyAdd": 1}


def resized(kind: str, domain: str, reader: str) -> onnx.ModelProto:
    """A Resize, given by `kind`, and a reader of its output's shape."""
    attributes: dict[str, Any] = {"mode": "nearest"}
    constants = [numpy_helper.from_array(np.ones((2, 3, 1, 1), np.float32), "w")]
    given = ["x", "", "", ""]
    number, lengths = (3, np.int64([6, 4])) if kind != "scales" else (2, np.float32([2, 1.5]))
    if kind == "crop":
        number, lengths = 2, np.float32([1, 1, 2, 2])
        attributes["coordinate_transformation_mode"] = "tf_crop_and_resize"
        roi = np.float32([0, 0, 0, 0, 1, 1, 0.5, 0.5])
        given[1] = "roi"
        constants.append(numpy_helper.from_array(roi, "roi"))
    elif kind == "ratio":
        lengths = np.int64([8, 4])
        attributes.update(keep_aspect_ratio_policy="not_larger", axes=[2, 3])
    else:
        attributes["axes"] = [2, 3]
    given[number] = "lengths"
    constants.append(numpy_helper.from_array(lengths, "lengths"))
    nodes = [helper.make_node("Resize", given[: number + 1], ["r"], domain=domain, **attributes)]
    if reader == "Conv":
        nodes.append(helper.make_node("Conv", ["r", "w"], ["y"]))
    else:
        nodes += [
            helper.make_node("Shape", ["r"], ["s"]),
            helper.make_node("ConstantOfShape", ["s"], ["zeros"]),
            helper.make_node("Add", ["r", "zeros"], ["y"]),
        ]
    x = info("x", FLOAT, [1, 3, 4, 4])
    return model_of(nodes, [x], [info("y", FLOAT, None)], constants, opset=19, ir=9,
                    domains=[domain] if domain else [])  # fmt: skip


@pytest.mark.parametrize("reader", ["Conv", "Shape"])
@pytest.mark.parametrize("domain", ["", "myops"])
@pytest.mark.parametrize("kind", ["scales", "sizes", "ratio", "crop"])
def test_no_shape_of_a_resize_is_misread(kind: str, domain: str, reader: str) -> None:
    """onnxslim takes scales and sizes for those of all axes; a reader of the shape would then be
    refused or folded to a wrong constant."""
    model = resized(kind, domain, reader)
    result = simplify(model)
    assert result.difference == 0
    assert result.notes == ()
    x = np.random.default_rng(0).random((1, 3, 4, 4), np.float32)
    wanted, got = (myops.ort.session(m).run(None, {"x": x})[0] for m in (model, result.model))
    np.testing.assert_array_equal(got, wanted)


def test_a_custom_node_with_a_standard_name_is_not_misread() -> None:
    """Its shape is not that of the standard op: here, a Transpose that transposes nothing."""
    node = helper.make_node("Transpose", ["x"], ["y"], domain="other", perm=[1, 0])
    values = [info(name, FLOAT, [2, 3]) for name in "xy"]
    assert slimming._misread(model_of([node], values[:1], values[1:], domains=["other"]))
    node.domain = ""
    assert not slimming._misread(model_of([node], values[:1], values[1:]))


def folding() -> onnx.ModelProto:
    """x + ones(shape of x); the ones are not stored."""
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("ConstantOfShape", ["s"], ["ones"],
                         value=numpy_helper.from_array(np.ones(1, np.float32))),
        helper.make_node("Add", ["x", "ones"], ["a"]),
        helper.make_node("Add", ["a", "z"], ["y"]),
    ]  # fmt: skip
    values = [info(name, FLOAT, ["h", "w"]) for name in "xzy"]
    return model_of(nodes, values[:2], values[2:])


def test_input_shapes_are_fixed_and_sizes_reported(tmp_path: Path) -> None:
    open_ = simplify(folding())
    assert "Shape" in open_.after
    fixed = simplify(folding(), fixed={"x": [100, 200]})
    assert "Shape" not in fixed.after
    for item in fixed.model.graph.input:  # z has the same names of lengths
        assert [dim.dim_value for dim in item.type.tensor_type.shape.dim] == [100, 200]
    assert fixed.bytes_after > 80_000 > fixed.bytes_before
    bounded = simplify(folding(), fixed={"x": [100, 200]}, largest_constant=1000)
    assert bounded.bytes_after < 2000
    half = simplify(folding(), fixed={"x": [100, None]})
    dims = half.model.graph.input[1].type.tensor_type.shape.dim
    assert (dims[0].dim_value, dims[1].dim_param) == (100, "w")
    onnx.save(folding(), tmp_path / "m.onnx")
    for result, saved in ((fixed, "fixed.onnx"), (bounded, "bounded.onnx")):
        onnx.save(result.model, tmp_path / saved)
        assert result.bytes_after == (tmp_path / saved).stat().st_size


@pytest.mark.parametrize(("fixed", "text"), [
    ({"q": [1, 2]}, "the model has no input 'q'; its inputs are x, z"),
    ({"x": [1]}, "got 1 lengths, expected 2"),
    ({"x": [1, 2], "z": [1, 3]}, "got 3 and 2 for the length 'w'"), ({"x": [-1, 2]}, "got -1"),
])  # fmt: skip
def test_contradictory_shapes_are_refused(fixed: Any, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        simplify(folding(), fixed=fixed)


@pytest.mark.parametrize("tolerance", [-1.0, float("nan")])
def test_a_wrong_tolerance_is_refused(tolerance: float) -> None:
    with pytest.raises(ValueError, match="expected a number >= 0"):
        simplify(folding(), tolerance=tolerance)


@pytest.mark.parametrize("arguments", [
    {"shapes": {"x": [2**40]}}, {"fixed": {"x": [2**40]}}, {"shapes": {"x": [2**70]}},
])  # fmt: skip
def test_random_inputs_that_are_too_large_are_refused(arguments: Any) -> None:
    kinds = [helper.make_tensor_value_info(name, 1, ["n"]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", kinds[:1], kinds[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    with pytest.raises(GraphError, match=r"'x' would have the shape .*check=False"):
        simplify(model, **arguments)
    simplify(model, check=False, **arguments)
    with pytest.raises(GraphError, match="expected a name, or a length from 0"):
        simplify(model, fixed={"x": [2**63]})


def test_a_reshape_between_unknown_lengths_is_kept() -> None:
    """onnxslim takes lengths without a name for equal, and our inference gives it such lengths."""
    model = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 18]>
        g (float[n, c, h, w] x, int64[3] first, int64[3] second) => (float[p, q, r] y) {
            scales = Constant <value_floats: floats = [2.0, 2.0]> ()
            a = Resize <axes: ints = [2, 3], mode: string = "nearest"> (x, , scales)
            b = Reshape (a, first)
            t = Transpose <perm: ints = [1, 0, 2]> (b)
            d = Reshape (t, second)
            y = Neg (d)
        }"""
    )
    feeds = {
        "x": np.random.default_rng(0).random((2, 3, 2, 2), np.float32),
        "first": np.array([2, 3, 16]), "second": np.array([6, 2, 8]),
    }  # fmt: skip
    result = simplify(model, check=False).model
    assert result.graph.output == model.graph.output
    (wanted,), (got,) = (myops.ort.session(item).run(None, feeds) for item in (model, result))
    np.testing.assert_array_equal(got, wanted)
