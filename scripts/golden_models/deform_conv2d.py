"""Golden models of deform_conv2d."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from reference_deform_conv2d import deform_conv2d as reference
from runtimes import random_array

import myops
from golden_models import Layer, Net, Node, wide

ATTRIBUTES = {"strides": [2, 1], "pads": [1, 0, 1, 0], "dilations": [2, 1], "group": 2,
              "offset_group": 3}  # fmt: skip


def arrays(rng: np.random.Generator) -> list[np.ndarray]:
    """X, W, offset, B and mask for ATTRIBUTES."""
    return [
        random_array(rng, (2, 6, 7, 6), "float64"), rng.standard_normal((4, 3, 3, 2)),
        rng.standard_normal((2, 36, 3, 5)) * 2, rng.standard_normal(4),
        rng.standard_normal((2, 18, 3, 5)),
    ]  # fmt: skip


def expected(inputs: list[Any]) -> np.ndarray:
    x, weight, offset, bias, mask = (
        None if item is None else torch.from_numpy(wide(item)) for item in inputs
    )
    return reference(
        x, weight, offset, bias, mask, tuple(ATTRIBUTES["strides"]), tuple(ATTRIBUTES["pads"]),
        tuple(ATTRIBUTES["dilations"]), ATTRIBUTES["group"], ATTRIBUTES["offset_group"],
    ).numpy()  # fmt: skip


def nodes(rng: np.random.Generator) -> Iterator[Node]:
    x, weight, offset, bias, mask = arrays(rng)
    for version, optional in ((1, [None, None]), (2, [bias, mask])):
        for dtype in ("float16", "float32", "float64"):
            parts = [x, weight, offset, *optional]
            inputs = [None if item is None else item.astype(dtype) for item in parts]
            yield Node(
                f"deform_v{version}_{dtype}", "deform_conv2d", inputs, ATTRIBUTES,
                expected(inputs), dtype, products=18,
                every_version=(version, dtype) == (2, "float32"),
            )  # fmt: skip


class Deform(Layer):
    def __init__(self, masked: bool) -> None:
        super().__init__(myops.deform_conv2d)
        self.offset = torch.nn.Conv2d(3, 18, 3, padding=1)
        self.modulation = torch.nn.Conv2d(3, 9, 3, padding=1) if masked else None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mask = None if self.modulation is None else self.modulation(x).sigmoid()
        weight, bias = self.convolution.weight, self.convolution.bias
        return self.op(x, self.offset(x), weight, bias, padding=1, mask=mask)


def exact(x: Any, offset: Any, weight: Any, bias: Any, *, padding: int, mask: Any) -> Any:
    return reference(x, weight, offset, bias, mask, pads=(padding,) * 4)


def nets() -> dict[str, Net]:
    inputs = {"x": torch.randn(2, 3, 6, 5)}
    return {f"deform_v{1 + masked}": Net(Deform(masked), exact, inputs, 11) for masked in (0, 1)}
