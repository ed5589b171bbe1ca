"""Fast calls with gradients, which are recorded for autograd without Python."""

from __future__ import annotations

import gc
import sys
import threading
import weakref
from collections.abc import Callable

import pytest
import torch
from dispatched import DispatchedNames
from torch.profiler import ProfilerActivity, profile

import myops
from myops import _libraries
from myops._torch import fast_call
from myops.ops import resize as module

if fast_call.INTERNALS is None:
    pytest.skip(f"needs myops built where torch {torch.__version__} is", allow_module_level=True)

G = torch.Generator().manual_seed(5)
CALLS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "sizes": lambda x: myops.interpolate(x, size=(4, 9), mode="bilinear"),
    "scales": lambda x: myops.interpolate(x, scale_factor=1.7, mode="bicubic"),
    "roi": lambda x: myops.resize(
        x, sizes=[2, 3, 4, 5], roi=[0.0] * 4 + [0.9] * 4, mode="linear",
        coordinate_transformation_mode="tf_crop_and_resize", extrapolation_value=2.0,
    ),
}  # fmt: skip
each_call = pytest.mark.parametrize("name", CALLS)


def image(dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(2, 3, 6, 7, generator=G).to(dtype).requires_grad_()


@pytest.fixture
def in_python(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """After a call of the function, all calls work as without the module built for this torch."""

    def change() -> None:
        library = _libraries.OURS._file("torch", ImportError)
        for op in (module._resize, module._resize_backward):
            caller = fast_call.caller(op.info, library, None)
            assert caller is not None
            monkeypatch.setattr(op, "fast_call", caller)

    return change


def is_recorded(result: torch.Tensor) -> bool:
    return "ResizeFunction" not in str(result.grad_fn)


@each_call
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_recorded_gradients_equal_those_through_python(
    in_python: Callable[[], None], name: str, dtype: torch.dtype, layout: torch.memory_format
) -> None:
    x = image(dtype).detach().contiguous(memory_format=layout).requires_grad_()
    result = CALLS[name](x)
    assert is_recorded(result)
    grad = torch.randn(result.shape, generator=G).to(dtype).contiguous(memory_format=layout)
    found = torch.autograd.grad(result, x, grad)[0]
    in_python()
    other = CALLS[name](x)
    assert not is_recorded(other)
    assert torch.equal(result, other)
    expected = torch.autograd.grad(other, x, grad)[0]
    assert torch.equal(found, expected)
    assert found.stride() == expected.stride()
    assert found.dtype == dtype


@each_call
def test_second_derivatives(name: str) -> None:
    x = image(torch.float64)
    assert torch.autograd.gradcheck(CALLS[name], x)
    assert torch.autograd.gradgradcheck(CALLS[name], x)


def test_the_input_is_freed_before_backward() -> None:
    x = image()
    middle = x * 2
    result = CALLS["sizes"](middle)
    freed = weakref.ref(middle)
    del middle
    gc.collect()
    assert freed() is None
    result.sum().backward()
    assert x.grad is not None


def test_attributes_are_freed_with_the_graph() -> None:
    mode = "".join(["lin", "ear"])
    before = sys.getrefcount(mode)
    result = module._resize.call((image(), None, None, [2, 3, 4, 5]), {"mode": mode})
    assert is_recorded(result)
    assert sys.getrefcount(mode) > before
    del result
    assert sys.getrefcount(mode) == before


def test_lists_changed_after_the_call_have_no_effect() -> None:
    x, sizes, attributes = image(), [2, 3, 4, 5], {"mode": "linear"}
    result = module._resize.call((x, None, None, sizes), attributes)
    expected = torch.autograd.grad(result.sum(), x, retain_graph=True)[0]
    sizes[3], attributes["mode"] = 9, "cubic"
    found = torch.autograd.grad(result.sum(), x, retain_graph=True)[0]
    again = torch.autograd.grad(result.sum(), x, create_graph=True)[0]  # through Python
    assert torch.equal(found, expected)
    assert torch.equal(again.detach(), expected)


def test_an_observed_backward_pass_uses_the_dispatcher() -> None:
    x = image()
    expected = torch.autograd.grad(CALLS["sizes"](x).sum(), x)[0]
    result = CALLS["sizes"](x)
    with DispatchedNames() as dispatched:
        found = torch.autograd.grad(result.sum(), x)[0]
    assert "myops::resize_backward" in dispatched.names
    assert torch.equal(found, expected)
    result = CALLS["sizes"](x)
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        result.sum().backward()
    assert "myops::resize_backward" in {event.key for event in profiler.key_averages()}


def test_one_graph_in_several_threads() -> None:
    x = image()
    result = CALLS["scales"](x)
    expected = torch.autograd.grad(result.sum(), x, retain_graph=True)[0]
    equal: list[bool] = []

    def work() -> None:
        for _ in range(50):
            found = torch.autograd.grad(result.sum(), x, retain_graph=True)[0]
            equal.append(torch.equal(found, expected))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert equal == [True] * 200


def test_hooks_accumulation_and_inference_mode() -> None:
    x = image()
    result = CALLS["sizes"](x)
    seen: list[torch.Size] = []
    result.register_hook(lambda grad: seen.append(grad.shape))
    assert result.grad_fn is not None
    result.grad_fn.register_hook(lambda after, before: seen.append(after[0].shape))
    (result.sum() + CALLS["sizes"](x).sum()).backward()
    assert seen == [result.shape, x.shape]
    single = torch.autograd.grad(CALLS["sizes"](x).sum(), x)[0]
    assert torch.equal(x.grad if x.grad is not None else single, 2 * single)
    with torch.inference_mode():
        assert not CALLS["sizes"](x).requires_grad
    with torch.no_grad():
        assert not CALLS["sizes"](x).requires_grad
    assert not CALLS["sizes"](x.detach()).requires_grad


def test_compiled_autograd() -> None:
    x = image()
    expected = torch.autograd.grad((CALLS["sizes"](x) ** 2).sum(), x)[0]
    result = (CALLS["sizes"](x) ** 2).sum()
    compiled = torch.compile(backend="eager")
    with torch._dynamo.compiled_autograd._enable(compiled):
        result.backward()
    assert x.grad is not None
    assert torch.equal(x.grad, expected)


def test_a_gradient_of_another_shape_is_refused() -> None:
    x = image()
    result = CALLS["sizes"](x)
    with pytest.raises(RuntimeError, match="shape"):
        torch.autograd.grad(result, x, torch.zeros(1, 1, 4, 8))
