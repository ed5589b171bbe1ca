"""resize keeps the tables of its last calls: no call may see those of another one."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import torch

import myops

X = torch.randn(2, 3, 10, 12, generator=torch.Generator().manual_seed(0))
LISTS: dict[str, Any] = {"scales": [1, 1, 1.5, 0.8]}
CROP: dict[str, Any] = {
    "mode": "linear", "coordinate_transformation_mode": "tf_crop_and_resize",
    "scales": [1, 1, 1.5, 1.5], "roi": [0, 0, 0.1, 0.2, 1, 1, 0.9, 0.8],
}  # fmt: skip
CUBIC: dict[str, Any] = {**LISTS, "mode": "cubic"}


def gradient(x: torch.Tensor, **arguments: Any) -> torch.Tensor:
    x = x.detach().requires_grad_()
    y = myops.resize(x, **arguments)
    (result,) = torch.autograd.grad(y, x, torch.arange(float(y.numel())).reshape(y.shape))
    return result


def calls() -> list[Callable[[], torch.Tensor]]:
    """Each differs from one of the others in one thing."""
    channels_last = X.contiguous(memory_format=torch.channels_last)
    given: list[tuple[torch.Tensor, dict[str, Any]]] = [
        (X, CUBIC),
        (X, {**CUBIC, "cubic_coeff_a": -0.5}),
        (X, {**CUBIC, "exclude_outside": True}),
        (X, {**CUBIC, "antialias": True}),
        (X, {**CUBIC, "coordinate_transformation_mode": "asymmetric"}),
        (X, {**CUBIC, "mode": "linear"}),
        (X, {**CUBIC, "scales": [1, 1, 1.55, 0.8]}),  # the same lengths
        (X, {**CUBIC, "scales": None, "sizes": [2, 3, 15, 9]}),
        (X, {**CUBIC, "scales": [1.5, 0.8], "axes": [2, 3]}),
        (X, {**CUBIC, "scales": [1.5, 0.8], "axes": [3, 2]}),
        (X, {**CUBIC, "scales": [1, 2, 1.5, 0.8]}),
        (channels_last, {**CUBIC, "scales": [1, 2, 1.5, 0.8]}),  # only the layout differs
        (channels_last, CUBIC),
        (X.transpose(2, 3).contiguous(), CUBIC),
        (X.double(), CUBIC),
        (X.half(), CUBIC),
        (X, {**LISTS, "mode": "nearest"}),
        (X, {**LISTS, "mode": "nearest", "nearest_mode": "ceil"}),
        (X.half(), {**LISTS, "mode": "nearest"}),
        (X, {**CROP}),
        (X, {**CROP, "roi": [0, 0, 0.1, 0.2, 1, 1, 0.9, 0.7]}),
        (X, {**CROP, "extrapolation_value": 3.0, "roi": [0, 0, -0.1, 0.2, 1, 1, 0.9, 1.3]}),
        (X, {**CROP, "extrapolation_value": 4.0, "roi": [0, 0, -0.1, 0.2, 1, 1, 0.9, 1.3]}),
    ]
    made: list[Callable[[], torch.Tensor]] = []
    for x, arguments in given:
        made.append(partial(myops.resize, x, **arguments))
        if x.dtype == torch.float32:
            made.append(partial(gradient, x, **arguments))
    options: dict[str, Any]
    for options in ({}, {"mode": "nearest-exact"}, {"mode": "bilinear"}, {"mode": "bicubic"}):
        made.append(partial(myops.interpolate, X, scale_factor=1.37, **options))
    return made


def forget() -> None:
    for length in range(3, 23):
        myops.resize(X, sizes=[2, 3, length, length], mode="linear")


def test_equal_calls_share_tables_and_others_do_not() -> None:
    expected = []
    for call in calls():
        forget()
        expected.append(call())
    for call, result in zip(calls(), expected, strict=True):
        for _ in range(2):
            torch.testing.assert_close(call(), result, rtol=0, atol=0)
    for again in range(len(expected)):  # each behind each of its neighbours
        for other in range(max(again - 3, 0), min(again + 4, len(expected))):
            calls()[other]()
            torch.testing.assert_close(calls()[again](), expected[again], rtol=0, atol=0)


def test_threads_share_tables() -> None:
    made = calls()
    expected = [call() for call in made]

    def run(thread: int) -> bool:
        order = [(thread * 7 + i) % len(made) for i in range(20 * len(made))]
        return all(torch.equal(made[i](), expected[i]) for i in order)

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(run, range(4)))


def test_gradients_of_many_shapes_and_dtypes() -> None:
    """What stands for X in the gradient is kept by shape and dtype, for the last of them."""
    for length in (*range(2, 80), 3, 70):
        for dtype in (torch.float32, torch.float64, torch.bfloat16):
            x = torch.zeros(1, 1, length, dtype=dtype)
            found = gradient(x, sizes=[1, 1, 2 * length], mode="linear")
            assert (found.shape, found.dtype) == (x.shape, dtype)
            assert found.sum() > 0
