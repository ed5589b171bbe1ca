"""Our kernels on a GPU, beside those for the CPU: `make test-cuda`. Never run so far."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch

import myops

pytestmark = pytest.mark.skipif(
    not torch.cuda.is_available(), reason="no GPU that this PyTorch can use"
)
FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
TOLERANCES = {torch.float16: 2e-3, torch.bfloat16: 2e-2, torch.float32: 1e-5, torch.float64: 1e-12}


def numbers(*shape: int, dtype: torch.dtype, scale: float = 1) -> torch.Tensor:
    return ((torch.rand(shape, dtype=torch.float64) * 2 - 1) * scale).to(dtype)


def resizing(mode: str, antialias: bool, dtype: torch.dtype) -> tuple[Any, list[torch.Tensor]]:
    def call(x: torch.Tensor) -> torch.Tensor:
        return myops.resize(x, [1.0, 1.0, 1.7, 0.4], mode=mode, antialias=antialias)

    return call, [numbers(2, 3, 17, 23, dtype=dtype)]


def deforming(masked: bool, dtype: torch.dtype) -> tuple[Any, list[torch.Tensor]]:
    def call(x: Any, offset: Any, weight: Any, bias: Any, mask: Any = None) -> torch.Tensor:
        return myops.deform_conv2d(x, offset, weight, bias, padding=1, mask=mask)

    inputs = [
        numbers(2, 8, 12, 11, dtype=dtype),
        numbers(2, 36, 12, 11, dtype=dtype, scale=2),
        numbers(6, 4, 3, 3, dtype=dtype),
        numbers(6, dtype=dtype),
    ]
    return call, [*inputs, numbers(2, 18, 12, 11, dtype=dtype)] if masked else inputs


def adding(dtype: torch.dtype) -> tuple[Any, list[torch.Tensor]]:
    return myops.my_add, [numbers(5, 1, 7, dtype=dtype), numbers(33, 7, dtype=dtype)]


CASES: dict[str, tuple[Callable[..., Any], tuple[Any, ...], bool]] = {
    "my_add": (adding, (), True),
    **{
        f"resize-{mode}{'-antialias' * antialias}": (resizing, (mode, antialias), True)
        for mode, antialias in itertools.product(("nearest", "linear", "cubic"), (False, True))
        if not (mode == "nearest" and antialias)
    },
    "deform_conv2d": (deforming, (False,), False),
    "deform_conv2d-mask": (deforming, (True,), False),
}
each_case = pytest.mark.parametrize("name", CASES)
each_dtype = pytest.mark.parametrize("dtype", FLOATS, ids=str)


def made(name: str, dtype: torch.dtype) -> tuple[Any, list[torch.Tensor]]:
    torch.manual_seed(0)
    make, arguments, _ = CASES[name]
    return make(*arguments, dtype)


@each_case
@each_dtype
def test_results_and_gradients(name: str, dtype: torch.dtype) -> None:
    call, inputs = made(name, dtype)
    results = []
    for device in ("cpu", "cuda", "cuda"):
        leaves = [item.to(device).detach().requires_grad_() for item in inputs]
        y = call(*leaves)
        torch.manual_seed(1)
        grad = numbers(*y.shape, dtype=dtype).to(device)
        results.append([y.detach(), *torch.autograd.grad(y, leaves, grad)])
    exact = CASES[name][2]
    tolerance = TOLERANCES[dtype]
    for place, (expected, found, again) in enumerate(zip(*results, strict=True)):
        assert found.device.type == "cuda"
        assert torch.equal(found, again), "from run to run"
        scale = float(expected.abs().max())
        torch.testing.assert_close(found.cpu(), expected, rtol=tolerance, atol=tolerance * scale)
        if exact and place == 0:
            assert torch.equal(found.cpu(), expected)


@each_case
def test_gradcheck(name: str) -> None:
    call, inputs = made(name, torch.float64)
    leaves = [item.cuda().requires_grad_() for item in inputs]
    assert torch.autograd.gradcheck(call, leaves, fast_mode=True, nondet_tol=0.0)


@each_case
def test_streams_and_graphs(name: str) -> None:
    call, inputs = made(name, torch.float32)
    inputs = [item.cuda() for item in inputs]
    expected = call(*inputs)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        found = call(*inputs)
    stream.synchronize()
    assert torch.equal(found, expected)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = call(*inputs)
    inputs[0].mul_(2)
    graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(captured, call(*inputs))


@each_case
def test_compiled(name: str) -> None:
    call, inputs = made(name, torch.float32)
    inputs = [item.cuda() for item in inputs]
    torch._dynamo.reset()
    assert torch.equal(torch.compile(call)(*inputs), call(*inputs))


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="one GPU alone")
@each_case
def test_another_gpu(name: str) -> None:
    call, inputs = made(name, torch.float32)
    expected = call(*[item.to("cuda:0") for item in inputs])
    found = call(*[item.to("cuda:1") for item in inputs])
    assert found.device == torch.device("cuda:1")
    torch.testing.assert_close(found.cpu(), expected.cpu())
