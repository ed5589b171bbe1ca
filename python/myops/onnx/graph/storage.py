"""Loads and saves models of any size: external weights are read only when they are needed, and then
copied one at a time."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
from onnx import external_data_helper

from myops.onnx.graph import files, writing
from myops.onnx.graph.external import check_place
from myops.onnx.graph.structure import graphs_of, subgraphs
from myops.onnx.graph.weights import SMALL


def folder_of(model: files.Model) -> Path | None:
    """Where a model's external weights are; None for a model that is not in a file."""
    if isinstance(model, (onnx.ModelProto, bytes, bytearray, memoryview)):
        return None
    return Path(os.fspath(model)).parent


def load(model: files.Model) -> onnx.ModelProto:
    """A copy of the model; of its external weights, only small constants are read.

    Raises:
        FileNotFoundError: No such file, or the file of a small constant is missing.
        ValueError: It is no ONNX model.
    """
    copy = onnx.ModelProto()
    copy.CopyFrom(files.load(model, weights=False))
    attach(copy, folder_of(model), SMALL)
    return copy


def opened(model: files.Model) -> onnx.ModelProto:
    """As `load`, for functions that copy the model themselves: a ModelProto is not copied."""
    return files.load(model) if isinstance(model, onnx.ModelProto) else load(model)


def attach(model: onnx.ModelProto, folder: Path | None, most: float = float("inf")) -> None:
    """Reads the external weights of at most `most` elements.

    Raises:
        FileNotFoundError: Their file is missing, too short, or outside of the folder.
    """
    for tensor in _external(model):
        if folder is not None and np.prod(tensor.dims) <= most:
            _read(tensor, folder)


def size(model: onnx.ModelProto) -> int:
    """Bytes of all weights, including external ones."""
    return sum(map(tensor_bytes, tensors(model)))


def file_bytes(model: files.Model, written: files.Target = None) -> int:
    """Bytes of a model's file and of the files with its external weights.

    Args:
        model: Its path, its bytes, or a ModelProto: then the size of the file that it would become.
        written: Where a ModelProto was written; of a stream the size is not known.

    Raises:
        FileNotFoundError: A file with its weights is missing.
        ValueError: It is no ONNX model.
    """
    if isinstance(written, (str, os.PathLike)) and Path(written).is_file():  # not /dev/null
        return file_bytes(written)
    if isinstance(model, (bytes, bytearray, memoryview)):
        return len(model)
    if isinstance(model, onnx.ModelProto):
        if files.is_large(model):  # protobuf does not say how many bytes it would be
            return size(model)
        return model.ByteSize() + sum(map(tensor_bytes, _external(model)))
    outline = files.load(model, weights=False)
    path = Path(os.fspath(model))
    others = {item.value for tensor in _external(outline) for item in tensor.external_data
              if item.key == "location"}  # fmt: skip
    try:
        return path.stat().st_size + sum((path.parent / name).stat().st_size for name in others)
    except (OSError, ValueError) as error:
        raise FileNotFoundError(f"{path}: weights are missing: {error}") from error


def finish(model: onnx.ModelProto, source: files.Model, f: files.Target) -> None:
    """Adds the weights to a model that came from `source`, and writes it if `f` is given.

    If a model of 2 GB or more is written, its weights are stored in F.data beside the file.
    """
    folder = folder_of(source)
    written = isinstance(f, (str, os.PathLike))
    if isinstance(f, (str, os.PathLike)):
        refuse_weights_of(source, f)
    if not written or size(model) < files.LIMIT - 2**24:  # space for the graph itself
        attach(model, folder)
        writing.write(model, f, external_data=False)
        return
    assert isinstance(f, (str, os.PathLike))
    data = Path(f"{os.fspath(f)}.data")
    if isinstance(source, (str, os.PathLike)) and not _is_same(Path(source), f):
        refuse_weights_of(source, data)
    partial = Path(f"{data}.part")  # because the source may be the file that is written
    try:
        with partial.open("wb") as stream:
            for graph in graphs_of(model.graph):
                for tensor in graph.initializer:
                    if np.prod(tensor.dims) > SMALL:
                        _move(tensor, folder, stream, data.name)
        attach(model, folder, SMALL)
        text = model.SerializeToString()
        os.replace(partial, data)
    finally:
        partial.unlink(missing_ok=True)
    Path(f).write_bytes(text)


def refuse_weights_of(source: files.Model, path: str | os.PathLike[str]) -> None:
    """Refuses a file to write that holds weights of the model that is read.

    Raises:
        ValueError: It is one. Replacing it would destroy that model.
    """
    folder = folder_of(source)
    if folder is None or not Path(path).is_file():
        return
    try:
        outline = files.load(source, weights=False)
    except (OSError, ValueError):  # the caller says what is wrong with it
        return
    for tensor in _external(outline):
        place = {item.key: item.value for item in tensor.external_data}
        if _is_same(folder / place.get("location", ""), path):
            raise ValueError(
                f"got {os.fspath(path)}, which holds weights of the model that is read; expected "
                "another file, so that nothing is lost"
            )


def _is_same(one: Path, two: str | os.PathLike[str]) -> bool:
    try:
        return os.path.samefile(one, two)
    except (OSError, ValueError):  # no such file, or no name of one
        return False


def _move(tensor: onnx.TensorProto, folder: Path | None, stream, name: str) -> None:  # type: ignore[no-untyped-def]
    if tensor.data_location == onnx.TensorProto.EXTERNAL:
        if folder is None:
            return  # a ModelProto with external weights: the caller knows where they are
        _read(tensor, folder)
    if not tensor.HasField("raw_data"):
        if tensor.data_type == onnx.TensorProto.STRING:
            return
        tensor.CopyFrom(
            onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(tensor), tensor.name)
        )
    offset = stream.tell()
    stream.write(tensor.raw_data)
    external_data_helper.set_external_data(tensor, name, offset, len(tensor.raw_data))
    tensor.ClearField("raw_data")


def _read(tensor: onnx.TensorProto, folder: Path) -> None:
    check_place(tensor)
    try:
        external_data_helper.load_external_data_for_tensor(tensor, str(folder))
    except (onnx.checker.ValidationError, OSError, ValueError) as error:
        raise FileNotFoundError(f"weights of {tensor.name!r} are missing: {error}") from error
    tensor.data_location = onnx.TensorProto.DEFAULT
    del tensor.external_data[:]


def is_elsewhere(model: onnx.ModelProto) -> bool:
    """Whether the model has external weights."""
    return any(True for _ in _external(model))


def _external(model: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    return (t for t in tensors(model) if t.data_location == onnx.TensorProto.EXTERNAL)


def tensors(model: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    """All tensors of a model, including external ones: weights, and tensors in attributes."""
    yield from initializers(model)
    for node in nodes(model):
        for item in node.attribute:
            yield from _of_attribute(item)


def initializers(model: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    """The initializers of all graphs; for a sparse one, its values."""
    for graph in graphs_of(model.graph):
        yield from graph.initializer
        yield from (item.values for item in graph.sparse_initializer)


def constants(model: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    """The tensors of Constant nodes, also of those in functions, from any of their attributes."""
    lists = {"value_floats": np.float32, "value_ints": np.int64,
             "value_float": np.float32, "value_int": np.int64}  # fmt: skip
    for node in nodes(model):
        if node.op_type != "Constant" or node.domain not in ("", "ai.onnx"):
            continue
        for item in node.attribute:
            yield from _of_attribute(item)
            if item.name in lists and not item.ref_attr_name:
                value = np.array(onnx.helper.get_attribute_value(item), lists[item.name])
                yield onnx.numpy_helper.from_array(value)


def nodes(model: onnx.ModelProto) -> Iterator[onnx.NodeProto]:
    for graph in graphs_of(model.graph):
        yield from graph.node
    for function in model.functions:
        for node in function.node:
            yield node
            for inner in subgraphs(node):
                for graph in graphs_of(inner):
                    yield from graph.node


def _of_attribute(item: onnx.AttributeProto) -> Iterator[onnx.TensorProto]:
    if item.HasField("t"):
        yield item.t
    yield from item.tensors
    if item.HasField("sparse_tensor"):
        yield item.sparse_tensor.values


def tensor_bytes(tensor: onnx.TensorProto) -> int:
    """The size of a tensor's data in bytes."""
    if tensor.HasField("raw_data"):
        return len(tensor.raw_data)
    if tensor.data_type == onnx.TensorProto.STRING:
        return sum(map(len, tensor.string_data))
    for item in tensor.external_data:
        if item.key == "length" and item.value.isdigit():
            return int(item.value)
    try:
        kind = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type))
    except (KeyError, ValueError, TypeError):
        return 0
    return int(np.prod(tensor.dims)) * kind.itemsize
