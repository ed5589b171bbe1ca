"""deform_conv2d against a plain torch reference, onnx.reference, ONNX Runtime's own kernel and
convolution; equal bits in all runtimes; gradients of the first and second order."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
from deform_cases import CASES, DTYPES, arrays, build, call, expected
from node_cases import node_cases
from onnx import helper
from onnx.reference import ReferenceEvaluator
from runtimes import assert_parity, feeds, node_model, run_numpy, run_ort, run_torch

import myops
import myops.onnx
import myops.ort


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("case", CASES)
def test_values_and_parity(case: tuple[Any, ...], dtype: str) -> None:
    tensors, attributes = build(case, dtype=dtype)
    (result,) = assert_parity("deform_conv2d", arrays(tensors), attributes)
    tolerance = {"float64": 1e-12, "float32": 1e-5, "float16": 2e-3, "bfloat16": 2e-2}[dtype]
    wanted = expected(tensors, attributes)
    if wanted.numel():
        difference = (torch.from_numpy(result.astype(np.float64)) - wanted).abs().max()
        assert difference <= tolerance * wanted.abs().max()
    public = call(tensors, attributes)
    assert torch.equal(public, torch.ops.myops.deform_conv2d(*tensors, **attributes))


@pytest.mark.parametrize("case", CASES[:7])
def test_other_references(case: tuple[Any, ...]) -> None:
    """onnx.reference and ONNX Runtime's own DeformConv on the lowered node, and the body."""
    tensors, attributes = build(case, dtype="float32")
    inputs = arrays(tensors)
    (result,) = run_numpy("deform_conv2d", inputs, attributes)
    model = node_model("deform_conv2d", inputs, attributes, opset=22)
    lowered = myops.onnx.lower(model)
    assert [node.op_type for node in lowered.graph.node] == ["DeformConv"]
    given = feeds("deform_conv2d", inputs)
    (native,) = onnxruntime.InferenceSession(lowered.SerializeToString()).run(None, given)
    bodies = myops.onnx.add_function_bodies(model)
    (body,) = onnxruntime.InferenceSession(bodies.SerializeToString()).run(None, given)
    for other in (native, body):
        np.testing.assert_allclose(result, other, rtol=1e-4, atol=1e-4)
    if case[0] <= 2:
        (slow,) = ReferenceEvaluator(lowered).run(None, given)
        np.testing.assert_allclose(result, slow, rtol=1e-4, atol=1e-4)


def test_all_the_node_tests_are_here() -> None:
    assert len([case for case in node_cases("DeformConv") if "deform_conv" in case.name]) == 4


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, id=case.name)
        for case in node_cases("DeformConv")
        if "deform_conv" in case.name
    ],
)
def test_onnx_node_test(case: Any) -> None:
    node = case.model.graph.node[0]
    given, (wanted, *_) = case.data_sets[0]
    names = [item.name for item in case.model.graph.input]
    by_name = dict(zip(names, given, strict=True))
    inputs: list[Any] = [by_name[name] if name else None for name in node.input]
    inputs += [None] * (5 - len(inputs))
    attributes = {item.name: helper.get_attribute_value(item) for item in node.attribute}
    (result,) = assert_parity("deform_conv2d", inputs, attributes)
    np.testing.assert_allclose(result, wanted, rtol=1e-5, atol=1e-6)


def test_zero_offsets_are_a_convolution() -> None:
    (x, weight, offset, bias, mask), attributes = build(CASES[0], dtype="float64")
    result = call([x, weight, torch.zeros_like(offset), bias, torch.ones_like(mask)], attributes)
    wanted = torch.nn.functional.conv2d(x, weight, bias, (2, 1), (1, 0), (2, 1), groups=2)
    torch.testing.assert_close(result, wanted, rtol=1e-12, atol=1e-12)


def test_integer_offsets_are_a_shifted_convolution() -> None:
    x = torch.randn(1, 3, 12, 12, dtype=torch.float64)
    weight = torch.randn(4, 3, 3, 3, dtype=torch.float64)
    offset = torch.zeros(1, 18, 10, 10, dtype=torch.float64)
    offset[:, 0::2], offset[:, 1::2] = 2, -1
    shifted = torch.zeros_like(x)
    shifted[..., :10, 1:] = x[..., 2:, :11]
    result = myops.deform_conv2d(x, offset, weight)
    torch.testing.assert_close(result, torch.nn.functional.conv2d(shifted, weight))


def test_positions_that_are_no_positions_sample_zero() -> None:
    tensors, attributes = build(CASES[0], dtype="float32")
    for value in (np.nan, np.inf, -np.inf, 1e30, -1e30, 3e9):
        offset = tensors[2].clone()
        offset[..., ::2, :] = value
        moved = [*tensors[:2], offset, *tensors[3:]]
        (result,) = assert_parity("deform_conv2d", arrays(moved), attributes)
        assert np.isfinite(result).all()
        np.testing.assert_allclose(result, expected(moved, attributes), rtol=1e-4, atol=1e-4)
    leaves = [item.double().requires_grad_() for item in moved]
    assert all(
        g.isfinite().all() for g in torch.autograd.grad(call(leaves, attributes).sum(), leaves)
    )


def test_layouts_give_equal_bits() -> None:
    tensors, attributes = build(CASES[0], dtype="float32")
    plain = call(tensors, attributes)
    last = call([tensors[0].to(memory_format=torch.channels_last), *tensors[1:]], attributes)
    assert last.is_contiguous(memory_format=torch.channels_last)
    assert torch.equal(plain, last)
    odd = [t.transpose(0, -1).contiguous().transpose(0, -1) for t in tensors]
    assert torch.equal(plain, call(odd, attributes))


@pytest.mark.parametrize("case", [CASES[0], CASES[2], CASES[6]])
def test_gradients(case: tuple[Any, ...]) -> None:
    tensors, attributes = build(case, size=(6, 5))
    leaves = [item.requires_grad_() for item in tensors if item is not None]

    def function(*given: torch.Tensor) -> torch.Tensor:
        rest = iter(given)
        return call([None if item is None else next(rest) for item in tensors], attributes)

    assert torch.autograd.gradcheck(function, leaves)
    # One random direction each: the whole matrix of second derivatives takes minutes.
    assert torch.autograd.gradgradcheck(function, leaves, fast_mode=True)
    wanted = torch.autograd.grad(expected(tensors, attributes).square().sum(), leaves)
    result = torch.autograd.grad(function(*leaves).square().sum(), leaves)
    torch.testing.assert_close(result, wanted, rtol=1e-10, atol=1e-10)


def test_gradients_do_not_depend_on_threads() -> None:
    tensors, attributes = build(CASES[1], dtype="float32")
    x, weight, offset, _, mask = arrays(tensors)
    grad = np.random.default_rng(0).standard_normal(call(tensors, attributes).shape)
    inputs = [grad.astype(np.float32), x, weight, offset, mask]
    first = run_numpy("deform_conv2d_backward", inputs, attributes, threads=1)
    for threads in (2, 7):
        for one, other in zip(
            first, run_numpy("deform_conv2d_backward", inputs, attributes, threads), strict=True
        ):
            assert np.array_equal(one, other)


def test_opcheck_compile_and_autocast() -> None:
    tensors, attributes = build(CASES[0], dtype="float32")
    leaves = [item.requires_grad_() for item in tensors]
    torch.library.opcheck(torch.ops.myops.deform_conv2d.default, leaves, attributes)
    torch._dynamo.reset()
    compiled = torch.compile(lambda *given: call(given, attributes), fullgraph=True)
    assert torch.equal(compiled(*leaves), call(leaves, attributes))
    for one, other in zip(
        torch.autograd.grad(compiled(*leaves).sum(), leaves),
        torch.autograd.grad(call(leaves, attributes).sum(), leaves), strict=True,
    ):  # fmt: skip
        torch.testing.assert_close(one, other)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        result = call(leaves, attributes)
    assert result.dtype == torch.bfloat16
    gradients = torch.autograd.grad(result.float().sum(), leaves)
    assert all(g.dtype == torch.float32 for g in gradients)


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.offset = torch.nn.Conv2d(3, 27, 3, padding=1)
        self.weight = torch.nn.Parameter(torch.randn(5, 3, 3, 3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        offset, mask = self.offset(x).split([18, 9], 1)
        return myops.deform_conv2d(x, offset, self.weight, padding=1, mask=mask.sigmoid())


@pytest.mark.parametrize("exporter", ["dynamo", "torchscript"])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_export_with_dynamic_batch_and_size(tmp_path: Any, exporter: str) -> None:
    model, file = Model().eval(), str(tmp_path / "model.onnx")
    axes = {"x": {0: "n", 2: "h", 3: "w"}}
    exported = myops.onnx.export(
        model, (torch.randn(2, 3, 8, 9),), file, dynamic_axes=axes, exporter=exporter
    )
    assert "DeformConv" in [node.op_type for node in exported.graph.node if node.domain == "myops"]
    x = torch.randn(3, 3, 12, 7)
    wanted = model(x).detach()
    for session in (myops.ort.session(file), onnxruntime.InferenceSession(file)):
        (result,) = session.run(None, {session.get_inputs()[0].name: x.numpy()})
        torch.testing.assert_close(torch.from_numpy(result), wanted, rtol=1e-4, atol=1e-4)


def refusals() -> list[Any]:
    base, attributes = build(CASES[0], dtype="float32")
    x, weight, offset, bias, mask = arrays(base)
    return [
        ([x[0], weight, offset, bias, mask], attributes),
        ([x[:, :5], weight, offset, bias, mask], attributes),
        ([x, weight, offset[:, :5], bias, mask], attributes),
        ([x, weight, offset[..., :1], bias, mask], attributes),
        ([x, weight, offset, bias[:1], mask], attributes),
        ([x, weight, offset, bias, mask[:, :7]], attributes),
        ([x, weight, offset, bias, mask], {**attributes, "group": 4}),
        ([x, weight, offset, bias, mask], {**attributes, "group": 0}),
        ([x, weight, offset, bias, mask], {**attributes, "strides": [0, 1]}),
        ([x, weight, offset, bias, mask], {**attributes, "pads": [-1, 0, 0, 0]}),
        ([x, weight, offset, bias, mask], {**attributes, "dilations": [2**62, 1]}),
        ([x, weight, offset, bias, mask], {**attributes, "kernel_shape": [3, 3]}),
    ]


@pytest.mark.parametrize("number", range(12))
def test_refusals_read_the_same_everywhere(number: int) -> None:
    inputs, attributes = refusals()[number]
    with pytest.raises(ValueError, match=r"^deform_conv2d: \w+: got .*, expected ") as numpy:
        run_numpy("deform_conv2d", inputs, attributes)
    with pytest.raises(RuntimeError) as eager:
        run_torch("deform_conv2d", inputs, attributes)
    assert str(eager.value) == str(numpy.value)
    with pytest.raises(Exception, match="deform_conv2d") as session:
        run_ort("deform_conv2d", inputs, attributes)
    assert str(numpy.value) in str(session.value)
