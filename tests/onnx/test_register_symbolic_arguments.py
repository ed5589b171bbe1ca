"""register_symbolic: the arguments of a registered function, and the nodes that it may write."""

from __future__ import annotations

import functools
from typing import Any
from unittest import mock

import numpy as np
import onnx
import pytest
import torch
from guard_models import Model
from register_models import (
    Tiles,
    assert_equal,
    extremes,
    joined,
    only_here,
    swish,
    tiles,
    write_swish,
)

import myops.ort
from myops.onnx import export
from myops.onnx import register_symbolic as register_it

EXPORTERS = ["dynamo", "torchscript"]
__all__ = ["only_here"]  # a fixture for every test
X = torch.linspace(0.1, 4, 12).reshape(3, 4)


@pytest.mark.parametrize("exporter", EXPORTERS)
def test_a_custom_operator_is_written_in_standard_operators(exporter: str) -> None:
    register_it("myops_register_test::swish", write_swish)
    functions = [lambda x: swish(x, 2.5), lambda x: swish(x), lambda x: swish(x, beta=0.5)]
    for function in functions[: 3 if exporter == "torchscript" else 1]:
        model = export(Model(function), X, exporter=exporter, dynamic_axes={"x": {0: "rows"}})
        assert_equal(model, Model(function), torch.randn(5, 4))


@pytest.mark.parametrize("exporter", EXPORTERS)
def test_a_custom_operator_is_written_as_a_custom_node(exporter: str) -> None:
    """First as myops::MyAdd, because ONNX Runtime can run that."""
    register_it("myops_register_test::swish", lambda g, x, beta: g.op("myops::MyAdd", x, x))
    model = export(Model(lambda x: swish(x)), X, exporter=exporter, skip_checks=["numbers"])
    assert [(n.domain, n.op_type) for n in model.graph.node] == [("myops", "MyAdd")]
    got = myops.ort.session(model).run(None, {"x": X.numpy()})[0]
    np.testing.assert_array_equal(got, 3 * X.numpy())

    def with_attributes(g: Any, x: Any, beta: float) -> Any:
        return g.op(
            "acme::Swish", x, "", g.constant(np.float32([1])), beta=beta, axes=[0, 1], mode="fast",
            table=np.float32([[1, 2]]), steps=[0.5, 1], left_out=None, on=True,
        )  # fmt: skip

    register_it("myops_register_test::swish", with_attributes)
    model = export(Model(lambda x: swish(x, 2.0)), X, exporter=exporter, skip_checks=["numbers"])
    (node,) = [node for node in model.graph.node if node.domain == "acme"]
    assert list(node.input)[:2] == ["x", ""]
    values = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
    np.testing.assert_array_equal(onnx.numpy_helper.to_array(values.pop("table")), [[1, 2]])
    assert values == {"beta": 2.0, "axes": [0, 1], "mode": b"fast", "steps": [0.5, 1.0], "on": 1}
    assert {i.domain: i.version for i in model.opset_import}["acme"] == 1


@pytest.mark.parametrize("exporter", EXPORTERS)
def test_lengths_behind_a_custom_node_stay_dynamic(exporter: str) -> None:
    """A trace knows the example's lengths, and the exporter would build them in behind the node.
    Those that no input changes it may use: torch wants them for its pooling."""
    register_it("myops_register_test::swish", lambda g, x, beta: g.op("myops::MyAdd", x, x))

    def pooled(x: torch.Tensor) -> torch.Tensor:
        y = swish(x)
        return torch.nn.functional.adaptive_avg_pool2d(y, (2, 3)).reshape(y.shape[0], -1)

    def flat(x: torch.Tensor) -> torch.Tensor:
        n, c, h, w = (y := swish(x)).shape
        return y.reshape(n, c * h * w)

    x = torch.rand(5, 3, 4, 6)
    for function, axes in ((pooled, {0: "images"}), (flat, {0: "images", 2: "rows"})):
        model = export(
            Model(function), x[:2], exporter=exporter, dynamic_axes={"x": axes},
            skip_checks=["numbers"],
        )  # fmt: skip
        other = x if function is pooled else torch.rand(5, 3, 7, 6)
        got = myops.ort.session(model).run(None, {"x": other.numpy()})[0]
        with mock.patch(f"{__name__}.swish", lambda x: 3 * x):
            wanted = function(other).numpy()
        np.testing.assert_allclose(got, wanted, rtol=1e-5)


def both_extremes(keep: bool, x: torch.Tensor) -> Any:
    return extremes(x, [0, 2], keepdim=keep)


@pytest.mark.parametrize("exporter", EXPORTERS)
def test_several_outputs_lists_and_keyword_arguments(exporter: str) -> None:
    seen = []

    def write(g: Any, x: Any, dims: list[int], **options: Any) -> Any:
        seen.append((dims, options, g.shape(x), g.dtype(x)))
        keep = int(options["keepdim"])
        if g.opset < 18:
            return [g.op(name, x, axes=dims, keepdims=keep) for name in ("ReduceMin", "ReduceMax")]
        axes = g.list(dims)
        return [g.op(name, x, axes, keepdims=keep) for name in ("ReduceMin", "ReduceMax")]

    register_it("myops_register_test::extremes", write)
    for opset in (20, 13) if exporter == "torchscript" else (20,):
        for keep in (False, True) if exporter == "torchscript" else (True,):
            module = Model(functools.partial(both_extremes, keep))
            model = export(module, torch.rand(2, 3, 4), exporter=exporter, opset_version=opset)
            assert len(model.graph.output) == 2
            assert_equal(model, module, torch.rand(2, 3, 4))
    dims, options, shape, dtype = seen[0]
    assert list(dims) == [0, 2]
    assert options == {"keepdim": exporter == "dynamo", "note": None}
    assert list(shape) == [2, 3, 4]
    assert dtype == np.float32


@pytest.mark.parametrize("exporter", EXPORTERS)
def test_a_node_with_several_outputs(exporter: str) -> None:
    def write(g: Any, x: Any, dims: list[int], keepdim: bool = False) -> Any:
        (axis,) = dims
        count = g.constant(np.int64([g.shape(x)[axis]]))
        values, _ = g.op("TopK", x, count, outputs=2, axis=axis, largest=0)
        first, last = g.constant(np.int64(0)), g.constant(np.int64(-1))
        return g.op("Gather", values, first, axis=axis), g.op("Gather", values, last, axis=axis)

    register_it("myops_register_test::extremes", write)
    module = Model(lambda x: extremes(x, [1]))
    assert_equal(export(module, X, exporter=exporter), module, torch.randn(3, 4))


@pytest.mark.parametrize("exporter", EXPORTERS)
def test_lists_of_lengths_become_tensors(exporter: str) -> None:
    def write(g: Any, x: Any, sizes: Any, shift: Any) -> Any:
        return g.op("Tile", x if shift is None else g.op("Add", x, shift), g.list(sizes))

    register_it("myops_register_test::tiles", write)
    module: Any = Tiles() if exporter == "dynamo" else torch.jit.script(Tiles())
    model = export(module, X, exporter=exporter, dynamic_axes={"x": {0: "rows"}})
    assert_equal(model, module, torch.randn(2, 4))
    if exporter == "torchscript":
        module = Model(lambda x: tiles(x, [1, 3]))
        assert_equal(export(module, X, exporter=exporter), module, torch.randn(3, 4))


@pytest.mark.parametrize("exporter", EXPORTERS)
def test_lists_of_tensors_and_dtypes_are_passed(exporter: str) -> None:
    def write(g: Any, items: Any, dtype: int) -> Any:
        return g.op("Cast", g.op("Concat", *items, axis=0), to=dtype)

    register_it("myops_register_test::joined", write)
    module = Model(lambda a, b: joined([a, b, a], torch.float64))
    model = export(module, (X, X + 1), exporter=exporter)
    assert_equal(model, module, X, X * 2)
