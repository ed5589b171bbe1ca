"""torch.utils.flop_counter counts deform_conv2d as a convolution."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

import myops

SETTINGS: list[tuple[int, dict[str, Any]]] = [
    (1, {}),
    (2, {"stride": (2, 1), "padding": 1, "dilation": (1, 2)}),
    (4, {"padding": (0, 2)}),  # depthwise
]


def counted(call: Any) -> int:
    with FlopCounterMode(display=False) as counter:
        call()
    return counter.get_total_flops()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("groups", "settings"), SETTINGS)
@pytest.mark.parametrize("with_mask", [False, True])
def test_as_many_as_a_convolution(
    groups: int, settings: dict[str, Any], with_mask: bool, dtype: torch.dtype
) -> None:
    x = torch.randn(2, 4, 9, 8, dtype=dtype, requires_grad=True)
    weight = torch.randn(8, 4 // groups, 3, 2, dtype=dtype, requires_grad=True)
    expected = torch.nn.functional.conv2d(x, weight, groups=groups, **settings)
    offset = torch.zeros(2, 12, *expected.shape[-2:], dtype=dtype)
    mask = torch.ones(2, 6, *expected.shape[-2:], dtype=dtype) if with_mask else None

    def ours() -> torch.Tensor:
        return myops.deform_conv2d(x, offset, weight, mask=mask, **settings)

    def plain() -> torch.Tensor:
        return torch.nn.functional.conv2d(x, weight, groups=groups, **settings)

    assert counted(ours) == counted(plain) > 0
    # The gradients of the image and of the weights; torch counts the second once for each group.
    training = counted(lambda: ours().sum().backward())
    assert training == 3 * counted(ours)
    if groups == 1:
        assert training == counted(lambda: plain().sum().backward())


@pytest.mark.parametrize("needed", ["x", "weight", "offset", "mask"])
def test_only_the_products_that_a_gradient_needs(needed: str) -> None:
    tensors = {
        "x": torch.randn(1, 2, 5, 5),
        "weight": torch.randn(3, 2, 3, 3),
        "offset": torch.randn(1, 18, 3, 3),
        "mask": torch.rand(1, 9, 3, 3),
    }
    tensors[needed].requires_grad_()
    x, weight, offset, mask = tensors.values()
    product = 2 * 9 * weight.numel()
    call = myops.deform_conv2d(x, offset, weight, mask=mask)
    assert counted(lambda: call.sum().backward()) == product


def test_the_first_call_of_a_process_is_counted() -> None:
    """It defines the op."""
    program = (
        "import torch, myops\n"
        "from torch.utils.flop_counter import FlopCounterMode\n"
        "x, w, offset = torch.ones(1, 2, 3, 3), torch.ones(1, 2, 1, 1), torch.zeros(1, 2, 3, 3)\n"
        "with FlopCounterMode(display=False) as counter:\n"
        "    myops.deform_conv2d(x, offset, w)\n"
        "print(counter.get_total_flops())\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == f"{2 * 9 * 2}\n", done.stderr
