"""Equality of tensors down to the bits: -0 is not 0, and NaN equals itself."""

import torch


def same_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    return torch.equal(a.contiguous().view(torch.uint8), b.contiguous().view(torch.uint8))
