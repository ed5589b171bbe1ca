"""Other values and other lengths for the inputs of a model, which are probably legal."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from myops._torch.stored_dtypes import computed_in, select


def other_values(value: torch.Tensor) -> Iterator[torch.Tensor]:
    """Tensors of the same shape and dtype with other values, those that are most likely legal
    first."""
    if value.numel() == 0:
        return
    wide = computed_in(value.dtype)
    if wide != value.dtype:
        yield from (other.to(value.dtype) for other in other_values(value.to(wide)))
    elif value.dtype == torch.bool:
        if value.any() and not value.all():
            yield value.flatten().roll(1).reshape(value.shape)
        else:  # a mask that hides nothing: hide some elements first, not all
            places = torch.arange(value.numel()).reshape(value.shape)
            yield value ^ (places % 2 == value.numel() % 2).to(value.device)
        yield ~value
    elif value.is_floating_point() or value.is_complex():
        yield value * 1.25
        yield noisy(value, 0.5)
        yield -value - 0.5
    else:
        yield from _other_integers(value)


def scaled(value: torch.Tensor, factor: float) -> torch.Tensor:
    """factor * value, in the dtype of value, even if torch can only store this dtype."""
    return (value.to(computed_in(value.dtype)) * factor).to(value.dtype)


def noisy(value: torch.Tensor, part: float) -> torch.Tensor:
    """The value plus normal noise of the size part * mean magnitude, at least 0.2 * part."""
    wide = computed_in(value.dtype)
    if wide != value.dtype:
        return noisy(value.to(wide), part).to(value.dtype)
    generator = torch.Generator().manual_seed(0)
    noise = torch.randn(value.shape, generator=generator, dtype=torch.float32)
    finite = value.abs()[torch.isfinite(value)]
    size = float(finite.float().mean()) if finite.numel() else 0.0
    return value + (noise * part * max(size, 0.2)).to(value.dtype)


def _other_integers(value: torch.Tensor) -> Iterator[torch.Tensor]:
    """Other integers; first the same ones in another order, because they often are indices."""
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
    """The tensor with other lengths on some axes, filled with its own values repeatedly."""
    for axis, length in lengths.items():
        places = torch.arange(length) % value.shape[axis]
        value = select(value, axis, places)
    return value
