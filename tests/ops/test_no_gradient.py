"""An op without a gradient refuses a backward pass, however it is called."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import myops
from myops.testing import Case, CheckError, check_op

doubled = myops.prototype(
    lambda x: 2 * x,
    name="doubled",
    domain="no_gradient",
    types={"T": ["float32", "float64"]},
    inputs=[myops.Input("x", "T", "Any tensor.")],
    outputs=[myops.Output("y", "T", "Twice x.")],
    shape=lambda inputs, attributes: [inputs[0].shape],
)
# Values of one dtype, and indices of another, which no input has.
largest = myops.prototype(
    lambda x: (x.max(-1), x.argmax(-1)),
    name="largest",
    domain="no_gradient",
    types={"T": ["float32", "float64"], "I": ["int64"]},
    inputs=[myops.Input("x", "T", "A matrix.")],
    outputs=[
        myops.Output("values", "T", "The largest of each row."),
        myops.Output("indices", "I", "Their places."),
    ],
    shape=lambda inputs, attributes: [inputs[0].shape[:-1]] * 2,
)
WAYS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "function": doubled,
    "dispatcher": lambda x: torch.ops.no_gradient.doubled(x),
    "compiled": torch.compile(lambda x: doubled(x), backend="aot_eager", fullgraph=True),
}


@pytest.mark.parametrize("way", WAYS)
def test_gradients_are_refused_with_the_same_text(way: str) -> None:
    x = torch.ones(3, requires_grad=True)
    with pytest.raises(RuntimeError, match=r"no_gradient.doubled is not differentiable. Detach"):
        (WAYS[way](x) + x).sum().backward()
    assert x.grad is None
    with torch.no_grad():
        assert WAYS[way](x).tolist() == [2, 2, 2]


def test_conformance_suite_finds_an_undeclared_gradient() -> None:
    cases = [Case((torch.rand(2, 3),), name="matrix")]
    check_op(doubled, cases, reference=lambda x: 2 * x, gradients=0, only=["gradients"])

    def silent(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor]:
        return (grad,)  # not 2 * grad

    loud = myops.prototype(
        lambda x: 2 * x,
        name="loud",
        domain="no_gradient",
        types={"T": ["float32", "float64"]},
        inputs=[myops.Input("x", "T", "Any tensor.")],
        outputs=[myops.Output("y", "T", "Twice x.")],
        shape=lambda inputs, attributes: [inputs[0].shape],
        save=lambda *_: None,
        backward=silent,
    )
    with pytest.raises(CheckError) as caught:
        check_op(loud, cases, reference=lambda x: 2 * x, gradients=0, only=["gradients"])
    for way in ("the public function", "torch.ops.no_gradient.loud", "torch.compile"):
        assert f"{way}: a gradient" in str(caught.value)


def test_an_output_with_a_dtype_of_its_own() -> None:
    x = torch.rand(4, 5)
    expected = (x.max(-1).values, x.argmax(-1))
    compiled = torch.compile(lambda x: largest(x), backend="inductor", fullgraph=True)
    for call in (largest, torch.ops.no_gradient.largest, compiled):
        values, indices = call(x)
        assert torch.equal(values, expected[0])
        assert indices.dtype == torch.int64
        assert torch.equal(indices, expected[1])
    values, indices = largest(x.to("meta"))
    assert (values.dtype, indices.dtype) == (torch.float32, torch.int64)
    exported = torch.export.export(_Largest(), (x,), dynamic_shapes=[{0: torch.export.Dim.AUTO}])
    assert exported.module()(torch.rand(7, 5))[1].dtype == torch.int64
    assert np.array_equal(exported.module()(x)[1], expected[1])


class _Largest(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> Any:
        return largest(x)
