"""What torch.utils.flop_counter counts for deform_conv2d: as for a convolution, the products with
the weights and not what samples the image."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode, register_flop_formula


def register() -> None:
    """Registers the formulas, also in counters that run already: the first call of the op, which
    defines it, may be inside of one."""
    formulas: dict[Any, Any] = {
        torch.ops.myops.deform_conv2d: _forward,
        torch.ops.myops.deform_conv2d_backward: _backward,
    }
    for op, formula in formulas.items():
        register_flop_formula(op)(formula)
    counters = FlopCounterMode(display=False)
    for mode in torch.utils._python_dispatch._get_current_dispatch_mode_stack():
        running = getattr(mode, "counter", None)
        if isinstance(running, FlopCounterMode):
            for op in formulas:
                running.flop_registry.setdefault(op, counters.flop_registry[op])


def _forward(
    image: Sequence[int],
    weight: Sequence[int],
    offset: Sequence[int],
    *others: Any,
    out_shape: Any = None,
    **attributes: Any,
) -> int:
    batch, _, height, width = offset
    return 2 * batch * height * width * prod(weight)


def _backward(
    grad: Sequence[int],
    image: Sequence[int],
    weight: Sequence[int],
    offset: Sequence[int],
    mask: Sequence[int] | None = None,
    *,
    needs: Sequence[int] = (),
    out_shape: Any = None,
    **attributes: Any,
) -> int:
    """A product for the gradient of the weights, and one for all others together."""
    wants_image, wants_weight, *wants_positions = list(needs) or [1] * 4
    products = bool(wants_weight) + bool(wants_image or any(wants_positions))
    return products * _forward(image, weight, offset)
