"""The conformance suite finds faults that need several calls or other memory: what is kept between
calls, incoming gradients with any strides, one tensor for two inputs, one length that is 1."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import myops
from myops.testing import Case, CheckError, check_op
from myops.testing.far import far_apart

CASES = [Case((torch.linspace(-1, 1, 12).reshape(3, 4), torch.linspace(1, 2, 12).reshape(3, 4)),
              {"gain": 1.5}, name="small")]  # fmt: skip


def multiply(x: np.ndarray, w: np.ndarray, gain: float) -> np.ndarray:
    return np.asarray(gain * x * w, x.dtype)


def slow(x: torch.Tensor, w: torch.Tensor, gain: float) -> torch.Tensor:
    return gain * x * w


def save(ctx: Any, inputs: Any, attributes: dict[str, Any], output: torch.Tensor) -> None:
    ctx.save_for_backward(*inputs)
    ctx.gain = attributes["gain"]


def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    x, w = ctx.saved_tensors
    to_w = ctx.gain * x * grad
    rows = to_w if len(w) == len(x) else to_w.sum(0, keepdim=True)
    return ctx.gain * w * grad, rows


def prototype(domain: str, function: Callable[..., Any] = multiply, **changes: Any) -> Any:
    def shape(inputs: Any, attributes: dict[str, Any]) -> list[Any]:
        x, w = (item.shape for item in inputs)
        if len(x) != 2 or len(w) != 2 or x[1] != w[1] or w[0] not in (1, x[0]):
            raise ValueError(f"w: got shape {w}, expected that of x, {x}, or one row of it")
        return [x]

    return myops.prototype(
        function,
        name="multiply",
        domain=domain,
        types={"T": ["float32", "float64"]},
        inputs=[
            myops.Input("x", "T", "A matrix.", access="strided"),
            myops.Input("w", "T", "Another, or a row."),
        ],
        outputs=[myops.Output("y", "T", "Of the shape of x.")],
        attributes=[myops.Attribute("gain", 1.0, "A factor.")],
        shape=shape,
        **{"save": save, "backward": backward, **changes},
    )


def failures(op: Any, family: str, gradients: int = 2) -> str:
    with pytest.raises(CheckError) as error:
        check_op(op, CASES, reference=slow, only=[family], gradients=gradients)
    return str(error.value)


def test_the_sound_op_passes() -> None:
    families = ["values", "purity", "lengths", "layouts", "gradients"]
    report = check_op(prototype("states_sound"), CASES, reference=slow, only=families)
    assert report.failures == []


def test_one_length_alone_is_made_1_where_the_op_takes_that() -> None:
    def wrong(x: np.ndarray, w: np.ndarray, gain: float) -> np.ndarray:
        y = multiply(x, w, gain)
        return y if len(w) == len(x) else np.concatenate([y[:1], 2 * y[1:]])

    text = failures(prototype("states_row", wrong), "lengths")
    assert "axis 0 of argument 1 alone = 1" in text
    assert "axis 0 of argument 0 alone" not in text  # the op refuses that

    def whole(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        to_x, to_w = backward(ctx, grad)
        return to_x, to_w if len(to_w) == len(to_x) else to_w / len(to_x)

    text = failures(prototype("states_mean", backward=whole), "gradients", 1)
    assert "axis 0 of argument 1 alone = 1, in float64" in text


@pytest.mark.parametrize("lacking", ["gain", "dtype", "strides"])
def test_a_cache_with_too_small_a_key_is_found(lacking: str) -> None:
    known: dict[Any, Any] = {}

    def cached(x: np.ndarray, w: np.ndarray, gain: float) -> np.ndarray:
        strides = tuple(step // x.itemsize for step in x.strides)
        parts = {"gain": gain, "dtype": x.dtype, "strides": strides}
        value = parts.pop(lacking)
        wrong = known.setdefault((x.shape, w.shape, *parts.values()), value) != value
        return multiply(x, w, gain * (2 if wrong else 1))

    text = failures(prototype(f"states_{lacking}", cached), "purity", 0)
    words = {"gain": "with gain = 1.125", "dtype": "in T = float64", "strides": "strided"}
    assert f"after a call of the same shapes {words[lacking]}" in text
    assert "under too small a key" in text


def test_gradients_that_depend_on_another_call_are_found() -> None:
    kept: dict[str, Any] = {}

    def keep(ctx: Any, inputs: Any, attributes: dict[str, Any], output: torch.Tensor) -> None:
        save(ctx, inputs, attributes, output)
        kept["x"] = inputs[0]

    def use(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        to_x, to_w = backward(ctx, grad)
        return to_x, ctx.gain * kept["x"] * grad if kept["x"].shape == to_w.shape else to_w

    text = failures(prototype("states_kept", save=keep, backward=use), "gradients", 1)
    assert "gradients after another call" in text
    assert "outside of the call" in text


def test_a_backward_that_changes_what_was_saved_is_found() -> None:
    def change(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        result = tuple(item.clone() for item in backward(ctx, grad))
        with torch.no_grad():
            ctx.gain *= 2
        return result  # type: ignore[return-value]

    assert "the same gradients again" in failures(
        prototype("states_changed", backward=change), "gradients", 1
    )


def test_one_tensor_for_two_inputs_has_both_gradients() -> None:
    def half(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x, w = ctx.saved_tensors
        to_x, to_w = backward(ctx, grad)
        return to_x, torch.zeros_like(to_w) if x is w else to_w

    text = failures(prototype("states_half", backward=half), "gradients", 1)
    assert "argument 0 and argument 1 are one tensor" in text


def test_an_incoming_gradient_with_other_strides_is_tried() -> None:
    def view(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return backward(ctx, grad.view(-1).view(grad.shape))

    text = failures(prototype("states_view", backward=view), "layouts", 1)
    assert "an incoming gradient, strided, axes reversed" in text
    assert "call grad.reshape() instead of grad.view()" in text

    def first(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        rows = grad if grad.stride(0) or grad.stride(1) else grad * 2
        return backward(ctx, rows)

    text = failures(prototype("states_zero", backward=first), "layouts", 1)
    assert "expanded along all axes, as after sum()" in text


def test_a_backward_that_changes_the_incoming_gradient_is_found() -> None:
    def in_place(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        found = backward(ctx, grad)
        grad.mul_(0.5)
        return found

    text = failures(prototype("states_in_place", backward=in_place), "layouts", 1)
    assert "an incoming gradient after backward: " in text
    assert "writes into the incoming gradient" in text


def test_a_backward_that_expects_all_inputs_to_need_gradients_is_found() -> None:
    def packed(ctx: Any, grad: torch.Tensor) -> Any:
        found = list(zip(backward(ctx, grad), ctx.needs_input_grad, strict=False))
        wanted = [item for item, needed in found if needed]
        return (*wanted, *[None] * (len(found) - len(wanted)))

    text = failures(prototype("states_packed", backward=packed), "layouts", 1)
    assert "only argument 1 needs a gradient" in text
    assert "one entry for each input" in text


def test_an_output_that_nothing_uses_is_tried() -> None:
    def pair(domain: str, wrong: bool) -> Any:
        def back(ctx: Any, first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
            if wrong and not second.any():
                return 2 * first
            return first + 3 * second

        return myops.prototype(
            lambda x: (x.copy(), 3 * x),
            name="pair",
            domain=domain,
            types={"T": ["float32", "float64"]},
            inputs=[myops.Input("x", "T", "Any.")],
            outputs=[myops.Output("y", "T", "x."), myops.Output("z", "T", "3 x.")],
            shape="S... -> S..., S...",
            save=lambda ctx, inputs, attributes, output: None,
            backward=back,
        )

    cases = [Case((torch.randn(3, 4),))]
    assert check_op(pair("states_pair", False), cases, only=["layouts"]).failures == []
    with pytest.raises(CheckError, match="from each output alone"):
        check_op(pair("states_pair_wrong", True), cases, only=["layouts"])


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32, torch.float64])
def test_elements_are_far_apart_without_the_memory_for_it(dtype: torch.dtype) -> None:
    near = torch.arange(24).reshape(2, 3, 4).to(dtype)
    moved = far_apart(near)
    assert moved is not None
    assert torch.equal(moved, near)
    assert (moved.shape[2] - 1) * moved.stride(2) >= 2**31
    assert far_apart(torch.ones(1, 1)) is None


def test_a_process_that_may_not_have_the_addresses_is_told(monkeypatch: Any) -> None:
    def refuse(*args: Any, **settings: Any) -> Any:
        raise OSError(12, "Cannot allocate memory")

    monkeypatch.setattr("mmap.mmap", refuse)
    cases = [Case((torch.randn(3, 4), torch.randn(4)))]
    report = check_op(myops.my_add, cases, only=["layouts"])
    assert "no range of addresses: [Errno 12]" in str(report)
