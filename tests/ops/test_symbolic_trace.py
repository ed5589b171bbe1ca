"""torch.fx.symbolic_trace, with which tools quantize, prune and rewrite models."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch

import myops
import myops.nn
from myops import deform_conv2d, interpolate, my_add, resize  # as models import them

X = torch.rand(1, 2, 4, 5)
OFFSET, WEIGHT = torch.randn(1, 18, 4, 5), torch.randn(3, 2, 3, 3)
FACTORS = torch.tensor([2.0, 1.5])

CALLS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "my_add": (lambda a, b: my_add(a, b).relu(), (X, X[0])),
    "deform_conv2d": (
        lambda x, offset, weight: deform_conv2d(x, offset, weight, padding=1) * 2,
        (X, OFFSET, WEIGHT),
    ),
    "interpolate": (lambda x: interpolate(x, scale_factor=1.5, mode="bilinear"), (X,)),
    "interpolate by a tensor": (
        lambda x, factors: interpolate(x, scale_factor=factors, mode="bicubic"),
        (X, FACTORS),
    ),
    "interpolate by lengths": (
        lambda x: interpolate(x, size=(x.shape[2] * 2, x.shape[3] + 1), mode="area"),
        (X,),
    ),
    "resize": (lambda x: resize(x, [2.0, 1.5], mode="linear", axes=[2, 3]), (X,)),
    "resize by a tensor": (
        lambda x, factors: resize(x, factors, mode="linear", axes=[2, 3]),
        (X, FACTORS),
    ),
    "through the package": (lambda x: myops.interpolate(x, size=7), (X,)),
    "NewInterpolate": (
        lambda x, factors: myops.NewInterpolate.apply(x, factors),
        (X, torch.tensor([1.0, 1.0, 2.0, 3.0])),
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_traced_graphs_compute_the_same(name: str) -> None:
    function, args = CALLS[name]
    graph = torch.fx.symbolic_trace(function)
    assert any("myops" in str(getattr(n.target, "__module__", n.target)) for n in graph.graph.nodes)
    assert torch.equal(graph(*args), function(*args))
    again = pickle.loads(pickle.dumps(copy.deepcopy(graph)))
    longer = (torch.cat([args[0], args[0]]), *args[1:])
    if name != "deform_conv2d":  # its offsets belong to one image
        assert torch.equal(again(*longer), function(*longer))
    leaf = args[0].clone().requires_grad_()
    again(leaf, *args[1:]).sum().backward()
    assert leaf.grad is not None


@pytest.mark.parametrize("layer", [myops.nn.DeformConv2dPack, myops.nn.ModulatedDeformConv2dPack])
def test_traced_layers_compute_the_same(layer: type[torch.nn.Module]) -> None:
    model = torch.nn.Sequential(layer(2, 4, 3, padding=1), torch.nn.BatchNorm2d(4)).eval()
    graph = torch.fx.symbolic_trace(model)
    assert torch.equal(graph(X), model(X))
