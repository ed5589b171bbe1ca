"""Every family of the conformance tests on masks, complex numbers and dtypes of 8 bits."""

import ml_dtypes
import numpy as np
import pytest
import torch
from author_ops.dtypes import conjugate_product, dequantise, masked_fill, mirror, quantise

from myops.testing import Case, checks

torch.manual_seed(0)
ROWS = torch.randn(4, 7)
MASK = torch.rand(4, 7) > 0.5
WAVES = torch.randn(3, 5, dtype=torch.complex64), torch.randn(3, 5, dtype=torch.complex64)
NO_FORM = {"bodies": "ONNX has no operators on complex numbers"}


def slow_fill(x, mask, value=0.0):
    return torch.where(mask, torch.tensor(value, dtype=x.dtype), x)


def slow_quantise(x, scale=1.0):
    scaled = x / np.float32(scale)
    steps = scaled.round().nan_to_num(0, 127, -128).clamp(-128, 127).to(torch.int8)
    narrow = scaled.float().numpy().astype(ml_dtypes.float8_e4m3fn)  # torch makes 448 of infinity
    return steps, torch.from_numpy(narrow.view(np.uint8)).view(torch.float8_e4m3fn)


def slow_mirror(x):
    """Through NumPy: torch has no flip of uint16, uint32 and uint64."""
    return torch.from_numpy(x.numpy()[..., ::-1].copy())


FILL = [
    Case((ROWS, MASK), {"value": -2.5}, name="rows"),
    Case(
        (ROWS, MASK[:2]),
        refused="masked_fill: mask: got shape [2, 7], expected [S...] with S = [4, 7]",
        name="short",
    ),
    Case(
        (ROWS, MASK.to(torch.uint8)), refused="mask: got dtype uint8, expected bool", name="uint8"
    ),
]
MIRROR = [Case((ROWS,), name="rows"), Case((torch.randn(2, 3, 4),), name="three")]
PRODUCT = [
    Case(WAVES, name="waves"),
    Case((WAVES[0].conj(), WAVES[1]), name="lazy"),
    Case(
        (ROWS, ROWS), refused="a: got dtype float32, expected complex64 or complex128", name="real"
    ),
]
QUANTISE = [Case((10 * ROWS,), {"scale": 0.125}, name="rows")]
DEQUANTISE = [Case(((20 * ROWS).to(torch.int8),), {"scale": 0.125}, name="rows")]

FOUND = [
    *checks(masked_fill, FILL, reference=slow_fill),
    *checks(mirror, MIRROR, reference=slow_mirror),
    *checks(conjugate_product, PRODUCT, reference=lambda a, b: a * b.conj(), skip=NO_FORM),
    *checks(quantise, QUANTISE, reference=slow_quantise, gradients=0),
    *checks(dequantise, DEQUANTISE, reference=lambda q, scale=1.0: q.double() * np.float32(scale),
            skip={"specials": "int8 has none", "gradients": "integers have none"}),
]  # fmt: skip


@pytest.mark.parametrize("check", FOUND, ids=str)
def test_family(check):
    check()
