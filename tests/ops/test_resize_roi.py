"""Rois of "tf_crop_and_resize" that end before they start: the picture upside down."""

from __future__ import annotations

import pytest
import torch

import myops

# Shapes of which "row_pairs" makes batches of rows, columns first and rows first, and a volume.
SIZES = [
    ((1, 2, 40, 30), (57, 45)),
    ((1, 2, 40, 30), (57, 20)),
    ((1, 2, 40, 30), (25, 45)),
    ((1, 2, 40, 130), (57, 245)),
    ((1, 1, 9, 40, 30), (14, 57, 45)),
    ((2, 17, 9, 12), (14, 11)),
]


@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize(("shape", "sizes"), SIZES, ids=str)
def test_upside_down(mode: str, shape: tuple[int, ...], sizes: tuple[int, ...]) -> None:
    x = torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    rank = len(sizes)
    axes = list(range(2, 2 + rank))
    starts, ends = [0.9] * (rank - 1) + [0.15], [0.2] * (rank - 1) + [0.95]

    def cropped(image: torch.Tensor, starts: list[float], ends: list[float]) -> torch.Tensor:
        return myops.resize(
            image, roi=torch.tensor(starts + ends, dtype=torch.float64), sizes=torch.tensor(sizes),
            axes=axes, mode=mode, coordinate_transformation_mode="tf_crop_and_resize",
        )  # fmt: skip

    turned = [1 - place for place in starts[:-1]], [1 - place for place in ends[:-1]]
    expected = cropped(x.flip(axes[:-1]), turned[0] + starts[-1:], turned[1] + ends[-1:])
    torch.testing.assert_close(cropped(x, starts, ends), expected, rtol=0, atol=1e-10)
    last = x.contiguous(memory_format=torch.channels_last if rank == 2 else torch.channels_last_3d)
    assert torch.equal(cropped(last, starts, ends), cropped(x, starts, ends))
