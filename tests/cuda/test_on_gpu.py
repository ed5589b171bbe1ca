"""Our kernels on a GPU compared with those for the CPU: `make test-cuda`."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from gpu_cases import ON_DEVICE, WITHOUT_GRADIENTS

import myops
from myops.testing import Case, check_op
from myops.testing.bits import TOLERANCE

pytestmark = pytest.mark.skipif(
    not torch.cuda.is_available(), reason="no GPU that this PyTorch can use"
)
each_case = pytest.mark.parametrize("name", ON_DEVICE)


def on_gpu(name: str, dtype: torch.dtype, device: str = "cuda") -> tuple[Any, list[torch.Tensor]]:
    function, case = ON_DEVICE[name][:2]
    return function, [item.to(device, dtype) for item in case.tensors]


def scaled(factor: float) -> dict[str, float]:
    return {dtype: factor * most for dtype, most in TOLERANCE.items()}


@each_case
def test_ops_pass_the_family_device(name: str) -> None:
    function, case, exact, scale = ON_DEVICE[name]
    tolerance = dict.fromkeys(TOLERANCE, 0.0) if exact else scaled(scale)
    only = {"op": function, "cases": [case], "only": ["device"], "device": "cuda"}
    report = check_op(**only, tolerance=tolerance, gradients=0)
    assert sum(tally.ran for tally in report.tallies) > 0
    both = check_op(**only, tolerance=scaled(scale))  # gradients, too
    assert sum(tally.ran for tally in both.tallies) > sum(tally.ran for tally in report.tallies)


@each_case
def test_gradients_equal_differences(name: str) -> None:
    function, inputs = on_gpu(name, torch.float64)
    if not inputs[0].numel():
        pytest.skip("no elements")
    leaves = [item.requires_grad_() for item in inputs]
    assert torch.autograd.gradcheck(function, leaves, fast_mode=True, nondet_tol=0.0)
    assert torch.autograd.gradgradcheck(function, leaves, fast_mode=True, nondet_tol=0.0)


@each_case
def test_calls_on_streams_and_in_cuda_graphs(name: str) -> None:
    function, inputs = on_gpu(name, torch.float32)
    expected = function(*inputs)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        found = function(*inputs)
    stream.synchronize()
    assert torch.equal(found, expected)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = function(*inputs)
    inputs[0].mul_(2)
    graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(captured, function(*inputs))


@each_case
def test_compiled_calls_equal_eager_calls(name: str) -> None:
    function, inputs = on_gpu(name, torch.float32)
    torch._dynamo.reset()
    assert torch.equal(torch.compile(function)(*inputs), function(*inputs))


@each_case
def test_autocast_equals_that_of_the_cpu(name: str) -> None:
    results = []
    for device in ("cpu", "cuda"):
        function, inputs = on_gpu(name, torch.float32, device)
        with torch.autocast(device, torch.bfloat16):
            results.append(function(*inputs))
    assert results[0].dtype == results[1].dtype


@pytest.mark.parametrize("name", WITHOUT_GRADIENTS)
def test_ops_without_gradients_have_the_bits_of_the_cpu(name: str) -> None:
    function, case = WITHOUT_GRADIENTS[name][:2]
    expected = function(*case.tensors)
    inputs = [item.cuda() for item in case.tensors]
    assert torch.equal(function(*inputs).cpu(), expected)
    torch._dynamo.reset()
    assert torch.equal(torch.compile(function)(*inputs).cpu(), expected)


def test_tf32_follows_the_flag_of_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """With torch's flag off, nothing is rounded; with it on, factors are, and results are
    repeatable."""
    x, weight, offset = (
        torch.rand(2, 64, 32, 32),
        torch.rand(64, 64, 3, 3),
        torch.rand(2, 18, 30, 30),
    )
    expected = torch.ops.myops.deform_conv2d(x, weight, offset)
    inputs = [item.cuda() for item in (x, weight, offset)]
    errors = []
    for allowed in (False, True):
        monkeypatch.setattr(torch.backends.cuda.matmul, "allow_tf32", allowed)
        found = torch.ops.myops.deform_conv2d(*inputs)
        assert torch.equal(found, torch.ops.myops.deform_conv2d(*inputs))
        errors.append(float((found.cpu() - expected).abs().max() / expected.abs().max()))
    assert errors[0] < 4e-6
    assert errors[1] < 2**-9
    if torch.cuda.get_device_capability() >= (8, 0):
        assert errors[1] > errors[0]


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="one GPU alone")
@each_case
def test_calls_on_a_second_gpu(name: str) -> None:
    function, inputs = on_gpu(name, torch.float32, "cuda:0")
    expected = function(*inputs)
    found = function(*(item.to("cuda:1") for item in inputs))
    assert found.device == torch.device("cuda:1")
    torch.testing.assert_close(found.cpu(), expected.cpu())


def test_calls_do_not_synchronize() -> None:
    """A call must not wait for the device: torch raises an error if one of its functions does."""
    for name in ON_DEVICE:
        function, inputs = on_gpu(name, torch.float32)
        function(*inputs)
        torch.cuda.set_sync_debug_mode("error")
        try:
            function(*inputs)
        finally:
            torch.cuda.set_sync_debug_mode("default")


def test_tensors_of_more_than_2_to_the_31_elements() -> None:
    """More than 2^31 elements: every index has 64 bits."""
    free, _ = torch.cuda.mem_get_info()
    if free < 20 << 30:
        pytest.skip("less than 20 GB of free memory")
    function, _ = ON_DEVICE["my_add"][:2]
    a = torch.ones((1 << 31) + 5, dtype=torch.float16, device="cuda")
    c = function(a, torch.ones(1, dtype=torch.float16, device="cuda"))
    assert float(c[-1]) == 3
    assert float(c.min()) == 3


def test_rows_of_more_than_2_to_the_30_elements() -> None:
    """The index of a thread's next element has 32 bits and does not wrap around."""
    free, _ = torch.cuda.mem_get_info()
    if free < 20 << 30:
        pytest.skip("less than 20 GB of free memory")
    for width in (33000, 53999):  # a multiple of four or not
        x = torch.rand(1, 1, 34000, width, dtype=torch.float16, device="cuda", requires_grad=True)
        size = (33500, width)
        y = myops.interpolate(x, size, mode="bilinear", antialias=True)
        (grad,) = torch.autograd.grad(y, x, y.detach())
        for begin in (0, width - 64):
            part = x.detach()[..., begin : begin + 64].contiguous().requires_grad_()
            expected = myops.interpolate(part, (size[0], 64), mode="bilinear", antialias=True)
            (of_part,) = torch.autograd.grad(expected, part, expected.detach())
            assert torch.equal(y[..., begin : begin + 64], expected)
            assert torch.equal(grad[..., begin : begin + 64], of_part)


def test_wrong_calls_are_refused() -> None:
    from myops import my_add

    x = torch.ones(3, device="cuda")
    with pytest.raises(RuntimeError, match="my_add: b: got a tensor on cpu, expected one on cuda"):
        my_add(x, torch.ones(3))
    with pytest.raises(RuntimeError, match="my_add: b: got length 4 on axis 0"):
        my_add(x, torch.ones(4, device="cuda"))
    assert Case((x,)).tensors[0].is_cuda
