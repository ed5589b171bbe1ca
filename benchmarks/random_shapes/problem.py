"""A configuration that can be measured: candidates, and the float64 result to check them with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from benchmarks.case import Candidate

# Largest error, relative to the largest element of the reference: the type's own rounding, and
# positions that are computed in float32.
TOLERANCE = {"float32": 1e-3, "float64": 1e-3, "bfloat16": 2e-2, "float16": 3e-3, "uint8": 6e-3}


@dataclass
class Problem:
    """Attributes:
    candidates: Ours first, then the peers. All return new memory.
    expected: The results in float64.
    compared: For each result a mask of the elements to compare, or None for all of them.
    tolerance: See TOLERANCE.
    ours: The call of ours, for its plan.
    """

    candidates: Sequence[Candidate]
    expected: Sequence[torch.Tensor]
    tolerance: float
    ours: Callable[[], Any]
    compared: Sequence[torch.Tensor | None] = ()

    def error(self, candidate: Candidate) -> float:
        """The error of one run; infinite where shapes differ or something is not finite."""
        worst = 0.0
        results = [_double(item) for item in candidate.results(candidate.run())]
        if len(results) != len(self.expected):
            return float("inf")
        masks = self.compared or [None] * len(results)
        for result, right, mask in zip(results, self.expected, masks, strict=True):
            if result.shape != right.shape:
                return float("inf")
            if right.numel() == 0:
                continue
            apart = (result - right).abs_()
            if mask is not None:
                apart = torch.where(mask, apart, torch.zeros(()))
            error = float(apart.max()) / (float(right.abs().max()) or 1.0)
            worst = max(worst, error if error == error else float("inf"))
        return worst


class Gradient:
    """All gradients by autograd. The forward pass is made at the first call, so that a peer that
    refuses a dtype is found to do so when it is checked."""

    def __init__(self, call: Callable[..., torch.Tensor], tensors: dict[str, torch.Tensor],
                 grad: torch.Tensor) -> None:  # fmt: skip
        self.call, self.tensors, self.grad = call, tensors, grad
        self.out: torch.Tensor | None = None

    def __call__(self) -> tuple[torch.Tensor, ...]:
        if self.out is None:
            self.out = self.call(**self.tensors)
        leaves = list(self.tensors.values())
        return torch.autograd.grad(self.out, leaves, self.grad, retain_graph=True)


def _double(result: Any) -> torch.Tensor:
    if isinstance(result, np.ndarray):
        result = torch.from_numpy(result)
    return result.detach().double()


def normal(shape: Sequence[int], dtype: str, seed: int, scale: float = 1.0) -> torch.Tensor:
    """Standard normal times `scale`; integers from 0 to 255 for uint8, to +-1000 for others."""
    generator = torch.Generator().manual_seed(seed)
    kind = getattr(torch, dtype)
    if not kind.is_floating_point:
        low, high = (0, 256) if dtype == "uint8" else (-1000, 1001)
        return torch.randint(low, high, tuple(shape), generator=generator, dtype=kind)
    return (torch.randn(tuple(shape), generator=generator) * scale).to(kind)


def channels_last(tensor: torch.Tensor) -> torch.Tensor:
    formats = {4: torch.channels_last, 5: torch.channels_last_3d}
    return tensor.contiguous(memory_format=formats[tensor.dim()])
