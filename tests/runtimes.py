"""Runs one op in each runtime on the same NumPy arrays, and compares bits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import torch
from onnx import TensorProto, helper

import myops.ort
from myops import _description
from myops.onnx.schema import ELEMENT_TYPES as ONNX_TYPES
from myops.testing import bits
from myops.testing.bits import to_numpy as to_numpy

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
    return _description.call(name, inputs, attributes, threads)


def node_model(
    name: str, inputs: Arrays, attributes: Mapping[str, Any] | None = None, opset: int = 19
) -> onnx.ModelProto:
    """A model of one node. bfloat16 enters and leaves as float32, which holds it exactly:
    ONNX Runtime's Python API has no bfloat16 arrays."""
    info = _description.OPS[name]
    nodes, graph_inputs, names = [], [], []
    for item, array in zip(info.inputs, inputs, strict=True):
        if array is None:
            names.append("")
            continue
        dtype = str(array.dtype)
        outside = TensorProto.FLOAT if dtype == "bfloat16" else ONNX_TYPES[dtype]
        graph_inputs.append(helper.make_tensor_value_info(item.name, outside, array.shape))
        names.append(item.name)
        if dtype == "bfloat16":
            names[-1] = f"{item.name}_bfloat16"
            nodes.append(
                helper.make_node("Cast", [item.name], [names[-1]], to=TensorProto.BFLOAT16)
            )
    while names and not names[-1]:
        names.pop()
    settings = {
        key: int(value) if isinstance(value, bool) else value
        for key, value in (attributes or {}).items()
        if not (isinstance(value, (list, tuple)) and not value)
    }
    outputs = [item.name for item in info.outputs]
    nodes.append(
        helper.make_node(info.onnx_type, names, outputs, domain=_description.DOMAIN, **settings)
    )
    graph_outputs = []
    first = str(next(array for array in inputs if array is not None).dtype)
    for output in outputs:
        result = output
        if first == "bfloat16":
            result = f"{output}_float32"
            nodes.append(helper.make_node("Cast", [output], [result], to=TensorProto.FLOAT))
        kind = TensorProto.FLOAT if first == "bfloat16" else ONNX_TYPES[first]
        graph_outputs.append(helper.make_tensor_value_info(result, kind, None))
    graph = helper.make_graph(nodes, name, graph_inputs, graph_outputs)
    opsets = [
        helper.make_opsetid("", opset),
        helper.make_opsetid(_description.DOMAIN, _description.OPSET_VERSION),
    ]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def feeds(name: str, inputs: Arrays) -> dict[str, np.ndarray]:
    pairs = zip(_description.OPS[name].inputs, inputs, strict=True)
    return {
        item.name: array.astype(np.float32) if str(array.dtype) == "bfloat16" else array
        for item, array in pairs
        if array is not None
    }


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
    if any(array is not None and str(array.dtype) == "bfloat16" for array in inputs):
        return [array.astype(ml_dtypes.bfloat16) for array in results]
    return results


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
