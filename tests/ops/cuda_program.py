"""The programs of test_cuda.py, each for a process of its own."""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path
from typing import Any

import torch
from cuda_stand_in import cpu, cuda, expect, memory, pretend, same

import myops

# ---- A device for which no kernel exists.


def elsewhere() -> None:
    from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

    _setup_privateuseone_for_python_backend("npu")

    def empty(*shape: int) -> torch.Tensor:
        return torch._C._acc.create_empty_tensor(shape, torch.float32)

    x, image = empty(2, 3), empty(1, 2, 4, 5)
    weight, offset = empty(3, 2, 1, 1), empty(1, 2, 4, 5)
    advice = "expected one on cpu or cuda: the op has no kernel for other devices"
    for call in (myops.my_add, torch.ops.myops.my_add):
        expect(
            f"my_add: a: got a tensor on privateuseone:0, {advice}", lambda call=call: call(x, x)
        )
        expect("my_add: ", lambda call=call: call(torch.ones(2, 3), x))
    expect("Call it with a.cpu()", lambda: myops.my_add(x, x))
    expect(
        "resize: X: got a tensor on privateuseone:0",
        lambda: myops.resize(image, sizes=[1, 2, 8, 8]),
    )
    expect("deform_conv2d: input: got", lambda: myops.deform_conv2d(image, offset, weight))
    expect(
        "deform_conv2d_backward_backward: grad: got a tensor on privateuseone:0, expected one on",
        lambda: torch.ops.myops.deform_conv2d_backward_backward(
            empty(1, 3, 4, 5), image, weight, offset
        ),
    )

    # On other devices, a patched function runs its original kernel.
    calls: list[str] = []
    library = torch.library.Library("aten", "IMPL")
    library.impl(
        "upsample_nearest2d", lambda *a, **k: calls.append("original") or a[0], "PrivateUse1"
    )
    with myops.patch_interpolate():
        torch.nn.functional.interpolate(image, scale_factor=2.0)
        assert calls == ["original"]
        torch.nn.functional.interpolate(torch.rand(1, 2, 4, 5), scale_factor=2.0)
    sys.path.insert(0, str(Path(__file__).parents[1]))
    from torchvision_stand_in import SCHEMA

    stand_in = torch.library.Library("torchvision", "FRAGMENT")
    if not hasattr(torch.ops.torchvision, "deform_conv2d"):
        stand_in.define(SCHEMA)
    stand_in.impl("deform_conv2d", lambda *a: calls.append("torchvision") or a[0], "PrivateUse1")
    rest = (1, 1, 0, 0, 1, 1, 1, 1, False)
    with myops.patch_torchvision():
        torch.ops.torchvision.deform_conv2d(image, weight, offset, image, empty(3), *rest)
    assert calls == ["original", "torchvision"]


# ---- Tensors on CUDA.


class Wrapped(torch.Tensor):
    """A tensor on CUDA without memory, which redispatches calls to the kernels for CUDA."""

    @staticmethod
    def __new__(cls, *shape: int) -> Any:
        return torch.Tensor._make_wrapper_subclass(cls, shape, device="cuda:0")

    @classmethod
    def __torch_dispatch__(
        cls, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        keys = torch._C.DispatchKeySet(torch._C.DispatchKey.CUDA)
        return function.redispatch(keys, *args, **(kwargs or {}))


def without_cuda() -> None:
    """The library of myops runs in any build of PyTorch, and names what this build lacks."""
    x, image = Wrapped(2, 3), Wrapped(1, 2, 4, 5)
    lacks = "CUDA: got a PyTorch without CUDA, expected a build of PyTorch 2.10 or later"
    expect(f"my_add: {lacks}", lambda: myops.my_add(x, x))
    expect(f"resize: {lacks}", lambda: myops.resize(image, [1.0, 1.0, 2.0, 2.0]))
    expect("my_add: b: got a tensor on cpu, expected one on cuda:0, where a is",
           lambda: myops.my_add(x, torch.ones(2, 3)))  # fmt: skip
    torch.cuda._initialized = True
    plain = cuda(torch.ones(3))  # of a fast call
    expect(f"my_add: {lacks}", lambda: myops.my_add(plain, plain))


def without_memory() -> None:
    """The text by which programs recognise that they should try again with a smaller batch."""
    x = cuda(torch.ones(3, 5))
    memory.full = True
    expect("my_add: CUDA: got no memory from torch for float32 of shape [3, 5] on cuda:0, "
           "expected 60 bytes: CUDA out of memory.",
           lambda: torch.ops.myops.my_add(x, x))  # fmt: skip
    memory.full = False
    same(torch.ops.myops.my_add(x, x), torch.full((3, 5), 3.0))


def tf32() -> None:
    """torch's flag for products decides: on, factors are rounded to TF32; off, nothing is."""
    matmul = torch.backends.cuda.matmul
    x, weight, offset = torch.rand(1, 8, 6, 6), torch.rand(16, 8, 1, 1), torch.zeros(1, 2, 6, 6)
    inputs = (x, weight, offset)
    expected = torch.ops.myops.deform_conv2d(*inputs)

    def error() -> float:
        on_device = list(map(cuda, inputs))
        found = cpu(myops.deform_conv2d(on_device[0], on_device[2], on_device[1]))
        assert torch.equal(found, cpu(torch.ops.myops.deform_conv2d(*on_device)))
        return float((found - expected).abs().max())

    assert error() < 1e-6
    matmul.allow_tf32 = True
    assert 1e-5 < error() < 1e-2
    matmul.allow_tf32 = False
    assert error() < 1e-6
    torch.set_float32_matmul_precision("high")
    assert 1e-5 < error() < 1e-2
    torch.set_float32_matmul_precision("highest")
    matmul.fp32_precision = "tf32"
    assert 1e-5 < error() < 1e-2
    matmul.fp32_precision = "ieee"
    assert error() < 1e-6


def with_stand_ins(file: str) -> None:
    torch_cuda = ctypes.CDLL(file)
    pretend()
    torch.manual_seed(0)
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.int32):
        a, b = torch.ones(3, 1, 5).to(dtype), torch.arange(20).reshape(4, 5).to(dtype)
        same(myops.my_add(cuda(a), cuda(b)), myops.my_add(a, b))
        same(torch.ops.myops.my_add(cuda(a), cuda(b.T).T), myops.my_add(a, b))

    out = cuda(torch.empty(4, 5))
    x = torch.rand(4, 5)
    assert myops.my_add(cuda(x), cuda(x), out=out) is out
    same(out, myops.my_add(x, x))
    expect("my_add: out: got a tensor on cpu, expected one on cuda:0",
           lambda: torch.ops.myops.my_add(cuda(x), cuda(x), out=torch.empty(4, 5)))  # fmt: skip

    image = torch.rand(2, 3, 6, 7)
    for one in (image, image.to(memory_format=torch.channels_last)):
        for mode in ("nearest", "linear", "cubic"):
            expected = myops.resize(one, [1.0, 1.0, 1.5, 0.5], mode=mode)
            same(myops.resize(cuda(one), [1.0, 1.0, 1.5, 0.5], mode=mode), expected)
    scales = torch.tensor([1.0, 1.0, 2.0, 2.0])
    same(myops.resize(cuda(image), scales), myops.resize(image, scales))
    expect("resize: scales: got a tensor on cuda:0, expected one on the CPU, or Python numbers",
           lambda: torch.ops.myops.resize(cuda(image), None, cuda(scales)))  # fmt: skip
    # A layout that the kernel does not read is copied on the device.
    turned = torch.rand(2, 3, 7, 6)
    same(myops.resize(cuda(turned).mT, scales), myops.resize(turned.mT, scales))
    last = image.to(memory_format=torch.channels_last)
    same(myops.resize(cuda(last)[:, :, 1:, 2:], scales), myops.resize(last[:, :, 1:, 2:], scales))

    # torch's autograd needs a device that is there; what it calls does not.
    x, weight = torch.rand(2, 4, 6, 7), torch.rand(4, 2, 3, 3)
    offset, bias, mask = torch.rand(2, 18, 6, 7) * 2, torch.rand(4), torch.rand(2, 9, 6, 7)
    inputs, grad = [x, weight, offset, bias, mask], torch.rand(2, 4, 6, 7)
    attributes: dict[str, Any] = {"pads": [1, 1, 1, 1], "group": 2}
    forward = torch.ops.myops.deform_conv2d
    same(forward(*map(cuda, inputs), **attributes), forward(*inputs, **attributes), bits=False)
    backward = torch.ops.myops.deform_conv2d_backward
    inputs = [grad, x, weight, offset, mask]
    pairs = zip(
        backward(*map(cuda, inputs), **attributes), backward(*inputs, **attributes), strict=True
    )
    for found, expected in pairs:
        same(found, expected, bits=False)
    grad = torch.rand(2, 3, 9, 3)
    lists = (None, [1.0, 1.0, 1.5, 0.5], None)
    differentiate = torch.ops.myops.resize_backward.values
    expected = differentiate(grad, image, *lists, mode="linear")
    same(differentiate(cuda(grad), cuda(image), *lists, mode="linear"), expected, bits=False)
    without_memory()
    tf32()
    assert torch_cuda.fake_guards() == 0
    assert torch_cuda.fake_guards_made() > 20


if __name__ == "__main__":
    part, *arguments = sys.argv[1:]
    globals()[part](*arguments)
    print("passed:", part)
