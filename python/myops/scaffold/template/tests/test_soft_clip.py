"""soft_clip: the conformance suite of myops.testing in every runtime, then what it does not ask."""

import myops.onnx
import myops.ort
import numpy as np
import onnxruntime
import pytest
import torch
from myops.testing import Case, checks

from my_package import soft_clip

CASES = [
    Case((torch.linspace(-5, 5, 12).reshape(3, 4),), {"limit": 2.0}),
    Case((torch.ones(3),), {"limit": -1.0}, refused="limit: got -1, expected a number above 0"),
]


def slow(x, limit=1.0):
    """What the op means: the checks call it with float64."""
    return limit * torch.tanh(x / limit)


# Values, lengths, layouts, dtypes, NaN, error texts, shapes, gradients, opcheck, torch.compile,
# both exporters; equal bits in torch, NumPy, ONNX Runtime and PyOps with any number of threads.
@pytest.mark.parametrize("check", checks(soft_clip, CASES, reference=slow), ids=str)
def test_conformance(check):
    check()


def test_torchscript():
    x = torch.randn(3, 4)
    assert torch.equal(torch.jit.script(soft_clip)(x), soft_clip(x))


class Model(torch.nn.Module):
    def forward(self, x):
        return soft_clip(x, limit=2.0) + 1


@pytest.mark.parametrize("exporter", ["dynamo", "torchscript"])
def test_export(tmp_path, exporter):
    """In a model, as a file, at another length."""
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
