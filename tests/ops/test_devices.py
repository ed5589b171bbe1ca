"""Tensors on different devices are an error, and never give a result with undefined contents."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv

import myops

X = torch.rand(1, 2, 4, 5)
SCALES = torch.tensor([1.0, 1.0, 2.0, 3.0])
ROI = torch.tensor([0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 1.0])
WEIGHT, OFFSET, BIAS, MASK = (
    torch.rand(s) for s in [(3, 2, 1, 1), (1, 2, 4, 5), (3,), (1, 1, 4, 5)]
)
GRAD = torch.rand(1, 3, 4, 5)


def _weighted(x: np.ndarray, w: np.ndarray | None) -> np.ndarray:
    """x * w."""
    return x if w is None else x * w


weighted = myops.prototype(
    _weighted,
    name="weighted",
    domain="devices",
    types={"T": ["float32"]},
    inputs=[
        myops.Input("x", "T", "Any tensor."),
        myops.Input("w", "T", "Its factor.", optional=True),
    ],
    outputs=[myops.Output("y", "T", "The product.")],
    shape=lambda inputs, attributes: [inputs[0].shape],
)

# The inputs of each op in the order of the description, and the positions of values inputs.
OPS: dict[str, tuple[tuple[Any, ...], set[int]]] = {
    "my_add": ((X, X), set()),
    "resize": ((X, ROI, SCALES, None), {1, 2, 3}),
    "resize_backward": ((torch.rand(1, 2, 8, 15), X, None, SCALES, None), {2, 3, 4}),
    "deform_conv2d": ((X, WEIGHT, OFFSET, BIAS, MASK), set()),
    "deform_conv2d_backward": ((GRAD, X, WEIGHT, OFFSET, MASK), set()),
    "deform_conv2d_backward_backward": (
        (GRAD, X, WEIGHT, OFFSET, MASK, X, WEIGHT, OFFSET, MASK),
        set(),
    ),
    "weighted": ((X, X), set()),
}
INNER = {
    "resize_backward": ("resize", "_resize_backward"),
    "deform_conv2d_backward": ("deform_conv2d", "_backward_op"),
    "deform_conv2d_backward_backward": ("deform_conv2d", "_backward_backward_op"),
}
each_op = pytest.mark.parametrize("name", OPS)


def below(name: str) -> Any:
    """The dispatcher op."""
    return getattr(torch.ops.devices if name == "weighted" else torch.ops.myops, name).default


def above(name: str) -> Callable[..., Any]:
    """The function that the public function calls."""
    if name == "weighted":
        return weighted
    module, attribute = INNER.get(name, (name, f"_{name}"))
    op = getattr(importlib.import_module(f"myops.ops.{module}"), attribute)
    return lambda *inputs: op.call(inputs, {})


def compiled(name: str) -> Callable[..., Any]:
    torch._dynamo.reset()
    inner = above(name)
    return torch.compile(lambda *inputs: inner(*inputs), backend="eager", fullgraph=True)


WAYS = {"function": above, "dispatcher": below, "compiled": compiled}


def placed(name: str, home: str, elsewhere: int = -1, device: str = "") -> list[Any]:
    """The inputs on one device, except one of them, and except values inputs, which are on the
    CPU."""
    inputs, values = OPS[name]
    return [
        item
        if item is None
        else item.to(device if place == elsewhere else "cpu" if place in values else home)
        for place, item in enumerate(inputs)
    ]


@each_op
@pytest.mark.parametrize("way", WAYS)
def test_one_tensor_on_another_device_is_refused(name: str, way: str) -> None:
    call = WAYS[way](name)
    inputs, values = OPS[name]
    for home, device in (("cpu", "meta"), ("meta", "cpu")):
        for place, item in enumerate(inputs):
            if item is None or (place in values and device == "cpu"):
                continue
            if name == "resize" and place == 0:
                continue  # the other tensors are as they may be
            with pytest.raises(RuntimeError, match=rf"{name}: \w+: got a tensor on (cpu|meta),"):
                call(*placed(name, home, place, device))


@each_op
def test_one_tensor_on_another_device_is_refused_in_training(name: str) -> None:
    inputs, values = OPS[name]
    for place, item in enumerate(inputs):
        if item is None or place in values or name == "resize":
            continue
        given = placed(name, "cpu", place, "meta")
        given[1 - min(place, 1)].requires_grad_()
        for way in (above, below):
            with pytest.raises(RuntimeError, match=rf"{name}: \w+: got a tensor on"):
                way(name)(*given)


@each_op
@pytest.mark.parametrize("way", WAYS)
def test_meta_tensors_give_meta_results(name: str, way: str) -> None:
    expected = above(name)(*OPS[name][0])
    found = WAYS[way](name)(*placed(name, "meta"))
    pairs = zip(found, expected, strict=True) if isinstance(found, tuple) else [(found, expected)]
    for one, other in pairs:
        assert one.is_meta
        assert (one.shape, one.dtype) == (other.shape, other.dtype)


def test_meta_tensors_with_lists_and_cpu_tensors() -> None:
    meta = X.to("meta")
    assert myops.resize(meta, SCALES.tolist()).shape == (1, 2, 8, 15)
    assert torch.ops.myops.resize.values(meta, None, SCALES.tolist()).shape == (1, 2, 8, 15)
    assert myops.interpolate(meta, scale_factor=torch.tensor(2.0)).shape == (1, 2, 8, 10)
    assert myops.interpolate(meta, size=torch.tensor([3, 7])).shape == (1, 2, 3, 7)


def test_shape_deciding_meta_tensors_are_refused() -> None:
    for x in (X, X.to("meta")):
        for call in (
            lambda x=x: myops.resize(x, SCALES.to("meta")),
            lambda x=x: myops.resize(x, sizes=torch.tensor([1, 2, 3, 4], device="meta")),
            lambda x=x: torch.ops.myops.resize(x, None, SCALES.to("meta")),
            lambda x=x: myops.interpolate(x, scale_factor=torch.tensor(2.0, device="meta")),
        ):
            with pytest.raises(RuntimeError, match=r"s(cale.*|izes): got a tensor on meta"):
                call()


def test_fake_cuda_tensors_give_fake_cuda_results() -> None:
    """FakeTensorMode has tensors of devices that the machine lacks."""
    with FakeTensorMode(shape_env=ShapeEnv()):
        here, there = torch.empty(1, 2, 4, 5), torch.empty(1, 2, 4, 5, device="cuda")
        scales = torch.empty(4)
        assert myops.my_add(there, there).device.type == "cuda"
        assert myops.resize(there, [1.0, 1.0, 2.0, 2.0]).device.type == "cuda"
        for x in (here, there):
            result = myops.resize(x, scales)
            assert (result.device, result.dtype, result.dim()) == (x.device, x.dtype, 4)
        for pair in ((here, there), (there, here)):
            with pytest.raises(RuntimeError, match=r"my_add: b: got a tensor on (cpu|cuda:0), exp"):
                myops.my_add(*pair)
        with pytest.raises(RuntimeError, match="resize: scales: got a tensor on cuda:0, expected"):
            myops.resize(here, torch.empty(4, device="cuda"))
