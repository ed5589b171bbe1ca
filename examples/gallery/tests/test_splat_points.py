"""splat_points: right numbers and gradients, and equal bits in every runtime."""

import numpy as np
import pytest
import torch
from myops_gallery import splat_points
from reference_splat_points import splat_points as slow

import myops.onnx
import myops.ort
from myops.testing import Case, checks

NO_BODY = "the nearest points of every pixel need a table of all pixels by all points"


def in_torch(points, features, size, radius, k):
    """For torch's autograd: a table of all pixels by all points."""
    height, width = size
    y, x = (axis.reshape(-1, 1) for axis in torch.meshgrid(
        torch.arange(height), torch.arange(width), indexing="ij"))  # fmt: skip
    square = ((points[:, None, :, 0] - x) ** 2 + (points[:, None, :, 1] - y) ** 2) / radius**2
    depth = points[:, None, :, 2].detach()
    seen = torch.where((square < 1) & (depth > 0), depth, torch.inf)
    nearest, places = torch.sort(seen, stable=True)
    alphas = torch.where(nearest < torch.inf, 1 - square.gather(2, places), 0.0)[..., :k]
    kept = torch.cumprod(torch.cat([torch.ones_like(alphas[..., :1]), 1 - alphas], 2), 2)
    rows = torch.arange(len(points))[:, None, None]
    chosen = features[rows, places[..., :k]]
    image = ((kept[..., :-1] * alphas)[..., None] * chosen).sum(2)
    return image.transpose(1, 2).reshape(len(points), -1, height, width)


def cloud(images, count, channels, dtype=torch.float32, height=6, width=8):
    """Points all over the image and a little beyond, some of them behind the camera."""
    generator = torch.Generator().manual_seed(images * 100 + count)
    draw = lambda *shape: torch.rand(shape, generator=generator, dtype=dtype)  # noqa: E731
    extent = torch.tensor([width + 2, height + 2, 3], dtype=dtype)
    points = draw(images, count, 3) * extent - torch.tensor([1.0, 1.0, 0.25], dtype=dtype)
    return points, draw(images, count, channels)


CASES = [
    Case((*cloud(2, 13, 3), [5, 6]), {"radius": 1.75, "k": 4}),
    Case((*cloud(1, 7, 2, torch.float64), torch.tensor([5, 4])), {"radius": 3.0}, name="tensor"),
    Case((*cloud(2, 5, 1), [3, 4]), {"radius": 0.0}, name="radius",
         refused="splat_points: radius: got 0, expected a number above 0"),
    Case((*cloud(2, 5, 1), [3, 4]), {"k": 0}, name="k",
         refused="splat_points: k: got 0, expected a number not below 1"),
    Case((*cloud(2, 5, 1), [3, -4]), name="size",
         refused="splat_points: size: got [3, -4], expected lengths [H, W]"),
    Case((*cloud(2, 5, 1), [3]), name="sizes",
         refused="splat_points: size: got 1 numbers, expected lengths [H, W]"),
    Case((torch.ones(2, 5, 2), torch.ones(2, 5, 1), [3, 4]), name="points",
         refused="splat_points: points: got shape [2, 5, 2], expected [N, P, 3]"),
    Case((torch.ones(2, 5, 3), torch.ones(2, 4, 1), [3, 4]), name="features",
         refused="features: got shape [2, 4, 1], expected [N, P, C] with N = 2, P = 5"),
]  # fmt: skip


@pytest.mark.parametrize(
    "check",
    checks(splat_points, CASES, reference=slow, gradients=1, skip={"bodies": NO_BODY}),
    ids=str,
)
def test_conformance(check):
    check()


@pytest.mark.parametrize(("count", "radius", "k"), [(40, 1.5, 3), (60, 2.5, 8), (3, 4.0, 5)])
def test_gradients_are_those_of_autograd(count, radius, k):
    points, features = cloud(2, count, 3, torch.float64)
    mine = [points.requires_grad_(), features.requires_grad_()]
    theirs = [item.detach().clone().requires_grad_() for item in mine]
    one = splat_points(*mine, (6, 8), radius=radius, k=k)
    other = in_torch(*theirs, (6, 8), radius, k)
    torch.testing.assert_close(one, other)
    factors = torch.randn_like(one)
    (one * factors).sum().backward()
    (other * factors).sum().backward()
    for a, b in zip(mine, theirs, strict=True):
        torch.testing.assert_close(a.grad, b.grad)
    assert points.grad[..., :2].abs().max() > 0
    assert points.grad[..., 2].abs().max() == 0


def test_of_equal_depth_the_first_is_in_front():
    points = torch.tensor([[[1.0, 1.0, 2.0]] * 3])
    features = torch.tensor([[[1.0], [10.0], [100.0]]])
    assert splat_points(points, features, (3, 3), radius=1.0)[0, 0, 1, 1] == 1
    near = points.clone()
    near[0, 2, 2] = 1.0
    assert splat_points(near, features, (3, 3), radius=1.0)[0, 0, 1, 1] == 100


def test_what_is_not_drawn():
    bad = [float("nan"), float("inf"), -float("inf")]
    rows = [[1.0, 1.0, z] for z in (0.0, -1.0, *bad)]
    rows += [[x, 1.0, 1.0] for x in bad] + [[1.0, y, 1.0] for y in bad]
    points = torch.tensor([rows], requires_grad=True)
    features = torch.ones(1, len(rows), 2, requires_grad=True)
    image = splat_points(points, features, (3, 3))
    assert torch.equal(image, torch.zeros(1, 2, 3, 3))
    image.sum().backward()
    assert torch.equal(points.grad, torch.zeros_like(points))
    assert torch.equal(features.grad, torch.zeros_like(features))


def test_a_disc_in_the_middle_of_a_large_image():
    """Far from the first band of rows; only the pixels under it change."""
    points, features = torch.tensor([[[70.25, 45.5, 1.0]]]), torch.full((1, 1, 1), 2.0)
    image = splat_points(points, features, (64, 96), radius=3.0)[0, 0]
    y, x = torch.meshgrid(torch.arange(64), torch.arange(96), indexing="ij")
    square = ((x - 70.25) ** 2 + (y - 45.5) ** 2) / 9
    torch.testing.assert_close(image, 2 * (1 - square).clamp(min=0))


def test_empty():
    for n, p, c, size in (
        (0, 5, 3, (4, 6)),
        (2, 0, 3, (4, 6)),
        (2, 5, 0, (4, 6)),
        (2, 5, 3, (0, 6)),
    ):
        points = torch.ones(n, p, 3, requires_grad=True)
        features = torch.ones(n, p, c, requires_grad=True)
        image = splat_points(points, features, size)
        assert torch.equal(image, torch.zeros(n, c, *size))
        image.sum().backward()
        assert torch.equal(points.grad, torch.zeros_like(points))
        assert torch.equal(features.grad, torch.zeros_like(features))


class Renderer(torch.nn.Module):
    def forward(self, points, features, size):
        image = splat_points(points, features, size, radius=2.0, k=4)
        return image.sigmoid()


@pytest.mark.parametrize("exporter", ["dynamo", "torchscript"])
def test_export(tmp_path, exporter):
    """The size of the image is an input; and without the library an error says what is missing."""
    import onnxruntime

    file = str(tmp_path / "model.onnx")
    example = (*cloud(2, 20, 3), torch.tensor([6, 8]))
    axes = {"points": {0: "n", 1: "p"}, "features": {0: "n", 1: "p"}}
    with pytest.warns(myops.onnx.MissingBodyWarning, match=NO_BODY):
        model = myops.onnx.export(
            Renderer(), example, file, exporter=exporter,
            input_names=["points", "features", "size"], dynamic_axes=axes,
        )  # fmt: skip
    other = (*cloud(3, 31, 3), torch.tensor([11, 9]))
    feed = dict(zip(("points", "features", "size"), (t.numpy() for t in other), strict=True))
    expected = Renderer()(*other).numpy()
    for session in (myops.ort.session(file), myops.ort.pyop_session(file)):
        np.testing.assert_allclose(session.run(None, feed)[0], expected, rtol=1e-6, atol=1e-7)
    with pytest.raises(myops.onnx.LoweringError, match=rf"{NO_BODY}\. Keep the node"):
        myops.onnx.lower(model)
    with pytest.raises(Exception, match="SplatPoints"):
        onnxruntime.InferenceSession(file)
