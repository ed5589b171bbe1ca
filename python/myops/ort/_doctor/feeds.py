"""Inputs to try a model with, made from what the model says of them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from myops import _libraries
from myops._names import choose
from myops.onnx import module_paths
from myops.ort._doctor import graph

DEFAULT_LENGTH = 16  # of an axis that the model leaves open
_MOST_ELEMENTS = 2**28


class CannotMakeError(ValueError):
    """An input that nobody can make up from what the model says of it."""


def make(
    model: onnx.ModelProto, given: Mapping[str, Any], dims: Mapping[str, int]
) -> dict[str, np.ndarray]:
    """An array for each input of the graph that has no initializer.

    Floats are drawn from 0.5 to 1.5 with a fixed seed, integers are 1, booleans true.

    Args:
        given: Arrays of the user's, or paths of .npy files, by name of the input.
        dims: Lengths by the name of the axis; others are 16.

    Raises:
        CannotMakeError: An input that cannot be made up.
        ValueError: An unknown name, or a file that is no array.
        FileNotFoundError: No such .npy file.
    """
    have = {item.name for item in model.graph.initializer}
    inputs = [item for item in model.graph.input if item.name not in have]
    for name in given:
        choose(name, [item.name for item in model.graph.input], "the model has as input")
    names = {d.dim_param for i in inputs for d in i.type.tensor_type.shape.dim if d.dim_param}
    for name in dims:
        choose(name, names, "the model has as name of a length")
    random = np.random.default_rng(0)
    feed = {}
    for item in inputs:
        if item.name in given:
            feed[item.name] = _read(item.name, given[item.name])
        else:
            feed[item.name] = _made(item, model, dims, random)
    return feed


def _read(name: str, value: Any) -> np.ndarray:
    if isinstance(value, np.ndarray):
        return value
    if isinstance(value, (str, Path)):
        if not Path(value).is_file():
            raise FileNotFoundError(f"input {name!r}: no such file: {value}")
        try:
            return np.asarray(np.load(value, allow_pickle=False))
        except ValueError as error:
            raise ValueError(f"input {name!r}: {value} is no .npy file: {error}") from error
    return np.asarray(value)


def _made(
    item: onnx.ValueInfoProto, model: onnx.ModelProto, dims: Mapping[str, int], random: Any
) -> np.ndarray:
    if item.type.WhichOneof("value") != "tensor_type":
        raise CannotMakeError(
            f"input {item.name!r} is a {graph.type_text(item.type)}, which cannot be made up"
        )
    tensor = item.type.tensor_type
    try:
        dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)
    except (KeyError, TypeError, ValueError):
        dtype = np.dtype("V1")
    if dtype.kind not in "biufOSU" or dtype.isbuiltin == 2:
        shown = graph.dtype_name(tensor.elem_type)
        raise CannotMakeError(f"input {item.name!r} is {shown}, which NumPy does not have")
    if not tensor.HasField("shape"):
        raise CannotMakeError(f"input {item.name!r} states no shape")
    shape = [
        dim.dim_value if dim.HasField("dim_value") else dims.get(dim.dim_param, DEFAULT_LENGTH)
        for dim in tensor.shape.dim
    ]
    count = float(np.prod(np.array(shape, np.float64)))
    if any(length < 0 for length in shape) or count > _MOST_ELEMENTS:
        raise CannotMakeError(f"input {item.name!r} would have the shape {shape}")
    if dtype.kind in "OSU":
        return np.full(shape, "a")
    if dtype.kind != "f" or _is_list(item.name, model):
        return np.ones(shape, dtype)
    return random.uniform(0.5, 1.5, shape).astype(dtype)


def _is_list(name: str, model: onnx.ModelProto) -> bool:
    """Whether a value is a Resize's list of scales or the like: random factors make no sense."""
    for place in graph.places(model):
        for number, used in enumerate(place.node.input):
            if used != name:
                continue
            if place.node.op_type in ("Resize", "Upsample") and not place.domain:
                return number > 0
            info = _libraries.find_node(place.domain, place.node.op_type)
            if info is not None:
                return number < len(info.inputs) and info.inputs[number].values
    return False


def arriving(model: onnx.ModelProto, node: onnx.NodeProto) -> onnx.ModelProto | None:
    """The part of the model before a node, whose outputs are what arrives at the node.

    None for a node that is not in the main graph or that nothing arrives at.
    """
    makers = {name: index for index, n in enumerate(model.graph.node) for name in n.output}
    wanted = [name for name in dict.fromkeys(node.input) if name in makers]
    if not wanted:
        return None
    needed: set[int] = set()
    stack = [makers[name] for name in wanted]
    while stack:
        index = stack.pop()
        if index in needed:
            continue
        needed.add(index)
        reads = list(model.graph.node[index].input)
        reads += module_paths.reads(model.graph.node[index])
        stack += [makers[name] for name in reads if name in makers]
    part = onnx.ModelProto()
    part.CopyFrom(model)
    del part.graph.node[:]
    part.graph.node.extend(model.graph.node[index] for index in sorted(needed))
    del part.graph.output[:]
    part.graph.output.extend(onnx.ValueInfoProto(name=name) for name in wanted)
    return part
