"""torch.nn.functional.cross_entropy with smoothing, probabilities, weights and ignored targets."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import myops.onnx
import myops.ort

pytestmark = pytest.mark.usefixtures("no_warnings")

WEIGHTS = torch.tensor([1.0, 0.5, 2, 0.1, 3])
EXPORTERS = [("torchscript", 13), ("torchscript", 20), ("dynamo", 20)]


class Loss(torch.nn.Module):
    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.options = options

    def forward(self, x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(x, target, **self.options)


def inputs(shape: tuple[int, ...], probabilities: bool, dtype: torch.dtype) -> tuple[Any, Any]:
    generator = torch.Generator().manual_seed(sum(shape))
    x = 3 * torch.randn(shape, generator=generator)
    if probabilities:
        target = torch.rand(shape, generator=generator).softmax(min(1, len(shape) - 1)).to(dtype)
    else:
        lengths = shape[:1] + shape[2:] if len(shape) > 1 else ()
        target = torch.randint(0, 5, lengths, generator=generator)
        if target.dim():
            target.view(-1)[1] = 3  # ignored
    return x.to(dtype), target


def check(
    exporter: str, opset: int, first: tuple[int, ...], second: tuple[int, ...],
    probabilities: bool = False, dtype: torch.dtype = torch.float32, **options: Any,
) -> None:  # fmt: skip
    """Compares at the shape of the example and, with other lengths, at another one."""
    model = Loss(**options)
    if "weight" in options:
        options["weight"] = model.options["weight"] = options["weight"].to(dtype)
    example = inputs(first, probabilities, dtype)
    if not probabilities and dtype == torch.float32:
        model.options["ignore_index"] = 3
    axes = {} if first == second else {"x": {0: "n"}, "target": {0: "n"}}
    made = myops.onnx.export(
        model, example, exporter=exporter, opset_version=opset, dynamic_axes=axes
    )
    session = myops.ort.session(made)
    for shape in (first, second):
        x, target = inputs(shape, probabilities, dtype)
        (got,) = session.run(None, {"x": x.numpy(), "target": target.numpy()})
        wanted = model(x, target).numpy()
        assert (got.dtype, got.shape) == (wanted.dtype, wanted.shape)
        np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("exporter", "opset"), EXPORTERS)
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("options", [{}, {"weight": WEIGHTS}])
def test_smoothing_and_probabilities(
    exporter: str, opset: int, reduction: str, options: Any
) -> None:
    for first, second in (((3, 5), (7, 5)), ((2, 5, 3, 4), (1, 5, 3, 4)), ((5,), (5,))):
        smooth = {"label_smoothing": 0.2, **options}
        check(exporter, opset, first, second, reduction=reduction, **smooth)
        for more in (options, smooth):
            check(exporter, opset, first, second, True, reduction=reduction, **more)


@pytest.mark.parametrize(("exporter", "opset"), EXPORTERS[1:])
@pytest.mark.parametrize("probabilities", [False, True])
def test_float64(exporter: str, opset: int, probabilities: bool) -> None:
    for options in ({}, {"weight": WEIGHTS}):
        check(exporter, opset, (3, 5), (3, 5), probabilities, torch.float64,
              label_smoothing=0.1, **options)  # fmt: skip


@pytest.mark.parametrize(("exporter", "opset"), EXPORTERS)
def test_classes_stay_one_node(exporter: str, opset: int) -> None:
    x, target = inputs((3, 5), False, torch.float32)
    made = myops.onnx.export(Loss(), (x, target), exporter=exporter, opset_version=opset)
    assert [node.op_type for node in made.graph.node] == ["SoftmaxCrossEntropyLoss"]
    check(exporter, opset, (5,), (5,))


def test_before_opset_13_smoothing_is_refused() -> None:
    example = inputs((3, 5), False, torch.float32)
    options: Any = {"exporter": "torchscript", "opset_version": 12}
    assert myops.onnx.export(Loss(), example, **options).graph.node
    with pytest.raises(ValueError, match=r"smoothing.* are written from opset 13 on"):
        myops.onnx.export(Loss(label_smoothing=0.1), example, **options)
