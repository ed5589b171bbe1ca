"""Unusual tensors, and modes of torch that observe calls: each public function gives the result of
ordinary tensors, or refuses the call; never something else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

import myops
import myops.nn

pytestmark = pytest.mark.filterwarnings("ignore")

GENERATOR = torch.Generator().manual_seed(7)
X = torch.randn(2, 4, 6, 5, generator=GENERATOR)
OFFSET = torch.randn(2, 18, 6, 5, generator=GENERATOR)
WEIGHT = torch.randn(3, 4, 3, 3, generator=GENERATOR)
LAYER = myops.nn.ModulatedDeformConv2dPack(4, 3, 3, padding=1)
FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "my_add": lambda x: myops.my_add(x, x),
    "resize": lambda x: myops.resize(x, [1, 1, 1.5, 2], mode="cubic"),
    "resize by a tensor": lambda x: myops.resize(
        x, torch.tensor([1.5, 0.5]), axes=[2, 3], mode="linear", antialias=True
    ),
    "interpolate": lambda x: myops.interpolate(x, scale_factor=1.7, mode="bilinear"),
    "area": lambda x: myops.interpolate(x, size=(3, 4), mode="area"),
    "deform_conv2d": lambda x: myops.deform_conv2d(x, OFFSET, WEIGHT, padding=1),
    "layer": LAYER,
}
each_function = pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS)


class Named(Tensor):
    """A subclass without additions."""


class Wrapper(Tensor):
    """A tensor without memory that wraps another one."""

    inner: Tensor

    @staticmethod
    def __new__(cls, inner: Tensor) -> Any:
        self = Tensor._make_wrapper_subclass(
            cls, inner.shape, strides=inner.stride(), dtype=inner.dtype
        )
        self.inner = inner
        return self

    @classmethod
    def __torch_dispatch__(
        cls, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        def unwrap(item: Any) -> Any:
            return item.inner if isinstance(item, Wrapper) else item

        result = function(*tree_map(unwrap, args), **tree_map(unwrap, kwargs or {}))
        return tree_map(lambda item: cls(item) if isinstance(item, Tensor) else item, result)


class DispatchMode(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None):  # type: ignore[no-untyped-def]
        self.seen.append(str(function))
        return function(*args, **(kwargs or {}))


class FunctionMode(TorchFunctionMode):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None):  # type: ignore[no-untyped-def]
        self.seen.append(str(function))
        return function(*args, **(kwargs or {}))


def overlapping(x: Tensor) -> Tensor:
    return x[:1].expand_as(x)


SAME: dict[str, Callable[[Tensor], Tensor]] = {
    "subclass": lambda x: x.as_subclass(Named),
    "parameter": torch.nn.Parameter,
    "negated when it is read": lambda x: torch._neg_view(-x),
    "strided": lambda x: x.mT.contiguous().mT,
    "every second of a larger one": lambda x: torch.stack([x, x + 1], -1)[..., 0],
    "channels_last": lambda x: x.contiguous(memory_format=torch.channels_last),
    "a view in the middle of memory": lambda x: torch.cat([x[:1], x, x])[1:3],
    "of inference mode": lambda x: _of_inference_mode(x),
}


def _of_inference_mode(x: Tensor) -> Tensor:
    with torch.inference_mode():
        return x.clone()


@each_function
@pytest.mark.parametrize("make", SAME.values(), ids=SAME)
def test_unusual_tensors_equal_contiguous_ones(
    function: Callable[[Tensor], Tensor], make: Any
) -> None:
    with torch.no_grad():
        torch.testing.assert_close(function(make(X)).as_subclass(Tensor), function(X))


@each_function
def test_expanded_tensors_equal_their_copies(function: Callable[[Tensor], Tensor]) -> None:
    with torch.no_grad():
        expanded = overlapping(X)
        torch.testing.assert_close(function(expanded), function(expanded.clone()))


@each_function
def test_wrapper_tensors_receive_the_op(function: Callable[[Tensor], Tensor]) -> None:
    with torch.no_grad():
        result = function(Wrapper(X))
        assert isinstance(result, Wrapper)
        torch.testing.assert_close(result.inner, function(X))


UNKNOWN: dict[str, Callable[[Tensor], Tensor]] = {
    "sparse": lambda x: x.to_sparse(),
    "quantized": lambda x: torch.quantize_per_tensor(x, 0.1, 0, torch.quint8),
    "nested": lambda x: torch.nested.nested_tensor([x[0], x[1]]),
    "complex": lambda x: x.to(torch.complex64),
    "conjugated when it is read": lambda x: x.to(torch.complex64).conj(),
    "bool": lambda x: x > 0,
    "int8": lambda x: x.to(torch.int8),
    "float8": lambda x: x.to(torch.float8_e5m2),
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("make", UNKNOWN.values(), ids=UNKNOWN)
def test_unsupported_tensors_are_refused(name: str, make: Any) -> None:
    errors = (RuntimeError, NotImplementedError, TypeError)
    # In the layer, torch's own convolution is the first to refuse.
    text = "" if name == "layer" else r"(my_add|resize|interpolate|deform_conv2d): \w+: got "
    with torch.no_grad(), pytest.raises(errors, match=text):
        FUNCTIONS[name](make(X))


FREED: dict[str, Callable[[Tensor], Tensor]] = {
    "all": lambda x: x.clone(),
    "a view behind the first element": lambda x: torch.cat([x, x])[len(x) :],
    "transposed": lambda x: x.mT.contiguous().mT,
}


@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize("name", [name for name in FUNCTIONS if name != "layer"])
@pytest.mark.parametrize("view", FREED.values(), ids=FREED)
def test_freed_memory_is_refused(
    name: str, view: Callable[[Tensor], Tensor], requires_grad: bool
) -> None:
    x = view(X).requires_grad_(requires_grad)
    x.untyped_storage().resize_(0)
    with pytest.raises(RuntimeError, match=r"\w: got a tensor of shape .* memory has been freed"):
        FUNCTIONS[name](x)


@pytest.mark.parametrize("view", FREED.values(), ids=FREED)
def test_freed_memory_for_a_result_is_refused(view: Callable[[Tensor], Tensor]) -> None:
    out, one = view(X), torch.ones(1)
    out.untyped_storage().resize_(0)
    with pytest.raises(RuntimeError, match=r"out: got .* (freed|strides)"):
        myops.my_add(X, one, out=out)
    with pytest.raises(RuntimeError, match=r"out: got .* (freed|strides)"):
        myops.interpolate(X, size=(6, 5), out=out)


def test_tensors_without_elements_need_no_memory() -> None:
    x = torch.empty(0, 3)
    x.untyped_storage().resize_(0)
    assert myops.my_add(x, x).shape == (0, 3)
    one = torch.ones(1).expand(5, 5)  # more elements than memory
    assert torch.equal(myops.my_add(one, one), torch.full((5, 5), 3.0))


@each_function
@pytest.mark.parametrize("mode", [DispatchMode, FunctionMode], ids=["dispatch", "function"])
def test_dispatch_and_function_modes_see_the_call(
    function: Callable[[Tensor], Tensor], mode: Any
) -> None:
    with torch.no_grad():
        want = function(X)
        with mode() as watching:
            got = function(X)
    assert torch.equal(got, want)
    assert any("myops" in name for name in watching.seen)


@each_function
def test_results_in_inference_mode_are_inference_tensors(
    function: Callable[[Tensor], Tensor],
) -> None:
    with torch.inference_mode():
        got = function(X)
    assert got.is_inference()
    with torch.no_grad():
        assert torch.equal(got.clone(), function(X))


@each_function
def test_inference_tensors_have_no_gradient(function: Callable[[Tensor], Tensor]) -> None:
    tensor = _of_inference_mode(X)
    if function is LAYER:  # its parameters need the input for their gradients
        with pytest.raises(RuntimeError, match="Inference tensors cannot be saved for backward"):
            function(tensor)
        return
    result = function(tensor)
    assert not result.requires_grad
    assert torch.equal(result, function(X))


@each_function
def test_hooks_run_once_and_change_the_gradient(function: Callable[[Tensor], Tensor]) -> None:
    def gradient(hooked: bool) -> tuple[Tensor, int]:
        x = X.clone().requires_grad_()
        calls = []
        result = function(x)
        if hooked:
            result.register_hook(lambda grad: calls.append(1) or 2 * grad)
            x.register_hook(lambda grad: calls.append(1) or 3 * grad)
        result.sum().backward()
        assert x.grad is not None
        return x.grad, len(calls)

    plain, none = gradient(False)
    changed, calls = gradient(True)
    assert (none, calls) == (0, 2)
    torch.testing.assert_close(changed, 6 * plain, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast_casts_convolutions_only(name: str, dtype: torch.dtype) -> None:
    """As in torch: a convolution is cast, a sum and a resize are not."""
    with torch.no_grad(), torch.autocast("cpu", dtype=dtype):
        result = FUNCTIONS[name](X)
    assert result.dtype == (dtype if name in ("deform_conv2d", "layer") else torch.float32)
    with torch.no_grad():
        torch.testing.assert_close(result.float(), FUNCTIONS[name](X), rtol=0.05, atol=0.2)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_torch_func_transforms(name: str) -> None:
    function = FUNCTIONS[name]
    batch = torch.stack([X, 2 * X, X.flip(2)])
    with torch.no_grad():
        want = torch.stack([function(item) for item in batch])
        torch.testing.assert_close(torch.vmap(function)(batch), want, rtol=1e-4, atol=1e-4)

    def loss(x: Tensor) -> Tensor:
        return function(x).square().sum()

    x = X.clone().requires_grad_()
    loss(x).backward()
    got = torch.func.grad(loss)(X)
    torch.testing.assert_close(got, x.grad, rtol=1e-4, atol=1e-3)
    _, tangent = torch.func.jvp(loss, (X,), (torch.ones_like(X),))
    torch.testing.assert_close(tangent, got.sum(), rtol=1e-3, atol=1e-1)
