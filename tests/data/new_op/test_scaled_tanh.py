"""A new op in every runtime. Run by test_adding_an_op.py in a copy of the tree."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
from runtimes import assert_parity, random_array

import myops
import myops.onnx
import myops.ort
from myops.ops.scaled_tanh import reference


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(1,), (3, 5), (129, 257)])
def test_values_and_parity(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> None:
    x = random_array(rng, shape, dtype)
    (result,) = assert_parity("scaled_tanh", [x, None], {"alpha": 1.5})
    np.testing.assert_allclose(result, reference(x, 1.5), rtol=1e-5)
    assert_parity("scaled_tanh", [x, x.reshape(-1, shape[-1])[0].copy()], {"alpha": 1.5})


def test_torch() -> None:
    x = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    bias = torch.randn(4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda *a: myops.scaled_tanh(*a, alpha=0.5), (x, bias))
    assert torch.autograd.gradgradcheck(lambda *a: myops.scaled_tanh(*a, alpha=0.5), (x, bias))
    torch.library.opcheck(torch.ops.myops.scaled_tanh.default, (x, bias), {"alpha": 2.0})
    compiled = torch.compile(myops.scaled_tanh, fullgraph=True)
    torch.testing.assert_close(compiled(x, bias), torch.tanh(x) + bias)
    with pytest.raises(RuntimeError, match="scaled_tanh: bias: got length 3, expected 4"):
        myops.scaled_tanh(x, bias[:3])


@pytest.mark.parametrize("exporter", ["dynamo", "torchscript"])
def test_export(tmp_path: Any, exporter: str) -> None:
    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return myops.scaled_tanh(x, alpha=2.5)

    x = torch.randn(3, 4)
    file = str(tmp_path / "model.onnx")
    model = myops.onnx.export(Model(), (x,), file, exporter=exporter, input_names=["x"])
    assert [(n.domain, n.op_type) for n in model.graph.node] == [("myops", "ScaledTanh")]
    (native,) = myops.ort.session(file).run(None, {"x": x.numpy()})
    assert np.array_equal(native, Model()(x).numpy())
    (body,) = onnxruntime.InferenceSession(file).run(None, {"x": x.numpy()})
    np.testing.assert_allclose(body, native, rtol=1e-5)
