"""Fast calls: when a call uses no dispatcher, and when it must use it."""

from __future__ import annotations

import importlib
import sys
import threading
import time
import types
from collections.abc import Callable
from typing import Any

import pytest
import torch
from dispatched import DispatchedNames
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.overrides import TorchFunctionMode
from torch.profiler import ProfilerActivity, profile

import myops
from myops import _libraries, _numpy_call, _shape_rule
from myops._torch import fast_call, torch_internals

G = torch.Generator().manual_seed(0)
X = torch.randn(2, 3, 6, 7, generator=G)
OFFSET = torch.randn(2, 18, 6, 7, generator=G)
MASK = torch.rand(2, 9, 6, 7, generator=G)
W = torch.randn(4, 3, 3, 3, generator=G)

CALLS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "my_add": lambda x: myops.my_add(x, x[:1, :1]),
    "resize by a list": lambda x: myops.resize(x, [1, 1, 2, 3], mode="cubic"),
    "resize by a tensor": lambda x: myops.resize(
        x, sizes=torch.tensor([2, 3, 9, 5]), mode="linear", antialias=True
    ),
    "interpolate": lambda x: myops.interpolate(x, scale_factor=2.5, mode="bilinear"),
    "deform_conv2d": lambda x: myops.deform_conv2d(
        x, OFFSET.to(x.dtype), W.to(x.dtype), mask=MASK.to(x.dtype), padding=(1, 1)
    ),
}
OPS = {name: name.partition(" ")[0].replace("interpolate", "resize") for name in CALLS}
each_call = pytest.mark.parametrize("name", CALLS)


@pytest.fixture(params=["built for this torch", "for every torch"])
def direct(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each call of an op was a fast call, with and without the module built for this
    torch."""
    seen: list[bool] = []
    internals = None
    if request.param == "built for this torch":
        internals = fast_call.INTERNALS
        if internals is None:
            pytest.skip(f"needs myops built where torch {torch.__version__} is, which is optional")
    library = _libraries.OURS._file("torch", ImportError)
    for name in set(OPS.values()):
        op = getattr(importlib.import_module(f"myops.ops.{name}"), f"_{name}")
        caller = fast_call.caller(op.info, library, internals)
        assert caller is not None

        def call(*arguments: Any, inside: Any = caller) -> Any:
            result = inside(*arguments)
            seen.append(result is not NotImplemented)
            return result

        monkeypatch.setattr(op, "fast_call", call)
    return seen


def through_the_dispatcher(name: str, x: torch.Tensor) -> torch.Tensor:
    with DispatchedNames() as dispatched:
        result = CALLS[name](x)
    assert f"myops::{OPS[name]}" in dispatched.names
    return result


@each_call
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_fast_calls_equal_calls_through_the_dispatcher(
    direct: list[bool], name: str, dtype: torch.dtype, layout: torch.memory_format
) -> None:
    x = X.to(dtype).contiguous(memory_format=layout)
    result = CALLS[name](x)
    assert direct == [True]
    expected = through_the_dispatcher(name, x)
    assert torch.equal(result, expected)
    assert result.stride() == expected.stride()
    assert result.dtype == dtype


@each_call
def test_observed_calls_go_through_the_dispatcher(direct: list[bool], name: str) -> None:
    class Functions(TorchFunctionMode):
        names: tuple[str, ...] = ()

        def __torch_function__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            self.names = (*self.names, str(func))
            return func(*args, **(kwargs or {}))

    with Functions() as functions:
        CALLS[name](X)
    assert any(f"myops.{OPS[name]}" in item for item in functions.names)
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        CALLS[name](X)
    assert f"myops::{OPS[name]}" in {event.key for event in profiler.key_averages()}
    traced = torch.jit.trace(CALLS[name], (X,), check_trace=False)
    assert f"myops::{OPS[name]}" in str(traced.inlined_graph)
    assert direct
    assert not any(direct)
    before = len(direct)
    stacked = torch.vmap(CALLS[name])(torch.stack([X, X]))
    assert not direct[before]  # the call that the vmap rule of the op makes inside
    assert torch.equal(stacked[1], CALLS[name](X))
    assert direct[-1]


@each_call
def test_results_have_one_owner(direct: list[bool], name: str) -> None:
    result = CALLS[name](X)
    assert direct == [True]
    assert owners(result) == owners(torch.add(X, X))
    assert result.untyped_storage().resizable()


def owners(tensor: Any) -> int:
    count: int = tensor._use_count()
    return count


@each_call
def test_calls_with_gradients_go_through_the_dispatcher(direct: list[bool], name: str) -> None:
    x = X.clone().requires_grad_()
    CALLS[name](x).sum().backward()
    assert x.grad is not None
    assert not direct[0]
    with torch.no_grad():
        assert torch.equal(CALLS[name](torch.nn.Parameter(X)), CALLS[name](X))
    assert direct[-2:] == [True, True]
    with torch.autograd.forward_ad.dual_level():
        CALLS[name](X)
    assert not direct[-1]


def test_other_threads_run_during_long_calls(direct: list[bool]) -> None:
    x = torch.zeros(4_000_000)
    out = torch.empty_like(x)
    ticks, ending = 0, threading.Event()

    def tick() -> None:
        nonlocal ticks
        while not ending.is_set():
            ticks += 1
            time.sleep(0)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(100)  # seconds: it runs only when this thread releases the interpreter
    thread = threading.Thread(target=tick)
    try:
        thread.start()
        most = 0
        deadline = time.monotonic() + 60  # on a busy machine many calls have no core to spare
        while most < 100 and time.monotonic() < deadline:
            before = ticks
            myops.my_add(x, x, out=out)
            most = max(most, ticks - before)
    finally:
        ending.set()
        sys.setswitchinterval(interval)
        thread.join()
    assert all(direct)
    assert most >= 100  # during one call; its checks alone allow three


def test_unusual_tensors_go_through_the_dispatcher(direct: list[bool]) -> None:
    class Tagged(torch.Tensor):
        pass

    assert type(myops.my_add(X.as_subclass(Tagged), X)) is Tagged
    negated = torch.complex(X, X).conj().imag
    assert negated.is_neg()
    assert torch.equal(myops.my_add(negated, X), -X)
    zeros = torch._efficientzerotensor(X.shape)  # what forward-mode AD has for no tangent
    assert zeros.data_ptr() == 0
    assert torch.equal(myops.my_add(zeros, X), X)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        CALLS["deform_conv2d"](X)
    assert CALLS["my_add"](X.to("meta")).shape == X.shape
    with FakeTensorMode(), pytest.raises(AssertionError, match=r"FakeTensor|fake"):
        CALLS["my_add"](X)  # a real tensor among fakes, which the mode refuses
    assert not any(direct)
    assert myops.my_add(X.mT, X.mT).equal(3 * X.mT)  # copied, or read with strides


def test_lazy_clones_are_copied_before_a_write(direct: list[bool]) -> None:
    x = torch.ones(3)
    lazy = torch._lazy_clone(x)
    assert myops.my_add(lazy, lazy).equal(torch.full((3,), 3.0))
    myops.my_add(torch.ones(3), torch.ones(3), out=lazy)
    assert lazy.equal(torch.full((3,), 3.0))
    assert x.equal(torch.ones(3))
    assert all(direct)
    for call in (myops.my_add, torch.ops.myops.my_add.out):
        lazy = torch._lazy_clone(x)  # one tensor twice, whose memory moves when it is written
        with pytest.raises(RuntimeError, match="memory that it shares with a"):
            call(lazy, torch.ones(3), out=lazy)


def test_attributes_may_be_any_mapping(direct: list[bool]) -> None:
    op = importlib.import_module("myops.ops.resize")._resize
    inputs = (X, None, [1.0, 1.0, 2.0, 2.0], None)
    expected = op.call(inputs, {"mode": "linear"})
    assert direct == [True]
    assert op.call(inputs, types.MappingProxyType({"mode": "linear"})).equal(expected)
    with pytest.raises(TypeError):
        op.call(inputs, None)
    assert direct == [True, False, False]


def test_constant_attributes_are_read_once(direct: list[bool]) -> None:
    op = importlib.import_module("myops.ops.resize")._resize
    inputs = (X, None, [1.0, 1.0, 2.0, 2.0], None)
    expected = op.call(inputs, {"mode": "cubic", "axes": [0, 1, 2, 3]})
    constant = fast_call.Constant(mode="cubic", axes=[0, 1, 2, 3])
    for _ in range(3):
        assert op.call(inputs, constant).equal(expected)
    constant["mode"] = "linear"  # what nobody should do
    assert op.call(inputs, constant).equal(expected)
    assert not op.call(inputs, fast_call.Constant(mode="linear")).equal(expected)
    assert all(direct)
    assert len(direct) == 6


@pytest.mark.parametrize("given", [{"size": (9, 5)}, {"size": [9, 5]}, {"scale_factor": 2}])
def test_usual_interpolations_are_one_fast_call(direct: list[bool], given: dict[str, Any]) -> None:
    for x in (X, torch.nn.Parameter(X)):
        found = myops.interpolate(x, mode="bilinear", **given)
        expected = torch.nn.functional.interpolate(x, mode="bilinear", **given)
        torch.testing.assert_close(found, expected)
    with pytest.raises(ValueError, match="size"):
        myops.interpolate(X, size=(9,), mode="bilinear")
    assert direct[0]
    assert len(direct) in (2, 4)  # without the module for this torch, autograd calls again


def test_out_has_a_new_version_after_a_call(direct: list[bool]) -> None:
    x = torch.randn(3, requires_grad=True)
    out = torch.ones(3)
    product = x * out
    myops.my_add(torch.ones(3), torch.ones(3), out=out)
    assert out._version == 1
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.sum().backward()
    with torch.inference_mode():
        inside = torch.empty(3)
        assert myops.my_add(inside + 1, inside, out=torch.empty(3)).shape == (3,)
        assert myops.my_add(out, out, out=inside) is inside


def test_refusals_have_the_text_of_the_dispatcher(direct: list[bool]) -> None:
    def refusal(call: Callable[[], Any]) -> str:
        with pytest.raises(RuntimeError) as caught:
            call()
        return str(caught.value).partition("\n")[0]

    for bad in (
        lambda: myops.my_add(torch.ones(3), torch.ones(4)),
        lambda: myops.my_add(torch.ones(3), torch.ones(3).double()),
        lambda: myops.my_add(torch.ones(3), torch.ones(3), out=torch.empty(4)),
        lambda: myops.resize(X, [1, 1, -2, 3]),
    ):
        here = refusal(bad)
        with profile(activities=[ProfilerActivity.CPU]):
            assert refusal(bad) == here
    assert direct.count(False) == 4


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_calls_use_the_number_of_threads_of_torch(direct: list[bool], threads: int) -> None:
    x = torch.randn(8, 3, 200, 200)
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(threads)
        assert torch.equal(myops.my_add(x, x), 3 * x)
        assert torch.equal(
            myops.interpolate(x, scale_factor=2, mode="nearest"),
            torch.nn.functional.interpolate(x, scale_factor=2, mode="nearest"),
        )
    finally:
        torch.set_num_threads(before)
    assert all(direct)


def test_another_torch_version_uses_no_internals(monkeypatch: pytest.MonkeyPatch) -> None:
    assert torch_internals.table("1.2.3+other", "0123456789") is None

    def broken(name: str) -> None:
        raise ImportError("undefined symbol: _ZN2at6Tensor")

    monkeypatch.setattr(importlib, "import_module", broken)
    with pytest.warns(RuntimeWarning, match="undefined symbol"):
        assert torch_internals.table(torch.__version__, "0123456789") is None


@pytest.mark.parametrize("key", [5, None, b"mode", ("mode",), "\ud800"])
def test_wrong_attribute_names_are_refused(direct: list[bool], key: Any) -> None:
    op = importlib.import_module("myops.ops.resize")._resize
    inputs = (X, None, [1.0, 1.0, 2.0, 2.0], None)
    ways: list[Callable[[], Any]] = [
        lambda: op.call(inputs, {key: "linear"}),
        lambda: op.call((X.clone().requires_grad_(), *inputs[1:]), {key: "linear"}),
        lambda: op.call((X.mT, *inputs[1:]), {key: "linear"}),
        lambda: _numpy_call.call("resize", [X.numpy(), None, X.numpy(), None], {key: "linear"}),
        lambda: _shape_rule.infer("resize", [[2], None, [1], None], (), {key: "linear"}),
    ]
    for way in ways:
        with pytest.raises((TypeError, RuntimeError, ValueError)):
            way()
    with pytest.raises((TypeError, RuntimeError)):
        myops.resize(X, [1, 1, 2, 2], mode=key)


@pytest.mark.parametrize("name", ["uint1", "uint4", "uint7", "int2", "int4"])
def test_integers_of_fewer_than_8_bits_are_refused(direct: list[bool], name: str) -> None:
    """DLPack calls them the same."""
    for whole in (torch.uint8, torch.int8):
        x = torch.ones(1, 1, 2, 2, dtype=whole).view(getattr(torch, name))
        with pytest.raises(RuntimeError, match=f"resize: X: got dtype {name}, expected"):
            myops.resize(x, [1, 1, 2, 2], mode="nearest")
    assert direct == [False, False]
