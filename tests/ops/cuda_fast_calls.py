"""Fast calls on CUDA with stand-ins for its libraries; a program of test_cuda.py."""

from __future__ import annotations

import ctypes
import importlib
import inspect
import os
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch
from cuda_stand_in import cpu, cuda, dispatched, expect, memory, pretend, refused_alike, same

import myops
from myops import _libraries
from myops._torch import fast_call

G = torch.Generator().manual_seed(3)
IMAGE = torch.rand(2, 4, 6, 7, generator=G)
OFFSET = torch.rand(2, 18, 6, 7, generator=G)
MASK = torch.rand(2, 9, 6, 7, generator=G)
WEIGHT = torch.rand(4, 2, 3, 3, generator=G)
NAMES = ("my_add", "resize", "deform_conv2d", "deform_conv2d_int8")
BACKWARD = ("resize_backward", "deform_conv2d_backward")
# By op: what each call of its function for fast calls returned, if that was a result.
fast: dict[str, list[bool]] = {}


def op_of(name: str) -> Any:
    module = importlib.import_module(f"myops.ops.{name.removesuffix('_backward')}")
    return module._backward_op if name == "deform_conv2d_backward" else getattr(module, f"_{name}")


def watch(internals: Any) -> None:
    """Gives the ops functions for fast calls that read tensors in this way."""
    library = _libraries.OURS._file("torch", ImportError)
    calls = {name: fast_call.caller(op_of(name).info, library, internals)
             for name in (*NAMES, *BACKWARD)}  # fmt: skip
    for name, call in calls.items():
        fast[name] = []

        def seen(*arguments: Any, name: str = name, call: Any = call) -> Any:
            result = call(*arguments)
            fast[name].append(result is not NotImplemented)
            return result

        op_of(name).fast_call = seen
    if internals is None:
        return
    # What op.use_gradient() was given when the modules were imported, with these functions.
    for name in ("resize", "deform_conv2d"):
        gradient, module = calls[f"{name}_backward"], importlib.import_module(f"myops.ops.{name}")
        summed = "B" if name == "deform_conv2d" else ""
        fast_call.use_gradient(op_of(name).info, calls[name], gradient, module._gradients, summed)


def was_fast(name: str) -> bool:
    """Whether all calls since the last question were fast calls."""
    calls, fast[name] = fast[name], []
    assert calls, name
    return all(calls)


def deform(x: torch.Tensor, offset: torch.Tensor, weight: torch.Tensor, mask: Any = None) -> Any:
    return myops.deform_conv2d(x, offset, weight, mask=mask, padding=1)


def results() -> None:
    """The same as on the CPU, and as through the dispatcher."""
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.int32):
        a, b = torch.ones(3, 1, 5).to(dtype), torch.arange(20).reshape(4, 5).to(dtype)
        for one, other in ((b, b), (a, b), (b.T, a[0].T)):
            same(myops.my_add(cuda(one), cuda(other)), myops.my_add(one, other))
    same(myops.my_add(cuda(torch.empty(0, 3)), cuda(torch.empty(3))), torch.empty(0, 3))
    assert was_fast("my_add")
    sizes = torch.tensor([2, 4, 9, 5])
    for x in (IMAGE, IMAGE.to(memory_format=torch.channels_last)):
        for mode in ("nearest", "linear", "cubic"):
            ways: list[Callable[[torch.Tensor], torch.Tensor]] = [
                lambda x, mode=mode: myops.resize(x, [1.0, 1.0, 1.5, 0.5], mode=mode),
                lambda x, mode=mode: myops.resize(x, sizes=sizes, mode=mode),
            ]
            for call in (*ways, *ways):
                same(call(cuda(x)), call(x))
        up = {"scale_factor": 2.5, "mode": "bilinear"}
        same(myops.interpolate(cuda(x), **up), myops.interpolate(x, **up))
    assert was_fast("resize")
    # A layout that the kernel does not read is copied on the device, by the dispatcher's kernel.
    sizes_of_turned = [2, 4, 9, 5]
    expected = myops.resize(IMAGE.mT, sizes=sizes_of_turned)
    same(myops.resize(cuda(IMAGE).mT, sizes=sizes_of_turned), expected)
    assert not was_fast("resize")
    for inputs in ([IMAGE, OFFSET, WEIGHT], [IMAGE, OFFSET, WEIGHT, MASK]):
        on_device = list(map(cuda, inputs))
        expected = dispatched(lambda given: deform(*given), on_device)
        fast["deform_conv2d"] = []
        for _ in range(2):
            found = deform(*on_device)
            assert torch.equal(cpu(found), cpu(expected))
        assert was_fast("deform_conv2d")
        same(found, deform(*inputs), bits=False)


def out_arguments() -> None:
    x, out = torch.rand(4, 5, generator=G), cuda(torch.empty(4, 5))
    assert myops.my_add(cuda(x), cuda(x), out=out) is out
    same(out, myops.my_add(x, x))
    assert out._version == 1
    assert was_fast("my_add")
    for wrong in (torch.empty(4, 5), cuda(torch.empty(4, 5), 1), cuda(torch.empty(4, 6)),
                  cuda(torch.empty(4, 5).double()), cuda(torch.empty(5, 4)).T):  # fmt: skip
        before = wrong._version
        refused_alike(lambda out=wrong: myops.my_add(cuda(x), cuda(x), out=out))
        assert wrong._version == before
    shared = cuda(x)
    refused_alike(lambda: myops.my_add(shared, cuda(x), out=shared))
    with torch.inference_mode():
        inside = cuda(torch.empty(4, 5))
        assert myops.my_add(cuda(x), cuda(x), out=inside) is inside
    expect("inference", lambda: myops.my_add(cuda(x), cuda(x), out=inside))
    fast["my_add"] = []


def refusals() -> None:
    x, image = torch.ones(3), cuda(IMAGE)
    texts = [
        refused_alike(call)
        for call in (
            lambda: myops.my_add(cuda(x), cuda(torch.ones(4))),
            lambda: myops.my_add(cuda(x), cuda(x.double())),
            lambda: myops.my_add(cuda(x), x),
            lambda: myops.my_add(x, cuda(x)),
            lambda: myops.my_add(cuda(x), cuda(x, 1)),
            lambda: myops.my_add(cuda(x), cuda(x.to(torch.complex64))),
            lambda: myops.resize(image, cuda(torch.ones(4))),
            lambda: myops.resize(image, [1, 1, -2, 3]),
            lambda: myops.resize(IMAGE, cuda(torch.ones(4))),
            lambda: deform(image, cuda(OFFSET), WEIGHT),
            lambda: deform(image, cuda(OFFSET), cuda(WEIGHT[:3])),
        )
    ]
    assert "b: got a tensor on cpu, expected one on cuda:0, where a is" in texts[2]
    assert "b: got a tensor on cuda:1, expected one on cuda:0, where a is" in texts[4]
    memory.full = True
    assert "CUDA out of memory." in refused_alike(lambda: myops.my_add(cuda(x), cuda(x)))
    memory.full = False
    for name in ("my_add", "resize", "deform_conv2d"):
        fast[name] = []


def devices(torch_cuda: Any, driver: Any) -> None:
    """Each call has the stream and the guard of its device, also for its memory."""
    places: list[tuple[torch.device, int]] = []
    memory.allocated = lambda device: places.append((device, torch_cuda.fake_current_device()))
    made = torch_cuda.fake_guards_made()
    calls: list[Callable[[int], torch.Tensor]] = [
        lambda i: myops.my_add(cuda(torch.ones(3), i), cuda(torch.ones(3), i)),
        lambda i: myops.resize(cuda(IMAGE, i), sizes=[2, 4, 9, 5], mode="linear"),
        lambda i: deform(cuda(IMAGE, i), cuda(OFFSET, i), cuda(WEIGHT, i)),
    ]
    for index in (0, 1, 1, 0, 2):
        for call in calls:
            result = call(index)
            assert result.device == torch.device("cuda", index)
            assert driver.fake_device_of_last_launch() == index
            assert driver.fake_last_stream() == torch_cuda.fake_torch_stream(index)
            assert torch_cuda.fake_current_device() == 0
            assert torch_cuda.fake_guards() == 0
    assert all(device == torch.device("cuda", current) for device, current in places)
    assert torch_cuda.fake_guards_made() - made == 5 * len(calls)
    memory.allocated = None
    assert was_fast("my_add")
    assert was_fast("resize")
    assert was_fast("deform_conv2d")


def scratch(driver: Any) -> None:
    """Scratch memory is freed at the end of the call, after the last launch, and the results when
    nobody has them."""
    launches: list[int] = []
    memory.freed = lambda: launches.append(driver.fake_launches())
    for _ in range(2):
        result = myops.resize(cuda(IMAGE), [1.0, 1.0, 2.0, 0.5], mode="linear")
        assert launches
        assert set(launches) == {driver.fake_launches()}
        before = len(launches)
        del result
        assert len(launches) == before + 1
        launches.clear()
    memory.freed = None
    assert was_fast("resize")


def gradients(internals: Any) -> None:
    """The node of a call is called directly, because torch's engine needs a device that is there.
    With the module for this torch it needs neither Python nor the dispatcher."""
    turned = torch.rand(9, 4, 2, 4, generator=G).permute(2, 1, 3, 0)  # not every kernel reads this
    half = torch.tensor([1, 1, 2, 0.5])
    cases: list[tuple[str, Callable[..., torch.Tensor], list[torch.Tensor], Any]] = [
        ("resize", lambda x: myops.interpolate(x, scale_factor=1.7, mode="bicubic"), [IMAGE], None),
        ("resize", lambda x: myops.interpolate(x, size=(4, 9), mode="bilinear"), [IMAGE], turned),
        ("resize", lambda x: myops.resize(x, half, mode="linear"), [IMAGE], None),
        ("deform_conv2d", lambda x, w, *rest: deform(x, rest[0], w, *rest[1:]),
         [IMAGE, WEIGHT, OFFSET, MASK], None),
    ]  # fmt: skip
    for name, call, tensors, given in cases:
        plain = [item.clone().requires_grad_() for item in tensors]
        expected = call(*plain)
        grad = torch.rand(expected.shape, generator=G) if given is None else given
        wanted = torch.autograd.grad(expected, plain, grad)
        for device in (0, 1):
            leaves = [cuda(item, device).requires_grad_() for item in tensors]
            fast[f"{name}_backward"] = []
            found = differentiate(call(*leaves), cuda(grad, device), internals)
            for one, other in zip(found, wanted, strict=True):
                assert one.device.index == device
                same(one, other, bits=False)
            through_python = fast[f"{name}_backward"]
            assert len(through_python) == (internals is None)
            assert given is not None or all(through_python)
    for name in (*NAMES, *BACKWARD):
        fast[name] = []


def differentiate(result: torch.Tensor, grad: torch.Tensor, internals: Any) -> list[torch.Tensor]:
    node: Any = result.grad_fn
    through_python = hasattr(node, "apply")
    assert through_python == (internals is None)
    with torch.no_grad():
        found = node.apply(grad) if through_python else node(grad)
    found = found if isinstance(found, tuple) else (found,)
    return [item for item in found if item is not None]


def reports() -> None:
    x = cuda(torch.ones(3))
    fast_one = myops.explain(lambda: myops.my_add(x, x)).calls[0]
    other = myops.explain(lambda: torch.ops.myops.my_add(x, x)).calls[0]
    assert fast_one.runtime == other.runtime == "torch cuda"
    assert [step.kernel for step in fast_one.plan] == [step.kernel for step in other.plan]
    assert (fast_one.inputs, fast_one.outputs) == (other.inputs, other.outputs)
    assert was_fast("my_add")


def without_kernel(internals: Any) -> None:
    """The dispatcher's kernel refuses a call of an op that has none for CUDA."""
    info, library = op_of("my_add").info, _libraries.OURS._file("torch", ImportError)
    none = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_char_p)(lambda name: None)
    parts = {"cuda_op": ctypes.cast(none, ctypes.c_void_p).value}
    native = SimpleNamespace(direct=lambda given: info.native.direct({**given, **parts}))
    described: Any = SimpleNamespace(is_prototype=False, native=native)
    call = fast_call.caller(described, library, internals)
    assert call is not None
    x = torch.ones(3)
    assert call((cuda(x), cuda(x)), {}, None) is NotImplemented
    assert torch.equal(call((x, x), {}, None), 3 * x)


def captures(driver: Any) -> None:
    """A call through the dispatcher loads what a fast call then uses while a graph is captured."""
    x = cuda(torch.ones(5).to(torch.int64))
    driver.fake_capture(1)
    text = refused_alike(lambda: myops.my_add(x, x))
    assert "got the first call for int64 while a CUDA graph is captured" in text
    driver.fake_capture(0)
    torch.ops.myops.my_add(x, x)
    driver.fake_capture(1)
    same(myops.my_add(x, x), torch.full((5,), 3))
    driver.fake_capture(0)
    assert all(fast["my_add"][-1:])
    fast["my_add"] = []


def main(way: str, file: str) -> None:
    internals = fast_call.INTERNALS if way == "built for this torch" else None
    torch_cuda = ctypes.CDLL(file)
    driver = ctypes.CDLL(os.environ["MYOPS_CUDA_DRIVER"])
    torch_cuda.fake_torch_stream.restype = ctypes.c_void_p
    driver.fake_last_stream.restype = ctypes.c_void_p
    pretend()
    watch(internals)
    given = {"torch_cuda": torch_cuda, "driver": driver, "internals": internals}
    parts = (
        results, out_arguments, refusals, devices, scratch, gradients, reports, captures,
        without_kernel,
    )  # fmt: skip
    for part in parts:
        part(**{name: given[name] for name in inspect.signature(part).parameters})
    print("passed:", way)


if __name__ == "__main__":
    main(*sys.argv[1:])
