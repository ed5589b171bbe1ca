"""resize: the meaning of ONNX Resize-19, in every runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from node_cases import node_cases
from onnx import TensorProto, helper, numpy_helper
from runtimes import (
    assert_parity,
    feeds,
    node_model,
    random_array,
    run_numpy,
    run_ort,
    run_torch,
    to_torch,
)

import myops
import myops.onnx

DTYPES = myops._description.OPS["resize"].types["T"]
MODES = ["nearest", "linear", "cubic"]
COORDINATES = [
    "half_pixel",
    "half_pixel_symmetric",
    "pytorch_half_pixel",
    "align_corners",
    "asymmetric",
    "tf_crop_and_resize",
]
NEAREST = ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"]
# The ONNX reference divides by a fractional output length here; torch and ONNX Runtime do not.
DISPUTED = {
    "test_resize_downsample_scales_linear_align_corners",
    "test_resize_downsample_scales_cubic_align_corners",
}


def node_tests() -> list[Any]:
    cases = [case for case in node_cases("Resize") if case.name.startswith("test_resize")]
    return [pytest.param(case, id=case.name) for case in cases]


def inputs_of(case: Any) -> tuple[list[np.ndarray | None], dict[str, Any], np.ndarray]:
    node = case.model.graph.node[0]
    names = [item.name for item in case.model.graph.input]
    arrays, (expected, *_) = case.data_sets[0]
    by_name = dict(zip(names, arrays, strict=True))
    inputs: list[np.ndarray | None] = [by_name[name] if name else None for name in node.input]
    inputs += [None] * (4 - len(inputs))
    attributes: dict[str, Any] = {}
    for attribute in node.attribute:
        value = helper.get_attribute_value(attribute)
        attributes[attribute.name] = value.decode() if isinstance(value, bytes) else value
    for flag in ("antialias", "exclude_outside"):
        if flag in attributes:
            attributes[flag] = bool(attributes[flag])
    return inputs, attributes, expected


def test_all_the_node_tests_are_here() -> None:
    assert len(node_tests()) == 39


@pytest.mark.parametrize("case", node_tests())
def test_onnx_node_test(case: Any) -> None:
    """The ONNX project's own cases: torch, ONNX Runtime and NumPy, bit for bit the same, and the
    function body in an ONNX Runtime that has no library of ours."""
    inputs, attributes, expected = inputs_of(case)
    (result,) = assert_parity("resize", inputs, attributes)
    if case.name in DISPUTED:
        assert result.shape == expected.shape
        with pytest.raises(AssertionError):
            np.testing.assert_allclose(result, expected, rtol=1e-3, atol=1e-5)
        # The reference is ONNX Runtime's own kernel.
        standard = onnxruntime.InferenceSession(case.model.SerializeToString())
        names = [item.name for item in case.model.graph.input]
        given = dict(zip(names, case.data_sets[0][0], strict=True))
        expected = standard.run(None, given)[0]
    np.testing.assert_allclose(result, expected, rtol=1e-3, atol=1e-5)

    model = myops.onnx.add_function_bodies(node_model("resize", inputs, attributes))
    assert [function.name for function in model.functions] == ["Resize"]
    plain = onnxruntime.InferenceSession(model.SerializeToString())
    (portable,) = plain.run(None, feeds("resize", inputs))
    np.testing.assert_allclose(portable, result, rtol=1e-4, atol=1e-5)


AREAS = [((2, 3, 13, 10), (5, 7)), ((1, 2, 4, 9), (12, 3)), ((1, 20, 6, 5), (6, 2))]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("shape", "size"), AREAS)
def test_area(shape: tuple[int, ...], size: tuple[int, ...], dtype: str) -> None:
    """Adaptive average pooling, by sizes and by scales: the same bits in every runtime, and the
    function body in an ONNX Runtime that has no library of ours."""
    x = random_array(np.random.default_rng(1), shape, dtype)
    attributes = {"mode": "area", "axes": [2, 3]}
    scales = np.array([(m + 0.25) / n for m, n in zip(size, shape[2:], strict=True)], np.float32)
    (by_scales,) = assert_parity("resize", [x, None, scales, None], attributes)
    inputs = [x, None, None, np.array(size)]
    (result,) = assert_parity("resize", inputs, attributes)
    assert np.array_equal(result, by_scales)
    expected = torch.nn.functional.adaptive_avg_pool2d(to_torch(x).double(), size)
    limits = {"float64": 1e-14, "float32": 1e-6, "float16": 2e-3, "bfloat16": 2e-2, "uint8": 0.51}
    error = (to_torch(result).double() - expected).abs().max() / max(1, expected.abs().max())
    assert error < limits[dtype] / (expected.abs().max() if dtype == "uint8" else 1)

    model = myops.onnx.add_function_bodies(node_model("resize", inputs, attributes))
    if dtype == "bfloat16":  # which ONNX Runtime's own kernels do not know
        return
    plain = onnxruntime.InferenceSession(model.SerializeToString())
    (portable,) = plain.run(None, feeds("resize", inputs))
    apart = np.abs(portable.astype(np.float64) - result).max()
    assert apart <= (1 if dtype == "uint8" else limits[dtype] * np.abs(result).max())


@pytest.mark.parametrize("mode", MODES)
def test_parity_with_more_than_one_piece_of_work(rng: np.random.Generator, mode: str) -> None:
    x = random_array(rng, (2, 3, 67, 101), "float32")
    for scale in (0.37, 2.5):
        scales = np.float32([scale, scale])
        attributes = {"mode": mode, "axes": [2, 3]}
        expected = assert_parity("resize", [x, None, scales, None], attributes)[0]
        # channels_last is another order in memory, not another result
        last = to_torch(x).to(memory_format=torch.channels_last)
        result = torch.ops.myops.resize(last, None, torch.from_numpy(scales), None, **attributes)
        assert result.is_contiguous(memory_format=torch.channels_last)
        assert np.array_equal(result.contiguous().numpy(), expected)


def test_nearest_copies_bits(rng: np.random.Generator) -> None:
    x = np.float32([np.nan, np.inf, -0.0, 1e-45]).reshape(1, 1, 4)
    result = run_numpy("resize", [x, None, np.float32([1, 1, 2]), None])[0]
    assert np.array_equal(result.view(np.int32), np.repeat(x, 2, axis=2).view(np.int32))


def test_empty_batch() -> None:
    x = np.zeros((0, 3, 4, 4), np.float32)
    result = assert_parity("resize", [x, None, np.float32([2, 2]), None], {"axes": [2, 3]})[0]
    assert result.shape == (0, 3, 8, 8)


def refusals() -> list[Any]:
    f32, i64 = np.float32, np.int64
    x = np.zeros((1, 1, 4, 4), f32)
    return [
        ([x, None, None, None], {}, "scales, sizes: got neither, expected exactly one of them"),
        ([x, None, f32([1] * 4), i64([1] * 4)], {}, "scales, sizes: got both"),
        ([x, None, f32([2, 2]), None], {}, "scales: got length 2, expected length 4"),
        ([x, None, f32([1, 1, 0, 1]), None], {}, "scales: got 0 on axis 2"),
        ([x, None, f32([1, 1, -2, 1]), None], {}, "scales: got -2 on axis 2"),
        ([x, None, f32([1, 1, np.nan, 1]), None], {}, "scales: got nan on axis 2"),
        ([x, None, f32([1, 1, np.inf, 1]), None], {}, "scales: got inf on axis 2"),
        ([x, None, f32([1, 1, 0.1, 1]), None], {}, "axis 2"),
        ([x, None, None, i64([1, 1, 0, 4])], {}, "sizes: got 0 on axis 2, expected at least 1"),
        ([x, None, None, i64([1, 1, -1, 4])], {}, "sizes: got -1 on axis 2"),
        ([x, None, f32([1, 1, 3e6, 3e6]), None], {}, "at most 2^40 elements"),
        ([x, None, None, i64([1, 1, 2**62, 2**62])], {}, "2^40"),
        ([x, None, f32([2, 2]), None], {"axes": [2, 2]}, "axes"),
        ([x, None, f32([2]), None], {"axes": [4]}, "axes"),
        ([x, None, f32([2, 2]), None], {"axes": [2, 3], "mode": "sinc"}, 'mode: got "sinc"'),
        ([x, None, f32([2, 2]), None], {"axes": [2, 3], "antialias": True}, "antialias"),
        ([x, None, f32([2, 2]), None], {"axes": [2, 3], "mode": "area", "antialias": True},
         'antialias: got True with mode "area", expected mode "linear" or "cubic"'),
        ([x, None, f32([2, 2]), None],
         {"axes": [2, 3], "mode": "area", "coordinate_transformation_mode": "align_corners"},
         'coordinate_transformation_mode: got "align_corners" with mode "area", expected "half_'),
        ([x, None, f32([2, 2]), None],
         {"axes": [2, 3], "coordinate_transformation_mode": "tf_crop_and_resize"}, "roi"),
    ]  # fmt: skip


@pytest.mark.parametrize(("inputs", "attributes", "text"), refusals())
def test_refusals_read_the_same_everywhere(inputs: Any, attributes: Any, text: str) -> None:
    with pytest.raises(ValueError, match="resize") as numpy:
        run_numpy("resize", inputs, attributes)
    assert text in str(numpy.value)
    with pytest.raises(RuntimeError) as eager:
        run_torch("resize", inputs, attributes)
    assert str(eager.value) == str(numpy.value)
    with pytest.raises(Exception, match=r"resize|Resize") as session:
        run_ort("resize", inputs, attributes)
    assert str(numpy.value) in str(session.value)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("coordinates", COORDINATES)
@pytest.mark.parametrize("antialias", [False, True])
def test_backward_is_the_exact_transpose(mode: str, coordinates: str, antialias: bool) -> None:
    """<resize(x), g> == <x, backward(g)> for random x and g, in float64."""
    if antialias and mode == "nearest":
        return
    x = torch.randn(2, 3, 7, 6, dtype=torch.float64, requires_grad=True)
    crop = coordinates == "tf_crop_and_resize"
    options: dict[str, Any] = {
        "mode": mode,
        "coordinate_transformation_mode": coordinates,
        "antialias": antialias,
        "roi": [-0.2, 0.1, 1.1, 0.8] if crop else None,
        "axes": [-2, 1] if crop else [3, 2],
    }
    for scales in ([1.7, 0.6], [0.45, 2.5]):
        for layout in (torch.contiguous_format, torch.channels_last):
            result = myops.resize(x.to(memory_format=layout), scales, **options)
            g = torch.randn_like(result)
            (back,) = torch.autograd.grad(result, x, g)
            torch.testing.assert_close((result * g).sum(), (x * back).sum(), rtol=1e-12, atol=1e-12)


def test_gradients_to_the_second_order() -> None:
    x = torch.randn(1, 2, 4, 5, dtype=torch.float64, requires_grad=True)
    for scales in ([1.5, 0.7], torch.tensor([1.5, 0.7])):
        for mode in MODES:

            def function(x: torch.Tensor, scales: Any = scales, mode: str = mode) -> torch.Tensor:
                return myops.resize(x, scales, mode=mode, axes=[2, 3])

            assert torch.autograd.gradcheck(function, x)
            assert torch.autograd.gradgradcheck(function, x)
    hessian = torch.func.hessian(lambda x: (myops.resize(x, [2.0]) ** 2).sum())(torch.randn(3))
    torch.testing.assert_close(hessian, 4 * torch.eye(3))


class Undefined(torch.autograd.Function):
    """A copy whose backward returns no gradient."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> None:
        return None


def test_a_gradient_of_the_result_that_is_undefined_counts_as_zeros() -> None:
    x = torch.randn(1, 2, 4, 5, requires_grad=True)
    result = myops.resize(x, [2.0, 0.5], axes=[2, 3], mode="linear")
    (grad,) = torch.autograd.grad(Undefined.apply(result).sum(), x, retain_graph=True)
    assert torch.equal(grad, torch.zeros_like(x))
    (grad,) = torch.autograd.grad(result.sum(), x)
    assert grad.abs().sum() > 0


def test_opcheck() -> None:
    x = torch.randn(1, 2, 5, 6)
    last = x.to(memory_format=torch.channels_last)
    options = {"axes": [2, 3], "mode": "cubic"}
    values, default = torch.ops.myops.resize.values, torch.ops.myops.resize.default
    grad = torch.randn(1, 2, 10, 12)
    like = torch.empty(()).expand(1, 2, 5, 6)
    for tensor in (x, last, x.clone().requires_grad_()):
        torch.library.opcheck(values, (tensor, None, [2.0, 0.5], None), options)
        torch.library.opcheck(values, (tensor, None, None, [7, 3]), options)
        torch.library.opcheck(default, (tensor, None, torch.tensor([2.0, 0.5]), None), options)
        torch.library.opcheck(default, (tensor, None, None, torch.tensor([7, 3])), options)
    backward = torch.ops.myops.resize_backward.values
    torch.library.opcheck(backward, (grad, like, None, [2.0, 2.0], None), options)


def test_export_with_symbolic_lengths() -> None:
    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            doubled = myops.resize(x, [1, 1, 2, 2], mode="cubic")
            return myops.resize(doubled, sizes=[x.shape[2] + 1, 9], axes=[2, 3])

    dims = {
        0: torch.export.Dim("n"),
        2: torch.export.Dim("h", min=3),
        3: torch.export.Dim("w", min=3),
    }
    program = torch.export.export(Model(), (torch.randn(2, 3, 8, 7),), dynamic_shapes={"x": dims})
    other = torch.randn(5, 3, 11, 4)
    torch.testing.assert_close(program.module()(other), Model()(other))
    assert program.module()(other).shape == (5, 3, 12, 9)


def test_values_may_be_tensors_inside_a_list() -> None:
    x = torch.randn(1, 1, 4, 4)
    expected = myops.resize(x, sizes=[8, 6], axes=[2, 3])
    mixed = myops.resize(x, sizes=[torch.tensor(8), 6], axes=[2, 3])
    torch.testing.assert_close(mixed, expected)


def test_scales_from_item_stay_an_input_of_the_program() -> None:
    """`.item()` freezes a factor in other libraries; here torch.export keeps it."""

    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor, factor: torch.Tensor) -> torch.Tensor:
            return myops.interpolate(x, scale_factor=factor.item(), mode="bilinear")

    x = torch.randn(1, 3, 6, 6)
    program = torch.export.export(Model(), (x, torch.tensor(2.0)))
    assert program.module()(x, torch.tensor(3.0)).shape == (1, 3, 18, 18)


def test_initializer_scales_give_a_known_shape() -> None:
    """Shape inference of the registered schema sees constants."""
    myops.onnx.register_schemas()
    node = helper.make_node("Resize", ["X", "", "scales"], ["Y"], domain="myops", axes=[2, 3])
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("X", TensorProto.FLOAT, ["N", 3, 4, 5])],
        [helper.make_tensor_value_info("Y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.float32([2, 3]), "scales")],
    )
    opsets = [helper.make_opsetid("", 19), helper.make_opsetid("myops", 1)]
    model = onnx.shape_inference.infer_shapes(
        helper.make_model(graph, opset_imports=opsets, ir_version=10), strict_mode=True
    )
    dims = model.graph.output[0].type.tensor_type.shape.dim
    assert [dim.dim_param or dim.dim_value for dim in dims] == ["N", 3, 8, 15]
