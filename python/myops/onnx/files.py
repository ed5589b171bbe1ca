"""Reads and writes model files, with errors that say what is wrong with the file."""

from __future__ import annotations

import os
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError, EncodeError

from myops._names import near_misses

LIMIT = 2**31 - 1  # bytes in one protobuf file
Model = onnx.ModelProto | bytes | str | os.PathLike[str]

# How files begin that are met where a model is expected.
_OTHERS = {
    b"PK\x03\x04": "a zip archive (torch.save, TorchScript and torch.export write such). Export "
    "the model to ONNX first: myops.onnx.export",
    b"\x80\x02": "a Python pickle. Export the model to ONNX first: myops.onnx.export",
    b"version https://git-lfs": "a pointer of Git LFS, not the file itself: run `git lfs pull`",
    b"<": "a web page or XML, as a failed download leaves",
}


def load(model: Model, *, weights: bool = True) -> onnx.ModelProto:
    """The model that a path, the bytes of a file or a ModelProto stands for.

    Args:
        model: A ModelProto is returned as it is.
        weights: Whether weights in other files ("external data") are read too.

    Raises:
        FileNotFoundError: No such file, or a file with its weights is missing.
        ValueError: It is no ONNX model; the text says what it seems to be.
    """
    if isinstance(model, onnx.ModelProto):
        return model
    if isinstance(model, (bytes, bytearray, memoryview)):
        return _parse(bytes(model), "bytes")
    path = Path(os.fspath(model))
    if path.is_dir():
        raise IsADirectoryError(f"{path}: got a folder, expected a file")
    if not path.is_file():
        beside = [item.name for item in path.parent.glob("*")] if path.parent.is_dir() else []
        raise FileNotFoundError(f"no such file: {path}.{near_misses(path.name, beside)}")
    loaded = _parse(path.read_bytes(), str(path))
    if weights:
        try:
            onnx.load_external_data_for_model(loaded, str(path.parent))
        except (onnx.checker.ValidationError, OSError) as error:
            raise FileNotFoundError(f"{path}: weights are missing: {error}") from error
    return loaded


def _parse(data: bytes, name: str) -> onnx.ModelProto:
    if not data:
        raise ValueError(f"{name}: got an empty file, expected an ONNX model")
    for start, what in _OTHERS.items():
        if data.startswith(start):
            raise ValueError(f"{name}: got {what}, expected an ONNX model")
    try:
        model = onnx.ModelProto.FromString(data)
    except DecodeError as error:
        raise ValueError(
            f"{name}: got {len(data)} bytes that are no ONNX model (broken protobuf: {error}); "
            "the file may have been cut off in a download"
        ) from error
    if not model.HasField("graph"):
        raise ValueError(f"{name}: got a protobuf without a graph, expected an ONNX model")
    return model


def is_large(model: onnx.ModelProto) -> bool:
    """Whether protobuf cannot hold the model in one message."""
    try:
        return model.ByteSize() >= LIMIT
    except EncodeError:  # some implementations of protobuf refuse to count so far
        return True


def save(model: onnx.ModelProto, path: str | os.PathLike[str]) -> None:
    """Writes a model; over 2 GB the weights go into PATH.data beside it."""
    if not is_large(model):
        onnx.save(model, os.fspath(path))
        return
    # A copy, because saving with external data takes the weights out of the model.
    large = onnx.ModelProto()
    large.CopyFrom(model)
    weights = os.path.basename(os.fspath(path)) + ".data"
    onnx.save(large, os.fspath(path), save_as_external_data=True, location=weights)
