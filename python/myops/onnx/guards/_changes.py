"""Other values and other lengths for the inputs of a model, legal ones as far as one can tell."""

from __future__ import annotations

from collections.abc import Iterator

import torch


def other_values(value: torch.Tensor) -> Iterator[torch.Tensor]:
    """Tensors of the same shape and dtype with other values, the likeliest legal first."""
    if value.numel() == 0:
        return
    if value.dtype == torch.bool:
        if value.any() and not value.all():
            yield value.flatten().roll(1).reshape(value.shape)
        yield ~value
    elif value.is_floating_point() or value.is_complex():
        yield value * 1.25
        yield noisy(value, 0.5)
        yield -value - 0.5
    else:
        yield from _other_integers(value)


def noisy(value: torch.Tensor, part: float) -> torch.Tensor:
    """With noise of a part of the mean size added, at least of a fifth of the part."""
    generator = torch.Generator().manual_seed(0)
    noise = torch.randn(value.shape, generator=generator, dtype=torch.float32)
    finite = value.abs()[torch.isfinite(value)]
    size = float(finite.float().mean()) if finite.numel() else 0.0
    return value + (noise * part * max(size, 0.2)).to(value.dtype)


def _other_integers(value: torch.Tensor) -> Iterator[torch.Tensor]:
    """Integers often are indices: the ones that are there, in another order, come first."""
    low, high = int(value.min()), int(value.max())
    if low < high:
        yield value.flatten().roll(1).reshape(value.shape)
        yield value.flatten().flip(0).reshape(value.shape)
        yield low + high - value
    limits = torch.iinfo(value.dtype)
    for step in (1, -1, 2):
        if limits.min <= low + step and high + step <= limits.max:
            yield value + step


def resized(value: torch.Tensor, lengths: dict[int, int]) -> torch.Tensor:
    """The tensor with other lengths on some axes, filled with its own values again and again."""
    for axis, length in lengths.items():
        places = torch.arange(length) % value.shape[axis]
        value = value.index_select(axis, places.to(value.device))
    return value
