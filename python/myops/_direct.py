"""The way past torch's dispatcher for calls that need nothing of it (adapters/numpy/direct.h)."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from myops import _internals
from myops._description import OpInfo

# Faster answers to what is asked below, where there are some for this torch.
INTERNALS = _internals.table(torch.__version__, torch.version.git_version)

# Each says whether somebody wants to see the calls that torch makes.
_WATCHERS = (
    torch._C._are_functorch_transforms_active,
    torch._C._len_torch_dispatch_stack,
    torch._C._len_torch_function_stack,
    torch._C._is_tracing,
    torch._C._is_any_autocast_enabled,
    torch._C._autograd._profiler_enabled,
)


# C functions; adapters/torch/services.cpp
_SERVICES = ("run_tasks", "new_tensor", "delete_tensor", "grad_enabled")


def caller(
    info: OpInfo, library: Path | None, internals: Any = INTERNALS
) -> Callable[[Any, Any, Any], Any] | None:
    """The op as f(inputs, attributes, out); NotImplemented means: the dispatcher must do it.

    None where there is no such way: the op is a prototype, or this torch lacks DLPack's C
    interface (2.9 and older).
    """
    exchange = getattr(torch.Tensor, "__dlpack_c_exchange_api__", None)
    if library is None or info.is_prototype or exchange is None:
        return None
    loaded = ctypes.CDLL(str(library))
    services = {
        name: ctypes.cast(getattr(loaded, f"myops_{name}"), ctypes.c_void_p).value
        for name in _SERVICES
    }
    return info.native.direct(
        {
            **services,
            "internals": internals,
            "exchange": exchange,
            "tensor": torch.Tensor,
            "parameter": torch.nn.Parameter,
            "is_neg": torch.Tensor.is_neg,
            "requires_grad": torch._C.TensorBase.requires_grad,
            "wrap": torch._C._aoti.alloc_tensor_by_stealing_from_void_ptr,
            "bump": torch._C._increment_version,
            "forward_ad": torch.autograd.forward_ad,
            "watchers": _WATCHERS,
        }
    )
