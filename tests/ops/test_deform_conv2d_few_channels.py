"""deform_conv2d with pixels of fewer channels than a vector has, in channels_last memory: the bits
of NCHW, and nothing of the channels that lie beside them in memory."""

from __future__ import annotations

import pytest
import torch
from deform_cases import DTYPES

import myops

COUNTS = (1, 2, 3, 4, 5, 7, 8, 11, 17)


def made(shape: tuple[int, ...], dtype: str) -> torch.Tensor:
    return torch.randn(shape).to(getattr(torch, dtype))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("channels", COUNTS)
@pytest.mark.parametrize("depthwise", [False, True], ids=["sums", "depthwise"])
def test_channels_last_has_the_bits_of_nchw(channels: int, dtype: str, depthwise: bool) -> None:
    torch.manual_seed(channels)
    outputs, depth = (channels, 1) if depthwise else (5, channels)
    x = made((2, channels, 5, 23), dtype)
    weight, offset = made((outputs, depth, 3, 3), dtype), made((2, 18, 5, 23), dtype)
    mask, grad = made((2, 9, 5, 23), dtype), made((2, outputs, 5, 23), dtype)
    # The last pixel of the second image ends the memory; the first one has other channels beside.
    beside = torch.full((2, 5, 23, channels + 3), float("nan"), dtype=x.dtype)
    beside[..., :channels] = x.permute(0, 2, 3, 1)
    layouts = [x, x.contiguous(memory_format=torch.channels_last),
               beside[..., :channels].permute(0, 3, 1, 2)]  # fmt: skip
    found = []
    for one in layouts:
        leaves = [tensor.detach().requires_grad_() for tensor in (one, weight, offset, mask)]
        result = myops.deform_conv2d(*[leaves[i] for i in (0, 2, 1)], mask=leaves[3], padding=1)
        found.append([result, *torch.autograd.grad(result, leaves, grad)])
    for others in found[1:]:
        for ours, right in zip(others, found[0], strict=True):
            assert torch.isfinite(right).all()
            assert torch.equal(ours, right)
