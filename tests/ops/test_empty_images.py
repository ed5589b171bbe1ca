"""deform_conv2d of images without pixels: padding gives them output pixels, so that there is memory
to write although there is nothing to sample."""

from __future__ import annotations

import pytest
import torch
from deform_cases import DTYPES

import myops

# (channels, outputs, groups, offset groups): each leads to other kernels.
KINDS = [
    pytest.param(*kind, id=name)
    for name, kind in {
        "few channels": (2, 3, 1, 1),
        "many channels": (40, 24, 1, 1),
        "weight groups": (24, 12, 4, 1),
        "offset groups": (24, 12, 1, 4),
        "depthwise": (9, 9, 9, 1),
        "a channel an offset group": (5, 4, 1, 5),
    }.items()
]


def filled_with_nan(tensors: list[torch.Tensor]) -> None:
    """Fills memory of these sizes and frees it, so that the next results lie in it."""
    kept = [torch.full_like(x, float("nan")) for x in tensors if x.numel() for _ in range(8)]
    del kept


@pytest.mark.parametrize("size", [(0, 5), (5, 0), (0, 0)], ids=str)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("channels", "outputs", "groups", "offset_groups"), KINDS)
def test_images_without_pixels(
    channels: int, outputs: int, groups: int, offset_groups: int, dtype: str, size: tuple[int, int]
) -> None:
    torch.manual_seed(0)
    kind, out = getattr(torch, dtype), [length + 4 for length in size]
    for layout in (torch.contiguous_format, torch.channels_last):
        leaves = [
            torch.randn(shape).to(kind).requires_grad_()
            for shape in (
                (2, channels, *size), (2, offset_groups * 18, *out),
                (outputs, channels // groups, 3, 3), (outputs,), (2, offset_groups * 9, *out),
            )
        ]  # fmt: skip
        filled_with_nan(leaves)
        x, offset, weight, bias, mask = leaves
        result = myops.deform_conv2d(
            x.contiguous(memory_format=layout), offset, weight, bias, padding=3, mask=mask
        )
        assert torch.equal(result, bias.view(1, -1, 1, 1).expand_as(result))
        grad = torch.randn_like(result)
        filled_with_nan([*leaves, result])
        found = torch.autograd.grad(result, leaves, grad, create_graph=True)
        for index in (0, 1, 2, 4):
            assert torch.equal(found[index], torch.zeros_like(leaves[index]))
        filled_with_nan([*leaves, result])
        twice = torch.autograd.grad(
            found[1], [x, weight, mask], torch.ones_like(offset), allow_unused=True
        )
        for second in twice:
            assert second is None or torch.equal(second, torch.zeros_like(second))
