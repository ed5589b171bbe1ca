"""Calls of every op that has a kernel for CUDA."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from deform_cases import CASES, build

import myops
from myops.testing import Case


class OnDevice(NamedTuple):
    """A function, a call of it, whether the result must have the bits of the CPU, and the factor on
    the tolerances of the conformance suite for its sums."""

    function: Callable[..., Any]
    case: Case
    exact: bool
    scale: float = 1


def numbers(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return (torch.rand(shape, dtype=torch.float64) * 2 - 1).to(dtype)


def resized(mode: str, antialias: bool, torch_arithmetic: bool) -> OnDevice:
    def resize(x: torch.Tensor) -> torch.Tensor:
        scales = [1.0] * (x.dim() - 2) + [1.7, 0.4]
        attributes = {"mode": mode, "antialias": antialias, "torch_arithmetic": torch_arithmetic}
        return torch.ops.myops.resize.values(x, None, scales, None, **attributes)

    return OnDevice(resize, Case((numbers(2, 3, 17, 23),)), True)


def deformed(place: int) -> OnDevice:
    (x, weight, offset, bias, mask), attributes = build(CASES[place], dtype="float32")

    def deform_conv2d(*tensors: torch.Tensor) -> torch.Tensor:
        given = iter(tensors)
        optional = (bias is not None, mask is not None)
        full = [next(given) if had else None for had in (True, True, True, *optional)]
        return torch.ops.myops.deform_conv2d(*full, **attributes)

    tensors = tuple(item for item in (x, weight, offset, bias, mask) if item is not None)
    return OnDevice(deform_conv2d, Case(tensors), False, 4)


def bytes_deformed(place: int, dtype: torch.dtype) -> OnDevice:
    (x, weight, offset, bias, mask), attributes = build(CASES[place], dtype="float32")
    low = torch.iinfo(dtype).min
    tensors: dict[str, torch.Tensor | None] = {
        "X": torch.randint(low, low + 256, x.shape).to(dtype),
        "X_scale": torch.tensor([0.02]),
        "X_zero_point": torch.tensor([low + 100], dtype=dtype),
        "W": torch.randint(-127, 128, weight.shape).to(torch.int8),
        "W_scale": torch.rand(weight.shape[0]) + 0.01,
        "offset": offset,
        "B": bias,
        "mask": mask,
    }
    present = [name for name, tensor in tensors.items() if tensor is not None]

    def deform_conv2d_int8(*given: torch.Tensor) -> torch.Tensor:
        full = {**dict.fromkeys(tensors), **dict(zip(present, given, strict=True))}
        return torch.ops.myops.deform_conv2d_int8(*full.values(), **attributes)

    return OnDevice(
        deform_conv2d_int8, Case(tuple(t for t in tensors.values() if t is not None)), True
    )


def added(*shapes: tuple[int, ...]) -> OnDevice:
    return OnDevice(myops.my_add, Case(tuple(numbers(*shape) for shape in shapes)), True)


torch.manual_seed(0)
ON_DEVICE = {
    "my_add": added((5, 1, 7), (33, 7)),
    "my_add-one-run": added((3, 1001), (3, 1001)),
    "my_add-one-number": added((515,), (1,)),
    **{
        f"resize-{mode}{'-antialias' * antialias}{'-torch' * like_torch}": resized(
            mode, antialias, like_torch
        )
        for mode, antialias, like_torch in itertools.product(
            ("nearest", "linear", "cubic", "area"), (False, True), (False, True)
        )
        if not (antialias and mode in ("nearest", "area"))
    },
    **{f"deform_conv2d-{place}": deformed(place) for place in range(len(CASES))},
}
WITHOUT_GRADIENTS = {
    f"deform_conv2d_int8-{str(dtype).removeprefix('torch.')}-{place}": bytes_deformed(place, dtype)
    for place in range(0, len(CASES), 3)
    for dtype in (torch.uint8, torch.int8)
}
