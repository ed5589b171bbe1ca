"""Calls that need nothing of torch's dispatcher go past it (adapters/fast_call/fast_call.h)."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from myops._description import OpInfo
from myops._torch import torch_internals
from myops._torch.private_names import private

# Faster answers to what is asked below, where there are some for this torch.
INTERNALS = torch_internals.table(torch.__version__, torch.version.git_version)

# Private names of torch. Where one is missing, calls go through the dispatcher.
_WATCHERS = (  # each tells whether something observes torch's calls
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
PRIVATE = (*_WATCHERS, _WRAP, _BUMP)


# C functions; adapters/torch/services.cpp
_SERVICES = ("run_tasks", "new_tensor", "delete_tensor", "grad_enabled", "find_prepared")


def caller(
    info: OpInfo, library: Path | None, internals: Any = INTERNALS
) -> Callable[[Any, Any, Any], Any] | None:
    """The op as f(inputs, attributes, out); NotImplemented means: the dispatcher must do it.

    None where there is no such way: the op is a prototype, or this torch lacks DLPack's C
    interface (2.9 and older) or one of its private names.
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
            "is_inference": torch.Tensor.is_inference,
            "forward_ad": torch.autograd.forward_ad,
            "watchers": [private(name) for name in _WATCHERS],
        }
    )


def use_gradient(info: OpInfo, call: Any, gradient: Any, python: Callable[..., Any]) -> None:
    """Lets `call`, what `caller` returned for an op, make calls whose first input asks for its
    gradient, too. Does nothing where there is no such way, or no module for this torch.

    Args:
        info: The op.
        call: The op's own.
        gradient: That of the op that computes the gradient from the gradient of the result, the
            inputs, of which the first is asked for its shape only, and the same attributes.
        python: The same computation for what that call cannot do:
            f(grad, shape of the first input, the other inputs, attributes).
    """
    direct = getattr(info.native, "use_gradient", None)
    if direct is not None and isinstance(call, _BUILTIN) and isinstance(gradient, _BUILTIN):
        direct(call, gradient, python)


_BUILTIN = type(len)
