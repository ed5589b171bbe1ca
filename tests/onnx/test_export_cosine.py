"""torch.nn.functional.cosine_similarity in exported files, of vectors of any length."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import myops.onnx
import myops.ort


class Cosine(torch.nn.Module):
    def __init__(self, dim: int, eps: float) -> None:
        super().__init__()
        self.dim, self.eps = dim, eps

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return F.cosine_similarity(x, y, dim=self.dim, eps=self.eps)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
@pytest.mark.parametrize(
    ("exporter", "opset"), [("torchscript", 11), ("torchscript", 20), ("dynamo", 20)]
)
def test_short_vectors(exporter: str, opset: int, dtype: torch.dtype, dynamic: bool) -> None:
    generator = torch.Generator().manual_seed(0)
    tolerance, least = (2e-3, 1e-6) if dtype == torch.float16 else (1e-5, 1e-13)
    for dim, eps, shape in (
        (1, 1e-8, (5, 4)), (-1, 1e-3, (4,)), (0, 1e-3, (5, 1)), (1, 1e-2, (5, 1)),
        (2, 1e-3, (2, 5, 4)),
    ):  # fmt: skip
        examples = (torch.rand(5, 4).to(dtype), torch.rand(shape).to(dtype))
        changing = {axis: "n" for axis, length in enumerate(shape) if length == 5}
        shapes = {"x": {0: "n"}, "y": changing} if dynamic else None
        model = myops.onnx.export(
            Cosine(dim, eps), examples, exporter=exporter, opset_version=opset,
            input_names=["x", "y"], dynamic_shapes=shapes,
        )  # fmt: skip
        lengths = torch.tensor([1e-6, 1e-4, 1, 1e3, 0])[:, None]
        x = (torch.randn(5, 4, generator=generator) * lengths).to(dtype)
        y = (torch.randn(shape, generator=generator) * 1e-4).to(dtype)
        (got,) = myops.ort.session(model).run(None, {"x": x.numpy(), "y": y.numpy()})
        wanted = F.cosine_similarity(x.double(), y.double(), dim=dim, eps=eps).numpy()
        assert got.dtype == x.numpy().dtype
        np.testing.assert_allclose(got, wanted, rtol=tolerance, atol=least)
