"""Fast calls: those that bypass torch's dispatcher (csrc/adapters/fast_call/fast_call.h)."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from myops._description import OpInfo
from myops._torch import torch_internals
from myops._torch.private_names import private

# The module that was built for exactly this torch and reads tensors faster; None without it.
INTERNALS = torch_internals.table(torch.__version__, torch.version.git_version)

# Private names of torch. Where one is missing, calls go through the dispatcher.
_OBSERVERS = (  # each tells whether something observes torch's calls
    "_are_functorch_transforms_active",
    "_len_torch_dispatch_stack",
    "_len_torch_function_stack",
    "_is_tracing",
    "_is_any_autocast_enabled",
    "_autograd._profiler_enabled",
)
_WRAP = "_aoti.alloc_tensor_by_stealing_from_void_ptr"
_BUMP = "_increment_version"
_LEVEL = "_current_level"  # of forward mode, in torch.autograd.forward_ad
PRIVATE = (*_OBSERVERS, _WRAP, _BUMP)

# C functions of the library for torch (csrc/adapters/torch/), without the prefix "myops_".
_SERVICES = (
    "run_tasks",
    "new_tensor",
    "delete_tensor",
    "grad_enabled",
    "find_prepared",
    "cuda_op",
    "call_on_cuda",
)


class Constant(dict[str, Any]):
    """Attributes that nobody will change: fast calls read each of these objects only once."""


def caller(
    info: OpInfo, library: Path | None, internals: Any = INTERNALS
) -> Callable[[Any, Any, Any], Any] | None:
    """Makes the function for fast calls of an op: f(inputs, attributes, out).

    It returns NotImplemented where the dispatcher must make the call. Returns None instead of a
    function where there are no fast calls: the op is a prototype, or this torch lacks DLPack's C
    interface (2.9 and older) or one of the private names.
    """
    exchange = getattr(torch.Tensor, "__dlpack_c_exchange_api__", None)
    if library is None or info.is_prototype or exchange is None:
        return None
    missing = [name for name in PRIVATE if private(name) is None]
    if missing or not hasattr(torch.autograd.forward_ad, _LEVEL):
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
            "is_conj": torch.Tensor.is_conj,
            "requires_grad": torch.Tensor.requires_grad,
            "uint8": torch.uint8,
            "int8": torch.int8,
            "wrap": private(_WRAP),
            "bump": private(_BUMP),
            "constant": Constant,
            "is_inference": torch.Tensor.is_inference,
            "forward_ad": torch.autograd.forward_ad,
            "watchers": [private(name) for name in _OBSERVERS],
        }
    )


def use_gradient(
    info: OpInfo, call: Any, gradient: Any, python: Callable[..., Any], summed: str = ""
) -> None:
    """Lets fast calls of an op include those whose inputs require gradients.

    Does nothing where there are no fast calls, or no module built for exactly this torch, or where
    the op has several results.

    Args:
        info: The description of the op.
        call: What `caller` returned for the op.
        gradient: What `caller` returned for the op that computes the gradients. Its inputs are
            the gradient of the result and inputs of the op; its outputs have the names of these
            and "grad_" before them. It has the same attributes and perhaps "needs", a list with 1
            for each output that is needed and 0 for the others.
        python: Computes the same gradients where a fast call of `gradient` is not possible:
            f(grad, inputs, needed, attributes), which returns a gradient or None for each input of
            the op. Of an input of which only the shape is read, it gets the shape.
        summed: The input whose gradient is the sum of `grad` over all axes but the second.
    """
    direct = getattr(info.native, "use_gradient", None)
    if direct is not None and isinstance(call, _BUILTIN) and isinstance(gradient, _BUILTIN):
        direct(call, gradient, python, summed)


_BUILTIN = type(len)
