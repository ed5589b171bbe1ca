"""`torch.linspace` whose number of steps is a dynamic length, which torch.export makes a
constant."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any
from unittest import mock

import torch

_SYMBOLIC = (torch.SymInt, torch.SymFloat)


@contextlib.contextmanager
def kept() -> Iterator[None]:
    """In this context, torch.linspace of dynamic lengths is computed from torch.arange, which keeps
    them dynamic."""
    torchs = torch.linspace

    def linspace(start: Any, end: Any, steps: Any, **options: Any) -> Any:
        dtype = options.get("dtype") or torch.get_default_dtype()
        dynamic = any(isinstance(item, _SYMBOLIC) for item in (start, end, steps))
        if not dynamic or not dtype.is_floating_point or options.get("out") is not None:
            return torchs(start, end, steps, **options)
        return _composed(start, end, steps, dtype, options.get("device"))

    with mock.patch.object(torch, "linspace", linspace):
        yield


def _composed(start: Any, end: Any, steps: Any, dtype: torch.dtype, device: Any) -> torch.Tensor:
    """Computes it from both ends, as torch's kernel does."""
    first, last, count = (
        item.to(device=device, dtype=dtype)
        if isinstance(item, torch.Tensor)
        else torch.full((), item, dtype=dtype, device=device)
        for item in (start, end, steps)
    )
    places = torch.arange(steps, dtype=dtype, device=device)
    step = (last - first) / (count - 1).clamp(min=1)
    half = torch.floor(count / 2).clamp(min=1)  # one step gives the start
    return torch.where(places < half, first + step * places, last - step * (count - 1 - places))
