"""volume_render: right numbers and gradients, and equal bits in every runtime."""

import numpy as np
import pytest
import torch
from myops_gallery import volume_render
from reference_volume_render import volume_render as slow

import myops.onnx
import myops.ort
from myops.testing import Case, checks


def in_torch(densities, colors, lengths, background=0.0):
    """The formula as the paper has it, for torch's autograd; no sample may be opaque."""
    alphas = 1 - torch.exp(-densities * lengths)
    kept = torch.cumprod(torch.cat([torch.ones_like(alphas[:, :1]), 1 - alphas], 1), 1)
    weights = kept[:, :-1] * alphas
    return (weights[..., None] * colors).sum(1) + kept[:, -1:] * background, weights


def scene(rays, samples, channels, dtype=torch.float32):
    generator = torch.Generator().manual_seed(rays * 100 + samples)
    draw = lambda *shape: torch.rand(shape, generator=generator, dtype=dtype)  # noqa: E731
    return 3 * draw(rays, samples), draw(rays, samples, channels), 0.1 + draw(rays, samples)


CASES = [
    Case(scene(3, 7, 4), {"background": 0.75}),
    Case(scene(5, 1, 2, torch.float64)),
    Case((*scene(4, 6, 3)[:2], torch.ones(4, 5)), name="lengths",
         refused="volume_render: lengths: got shape [4, 5], expected [R, S] with R = 4, S = 6"),
    Case((torch.ones(4), torch.ones(4, 6, 3), torch.ones(4, 6)), name="rank",
         refused="volume_render: densities: got shape [4], expected [R, S]"),
]  # fmt: skip


@pytest.mark.parametrize(
    "check", checks(volume_render, CASES, reference=slow, gradients=1), ids=str
)
def test_conformance(check):
    check()


@pytest.mark.parametrize("background", [0.0, 1.0])
def test_gradients_are_those_of_autograd(background):
    mine = [item.requires_grad_() for item in scene(9, 33, 3, torch.float64)]
    theirs = [item.detach().clone().requires_grad_() for item in mine]
    results = volume_render(*mine, background=background), in_torch(*theirs, background=background)
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other)
    factors = [torch.randn_like(item) for item in results[0]]  # the weights have a gradient too
    for result, inputs in zip(results, (mine, theirs), strict=True):
        sum((a * b).sum() for a, b in zip(result, factors, strict=True)).backward()
        assert all(item.grad is not None for item in inputs)
    for one, other in zip(mine, theirs, strict=True):
        torch.testing.assert_close(one.grad, other.grad)


def test_opaque_samples():
    """1 - alpha is 0 behind the wall, where a division would give NaN."""
    densities, colors, lengths = scene(2, 5, 3)
    densities[:, 2] = 1e6
    leaves = [item.requires_grad_() for item in (densities, colors, lengths)]
    pixels, weights = volume_render(*leaves, background=1.0)
    assert torch.equal(weights[:, 3:], torch.zeros(2, 2))
    torch.testing.assert_close(weights.sum(1), torch.ones(2))
    pixels.sum().backward()
    assert all(item.grad.isfinite().all() for item in leaves)
    assert (colors.grad[:, 2] > 0).all()
    assert (colors.grad[:, 3:] == 0).all()


def test_nothing_and_empty():
    densities, colors, lengths = scene(2, 5, 3)
    pixels, weights = volume_render(0 * densities, colors, lengths, background=0.5)
    assert torch.equal(pixels, torch.full((2, 3), 0.5))
    assert torch.equal(weights, torch.zeros(2, 5))
    pixels, _ = volume_render(torch.ones(2, 0), torch.ones(2, 0, 3), torch.ones(2, 0), 0.25)
    assert torch.equal(pixels, torch.full((2, 3), 0.25))
    for shape in ((0, 5, 3), (2, 5, 0), (0, 0, 0)):
        empty = [torch.ones(shape[:2]), torch.ones(shape), torch.ones(shape[:2])]
        pixels, weights = volume_render(*[item.requires_grad_() for item in empty])
        assert (pixels.shape, weights.shape) == ((shape[0], shape[2]), shape[:2])
        (pixels.sum() + weights.sum()).backward()
        assert [item.grad.shape for item in empty] == [item.shape for item in empty]


def test_scripts_and_second_derivatives():
    inputs = scene(2, 5, 3)
    scripted = torch.jit.script(volume_render)(*inputs)
    assert all(map(torch.equal, scripted, volume_render(*inputs)))
    leaf = inputs[0].requires_grad_()
    (grad,) = torch.autograd.grad(volume_render(*inputs)[0].sum(), leaf, create_graph=True)
    with pytest.raises(RuntimeError, match=r"volume_render_backward.* not differentiable"):
        torch.autograd.grad(grad.sum(), leaf)


class Depth(torch.nn.Module):
    """A network around both outputs: colors from a linear layer, depth from the weights."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layer = torch.nn.Linear(5, 4)

    def forward(self, features, lengths):
        values = self.layer(features)
        densities, colors = values[..., 0].relu(), values[..., 1:].sigmoid()
        pixels, weights = volume_render(densities, colors, lengths, background=1.0)
        return pixels, (weights * lengths.cumsum(1)).sum(1)


@pytest.mark.parametrize("exporter", ["dynamo", "torchscript"])
def test_export(tmp_path, exporter):
    file = str(tmp_path / "model.onnx")
    example = (torch.randn(4, 6, 5), torch.rand(4, 6))
    axes = {"features": {0: "rays", 1: "samples"}, "lengths": {0: "rays", 1: "samples"}}
    model = myops.onnx.export(
        Depth(), example, file, exporter=exporter, input_names=list(axes), dynamic_axes=axes
    )
    nodes = {(node.domain, node.op_type) for node in model.graph.node}
    assert ("myops_gallery", "VolumeRender") in nodes

    other = (torch.randn(3, 9, 5), torch.rand(3, 9))
    feed = dict(zip(axes, (item.numpy() for item in other), strict=True))
    expected = [item.detach().numpy() for item in Depth()(*other)]
    standard = myops.onnx.lower(model)
    assert {node.domain for node in standard.graph.node} == {""}
    for runnable in (file, standard):
        for got, wanted in zip(myops.ort.session(runnable).run(None, feed), expected, strict=True):
            np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6)
