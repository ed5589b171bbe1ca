"""The whole conformance suite on the ops of this library; the references are torch's own functions,
and the slow deform_conv2d of tests/reference_deform_conv2d.py."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from deform_cases import CASES, build
from reference_deform_conv2d import deform_conv2d as slow_deform_conv2d
from torch import Tensor

import myops
from myops.testing import Case, Check, checks

torch.manual_seed(20240229)


def my_add(a: Tensor, b: Tensor) -> Tensor:
    return 2 * a + b


MY_ADD = [
    Case((torch.randn(2, 3, 4, 5), torch.randn(3, 1, 5)), name="broadcast"),
    Case((torch.randn(4), torch.randn(3)), name="lengths",
         refused="b: got length 3 on axis 0, expected 1 or 4, the length of a there"),
    Case((torch.randn(4), torch.randn(4).double()), name="dtypes",
         refused="b: got dtype float64, expected float32, the dtype of a"),
]  # fmt: skip


def resize(x: Tensor, scales: Any = None, sizes: Any = None, **settings: Any) -> Tensor:
    """torch.nn.functional.interpolate, on the last two axes."""
    whole = None if sizes is None else [int(n) for n in sizes]
    output = whole or [int(n * s) for n, s in zip(x.shape[2:], scales, strict=True)]
    if not x.numel():
        return x.new_zeros(*x.shape[:2], *output)
    corners = settings["coordinate_transformation_mode"] == "align_corners"
    mode = {"cubic": "bicubic", "linear": "bilinear"}[settings["mode"]]
    result = F.interpolate(x.double(), whole, scales, mode=mode, align_corners=corners)
    return result.round().clamp(0, 255).to(x.dtype) if x.dtype == torch.uint8 else result


IMAGE = torch.randn(2, 3, 6, 4)
RESIZE = [
    Case((IMAGE, [2.0, 0.5]), {"axes": [2, 3], "mode": "cubic", "cubic_coeff_a": -0.75,
         "coordinate_transformation_mode": "half_pixel"}, name="cubic"),
    Case((IMAGE,), {"sizes": torch.tensor([7, 5]), "axes": [2, 3], "mode": "linear",
         "coordinate_transformation_mode": "align_corners"}, name="sizes"),
    Case((IMAGE, [2.0]), name="length", refused="scales: got length 1, expected length 4"),
    Case((IMAGE, [2.0, -1.0]), {"axes": [2, 3]}, name="negative",
         refused="scales: got -1 on axis 3"),
    Case((IMAGE,), {"sizes": torch.tensor([[7, 5]])}, name="rank",
         refused="sizes: got rank 2, expected a list (rank 1)"),
]  # fmt: skip


def deform_conv2d(
    x: Tensor, offset: Tensor, weight: Tensor, bias: Tensor | None, stride: Sequence[int],
    pads: Sequence[int], dilation: Sequence[int], mask: Tensor | None,
) -> Tensor:  # fmt: skip
    group = x.shape[1] // weight.shape[1]
    offset_group = offset.shape[1] // (2 * weight.shape[2] * weight.shape[3])
    (down, right), (top, left, bottom, end), (dy, dx) = stride, pads, dilation
    return slow_deform_conv2d(
        x, weight, offset, bias, mask, (down, right), (top, left, bottom, end), (dy, dx), group,
        offset_group,
    )  # fmt: skip


def deform_case(case: Any, name: str) -> Case:
    (x, weight, offset, bias, mask), settings = build(case, (7, 6), "float32")
    rest = (settings["strides"], settings["pads"], settings["dilations"], mask)
    return Case((x, offset, weight, bias, *rest), name=name)


GROUPS = deform_case((2, *CASES[0][1:]), "groups")
DEFORM = [
    GROUPS,
    deform_case(CASES[5], "27 products"),
    Case((GROUPS.args[0][:, :5], *GROUPS.args[1:]), name="channels",
         refused="weight: got 5 channels of input, expected a positive multiple of 3"),
]  # fmt: skip


def named(found: list[Check]) -> list[Any]:
    return [pytest.param(check, id=str(check)) for check in found]


@pytest.mark.quick  # every family, in every runtime
@pytest.mark.parametrize("check", named(checks(myops.my_add, MY_ADD, reference=my_add)))
def test_my_add_passes_every_family(check: Check) -> None:
    check()


# Where a sample lies in the middle of two integers, the last bit of its weight decides.
TIES = {"uint8": 1}


@pytest.mark.quick
@pytest.mark.parametrize(
    "check",
    named(checks(myops.resize, RESIZE, reference=resize, tolerance=TIES, body_tolerance=TIES)),
)
def test_resize_passes_every_family(check: Check) -> None:
    check()


@pytest.mark.parametrize(
    "check", named(checks(myops.deform_conv2d, DEFORM, reference=deform_conv2d))
)
def test_deform_conv2d_passes_every_family(check: Check) -> None:
    check()
