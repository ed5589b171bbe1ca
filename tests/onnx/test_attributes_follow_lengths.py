"""An attribute that follows a dynamic length: every kind of attribute, both exporters, one text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import myops
from myops.onnx import export

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


@pytest.mark.parametrize("exporter", ["dynamo", "torchscript"])
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
