"""deform_conv2d in standard operators: plain ONNX Runtime gives the results of the kernel."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
import torch
from deform_cases import CASES, arrays, build, expected
from node_models import run_plain
from onnx import helper
from runtimes import feeds, node_model

import myops.onnx

OPSETS = [11, 12, 13, 15, 16, 17, 18, 19, 22, 24]
LIMITS = {"float64": 1e-12, "float32": 2e-5, "float16": 4e-3, "bfloat16": 3e-2}


def assert_close(found: np.ndarray, wanted: torch.Tensor, dtype: str) -> None:
    assert list(found.shape) == list(wanted.shape)
    if found.size:
        scale = max(1.0, wanted.abs().max().item())
        assert np.abs(found - wanted.numpy()).max() <= LIMITS[dtype] * scale


@pytest.mark.parametrize("opset", OPSETS)
@pytest.mark.parametrize("number", range(len(CASES)))
def test_lowered_form_and_function_body_equal_the_formula(number: int, opset: int) -> None:
    dtype = ("float32", "float64", "float16")[(number + opset) % 3]
    tensors, attributes = build(CASES[number], dtype=dtype)
    model = node_model("deform_conv2d", arrays(tensors), attributes, opset)
    wanted, given = expected(tensors, attributes), feeds("deform_conv2d", arrays(tensors))
    kind = model.graph.output[0].type.tensor_type.elem_type
    model.graph.output[0].CopyFrom(
        helper.make_tensor_value_info(model.graph.output[0].name, kind, list(wanted.shape))
    )
    lowered = myops.onnx.lower(model)
    onnx.checker.check_model(lowered, full_check=True)
    kinds = {node.op_type for node in lowered.graph.node}
    assert ("DeformConv" in kinds) == (opset >= 19)
    assert ("GridSample" in kinds) == (16 <= opset < 19 and dtype != "float64")
    assert_close(run_plain(lowered, given)[0], wanted, dtype)
    assert_close(run_plain(myops.onnx.add_function_bodies(model), given)[0], wanted, dtype)


@pytest.mark.parametrize("opset", [13, 17, 20])
def test_lowered_form_in_bfloat16(opset: int) -> None:
    tensors, attributes = build(CASES[0], dtype="bfloat16")
    model = node_model("deform_conv2d", arrays(tensors), attributes, opset)
    given = feeds("deform_conv2d", arrays(tensors))
    wanted = expected(tensors, attributes)
    assert_close(run_plain(myops.onnx.lower(model), given)[0], wanted, "bfloat16")


@pytest.mark.parametrize("opset", [11, 16])
def test_nan_infinite_and_outside_positions_sample_zero(opset: int) -> None:
    tensors, attributes = build(CASES[1], dtype="float32")
    strange = torch.tensor([float("nan"), float("inf"), -float("inf"), 1e30, -1e30, 1e6, -0.9, -1])
    place = torch.randint(0, 12, tensors[2].shape)
    offset = torch.where(place < 8, strange[place.clamp(max=7)], tensors[2])
    tensors[2] = offset
    model = node_model("deform_conv2d", arrays(tensors), attributes, opset)
    given = feeds("deform_conv2d", arrays(tensors))
    (wanted,) = myops._numpy_call.call("deform_conv2d", arrays(tensors), attributes)
    assert_close(run_plain(myops.onnx.lower(model), given)[0], torch.from_numpy(wanted), "float32")


@pytest.mark.parametrize("opset", [11, 16, 19])
def test_one_lowered_graph_serves_every_batch_and_size(opset: int) -> None:
    tensors, attributes = build(CASES[1], dtype="float32")
    model = node_model("deform_conv2d", arrays(tensors), attributes, opset)
    for item in (*model.graph.input, *model.graph.output):
        if item.name not in ("W", "B"):
            shape = [f"{item.name}_{axis}" for axis in range(4)]
            item.CopyFrom(helper.make_tensor_value_info(item.name, 1, shape))
    lowered = myops.onnx.lower(model)
    for batch, size in ((1, (11, 9)), (0, (5, 5)), (3, (20, 7)), (2, (6, 31))):
        tensors, attributes = build((batch, *CASES[1][1:]), size=size, dtype="float32")
        given = feeds("deform_conv2d", arrays(tensors))
        assert_close(run_plain(lowered, given)[0], expected(tensors, attributes), "float32")


@pytest.mark.parametrize("opset", [11, 17])
def test_lowered_form_with_different_pads_on_each_side(opset: int) -> None:
    x, weight = torch.randn(1, 2, 6, 5), torch.randn(3, 2, 2, 3)
    attributes: dict[str, Any] = {"pads": [2, 0, 0, 1], "strides": [1, 2]}
    offset = torch.randn(1, 12, 7, 2)
    tensors = [x, weight, offset, None, None]
    model = node_model("deform_conv2d", arrays(tensors), attributes, opset)
    (wanted,) = myops._numpy_call.call("deform_conv2d", arrays(tensors), attributes)
    result = run_plain(myops.onnx.lower(model), feeds("deform_conv2d", arrays(tensors)))[0]
    assert_close(result, torch.from_numpy(wanted), "float32")


def test_zero_offsets_equal_a_convolution_in_a_wide_image() -> None:
    """GridSample takes positions as fractions of the image; 5,000 columns are still fine."""
    x, weight = torch.randn(1, 1, 4, 5000), torch.randn(1, 1, 3, 3)
    offset = torch.zeros(1, 18, 4, 5000)
    tensors, attributes = [x, weight, offset, None, None], {"pads": [1, 1, 1, 1]}
    model = node_model("deform_conv2d", arrays(tensors), attributes, 17)
    result = run_plain(myops.onnx.lower(model), feeds("deform_conv2d", arrays(tensors)))[0]
    wanted = torch.nn.functional.conv2d(x, weight, padding=1).numpy()
    assert np.abs(result - wanted).max() < 5e-3  # 5000 * 1e-7 pixels, times slopes of the noise


def test_lowering_is_refused_below_opset_11() -> None:
    tensors, attributes = build(CASES[0], dtype="float32")
    model = node_model("deform_conv2d", arrays(tensors), attributes, 10)
    with pytest.raises(myops.onnx.LoweringError, match=r"opset 10.*Use opset 11 or up"):
        myops.onnx.lower(model)
