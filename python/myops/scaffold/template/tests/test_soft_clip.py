"""soft_clip: right numbers and gradients, and equal bits in every runtime."""

import myops.onnx
import myops.ort
import numpy as np
import onnxruntime
import pytest
import torch

from my_package import soft_clip


def reference(x, limit):
    return limit * np.tanh(x.astype(np.float64) / limit)


class Model(torch.nn.Module):
    def forward(self, x):
        return soft_clip(x, limit=2.0) + 1


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("shape", [(), (0, 3), (5,), (129, 257)])
def test_numbers(shape, dtype):
    x = 10 * torch.randn(shape, dtype=dtype)
    y = soft_clip(x, limit=2.0)
    assert (y.shape, y.dtype) == (x.shape, x.dtype)
    np.testing.assert_allclose(y.numpy(), reference(x.numpy(), 2.0), rtol=1e-5)


def test_a_limit_must_be_above_0():
    with pytest.raises(RuntimeError, match="soft_clip: limit: got -1, expected a number above 0"):
        soft_clip(torch.ones(3), limit=-1.0)


def test_torch():
    x = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(soft_clip, x)
    assert torch.autograd.gradgradcheck(soft_clip, x)
    torch.library.opcheck(torch.ops.my_package.soft_clip.default, (x,), {"limit": 2.0})
    assert torch.equal(torch.compile(soft_clip, fullgraph=True)(x), soft_clip(x))
    assert torch.equal(torch.jit.script(soft_clip)(x), soft_clip(x))


@pytest.mark.parametrize("exporter", ["dynamo", "torchscript"])
def test_export(tmp_path, exporter):
    file = str(tmp_path / "model.onnx")
    x = torch.randn(3, 4)
    names = {"input_names": ["x"], "dynamic_axes": {"x": {0: "rows"}}}
    model = myops.onnx.export(Model(), (x,), file, exporter=exporter, **names)
    assert ("my_package", "SoftClip") in {(node.domain, node.op_type) for node in model.graph.node}

    feed = {"x": np.random.default_rng(0).standard_normal((7, 4), np.float32)}
    expected = Model()(torch.from_numpy(feed["x"])).numpy()
    for session in (myops.ort.session(file), myops.ort.pyop_session(file)):
        assert np.array_equal(session.run(None, feed)[0], expected)  # the same kernel: equal bits
    (standard,) = onnxruntime.InferenceSession(file).run(None, feed)  # without the kernel
    np.testing.assert_allclose(standard, expected, rtol=1e-5)
