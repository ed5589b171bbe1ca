"""resize is affine in x: its tangents and second derivatives are those of its linear part, for
every combination of options, also where the result has a constant part (`extrapolation_value`)."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch

import myops

COORDINATES = (
    "half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric",
    "tf_crop_and_resize",
)  # fmt: skip


def drawn(seed: int) -> tuple[torch.Tensor, dict[str, Any]]:
    """A small tensor and options of a call that resize accepts."""
    choose = random.Random(seed)
    rank = choose.randint(1, 4)
    x = torch.randn([choose.randint(1, 6) for _ in range(rank)], dtype=torch.float64)
    axes = choose.sample(range(rank), choose.randint(1, rank))
    mode = choose.choice(["nearest", "linear", "cubic", "area"])
    settings: dict[str, Any] = {"axes": axes, "mode": mode}
    if mode != "area":
        settings["coordinate_transformation_mode"] = choose.choice(COORDINATES)
        settings["extrapolation_value"] = choose.choice([0.0, 7.0])
    if settings.get("coordinate_transformation_mode") == "tf_crop_and_resize":
        starts = [choose.uniform(-0.5, 0.6) for _ in axes]
        settings["roi"] = [*starts, *(start + choose.uniform(0.2, 1.2) for start in starts)]
    if mode in ("linear", "cubic"):
        settings["antialias"] = choose.random() < 0.4
        settings["exclude_outside"] = choose.random() < 0.4
    if choose.random() < 0.5:
        settings["sizes"] = [choose.randint(1, 8) for _ in axes]
    else:
        settings["scales"] = [choose.uniform(1 / x.shape[axis], 2.5) + 1e-3 for axis in axes]
    return x, settings


@pytest.mark.parametrize("seed", range(60))
def test_derivatives_are_those_of_the_linear_part(seed: int) -> None:
    torch.manual_seed(seed)
    x, settings = drawn(seed)

    def resize(value: torch.Tensor) -> torch.Tensor:
        return myops.resize(value, **settings)

    tangent = torch.randn_like(x)
    linear = resize(tangent) - resize(torch.zeros_like(x))
    value, forward = torch.func.jvp(resize, (x,), (tangent,))
    torch.testing.assert_close(value, resize(x), rtol=0, atol=0)
    torch.testing.assert_close(forward, linear, rtol=1e-9, atol=1e-9)

    grad = torch.randn_like(value, requires_grad=True)
    leaf = x.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(resize(leaf), leaf, grad, create_graph=True)
    torch.testing.assert_close((gradient * tangent).sum(), (grad * linear).sum())
    (second,) = torch.autograd.grad(gradient, grad, tangent)
    torch.testing.assert_close(second, linear, rtol=1e-9, atol=1e-9)
