"""An op of the name and schema of torchvision's deform_conv2d, for tests without torchvision."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from reference_deform_conv2d import deform_conv2d as reference
from torch import Tensor

SCHEMA = (
    "deform_conv2d(Tensor input, Tensor weight, Tensor offset, Tensor mask, Tensor bias, "
    "SymInt stride_h, SymInt stride_w, SymInt pad_h, SymInt pad_w, SymInt dilation_h, "
    "SymInt dilation_w, SymInt groups, SymInt offset_groups, bool use_mask) -> Tensor"
)
NAME = "torchvision::deform_conv2d"
calls: list[str] = []  # of the stand-in's own kernel


def kernel(input: Tensor, weight: Tensor, offset: Tensor, mask: Tensor, bias: Tensor,
           *rest: Any) -> Tensor:  # fmt: skip
    calls.append("kernel")
    stride, pad, dilation, (groups, offset_groups, use_mask) = (
        rest[:2], rest[2:4], rest[4:6], rest[6:],
    )  # fmt: skip
    return reference(input, weight, offset, bias, mask if use_mask else None, stride, (*pad, *pad),
                     dilation, groups, offset_groups)  # fmt: skip


@contextlib.contextmanager
def stand_in() -> Iterator[None]:
    """Defines the op as torchvision does: a kernel, an autograd formula, a rule for shapes."""
    if hasattr(torch.ops.torchvision, "deform_conv2d"):
        yield
        return
    library = torch.library.Library("torchvision", "FRAGMENT")
    library.define(SCHEMA)
    library.impl("deform_conv2d", kernel, "CPU")

    def fake(input: Tensor, weight: Tensor, offset: Tensor, *rest: Any) -> Tensor:
        return input.new_empty(input.shape[0], weight.shape[0], *offset.shape[2:])

    def save(ctx: Any, inputs: Any, output: Tensor) -> None:
        ctx.save_for_backward(*inputs[:5])
        ctx.rest = inputs[5:]

    def backward(ctx: Any, grad: Tensor) -> Any:
        with torch.enable_grad():
            leaves = [item.detach().requires_grad_() for item in ctx.saved_tensors]
            result = kernel(*leaves, *ctx.rest)
        grads = torch.autograd.grad(result, leaves, grad, allow_unused=True)
        return (*grads, *[None] * 9)

    torch.library.register_fake(NAME, fake, lib=library)
    torch.library.register_autograd(NAME, backward, setup_context=save, lib=library)
    yield


def vision_deform_conv2d(input: Tensor, offset: Tensor, weight: Tensor, bias: Tensor | None = None,
                         stride: Sequence[int] = (1, 1), padding: Sequence[int] = (0, 0),
                         dilation: Sequence[int] = (1, 1), mask: Tensor | None = None,
                         ) -> Tensor:  # fmt: skip
    """torchvision's function: an absent bias or mask reaches the op as a tensor of zeros or without
    elements."""
    taps = weight.shape[2] * weight.shape[3]
    return torch.ops.torchvision.deform_conv2d(
        input, weight, offset,
        torch.zeros(input.shape[0], 0, dtype=input.dtype) if mask is None else mask,
        torch.zeros(weight.shape[0], dtype=input.dtype) if bias is None else bias,
        *stride, *padding, *dilation,
        input.shape[1] // weight.shape[1], offset.shape[1] // (2 * taps), mask is not None,
    )  # fmt: skip
