"""Runs one op in each runtime on the same NumPy arrays, and compares bits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import torch

import myops.ort
from myops import _description, _numpy_call
from myops.onnx.schema import ELEMENT_TYPES
from myops.testing import bits, models
from myops.testing.bits import to_numpy as to_numpy
from myops.testing.calls import OpCall

ONNX_TYPES = ELEMENT_TYPES
Arrays = Sequence[np.ndarray | None]


def random_array(rng: np.random.Generator, shape: Sequence[int], dtype: str) -> np.ndarray:
    """Normal numbers for floats, the whole range for integers."""
    if dtype == "bfloat16":
        return rng.standard_normal(shape).astype(ml_dtypes.bfloat16)
    if dtype.startswith("float"):
        return rng.standard_normal(shape).astype(dtype)
    limits = np.iinfo(dtype)
    return rng.integers(limits.min, limits.max, shape, dtype=dtype, endpoint=True)


def to_torch(array: np.ndarray | None) -> torch.Tensor | None:
    return None if array is None else bits.to_torch(array)


def run_torch(
    name: str, inputs: Arrays, attributes: Mapping[str, Any] | None = None
) -> list[np.ndarray]:
    """The dispatcher op with tensor arguments."""
    import myops.ops

    myops.ops.modules()
    op = getattr(torch.ops.myops, name).default
    result = op(*[to_torch(array) for array in inputs], **(attributes or {}))
    return [to_numpy(item) for item in (result if isinstance(result, tuple) else (result,))]


def run_numpy(
    name: str, inputs: Arrays, attributes: Mapping[str, Any] | None = None, threads: int = 0
) -> list[np.ndarray]:
    return _numpy_call.call(name, inputs, attributes, threads)


def node_model(
    name: str, inputs: Arrays, attributes: Mapping[str, Any] | None = None, opset: int = 19
) -> onnx.ModelProto:
    """A model of one node of ours, for exactly these lengths."""
    call = OpCall(list(inputs), dict(attributes or {}))
    return models.node_model(_description.OPS[name], call, call.shapes, opset)


def feeds(name: str, inputs: Arrays) -> dict[str, np.ndarray]:
    return models.feeds(_description.OPS[name], OpCall(list(inputs), {}))


def run_ort(
    name: str,
    inputs: Arrays,
    attributes: Mapping[str, Any] | None = None,
    threads: int = 2,
) -> list[np.ndarray]:
    """The kernel inside an ONNX Runtime session."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = myops.ort.session(node_model(name, inputs, attributes), session_options=options)
    results = session.run(None, feeds(name, inputs))
    dtypes = models.output_dtypes(_description.OPS[name], OpCall(list(inputs), {}))
    return [
        array.astype(ml_dtypes.bfloat16) if dtype == "bfloat16" else array
        for array, dtype in zip(results, dtypes, strict=True)
    ]


def assert_equal_bits(actual: np.ndarray, expected: np.ndarray, what: str = "") -> None:
    """Same dtype, shape and bits; NaNs are equal when both are NaN."""
    got, wanted = bits.different_bits([actual], [expected])
    assert not got, f"{what}: {got}, not {wanted}"


def assert_parity(
    name: str, inputs: Arrays, attributes: Mapping[str, Any] | None = None
) -> list[np.ndarray]:
    """Torch, NumPy and ONNX Runtime give equal bits with any number of threads.

    Returns:
        The outputs.
    """
    expected = run_numpy(name, inputs, attributes, threads=1)
    results = {f"numpy, {n} threads": run_numpy(name, inputs, attributes, n) for n in (2, 7)}
    for threads in (1, 2):
        torch.set_num_threads(threads)
        results[f"torch, {threads} threads"] = run_torch(name, inputs, attributes)
        results[f"onnxruntime, {threads} threads"] = run_ort(name, inputs, attributes, threads)
    for runtime, outputs in results.items():
        for number, (actual, wanted) in enumerate(zip(outputs, expected, strict=True)):
            assert_equal_bits(actual, wanted, f"{name}, output {number}, {runtime} against numpy")
    return expected
