"""An op with a float input that has no gradient: numbers of images beside corners of boxes."""

import numpy as np
import pytest
import torch
from author_ops import roi_align

from myops.testing import Case, checks

torch.manual_seed(0)
X = torch.randn(2, 3, 7, 6)
BOXES = torch.tensor([[0, 0.3, 0.6, 4.1, 5.2], [1, 1.1, 0.2, 5.0, 3.3], [1, -0.5, 2.0, 2.2, 8.4]])


def slow(x, boxes, height, width, scale=1.0, samples=2):
    scale = float(np.float32(scale))
    rows, columns = x.shape[2:]
    y = x.new_zeros(len(boxes), x.shape[1], height, width)
    if not rows * columns:
        return y
    for n, (image, left, top, right, bottom) in enumerate(boxes.tolist()):
        for i in range(height * samples):
            for j in range(width * samples):
                at_y = top * scale - 0.5 + (i + 0.5) * (bottom - top) * scale / height / samples
                at_x = left * scale - 0.5 + (j + 0.5) * (right - left) * scale / width / samples
                at_y, at_x = min(max(at_y, 0), rows - 1), min(max(at_x, 0), columns - 1)
                y0, x0 = int(at_y), int(at_x)
                y1, x1 = min(y0 + 1, rows - 1), min(x0 + 1, columns - 1)
                low, high = at_y - y0, at_x - x0
                upper, lower = x[int(image), :, y0], x[int(image), :, y1]
                above = upper[:, x0] * (1 - high) + upper[:, x1] * high
                below = lower[:, x0] * (1 - high) + lower[:, x1] * high
                sample = above * (1 - low) + below * low
                y[n, :, i // samples, j // samples] += sample / samples**2
    return y


CASES = [
    Case((X, BOXES), {"height": 2, "width": 3}, name="boxes"),
    Case((X, BOXES), {"height": 1, "width": 2, "scale": 0.5, "samples": 1}, name="scaled"),
    Case((X, BOXES + 1), {"height": 2, "width": 2}, name="images", refused_by_numbers=True,
         refused="roi_align: boxes: got image 2, expected a whole number below 2, the images of x"),
    Case((X, BOXES[:, 1:]), {"height": 2, "width": 2}, name="corners",
         refused="roi_align: boxes: got shape [3, 4], expected [K, 5]"),
]  # fmt: skip
FOUND = checks(roi_align, CASES, reference=slow, gradients=1, skip={"bodies": "none is written"})


@pytest.mark.parametrize("check", FOUND, ids=str)
def test_family(check):
    check()


def test_autograd_calls_the_kernel_of_the_gradient_without_python():
    x, boxes = X.clone().requires_grad_(), BOXES.clone().requires_grad_()  # boxes have none
    y = roi_align(x, boxes, height=2, width=3)
    assert "RoiAlignFunction" not in str(y.grad_fn)
    grad = torch.randn(y.shape)
    for by_kernel, by_python in zip(
        torch.autograd.grad(y, (x, boxes), grad, allow_unused=True, retain_graph=True),
        torch.autograd.grad(y, (x, boxes), grad, allow_unused=True, create_graph=True),
        strict=True,
    ):
        assert (by_kernel is None) == (by_python is None)
        assert by_kernel is None or torch.equal(by_kernel, by_python)
