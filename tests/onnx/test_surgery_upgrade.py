"""upgrade_ops: ONNX's node tests, old opsets, random calls; the expected results are ONNX
Runtime's."""

from __future__ import annotations

import functools
import itertools
import warnings
from typing import Any

import numpy as np
import onnx
import pytest
from node_cases import node_cases
from node_models import random_call, resize_model
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.capi.onnxruntime_pybind11_state import (
    Fail,
    InvalidArgument,
    NotImplemented,
    RuntimeException,
)
from surgery_models import FLOAT, captured, info, model_of, run, three_domains

import myops.ort
from myops.onnx import lower
from myops.onnx.surgery.upgrading import upgrade_ops


def difference(one: np.ndarray, other: np.ndarray) -> float:
    assert (one.shape, one.dtype) == (other.shape, other.dtype)
    if not one.size:
        return 0.0
    wide = other.astype(np.float64)
    return float(np.abs(one.astype(np.float64) - wide).max() / max(1.0, np.abs(wide).max()))


def is_nearest(model: onnx.ModelProto) -> bool:
    node = next(n for n in model.graph.node if n.op_type in ("Resize", "Upsample", "DeformConv"))
    modes = [item.s for item in node.attribute if item.name == "mode"]
    return node.op_type != "DeformConv" and modes in ([], [b"nearest"])


def check_round_trip(model: onnx.ModelProto, feeds: dict[str, Any], wanted: np.ndarray) -> None:
    """Upgraded: through our kernel and through the body; lowered again: standard nodes only."""
    result = upgrade_ops(model)
    assert result.kept == {}
    ours = result.model
    assert not {"Resize", "Upsample", "DeformConv"} & {
        node.op_type for node in ours.graph.node if node.domain != "myops"
    }
    tolerance = 0 if is_nearest(model) else 1e-3 if wanted.dtype == np.float16 else 1e-5
    assert difference(myops.ort.session(ours).run(None, feeds)[0], wanted) <= tolerance
    if ours.functions:
        assert difference(run(ours, **feeds)[0], wanted) <= tolerance
        back = lower(ours)
        assert all(node.domain != "myops" for node in back.graph.node)
        assert difference(run(back, **feeds)[0], wanted) <= tolerance


@functools.cache
def cases() -> dict[str, Any]:
    """ONNX's node tests of Resize and DeformConv."""
    return {case.name: case for op in ("Resize", "DeformConv") for case in node_cases(op)}


@pytest.mark.parametrize("constant", [False, True])
def test_node_tests_keep_their_results(constant: bool) -> None:
    """Roi, scales and sizes as inputs, as in the node tests, and as constants."""
    kept = {}
    assert len(cases()) == 43
    for name, case in cases().items():
        arrays, _ = case.data_sets[0]
        names = [item.name for item in case.model.graph.input]
        feeds = dict(zip(names, arrays, strict=True))
        model = onnx.ModelProto()
        model.CopyFrom(case.model)
        if constant:
            for item in [item for item in model.graph.input if item.name in LISTS]:
                model.graph.initializer.append(numpy_helper.from_array(feeds.pop(item.name),
                                                                       item.name))  # fmt: skip
                model.graph.input.remove(item)
        reasons = upgrade_ops(model).kept
        if reasons:
            kept[name] = next(iter(reasons.values()))
        else:
            check_round_trip(model, feeds, run(model, **feeds)[0])
    # ONNX Runtime computes another result for a crop of an axis that may keep its length.
    assert len(kept) == (0 if constant else 4), kept
    assert all("crop" in name and "at run time only" in why for name, why in kept.items())


LISTS = ("roi", "scales", "sizes")
SCALES = [[1.0, 1.0, *pair] for pair in ([2.0, 3.0], [2.5, 1.6], [0.6, 0.5], [1.0, 1.0])]


@pytest.mark.parametrize(
    ("form", "opset"),
    [("Upsample", 7), ("Upsample", 8), ("Upsample", 9), ("Resize", 10), ("Resize", 11),
     ("Resize", 13), ("Resize", 18), ("Resize", 19), ("Resize", 23)],
)  # fmt: skip
def test_resize_of_every_opset_is_upgraded(form: str, opset: int) -> None:
    x = np.random.rand(1, 2, 5, 6).astype(np.float32)
    upgraded = 0
    for scales, mode in itertools.product(SCALES, ("nearest", "linear")):
        if form == "Upsample" and min(scales) < 1:
            continue
        factors = numpy_helper.from_array(np.float32(scales), "s")
        empty = numpy_helper.from_array(np.float32([]), "r")
        constants, inputs, attributes = [factors], ["X", "s"], {"mode": mode}
        if opset >= 11:
            constants, inputs = [factors, empty], ["X", "r", "s"]
            attributes["coordinate_transformation_mode"] = "asymmetric"
        if opset < 9:
            constants, inputs, attributes = [], ["X"], {"mode": mode, "scales": scales}
        made = helper.make_node(form, inputs, ["Y"], **attributes)
        outputs = [info("Y", FLOAT, ["a", "b", "c", "d"])]
        model = model_of([made], [info("X", FLOAT, x.shape)], outputs, constants, opset=opset,
                         ir=4)  # fmt: skip
        with warnings.catch_warnings():
            warnings.simplefilter("error" if opset >= 9 else "ignore")  # no body below 9
            check_round_trip(model, {"X": x}, run(model, X=x)[0])
        upgraded += 1
    assert upgraded == (6 if form == "Upsample" else 8)


def test_random_calls_of_resize_19_are_upgraded(rng: np.random.Generator) -> None:
    """Upgraded calls give the results of ONNX Runtime, and most calls are upgraded."""
    upgraded = kept = 0
    while upgraded + kept < 120:
        call = random_call(rng)
        call.attributes.pop("torch_arithmetic")
        if str(call.x.dtype) in ("float64", "bfloat16"):
            continue  # not in ONNX Runtime
        if call.scales is not None:
            call.scales = call.scales.astype(np.float32)
        try:
            model, feeds, _ = resize_model(call, 19)
            model.graph.node[0].domain = ""
            wanted = run(model, **feeds)[0]
        except (ValueError, RuntimeException, Fail, InvalidArgument, NotImplemented):
            continue  # ONNX Runtime does not run the call, or its result would be empty
        if upgrade_ops(model).kept:
            kept += 1
            continue
        check_round_trip(model, feeds, wanted)
        upgraded += 1
    assert upgraded > 60


def one_resize(dtype: int = FLOAT, opset: int = 19, shape: Any = (1, 1, 4, 4), **attributes: Any):
    scales = numpy_helper.from_array(np.float32([1, 1, 2, 2]), "s")
    node = helper.make_node("Resize", ["X", "", "s"], ["Y"], "up", **attributes)
    outputs = [info("Y", dtype, ["a", "b", "c", "d"])]
    return model_of([node], [info("X", dtype, shape)], outputs, [scales], opset=opset)


@pytest.mark.parametrize(
    ("model", "text"),
    [
        (one_resize(TensorProto.INT32), "X is int32, and myops::Resize computes in float16"),
        (one_resize(TensorProto.UINT8, mode="linear"), "cuts off the fractions of uint8"),
        (one_resize(opset=11, coordinate_transformation_mode="tf_half_pixel_for_nn"),
         "tf_half_pixel_for_nn"),
        (one_resize(mode="linear", coordinate_transformation_mode="tf_crop_and_resize"),
         "copies an axis whose length stays"),
    ],
)  # fmt: skip
def test_ops_that_cannot_be_upgraded_stay_with_a_reason(model: onnx.ModelProto, text: str) -> None:
    result = upgrade_ops(model)
    assert not result.upgraded
    assert text in result.kept["'up' (Resize)"]
    assert result.model == model


def test_resize_10_with_both_directions_or_unknown_factors_stays() -> None:
    inputs = [info("X", FLOAT, [1, 1, 4, 4]), info("s", FLOAT, [4])]
    node = helper.make_node("Resize", ["X", "s"], ["Y"], mode="nearest")
    outputs = [info("Y", FLOAT, ["a", "b", "c", "d"])]
    dynamic = model_of([node], inputs, outputs, opset=10, ir=4)
    assert "at run time only" in next(iter(upgrade_ops(dynamic).kept.values()))
    both = [numpy_helper.from_array(np.float32([1, 1, 2, 0.5]), "s")]
    fixed = model_of([node], inputs[:1], outputs, both, opset=10, ir=4)
    assert "one rounding for all" in next(iter(upgrade_ops(fixed).kept.values()))


def test_deform_conv_in_other_than_two_dimensions_stays() -> None:
    shapes = {"X": [1, 1, 3, 3, 3], "W": [1, 1, 2, 2, 2], "o": [1, 24, 2, 2, 2]}
    inputs = [info(name, FLOAT, shape) for name, shape in shapes.items()]
    node = helper.make_node("DeformConv", list(shapes), ["Y"], pads=[0] * 6)
    model = model_of([node], inputs, [info("Y", FLOAT, [1, 1, 2, 2, 2])], opset=19)
    assert "3 spatial dimensions" in next(iter(upgrade_ops(model).kept.values()))


def test_ops_in_branches_and_functions_are_upgraded() -> None:
    model = captured()
    then = model.graph.node[2].attribute[0].g
    then = next(a.g for a in model.graph.node[2].attribute if a.g.node[0].op_type == "Add")
    then.node[0].output[0] = "sum"
    then.node.add().CopyFrom(helper.make_node("Resize", ["sum", "", "k"], ["t"], "inner"))
    model.graph.initializer.append(numpy_helper.from_array(np.float32([1]), "k"))
    result = upgrade_ops(model)
    assert result.upgraded == ["'inner' (Resize)"]
    x = np.float32([-1, 2, 3])
    for flag in (True, False):
        feeds = {"X": x, "flag": np.array(flag)}
        np.testing.assert_array_equal(run(result.model, **feeds)[0], run(model, **feeds)[0])
    # In a function, and behind nodes whose types only ONNX Runtime can infer.
    source = three_domains()
    source.graph.node[1].op_type, source.graph.node[1].domain = "Gelu", "com.microsoft"
    upgraded = upgrade_ops(source)
    assert len(upgraded.upgraded) == 1
    x = np.random.rand(3, 3).astype(np.float32)
    np.testing.assert_array_equal(run(upgraded.model, X=x)[0], run(source, X=x)[0])


def test_bodies_can_be_left_out() -> None:
    assert upgrade_ops(one_resize(), function_bodies=False).model.functions == []
    assert len(upgrade_ops(one_resize()).model.functions) == 1


def test_earlier_names_are_aliases() -> None:
    assert myops.onnx.raise_ops is myops.onnx.upgrade_ops
    result = myops.onnx.raise_ops(one_resize())
    assert isinstance(result, myops.onnx.Raised)
    assert result.raised == result.upgraded != []
