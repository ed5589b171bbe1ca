"""Unusual ops that the conformance suite supports: float32 only, a standard form for some dtypes, a
refusal that depends on the numbers in a tensor, an output whose dtype no input has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import myops
from myops.testing import Case, CheckError, check_op

CASE = Case((torch.tensor([[0.3, -1.2, 2.0], [0.7, 0.4, -0.9]]),), name="rows")


def cube(x: np.ndarray) -> np.ndarray:
    return x * x * x


def cube_backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
    (x,) = ctx.saved_tensors
    return 3 * x * x * grad


def cube_standard(g: Any) -> list[str]:
    x = g.input("x")
    return [g.op("Mul", g.op("Mul", x, x), x)]


def prototype(domain: str, **changes: Any) -> Callable[..., Any]:
    given: dict[str, Any] = {
        "function": cube,
        "name": "cube",
        "types": {"T": ["float32"]},
        "inputs": [myops.Input("x", "T", "Any.")],
        "outputs": [myops.Output("y", "T", "The cube.")],
        "shape": lambda inputs, attributes: [inputs[0].shape],
        "save": lambda ctx, inputs, attributes, output: ctx.save_for_backward(*inputs),
        "backward": cube_backward,
        "standard": cube_standard,
        **changes,
    }
    return myops.prototype(given.pop("function"), domain=domain, **given)


def failures(op: Callable[..., Any], cases: list[Case], **given: Any) -> str:
    with pytest.raises(CheckError) as caught:
        check_op(op, cases, **given)
    return str(caught.value)


# ---- float32 only


def test_derivatives_of_a_float32_op_are_checked_in_float32() -> None:
    report = check_op(prototype("only32"), [CASE], only=["gradients"], gradients=2)
    (tally,) = report.tallies
    assert tally.ran >= 6  # two orders, two ways in; as fakes; in the case's own dtype
    assert any("differences were taken in float32" in note for note in report.notes)


@pytest.mark.parametrize("off", [0.98, 1.02, -1.0])
def test_a_wrong_derivative_of_a_float32_op_is_found(off: float) -> None:
    op = prototype(
        f"wrong32.by{int(100 * off) % 1000}",
        backward=lambda ctx, grad: off * cube_backward(ctx, grad),
    )
    assert "first derivatives that differences confirm" in failures(
        op, [CASE], only=["gradients"], gradients=1
    )


def test_a_float32_op_without_a_gradient_passes() -> None:
    op = prototype("none32", save=None, backward=None)
    (tally,) = check_op(op, [CASE], only=["gradients"], gradients=0).tallies
    assert tally.ran == 3  # the function, torch.ops, torch.compile
    found = failures(prototype("some32"), [CASE], only=["gradients"], gradients=0)
    assert "check_op was called with gradients=0" in found


# ---- a standard form that refuses a dtype


def halved_standard(g: Any) -> list[str]:
    if g.dtype("x") == "float16":
        g.refuse("float16 would overflow on the way")
    return cube_standard(g)


def test_a_standard_form_may_refuse_a_declared_dtype() -> None:
    types = {"T": ["float32", "float16"]}
    report = check_op(
        prototype("some", types=types, standard=halved_standard), [CASE], only=["bodies"]
    )
    (tally,) = report.tallies
    assert tally.ran >= 2
    assert len(tally.refused) == 1
    assert any("refuses T = float16" in note for note in report.notes)


def test_a_standard_form_that_refuses_the_dtype_of_the_case_is_a_failure() -> None:
    def never(g: Any) -> list[str]:
        g.refuse("it cannot")

    assert "the function body" in failures(
        prototype("never", standard=never), [CASE], only=["bodies"]
    )


# ---- a refusal that depends on numbers


def pick(x: np.ndarray, index: np.ndarray) -> np.ndarray:
    if ((index < 0) | (index >= len(x))).any():
        raise ValueError(f"pick: index: got {index.max()}, expected 0 to {len(x) - 1}")
    return x[index]


def shape_of_pick(inputs: Any, attributes: Any) -> list[Any]:
    for name, item in zip(("x", "index"), inputs, strict=True):
        if len(item.shape) != 1:
            raise ValueError(f"pick: {name}: got rank {len(item.shape)}, expected 1")
    return [inputs[1].shape]


def picking(domain: str) -> Callable[..., Any]:
    return prototype(
        domain,
        function=pick,
        name="pick",
        types={"T": ["float32"], "I": ["int64"]},
        inputs=[myops.Input("x", "T", "Rank 1."), myops.Input("index", "I", "Rank 1.")],
        shape=shape_of_pick,
        save=None,
        backward=None,
        standard=lambda g: [g.op("Gather", g.input("x"), g.input("index"))],
    )


def test_a_refusal_by_numbers_passes_where_it_is_declared() -> None:
    arguments = (torch.tensor([1.0, 2.0]), torch.tensor([0, 7]))
    cases = [
        Case((arguments[0], torch.tensor([1, 0, 1]))),
        Case(arguments, refused="pick: index: got 7, expected 0 to 1", refused_by_numbers=True),
    ]
    assert not check_op(picking("numbers"), cases, only=["values", "errors"]).failures
    plain = [cases[0], Case(arguments, refused="index: got 7")]
    assert "the fake kernel: no refusal" in failures(picking("numbers"), plain, only=["errors"])


def test_a_refusal_by_shapes_is_not_a_refusal_by_numbers() -> None:
    def by_shape(inputs: Any, attributes: Any) -> list[Any]:
        if len(inputs[0].shape) != 2:
            raise ValueError(f"cube: x: got rank {len(inputs[0].shape)}, expected 2")
        return [inputs[0].shape]

    wrong = Case((torch.ones(3),), refused="x: got rank 1", refused_by_numbers=True)
    found = failures(prototype("shapes", shape=by_shape), [CASE, wrong], only=["errors"])
    assert "leave out refused_by_numbers" in found
    with pytest.raises(ValueError, match="refused_by_numbers: got True without `refused`"):
        Case((torch.ones(3),), refused_by_numbers=True)


# ---- an output whose dtype no input has


def largest(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return x.max(axis=-1), x.argmax(axis=-1)


def largest_standard(g: Any) -> list[str]:
    x = g.input("x")
    axes = g.constant(np.array([-1]))
    return [
        g.op("ReduceMax", x, axes, keepdims=0),
        g.op("ArgMax", x, axis=-1, keepdims=0),
    ]


def test_an_output_with_a_dtype_of_its_own_passes() -> None:
    op = prototype(
        "largest",
        function=largest,
        name="largest",
        types={"T": ["float32", "float64"], "I": ["int64"]},
        outputs=[myops.Output("values", "T", "?"), myops.Output("indices", "I", "?")],
        shape=lambda inputs, attributes: [inputs[0].shape[:-1], inputs[0].shape[:-1]],
        save=None,
        backward=None,
        standard=largest_standard,
    )
    case = Case((torch.tensor([[0.3, 2.5, -1.0], [4.0, 0.5, 1.0]]),))

    def slow(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        values, indices = x.max(dim=-1)
        return values, indices

    report = check_op(
        op, [case], reference=slow, gradients=0, skip={"lengths": "no maximum of 0 elements"}
    )
    assert not report.failures
    ran = {tally.check for tally in report.tallies if tally.ran}
    assert {"shapes", "dtypes", "compile", "export", "dynamo", "torchscript"} <= ran


# ---- what a backward returns


def test_a_backward_with_too_many_gradients_is_named() -> None:
    op = prototype("two", backward=lambda ctx, grad: (grad, grad))
    x = torch.ones(2, 3, requires_grad=True)
    for call in (op, torch.ops.two.cube):
        with pytest.raises(RuntimeError, match=r"cube: backward: got 2 gradients, expected 1"):
            call(x).sum().backward()
