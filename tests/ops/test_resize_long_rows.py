"""Few rows of a long axis, such as a waveform, have the bits of many rows (other kernels)."""

import random
from typing import Any

import pytest
import torch
from same_bits import same_bits

import myops

MANY = 40  # rows, with which "long_rows" does not run
MODES: dict[str, dict[str, Any]] = {
    "nearest": {},
    "nearest-exact": {},
    "linear": {"align_corners": False},
    "linear, corners": {"align_corners": True},
    "bicubic": {"align_corners": False},
    "bilinear, antialias": {"align_corners": False, "antialias": True},
}


def interpolate(x: torch.Tensor, length: int, mode: str) -> torch.Tensor:
    name, *_ = mode.split(",")
    if name in ("bicubic", "bilinear"):
        x = x.unsqueeze(2)
        return myops.interpolate(x, size=(1, length), mode=name, **MODES[mode]).squeeze(2)
    return myops.interpolate(x, size=length, mode=name, **MODES[mode])


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("seed", range(6))
def test_few_rows_have_the_bits_of_many(mode: str, seed: int) -> None:
    drawn = random.Random(f"{mode} {seed}")
    dtype = drawn.choice([torch.float32, torch.float64, torch.float16, torch.bfloat16])
    length = int(2 ** drawn.uniform(16, 18))
    result = int(length * drawn.choice([0.3, 0.5, 0.9, 1.1, 2, 2.2, 2.76, 6]))
    if length + result < 200_000:
        length, result = 2 * length, 2 * result
    rows = drawn.choice([1, 2, 8])
    generator = torch.Generator().manual_seed(seed)
    many = torch.randn(1, MANY, length, generator=generator).to(dtype)
    many[many.abs() < 0.2] = -0.0
    upstream = torch.randn(1, MANY, result, generator=generator).to(dtype)
    upstream[upstream.abs() < 0.2] = -0.0
    many.requires_grad_()
    few = many.detach()[:, :rows].requires_grad_()

    got, expected = interpolate(few, result, mode), interpolate(many, result, mode)
    assert same_bits(got.detach(), expected.detach()[:, :rows])
    (got_gradient,) = torch.autograd.grad(got, few, upstream[:, :rows])
    (expected_gradient,) = torch.autograd.grad(expected, many, upstream)
    assert same_bits(got_gradient, expected_gradient[:, :rows])


def test_the_kernel_is_named() -> None:
    x = torch.zeros(1, 2, 100_000)
    lengths = torch.tensor([80_000])
    plan = myops.explain(myops.resize, x, sizes=lengths, axes=[2], mode="linear")
    assert "long_rows" in str(plan)
    many = torch.zeros(1, MANY, 100_000)
    plan = myops.explain(myops.resize, many, sizes=lengths, axes=[2], mode="linear")
    assert "long_rows" not in str(plan)


def test_gradients_of_elements_with_four_and_with_five_taps() -> None:
    generator = torch.Generator().manual_seed(3)
    many = torch.zeros(1, MANY, 60_000, requires_grad=True)
    few = many.detach()[:, :2].requires_grad_()
    upstream = torch.randn(1, MANY, 132_000, generator=generator)
    (expected,) = torch.autograd.grad(interpolate(many, 132_000, "linear"), many, upstream)
    (got,) = torch.autograd.grad(interpolate(few, 132_000, "linear"), few, upstream[:, :2])
    assert same_bits(got, expected[:, :2])


@pytest.mark.parametrize("factor", [0.4, 1.7, 3.1])
@pytest.mark.parametrize("mode", ["linear", "nearest"])
def test_a_waveform_as_torch_computes_it(mode: str, factor: float) -> None:
    generator = torch.Generator().manual_seed(7)
    x = torch.randn(2, 1, 120_000, generator=generator, dtype=torch.float64).requires_grad_()
    length = int(120_000 * factor)
    got = myops.interpolate(x, size=length, mode=mode)
    expected = torch.nn.functional.interpolate(x, size=length, mode=mode)
    torch.testing.assert_close(got, expected)
    upstream = torch.randn(got.shape, generator=generator, dtype=torch.float64)
    (got_gradient,) = torch.autograd.grad(got, x, upstream)
    (expected_gradient,) = torch.autograd.grad(expected, x, upstream)
    torch.testing.assert_close(got_gradient, expected_gradient)
