"""Model repositories for NVIDIA Triton, whose ONNX Runtime backend loads custom-op libraries."""

from __future__ import annotations

import errno
import json
import os
import re
from collections.abc import Sequence
from pathlib import Path

import onnx
from onnx import TensorProto

from myops.ort._loaders.load import this_platform

# Of Triton's ModelConfig; the numbers are those of onnx.TensorProto.
_TYPES: dict[int, str] = {
    TensorProto.BOOL: "TYPE_BOOL", TensorProto.UINT8: "TYPE_UINT8",
    TensorProto.UINT16: "TYPE_UINT16", TensorProto.UINT32: "TYPE_UINT32",
    TensorProto.UINT64: "TYPE_UINT64", TensorProto.INT8: "TYPE_INT8",
    TensorProto.INT16: "TYPE_INT16", TensorProto.INT32: "TYPE_INT32",
    TensorProto.INT64: "TYPE_INT64", TensorProto.FLOAT16: "TYPE_FP16",
    TensorProto.FLOAT: "TYPE_FP32", TensorProto.DOUBLE: "TYPE_FP64",
    TensorProto.BFLOAT16: "TYPE_BF16", TensorProto.STRING: "TYPE_STRING",
}  # fmt: skip
_NAME = re.compile(r"[A-Za-z0-9_.+-]+")
REPOSITORY = "/models"  # where Triton's containers expect it


def checked_name(name: str) -> str:
    """The name of a model in a repository, which is that of its folder.

    Raises:
        ValueError: Triton would not serve it, or not find it.
    """
    if not _NAME.fullmatch(name) or name.startswith("."):
        raise ValueError(
            f"triton: got the model name {name!r}, expected letters, digits and any of . _ + - only"
        )
    return name


def joins(folder: Path, name: str) -> bool:
    """Whether the model is added to a repository that exists already.

    Raises:
        FileExistsError: It is in there, or the folder has something else in it.
    """
    if not folder.is_dir() or not any(folder.iterdir()):
        return False
    if os.path.lexists(folder / name):
        raise FileExistsError(
            f"triton: got the model name {name!r}, which {folder} has already, expected a new one; "
            f"give another name, or remove {folder / name}"
        )
    if not any(map(_is_model, folder.iterdir())):
        raise FileExistsError(
            f"{folder}: exists, is not empty and is no model repository, whose folders have a "
            "config.pbtxt or versions 1, 2, ...; remove it or give another name"
        )
    return True


def _is_model(folder: Path) -> bool:
    if not folder.is_dir():
        return False
    config = (folder / "config.pbtxt").is_file()
    return config or any(item.name.isdigit() and item.is_dir() for item in folder.iterdir())


def workplace(folder: Path) -> Path:
    """A new name for what is made before it is moved into a repository that exists.

    Beside the repository, because a server that polls it would take a half-made folder for a
    model; in it where only that can be moved or written, as in a mounted volume.
    """
    parent = folder.absolute().parent
    movable = parent.stat().st_dev == folder.stat().st_dev and os.access(parent, os.W_OK)
    return (parent if movable else folder) / f".{folder.name}.{os.getpid()}"


def add(made: Path, place: Path) -> None:
    """Moves the finished folder of a model into its repository.

    Raises:
        FileExistsError: Someone else made one of that name meanwhile.
        OSError: The repository cannot be written.
    """
    try:
        made.rename(place)
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
            raise FileExistsError(
                f"triton: {place} was made by someone else meanwhile; nothing was changed"
            ) from error
        raise type(error)(
            f"bundle: folder: {place}: cannot be written: {error.strerror}"
        ) from error


def config(model: onnx.ModelProto, name: str, libraries: Sequence[str], repository: str) -> str:
    """The text of config.pbtxt.

    The batch axis of the graph stays one of the axes (max_batch_size 0): the graph alone does not
    say that its axis 0 counts requests, so Triton does not join them.

    Args:
        name: Of the model's folder.
        libraries: File names of the libraries beside the model.
        repository: Where Triton sees the repository; it takes no relative paths.

    Raises:
        ValueError: An input or output has a type or a shape that Triton cannot describe.
    """
    weights = {item.name for item in model.graph.initializer}
    lines = [
        f"name: {_quoted(name)}", 'backend: "onnxruntime"', "max_batch_size: 0",
        'default_model_filename: "model.onnx"',
    ]  # fmt: skip
    for kind, values in (("input", model.graph.input), ("output", model.graph.output)):
        for value in values:
            if value.name not in weights:
                lines += _value(kind, value)
    lines += ["instance_group [", "  { count: 1 kind: KIND_CPU }", "]"]
    if libraries:
        folder = f"{repository.rstrip('/')}/{name}/1"
        lines.append("model_operations {")
        lines += [f"  op_library_filename: {_quoted(f'{folder}/{item}')}" for item in libraries]
        lines.append("}")
    return "\n".join(lines) + "\n"


def _value(kind: str, value: onnx.ValueInfoProto) -> list[str]:
    what = f"triton: {kind} {value.name!r}"
    if not value.type.HasField("tensor_type"):
        raise ValueError(f"{what}: got no tensor, expected one; Triton serves no sequences or maps")
    tensor = value.type.tensor_type
    if tensor.elem_type not in _TYPES:
        shown = TensorProto.DataType.Name(tensor.elem_type)
        raise ValueError(f"{what}: got {shown}, which Triton has no type for")
    if not tensor.HasField("shape"):
        raise ValueError(
            f"{what}: got no shape in the graph, expected one: Triton wants the rank. `myops edit` "
            "writes it"
        )
    axes = [item.dim_value if item.HasField("dim_value") else -1 for item in tensor.shape.dim]
    if 0 in axes:
        raise ValueError(f"{what}: got an axis of length 0, expected 1 or more: Triton refuses it")
    # A scalar has no dims in ONNX, and at least one in Triton, whose ONNX Runtime backend takes the
    # one away again, from 23.10 on. An empty `reshape` is refused where max_batch_size is 0.
    shape = ", ".join(map(str, axes)) or "1"
    return [
        f"{kind} [",
        f"  {{ name: {_quoted(value.name)} data_type: {_TYPES[tensor.elem_type]} "
        f"dims: [ {shape} ] }}",
        "]",
    ]


def _quoted(text: str) -> str:
    """As the text format of protobuf reads it: JSON's escapes, for bytes in UTF-8."""
    quoted = json.dumps(text, ensure_ascii=False)
    return re.sub(r"\\u([0-9a-f]{4})", lambda match: f"\\{int(match[1], 16):03o}", quoted)


_README = """# {name} for NVIDIA Triton

A model of a model repository, for the ONNX Runtime backend on {platform}.

    tritonserver --model-repository={repository}

`config.pbtxt` names each library with its whole path, because Triton takes no relative ones:
Triton has to see the repository as `{repository}`. Triton itself compares no hashes.
`python {name}/1/load.py`, in the repository, does, and loads the model once.

Requests are not joined (`max_batch_size: 0`), and the model runs on the CPU. Where axis 0 of every
input and output counts requests, set `max_batch_size`, take the first number of `dims` away
everywhere, and add `dynamic_batching {{ }}`.
"""


def readme(name: str, repository: str) -> str:
    """The README of a model in a repository."""
    return _README.format(name=name, repository=repository, platform=this_platform())
