"""ONNX's own node tests for Resize, through the function body in plain ONNX Runtime."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from node_cases import node_cases
from node_models import model_of, run_plain
from onnx import helper
from runtimes import ONNX_TYPES

from myops.onnx import add_function_bodies

# In these two, ONNX Runtime and torch differ from the reference: they use integer output lengths.
DIFFERENT = {"test_resize_downsample_scales_linear_align_corners",
             "test_resize_downsample_scales_cubic_align_corners"}  # fmt: skip
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of cases of other operators, which divide by zero
    CASES = {case.name: case for case in node_cases("Resize") if "resize" in case.name}


def test_all_39_node_tests_are_found() -> None:
    assert len(CASES) == 39
    assert set(CASES) > DIFFERENT


@pytest.mark.parametrize("name", sorted(set(CASES) - DIFFERENT))
def test_node_tests_pass_through_the_function_body(name: str) -> None:
    case = CASES[name]
    node = helper.make_node("Resize", case.model.graph.node[0].input, ["Y"], domain="myops")
    node.attribute.extend(case.model.graph.node[0].attribute)
    arrays, wanted = case.data_sets[0]
    feeds = {item.name: array for item, array in zip(case.model.graph.input, arrays, strict=True)}
    kind = ONNX_TYPES[str(wanted[0].dtype)]
    output = helper.make_tensor_value_info("Y", kind, wanted[0].shape)
    model = model_of([node], case.model.graph.input, [output], opset=19)
    result = run_plain(add_function_bodies(model), feeds)[0]
    np.testing.assert_allclose(result, wanted[0], rtol=1e-3, atol=1e-6)
