"""What every op looks like, read from the C++ descriptions. Needs NumPy, never torch."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from myops import _numpy

DOMAIN = "myops"
OPSET_VERSION = 1

Dim = int | str | None  # a length, a symbolic name, or unknown


@dataclass(frozen=True)
class InputInfo:
    name: str
    type: str
    doc: str
    optional: bool
    values: bool  # its numbers decide the output's shape
    access: str  # contiguous, channels_last, strided, shape_only


@dataclass(frozen=True)
class OutputInfo:
    name: str
    type: str
    doc: str


@dataclass(frozen=True)
class AttributeInfo:
    name: str
    type: str  # bool, int, float, string, ints, floats
    default: Any
    doc: str
    choices: tuple[str, ...]


@dataclass(frozen=True)
class OpInfo:
    name: str  # of torch and Python
    onnx_type: str  # of the node; empty for an op that has none
    since_version: int
    doc: str
    types: dict[str, tuple[str, ...]]
    inputs: tuple[InputInfo, ...]
    outputs: tuple[OutputInfo, ...]
    attributes: tuple[AttributeInfo, ...]

    @property
    def has_values(self) -> bool:
        return any(item.values for item in self.inputs)

    def is_integer(self, item: InputInfo) -> bool:
        return self.types[item.type][0].startswith(("int", "uint"))


def _read(raw: dict[str, Any]) -> OpInfo:
    return OpInfo(
        **{
            **raw,
            "inputs": tuple(InputInfo(**item) for item in raw["inputs"]),
            "outputs": tuple(OutputInfo(**item) for item in raw["outputs"]),
            "attributes": tuple(AttributeInfo(**item) for item in raw["attributes"]),
        }
    )


OPS: dict[str, OpInfo] = {raw["name"]: _read(raw) for raw in _numpy.describe_all()}


def onnx_ops() -> list[OpInfo]:
    """The ops that have an ONNX node."""
    return [info for info in OPS.values() if info.onnx_type]


def by_onnx_type(onnx_type: str) -> OpInfo:
    """The op whose ONNX node is `onnx_type`; KeyError when there is none."""
    for info in onnx_ops():
        if info.onnx_type == onnx_type:
            return info
    raise KeyError(onnx_type)


def infer(
    name: str,
    shapes: Sequence[Sequence[Dim] | None],
    dtypes: Sequence[str | None] = (),
    attributes: Mapping[str, Any] | None = None,
    values: Sequence[Sequence[float] | None] = (),
) -> list[tuple[str, list[Dim] | None]]:
    """Runs the op's shape rule.

    Args:
        name: Name of the op, e.g. "resize".
        shapes: One entry an input; None for an input that is left out.
        dtypes: One entry an input; None when unknown.
        attributes: Values that differ from the defaults.
        values: One entry an input: the numbers of a `values` input where they are known.

    Returns:
        (dtype, shape) of each output; a length is a number, a name or None.

    Raises:
        ValueError: The kernel's own refusal.
    """
    lists = [None if dims is None else list(dims) for dims in shapes]
    numbers = [None if item is None else [float(value) for value in item] for item in values]
    return _numpy.infer(name, lists, list(dtypes), dict(attributes or {}), numbers)


def call(
    name: str,
    inputs: Sequence[np.ndarray | None],
    attributes: Mapping[str, Any] | None = None,
    threads: int = 0,
) -> list[np.ndarray]:
    """Runs a kernel on NumPy arrays.

    Args:
        name: Name of the op, e.g. "my_add".
        inputs: One entry an input of the description; None for one that is left out.
        attributes: Values that differ from the defaults.
        threads: Most threads to use; 0 means MYOPS_NUM_THREADS or one per core. The result does
            not depend on it.

    Returns:
        The outputs. bfloat16 arrays have the dtype `ml_dtypes.bfloat16`.

    Raises:
        ValueError: The kernel's own refusal.

    Example:
        >>> call("my_add", [np.float32([1, 2]), np.float32([10, 20])])[0].tolist()
        [12.0, 24.0]
    """
    info = OPS[name]
    arrays = [
        None if array is None else _readable(name, np.asarray(array), item)
        for array, item in zip(inputs, info.inputs, strict=True)
    ]
    threads = threads or int(os.environ.get("MYOPS_NUM_THREADS", "0"))
    return _numpy.call(name, arrays, dict(attributes or {}), threads)


def _readable(name: str, array: np.ndarray, item: InputInfo) -> np.ndarray:
    """`array` itself when the kernel can walk its memory, else a copy that it can."""
    walkable = all(stride % max(array.itemsize, 1) == 0 for stride in array.strides)
    ready = array.flags.c_contiguous or (item.access == "strided" and walkable)
    unread = item.access == "shape_only"
    if array.dtype.isnative and (unread or (array.flags.aligned and ready)):
        return array
    _numpy.check_copy(name, item.name, list(array.shape), array.nbytes)
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    return np.require(array, requirements=["C", "A"])
