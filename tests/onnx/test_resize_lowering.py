"""Resize in standard operators: plain ONNX Runtime gives the results of the kernel, at any
opset."""

from __future__ import annotations

import itertools

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
import torch.nn.functional as F
from node_models import (
    KINDS,
    ROUNDINGS,
    Call,
    check,
    error,
    operators,
    random_call,
    resize_model,
    run_plain,
    run_reference,
    tolerance,
)
from onnx import helper
from runtimes import random_array

from myops import _description
from myops.onnx import lower

OPSETS = [9, 10, 11, 12, 13, 15, 17, 18, 19, 20, 22, 24]
SCALE_2 = np.float32([1, 1, 2, 2])


def assert_lowered(call: Call, opset: int) -> onnx.ModelProto:
    model, feeds, expected = resize_model(call, opset)
    before = model.SerializeToString()
    standard = lower(model)
    assert model.SerializeToString() == before
    check(standard)
    assert all(item.domain != "myops" for item in standard.opset_import)
    result = run_plain(standard, feeds)[0]
    found, allowed = error(result, expected[0]), tolerance(call)
    assert found <= allowed, f"{found} > {allowed}: opset {opset}, {call}, {operators(standard)}"
    return standard


@pytest.mark.parametrize("opset", OPSETS)
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_every_mode_is_lowered(rng: np.random.Generator, opset: int, mode: str) -> None:
    x = rng.random((1, 2, 5, 7), np.float32)
    forms = itertools.cycle(itertools.product((True, False), repeat=2))
    roundings = itertools.cycle(ROUNDINGS)
    for kind, given, torch_arithmetic, _ in itertools.product(
        KINDS, ("scales", "sizes"), (False, True), range(2)
    ):
        constant, dynamic = next(forms)
        call = Call(x, constant=constant, dynamic=dynamic)
        if given == "scales":
            call.scales = np.array([2.3, 0.6], np.float64 if torch_arithmetic else np.float32)
        else:
            call.sizes = np.int64([11, 4])
        call.attributes = {
            "mode": mode, "axes": [2, 3], "coordinate_transformation_mode": kind,
            "nearest_mode": next(roundings), "torch_arithmetic": torch_arithmetic,
        }  # fmt: skip
        if kind == "tf_crop_and_resize":
            call.roi = np.float32([0.1, 0.2, 0.9, 1.2])
            call.attributes["extrapolation_value"] = 7.0
        assert_lowered(call, opset)


@pytest.mark.parametrize("opset", [9, 10, 11, 13, 18, 20, 23])
def test_random_calls_are_lowered(rng: np.random.Generator, opset: int) -> None:
    for _ in range(60):
        call = random_call(rng)
        if opset < 13 and str(call.x.dtype) == "bfloat16":
            continue  # Cast knows bfloat16 since opset 13
        try:
            call.expected()
        except ValueError:
            continue  # sizes that keep an aspect ratio can round a length to 0
        assert_lowered(call, opset)


@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_output_lengths_equal_torch_for_all_fractions(mode: str) -> None:
    """One model, its factor an input: floor(n * p / q) in float64 for all p, q up to 64."""
    call = Call(np.zeros((1, 1, 27), np.float32), constant=False, dynamic=True)
    call.scales = np.float64([1.0])
    call.attributes = {"mode": mode, "axes": [2], "torch_arithmetic": True}
    if mode == "nearest":
        call.attributes |= {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    model = lower(resize_model(call, 20)[0])
    session = onnxruntime.InferenceSession(model.SerializeToString())
    for p, q in itertools.product(range(1, 65), repeat=2):
        for n in (20, 27, 53, 91):
            if (length := int(np.floor(n * (p / q)))) == 0:
                continue
            x = np.zeros((1, 1, n), np.float32)
            result = session.run(None, {"X0": x, "scales0": np.float64([p / q])})[0]
            assert result.shape[2] == length, (n, p, q)


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact"])
@pytest.mark.parametrize("opset", [9, 20])
def test_nearest_equals_torch_for_fractions(mode: str, opset: int) -> None:
    exact = mode == "nearest-exact"
    attributes = {
        "mode": "nearest", "axes": [2, 3], "torch_arithmetic": True,
        "coordinate_transformation_mode": "half_pixel" if exact else "asymmetric",
        "nearest_mode": "round_prefer_ceil" if exact else "floor",
    }  # fmt: skip
    call = Call(np.zeros((1, 1, 4, 4), np.float32), scales=np.float64([1.0, 1.0]), constant=False,
                dynamic=True, attributes=attributes)  # fmt: skip
    model = lower(resize_model(call, opset)[0])
    session = onnxruntime.InferenceSession(model.SerializeToString())
    for p, q in itertools.product((1, 3, 7, 10, 23, 49, 64), (1, 3, 6, 7, 20, 49, 61)):
        for n in (20, 27, 70):
            if n * p // q == 0:
                continue
            x = torch.arange(n * n, dtype=torch.float32).reshape(1, 1, n, n)
            wanted = F.interpolate(x, scale_factor=(p / q, p / q), mode=mode).numpy()
            scales = np.float64([p / q, p / q])
            result = session.run(None, {"X0": x.numpy(), "scales0": scales})[0]
            np.testing.assert_array_equal(result, wanted, f"{n} * {p}/{q}")


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("dtype", _description.OPS["resize"].types["T"])
def test_every_dtype_is_lowered(rng: np.random.Generator, dtype: str, mode: str) -> None:
    x = random_array(rng, (1, 2, 6, 5), dtype)
    for opset in (13, 20):
        assert_lowered(
            Call(x, scales=np.float32([1, 1, 1.7, 0.5]), attributes={"mode": mode}), opset
        )


def test_nearest_keeps_every_bit_of_float64(rng: np.random.Generator) -> None:
    x = rng.standard_normal((1, 1, 4, 4))
    model, feeds, expected = resize_model(Call(x, scales=SCALE_2))
    np.testing.assert_array_equal(run_plain(lower(model), feeds)[0], expected[0])


@pytest.mark.parametrize("opset", [11, 13, 18, 20])
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_onnx_reference_agrees(rng: np.random.Generator, mode: str, opset: int) -> None:
    call = Call(rng.random((1, 2, 4, 5), np.float32), scales=np.float32([1, 1, 2, 1.6]))
    call.attributes = {"mode": mode}
    model, feeds, expected = resize_model(call, opset)
    assert error(run_reference(lower(model), feeds)[0], expected[0]) < 1e-5


def test_the_lowered_form_depends_on_the_opset() -> None:
    x = np.zeros((1, 1, 4, 4), np.float32)
    twice = Call(x, scales=SCALE_2)
    assert operators(assert_lowered(twice, 9)) == ["Upsample"]
    assert operators(assert_lowered(twice, 10)) == ["Resize"]
    for opset, inputs in ((10, 2), (11, 3), (13, 3), (20, 3)):
        node = assert_lowered(twice, opset).graph.node[-1]
        assert (node.op_type, len(node.input)) == ("Resize", inputs)
        assert bool(node.input[1]) == (opset < 13)  # roi must be there, and empty
    # At opset 10, Resize would compute another result than torch's nearest with 0.6.
    shrink = Call(np.zeros((1, 1, 9, 1), np.float32), scales=np.float32([1, 1, 0.6, 1]))
    shrink.attributes = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    assert "Resize" not in operators(assert_lowered(shrink, 10))
    node = assert_lowered(
        Call(x, sizes=np.int64([3, 3]), attributes={"mode": "linear", "axes": [-2, -1],
             "antialias": True, "keep_aspect_ratio_policy": "not_larger"}), 18,
    ).graph.node[-1]  # fmt: skip
    given = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    assert given["axes"] == [2, 3]
    assert given["antialias"] == 1
    assert given["keep_aspect_ratio_policy"] == b"not_larger"


def test_an_unknown_rank_is_lowered(rng: np.random.Generator) -> None:
    x = rng.random((1, 1, 4, 4), np.float32)
    call = Call(x, scales=np.float32([2, 2]), attributes={"axes": [2, 3], "mode": "linear"})
    model, feeds, expected = resize_model(call, 20)
    for item in (*model.graph.input, *model.graph.output):
        item.type.tensor_type.ClearField("shape")
    assert error(run_plain(lower(model), feeds)[0], expected[0]) < 1e-5
