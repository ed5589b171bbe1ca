"""soft_clip on a GPU: the numbers of the CPU, within what tanh may differ by."""

import pytest
import torch
from myops.testing import Case, check_op

from my_package import soft_clip

CASE = Case((torch.linspace(-5, 5, 1001),), {"limit": 2.0})


# Lengths, layouts, dtypes, NaN and gradients, on the GPU and on the CPU; calls repeat bit for bit.
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU that this PyTorch can use")
def test_on_gpu():
    check_op(soft_clip, [CASE], only=["device"], device="cuda")
    x = torch.linspace(-5, 5, 11, dtype=torch.float64, device="cuda", requires_grad=True)
    assert torch.autograd.gradcheck(soft_clip, x)
