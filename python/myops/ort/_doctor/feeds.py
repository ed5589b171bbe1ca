"""Inputs to try a model with, generated from the model's description of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from myops import _libraries
from myops._array_files import read_array
from myops._names import choose
from myops.onnx.graph import structure
from myops.onnx.schema import dims_of
from myops.onnx.surgery import _demands
from myops.ort import _narrow
from myops.ort._doctor import graph

DEFAULT_LENGTH = 16  # of an axis that the model leaves open; tried first
# Then these, with one item in a batch and three channels where nothing else is known.
_LENGTHS = (32, 224, 64, 8, 320, 256, 640, 28, 48, 96, 112, 128, 160, 192, 299, 300, 384, 416, 448,
            512, 7, 3, 2, 1)  # fmt: skip
_MOST_ELEMENTS = 2**28
_MOST_LATER = 2**23  # of all inputs together, in what is tried after the first


class CannotMakeError(ValueError):
    """An input that cannot be generated from the model's description of it."""


class OnlyTensorsError(CannotMakeError):
    """An input that is a sequence, an optional value, or of a type that ONNX Runtime does not take
    from Python: nobody can give it here either."""


@dataclass
class Invention:
    """Inputs to run a model with.

    feeds: One after the other is tried until one runs.
    invented: Inputs whose shape or integers are made up, so that a failure may be their fault,
        and what was made up, in words.
    """

    feeds: list[dict[str, np.ndarray]]
    invented: dict[str, str] = field(default_factory=dict)


@dataclass
class Asked:
    """What the user specified about the inputs.

    inputs: Arrays, or paths of .npy files, by name of the input.
    dims: Lengths, by the name of the length or as "INPUT:AXIS".
    shapes: Shapes, by name of the input.
    """

    inputs: Mapping[str, Any] = field(default_factory=dict)
    dims: Mapping[str, int] = field(default_factory=dict)
    shapes: Mapping[str, Sequence[int]] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.inputs or self.dims or self.shapes)


def make(model: onnx.ModelProto, asked: Asked) -> Invention:
    """Arrays for the inputs of the graph that have no initializer, or are asked for.

    Lengths that nodes demand are solved for; several are tried for the others. Floats are drawn
    from 0.5 to 1.5 with a fixed seed, integers are 1, booleans true.

    Raises:
        CannotMakeError: An input that cannot be made up. OnlyTensorsError: it is no tensor.
        ValueError: An unknown name, a shape that does not fit, or a file that is no array.
        FileNotFoundError: No such .npy file.
    """
    have = {item.name for item in model.graph.initializer} - {*asked.inputs, *asked.shapes}
    inputs = {item.name: item for item in model.graph.input if item.name not in have}
    for name in (*asked.inputs, *asked.shapes):
        choose(name, [item.name for item in model.graph.input], "the model has", "input")
    for item in inputs.values():
        if item.type.WhichOneof("value") not in ("tensor_type", None):
            kind = graph.type_text(item.type)
            raise OnlyTensorsError(
                f"input {item.name!r} is {'an' if kind[0] in 'aeiou' else 'a'} {kind}, and only "
                "tensors can be given or generated"
            )
        if item.type.tensor_type.elem_type and _dtype(item) is None:
            raise OnlyTensorsError(
                f"input {item.name!r} is {graph.dtype_name(item.type.tensor_type.elem_type)}, and "
                "ONNX Runtime takes no arrays of this type from Python"
            )
    given = {
        name: _as_stated(_read(name, value), inputs.get(name))
        for name, value in asked.inputs.items()
    }
    lengths = _lengths(inputs, given, asked)
    shaped = onnx.ModelProto()
    shaped.CopyFrom(model)
    for item in shaped.graph.input:  # so that their information is used too
        shape = given[item.name].shape if item.name in given else asked.shapes.get(item.name)
        if shape is not None and item.type.WhichOneof("value") == "tensor_type":
            dims = [onnx.TensorShapeProto.Dimension(dim_value=length) for length in shape]
            item.type.tensor_type.shape.CopyFrom(onnx.TensorShapeProto(dim=dims))
    first = _demands.solve(shaped, lengths)
    later = _demands.solve(shaped, {**_single(shaped, first), **lengths})
    found = Invention([])
    failure: CannotMakeError | None = None
    for length in (DEFAULT_LENGTH, *_LENGTHS):
        feed: dict[str, np.ndarray] = {}
        notes: dict[str, str] = {}
        random = np.random.default_rng(0)
        solved = first if length == DEFAULT_LENGTH else later
        try:
            for name, item in inputs.items():
                if name in given:
                    feed[name] = given[name]
                    continue
                shape, open_axes = _shape(item, asked.shapes.get(name), solved, length)
                feed[name] = _made(item, shape, model, random)
                if note := _invented(feed[name], open_axes):
                    notes[name] = note
        except CannotMakeError as error:  # such as five axes of 640: shorter ones may do
            failure = failure or error
            continue
        found.invented = found.invented or notes
        size = sum(array.size for array in feed.values())
        if not found.feeds or size <= _MOST_LATER:
            found.feeds.append(feed)
        if not any("length" in note for note in found.invented.values()):
            break  # nothing would change
    if not found.feeds and failure is not None:
        raise failure
    return found


def _single(model: onnx.ModelProto, known: Mapping[str, int]) -> dict[str, int]:
    """One item in each batch: first axes about which nothing is known."""
    found = {}
    for item in model.graph.input:
        for dim in (dims_of(item.type.tensor_type) or [])[:1]:
            name = dim or _demands.symbol(item.name, 0)
            if isinstance(name, str) and name not in known:
                found[name] = 1
    return found


def _lengths(
    inputs: Mapping[str, onnx.ValueInfoProto], given: Mapping[str, np.ndarray], asked: Asked
) -> dict[str, int]:
    """The lengths that the user's shapes and arrays give to names, and those that were said."""
    names: dict[str, int | None] = {}
    for item in inputs.values():
        if item.type.WhichOneof("value") != "tensor_type":
            continue
        dims = dims_of(item.type.tensor_type) or []
        shape: Sequence[int] | None = asked.shapes.get(item.name)
        if item.name in given:
            shape = given[item.name].shape
        if shape is not None and item.name in asked.shapes and dims and len(shape) != len(dims):
            raise ValueError(
                f"the shape of {item.name!r}: got {len(shape)} lengths, expected {len(dims)}"
            )
        for axis, dim in enumerate(dims):
            if isinstance(dim, int):
                continue
            length = shape[axis] if shape is not None and len(shape) == len(dims) else None
            names[_demands.symbol(item.name, axis)] = length
            if dim is not None:
                names[dim] = names.get(dim) or length
    for name in asked.dims:
        choose(name, names, "the model has", "open length")
    known = {name: length for name, length in names.items() if length is not None}
    return {**known, **asked.dims}


def _shape(
    item: onnx.ValueInfoProto, asked: Sequence[int] | None, solved: Mapping[str, int], length: int
) -> tuple[list[int], list[str]]:
    """The shape of an input, and the axes of it that are made up."""
    if asked is not None:
        return list(asked), []
    dims = dims_of(item.type.tensor_type)
    if dims is None:
        raise CannotMakeError(f"input {item.name!r} states no shape")
    shape: list[int] = []
    made_up = []
    for axis, dim in enumerate(dims):
        title = _demands.symbol(item.name, axis)
        name = dim if isinstance(dim, str) else title
        if isinstance(dim, int):
            shape.append(dim)
            continue
        known = solved.get(title)
        if known is None:
            known = _demands.evaluated(name, solved)
        if known is None:
            made_up.append(name)
            image = len(dims) == 4 and axis == 1
            known = 3 if image and length != DEFAULT_LENGTH else length
        shape.append(known)
    return shape, made_up


def _invented(array: np.ndarray, open_axes: list[str]) -> str:
    """Which invented properties of an input could be the cause if the model fails."""
    parts = []
    if open_axes:
        words = "the lengths" if len(open_axes) > 1 else "the length"
        parts.append(f"{words} {', '.join(map(repr, open_axes))}")
    if array.dtype.kind in "iuOSU":
        parts.append("the integers" if array.dtype.kind in "iu" else "the texts")
    return " and ".join(parts)


def _read(name: str, value: Any) -> np.ndarray:
    if isinstance(value, np.ndarray):
        return value
    if isinstance(value, (str, Path)):
        return read_array(value, f"input {name!r}: ")
    return np.asarray(value)


def is_narrow(array: np.ndarray) -> bool:
    """Whether an array has a type of `ml_dtypes`, which NumPy itself does not have."""
    return array.dtype.isbuiltin == 2


def _dtype(item: onnx.ValueInfoProto) -> np.dtype[Any] | None:
    """The type of the arrays for an input; None where ONNX Runtime takes none from Python."""
    kind = item.type.tensor_type.elem_type
    try:
        dtype = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(kind))
    except (KeyError, TypeError, ValueError):
        return None
    if dtype.isbuiltin == 2:
        return dtype if kind in _narrow.NUMBERS else None
    return dtype if dtype.kind in "biufOSU" else None


def _as_stated(array: np.ndarray, item: onnx.ValueInfoProto | None) -> np.ndarray:
    """An array in the type of its input, where NumPy does not have that: it is converted from
    numbers, such as float32. np.save writes bfloat16 as bytes."""
    dtype = _dtype(item) if item is not None else None
    if dtype is None or dtype.isbuiltin != 2:
        return array
    if array.dtype.kind == "V" and array.dtype.isbuiltin == 0 and array.itemsize == dtype.itemsize:
        return array.view(dtype)
    return array.astype(dtype) if array.dtype.kind in "biuf" else array


def _made(
    item: onnx.ValueInfoProto, shape: list[int], model: onnx.ModelProto, random: Any
) -> np.ndarray:
    dtype = _dtype(item)
    if dtype is None:
        raise CannotMakeError(f"input {item.name!r} states no type")
    count = float(np.prod(np.array(shape, np.float64)))
    if any(length < 0 for length in shape) or count > _MOST_ELEMENTS:
        raise CannotMakeError(f"input {item.name!r} would have the shape {shape}")
    if dtype.kind in "OSU":
        return np.full(shape, "a")
    floats = dtype.kind == "f" or item.type.tensor_type.elem_type in _narrow.NUMBERS
    if not floats or is_list(item.name, model):
        return np.ones(shape, dtype)
    return np.asarray(random.uniform(0.5, 1.5, shape)).astype(dtype)


def is_list(name: str, model: onnx.ModelProto) -> bool:
    """Whether a value is a list of scales, for example of a Resize, which cannot be random."""
    for place in graph.places(model):
        for number, used in enumerate(place.node.input):
            if used != name:
                continue
            if place.node.op_type in ("Resize", "Upsample") and not place.domain:
                return number > 0
            info = _libraries.op_of(place.node)
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
        reads += structure.reads(model.graph.node[index])
        stack += [makers[name] for name in reads if name in makers]
    part = onnx.ModelProto()
    part.CopyFrom(model)
    del part.graph.node[:]
    part.graph.node.extend(model.graph.node[index] for index in sorted(needed))
    del part.graph.output[:]
    part.graph.output.extend(onnx.ValueInfoProto(name=name) for name in wanted)
    return part


def depends(model: onnx.ModelProto, node: onnx.NodeProto, names: Mapping[str, str]) -> bool:
    """Whether a node of the main graph gets anything that follows from these inputs."""
    makers = {name: item for item in model.graph.node for name in item.output}
    seen: set[str] = set()
    stack = [*node.input, *structure.reads(node)]
    while stack:
        name = stack.pop()
        if name in names:
            return True
        if name in makers and name not in seen:
            seen.add(name)
            stack += [*makers[name].input, *structure.reads(makers[name])]
    return False
