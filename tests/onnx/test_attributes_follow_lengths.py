"""An attribute that follows a dynamic length: every kind of attribute, both exporters, one text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from guard_models import Model

import myops
from myops.onnx import ExportCheckError, export

EXPORTERS = ["dynamo", "torchscript"]
AXES = {"x": {2: "height", 3: "width"}}

pytestmark = pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")

KINDS: dict[str, tuple[Any, Callable[[Any], Any]]] = {
    "int": (1, lambda h: h // 2),
    "ints": ([1], lambda h: [h, 3]),
    "float": (1.0, lambda h: h / 3),
    "float from an integer": (1.0, lambda h: h),
    "floats": ([1.0], lambda h: [1.0, h / 2]),
}


def _op(name: str, default: Any) -> Any:
    def function(x: np.ndarray, step: Any) -> np.ndarray:
        return np.asarray(x)

    return myops.prototype(
        function, name=name, domain="follows_test", types={"T": ["float32"]},
        inputs=[myops.Input("x", "T", "Any.")], outputs=[myops.Output("y", "T", "As x.")],
        attributes=[myops.Attribute("step", default, "Any.")],
        shape=lambda inputs, attributes: [inputs[0].shape],
    )  # fmt: skip


OPS = {kind: _op("op_" + kind.replace(" ", "_"), value) for kind, (value, _) in KINDS.items()}


@pytest.mark.parametrize("exporter", EXPORTERS)
@pytest.mark.parametrize("kind", list(KINDS))
def test_the_error_names_operator_attribute_and_what_to_do(kind: str, exporter: str) -> None:
    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            return OPS[kind](x, step=KINDS[kind][1](x.shape[1]))  # the line to name

    with pytest.raises((ValueError, RuntimeError)) as caught:
        export(Model(), (torch.rand(2, 30),), exporter=exporter, dynamic_axes={"x": {1: "n"}})
    text = str(caught.value)
    assert f"{OPS[kind].__name__}: step: got a value that follows the length of an input" in text
    assert "expected a constant: an attribute of an ONNX node cannot change" in text
    assert "Call the operator with a fixed number" in text
    assert "dynamic_axes" in text
    if exporter == "dynamo":
        assert "# the line to name" in text


@torch.library.custom_op("myops_lengths_test::rows", mutates_args=())
def rows(x: torch.Tensor, height: int) -> torch.Tensor:
    return F.interpolate(x, size=(height, 5))


@rows.register_fake
def _(x: torch.Tensor, height: int) -> torch.Tensor:
    return x.new_empty((x.shape[0], x.shape[1], height, 5))


_library = torch.library.Library("myops_lengths_test", "FRAGMENT")
_library.define("fixed_rows(Tensor x, int height) -> Tensor")  # int: torch.export makes it constant
_library.impl("fixed_rows", lambda x, height: rows(x, height), "CompositeExplicitAutograd")
_library.impl("fixed_rows", lambda x, height: x.new_empty((*x.shape[:2], height, 5)), "Meta")


for _name in ("rows", "fixed_rows"):
    myops.onnx.register_symbolic(
        f"myops_lengths_test::{_name}",
        lambda g, x, height: g.op("myops_lengths_test::Rows", x, height=height),
    )


def following(x: torch.Tensor) -> torch.Tensor:
    return rows(x, x.shape[2] // 2)


def following_in_a_constant(x: torch.Tensor) -> torch.Tensor:
    return torch.ops.myops_lengths_test.fixed_rows(x, x.shape[2] // 2)


def following_in_ours(x: torch.Tensor) -> torch.Tensor:
    pad = x.shape[2] // 8
    offset = x.new_zeros(1, 18, x.shape[2] + 2 * pad - 2, x.shape[3] + 2 * pad - 2)
    return myops.deform_conv2d(x, offset, torch.ones(3, 2, 3, 3), padding=[pad, pad])


@pytest.mark.parametrize("exporter", EXPORTERS)
@pytest.mark.parametrize("forward", [following, following_in_a_constant])
def test_an_attribute_that_follows_a_length_is_refused(forward: Any, exporter: str) -> None:
    """No library can run the node; the error does not need one."""
    x = torch.rand(1, 2, 8, 9)
    text = r"height.*follows the length of an input|height.*computed at run time"
    with pytest.raises((ExportCheckError, RuntimeError, ValueError), match=text) as caught:
        export(Model(forward), x, dynamic_axes=AXES, exporter=exporter, skip_checks=["numbers"])
    assert "input" in str(caught.value)  # what to do
    fixed = export(Model(forward), x, exporter=exporter, skip_checks=["numbers"])
    (node,) = [node for node in fixed.graph.node if node.op_type == "Rows"]
    assert node.attribute[0].i == 4


@pytest.mark.parametrize("exporter", EXPORTERS)
def test_an_attribute_of_ours_that_follows_a_length_is_refused(exporter: str) -> None:
    x = torch.rand(1, 2, 8, 8)
    text = "follows the length of an input|attribute of an ONNX node cannot"
    with pytest.raises((ExportCheckError, RuntimeError, ValueError), match=text):
        export(Model(following_in_ours), x, dynamic_axes={"x": [2]}, exporter=exporter)
