"""torch.ops of an op in forward mode, and in torch.func.

The kernel that torch.library.register_autograd makes has no forward mode: it drops tangents without
an error, so that a derivative is 0. Calls with tangents go to the op's autograd Function, which
has the author's jvp, or refuses. In torch.func, neither kernel can be differentiated.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from myops._torch.private_names import forward_ad, functorch, grad_enabled, private

if TYPE_CHECKING:
    from myops._torch.call import TorchOp

_is_enabled = private("_is_fwd_grad_enabled") or (lambda: True)


class TangentLibrary(torch.library.Library):
    """For `lib=` of torch.library.register_autograd: the kernel that it registers, with forward
    mode."""

    def __init__(self, op: TorchOp) -> None:
        super().__init__(op.info.namespace, "FRAGMENT")
        self._op = op

    def impl(self, op_name: Any, fn: Callable[..., Any], *args: Any, **settings: Any) -> Any:
        """Registers `fn`, which is called where no input has a tangent."""
        op = self._op

        def run(keys: Any, *inputs: Any, **attributes: Any) -> Any:
            # Within the Function forward mode is off, and tangents stand for nothing.
            if forward_ad._current_level < 0 or not _is_enabled() or not _has_tangent(op, inputs):
                if functorch() and grad_enabled() and _any_requires_grad(op, inputs):
                    raise _not_in_torch_func(op, "with a gradient in a transform of torch.func")
                return fn(keys, *inputs, **attributes)
            if functorch():
                raise _not_in_torch_func(op, "in forward mode of torch.func")
            absent = (None,) * (len(op.info.inputs) - len(inputs))
            flat = op.info.flat((*inputs, *absent))
            return op.function.apply(*flat, *{**op.defaults, **attributes}.values())

        return super().impl(op_name, run, *args, **settings)


def _not_in_torch_func(op: TorchOp, where: str) -> NotImplementedError:
    """torch lets no Function below the dispatcher take part in transforms, and says so in terms of
    that Function, which the caller did not write."""
    name = f"{op.info.namespace}.{op.info.name}"
    return NotImplementedError(
        f"{op.info.name}: got torch.ops.{name} {where}, expected "
        "the function that calls it, which library.define or myops.prototype returned"
    )


def _any_requires_grad(op: TorchOp, inputs: tuple[Any, ...]) -> bool:
    items = op.info.flat(inputs) if op.info.is_variadic else inputs
    return any(isinstance(item, torch.Tensor) and item.requires_grad for item in items)


def _has_tangent(op: TorchOp, inputs: tuple[Any, ...]) -> bool:
    unpack = torch.autograd.forward_ad.unpack_dual
    items = op.info.flat(inputs) if op.info.is_variadic else inputs
    return any(
        isinstance(item, torch.Tensor) and unpack(item).tangent is not None for item in items
    )
