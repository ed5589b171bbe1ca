"""The conformance suite on prototypes: a correct one passes, and the faults of others are found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import myops
from myops.testing import Case, CheckError, check_op

LIBRARY = "a prototype has no library for ONNX Runtime"


def scale_rows(x: np.ndarray, w: np.ndarray, *, gain: float, shift: float) -> np.ndarray:
    """gain * x @ w + shift."""
    total = np.zeros(x.shape[0])
    for column in range(x.shape[1]):  # in one order, whatever the memory looks like
        total = total + x[:, column].astype(np.float64) * w[column]
    with np.errstate(over="ignore"):
        return (gain * total + shift).astype(x.dtype)


def slow(x: torch.Tensor, w: torch.Tensor, gain: float = 0.7, shift: float = 0.0) -> torch.Tensor:
    return float(np.float32(gain)) * (x @ w) + shift


def shape(inputs: Any, attributes: dict[str, Any]) -> list[Any]:
    x, w = inputs
    for name, item, rank in (("x", x, 2), ("w", w, 1)):
        if len(item.shape) != rank:
            raise ValueError(f"scale_rows: {name}: got rank {len(item.shape)}, expected {rank}")
    if w.shape[0] != x.shape[1]:
        raise ValueError(f"scale_rows: w: got length {w.shape[0]}, expected {x.shape[1]}")
    return [[x.shape[0]]]


def save(ctx: Any, inputs: Any, attributes: dict[str, Any], output: Any) -> None:
    ctx.save_for_backward(*inputs)
    ctx.gain = attributes["gain"]


def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    x, w = ctx.saved_tensors
    return ctx.gain * grad[:, None] * w, ctx.gain * (grad @ x)


def standard(g: Any, names: tuple[str, str] = ("gain", "shift")) -> list[str]:
    gain, shift = (g.constant(np.array(g.attribute(name), g.dtype("x"))) for name in names)
    product = g.op("MatMul", g.input("x"), g.input("w"))
    return [g.op("Add", g.op("Mul", product, gain), shift)]


def prototype(domain: str, **changes: Any) -> Callable[..., Any]:
    rules: dict[str, Any] = {
        "function": scale_rows, "shape": shape, "save": save, "backward": backward,
        "standard": standard, **changes,
    }  # fmt: skip
    gain, shift = (myops.Attribute(name, at, "?") for name, at in (("gain", 0.7), ("shift", 0.0)))
    return myops.prototype(
        rules.pop("function"),
        name="scale_rows",
        domain=domain,
        types=rules.pop("types", {"T": ["float32", "float64"]}),
        inputs=[myops.Input("x", "T", "Rank 2."), myops.Input("w", "T", "Rank 1.")],
        outputs=[myops.Output("y", "T", "Rank 1.")],
        attributes=rules.pop("attributes", [gain, shift]),
        **rules,
    )


CASES = [
    Case((torch.randn(3, 5), torch.randn(5)), {"gain": 1.5, "shift": -0.25}, name="rows"),
    Case((torch.randn(3, 5), torch.randn(5)), name="defaults"),  # 0.7 is no float of 32 bits
    Case((torch.randn(3, 5), torch.randn(4)), refused="w: got length 4, expected 5"),
]


def test_a_sound_prototype_passes() -> None:
    report = check_op(prototype("sound"), CASES, reference=slow)
    assert list(report.idle) == ["threads"]
    assert "does not apply to a prototype" in report.idle["threads"]
    (places,) = [where for note, where in report.notes.items() if note.startswith(LIBRARY)]
    assert {"values", "errors", "dynamo", "torchscript"} <= set(places)
    ran = {tally.check: tally.ran for tally in report.tallies if tally.case == "rows"}
    # The reference; NumPy, PyOp and onnx's evaluator, also with arguments by name.
    assert ran["values"] == 7
    assert ran["dynamo"] == 11  # node and body; evaluator, PyOp and body at three lengths


def test_the_torch_op_of_a_prototype_is_accepted() -> None:
    prototype("sound")
    op = torch.ops.sound.scale_rows
    assert not check_op(op, CASES, reference=slow, only=["values", "errors"]).failures


# ---- One fault each: what is changed, which families must find it, a part of their message.


def swapped(inputs: Any, attributes: Any) -> list[Any]:
    return [[shape(inputs, attributes) and inputs[1].shape[0]]]


def swapped_for_names(inputs: Any, attributes: Any) -> list[Any]:
    """Right wherever the lengths are numbers."""
    known = isinstance(inputs[0].shape[0], int)
    return [[inputs[0 if known else 1].shape[0]]]


def frozen(inputs: Any, attributes: Any) -> list[Any]:
    return [[int(shape(inputs, attributes)[0][0])]]


def no_gain(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    x, w = ctx.saved_tensors
    return grad[:, None] * w, grad @ x


calls: list[int] = []


def remembering(x: np.ndarray, w: np.ndarray, *, gain: float, shift: float) -> np.ndarray:
    calls.append(1)
    return scale_rows(x, w, gain=gain, shift=shift) + 1e-3 * len(calls)


FAULTS: dict[str, tuple[dict[str, Any], list[str], str]] = {
    "shape_swapped": (
        {"shape": swapped}, ["values"],
        "y: got shape [3] from the function, expected [5], what the shape rule says",
    ),
    "shape_of_names": ({"shape": swapped_for_names}, ["shapes", "export"], "shape [5]"),
    "shape_frozen": ({"shape": frozen}, ["export", "compile"], "symbolic length into a number"),
    "wrong_gradient": ({"backward": no_gain}, ["gradients"], "Jacobian mismatch"),
    "no_gradient": ({"save": None, "backward": None}, ["gradients"], "not differentiable"),
    "other_body": (
        {"standard": lambda g: standard(g, ("shift", "gain"))}, ["bodies", "torchscript"],
        "the function body: ",
    ),
    "no_body": ({"standard": None}, ["bodies", "torchscript"], "no function body in the"),
    "remembers": ({"function": remembering}, ["purity"], "not deterministic"),
    "wrong_numbers": (
        {"function": lambda x, w, *, gain, shift: gain * (x @ w)}, ["values"], "reference: ",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_each_fault_is_found(name: str) -> None:
    changes, families, words = FAULTS[name]
    with pytest.raises(CheckError) as error:
        check_op(prototype(name, **changes), CASES, reference=slow, only=families)
    assert {failure.check for failure in error.value.report.failures} == set(families)
    assert words in str(error.value)


def test_a_skipped_family_with_a_reason_does_not_fail() -> None:
    op = prototype("bodiless", standard=None)
    families = ["values", "bodies", "torchscript"]
    report = check_op(op, CASES, reference=slow, only=families, skip={"bodies": "none is wanted"})
    assert report.idle == {"bodies": "none is wanted"}


def largest(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    products = (x * w).astype(x.dtype)
    return products.max(1) if products.shape[1] else np.zeros(len(x), x.dtype)


def largest_backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    x, w = ctx.saved_tensors
    if x.shape[1] == 0:
        return torch.zeros_like(x), torch.zeros_like(w)
    chosen = torch.nn.functional.one_hot((x * w).argmax(1), x.shape[1]) * grad[:, None]
    return (chosen * w).to(x.dtype), (chosen * x).sum(0).to(x.dtype)


def test_derivatives_that_jump_are_no_fault() -> None:
    """Rounding to float16 chooses another product as the largest."""
    op = prototype(
        "jumping", function=largest, backward=largest_backward, standard=None, attributes=[],
        save=lambda ctx, inputs, attributes, output: ctx.save_for_backward(*inputs),
        types={"T": ["float16", "float32", "float64"]},
    )  # fmt: skip
    torch.manual_seed(0)
    near = Case((1 + torch.randn(40, 25) * 0.002, 1 + torch.randn(25) * 0.002), name="near")
    check_op(op, [near], reference=lambda x, w: (x * w).amax(1), only=["gradients"])


@pytest.mark.parametrize("right", [True, False])
def test_an_output_that_rounds_more_than_a_difference(right: bool) -> None:
    """Differences of it would be zeros and steps: those of the other output are taken."""
    factor = 2 if right else 3
    both = myops.prototype(
        lambda x: (x * 2, x.astype(np.float16)), name=f"two_{right}".lower(), domain="rounded",
        types={"T": ["float32", "float64"], "H": ["float16"]},
        inputs=[myops.Input("x", "T", "")],
        outputs=[myops.Output("y", "T", ""), myops.Output("h", "H", "")],
        shape="S... -> S..., S...",
        backward=lambda ctx, g, h: (factor * g + h.to(g.dtype),),
    )  # fmt: skip

    def check() -> Any:
        return check_op(both, [Case((torch.randn(3, 4),))], only=["gradients"])

    if not right:
        with pytest.raises(CheckError, match="first derivatives that differences confirm"):
            check()
        return
    assert "float16 round more than float64" in str(check())
