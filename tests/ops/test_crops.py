"""Tensors with gaps, such as crops: the layout of a result, as torch's, and its bits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

import myops

Function = Callable[[torch.Tensor], torch.Tensor]


def filtered(x: torch.Tensor) -> torch.Tensor:
    """deform_conv2d with offsets of zero: a convolution."""
    weight = torch.linspace(-1, 1, 4 * x.shape[1], dtype=x.dtype).reshape(4, x.shape[1], 1, 1)
    return myops.deform_conv2d(x, x.new_zeros(x.shape[0], 2, *x.shape[2:]), weight)


def convolved(x: torch.Tensor) -> torch.Tensor:
    weight = torch.linspace(-1, 1, 4 * x.shape[1], dtype=x.dtype).reshape(4, x.shape[1], 1, 1)
    return torch.nn.functional.conv2d(x, weight)


def resized(library: Any, **options: Any) -> Function:
    return lambda x: library.interpolate(x, **options)


PAIRS: dict[str, tuple[Function, Function]] = {
    "deform_conv2d": (filtered, convolved),
    **{
        mode: (
            resized(myops, scale_factor=1.5, mode=mode),
            resized(torch.nn.functional, scale_factor=1.5, mode=mode),
        )
        for mode in ("nearest", "bilinear", "bicubic")
    },
}


def pixels_of(*shape: int) -> torch.Tensor:
    return torch.rand(shape).contiguous(memory_format=torch.channels_last)


def views(batch: int, channels: int, height: int, width: int) -> dict[str, torch.Tensor]:
    """Tensors of this shape in other memory, by the name of the view."""
    planes = torch.rand(batch, channels, height + 5, width + 7)
    pixels = pixels_of(batch, channels, height + 5, width + 7)
    inside = (slice(None), slice(None), slice(2, 2 + height), slice(3, 3 + width))
    return {
        "dense": planes[inside].contiguous(),
        "channels_last": planes[inside].contiguous(memory_format=torch.channels_last),
        "crop": planes[inside],
        "crop of channels_last": pixels[inside],
        "rows of channels_last": pixels[:, :, 1 : 1 + height, :width],
        "first channels of pixels": pixels_of(batch, channels + 1, height, width)[:, :channels],
        "every second column": pixels_of(batch, channels, height, 2 * width)[..., ::2],
        "batch inside channels": planes.transpose(0, 1).contiguous().transpose(0, 1)[inside],
        "transposed": torch.rand(batch, channels, width, height).mT,
    }  # fmt: skip


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize(
    "shape", [(2, 3, 8, 12), (1, 3, 8, 12), (2, 1, 8, 12), (2, 3, 1, 12), (1, 4, 9, 1)]
)
def test_results_have_the_layout_of_torchs(name: str, shape: tuple[int, ...]) -> None:
    ours, theirs = PAIRS[name]
    for view, x in views(*shape).items():
        result, expected = ours(x), theirs(x)
        torch.testing.assert_close(result, expected, rtol=1e-4, atol=1e-5)
        # (Memory of one channel, or where only one axis is longer than 1, has both layouts.)
        for layout in (torch.contiguous_format, torch.channels_last) if x.shape[1] > 1 else ():
            assert result.is_contiguous(memory_format=layout) or not expected.is_contiguous(
                memory_format=layout
            ), (view, layout, x.stride())
        with FakeTensorMode() as mode:
            assert ours(mode.from_tensor(x)).stride() == result.stride(), view


@pytest.mark.parametrize("channels", [1, 2, 3, 4, 17])
@pytest.mark.parametrize("mode", ["nearest", "bilinear", "bicubic", "area"])
@pytest.mark.parametrize("size", [(7, 5), (90, 40), (30, 300), (400, 350)])
def test_bits_are_those_of_dense_memory(channels: int, mode: str, size: tuple[int, int]) -> None:
    """Also where pieces of the call copy what they read, and of dtypes with other arithmetic."""
    for dtype in (torch.float32, torch.uint8, torch.bfloat16):
        for view, x in views(2, channels, 120, 90).items():
            given = (255 * x).to(dtype)  # keeps the strides of dense views only
            if not x.is_contiguous():
                given = (
                    torch.empty_strided((x.untyped_storage().nbytes() // 4,), (1,), dtype=dtype)
                    .as_strided(x.shape, x.stride(), x.storage_offset())
                    .copy_(255 * x)
                )
            for antialias in {False, mode.startswith("bi")}:
                options = {"size": size, "mode": mode, "antialias": antialias}
                found = myops.interpolate(given, **options)
                expected = myops.interpolate(given.contiguous(), **options)
                assert torch.equal(found, expected), (view, dtype, antialias)


def test_the_report_says_who_copies() -> None:
    given = views(2, 3, 120, 90)
    for view, words in {"crop": "by the pieces", "batch inside channels": "side by side"}.items():
        steps = myops.explain(myops.interpolate, given[view], size=(100, 80), mode="bilinear").plan
        (copy,) = [step for step in steps if step.kernel == "strided_copy"]
        assert words in copy.reason, view


def test_resized_channels_of_a_crop() -> None:
    x = views(2, 5, 30, 40)["crop of channels_last"]
    options = {"sizes": [7, 20, 60], "axes": [1, 2, 3], "mode": "linear"}
    result = myops.resize(x, **options)
    assert torch.equal(result, myops.resize(x.contiguous(), **options))
    assert result.is_contiguous(memory_format=torch.channels_last)


def test_out_has_the_layout_of_the_result() -> None:
    x = views(2, 3, 30, 40)["crop of channels_last"]
    expected = myops.interpolate(x, size=(20, 50), mode="bilinear")
    out = torch.empty_like(expected)
    assert myops.interpolate(x, size=(20, 50), mode="bilinear", out=out) is out
    assert torch.equal(out, expected)
    with pytest.raises(RuntimeError, match="channels_last memory, as that of the input"):
        myops.interpolate(x, size=(20, 50), mode="bilinear", out=out.contiguous())
