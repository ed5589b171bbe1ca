"""The conformance suite finds faults that show only in calls which it derives from a case: long
ones, gradients at other lengths, batches, forward mode, integers that use all bits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import myops
from myops.testing import Case, CheckError, bits, check_op

X = torch.linspace(-1, 1, 12).reshape(3, 4) + 3e-4  # between two steps of 1e-3
CASES = [Case((X, torch.tensor(0.7)), name="small")]


def bend(x: np.ndarray, gain: np.ndarray) -> np.ndarray:
    """tanh(gain * x)."""
    return np.tanh(gain * x)


def slow(x: torch.Tensor, gain: torch.Tensor) -> torch.Tensor:
    return torch.tanh(gain * x)


def save(ctx: Any, inputs: Any, attributes: dict[str, Any], output: torch.Tensor) -> None:
    ctx.save_for_backward(*inputs, output)


def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    x, gain, y = ctx.saved_tensors
    slope = grad * (1 - y * y)
    return slope * gain, (slope * x).sum()


def jvp(ctx: Any, x_tangent: torch.Tensor | None, gain_tangent: torch.Tensor | None) -> Any:
    x, gain, y = ctx.saved_tensors
    change = torch.zeros_like(x)
    if x_tangent is not None:
        change = change + gain * x_tangent
    if gain_tangent is not None:
        change = change + x * gain_tangent
    return (1 - y * y) * change


def vmap(op: Any, info: Any, in_dims: Any, inputs: Any, attributes: dict[str, Any]) -> Any:
    x, gain = inputs
    if in_dims[1] is None:
        return op(x, gain), in_dims[0]
    rows = [x if in_dims[0] is None else x.select(in_dims[0], i) for i in range(info.batch_size)]
    return torch.stack([op(row, one) for row, one in zip(rows, gain, strict=True)]), 0


def prototype(domain: str, function: Callable[..., Any] = bend, **changes: Any) -> Any:
    rules = {"save": save, "backward": backward, "jvp": jvp, "vmap": vmap, **changes}
    return myops.prototype(
        function,
        name="bend",
        domain=domain,
        types={"T": ["float32", "float64"]},
        inputs=[myops.Input("x", "T", "Any."), myops.Input("gain", "T", "A scalar.")],
        outputs=[myops.Output("y", "T", "Of the shape of x.")],
        shape="S..., -> S...",
        **rules,
    )


def failures(op: Any, cases: list[Case], reference: Any, *families: str) -> str:
    with pytest.raises(CheckError) as error:
        check_op(op, cases, reference=reference, only=list(families))
    assert {failure.check for failure in error.value.report.failures} == set(families)
    return str(error.value)


def test_the_sound_op_passes() -> None:
    families = ["values", "lengths", "gradients", "transforms"]
    report = check_op(prototype("derived_sound"), CASES, reference=slow, only=families)
    assert report.failures == []
    assert report.idle == {}


def test_a_fault_in_the_second_piece_is_found() -> None:
    def wrong(x: np.ndarray, gain: np.ndarray) -> np.ndarray:
        y = bend(x, gain)
        y.reshape(-1)[4096:] *= 2
        return y

    text = failures(prototype("derived_piece", wrong), CASES, slow, "lengths")
    assert "axis 0 of argument 0 = " in text
    assert "after the first" in text


def test_integers_of_a_long_call_are_compared_exactly() -> None:
    def place(x: np.ndarray) -> np.ndarray:
        found = x.argmax(1)
        found[5000] += 1
        return found

    def first(domain: str, function: Callable[..., Any]) -> Any:
        return myops.prototype(
            lambda x: function(x) if len(x) > 5000 else x.argmax(1),
            name="first",
            domain=domain,
            types={"T": ["float32"], "I": ["int64"]},
            inputs=[myops.Input("x", "T", "Rank 2.")],
            outputs=[myops.Output("index", "I", "Of the largest.")],
            shape="N 4 -> N",
        )

    cases = [Case((torch.randn(3, 4),))]
    reference = lambda x: x.argmax(1)  # noqa: E731
    sound = first("derived_first", lambda x: x.argmax(1))
    assert check_op(sound, cases, reference=reference, only=["lengths"]).failures == []
    wrong = first("derived_first_wrong", place)
    assert "at [5000] (1 of" in failures(wrong, cases, reference, "lengths")


def test_an_op_that_rounds_passes_where_float32_decides_on_the_side() -> None:
    level = np.float32(0.1)
    op = myops.prototype(
        lambda x: np.round(x / level),
        name="levels",
        domain="derived_levels",
        types={"T": ["float32"]},
        inputs=[myops.Input("x", "T", "Any.")],
        outputs=[myops.Output("y", "T", "Whole numbers.")],
        shape="S... -> S...",
    )
    x = torch.arange(12, dtype=torch.float32).reshape(3, 4) * 0.05  # between two levels
    far = 0
    for seed in range(3):
        torch.manual_seed(seed)
        case = Case((torch.cat([torch.rand(3, 4) * 50, x + 7]),))
        report = check_op(op, [case], reference=lambda x: (x / float(level)).round(),
                          only=["lengths"], tolerance={"float32": 1.1})  # fmt: skip
        far += len(report.failures)
    assert far == 0


def test_a_gradient_that_is_wrong_at_another_length_is_found() -> None:
    def odd(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        to_x, to_gain = backward(ctx, grad)
        rest = torch.ones_like(to_x)
        rest[9:] = 0.5  # in every dtype, so float64 has the same fault
        return to_x * rest, to_gain

    text = failures(prototype("derived_odd", backward=odd), CASES, slow, "gradients")
    assert "axis 0 of argument 0 = 17, in float64" in text
    assert "by differences" in text


def test_a_gradient_that_is_wrong_in_the_second_piece_is_found() -> None:
    def first_piece(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x, _, y = ctx.saved_tensors
        terms = (grad * (1 - y * y) * x).reshape(-1)
        return backward(ctx, grad)[0], terms[:4096].sum()

    text = failures(prototype("derived_sum", backward=first_piece), CASES, slow, "gradients")
    assert "made large, in float64" in text


def test_a_gradient_next_to_a_jump_is_not_blamed() -> None:
    """Differences do not agree with each other there."""

    def steps(x: np.ndarray, gain: np.ndarray) -> np.ndarray:
        return bend(x, gain) + np.floor(x * 1000)

    def smooth(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x, gain, _ = ctx.saved_tensors
        slope = grad * (1 - torch.tanh(gain * x) ** 2)
        return slope * gain, (slope * x).sum()

    op = prototype("derived_steps", steps, backward=smooth)
    assert check_op(op, CASES, only=["gradients"], gradients=1).failures == []


def test_a_wrong_rule_for_batches_is_found() -> None:
    def first_gain(op: Any, info: Any, in_dims: Any, inputs: Any, attributes: Any) -> Any:
        x, gain = inputs
        if in_dims[0] is None:
            x, in_dims = x.expand(info.batch_size, *x.shape), (0, in_dims[1])
        return op(x, gain if in_dims[1] is None else gain[0]), in_dims[0]

    text = failures(prototype("derived_batch", vmap=first_gain), CASES, slow, "transforms")
    assert "a batch of argument 1 on the first axis" in text
    assert "the tangent" not in text


def test_a_wrong_tangent_is_found() -> None:
    def half(ctx: Any, x_tangent: Any, gain_tangent: Any) -> Any:
        return jvp(ctx, x_tangent, None if gain_tangent is None else 0.5 * gain_tangent)

    text = failures(prototype("derived_tangent", jvp=half), CASES, slow, "transforms")
    assert "the tangent of argument 1" in text
    assert "a batch" not in text


def rows(domain: str, function: Callable[..., Any]) -> Any:
    return myops.prototype(
        function,
        name="rows",
        domain=domain,
        types={"T": ["float32", "uint8", "int8", "int32"]},
        inputs=[myops.Input("x", "T", "Rank 2, with columns.")],
        outputs=[myops.Output("y", "T", "Rank 1.")],
        shape="N 4 -> N",
    )


def test_bytes_that_are_read_with_the_wrong_sign_are_found() -> None:
    def signed(x: np.ndarray) -> np.ndarray:
        return (x.view(np.int8) if x.dtype == np.uint8 else x).max(1).astype(x.dtype)

    cases, reference = [Case((torch.randn(3, 4),))], lambda x: x.amax(1)
    sound = rows("derived_bytes", lambda x: x.max(1))
    assert check_op(sound, cases, reference=reference, only=["dtypes"]).failures == []
    text = failures(rows("derived_signed", signed), cases, reference, "dtypes")
    assert "T = uint8, up to 255" in text


def test_sums_that_overflow_in_the_reference_too_are_not_compared() -> None:
    sums = rows("derived_sums", lambda x: x.sum(1, dtype=x.dtype))
    cases = [Case((torch.randn(3, 4),))]
    reference = lambda x: x.sum(1, dtype=x.dtype)  # noqa: E731
    assert check_op(sums, cases, reference=reference, only=["dtypes"]).failures == []


def test_complex_scalars_are_compared() -> None:
    """They have no axis of which a view in real numbers could be taken."""
    op = myops.prototype(
        lambda x: x.conj(),
        name="mirrored",
        domain="derived_mirrored",
        types={"C": ["complex64", "complex128"]},
        inputs=[myops.Input("x", "C", "Any.")],
        outputs=[myops.Output("y", "C", "Of the shape of x.")],
        shape="S... -> S...",
    )
    case = Case((torch.tensor(1 + 2j),))
    report = check_op(op, [case], reference=torch.conj, only=["values", "purity", "dtypes"])
    assert report.failures == []
    other = bits.different_bits([np.array(1 + 2j)], [np.array(1 - 2j)])
    assert other[0].endswith("at [1]: 2.0")


def test_a_body_that_is_wrong_in_an_older_opset_is_found() -> None:
    """A standard form may branch on g.opset; users of an op choose the opset."""

    def largest(domain: str, old: str) -> Any:
        def standard(g: Any) -> list[str]:
            if g.opset < 18:
                return [g.op(old, g.input("x"), axes=[1], keepdims=0)]
            return [g.op("ReduceMax", g.input("x"), g.constant(np.int64([1])), keepdims=0)]

        return myops.prototype(
            lambda x: x.max(1),
            name="largest",
            domain=domain,
            types={"T": ["float32"]},
            inputs=[myops.Input("x", "T", "Rank 2, with columns.")],
            outputs=[myops.Output("y", "T", "Rank 1.")],
            shape="N 4 -> N",
            standard=standard,
        )

    cases = [Case((torch.randn(3, 4),))]
    assert check_op(largest("derived_body", "ReduceMax"), cases, only=["bodies"]).failures == []
    text = failures(largest("derived_old_body", "ReduceMin"), cases, None, "bodies")
    assert "opset 11" in text
    assert "opset 18" not in text


def test_an_input_that_is_returned_for_one_length_is_found() -> None:
    op = prototype("derived_returned")

    def shortcut(x: torch.Tensor, gain: torch.Tensor) -> torch.Tensor:
        return x if x.shape[0] == 1 and bool((gain != 0).all()) else op(x, gain)

    assert check_op(op, CASES, only=["purity"]).failures == []
    text = failures(shortcut, CASES, None, "purity")
    assert "axis 0 of argument 0 = 1" in text
    assert "a result in the memory of argument 0" in text
