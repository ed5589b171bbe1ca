"""homography_warp: the conformance suite with the slow reference, torch's grid_sample as another
reference, and what the documentation says of points that no plane has."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from myops_gallery import homography_warp
from reference_homography_warp import homography_warp as slow

import myops.onnx
import myops.ort
from myops.testing import Case, checks

torch.manual_seed(20240229)


def homographies(*shape, dtype=torch.float32):
    """Near the identity; some pixels see points outside."""
    spread = torch.tensor([[0.1, 0.1, 0.8], [0.1, 0.1, 0.8], [0.02, 0.02, 0.1]], dtype=dtype)
    return torch.eye(3, dtype=dtype) + torch.randn(*shape, 3, 3, dtype=dtype) * spread


STACK, MAPS = torch.rand(2, 3, 4, 5, 6), homographies(2, 3)
CASES = [
    Case((STACK, MAPS, [7, 4]), name="list"),
    Case((STACK[:, :, :, :4].contiguous(), MAPS, torch.tensor([5, 6])), name="tensor"),
    Case((STACK, MAPS[:, :2], [5, 6]), name="depth",
         refused="homographies: got shape [2, 2, 3, 3], expected [N, D, 3, 3] with N = 2, D = 3"),
    Case((STACK[:, :, :3], MAPS, [5, 6]), name="no alpha",
         refused="planes: got shape [2, 3, 3, 5, 6], expected [N, D, 4, H, W]"),
    Case((STACK, MAPS, [7]), name="size",
         refused="size: got 1 numbers, expected lengths [h, w]"),
]  # fmt: skip


@pytest.mark.parametrize("check", checks(homography_warp, CASES, reference=slow, gradients=1))
def test_conformance(check):
    check()


def reference(planes, maps, size):
    """The same of torch's own functions, which differentiate themselves."""
    (N, D), (h, w), (height, width) = maps.shape[:2], planes.shape[-2:], size
    y, x = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
    pixels = torch.stack([x, y, torch.ones_like(x)]).reshape(3, -1).to(maps.dtype)
    seen = maps @ pixels
    u, v = seen[:, :, 0] / seen[:, :, 2], seen[:, :, 1] / seen[:, :, 2]
    grid = torch.stack([(2 * u + 1) / w - 1, (2 * v + 1) / h - 1], -1)
    stack = planes.expand(N, D, 4, h, w).reshape(N * D, 4, h, w)
    seen = F.grid_sample(stack, grid.reshape(N * D, height, width, 2), align_corners=False)
    image = torch.zeros(N, 3, height, width, dtype=maps.dtype)
    for plane in seen.reshape(N, D, 4, height, width).unbind(1):
        image = plane[:, 3:] * plane[:, :3] + (1 - plane[:, 3:]) * image
    return image


@pytest.mark.parametrize("shape", [(2, 3, 4, 5, 6), (3, 4, 9, 4)])
def test_torch_agrees_and_so_do_its_gradients(shape):
    planes = torch.rand(shape, dtype=torch.float64, requires_grad=True)
    maps = homographies(2, 3, dtype=torch.float64).requires_grad_()
    image, expected = homography_warp(planes, maps, [7, 5]), reference(planes, maps, [7, 5])
    torch.testing.assert_close(image, expected, rtol=0, atol=1e-12)
    weights = torch.randn_like(image)
    grads = [torch.autograd.grad(item, (planes, maps), weights) for item in (image, expected)]
    torch.testing.assert_close(*grads, rtol=1e-10, atol=1e-10)


def test_pixel_centres_are_whole_numbers():
    image = torch.rand(1, 4, 3, 5)
    image[:, 3] = 1
    assert torch.equal(homography_warp(image, torch.eye(3)[None, None], [3, 5]), image[:, :3])
    shift = torch.tensor([[1.0, 0, 2], [0, 1, -1], [0, 0, 1]])  # pixel (x, y) sees (x + 2, y - 1)
    moved = homography_warp(image, shift[None, None], [3, 5])
    assert torch.equal(moved[:, :, 1:, :3], image[:, :3, :2, 2:])
    assert not moved[:, :, 0].any()
    assert not moved[:, :, :, 3:].any()


def test_front_covers_back_and_alpha_is_straight():
    front, back = torch.full((4, 2, 2), 0.5), torch.full((4, 2, 2), 1.0)
    image = homography_warp(torch.stack([back, front]), torch.eye(3).expand(1, 2, 3, 3), [2, 2])
    assert torch.equal(image, torch.full((1, 3, 2, 2), 0.5 * 0.5 + 0.5 * 1.0))


@pytest.mark.parametrize("last", [0.0, -1.0, float("nan"), float("inf"), -float("inf")])
def test_what_is_not_in_front_is_transparent_and_has_no_gradient(last):
    planes = torch.rand(2, 4, 3, 3, requires_grad=True)
    maps = torch.eye(3).repeat(1, 2, 1, 1)
    maps[0, 1, 2, 2] = last
    if last == float("inf"):
        maps[0, 1, 0, 0] = last  # inf / inf
    maps.requires_grad_()
    image = homography_warp(planes, maps, [3, 4])
    assert torch.equal(image, homography_warp(planes[:1], maps[:, :1], [3, 4]))
    image.sum().backward()
    assert maps.grad[0, 0].any()
    assert not maps.grad[0, 1].any()
    assert not planes.grad[1].any()


def test_second_derivatives_are_refused():
    planes = STACK.clone().requires_grad_()
    image = homography_warp(planes, MAPS, [5, 6])
    (grad,) = torch.autograd.grad(image.sum(), planes, create_graph=True)
    with pytest.raises(RuntimeError, match="not differentiable"):
        grad.sum().backward()


def test_a_wrong_gradient_is_refused():
    backward = torch.ops.myops_gallery.homography_warp_backward
    with pytest.raises(
        RuntimeError, match=r"grad_image: got shape \[2, 3, 5, 5\], expected \[2, 3, 5, 6\]"
    ):
        backward(torch.ones(2, 3, 5, 5), STACK, MAPS, torch.tensor([5, 6]))


@pytest.mark.parametrize("exporter", ["dynamo", "torchscript"])
def test_one_stack_for_all_views_and_a_size_from_outside(exporter):
    class Model(torch.nn.Module):
        def forward(self, planes, maps, size):
            return homography_warp(planes, maps, size)

    names = ["planes", "maps", "size"]
    arguments = (STACK[0], MAPS, torch.tensor([5, 6]))
    axes = {"planes": {0: "depth"}, "maps": {0: "views", 1: "depth"}}
    settings = {"exporter": exporter, "input_names": names, "dynamic_axes": axes}
    model = myops.onnx.export(Model(), arguments, **settings)
    others = (STACK[1, :2], homographies(5, 2), torch.tensor([9, 3]))
    feed = {name: item.numpy() for name, item in zip(names, others, strict=True)}
    (image,) = myops.ort.session(model).run(None, feed)
    assert image.shape == (5, 3, 9, 3)
    assert np.array_equal(image, Model()(*others).numpy())


def test_older_opsets():
    class Model(torch.nn.Module):
        def forward(self, planes, maps):
            return homography_warp(planes, maps, [4, 7])

    arguments = (STACK, MAPS)
    settings = {"exporter": "torchscript", "opset_version": 16, "input_names": ["planes", "maps"]}
    model = myops.onnx.export(Model(), arguments, **settings)
    feed = {"planes": STACK.numpy(), "maps": MAPS.numpy()}
    expected = Model()(*arguments).numpy()
    assert np.array_equal(myops.ort.session(model).run(None, feed)[0], expected)
    lowered = myops.onnx.lower(model)
    assert {node.domain for node in lowered.graph.node} == {""}
    (standard,) = myops.ort.session(lowered).run(None, feed)
    np.testing.assert_allclose(standard, expected, atol=1e-5)
    wide = tuple(item.double() for item in arguments)
    with pytest.warns(myops.onnx.MissingBodyWarning, match="GridSample knows float64 since opset"):
        myops.onnx.export(Model(), wide, **settings)
