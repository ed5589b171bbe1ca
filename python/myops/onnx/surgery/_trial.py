"""Runs any model, on random inputs of suitable dtypes and lengths."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnx.version_converter

from myops._names import choose
from myops._text import reason
from myops.onnx.graph import inference, scopes
from myops.onnx.graph.structure import GraphError
from myops.onnx.schema import dims_of
from myops.ort import _narrow

_OLDEST_KERNELS, _CONVERTED = 7, 9  # opsets
_LENGTHS = (8, 11, 16, 32, 64, 1)  # of dynamic axes, tried in turn
_BATCH = 2  # a dynamic first axis is usually the batch
_MOST_ELEMENTS = 1 << 28  # of a random input: 2 GiB of random numbers


class NoRunError(RuntimeError):
    """The model fails with all inputs that were tried."""


def run_somehow(
    model: onnx.ModelProto,
    given: Mapping[str, Any],
    shapes: Mapping[str, Sequence[int]],
    most: int = 2,
) -> list[tuple[dict[str, Any], list[Any]]]:
    """Inputs with which the model runs, and its outputs; two sizes if the inputs are dynamic.

    Raises:
        NoRunError: It fails with all that were tried.
        GraphError: A name is no input.
    """
    weights = {tensor.name for tensor in model.graph.initializer}
    inputs = [item for item in model.graph.input if item.name not in weights]
    for name in [*given, *shapes]:
        choose(name, [item.name for item in inputs], "inputs: the model has", "input")
    try:
        session = _session(model)
    except Exception as error:  # ONNX Runtime's errors share no base class but this
        raise NoRunError(reason(error)) from error
    fixed = all(item.name in {*given, *shapes} or _is_fixed(item) for item in inputs)
    runs: list[tuple[dict[str, Any], list[Any]]] = []
    first: Exception | None = None
    for length in _LENGTHS[:1] if fixed else _LENGTHS:
        # Numbers from 1 to 2 are legal factors and lengths, but numbers around 0 are not.
        for bounds in ((-1.0, 1.0), (1.0, 2.0)):
            feeds = _inputs(inputs, given, shapes, length, bounds)
            try:
                runs.append((feeds, _narrow.results(session, feeds)))
                break
            except Exception as error:  # as above
                first = first or error
        if len(runs) == most:
            break
    if not runs:
        raise NoRunError(reason(first))
    return runs


def _inputs(
    inputs: Sequence[onnx.ValueInfoProto],
    given: Mapping[str, Any],
    shapes: Mapping[str, Sequence[int]],
    length: int,
    bounds: tuple[float, float],
) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    lengths: dict[str, int] = {}
    feeds = {}
    for item in inputs:
        which = item.type.WhichOneof("value")
        if item.name in given:
            feeds[item.name] = _given(item.type, given[item.name])
            continue
        if which != "tensor_type":
            kinds = {
                "sequence_type": "a sequence, which must be given as a list of arrays",
                "optional_type": "an optional value, which must be given as an array, a list of "
                "arrays or None",
            }
            kind = kinds.get(str(which), "a value that is no tensor, which must be given")
            raise GraphError(
                f"inputs: {item.name!r} is {kind}; or leave the check out (check=False, --no-check)"
            )
        shape = shapes.get(item.name)
        if shape is None:
            dims = dims_of(item.type.tensor_type)
            if dims is None:
                raise GraphError(f"inputs: the rank of {item.name!r} is unknown; give its shape")
            shape = []
            for axis, dim in enumerate(dims):
                usual = length if axis else _BATCH
                named = lengths.setdefault(dim, usual) if isinstance(dim, str) else usual
                shape.append(dim if isinstance(dim, int) else named)
        if any(length < 0 for length in shape):
            raise GraphError(
                f"shapes: {item.name}: got {list(shape)}, expected lengths of 0 or more"
            )
        if math.prod(shape) > _MOST_ELEMENTS:
            raise GraphError(
                f"inputs: {item.name!r} would have the shape {list(shape)}, expected at most "
                f"{_MOST_ELEMENTS} elements for a random input: give the input or a smaller shape, "
                "or leave the check out (check=False, --no-check)"
            )
        feeds[item.name] = _random(item.type.tensor_type.elem_type, shape, rng, *bounds)
    return feeds


def _given(kind: onnx.TypeProto, value: Any) -> Any:
    if kind.HasField("optional_type"):
        return None if value is None else _given(kind.optional_type.elem_type, value)
    if kind.HasField("sequence_type"):
        return [_given(kind.sequence_type.elem_type, item) for item in value]
    if kind.WhichOneof("value") not in (None, "tensor_type"):
        return value
    array = np.asarray(value)
    # ONNX Runtime would take the bytes of the other byte order for numbers of this one.
    return array.astype(array.dtype.newbyteorder("="))


def run(model: onnx.ModelProto, feeds: Mapping[str, Any]) -> list[Any]:
    """The outputs of the model on these inputs."""
    return _narrow.results(_session(model), feeds)


def difference(one: Any, other: Any) -> float:
    """The largest difference, divided by the largest element if that is above 1; NaN equals NaN."""
    if isinstance(one, (list, tuple)):
        same = isinstance(other, (list, tuple)) and len(one) == len(other)
        pairs = zip(one, other, strict=True) if same else [(np.zeros(1), np.zeros(2))]
        return max((difference(a, b) for a, b in pairs), default=0.0)
    if not isinstance(one, np.ndarray) or one.dtype.kind not in "fiub":
        return 0.0 if np.array_equal(one, other) else float("inf")
    if not isinstance(other, np.ndarray) or one.shape != other.shape or one.dtype != other.dtype:
        return float("inf")
    if one.size == 0:
        return 0.0
    a, b = one.astype(np.float64), other.astype(np.float64)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    if same.all():
        return 0.0
    gap = np.abs(np.where(same, 0, a) - np.where(same, 0, b))
    if not np.isfinite(gap).all():
        return float("inf")
    finite = np.abs(a[np.isfinite(a)])
    return float(gap.max() / max(1.0, finite.max(initial=0)))


def _session(model: onnx.ModelProto) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    try:
        return inference.session(model, options)
    except Exception as error:  # ONNX Runtime's errors share no base class but this
        newer = _newer(model) if "Could not find an implementation" in str(error) else None
        if newer is None:
            raise
        return inference.session(newer, options)


def _newer(model: onnx.ModelProto) -> onnx.ModelProto | None:
    """The model in a newer opset: ONNX Runtime lacks kernels of versions before 7."""
    try:
        old = scopes.onnx_opset(model) < _OLDEST_KERNELS
        return onnx.version_converter.convert_version(model, _CONVERTED) if old else None
    except (ValueError, RuntimeError):  # no opset, or an op that cannot be converted
        return None


def _is_fixed(item: onnx.ValueInfoProto) -> bool:
    dims = dims_of(item.type.tensor_type)
    return dims is not None and all(isinstance(dim, int) for dim in dims)


def _random(
    number: int, shape: Sequence[int], rng: np.random.Generator, low: float, high: float
) -> Any:
    if number == onnx.TensorProto.STRING:
        return np.full(shape, "a", object)
    dtype = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(number))
    if dtype.kind == "b":
        return np.asarray(rng.random(shape) < 0.5)
    if dtype.kind in "iu":
        return np.asarray(
            rng.integers(0, 3, shape) if low < 0 else rng.integers(1, 3, shape), dtype
        )
    return np.asarray(rng.random(shape) * (high - low) + low).astype(dtype)
