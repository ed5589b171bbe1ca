"""torch.ops of an op in forward mode.

The kernel that torch.library.register_autograd makes has no forward mode: it drops tangents without
an error, so that a derivative is 0. Calls with tangents go to the op's autograd Function, which
has the author's jvp, or refuses.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from myops._torch.private_names import forward_ad, functorch, private

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
                return fn(keys, *inputs, **attributes)
            if functorch():  # which torch lets no Function below the dispatcher take part in
                name = f"{op.info.namespace}.{op.info.name}"
                raise NotImplementedError(
                    f"{op.info.name}: got torch.ops.{name} in forward mode of torch.func, expected "
                    "the function that calls it, which library.define or myops.prototype returned"
                )
            absent = (None,) * (len(op.info.inputs) - len(inputs))
            flat = op.info.flat((*inputs, *absent))
            return op.function.apply(*flat, *{**op.defaults, **attributes}.values())

        return super().impl(op_name, run, *args, **settings)


def _has_tangent(op: TorchOp, inputs: tuple[Any, ...]) -> bool:
    unpack = torch.autograd.forward_ad.unpack_dual
    items = op.info.flat(inputs) if op.info.is_variadic else inputs
    return any(
        isinstance(item, torch.Tensor) and unpack(item).tangent is not None for item in items
    )
