"""Adaptive pooling of lengths that change, in both exporters, against PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import myops
import myops.onnx
import myops.ort
from myops.onnx.exporting.recorded import Condition
from myops.onnx.symbolics import registry
from myops.onnx.symbolics.register import unregister

EXPORTERS = ("dynamo", "torchscript")
POOL: dict[int, Any] = {
    1: F.adaptive_avg_pool1d, 2: F.adaptive_avg_pool2d, 3: F.adaptive_avg_pool3d,
}  # fmt: skip
pytestmark = pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")


class Pooled(torch.nn.Module):
    """`out`: as for torch's pools; a string is an expression of the lengths n of the input."""

    def __init__(self, count: int, out: Any) -> None:
        super().__init__()
        self.count, self.out = count, out

    def forward(self, x: Tensor) -> Tensor:
        n = x.shape[-self.count :]
        out = eval(self.out, {"n": n}) if isinstance(self.out, str) else self.out
        return POOL[self.count](x * 1.5, out)


def exported(model: Any, x: Tensor, count: int, exporter: str, **options: Any) -> Any:
    axes = {"x": {x.dim() - count + i: "dhw"[i] for i in range(count)}}
    return myops.onnx.export(
        model, (x,), input_names=["x"], dynamic_axes=axes, exporter=exporter, **options
    )


def check(model: Any, file: Any, shape: tuple[int, ...], dtype: Any = torch.float32) -> None:
    x = torch.rand(shape, dtype=dtype)
    (got,) = myops.ort.session(file).run(None, {"x": x.numpy()})
    np.testing.assert_allclose(got, model(x).numpy(), rtol=2e-3 if dtype == torch.half else 2e-6)


@pytest.mark.parametrize("exporter", EXPORTERS)
@pytest.mark.parametrize(
    ("count", "out"),
    [
        (1, 5),
        (2, (3, 2)),
        (2, 1),
        (2, (None, 4)),
        (2, "(n[0] // 2, 3)"),
        (2, (1, 6)),
        (3, (2, 3, 1)),
    ],
)
def test_average_pooling_is_right_at_every_length(count: int, out: Any, exporter: str) -> None:
    """Input lengths above and below the output lengths, multiples of them and others."""
    model, example = Pooled(count, out), (9, 10, 8)[:count]
    file = exported(model, torch.rand(2, 3, *example), count, exporter)
    random = np.random.default_rng()
    for _ in range(6):
        lengths = [int(n) for n in random.integers(2, 24, count)]
        check(model, file, (2, 3, *lengths))
    check(model, file, (2, 3, *[12] * count))


@pytest.mark.parametrize("opset", [11, 13, 17])
def test_average_pooling_at_every_opset_without_a_batch_axis(opset: int) -> None:
    model = Pooled(2, (3, 5))
    file = exported(model, torch.rand(3, 8, 7), 2, "torchscript", opset_version=opset)
    for shape in ((3, 8, 7), (3, 2, 31), (3, 15, 4)):
        check(model, file, shape)


@pytest.mark.parametrize("dtype", [torch.half, torch.double])
@pytest.mark.parametrize("exporter", EXPORTERS)
def test_average_pooling_in_float16_and_float64(exporter: str, dtype: torch.dtype) -> None:
    model = Pooled(2, (3, 2))
    file = exported(model, torch.rand(1, 2, 7, 9, dtype=dtype), 2, exporter)
    check(model, file, (1, 2, 10, 5), dtype)


@pytest.mark.parametrize("exporter", EXPORTERS)
def test_average_pooling_keeps_inf_and_nan_in_their_windows(exporter: str) -> None:
    model = Pooled(2, (2, 2))
    file = exported(model, torch.rand(1, 1, 5, 5), 2, exporter)
    x = torch.rand(1, 1, 7, 5)
    x[0, 0, 0, 0], x[0, 0, 6, 4] = torch.inf, torch.nan
    (got,) = myops.ort.session(file).run(None, {"x": x.numpy()})
    np.testing.assert_allclose(got, model(x).numpy(), rtol=1e-6)


@pytest.mark.parametrize("exporter", EXPORTERS)
def test_average_pooling_with_equal_windows_is_one_node(exporter: str) -> None:
    """With constant lengths, and for one number for each channel, runtimes have kernels."""
    for out, kind in (((3, 2), "AveragePool"), (1, "GlobalAveragePool|ReduceMean")):
        file = myops.onnx.export(
            Pooled(2, out), (torch.rand(1, 2, 9, 4),), input_names=["x"], exporter=exporter
        )
        types = [node.op_type for node in file.graph.node if node.op_type != "Mul"]
        assert [name for name in types if name in kind.split("|")], types
        assert not {"Range", "Gather"}.intersection(types)


class Largest(torch.nn.Module):
    """With indices and without."""

    def __init__(self, count: int, out: Any, places: bool) -> None:
        super().__init__()
        self.pool = getattr(F, f"adaptive_max_pool{count}d")
        self.out, self.places = out, places

    def forward(self, x: Tensor) -> Any:
        values, places = self.pool(x * 1.5, self.out, return_indices=True)
        return (values, places) if self.places else values


@pytest.mark.parametrize(
    ("exporter", "count", "out", "places"),
    [
        ("torchscript", 1, 5, True),
        ("torchscript", 2, (3, 2), True),
        ("torchscript", 2, 1, True),
        ("torchscript", 3, (2, 3, 1), True),
        ("dynamo", 2, (3, 2), True),
        ("dynamo", 2, 1, False),
    ],
)
def test_max_pooling_gives_values_and_indices(
    exporter: str, count: int, out: Any, places: bool
) -> None:
    model, example = Largest(count, out, places), (9, 10, 8)[:count]
    file = exported(model, torch.rand(2, 3, *example), count, exporter)
    if out == 1:
        assert len(file.graph.node) < 10  # GlobalMaxPool, no windows
    random = np.random.default_rng()
    for lengths in [random.integers(2, 24, count) for _ in range(4)] + [[12] * count]:
        x = torch.randn(2, 3, *map(int, lengths))
        x[0, 0].flatten()[:2] = -torch.inf
        wanted = model(x) if places else (model(x),)
        for a, b in zip(wanted, myops.ort.session(file).run(None, {"x": x.numpy()}), strict=True):
            np.testing.assert_array_equal(b, a.numpy())


@pytest.mark.parametrize("shape", [(2, 3, 9, 8), (3, 9, 8)])
@pytest.mark.parametrize("opset", [12, 20])
def test_max_pooling_of_constant_lengths_is_one_node(shape: tuple[int, ...], opset: int) -> None:
    model = Largest(2, (3, 4), True)
    file = myops.onnx.export(
        model, (torch.rand(shape),), exporter="torchscript", opset_version=opset
    )
    types = {node.op_type for node in file.graph.node}
    assert ("MaxPool" in types) == (len(shape) == 4)


def test_a_symbolic_of_the_user_replaces_the_translation() -> None:
    name, before = "aten::adaptive_avg_pool2d", registry.names()
    myops.onnx.register_symbolic(name, lambda g, x, out: g.op("GlobalMaxPool", x))
    try:
        file = exported(
            Pooled(2, 1), torch.rand(1, 1, 4, 4), 2, "torchscript", skip_checks=("numbers",)
        )
    finally:
        unregister(name)
    assert "GlobalMaxPool" in {node.op_type for node in file.graph.node}
    assert registry.names() == before


def test_interpolate_with_mode_area_at_other_lengths() -> None:
    """torch's interpolate with mode "area" is adaptive pooling."""

    class Area(torch.nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return F.interpolate(x, size=(5, 6), mode="area")

    for exporter in EXPORTERS:
        file = exported(Area(), torch.rand(1, 2, 12, 13), 2, exporter)
        check(Area(), file, (1, 2, 17, 9))


@pytest.mark.parametrize("exporter", EXPORTERS)
def test_myops_interpolate_with_mode_area_is_one_node(exporter: str) -> None:
    """It also runs by its function body, in an ONNX Runtime without our library."""

    class Area(torch.nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return myops.interpolate(x, size=(5, 6), mode="area")

    file = exported(Area(), torch.rand(1, 2, 12, 13), 2, exporter)
    nodes = [(node.domain, node.op_type) for node in file.graph.node]
    assert [node for node in nodes if node[1] != "Constant"] == [("myops", "Resize")]
    check(Area(), file, (1, 2, 17, 9))
    x = torch.rand(1, 2, 4, 15)
    plain = onnxruntime.InferenceSession(file.SerializeToString())
    (result,) = plain.run(None, {"x": x.numpy()})
    torch.testing.assert_close(torch.from_numpy(result), F.adaptive_avg_pool2d(x, (5, 6)))


def test_a_condition_that_divides_by_zero_is_unknown() -> None:
    import sympy
    from torch.utils._sympy.functions import FloorDiv, Mod

    h, w = sympy.symbols("h w", integer=True, positive=True)
    condition = Condition(None, sympy.Eq(Mod(h, FloorDiv(w, 3)), 0), None)
    assert condition.holds({h: 8, w: 6}) is True
    assert condition.holds({h: 9, w: 6}) is False
    assert condition.holds({h: 8, w: 2}) is None
