"""Every family of the conformance tests on an op whose shape rule is text."""

import pytest
import torch
from author_ops.windows import window_sums

from myops.testing import Case, checks

torch.manual_seed(0)


def slow(x, bias, size=2, step=1):
    lead = torch.broadcast_shapes(x.shape[:-2], bias.shape)
    rows, columns = ((n - size) // step + 1 for n in x.shape[-2:])
    y = torch.zeros(*lead, rows, columns, dtype=x.dtype) + bias[..., None, None]
    for i in range(rows):
        for j in range(columns):
            window = x[..., i * step : i * step + size, j * step : j * step + size]
            y[..., i, j] += window.sum((-1, -2))
    return y


CASES = [
    Case((torch.randn(2, 3, 5, 7), torch.randn(3)), {"size": 3, "step": 2}, name="one_batch"),
    Case((torch.randn(3, 4, 5), torch.randn(2, 1, 3)), name="broadcast"),
    Case((torch.randn(3, 4, 5), torch.randn(4)), name="channels",
         refused="window_sums: bias: got shape [4], expected [..., C] with C = 3"),
    Case((torch.randn(2, 3, 4, 5), torch.randn(5, 3)), name="lead",
         refused="window_sums: bias: got length 5 on axis 0, expected 1 or 2"),
    Case((torch.randn(3, 1, 5), torch.randn(3)), {"size": 3}, name="small",
         refused="window_sums: shape: got a length of -1 from {(H - size) // step + 1} with H = 1, "
         "size = 3, step = 1, expected 0 or more"),
]  # fmt: skip
FOUND = checks(window_sums, CASES, reference=slow)


@pytest.mark.parametrize("check", FOUND, ids=str)
def test_family(check):
    check()
