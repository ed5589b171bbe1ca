"""`a // b` in both exporters: rounded down, as PyTorch and Python do, in the dtype of PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from guard_models import Model

import myops.onnx
import myops.ort
from myops.onnx.symbolics import registry

EXPORTERS = ("dynamo", "torchscript")
pytestmark = pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")

INTEGERS = torch.arange(-24, 24).reshape(2, 4, 6)
# 1.0 / 0.1 rounds to 10, and 1.0 // 0.1 is 9.
FLOATS = torch.tensor([1.0, 0.3, -1.0, 0.9, -0.3, 6.0, 0.0, -7.0, 1e6, -0.05]).reshape(2, 5)


def quotients(x: torch.Tensor) -> list[torch.Tensor]:
    y = x.flip(0) * 2 + 1  # never 0 where x is an integer
    return [x // 4, x // 0.1, x // y, 30 // y, x // -5, x // -0.3]


def lengths(x: torch.Tensor) -> list[torch.Tensor]:
    """Padded to a multiple, half of it rounded up and down."""
    n, m = x.shape[0], x.shape[1]
    up = -(-n // 4)
    return [x.new_zeros(up * 4 - n, -((5 - m) // 3) + 9), torch.arange((n - 50) // 3 + 30)]


def run(model: Any, x: torch.Tensor, exporter: str, **options: Any) -> Callable[..., Any]:
    file = myops.onnx.export(
        model, (x,), exporter=exporter, dynamic_axes={"x": {0: "n", 1: "m"}}, **options
    )
    return lambda x: myops.ort.session(file).run(None, {"x": x.numpy()})


@pytest.mark.parametrize("exporter", EXPORTERS)
@pytest.mark.parametrize("kind", ["int64", "int32", "int8", "uint8", "float32"])
def test_floor_division_of_every_sign(kind: str, exporter: str) -> None:
    dtype = getattr(torch, kind)
    x = FLOATS.to(dtype) if dtype.is_floating_point else INTEGERS.to(dtype)
    count = 6
    if kind == "uint8":
        x, count = x.clamp(min=0) + 200, 3  # no negative numbers, which wrap around

    def forward(x: torch.Tensor) -> list[torch.Tensor]:
        return quotients(x)[:count]

    got = run(Model(forward), x.clamp(min=1), exporter)(x)
    for wanted, result in zip(forward(x), got, strict=True):
        assert result.dtype == wanted.numpy().dtype
        np.testing.assert_array_equal(result, wanted.numpy())


@pytest.mark.parametrize("exporter", EXPORTERS)
@pytest.mark.parametrize("kind", ["int64", "int32", "float32", "float64"])
def test_remainders_of_every_sign(kind: str, exporter: str) -> None:
    dtype = getattr(torch, kind)
    x = FLOATS.to(dtype) if dtype.is_floating_point else INTEGERS.to(dtype)

    def forward(x: torch.Tensor) -> list[torch.Tensor]:
        y = x.flip(0) * 2 + 1
        return [x % 4, x % 0.1, x % -5, x % -0.3, x % y, torch.remainder(30, y)]

    got = run(Model(forward), x.clamp(min=1), exporter)(x)
    for wanted, result in zip(forward(x), got, strict=True):
        assert result.dtype == wanted.numpy().dtype
        np.testing.assert_array_equal(result, wanted.numpy())


@pytest.mark.parametrize("exporter", EXPORTERS)
@pytest.mark.parametrize(
    "function",
    [lambda x: x // 0.3, lambda x: x % x, lambda x: torch.nn.functional.logsigmoid(x)],
    ids=["floor", "remainder", "logsigmoid"],
)
def test_bfloat16_is_computed_as_floats_are(
    function: Callable[[torch.Tensor], torch.Tensor], exporter: str
) -> None:
    """ONNX Runtime has no kernels for it; the model must be valid."""
    model = myops.onnx.export(
        Model(function), (torch.randn(2, 3).bfloat16(),), exporter=exporter,
        skip_checks=["frozen_input", "numbers"],
    )  # fmt: skip
    onnx.checker.check_model(model, full_check=True)
    whole = [node for node in model.graph.node if node.op_type == "Mod" and not node.attribute]
    assert not whole


@pytest.mark.parametrize("exporter", EXPORTERS)
def test_floor_division_by_zero(exporter: str) -> None:
    def forward(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x // y

    x = torch.tensor([1.0, -1.0, 0.0, 5.0, np.inf, np.nan])
    y = torch.tensor([0.0, 0.0, 0.0, np.inf, 2.0, 1.0])
    file = myops.onnx.export(Model(forward), (x.abs() + 1, y + 1), exporter=exporter)
    (got,) = myops.ort.session(file).run(None, {"x": x.numpy(), "y": y.numpy()})
    np.testing.assert_array_equal(got, forward(x, y).numpy())


@pytest.mark.parametrize("exporter", EXPORTERS)
def test_negated_division_rounds_lengths_up(exporter: str) -> None:
    """-(-n // 4) is what the documentation says to write instead of math.ceil(n / 4)."""
    session = run(Model(lengths), torch.rand(7, 6), exporter)
    for n, m in ((8, 6), (9, 11), (5, 3), (30, 20)):
        x = torch.rand(n, m)
        for wanted, result in zip(lengths(x), session(x), strict=True):
            assert result.shape == wanted.shape
            np.testing.assert_array_equal(result, wanted.numpy())


@pytest.mark.parametrize("exporter", EXPORTERS)
def test_floor_division_of_lengths_is_one_node(exporter: str) -> None:
    def forward(x: torch.Tensor) -> torch.Tensor:
        return x[: (x.shape[0] * 2 + 1) // 4]

    file = myops.onnx.export(
        Model(forward), torch.rand(7, 6), exporter=exporter, dynamic_axes={"x": [0]}
    )
    kinds = [node.op_type for node in file.graph.node]
    assert kinds.count("Div") == 1
    assert "Mod" not in kinds


def test_a_symbolic_of_the_user_replaces_the_translation() -> None:
    x = torch.rand(4, 6) * 9
    myops.onnx.register_symbolic("aten::floor_divide", lambda g, a, b: g.op("Abs", a))
    try:
        file = myops.onnx.export(
            Model(lambda x: x // 2), x, exporter="torchscript", skip_checks="all"
        )
    finally:
        myops.onnx.symbolics.register.unregister("aten::floor_divide")
    assert "Abs" in [node.op_type for node in file.graph.node]
    assert "aten::floor_divide" not in registry.names()
