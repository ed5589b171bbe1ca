"""torch itself: interpolate, add with alpha, and deformable convolution by grid_sample."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import torch
import torch.nn.functional as F

from benchmarks import arrays
from benchmarks.case import Candidate, Case
from benchmarks.cases.deform_conv2d import TAPS, DeformCase, autograd_candidate
from benchmarks.cases.my_add import MyAddCase
from benchmarks.cases.resize import TORCH_MODES, ResizeCase

NAME = "torch"


def candidates(case: Case, threads: int) -> Iterator[Candidate]:
    if isinstance(case, MyAddCase):
        yield from _my_add(case)
    elif isinstance(case, ResizeCase):
        yield from _resize_backward(case) if case.backward else _resize(case)
    elif isinstance(case, DeformCase):
        yield from _deform_conv2d(case)


def _my_add(case: MyAddCase) -> Iterator[Candidate]:
    a, b = (torch.from_numpy(array) for array in case.inputs.values())
    out = torch.from_numpy(arrays.empty([case.count]))
    add = torch.add
    if case.nodes > 1:
        yield _my_add_repeated(case, a, b, out)
        return
    yield Candidate(
        "torch.add(alpha=2, out=)",
        lambda: add(b, a, alpha=2, out=out),
        lambda _: [out.numpy()],
        "given",
    )
    yield Candidate(
        "torch.add(alpha=2)",
        lambda: add(b, a, alpha=2),
        lambda result: [result.numpy()],
        "allocated",
    )


def _my_add_repeated(
    case: MyAddCase, a: torch.Tensor, b: torch.Tensor, out: torch.Tensor
) -> Candidate:
    """As many calls, from one of two given outputs into the other; the last into `out`."""
    add = torch.add
    other = torch.from_numpy(arrays.empty([case.count]))
    after = [out if (case.nodes - i) % 2 else other for i in range(case.nodes)]
    steps = list(zip([b, *after], after, strict=False))

    def run() -> None:
        for last, following in steps:
            add(last, a, alpha=2, out=following)

    return Candidate(
        f"{case.nodes} x torch.add(alpha=2, out=)", run, lambda _: [out.numpy()], "given"
    )


def _resize(case: ResizeCase) -> Iterator[Candidate]:
    contiguous = torch.from_numpy(case.inputs["x"])
    mode, size = TORCH_MODES[case.mode], list(case.output_shape[2:])
    yield Candidate(
        "F.interpolate",
        lambda: F.interpolate(contiguous, scale_factor=case.scale, mode=mode),
        lambda result: [result.numpy()],
        "allocated",
    )
    call = {
        "cubic": partial(torch.ops.aten.upsample_bicubic2d.out, align_corners=False),
        "linear": partial(torch.ops.aten.upsample_bilinear2d.out, align_corners=False),
        "nearest": torch.ops.aten.upsample_nearest2d.out,
    }[case.mode]
    for label, layout in (("", torch.contiguous_format), (", channels_last", torch.channels_last)):
        x = contiguous.contiguous(memory_format=layout)
        out = torch.zeros(case.output_shape).contiguous(memory_format=layout)
        yield Candidate(
            f"aten.upsample.out{label}",
            partial(call, x, size, scales_h=case.scale, scales_w=case.scale, out=out),
            lambda result: [result.numpy()],
            "given",
        )


def _resize_backward(case: ResizeCase) -> Iterator[Candidate]:
    grad = torch.from_numpy(case.inputs["x"])
    for label, layout in (("", torch.contiguous_format), (", channels_last", torch.channels_last)):
        x = torch.zeros(case.input_shape).contiguous(memory_format=layout).requires_grad_(True)
        out = F.interpolate(x, scale_factor=case.scale, mode=TORCH_MODES[case.mode])
        arriving = grad.contiguous(memory_format=layout)
        yield Candidate(
            f"F.interpolate, autograd{label}",
            partial(torch.autograd.grad, out, x, arriving, retain_graph=True),
            lambda grads: [grads[0].numpy()],
            "allocated",
        )


def _deform_conv2d(case: DeformCase) -> Iterator[Candidate]:
    call = partial(
        by_grid_sample, groups=case.problem.groups, offset_groups=case.problem.offset_groups
    )
    if case.backward:
        yield autograd_candidate("grid_sample + 1x1 conv, autograd", "peer", case, call)
        return
    tensors = {name: torch.from_numpy(array) for name, array in case.inputs.items()}
    yield Candidate(
        "grid_sample + 1x1 conv",
        partial(call, **tensors),
        lambda result: [result.numpy()],
        "allocated",
    )
    yield Candidate(
        "torch conv2d, no offsets",
        partial(
            F.conv2d,
            tensors["X"],
            tensors["W"],
            tensors["B"],
            padding=1,
            groups=case.problem.groups,
        ),
        lambda result: [result.numpy()],
        "allocated",
        "partial",
    )


def by_grid_sample(
    X: torch.Tensor,
    W: torch.Tensor,
    offset: torch.Tensor,
    B: torch.Tensor,
    mask: torch.Tensor | None = None,
    *,
    groups: int,
    offset_groups: int,
) -> torch.Tensor:
    """3x3, stride 1, padding 1: the taps as one tall grid, then a convolution over the samples.

    What a user writes who has torch alone. The samples come out in the order of the columns of a
    1x1 convolution, so nothing is permuted.
    """
    batch, channels, height, width = X.shape
    each = channels // offset_groups
    tap = torch.arange(TAPS)
    rows = torch.arange(height)[:, None] + (tap // 3 - 1)[:, None, None]
    columns = torch.arange(width)[None, :] + (tap % 3 - 1)[:, None, None]
    moved = offset.view(batch * offset_groups, TAPS, 2, height, width)
    y = (moved[:, :, 0] + rows) * (2 / (height - 1)) - 1
    x = (moved[:, :, 1] + columns) * (2 / (width - 1)) - 1
    grid = torch.stack([x, y], dim=-1).view(-1, TAPS * height, width, 2)
    images = X.view(batch * offset_groups, each, height, width)
    samples = F.grid_sample(images, grid, align_corners=True)
    if mask is not None:
        samples = samples * mask.view(-1, 1, TAPS * height, width)
    stacked = samples.view(batch, channels * TAPS, height, width)
    return F.conv2d(stacked, W.view(W.shape[0], -1, 1, 1), B, groups=groups)
