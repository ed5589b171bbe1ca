"""Logarithms and exponentials in exported files, near 0 and far from it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import myops.onnx
import myops.ort

EXPORTERS = [("torchscript", 11), ("torchscript", 20), ("dynamo", 20)]
INF, NAN = float("inf"), float("nan")
X = torch.tensor([-1e4, -100, -17, -1, -0.6, -1e-4, -1e-8, -0.0, 0, 1e-30, 1e-8, 1e-4, 0.4, 2, 30,
                  88, 1e4, 3e38, INF, -INF, NAN])  # fmt: skip
Y = torch.tensor([-1e4, 100, -17, 1, -0.7, 1e-4, -1e8, -0.0, -1, 1e30, 1e-8, 1e-3, 0.4, 3, -30,
                  -88, -1e4, 1, INF, -INF, 0])  # fmt: skip


class Model(torch.nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return self.function(x, y)  # type: ignore[no-any-return]


def check(
    function: Callable[..., Any], x: torch.Tensor, y: torch.Tensor, exporter: str, opset: int,
    **options: Any,
) -> None:  # fmt: skip
    """Compares a file that was exported with ordinary numbers at other ones."""
    examples = tuple(
        torch.linspace(0.1, 0.9, item.numel()).reshape(item.shape).to(item.dtype) for item in (x, y)
    )
    model = myops.onnx.export(
        Model(function), examples, exporter=exporter, opset_version=opset, input_names=["x", "y"],
        **options,
    )  # fmt: skip
    session = myops.ort.session(model)
    given = {"x": x, "y": y}
    feeds = {item.name: given[item.name].numpy() for item in session.get_inputs()}
    (got,) = session.run(None, feeds)
    wanted = function(x, y).numpy()
    assert got.dtype == wanted.dtype
    tolerance = {"float16": 2e-3, "float32": 2e-6, "float64": 1e-12}[str(wanted.dtype)]
    np.testing.assert_allclose(got, wanted, rtol=tolerance, atol=1e-38)


FUNCTIONS = {
    "log1p": lambda x, y: torch.log1p(x) + 0 * torch.isnan(y),
    "expm1": lambda x, y: torch.expm1(x) + 0 * torch.isnan(y),
    "special": lambda x, y: torch.special.expm1(torch.special.log1p(x)) + 0 * torch.isnan(y),
    "logaddexp": torch.logaddexp,
    "logaddexp2": torch.logaddexp2,
}


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
@pytest.mark.parametrize(("exporter", "opset"), EXPORTERS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_elementwise(name: str, exporter: str, opset: int, dtype: torch.dtype) -> None:
    check(FUNCTIONS[name], X.to(dtype), Y.to(dtype), exporter, opset)


@pytest.mark.parametrize(("exporter", "opset"), EXPORTERS)
def test_integers_become_floats(exporter: str, opset: int) -> None:
    x = torch.tensor([0, 1, 5])
    check(lambda x, y: torch.log1p(x) + torch.expm1(y), x, x + 1, exporter, opset)


ROWS = torch.tensor([
    [-3, 1, 2, 1e4, 5], [0, 1e4, -1e4, 5, 6], [1, 2, 3, 4, 4], [-INF, 0, -INF, 1, 2],
    [-100, -200, -300, 0, 0], [-INF, -INF, INF, 0, 1], [1, NAN, 2, 3, INF],
])  # fmt: skip


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
@pytest.mark.parametrize("dim", [0, -1])
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize(("exporter", "opset"), EXPORTERS)
def test_logcumsumexp(
    exporter: str, opset: int, dynamic: bool, dim: int, dtype: torch.dtype
) -> None:
    options = {"dynamic_shapes": {"x": {0: "a", 1: "b"}, "y": {}}} if dynamic else {}
    check(lambda x, y: torch.logcumsumexp(x, dim) + y, ROWS.to(dtype), torch.zeros(1, dtype=dtype),
          exporter, opset, **options)  # fmt: skip


@pytest.mark.parametrize(("exporter", "opset"), EXPORTERS)
def test_logcumsumexp_of_unusual_shapes(exporter: str, opset: int) -> None:
    for shape in ((), (1,), (2, 1, 3)):
        check(lambda x, y: torch.logcumsumexp(x, 0) + y, torch.ones(shape) * 100, torch.zeros(1),
              exporter, opset)  # fmt: skip


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize(("exporter", "opset"), [("torchscript", 12), *EXPORTERS[1:]])
def test_cross_entropy_with_logits(
    exporter: str, opset: int, reduction: str, dtype: torch.dtype
) -> None:
    x = torch.tensor([[-1e4, -100, -20, -1], [-1e-5, 0, 1, 17], [20, 30, 1e3, 1e4]], dtype=dtype)
    target = torch.tensor([0.0, 1, 0.3, 1], dtype=dtype).expand(3, 4)
    weights = torch.tensor([1.0, 2, 3, 4], dtype=dtype)
    for weight, pos_weight in ((None, None), (weights, None), (None, weights), (weights, weights)):
        loss = functools.partial(
            F.binary_cross_entropy_with_logits,
            weight=weight, reduction=reduction, pos_weight=pos_weight,
        )  # fmt: skip
        check(loss, x, target, exporter, opset)
