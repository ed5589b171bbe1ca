"""channels_last is another order in memory, not another result: equal bits in any layout."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

import myops

MODES = ("nearest", "linear", "cubic")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("scale", [2.0, 3.0, 0.5])
def test_channels_innermost(rng: np.random.Generator, mode: str, scale: float) -> None:
    # whole vectors of channels and what is left of them; the sums are those of rows of pixels
    torch_mode = {"linear": "bilinear", "cubic": "bicubic"}.get(mode, mode)
    for channels in (3, 8, 13, 16, 37):
        x = torch.from_numpy(rng.standard_normal((2, channels, 10, 22)).astype(np.float32))
        rows = myops.interpolate(x, scale_factor=scale, mode=torch_mode)
        last = x.to(memory_format=torch.channels_last)
        result = myops.interpolate(last, scale_factor=scale, mode=torch_mode)
        assert torch.equal(result, rows)
        expected = torch.nn.functional.interpolate(x, scale_factor=scale, mode=torch_mode)
        torch.testing.assert_close(result, expected, rtol=1e-5, atol=2e-5)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("shape", [(5, 2, 1, 6), (5, 2, 6, 1), (4, 3, 5, 6), (5, 2, 1, 1, 6)])
def test_channels_last_of_any_axes(
    rng: np.random.Generator, mode: str, shape: tuple[int, ...]
) -> None:
    # which of two axes goes first decides about last bits, and must not follow from the layout
    x = torch.from_numpy(rng.standard_normal(shape))
    layouts = {4: torch.channels_last, 5: torch.channels_last_3d}
    last = x.to(memory_format=layouts[x.ndim])
    for axes in itertools.combinations(range(x.ndim), 2):
        for scales in itertools.product((0.6, 1.7), repeat=2):
            if any(shape[axis] * scale < 1 for axis, scale in zip(axes, scales, strict=True)):
                continue
            rows = myops.resize(x, scales, mode=mode, axes=axes)
            result = myops.resize(last, scales, mode=mode, axes=axes)
            assert torch.equal(result, rows), (axes, scales)


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize("factor", [3.0, 1.5, 2.0, 0.5, 0.45, 0.4, 0.35, 0.2])
def test_equal_bits_of_long_rows(mode: str, factor: float) -> None:
    # also the sign of zero, which torch.equal() does not see
    for channels in (2, 3, 9):
        x = torch.randn(1, channels, 5, 341)
        x[:, 0] = -0.0
        for antialias in (False, factor < 1):
            options = {"scale_factor": factor, "mode": mode, "antialias": antialias}
            rows = myops.interpolate(x, **options)
            result = myops.interpolate(x.to(memory_format=torch.channels_last), **options)
            assert torch.equal(result.contiguous().view(torch.int32), rows.view(torch.int32))
