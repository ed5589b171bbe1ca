"""Tensors on CUDA without a GPU, for the programs of test_cuda.py: they have memory of this
process, and torch's own functions on them are those for the CPU."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch


def refusal(call: Callable[[], Any]) -> str:
    """The text of the error; its first line if torch has added where it was thrown."""
    try:
        call()
    except RuntimeError as error:
        return str(error).partition("\nException raised from")[0]
    raise AssertionError("no error")


def expect(text: str, call: Callable[[], Any]) -> None:
    got = refusal(call)
    assert text in got, f"got {got!r}, expected {text!r}"


def refused_alike(call: Callable[[], Any]) -> str:
    """Both ways refuse the call with the same text."""
    text = refusal(call)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]):
        assert refusal(call) == text
    return text


def dispatched(call: Callable[[Any], Any], given: Any) -> Any:
    """The result of a call for which no fast call is possible."""
    with torch.autograd.forward_ad.dual_level():
        return call(given)


class Device(ctypes.Structure):
    _fields_ = (("type", ctypes.c_int32), ("index", ctypes.c_int32))


class Managed(ctypes.Structure):
    """The beginning of DLPack's DLManagedTensor."""

    _fields_ = (("data", ctypes.c_void_p), ("device", Device))


def moved(x: torch.Tensor, device_type: int, index: int) -> torch.Tensor:
    """A tensor with the memory of `x`, on another device by its numbers in DLPack."""
    capsule = torch.utils.dlpack.to_dlpack(x.detach())
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    managed = ctypes.cast(pointer(capsule, b"dltensor"), ctypes.POINTER(Managed)).contents
    managed.device.type = device_type
    managed.device.index = index
    return torch.utils.dlpack.from_dlpack(capsule)


def cuda(x: torch.Tensor, index: int = 0) -> torch.Tensor:
    return moved(x, 2, index)


def cpu(x: torch.Tensor) -> torch.Tensor:
    return moved(x, 1, 0)


class Memory:
    """That of the devices.

    full: Nothing can be allocated.
    allocated: Called with the device of each new tensor.
    freed: Called when the memory of such a tensor is freed.
    """

    full = False
    allocated: Callable[[torch.device], None] | None = None
    freed: Callable[[], None] | None = None

    def empty(self, size: Any, stride: Any, dtype: torch.dtype, device: torch.device) -> Any:
        if self.full:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        if self.allocated is not None:
            self.allocated(device)
        reach = 1 + sum((n - 1) * step for n, step in zip(size, stride, strict=True))
        count = max(reach, 0) if all(size) else 0
        memory = np.full(count * dtype.itemsize, 0xFF, np.uint8)
        if self.freed is not None:
            weakref.finalize(memory, self.freed)
        flat = torch.from_numpy(memory).view(dtype) if count else torch.empty(0, dtype=dtype)
        return cuda(flat.as_strided(size, stride), device.index or 0)


memory = Memory()


def pretend() -> None:
    """Makes torch's own functions on CUDA run those on the CPU."""
    torch.cuda._initialized = True
    # Nodes of autograd's graph ask for the current stream of a device. The answer is the CPU's.
    c10 = ctypes.CDLL(str(Path(torch.__file__).with_name("lib") / "libc10.so"))
    guards = (ctypes.c_void_p * 2).in_dll(c10, "_ZN3c104impl26device_guard_impl_registryE")
    guards[1] = guards[0]

    def to_cpu(item: Any) -> Any:
        if isinstance(item, torch.device):
            return torch.device("cpu")
        return cpu(item) if isinstance(item, torch.Tensor) and item.is_cuda else item

    def run(op: Any, *arguments: Any, **keywords: Any) -> Any:
        if op is torch.ops.aten.empty_strided.default:
            return memory.empty(*arguments, keywords["dtype"], keywords["device"])
        leaves = torch.utils._pytree.tree_leaves((arguments, keywords))
        devices = [item.device for item in leaves if isinstance(item, torch.Tensor)]
        devices = [item for item in leaves if isinstance(item, torch.device)] + devices
        index = next((device.index for device in devices if device.type == "cuda"), 0)

        def to_cuda(item: Any) -> Any:
            return cuda(item, index) if isinstance(item, torch.Tensor) else item

        plain, named = torch.utils._pytree.tree_map(to_cpu, (arguments, keywords))
        result = op(*plain, **named)
        if op._schema.is_mutable:
            return arguments[0]
        return torch.utils._pytree.tree_map(to_cuda, result)

    library = torch.library.Library("_", "IMPL")
    library.fallback(run, "CUDA")
    kept.append(library)
    # clone has a kernel for all devices, which asks CUDA's library for the current device.
    library = torch.library.Library("aten", "IMPL")
    clone = torch.ops.aten.clone.default
    library.impl("clone", lambda *a, **k: run(clone, *a, **k), "CUDA")
    kept.append(library)


kept: list[Any] = []


def same(found: torch.Tensor, expected: torch.Tensor, bits: bool = True) -> None:
    assert found.device.type == "cuda"
    assert found.dtype == expected.dtype
    assert found.stride() == expected.stride()
    if bits:
        assert torch.equal(cpu(found), expected)
    else:
        torch.testing.assert_close(cpu(found), expected, rtol=1e-5, atol=1e-5)
