"""Operators and helpers for the tests of register_symbolic."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from node_models import run_plain

from myops.onnx.symbolics import registered_dynamo, registered_torchscript, registry


@pytest.fixture(autouse=True)
def only_here() -> Iterator[None]:
    """Removes what a test registered for torch's own operators, after the test."""
    before = set(registry.names())
    yield
    from torch.onnx._internal.exporter._torchlib import _torchlib_registry

    for name in set(registry.names()) - before:
        del registry.registered[name]
        del registered_torchscript._originals[name]
        for opset in registered_torchscript._OPSETS:
            torch.onnx.unregister_custom_op_symbolic(name.partition(".")[0], opset)
        if not name.startswith("aten::"):
            del registered_torchscript._registry()._registry[name]
        gone = {item for item in registered_dynamo._installed if item[0] == name}
        registered_dynamo._installed -= gone
        overloads = {overload for _, overload, _ in gone}
        _torchlib_registry._registry[:] = [
            meta for meta in _torchlib_registry._registry
            if not (meta.is_custom and meta.fx_target in overloads)
        ]  # fmt: skip


def assert_equal(model: onnx.ModelProto, module: torch.nn.Module, *args: torch.Tensor) -> None:
    """Asserts that the file and the module agree at `args`, not only at the example."""
    wanted = module(*args)
    wanted = wanted if isinstance(wanted, tuple) else (wanted,)
    names = [item.name for item in model.graph.input]
    got = run_plain(model, dict(zip(names, (item.numpy() for item in args), strict=True)))
    for one, other in zip(got, wanted, strict=True):
        assert one.shape == tuple(other.shape)
        np.testing.assert_allclose(one, other.numpy(), rtol=1e-5, atol=1e-6)


_library = torch.library.Library("myops_register_test", "DEF")


def define(schema: str, function: Callable[..., Any], fake: Callable[..., Any]) -> Any:
    name = schema.partition("(")[0]
    _library.define(schema)
    _library.impl(name, function, "CompositeExplicitAutograd")
    torch.library.register_fake(f"myops_register_test::{name}", fake)
    return getattr(torch.ops.myops_register_test, name)


swish = define(
    "swish(Tensor x, float beta=1.0) -> Tensor",
    lambda x, beta=1.0: x * torch.sigmoid(beta * x),
    lambda x, beta=1.0: torch.empty_like(x),
)
extremes = define(
    "extremes(Tensor x, int[] dims, *, bool keepdim=False, str? note=None) -> (Tensor, Tensor)",
    lambda x, dims, keepdim=False, note=None: (
        x.amin(dims, keepdim=keepdim),
        x.amax(dims, keepdim=keepdim),
    ),
    lambda x, dims, keepdim=False, note=None: (
        torch.empty_like(x.amin(dims, keepdim=keepdim)),
        torch.empty_like(x.amax(dims, keepdim=keepdim)),
    ),
)
tiles = define(
    "tiles(Tensor x, SymInt[] sizes, Tensor? shift=None) -> Tensor",
    lambda x, sizes, shift=None: (x if shift is None else x + shift).repeat(sizes),
    lambda x, sizes, shift=None: x.repeat(sizes),
)
joined = define(
    "joined(Tensor[] items, ScalarType dtype) -> Tensor",
    lambda items, dtype: torch.cat(items).to(dtype),
    lambda items, dtype: torch.cat(items).to(dtype),
)


class Tiles(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.ops.myops_register_test.tiles(x, [2, x.size(0)], x[:1])


def write_swish(g: Any, x: Any, beta: float) -> Any:
    scaled = x if beta == 1 else g.op("Mul", x, g.constant(np.array(beta, g.dtype(x))))
    return g.op("Mul", x, g.op("Sigmoid", scaled))
