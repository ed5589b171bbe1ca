"""resize of tensors with gaps between their elements, such as crops: the bits of the same tensor
without gaps, in every mode, and without a copy of what is not read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import myops
from myops._recording import recorded

# Views of a tensor made for the shape [N, C, H, W].
VIEWS: dict[str, Callable[..., Tensor]] = {
    "crop": lambda n, c, h, w: torch.rand(n, c, h + 3, w + 5)[:, :, 1 : h + 1, 2 : w + 2],
    "rows": lambda n, c, h, w: torch.rand(n, c, h + 3, w)[:, :, 2 : h + 2],
    "channels": lambda n, c, h, w: torch.rand(n, c + 1, h, w)[:, 1:],
    "columns": lambda n, c, h, w: torch.rand(n, c, h, 2 * w)[..., ::2],
    "transposed": lambda n, c, h, w: torch.rand(n, c, w, h).transpose(2, 3),
    "expanded": lambda n, c, h, w: torch.rand(n, 1, h, 1).expand(n, c, h, w),
    "pixels": lambda n, c, h, w: torch.rand(n, h, w, c + 1)[..., :c].permute(0, 3, 1, 2),
    "cropped pixels": lambda n, c, h, w: torch.rand(n, h, w + 1, c)[:, :, 1:].permute(0, 3, 1, 2),
}
# Sizes whose outputs read a few of the elements, or all; in one axis or both.
CASES = [
    ((2, 3, 37, 61), (5, 9)), ((1, 5, 64, 40), (1, 1)), ((2, 1, 50, 90), (70, 11)),
    ((1, 9, 33, 20), (40, 50)), ((1, 3, 90, 70), (89, 69)), ((3, 2, 1, 80), (4, 10)),
]  # fmt: skip
MODES = [
    {"mode": "nearest"}, {"mode": "nearest-exact"}, {"mode": "area"}, {"mode": "bilinear"},
    {"mode": "bilinear", "align_corners": True}, {"mode": "bilinear", "antialias": True},
    {"mode": "bicubic"}, {"mode": "bicubic", "antialias": True},
]  # fmt: skip
DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.uint8]


def strided(view: str, shape: Any, dtype: torch.dtype) -> Tensor:
    torch.manual_seed(sum(shape))
    made = VIEWS[view](*shape)
    base = made._base if made._base is not None else made
    values = (base * 255).to(dtype) if dtype is torch.uint8 else base.to(dtype)
    return values.as_strided(made.shape, made.stride(), made.storage_offset())


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_bits_of_a_dense_tensor(view: str, dtype: torch.dtype) -> None:
    for shape, size in CASES:
        for settings in MODES:
            if dtype is torch.uint8 and settings["mode"] == "area":
                continue
            x = strided(view, shape, dtype)
            wanted = myops.interpolate(x.clone(memory_format=torch.contiguous_format), size,
                                       **settings)  # fmt: skip
            got = myops.interpolate(x, size, **settings)
            assert torch.equal(got, wanted), (shape, size, settings)
            # Pixels keep their order, also with gaps between them; other views give planes.
            pixels = "pixels" in view and x.shape[1] > 1
            layout = torch.channels_last if pixels else torch.contiguous_format
            assert got.is_contiguous(memory_format=layout)


@pytest.mark.parametrize("rank", [1, 3, 5])
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_other_ranks_axes_and_coordinates(rank: int, mode: str) -> None:
    """Also a roi that leaves the input and reads backwards."""
    torch.manual_seed(rank)
    whole = torch.rand([12, 11, 10, 9, 8][:rank])
    x = whole[tuple(slice(1, None) for _ in range(rank))].transpose(0, -1)
    scales = [0.2, 1.5, 0.4, 1.0, 0.3][:rank]
    roi = [*[0.9] * rank, *[-0.2] * rank]
    for more in ({}, {"roi": roi, "coordinate_transformation_mode": "tf_crop_and_resize"}):
        got = myops.resize(x, scales=scales, mode=mode, **more)
        assert torch.equal(got, myops.resize(x.contiguous(), scales=scales, mode=mode, **more))


def test_gradients_and_out() -> None:
    base = torch.rand(2, 3, 50, 60, dtype=torch.float64, requires_grad=True)
    crop = base[:, :, 5:45, 7:50]
    assert torch.autograd.gradcheck(
        lambda t: myops.interpolate(t[:, :, ::2], (7, 5), mode="bicubic"), crop
    )
    out = torch.empty(2, 3, 7, 5, dtype=torch.float64)
    with torch.no_grad():
        myops.interpolate(crop, (7, 5), mode="bilinear", out=out)
        assert torch.equal(out, myops.interpolate(crop.contiguous(), (7, 5), mode="bilinear"))


def test_only_what_is_read_is_copied() -> None:
    """The result, the copy, and tables; not the 8.3 MB of the crop."""
    x = torch.rand(1, 3, 800, 900)[:, :, 10:, 20:]
    with recorded() as calls:
        myops.interpolate(x, (20, 30), mode="bilinear")
    (call,) = calls
    assert call["memory"] < 4 * 3 * (40 * 60 + 20 * 30) + (64 << 10)
    assert call["inputs"][0]["layout"] == "strided"
