"""Special values: zeros, ones, large and tiny numbers show a small constant that is missing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from guard_models import Model, assert_fails

import myops
from myops.onnx import export
from myops.onnx.exporting import exact_optimizer
from myops.onnx.guards import special_values

EXPORTERS = ["dynamo", "torchscript"]

pytestmark = pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")


def guarded(x: torch.Tensor) -> torch.Tensor:
    return x / (x + 1e-9)


@pytest.mark.parametrize("exporter", EXPORTERS)
def test_a_small_constant_is_kept(exporter: str, no_warnings: None) -> None:
    model = export(Model(guarded), torch.rand(3, 4), exporter=exporter)
    assert "Add" in [node.op_type for node in model.graph.node]
    (got,) = myops.ort.session(model).run(None, {"x": np.zeros((3, 4), np.float32)})
    np.testing.assert_array_equal(got, 0)


def test_a_small_constant_that_is_dropped_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """As with an onnxscript whose optimizer cannot be made exact."""
    monkeypatch.delattr("onnxscript.rewriter._matcher.math")
    monkeypatch.setattr("onnxscript.rewriter._matcher.math", __import__("math"), raising=False)
    monkeypatch.setattr(exact_optimizer, "_Exact", lambda: __import__("math"))
    text = "with x all zeros output .* nan at .* a small constant was left out"
    assert_fails("numbers", text, Model(guarded), torch.rand(3, 4))


@pytest.mark.parametrize(
    "forward",
    [
        lambda x: x / x.norm(),  # NaN at zeros, in both
        lambda x: x.topk(2).indices,  # ties at zeros and ones
        lambda x: x.softmax(-1).argmax(-1),
        lambda x: (x - x.mean()) / x.std(),  # 0 / 0, and cancellation where numbers are large
        lambda x: torch.log(x),
        lambda x: x.exp(),
        lambda x: torch.round(x * 3),
    ],
)
def test_unstable_results_at_special_values_are_no_fault(forward: Any, no_warnings: None) -> None:
    export(Model(forward), torch.rand(2, 3, 8) + 0.1, exporter="torchscript")


def test_a_scale_factor_is_not_tried_with_large_values(monkeypatch: pytest.MonkeyPatch) -> None:
    """A large factor would need all memory of the machine."""
    seen = []

    def forward(x: torch.Tensor, factor: torch.Tensor) -> torch.Tensor:
        seen.append(float(factor.max()))
        return myops.interpolate(x, scale_factor=factor)

    export(Model(forward), (torch.rand(1, 1, 4, 6), torch.tensor([2.0, 2.0])),
           exporter="torchscript")  # fmt: skip
    assert max(seen) < 10


def test_sums_in_another_order_are_no_fault(no_warnings: None) -> None:
    assert special_values.SECONDS > 0
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.LayerNorm(64), torch.nn.GELU())
    export(model, torch.rand(2, 8, 64), exporter="torchscript")
