"""Ways to compute with lengths: each exported file is right at every size, or is refused.

The code of a model decides whether an exporter keeps a length dynamic or builds in its value. This
depends on torch and its version. The tests check that no file is wrong.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
import torch
import torch.nn.functional as F
from guard_models import Model
from node_models import run_plain
from pairs import covering

import myops
import myops.ort
from myops.onnx import ExportCheckError, export
from myops.onnx.exporting import linspace

EXPORTERS = ["dynamo", "torchscript"]
EXAMPLE = (1, 2, 43, 58)
# odd, even, prime, multiples, smaller, larger, not square, thin
SIZES = [(44, 59), (42, 56), (29, 31), (14, 28), (97, 33), (56, 43), (58, 58), (15, 71), (86, 116),
         (64, 64), (47, 60), (113, 15)]  # fmt: skip

Way = Callable[[torch.Tensor], torch.Tensor]


def sized(x: torch.Tensor, *size: Any) -> torch.Tensor:
    return F.interpolate(x, size=size, mode="bilinear")


def resized(x: torch.Tensor, *size: Any) -> torch.Tensor:
    return myops.interpolate(x, size=size, mode="bilinear")


def with_int(x: torch.Tensor) -> torch.Tensor:
    h, w = x.shape[-2:]
    return sized(x, int(h // 14 * 14), int(w // 14 * 14))


def with_quotients(x: torch.Tensor) -> torch.Tensor:
    return resized(x, x.shape[2] // 14 * 14, x.shape[3] // 14 * 14)


def with_int_of_a_quotient(x: torch.Tensor) -> torch.Tensor:
    return resized(x, int(x.shape[2] / 14), int(x.shape[3] / 14))


def with_ceil(x: torch.Tensor) -> torch.Tensor:
    return sized(x, math.ceil(x.shape[2] / 14) * 14, math.ceil(x.shape[3] / 14) * 14)


def with_floor(x: torch.Tensor) -> torch.Tensor:
    return resized(x, math.floor(x.shape[2] / 8), math.floor(x.shape[3] / 8))


def with_round(x: torch.Tensor) -> torch.Tensor:
    return sized(x, round(x.shape[2] / 14), round(x.shape[3] / 14))


def with_a_float_factor(x: torch.Tensor) -> torch.Tensor:
    return F.interpolate(x, scale_factor=float(x.shape[2]) / 43, mode="bilinear")


def with_two_factors(x: torch.Tensor) -> torch.Tensor:
    factor = (x.shape[2] // 14) / 3, (x.shape[3] // 14) / 4
    return myops.interpolate(x, scale_factor=factor, mode="bilinear")


def with_a_fixed_factor(x: torch.Tensor) -> torch.Tensor:
    return F.interpolate(x, scale_factor=0.5, mode="bilinear", recompute_scale_factor=True)


def with_numpy(x: torch.Tensor) -> torch.Tensor:
    height, width = np.array(x.shape[2:]) // 14
    return sized(x, int(height), int(width))


def with_item(x: torch.Tensor) -> torch.Tensor:
    size = torch.tensor(x.shape[2:]) // 14
    return sized(x, size[0].item(), size[1].item())


def with_a_list(x: torch.Tensor) -> torch.Tensor:
    return sized(x, *[int(n) // 2 for n in x.shape[2:]])


def with_a_tuple(x: torch.Tensor) -> torch.Tensor:
    half = F.max_pool2d(x, 2)
    return resized(half, *tuple(x.shape[2:])) + x


def with_padding(x: torch.Tensor) -> torch.Tensor:
    return F.pad(x, (0, -x.shape[3] % 14, 0, -x.shape[2] % 14))


def with_padding_if_needed(x: torch.Tensor) -> torch.Tensor:
    h, w = x.shape[2:]
    if h % 14 or w % 14:
        x = F.pad(x, (0, (14 - w % 14) % 14, 0, (14 - h % 14) % 14))
    return x * 2


def with_windows(x: torch.Tensor) -> torch.Tensor:
    b, c, h, w = x.shape
    x = F.pad(x, (0, (7 - w % 7) % 7, 0, (7 - h % 7) % 7))
    x = x.view(b, c, x.shape[2] // 7, 7, x.shape[3] // 7, 7)
    return x.permute(0, 2, 4, 1, 3, 5).reshape(-1, c, 7, 7)


def with_view(x: torch.Tensor) -> torch.Tensor:
    return x.view(x.shape[0], x.shape[1], -1).mean(1) + x.shape[2]


def with_arange(x: torch.Tensor) -> torch.Tensor:
    rows = torch.arange(x.shape[2], dtype=x.dtype) / x.shape[2]
    columns = torch.arange(int(x.shape[3]), dtype=x.dtype)
    return x + rows[:, None] * columns


def with_linspace(x: torch.Tensor) -> torch.Tensor:
    return x + torch.linspace(-1, 1, x.shape[2])[:, None] * torch.linspace(0, 1, x.shape[3])


def with_a_branch(x: torch.Tensor) -> torch.Tensor:
    return x * 2 if x.shape[2] > 57 else x + 1


def with_a_branch_on_shape(x: torch.Tensor) -> torch.Tensor:
    return x.transpose(2, 3) * 2 if x.shape[2] > x.shape[3] else x + 1


def with_a_loop(x: torch.Tensor) -> torch.Tensor:
    result = torch.zeros_like(x[:, :, 0])
    for row in range(0, x.shape[2], 10):
        result = result + x[:, :, row]
    return result


def with_positions(x: torch.Tensor) -> torch.Tensor:
    """The factor of DINOv2, from the square root of the number of patches in the table."""
    table = torch.arange(16, dtype=x.dtype).view(1, 1, 4, 4)
    h, w = x.shape[2] // 14, x.shape[3] // 14
    factor = ((h + 0.1) / 4, (w + 0.1) / 4)
    grown = F.interpolate(table, scale_factor=factor, mode="bicubic")
    return grown[..., :h, :w] + x[:, :, :1, :1]


def with_steps(x: torch.Tensor) -> torch.Tensor:
    h, w = x.shape[-2:]
    rows, columns = torch.linspace(-1, 1, h), torch.linspace(0.5, w - 0.5, steps=w)
    return x + rows[:, None] * columns / w


def with_a_grid(x: torch.Tensor) -> torch.Tensor:
    turned = torch.tensor([[0.8, -0.6, 0.1], [0.6, 0.8, 0.0]]).expand(x.shape[0], 2, 3)
    grid = F.affine_grid(turned, [*x.shape], align_corners=False)
    return F.grid_sample(x, grid, align_corners=False)


def with_halves(x: torch.Tensor) -> torch.Tensor:
    left, right = torch.chunk(x, 2, dim=3)
    return torch.cat([right, left * 2], dim=3)


WAYS = [value for name, value in list(globals().items()) if name.startswith("with_")]


@pytest.mark.parametrize(
    ("way", "exporter", "target"),
    covering(WAYS, EXPORTERS, ["myops", "onnx"]),
    ids=lambda item: getattr(item, "__name__", item),
)
@pytest.mark.filterwarnings("ignore")
def test_exported_file_is_right_at_every_size_or_refused(
    way: Way, exporter: str, target: str, tmp_path: Any
) -> None:
    model, path = Model(way), tmp_path / "model.onnx"
    axes = {"x": {2: "height", 3: "width"}}
    x = torch.rand(EXAMPLE, generator=torch.Generator().manual_seed(0))
    try:
        export(model, x, path, dynamic_axes=axes, exporter=exporter, target=target)
    except (ExportCheckError, RuntimeError) as error:
        said = str(error)
    else:
        said = ""
    if said:
        assert not path.exists()
        if "is built in at" in said:  # a wrong translation of torch's has no line
            assert way in map(_way_of_line, re.findall(rf"{__file__}:(\d+)", said))
        return
    written = onnx.load(path)
    for size in SIZES:
        x = torch.rand(*EXAMPLE[:2], *size, generator=torch.Generator().manual_seed(1))
        wanted = way(x)
        (got,) = run_plain(written, {"x": x.numpy()})
        assert got.shape == wanted.shape, size
        np.testing.assert_allclose(got, wanted.numpy(), atol=1e-4, err_msg=str(size))


def _way_of_line(line: str) -> Way:
    """The function in which a line of this file is."""
    return max(
        (way for way in WAYS if way.__code__.co_firstlineno <= int(line)),
        key=lambda way: way.__code__.co_firstlineno,
    )


@pytest.mark.parametrize("way", [with_steps, with_a_grid, with_halves])
@pytest.mark.parametrize("exporter", EXPORTERS)
@pytest.mark.filterwarnings("ignore")
def test_linspace_grids_and_chunks_follow_a_length(way: Way, exporter: str) -> None:
    """torch.export alone refuses these, or builds the length in."""
    axes = {"x": {0: "batch", 2: "height", 3: "width"}}
    model = export(Model(way), torch.rand(1, 2, 9, 12), dynamic_axes=axes, exporter=exporter)
    for shape in ((1, 2, 10, 7), (3, 2, 2, 31), (2, 2, 16, 16)):
        x = torch.rand(shape)
        (got,) = run_plain(model, {"x": x.numpy()})
        np.testing.assert_allclose(got, way(x).numpy(), atol=1e-5)


@pytest.mark.parametrize("steps", [1, 2, 5, 8])
def test_composed_linspace_equals_torch(steps: int) -> None:
    got = linspace._composed(-0.3, 1.7, steps, torch.float64, None)
    torch.testing.assert_close(got, torch.linspace(-0.3, 1.7, steps, dtype=torch.float64))


class Attention(torch.nn.Module):
    def __init__(self, heads: int, first: bool) -> None:
        super().__init__()
        self.attention = torch.nn.MultiheadAttention(8, heads, batch_first=first)

    def forward(self, x: torch.Tensor, absent: torch.Tensor) -> Any:
        return self.attention(x, x, x, key_padding_mask=absent)


@pytest.mark.parametrize(("heads", "first"), [(1, True), (2, True), (2, False)])
@pytest.mark.filterwarnings("ignore")
def test_traced_attention_at_other_lengths(heads: int, first: bool) -> None:
    """torch's exporter turns the length behind `unflatten` into a constant."""
    model = Attention(heads, first).eval()
    long = {0: "batch", 1: "time"} if first else {1: "batch", 0: "time"}

    def made(batch: int, time: int) -> tuple[torch.Tensor, torch.Tensor]:
        shape = (batch, time, 8) if first else (time, batch, 8)
        return torch.rand(shape), torch.arange(time).expand(batch, time) > time // 2

    axes = {"x": long, "absent": {0: "batch", 1: "time"}}
    exported = export(model, made(2, 5), dynamic_axes=axes, exporter="torchscript")
    for batch, time in ((1, 1), (3, 7), (2, 16)):
        x, absent = made(batch, time)
        with torch.no_grad():
            wanted = model(x, absent)
        for a, b in zip(
            wanted, run_plain(exported, {"x": x.numpy(), "absent": absent.numpy()}), strict=True
        ):
            np.testing.assert_allclose(b, a.numpy(), atol=1e-5)


class Unflattened(torch.nn.Module):
    def __init__(self, dim: int, sizes: tuple[int, ...]) -> None:
        super().__init__()
        self.dim, self.sizes = dim, sizes

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = (x + 1).unflatten(self.dim, self.sizes)
        return y.reshape(y.shape[0], -1)


@pytest.mark.parametrize(("dim", "sizes"), [(-1, (2, -1)), (1, (3, 2)), (2, (2, 2)), (-2, (-1, 1))])
@pytest.mark.filterwarnings("ignore")
def test_traced_unflatten_at_other_lengths(dim: int, sizes: tuple[int, ...]) -> None:
    model, axes = Unflattened(dim, sizes), {"x": {0: "a", 2: "b"} if dim != 2 else {0: "a"}}
    exported = export(model, torch.rand(2, 6, 4), dynamic_axes=axes, exporter="torchscript")
    x = torch.rand(3, 6, 4 if dim == 2 else 10)
    np.testing.assert_array_equal(run_plain(exported, {"x": x.numpy()})[0], model(x).numpy())
