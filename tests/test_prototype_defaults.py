"""Defaults and names that are hard to write down: every way into an op has the same ones."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import myops
import myops.onnx
import myops.ort
from myops import _stubs

TEXTS = ['a"b', "\\n", "\n", "\\", "\\101", "a\0b", "it's", "\t{} %s", "\x7f", "é\U0001f600"]
NUMBERS = [float("inf"), float("-inf"), float("nan"), 5e-324, 1e-310, 1e308, -0.0]
DEFAULTS: dict[str, Any] = {
    **{f"text_{i}": text for i, text in enumerate(TEXTS)},
    **{f"number_{i}": number for i, number in enumerate(NUMBERS)},
    "numbers": [1.0, float("inf"), 5e-324],
}
# Of 32 bits, whatever the data is: a default, and an equal value that a call gives.
ROUNDED: dict[str, Any] = {"ratio": 0.7, "ratios": [0.1, 0.2]}
GIVEN = {**DEFAULTS, **ROUNDED}
EXPECTED = {**DEFAULTS, **{name: np.float32(value).tolist() for name, value in ROUNDED.items()}}
seen: list[dict[str, Any]] = []


def record(x: np.ndarray, **attributes: Any) -> np.ndarray:
    seen.append(attributes)
    return x


recorded = myops.prototype(
    record,
    domain="defaults",
    types={"T": ["float32"]},
    inputs=[myops.Input("x", "T", ".")],
    outputs=[myops.Output("y", "T", ".")],
    attributes=[
        myops.Attribute(
            name, value, ".", type={float: "double", list: "doubles", str: "string"}[type(value)]
        )
        for name, value in DEFAULTS.items()
    ]
    + [
        myops.Attribute("ratio", 0.7, ".", at_least=0.7, at_most=0.7),
        myops.Attribute("ratios", [0.1, 0.2], ".", above=0.0999),
    ],
    shape="S... -> S...",
    save=lambda ctx, inputs, attributes, output: seen.append({**EXPECTED, **attributes}),
    backward=lambda ctx, grad: grad,
)
X = torch.ones(2)


class Model(torch.nn.Module):
    def __init__(self, given: bool = False) -> None:
        super().__init__()
        self.given = given

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return recorded(x, **GIVEN) if self.given else recorded(x)


def in_onnx_runtime(exporter: str, given: bool, folder: Path) -> None:
    file = folder / "model.onnx"
    myops.onnx.export(Model(given), (X,), file, input_names=["x"], exporter=exporter)
    myops.ort.pyop_session(file).run(None, {"x": X.numpy()})


class Plain(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return recorded(x)


WAYS: dict[str, Any] = {
    "function": lambda folder: recorded(X),
    "given": lambda folder: recorded(X, **GIVEN),
    "dispatcher": lambda folder: torch.ops.defaults.record(X),
    "dispatcher_given": lambda folder: torch.ops.defaults.record(X, **GIVEN),
    "autograd": lambda folder: recorded(X.clone().requires_grad_()),
    "autograd_given": lambda folder: recorded(X.clone().requires_grad_(), **GIVEN),
    "functorch_given": lambda folder: torch.func.grad(lambda x: recorded(x, **GIVEN).sum())(X),
    "numpy": lambda folder: recorded.numpy(X.numpy()),
    "numpy_given": lambda folder: recorded.numpy(X.numpy(), **GIVEN),
    "script": lambda folder: torch.jit.script(Plain())(X),
    "trace": lambda folder: torch.jit.trace(Plain(), X)(X),
    "compiled": lambda folder: torch.compile(Plain(), backend="aot_eager", fullgraph=True)(X),
    "dynamo": lambda folder: in_onnx_runtime("dynamo", False, folder),
    "dynamo_given": lambda folder: in_onnx_runtime("dynamo", True, folder),
    "torchscript": lambda folder: in_onnx_runtime("torchscript", False, folder),
    "torchscript_given": lambda folder: in_onnx_runtime("torchscript", True, folder),
}


@pytest.mark.parametrize("way", WAYS)
def test_defaults(way: str, tmp_path: Path) -> None:
    seen.clear()
    WAYS[way](tmp_path)
    assert seen
    for attributes in seen:
        for name, value in EXPECTED.items():
            got = attributes[name]
            if isinstance(value, str):
                assert got == value, name
            else:  # bits, so that -0 and NaN count
                assert np.float64(got).tobytes() == np.float64(value).tobytes(), name


def test_signatures_have_the_short_number() -> None:
    assert recorded.__defaults__ is not None
    assert recorded.__defaults__[-2:] == (0.7, (0.1, 0.2))
    assert _stubs._default(myops.Attribute("ratio", float(np.float32(0.7)), ".")) == " = 0.7"
    assert _stubs._default(myops.Attribute("exact", 0.7, ".", type="double")) == " = 0.7"


@pytest.mark.parametrize("name", DEFAULTS)
def test_stubs_can_be_read(name: str) -> None:
    default = _stubs._default(myops.Attribute(name, DEFAULTS[name], "."))
    ast.parse(f"def f(x{default}): ...")


@pytest.mark.parametrize("name", ["torch", "_op", "Tensor", "threads", "type", "outputs", "name"])
def test_names_of_attributes(name: str) -> None:
    op = myops.prototype(
        lambda x, **given: x * np.float32(given[name]),
        name=f"scaled_by_{name}",
        domain="defaults",
        types={"T": ["float32"]},
        inputs=[myops.Input("x", "T", ".")],
        outputs=[myops.Output("y", "T", ".")],
        attributes=[myops.Attribute(name, 2, ".")],
        shape="S... -> S...",
    )
    for call in (op, getattr(torch.ops.defaults, f"scaled_by_{name}"), torch.jit.script(op)):
        assert call(X).tolist() == [2, 2]
        assert call(X, **{name: 3}).tolist() == [3, 3]
    assert op.numpy(X.numpy(), **{name: 3}).tolist() == [3, 3]


@pytest.mark.parametrize("name", ["torch", "_op", "ctx"])
def test_names_of_inputs(name: str) -> None:
    op = myops.prototype(
        lambda x: 2 * x,
        name=f"twice_by_{name}",
        domain="defaults",
        types={"T": ["float32"]},
        inputs=[myops.Input(name, "T", ".")],
        outputs=[myops.Output("y", "T", ".")],
        shape="S... -> S...",
    )
    for call in (op, getattr(torch.ops.defaults, f"twice_by_{name}"), torch.jit.script(op)):
        assert call(X).tolist() == [2, 2]
        assert call(**{name: X}).tolist() == [2, 2]


def test_a_description_that_torch_refuses_leaves_nothing_behind() -> None:
    def made(count: int) -> Any:
        return myops.prototype(
            lambda *tensors: tensors[0],
            name="first",
            domain="defaults_refused",
            types={"T": ["float32"]},
            inputs=[myops.Input(f"x{i}", "T", ".") for i in range(count)],
            outputs=[myops.Output("y", "T", ".")],
            shape=lambda inputs, attributes: [inputs[0].shape],
        )

    with pytest.raises(ValueError, match=r"first: schema: got defaults_refused::first\(Tensor x0"):
        made(70)
    first = made(2)
    assert torch.equal(first(X, X), X)
    assert torch.equal(torch.jit.script(first)(X, X), X)


def test_a_call_without_any_input_is_refused() -> None:
    """torch's dispatcher would not know where to go."""
    op = myops.prototype(
        lambda x=None, w=None: np.float32([1]),
        name="all_optional",
        domain="defaults",
        types={"T": ["float32"]},
        inputs=[
            myops.Input("x", "T", ".", optional=True),
            myops.Input("w", "T", ".", optional=True),
        ],
        outputs=[myops.Output("y", "T", ".")],
        shape=lambda inputs, attributes: [[1]],
    )
    assert op(None, X).tolist() == [1]
    assert torch.ops.defaults.all_optional(X).tolist() == [1]
    for call in (op, op.numpy, torch.compile(lambda: op(), backend="eager")):
        with pytest.raises(
            (RuntimeError, ValueError), match="all_optional: x: got no input at all"
        ):
            call()
