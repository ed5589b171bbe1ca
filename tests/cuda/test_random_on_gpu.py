"""Random configurations on a GPU, compared with the kernels for the CPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest
import torch

import myops
from benchmarks.random_shapes import deform_conv2d as deforming
from benchmarks.random_shapes import my_add as adding
from benchmarks.random_shapes.draw import KINDS, Add, Deform, Resize, draw
from benchmarks.random_shapes.problem import channels_last, normal
from myops.testing.bits import TOLERANCE, arrays_of, different_bits, too_far

SEED, COUNT = 7001, 40
pytestmark = pytest.mark.skipif(
    not torch.cuda.is_available(), reason="no GPU that this PyTorch can use"
)


def call_of(shape: Any, seed: int) -> tuple[Callable[..., torch.Tensor], list[torch.Tensor]]:
    """A function and its tensors, on the CPU."""
    if isinstance(shape, Add):
        return myops.my_add, [
            adding._operand(shape.a, shape.a_order, shape.dtype, seed),
            adding._operand(shape.b, shape.b_order, shape.dtype, seed + 1),
        ]
    if isinstance(shape, Resize):
        x = normal(shape.shape, shape.dtype, seed)
        settings: dict[str, Any] = {"size": shape.size, "mode": shape.mode}
        if shape.mode.endswith(("linear", "cubic")):
            settings |= {"align_corners": shape.align_corners, "antialias": shape.antialias}
        return partial(myops.interpolate, **settings), [
            channels_last(x) if shape.channels_last else x
        ]
    assert isinstance(shape, Deform)
    tensors = deforming._tensors(shape, seed)

    def deform(
        X: torch.Tensor, W: torch.Tensor, offset: torch.Tensor, B: torch.Tensor,
        mask: torch.Tensor | None = None,
    ) -> torch.Tensor:  # fmt: skip
        steps = {"stride": shape.stride, "padding": shape.padding, "dilation": shape.dilation}
        return myops.deform_conv2d(X, offset, W, B, mask=mask, **steps)

    return deform, list(tensors.values())


def results(
    function: Callable[..., torch.Tensor], tensors: Sequence[torch.Tensor], backward: bool,
    device: str,
) -> list[torch.Tensor]:  # fmt: skip
    moved = [item.to(device) for item in tensors]  # keeps the strides
    if not backward:
        return [function(*moved)]
    leaves = [item.requires_grad_() for item in moved]
    y = function(*leaves)
    grad = normal(y.shape, str(y.dtype).removeprefix("torch."), 9)
    return list(torch.autograd.grad(y, leaves, grad.to(device)))


@pytest.mark.parametrize("number", range(COUNT))
@pytest.mark.parametrize("kind", KINDS)
def test_random_calls_equal_those_on_the_cpu(kind: str, number: int) -> None:
    shape = draw(kind, SEED, number)
    function, tensors = call_of(shape, number)
    backward = kind.endswith("backward")
    expected = arrays_of(results(function, tensors, backward, "cpu"))
    found = [item.cpu() for item in results(function, tensors, backward, "cuda")]
    if kind in ("my_add", "resize"):
        assert different_bits(arrays_of(found), expected) == ("", ""), shape
    else:
        limits = {name: 4 * most for name, most in TOLERANCE.items()}
        assert too_far(arrays_of(found), expected, limits.__getitem__) == ("", ""), shape
