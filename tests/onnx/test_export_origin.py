"""Errors name the line of the model that an exporter cannot write, or writes wrongly."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch

from myops.onnx import ExportCheckError, export, register_symbolic
from myops.onnx.symbolics.register import unregister

EXPORTERS = ["dynamo", "torchscript"]
X = torch.rand(2, 6)
LABELS = torch.tensor([[3, 0, -1, 1, 0, 0]] * 2)


class Sines(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        y = y.sin()  # fails
        return y + 1


class Hypotenuses(torch.nn.Module):
    """torch.export decomposes it into operators without a translation."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x.relu()
        y = y.hypot(x)  # fails
        return y + 1


class Records(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x.relu()
        return y.cummax(1)[0] + 1  # fails


class Losses(torch.nn.Module):
    """The newer exporter writes something else; the older one refuses."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.multilabel_margin_loss(x, LABELS)  # fails


class Shifts(torch.nn.Module):
    """The newer exporter turns uint8 into int8."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x >> 1  # fails


def line_of(model: torch.nn.Module) -> str:
    lines, start = inspect.getsourcelines(type(model))
    (number,) = [n for n, text in enumerate(lines) if "# fails" in text]
    return f"{__file__}:{start + number}: {lines[number].strip()}"


@pytest.fixture
def sine() -> Iterator[Callable[[Any], None]]:
    """Registers a translation of sin for the test."""

    def register(function: Any) -> None:
        register_symbolic("aten::sin", function)

    yield register
    unregister("aten::sin")


@pytest.mark.parametrize("exporter", EXPORTERS)
@pytest.mark.parametrize(("model", "name"), [(Hypotenuses(), "hypot"), (Records(), "cummax")])
def test_an_unsupported_operator_names_its_line(model: Any, name: str, exporter: str) -> None:
    with pytest.raises(RuntimeError, match=f"how to write the operator aten::{name}") as caught:
        export(model, X, exporter=exporter)
    said = str(caught.value)
    assert f"Where: {line_of(model)}" in said
    assert f"register_symbolic('aten::{name}', function)" in said


@pytest.mark.parametrize("exporter", EXPORTERS)
def test_the_operator_name_in_the_error_can_be_registered(exporter: str) -> None:
    """Both exporters accept the name, also if torch.export uses another one."""

    def hypot(g: Any, x: Any, y: Any) -> Any:
        return g.op("Sqrt", g.op("Add", g.op("Mul", x, x), g.op("Mul", y, y)))

    register_symbolic("aten::hypot", hypot)
    try:
        assert export(Hypotenuses(), X, exporter=exporter).graph.node
    finally:
        unregister("aten::hypot")


@pytest.mark.parametrize("exporter", EXPORTERS)
def test_a_wrong_translation_names_node_and_line(exporter: str, sine: Any) -> None:
    sine(lambda g, x: g.op("Cos", x))
    with pytest.raises(ExportCheckError, match="starts at the node Cos") as caught:
        export(Sines(), X, exporter=exporter)
    assert line_of(Sines()) in str(caught.value)
    assert "register_symbolic(" in str(caught.value)


@pytest.mark.parametrize("exporter", EXPORTERS)
def test_a_translation_that_fails_names_node_and_line(exporter: str, sine: Any) -> None:
    far = np.full(6, 99)  # beyond the axis
    sine(lambda g, x: g.op("Gather", x, g.constant(far), axis=1))
    with pytest.raises(ExportCheckError, match="fails at the node Gather") as caught:
        export(Sines(), X, exporter=exporter)
    assert line_of(Sines()) in str(caught.value)


@pytest.mark.parametrize("exporter", EXPORTERS)
def test_a_translation_wrong_at_other_lengths_is_found(exporter: str, sine: Any) -> None:
    def padded(g: Any, x: Any) -> Any:
        return g.op("Reshape", g.op("Sin", x), g.constant(np.array([2, 6], np.int64)))

    sine(padded)
    with pytest.raises(ExportCheckError, match="fails at the node Reshape") as caught:
        export(Sines(), X, exporter=exporter, dynamic_axes={"x": {1: "n"}})
    assert line_of(Sines()) in str(caught.value)


@pytest.mark.parametrize("exporter", EXPORTERS)
def test_a_translation_wrong_at_other_values_is_found(exporter: str, sine: Any) -> None:
    sine(lambda g, x: g.op("Sin", g.op("Abs", x)))
    x = torch.rand(2, 3, 6)
    with pytest.raises(ExportCheckError, match="all negative") as caught:
        export(Sines(), x, exporter=exporter)
    assert line_of(Sines()) in str(caught.value)


def test_reasons_of_both_exporters_are_given() -> None:
    with pytest.raises(ExportCheckError) as caught:
        export(Losses(), X)
    said = str(caught.value)
    assert line_of(Losses()) in said
    assert re.search(r'"torchscript" was tried and fails too: .*multilabel_margin_loss', said)
    with pytest.raises(RuntimeError) as second:
        export(Losses(), X, exporter="torchscript")
    said = str(second.value)
    assert f"Where: {line_of(Losses())}" in said
    assert "register_symbolic('aten::multilabel_margin_loss', function)" in said
    assert 'exporter="dynamo" was tried and fails too: numbers: ' in said


def test_the_other_exporter_is_tried_where_the_file_is_wrong() -> None:
    x = torch.randint(0, 255, (2, 6), dtype=torch.uint8)
    text = 'exporter="torchscript" was tried: it exports the model and passes all checks'
    with pytest.raises(ExportCheckError, match=text) as caught:
        export(Shifts(), x)
    assert line_of(Shifts()) in str(caught.value)
    assert export(Shifts(), x, exporter="auto").graph.node


class Adds(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x[:, :4] + x[:, :3]  # fails


class Scales(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * x.max().item()  # fails


@pytest.mark.parametrize("exporter", EXPORTERS)
def test_a_model_that_fails_in_pytorch_names_its_line(exporter: str) -> None:
    with pytest.raises(RuntimeError, match="PyTorch does not run the model") as caught:
        export(Adds(), X, exporter=exporter)
    assert f"Where: {line_of(Adds())}" in str(caught.value)


@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")
def test_a_frozen_number_names_its_line() -> None:
    with pytest.raises(ExportCheckError, match="read into Python at") as caught:
        export(Scales(), X, exporter="torchscript")
    assert caught.value.check == "frozen_input"
    assert f"{line_of(Scales())}, by .item()" in str(caught.value)


class Checks(torch.nn.Module):
    """Branches that only refuse wrong inputs, before the line that builds a length in."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.shape[0] != 2:
            raise ValueError("two rows")
        if x.shape[1] > 1000:
            raise ValueError("too long")
        if x.dim() == 2 and x.shape[1] < 2:
            raise ValueError("too short")
        return x[:, : int(x.shape[1] / 2)]  # fails


@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")
def test_checks_of_inputs_do_not_hide_the_line() -> None:
    with pytest.raises(ExportCheckError, match="is built in at") as caught:
        export(Checks(), X, exporter="torchscript", dynamic_axes={"x": {1: "n"}})
    assert f"built in at {line_of(Checks())}, by int()" in str(caught.value)


@pytest.mark.parametrize("exporter", EXPORTERS)
def test_a_translation_that_is_invalid_onnx_names_node_and_line(exporter: str, sine: Any) -> None:
    sine(lambda g, x: g.op("MaxPool", x, kernel_shape=[2]))  # takes three axes or more
    with pytest.raises(RuntimeError, match=r"is not valid ONNX|cannot run") as caught:
        export(Sines(), X, exporter=exporter)
    said = str(caught.value)
    assert "fails at the node MaxPool" in said
    assert line_of(Sines()) in said
    assert re.search('exporter="(dynamo|torchscript)" was tried and fails too', said)
