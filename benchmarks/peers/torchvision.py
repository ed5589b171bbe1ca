"""torchvision's deform_conv2d: one thread, the whole column matrix in memory."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import torch
from torchvision.ops import deform_conv2d

from benchmarks.case import Candidate, Case
from benchmarks.cases.deform_conv2d import DeformCase, autograd_candidate

NAME = "torchvision"


def candidates(case: Case, threads: int) -> Iterator[Candidate]:
    if not isinstance(case, DeformCase):
        return
    if case.backward:
        yield autograd_candidate("torchvision, autograd", "peer", case, _call)
        return
    tensors = {name: torch.from_numpy(array) for name, array in case.inputs.items()}
    yield Candidate(
        "torchvision", partial(_call, **tensors), lambda result: [result.numpy()], "allocated"
    )


def _call(
    X: torch.Tensor,
    W: torch.Tensor,
    offset: torch.Tensor,
    B: torch.Tensor,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    return deform_conv2d(X, offset, W, B, padding=1, mask=mask)
