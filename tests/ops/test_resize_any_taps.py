"""Sums of any number of taps, which differ from element to element: gradients and antialiasing."""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import myops

TOLERANCE = {torch.float64: 1e-11, torch.float32: 1e-4, torch.float16: 4e-3, torch.bfloat16: 3e-2}
# [N, C, H, W]: few and many images and channels, rows shorter and longer than the vectors.
SHAPES = [
    (1, 1, 1, 300),
    (1, 3, 40, 33),
    (19, 3, 5, 6),
    (2, 9, 7, 3),
    (3, 2, 21, 70),
    (5, 1, 30, 1),
]
FACTORS = [(0.3, 0.45), (0.7, 0.8), (1.4, 0.6), (0.04, 3.3), (2.7, 1.9)]
MODES = [
    ("nearest", {}),
    ("bilinear", {}),
    ("bilinear", {"align_corners": True}),
    ("bilinear", {"antialias": True}),
    ("bicubic", {}),
    ("bicubic", {"antialias": True}),
    ("area", {}),
]


def gradient(function: Any, x: torch.Tensor, grad: torch.Tensor, **options: Any) -> torch.Tensor:
    x = x.detach().requires_grad_()
    (found,) = torch.autograd.grad(function(x, **options), x, grad)
    return found


def of_copies(x: torch.Tensor, grad: torch.Tensor, size: list[int]) -> torch.Tensor:
    """The gradient of "nearest", from the elements that it copies. (Torch's own gradient reads
    other elements than its forward pass where a coordinate is near an integer.)"""
    kind = torch.float64 if x.dtype == torch.float64 else torch.float32
    numbers = torch.arange(x[0, 0].numel(), dtype=kind).view(1, 1, *x.shape[2:])
    copied = myops.interpolate(numbers, size=size).flatten().long()
    result = torch.zeros(x.shape, dtype=torch.float64).flatten(2)
    return result.index_add(2, copied, grad.double().flatten(2)).view(x.shape)


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize(("mode", "choice"), MODES, ids=str)
def test_against_float64(mode: str, choice: dict[str, bool], dtype: torch.dtype) -> None:
    draw = random.Random(f"{mode} {choice} {dtype}")
    numbers = torch.Generator().manual_seed(1)
    for shape, factors in itertools.product(SHAPES, FACTORS):
        size = [max(1, int(n * f)) for n, f in zip(shape[2:], factors, strict=True)]
        if choice.get("antialias") and size[1] == 1:
            continue  # torch 2.13 is wrong there: it differs from itself, axis by axis
        options = {"size": size, "mode": mode, **choice}
        x = (torch.rand(shape, generator=numbers) - 0.5).to(dtype)
        grad = (torch.rand([*shape[:2], *size], generator=numbers) - 0.5).to(dtype)
        if draw.random() < 0.3:  # a view that begins within a vector
            x = torch.cat([x.flatten()[:1], x.flatten()])[1:].view(shape)
        result = myops.interpolate(x, **options)
        back = gradient(myops.interpolate, x, grad, **options)
        tolerance = TOLERANCE[dtype]
        if mode == "nearest":
            pairs = [(back, of_copies(x, grad, size))]
        else:
            expected = gradient(F.interpolate, x.double(), grad.double(), **options)
            pairs = [(result, F.interpolate(x.double(), **options)), (back, expected)]
        for found, expected in pairs:
            error = (found.double() - expected).abs().max()
            assert error <= tolerance * max(1, expected.abs().max()), (shape, size, float(error))
        last = {"memory_format": torch.channels_last}
        again = myops.interpolate(x.contiguous(**last), **options)
        assert torch.equal(again, result), (shape, size)
        again = gradient(
            myops.interpolate, x.contiguous(**last), grad.contiguous(**last), **options
        )
        assert torch.equal(again, back), (shape, size)


@pytest.mark.parametrize(("mode", "choice"), MODES, ids=str)
@pytest.mark.parametrize("shape", [(1, 4, 40, 33), (24, 1, 6, 9)])
def test_infinity_stays_where_it_is_read(
    mode: str, choice: dict[str, bool], shape: tuple[int, ...]
) -> None:
    # elements with fewer taps than others are padded: nothing may come of what the padding reads
    for factors in FACTORS:
        size = [max(1, int(n * f)) for n, f in zip(shape[2:], factors, strict=True)]
        grad = torch.zeros([*shape[:2], *size])
        grad[0, 0, size[0] // 2, size[1] // 2] = float("inf")
        back = gradient(myops.interpolate, torch.zeros(shape), grad, size=size, mode=mode, **choice)
        reads = torch.zeros(shape[2:], dtype=torch.bool)
        ranges = []
        for length, out in zip(shape[2:], size, strict=True):
            center = (out // 2 + 0.5) * length / out
            if choice.get("align_corners"):
                center = out // 2 * (length - 1) / max(out - 1, 1) + 0.5
            radius = 3 * max(1, length / out) + 1
            ranges.append(slice(max(0, int(center - radius)), int(center + radius) + 1))
        reads[tuple(ranges)] = True
        assert not back[0, 0].isfinite().all()
        assert back[0, 0][~reads].isfinite().all(), factors
        assert back[0, 1:].isfinite().all(), factors
        assert back[1:].isfinite().all(), factors


def test_of_threads() -> None:
    x, grad = torch.randn(3, 5, 300, 211), torch.randn(3, 5, 170, 333)
    threads = torch.get_num_threads()
    found = []
    try:
        for count in (1, 2, 3):
            torch.set_num_threads(count)
            found.append(gradient(myops.interpolate, x, grad, size=(170, 333), mode="bilinear"))
    finally:
        torch.set_num_threads(threads)
    assert all(torch.equal(each, found[0]) for each in found)
