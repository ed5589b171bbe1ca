"""Results that are written into tensors of the caller (out=)."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import myops

X = torch.randn(2, 3, 5, 7, generator=torch.Generator().manual_seed(0))
CALLS: dict[str, Any] = {
    "my_add": lambda x, out: myops.my_add(x, x + 1, out=out),
    "resize": lambda x, out: myops.resize(x, [1, 1, 2, 3], mode="cubic", out=out),
    "resize by a tensor": lambda x, out: myops.resize(
        x, torch.tensor([1.0, 1.0, 2.0, 3.0]), mode="linear", out=out
    ),
    "interpolate": lambda x, out: myops.interpolate(x, scale_factor=2.5, mode="bilinear", out=out),
}


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_result_in_out_equals_an_allocated_result(call: Any, layout: torch.memory_format) -> None:
    x = X.contiguous(memory_format=layout)
    want = call(x, None)
    out = torch.full_like(want, float("nan"))
    address = out.data_ptr()
    assert call(x, out) is out
    assert out.data_ptr() == address
    assert torch.equal(out, want)


@pytest.mark.parametrize(
    ("out", "text"),
    [
        (torch.empty(2, 3, 5, 6), r"out: got shape \[2, 3, 5, 6\], expected shape \[2, 3, 5, 7\]"),
        (torch.empty(2, 3, 5, 7, dtype=torch.float64), "out: got dtype float64, expected float32"),
        (torch.empty(2, 3, 7, 5).mT, "out: got strides .*, expected contiguous memory"),
        (X, "out: got memory that it shares with a, expected memory of its own"),
    ],
    ids=["shape", "dtype", "layout", "alias"],
)
def test_unsuitable_out_is_refused(out: torch.Tensor, text: str) -> None:
    with pytest.raises(RuntimeError, match=text):
        myops.my_add(X, torch.ones(2, 3, 5, 7), out=out)


def test_out_with_gradients_is_refused() -> None:
    x = X.clone().requires_grad_()
    with pytest.raises(RuntimeError, match="a: got a tensor that requires grad, expected none"):
        myops.my_add(x, X, out=torch.empty_like(X))
    with torch.no_grad():
        assert torch.equal(myops.my_add(x, X, out=torch.empty_like(X)), 3 * X)


def test_out_in_compiled_and_scripted_programs() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(x)
        myops.my_add(x, x, out=out)
        return out + 1

    with torch.no_grad():
        assert torch.equal(
            torch.compile(program, backend="aot_eager", fullgraph=True)(X), 3 * X + 1
        )
    scripted = torch.jit.script(myops.my_add)
    assert torch.equal(scripted(X, X, torch.empty_like(X)), 3 * X)
