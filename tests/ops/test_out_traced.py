"""Calls with `out=` in compiled, exported and transformed programs, and in wrapper tensors."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import onnx
import pytest
import torch
import torch.autograd.forward_ad as forward_ad
from out_cases import MODES, STATES
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.testing._internal.two_tensor import TwoTensor

import myops

G = torch.Generator().manual_seed(0)
X = torch.randn(2, 3, 5, 7, generator=G)
SCALES = torch.tensor([1.0, 1.0, 2.0, 3.0])
OURS = torch.ops.myops
Program = Callable[[Tensor, Tensor], Any]

# Each with its attributes, some of which torch's own operators for such calls have arguments of.
CALLS: dict[str, Program] = {
    "my_add": lambda x, out: myops.my_add(x, x, out=out),
    "overload": lambda x, out: OURS.my_add.out(x, x, out=out),
    "resize": lambda x, out: myops.resize(x, [1, 1, 2, 3], mode="cubic", out=out),
    "resize by a tensor": lambda x, out: myops.resize(x, SCALES, mode="linear", out=out),
    "overload of lists": lambda x, out: OURS.resize.values_out(
        x, None, [1.0, 1.0, 2.0, 3.0], None, mode="linear", out=out
    ),
    "interpolate": lambda x, out: myops.interpolate(x, (9, 8), mode="bilinear", out=out),
}
each_call = pytest.mark.parametrize("name", CALLS)


def result(name: str, x: Tensor) -> Tensor:
    shapes = {"my_add": x.shape, "overload": x.shape, "interpolate": (*x.shape[:2], 9, 8)}
    height, width = x.shape[2:]
    out = x.new_zeros(shapes.get(name, (*x.shape[:2], 2 * height, 3 * width)))
    with torch.no_grad():
        CALLS[name](x.detach(), out)
    return out


class Model(torch.nn.Module):
    """The result is written into a tensor that the model creates."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name

    def forward(self, x: Tensor) -> Tensor:
        n, c, height, width = x.shape
        sizes = {"my_add": (height, width), "overload": (height, width), "interpolate": (9, 8)}
        out = x.new_zeros(n, c, *sizes.get(self.name, (2 * height, 3 * width)))
        CALLS[self.name](x, out)
        return out + 1


def add(x: Tensor, out: Tensor) -> Tensor:
    return torch.add(x, 1, out=out)


@each_call
@pytest.mark.parametrize(
    ("backend", "dynamic"),
    [("eager", False), ("aot_eager", False), ("aot_eager", True), ("inductor", False)],
)
def test_compiled_calls_write_into_out(name: str, backend: str, dynamic: bool) -> None:
    torch._dynamo.reset()
    want = result(name, X)

    def program(x: Tensor, out: Tensor) -> Tensor:
        CALLS[name](x, out)
        return out + 1

    out = torch.zeros_like(want)
    saved = (torch.ones_like(want).requires_grad_() * out).sum()
    compiled = torch.compile(program, backend=backend, fullgraph=True, dynamic=dynamic)
    assert torch.equal(compiled(X, out), want + 1)
    assert torch.equal(out, want)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        saved.backward()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("out_state", ["plain", "leaf", "non-leaf", "detached"])
@pytest.mark.parametrize("x_state", ["plain", "leaf", "non-leaf", "detached"])
def test_compiled_calls_are_refused_as_torch_add_is(
    x_state: str, out_state: str, mode: str
) -> None:
    def refused(call: Program, shape: Any) -> bool:
        torch._dynamo.reset()
        x, out = STATES[x_state](X.clone()), STATES[out_state](torch.zeros(shape))

        def program(x: Tensor, out: Tensor) -> Tensor:
            with MODES[mode]():
                call(x, out)
            return x + 1

        try:
            torch.compile(program, backend="aot_eager")(x, out)
        except RuntimeError as error:
            text = str(error)
            assert "don't support automatic differentiation" in text or (
                "a tensor that requires grad, expected none in a call with out=" in text
            )
            assert not out.any(), "refused and written"
            return True
        return False

    expected = refused(add, X.shape)
    assert expected == (
        mode == "grad" and not {"leaf", "non-leaf"}.isdisjoint({x_state, out_state})
    )
    for name in ("my_add", "overload", "resize"):
        assert refused(CALLS[name], result(name, X).shape) == expected, name


@pytest.mark.parametrize(
    ("out", "text"),
    [
        (torch.empty(1, 3, 5, 7), r"out: got shape \[1, 3, 5, 7\], expected shape \[2, 3, 5, 7\]"),
        (torch.empty(2, 1, 2, 3, 5, 7), "out: got shape .*, expected shape"),
        (X.double(), "out: got dtype float64, expected float32"),
        (torch.empty(2, 3, 7, 5).mT, "out: got strides .*, expected contiguous memory"),
        (X[:1].clone().expand(2, 3, 5, 7), "out: got strides .*, expected contiguous memory"),
        (X.to("meta"), "out: got a tensor on meta, expected one on cpu"),
    ],
    ids=["length", "rank", "dtype", "strides", "expanded", "meta"],
)
@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_unsuitable_out_is_refused_without_a_new_version(
    out: Tensor, text: str, compiled: bool
) -> None:
    torch._dynamo.reset()
    call = CALLS["my_add"]
    for run in (call, CALLS["overload"]):
        program = torch.compile(run, backend="aot_eager", fullgraph=True) if compiled else run
        before = out._version
        with pytest.raises(RuntimeError, match=text):
            program(X, out)
        assert out._version == before


def test_wrong_symbolic_lengths_of_out_are_refused() -> None:
    torch._dynamo.reset()
    compiled = torch.compile(CALLS["resize"], backend="aot_eager", dynamic=True, fullgraph=True)
    assert torch.equal(compiled(X, torch.zeros(2, 3, 10, 21)), result("resize", X))
    with pytest.raises(RuntimeError, match=r"resize: out: got shape .*, expected shape"):
        compiled(X, torch.zeros(2, 3, 11, 21))


@each_call
@pytest.mark.parametrize("strict", [False, True])
def test_exported_calls_write_into_out(name: str, strict: bool) -> None:
    x = torch.randn(2, 3, 9, 7, generator=G)
    lengths = {"x": {2: torch.export.Dim.DYNAMIC}}
    program = torch.export.export(Model(name), (X,), dynamic_shapes=lengths, strict=strict)
    for item in (program, program.run_decompositions()):
        assert torch.equal(item.module()(x), result(name, x) + 1)


@each_call
def test_dynamo_exports_the_node(name: str) -> None:
    with torch.no_grad():
        program = torch.onnx.export(Model(name), (X,), dynamo=True, verbose=False)
    assert program is not None
    node = "MyAdd" if name in ("my_add", "overload") else "Resize"
    assert [item.op_type for item in program.model_proto.graph.node] == [node, "Add"]
    onnx.checker.check_model(program.model_proto)


@each_call
def test_torchscript_export_is_refused(name: str) -> None:
    with pytest.raises(RuntimeError, match="out: got a tensor in an export by the TorchScript"):
        torch.onnx.export(Model(name), (X,), io.BytesIO(), dynamo=False)


TRANSFORMED: dict[str, Callable[[Program, Tensor], Any]] = {
    "grad": lambda call, out: torch.func.grad(lambda x: call(x, out).sum())(X),
    "grad, out inside": lambda call, out: torch.func.grad(
        lambda x: call(x, x.detach().new_zeros(out.shape)).sum()
    )(X),
    "grad, other inputs": lambda call, out: torch.func.grad(
        lambda x: x.sum() * call(X, out.clone()).sum()
    )(X),
    "grad, overwritten": lambda call, out: torch.func.grad(
        lambda x: overwrite(call, x, x.detach()[:1, :1, :1, :1] * out)
    )(X),
    "vmap": lambda call, out: torch.vmap(lambda x: call(x, out))(torch.stack([X, X])),
    "vmap over out": lambda call, out: torch.vmap(call)(
        torch.stack([X, X]), torch.stack([out, out])
    ),
    "vmap, other inputs": lambda call, out: torch.vmap(lambda x: x.sum() + call(X, out))(X),
    "jvp": lambda call, out: torch.func.jvp(lambda x: call(x, out), (X,), (X,)),
    "tangent": lambda call, out: in_forward_mode(call, X, out, "x"),
    "tangent of out": lambda call, out: in_forward_mode(call, X, out, "out"),
    "no tangent": lambda call, out: in_forward_mode(call, X, out, ""),
    "functionalize": lambda call, out: torch.func.functionalize(call)(X, out),
}


def overwrite(call: Program, x: Tensor, out: Tensor) -> Tensor:
    """The gradient needs the earlier values of `out`."""
    y = (x.sum() * out).sum()
    call(X, out)
    return y


def in_forward_mode(call: Program, x: Tensor, out: Tensor, dual: str) -> Any:
    with forward_ad.dual_level():
        x = forward_ad.make_dual(x, x.clone()) if dual == "x" else x
        out = forward_ad.make_dual(out, out.clone()) if dual == "out" else out
        return call(x, out)


@pytest.mark.parametrize("transformed", TRANSFORMED)
@each_call
def test_transformed_calls_are_refused_as_torch_add_is(name: str, transformed: str) -> None:
    want = result(name, X)

    def ours(x: Tensor, out: Tensor) -> Tensor:
        CALLS[name](x, out)
        return out

    def refused(call: Program) -> bool:
        try:
            TRANSFORMED[transformed](call, torch.zeros(call_shape))
        except (RuntimeError, NotImplementedError):
            return True
        return False

    call_shape: Any = X.shape
    expected = refused(add)
    call_shape = want.shape
    assert refused(ours) == expected


def test_wrapper_tensors_have_a_new_version_after_a_call() -> None:
    for call in (add, CALLS["my_add"], CALLS["overload"]):
        x, out = TwoTensor(X, X + 1), TwoTensor(torch.zeros_like(X), torch.zeros_like(X))
        call(x, out)
        assert out._version == 1
        assert out.a.any()
        assert not torch.equal(out.a, out.b)


@pytest.mark.parametrize("device", ["meta", "fake"])
def test_meta_and_fake_tensors_as_out(device: str) -> None:
    with FakeTensorMode(allow_non_fake_inputs=True) if device == "fake" else torch.device("meta"):
        x, out, small = torch.empty(2, 3), torch.empty(2, 3), torch.empty(3)
        for call in (add, CALLS["my_add"], CALLS["overload"]):
            before = out._version
            call(x, out)
            assert out._version == before + 1
        with pytest.raises(RuntimeError, match=r"out: got shape \[3\], expected shape \[2, 3\]"):
            myops.my_add(x, x, out=small)
        assert small._version == 0
