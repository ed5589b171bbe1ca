"""Fast calls with several inputs that require gradients, which are recorded without Python."""

from __future__ import annotations

import gc
import itertools
import threading
import weakref
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
import torch
from dispatched import DispatchedNames
from torch.utils.checkpoint import checkpoint

import myops
from myops import _libraries
from myops._torch import fast_call
from myops.ops import deform_conv2d as module

if fast_call.INTERNALS is None:
    pytest.skip(f"needs myops built where torch {torch.__version__} is", allow_module_level=True)

NAMES = ("input", "offset", "weight", "bias", "mask")
SHAPES = {
    "input": (2, 4, 6, 5), "offset": (2, 36, 3, 5), "weight": (6, 2, 3, 3), "bias": (6,),
    "mask": (2, 18, 3, 5),
}  # fmt: skip


def tensors(dtype: torch.dtype = torch.float32, seed: int = 3) -> dict[str, torch.Tensor]:
    made = torch.Generator().manual_seed(seed)
    return {
        name: torch.randn(shape, generator=made).to(dtype).requires_grad_()
        for name, shape in SHAPES.items()
    }


def call(given: dict[str, torch.Tensor]) -> torch.Tensor:
    return myops.deform_conv2d(**given, stride=(2, 1), padding=1)


def is_recorded(result: torch.Tensor) -> bool:
    return "DeformConv2dFunction" not in str(result.grad_fn)


def use_python(monkeypatch: pytest.MonkeyPatch) -> None:
    """All calls work as without the module built for this torch."""
    library = _libraries.OURS._file("torch", ImportError)
    for op in (module._deform_conv2d, module._backward_op):
        monkeypatch.setattr(op, "fast_call", fast_call.caller(op.info, library, None))


def derivatives(
    given: dict[str, torch.Tensor], wanted: list[str], grad: torch.Tensor, **keywords: Any
) -> tuple[torch.Tensor, ...]:
    return torch.autograd.grad(call(given), [given[name] for name in wanted], grad, **keywords)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("left_out", [(), ("bias",), ("mask",), ("bias", "mask")])
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_gradients_equal_those_through_python(
    monkeypatch: pytest.MonkeyPatch, dtype: torch.dtype, left_out: tuple[str, ...],
    layout: torch.memory_format,
) -> None:  # fmt: skip
    given = {name: item for name, item in tensors(dtype).items() if name not in left_out}
    given["input"] = given["input"].detach().contiguous(memory_format=layout).requires_grad_()
    result = call(given)
    assert is_recorded(result)
    dense = torch.randn(result.shape).to(dtype).contiguous(memory_format=layout)
    grads = [dense, torch.ones(()).to(dtype).expand(result.shape)]
    found = [derivatives(given, list(given), grad) for grad in grads]
    use_python(monkeypatch)
    other = call(given)
    assert not is_recorded(other)
    assert torch.equal(result, other)
    for grad, ours in zip(grads, found, strict=True):
        for mine, expected in zip(ours, derivatives(given, list(given), grad), strict=True):
            assert torch.equal(mine, expected)
            assert mine.stride() == expected.stride()
            assert mine.dtype == dtype


def laid_out(random: Random, tensor: torch.Tensor) -> torch.Tensor:
    """The same numbers in memory of another order, or with gaps."""
    ways: list[Callable[[torch.Tensor], torch.Tensor]] = [
        lambda x: x,
        lambda x: torch.cat([x, x], -1)[..., : x.shape[-1]],
        lambda x: torch.cat([x, x], 0)[: x.shape[0]],
    ]
    if tensor.dim() == 4:
        ways.append(lambda x: x.transpose(-1, -2).contiguous().transpose(-1, -2))
        ways.append(lambda x: x.contiguous(memory_format=torch.channels_last))
    return random.choice(ways)(tensor)


def drawn(random: Random) -> tuple[dict[str, Any], torch.Tensor, list[str]]:
    """The arguments of a random call, a gradient of its result, and what it is asked for."""
    dtype = random.choice([torch.float16, torch.bfloat16, torch.float32, torch.float64])
    batch, groups, moved = random.choice([0, 1, 3]), random.randint(1, 3), random.randint(1, 2)
    channels, outputs = groups * moved * random.randint(1, 3), groups * random.choice([1, 2, 40])
    kernel = (random.randint(1, 3), random.randint(1, 3))
    stride, padding = random.randint(1, 2), random.randint(0, 2)
    size = [random.randint(3, 9) for _ in kernel]
    out = [(n + 2 * padding - k) // stride + 1 for n, k in zip(size, kernel, strict=True)]
    taps = kernel[0] * kernel[1]
    shapes = {
        "input": (batch, channels, *size), "offset": (batch, 2 * moved * taps, *out),
        "weight": (outputs, channels // groups, *kernel),
    }  # fmt: skip
    if random.random() < 0.6:
        shapes["bias"] = (outputs,)
    if random.random() < 0.6:
        shapes["mask"] = (batch, moved * taps, *out)
    given: dict[str, Any] = {
        name: laid_out(random, torch.randn(shape).to(dtype)) for name, shape in shapes.items()
    }
    required = random.sample(list(shapes), random.randint(1, len(shapes)))
    for name in required:
        given[name].requires_grad_()
    grad = random.choice([torch.randn(batch, 1, *out), torch.randn(batch, outputs, *out)])
    grad = laid_out(random, grad.to(dtype)).expand(batch, outputs, *out)
    wanted = random.sample(required, random.randint(1, len(required)))
    return {**given, "stride": stride, "padding": padding}, grad, wanted


@pytest.mark.parametrize("seed", range(60))
def test_random_calls_equal_those_through_python(
    monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    torch.manual_seed(seed)
    given, grad, wanted = drawn(Random(seed))

    def run() -> list[torch.Tensor]:
        result = myops.deform_conv2d(**given)
        return [result, *torch.autograd.grad(result, [given[name] for name in wanted], grad)]

    assert is_recorded(myops.deform_conv2d(**given))
    found = run()
    use_python(monkeypatch)
    for ours, expected in zip(found, run(), strict=True):
        assert ours.stride() == expected.stride()
        torch.testing.assert_close(ours, expected, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("count", range(1, 6))
def test_any_of_the_gradients(count: int) -> None:
    """Others are not asked for, or their tensors do not require a gradient."""
    given = tensors()
    grad = torch.randn(call(given).shape)
    every = dict(zip(NAMES, derivatives(given, list(NAMES), grad), strict=True))
    for wanted in itertools.combinations(NAMES, count):
        asked = derivatives(given, list(wanted), grad)
        fixed = {n: item if n in wanted else item.detach() for n, item in given.items()}
        assert is_recorded(call(fixed))
        required = derivatives(fixed, list(wanted), grad)
        for name, first, second in zip(wanted, asked, required, strict=True):
            assert torch.equal(first, every[name]), (name, wanted)
            assert torch.equal(second, every[name]), (name, wanted)


def test_second_derivatives() -> None:
    given = {
        name: item.detach().mul(0.3).requires_grad_()
        for name, item in tensors(torch.float64, 8).items()
    }

    def function(*items: torch.Tensor) -> torch.Tensor:
        return call(dict(zip(NAMES, items, strict=True)))

    items = [given[name] for name in NAMES]
    assert is_recorded(function(*items))
    assert torch.autograd.gradcheck(function, items)
    assert torch.autograd.gradgradcheck(function, items)


def test_a_tensor_written_to_before_backward_is_refused() -> None:
    for name in ("input", "offset", "weight", "mask"):
        given = tensors()
        result = call(given)
        with torch.no_grad():
            given[name].add_(1)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            result.sum().backward()
    given = tensors()
    result = call(given)
    with torch.no_grad():
        given["bias"].add_(1)  # which no gradient depends on
    result.sum().backward()


def test_a_second_backward_pass_is_refused_and_frees_tensors() -> None:
    given = tensors()
    middle = given["input"] * 2
    freed = weakref.ref(middle)
    result = call({**given, "input": middle})
    del middle
    gc.collect()
    assert freed() is not None
    result.sum().backward()
    gc.collect()
    assert freed() is None
    with pytest.raises(RuntimeError, match="second time"):
        result.sum().backward()


def test_hooks_of_saved_tensors_and_checkpoints() -> None:
    given = tensors()
    grad = torch.randn(call(given).shape)
    expected = derivatives(given, list(NAMES), grad)
    packed: list[torch.Size] = []

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        packed.append(tensor.shape)
        return tensor.clone()

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        found = derivatives(given, list(NAMES), grad)
    assert sorted(packed) == sorted(SHAPES[n] for n in NAMES if n != "bias")
    assert all(map(torch.equal, found, expected))
    again = checkpoint(call, given, use_reentrant=False)
    found = torch.autograd.grad(again, [given[name] for name in NAMES], grad)
    assert all(map(torch.equal, found, expected))


def test_an_observed_backward_pass_uses_the_dispatcher() -> None:
    given = tensors()
    result = call(given)
    grad = torch.randn(result.shape)
    expected = derivatives(given, list(NAMES), grad)
    with DispatchedNames() as dispatched:
        found = torch.autograd.grad(result, [given[name] for name in NAMES], grad)
    assert "myops::deform_conv2d_backward" in dispatched.names
    assert all(map(torch.equal, found, expected))


def test_compiled_autograd() -> None:
    given = tensors()
    expected = torch.autograd.grad((call(given) ** 2).sum(), [given[name] for name in NAMES])
    result = (call(given) ** 2).sum()
    with torch._dynamo.compiled_autograd._enable(torch.compile(backend="eager")):
        result.backward()
    for name, other in zip(NAMES, expected, strict=True):
        found = given[name].grad
        assert found is not None
        assert torch.equal(found, other)


def test_one_graph_in_several_threads() -> None:
    given = tensors()
    result, items = call(given).sum(), [given[name] for name in NAMES]
    expected = torch.autograd.grad(result, items, retain_graph=True)
    equal: list[bool] = []

    def work() -> None:
        for _ in range(30):
            found = torch.autograd.grad(result, items, retain_graph=True)
            equal.append(all(map(torch.equal, found, expected)))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert equal == [True] * 120
