"""What the errors about lengths say to write instead."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from guard_models import Model, assert_fails

from myops.onnx import ExportCheckError, export
from myops.onnx.guards import _advice

EXPORTERS = ["dynamo", "torchscript"]
AXES = {"x": {2: "h"}}


def least(x: torch.Tensor) -> torch.Tensor:
    n = min([x.shape[1], 40])
    return F.pad(x, (0, 0, 0, 40 - n))


def test_no_advice_about_multiples_where_a_minimum_decides() -> None:
    with pytest.raises(ExportCheckError, match=r"the same for all lengths\. exporter=") as caught:
        export(Model(least), (torch.rand(2, 18, 6),), input_names=["audio"],
               exporter="torchscript", dynamic_axes={"audio": {0: "n", 1: "t"}})  # fmt: skip
    assert "dynamic_axes" not in str(caught.value)


@pytest.mark.parametrize(("example", "other", "given", "advised"), [
    (18, 17, 1, 2), (18, 30, 1, 0), (16, 36, 1, 8), (17, 36, 1, 0), (18, 21, 3, 6), (18, 24, 3, 0),
    (64, 32, 1, 64), (64, 128, 1, 0),
])  # fmt: skip
def test_multiples_are_advised_where_they_may_decide(
    example: int, other: int, given: int, advised: int
) -> None:
    """That is where the example is a multiple, and the length at which the result is wrong is
    none."""
    inputs = SimpleNamespace(slots=[SimpleNamespace(name="x")],
                             tensor=lambda slot: torch.empty(1, example))  # fmt: skip
    exported: Any = SimpleNamespace(
        inputs=inputs, dynamic=[("x", 1)], graph_inputs={}, multiples={("x", 1): given}
    )
    text = _advice._any_length(exported, {"x": torch.empty(1, other)}, "line")
    assert (f'dynamic_axes={{"x": {{1: "{advised}*n"}}}}' in text) == bool(advised)
    assert ("dynamic_axes" in text) == bool(advised)


@pytest.mark.parametrize(("code", "instead"), [
    ("int(h*1.1)", "h * 11 // 10"), ("int(x.shape[2] * 0.25)", "x.shape[2] // 4"),
    ("int(.5 * x.size(-1))", "x.size(-1) // 2"),
])  # fmt: skip
def test_an_integer_of_a_product(code: str, instead: str) -> None:
    """What to write for it has equal values, and passes with both exporters."""
    made = _advice._integer_factor(f"y = x.new_zeros({code})")
    assert made == f"integers: {instead} instead of {code}"
    for h in range(1, 400):
        known = {"h": h, "x": torch.empty(1, 1, h, h)}
        assert eval(code, known) == eval(instead, known)


def test_other_integers_of_products() -> None:
    for code in ("int(h * w)", "int(h * 2.0)", "int(h * 1.23456789)", "int(h / 1.5)", "int(h)"):
        assert _advice._integer_factor(code) == ""


def by_product(x: torch.Tensor) -> torch.Tensor:
    return F.interpolate(x, size=(int(x.shape[2] * 1.5), 8))


def by_integers(x: torch.Tensor) -> torch.Tensor:
    return F.interpolate(x, size=(x.shape[2] * 3 // 2, 8))


@pytest.mark.parametrize("exporter", EXPORTERS)
def test_advice_for_an_integer_of_a_product_is_right(exporter: str) -> None:
    x = torch.rand(1, 1, 6, 8)
    text = r"Write integers: x\.shape\[2\] \* 3 // 2 instead of int\(x\.shape\[2\] \* 1\.5\)"
    assert_fails("numbers", text, Model(by_product), x, dynamic_axes=AXES, exporter=exporter)
    export(Model(by_integers), x, dynamic_axes=AXES, exporter=exporter)
