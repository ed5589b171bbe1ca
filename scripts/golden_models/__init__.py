"""What scripts/make_golden.py makes for each op: one file an op, found by its name.

A file has `nodes(rng)`, models of one node, and may have `nets()`, networks to export. Results are
computed without our kernels.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np
import torch


@dataclass(frozen=True)
class Node:
    """A model of one node, without a function body.

    Attributes:
        name: Of the file, after "node_".
        op: Name in the description.
        inputs: In the order of the op; None: left out.
        attributes: Of the node.
        wanted: The expected result.
        dtype: Of the computation, which decides the tolerance.
        products: How many products each element adds up, for the tolerance.
        every_version: Whether a file is written for each IR version, not for the first alone.
    """

    name: str
    op: str
    inputs: Sequence[np.ndarray | None]
    attributes: dict[str, Any]
    wanted: np.ndarray
    dtype: str
    products: int = 1
    every_version: bool = False


@dataclass(frozen=True)
class Net:
    """A network that is exported.

    Attributes:
        module: Its `op` is our function.
        exact: The same function without our kernels, in any dtype.
        inputs: Of the example.
        lowest: The oldest opset of its standard form.
    """

    module: torch.nn.Module
    exact: Callable[..., torch.Tensor]
    inputs: dict[str, torch.Tensor]
    lowest: int

    def expected(self, *inputs: torch.Tensor) -> np.ndarray:
        """The result in float64."""
        module: Any = self.module
        ours, module.op = module.op, self.exact
        try:
            with torch.no_grad():
                return module.double()(*[item.double() for item in inputs]).numpy()
        finally:
            module.op = ours
            module.float()


class Layer(torch.nn.Module):
    """A convolution, with whose result a network calls `op`."""

    def __init__(self, op: Callable[..., torch.Tensor]) -> None:
        super().__init__()
        self.op = op
        self.convolution = torch.nn.Conv2d(3, 4, 3, padding=1)


def wide(array: np.ndarray) -> np.ndarray:
    return array.astype(np.float64) if array.dtype.kind == "f" else array


def modules() -> list[ModuleType]:
    names = sorted(item.name for item in pkgutil.iter_modules(__path__))
    return [importlib.import_module(f"{__name__}.{name}") for name in names]
