"""soft_clip on a GPU: the numbers of the CPU, within what tanh may differ by."""

import pytest
import torch

from my_package import soft_clip


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU that this PyTorch can use")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_on_gpu(dtype):
    x = torch.linspace(-5, 5, 1001, dtype=dtype)
    y = soft_clip(x.cuda(), limit=2.0)
    assert y.is_cuda
    torch.testing.assert_close(y.cpu(), soft_clip(x, limit=2.0))
    assert torch.autograd.gradcheck(soft_clip, x[::100].double().cuda().requires_grad_())
