"""Many rows of a few elements have the bits of single rows, for which other kernels run."""

import random

import pytest
import torch
from same_bits import same_bits

import myops

MODES = ["nearest", "nearest-exact", "linear", "bilinear", "bicubic", "antialias", "area"]
DTYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
ROWS = 37


def interpolate(x: torch.Tensor, length: int, mode: str) -> torch.Tensor:
    if mode in ("bilinear", "bicubic", "antialias"):
        options = {"mode": "bilinear", "antialias": True} if mode == "antialias" else {"mode": mode}
        return myops.interpolate(x.unsqueeze(2), size=(1, length), **options).squeeze(2)
    return myops.interpolate(x, size=length, mode=mode)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("seed", range(12))
def test_many_rows_have_the_bits_of_single_ones(mode: str, seed: int) -> None:
    drawn = random.Random(f"{mode} {seed}")
    dtype = drawn.choice(DTYPES)
    longest = drawn.choice([4, 16, 17, 64, 65])
    length, result = drawn.randint(1, longest), drawn.randint(1, longest)
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(ROWS, 1, length, generator=generator).to(dtype)
    x[x.abs() < 0.2] = -0.0
    x[drawn.randrange(ROWS)] = float("inf")
    upstream = torch.randn(ROWS, 1, result, generator=generator).to(dtype)
    upstream[upstream.abs() < 0.2] = -0.0
    x.requires_grad_()
    got = interpolate(x, result, mode)
    (gradient,) = torch.autograd.grad(got, x, upstream)
    for row in range(ROWS):
        single = x.detach()[row : row + 1].requires_grad_()
        expected = interpolate(single, result, mode)
        (expected_gradient,) = torch.autograd.grad(expected, single, upstream[row : row + 1])
        assert same_bits(got.detach()[row : row + 1], expected.detach()), (length, result, row)
        assert same_bits(gradient[row : row + 1], expected_gradient), (length, result, row)


@pytest.mark.parametrize(
    ("length", "result", "mode", "kernel"),
    [(8, 5, "nearest", "nearest_columns"), (3, 1, "linear", "planes")],
)
def test_the_kernel_is_named(length: int, result: int, mode: str, kernel: str) -> None:
    x, sizes = torch.zeros(ROWS, 1, length), torch.tensor([result])
    plan = myops.explain(myops.resize, x, sizes=sizes, axes=[2], mode=mode)
    assert kernel in str(plan)
