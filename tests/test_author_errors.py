"""Errors of any type from the functions of an author: callers get the names of the op and the part,
and the error itself as the cause."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from test_prototype_mistakes import made

import myops
import myops.onnx
import myops.ort

X = torch.ones(2, 3)


class OwnError(Exception):
    """Takes more than a text, so it cannot be made again from one."""

    def __init__(self, left: int, right: int) -> None:
        super().__init__(f"{left} and {right}")


def _raise_key(*_: Any, **__: Any) -> Any:
    return {}["limit"]  # type: ignore[index]


def _raise_own(*_: Any, **__: Any) -> Any:
    raise OwnError(1, 2)


def _raise_type(*_: Any, **__: Any) -> Any:
    return None + 1  # type: ignore[operator]


RAISED: dict[str, tuple[Callable[..., Any], str, type[Exception]]] = {
    "key": (_raise_key, "KeyError: 'limit'", KeyError),
    "own": (_raise_own, "OwnError: 1 and 2", OwnError),
    "type": (_raise_type, "TypeError: unsupported operand", TypeError),
}


class Net(torch.nn.Module):
    def __init__(self, op: Any) -> None:
        super().__init__()
        self.op = op

    def forward(self, x: torch.Tensor) -> Any:
        return self.op(x) + 1


def _export(op: Any, file: Path, **options: Any) -> onnx.ModelProto:
    return myops.onnx.export(Net(op), (X,), file, input_names=["x"], **options)


def _expect(op: Any, part: str, kind: str, call: Callable[[], Any]) -> None:
    _, text, cause = RAISED[kind]
    with pytest.raises(Exception, match=rf"{op.__name__}: {part} raised {text}") as info:
        call()
    found: BaseException | None = info.value
    if isinstance(found, torch._dynamo.exc.TorchDynamoException):
        return  # it has the text alone
    while found is not None and not isinstance(found, cause):
        found = found.__cause__
    assert found is not None


@pytest.mark.parametrize("kind", RAISED)
def test_the_function(kind: str, tmp_path: Path) -> None:
    op = made(RAISED[kind][0])
    dispatched = getattr(torch.ops.mistakes, op.__name__)
    for call in (
        lambda: op(X),
        lambda: op.numpy(X.numpy()),
        lambda: dispatched(X),
        lambda: torch.compile(op, backend="eager", fullgraph=True)(X),
        lambda: torch.func.vmap(op)(X),
    ):
        _expect(op, "the function", kind, call)


@pytest.mark.parametrize("kind", RAISED)
def test_the_function_where_a_file_runs(kind: str, tmp_path: Path) -> None:
    broken = False
    op = made(lambda x: RAISED[kind][0]() if broken else x)
    file = tmp_path / "model.onnx"
    _export(op, file)
    broken = True
    feed = {"x": X.numpy()}
    evaluator = onnx.reference.ReferenceEvaluator(str(file), new_ops=myops.onnx.reference_ops())
    for run in (myops.ort.pyop_session(file).run, evaluator.run):
        _expect(op, "the function", kind, lambda run=run: run(None, feed))


@pytest.mark.parametrize("kind", RAISED)
def test_the_shape_rule(kind: str, tmp_path: Path) -> None:
    op = made(shape=RAISED[kind][0])
    for call in (
        lambda: op(X),
        lambda: op.numpy(X.numpy()),
        lambda: op(X.to("meta")),
        lambda: torch.compile(op, backend="eager", fullgraph=True)(X),
        lambda: torch.compile(op, backend="eager", fullgraph=True, dynamic=True)(torch.ones(5, 3)),
        lambda: _export(op, tmp_path / "model.onnx"),
    ):
        _expect(op, "the shape rule", kind, call)


def test_a_shape_rule_that_fails_for_symbolic_lengths_only() -> None:
    def shape(inputs: Any, attributes: Any) -> Any:
        (rows, columns) = inputs[0].shape
        return [[{5: 5}[rows] if type(rows) is int else _raise_key(), columns]]

    op = made(shape=shape)
    compiled = torch.compile(op, backend="eager", fullgraph=True, dynamic=True)
    _expect(op, "the shape rule", "key", lambda: compiled(torch.ones(5, 3)))


@pytest.mark.parametrize("kind", RAISED)
@pytest.mark.parametrize("part", ["save", "backward"])
def test_gradients(part: str, kind: str) -> None:
    op = made(**{"backward": lambda ctx, grad: grad, part: RAISED[kind][0]})
    x = X.clone().requires_grad_()
    for call in (
        lambda: op(x).sum().backward(),
        lambda: getattr(torch.ops.mistakes, op.__name__)(x).sum().backward(),
        lambda: torch.func.grad(lambda x: op(x).sum())(X),
        lambda: torch.compile(op, backend="aot_eager")(x).sum().backward(),
    ):
        _expect(op, part, kind, call)


@pytest.mark.parametrize("kind", RAISED)
def test_forward_mode_and_batches(kind: str) -> None:
    op = made(backward=lambda ctx, grad: grad, jvp=RAISED[kind][0])
    _expect(op, "jvp", kind, lambda: torch.func.jvp(op, (X,), (X,)))
    op = made(vmap=RAISED[kind][0])
    _expect(op, "vmap", kind, lambda: torch.func.vmap(op)(X))
    _expect(op, "vmap", kind, lambda: torch.func.vmap(getattr(torch.ops.mistakes, op.__name__))(X))


@pytest.mark.parametrize("kind", RAISED)
def test_forms_of_nodes(kind: str, tmp_path: Path) -> None:
    op, file = made(standard=RAISED[kind][0]), tmp_path / "model.onnx"
    for options in ({}, {"target": "onnx"}, {"exporter": "torchscript"}):
        _expect(op, "standard", kind, lambda options=options: _export(op, file, **options))
    op = made(quantized=RAISED[kind][0])
    model = _export(op, file)
    data = [{"x": X.numpy()}]
    _expect(op, "quantized", kind, lambda: myops.onnx.quantize(model, data=data))


def test_what_is_no_rule_for_integers(tmp_path: Path) -> None:
    op = made(quantized=lambda attributes: ["x"])
    model = _export(op, tmp_path / "model.onnx")
    with pytest.raises(ValueError, match=r"quantized: got \['x'\], expected a dict of outputs and"):
        myops.onnx.quantize(model, data=[{"x": X.numpy()}])


def test_refusals_of_the_author_stay_as_they_are() -> None:
    for kind in (ValueError, TypeError, RuntimeError):

        def refuse(x: Any, kind: Any = kind) -> Any:
            raise kind("named: x: got 1, expected 2")

        op = myops.prototype(
            refuse, name="named", domain=f"refusals_{kind.__name__.lower()}",
            types={"T": ["float32"]}, inputs=[myops.Input("x", "T", ".")],
            outputs=[myops.Output("y", "T", ".")], shape="S... -> S...",
        )  # fmt: skip
        with pytest.raises((RuntimeError, TypeError), match=r"^named: x: got 1, expected 2$"):
            op(X)


def test_too_little_memory_stays_what_it_is() -> None:
    def large(x: np.ndarray) -> np.ndarray:
        raise MemoryError("no more")

    with pytest.raises(MemoryError, match=r"^no more$"):
        made(large).numpy(X.numpy())
