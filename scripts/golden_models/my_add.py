"""Golden models of my_add."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from runtimes import random_array

import myops
from golden_models import Layer, Net, Node, wide


def nodes(rng: np.random.Generator) -> Iterator[Node]:
    for dtype in ("float16", "float32", "float64", "int32", "int64"):
        a, b = random_array(rng, (2, 3, 1), dtype), random_array(rng, (3, 4), dtype)
        wanted = exact(wide(a), wide(b))  # integers wrap around, as ours do
        every = dtype == "float32"
        yield Node(f"add_{dtype}", "my_add", [a, b], {}, wanted, dtype, every_version=every)


class Add(Layer):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return self.op(self.convolution(x), y).relu()


def exact(a: Any, b: Any) -> Any:
    return 2 * a + b


def nets() -> dict[str, Net]:
    inputs = {"x": torch.randn(2, 3, 6, 5), "y": torch.randn(4, 1, 1)}
    return {"add": Net(Add(myops.my_add), exact, inputs, 9)}
