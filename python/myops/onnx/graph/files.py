"""Reads and writes model files, with errors that say what is wrong with the file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import IO

import onnx
from google.protobuf.message import DecodeError, EncodeError

from myops._names import near_misses
from myops.onnx.graph import calls, domains, texts

LIMIT = 2**31 - 1  # bytes in one protobuf file
Model = onnx.ModelProto | bytes | str | os.PathLike[str]
# The file to write: a path, or an object open for writing bytes. None: the model is only returned.
Target = str | os.PathLike[str] | IO[bytes] | None

_MOST_FIELDS = 10_000  # outermost fields that are looked at before a file is read
# Outermost fields of a ModelProto -> how protobuf writes them (0: a number, 2: with a length).
_FIELDS = {
    field.number: 0 if field.type in (field.TYPE_INT64, field.TYPE_INT32, field.TYPE_ENUM) else 2
    for field in onnx.ModelProto.DESCRIPTOR.fields
}


class Stdin(bytes):
    """The bytes of a model that a command read from stdin: messages name it."""


# The first bytes of files that users give by mistake instead of a model.
_OTHERS = {
    b"PK\x03\x04": "a zip archive (torch.save, TorchScript and torch.export write such). Export "
    "the model to ONNX first: myops.onnx.export",
    b"\x80\x02": "a Python pickle. Export the model to ONNX first: myops.onnx.export",
    b"version https://git-lfs": "a pointer of Git LFS, not the file itself: run `git lfs pull`",
    b"<": "a web page or XML, as a failed download leaves",
}


def load(model: Model, *, weights: bool = True, expanded: bool = True) -> onnx.ModelProto:
    """Loads a model from a path, the bytes of a file or a ModelProto.

    Of the two names of the standard operators' domain, the result has "".

    Args:
        model: A ModelProto is not changed; it is returned itself, unless it says "ai.onnx".
        weights: Whether weights in other files ("external data") are read too.
        expanded: Whether the calls of its functions must be few enough to be replaced by nodes, as
            shape inference and ONNX Runtime do.

    Raises:
        FileNotFoundError: No such file, or a file with its weights is missing.
        ValueError: It is no ONNX model; the message says what it seems to be. Or a name in it is no
            UTF-8, a version is no int32, or its functions call themselves, or each other too often.
    """
    loaded = _load(model, weights)
    for holder in (loaded, *loaded.functions):
        for item in holder.opset_import:
            if not -(2**31) <= item.version < 2**31:  # onnx's functions take no others
                raise ValueError(
                    f"opset_import: got version {item.version} of {item.domain or 'ai.onnx'!r}, "
                    "expected a number of at most 31 bits: the file is damaged"
                )
    if expanded:
        calls.refuse_endless(loaded)
    return loaded


def _load(model: Model, weights: bool) -> onnx.ModelProto:
    if isinstance(model, onnx.ModelProto):
        return domains.usual(model)
    if isinstance(model, (bytes, bytearray, memoryview)):
        return _parse(bytes(model), "stdin" if isinstance(model, Stdin) else "bytes")
    path = Path(os.fspath(model))
    if path.is_dir():
        raise IsADirectoryError(f"{path}: got a folder, expected a file")
    if path.exists() and not path.is_file():
        raise OSError(f"{path}: got a device or a pipe, expected a file")
    if not path.is_file():
        beside = [item.name for item in path.parent.glob("*")] if path.parent.is_dir() else []
        raise FileNotFoundError(f"no such file: {path}.{near_misses(path.name, beside)}")
    loaded = _parse(_contents(path), str(path))
    if weights:
        try:
            onnx.load_external_data_for_model(loaded, str(path.parent))
        except (onnx.checker.ValidationError, OSError, ValueError) as error:
            if "literal for int()" in str(error):
                raise ValueError(
                    f"{path}: got weights whose offset or length is not a number of bytes "
                    f"({error}); the file was damaged or written by a faulty tool"
                ) from error
            raise FileNotFoundError(f"{path}: weights are missing: {error}") from error
    return loaded


def _contents(path: Path) -> bytes:
    """The bytes of a file. Its outermost fields are checked first, so that gigabytes of other data
    are not read."""
    with path.open("rb") as stream:
        size = os.fstat(stream.fileno()).st_size
        _refuse_others(stream.read(64), str(path))
        stream.seek(0)
        reason = _no_outline(stream, size)
        if reason:
            raise ValueError(
                f"{path}: got {size} bytes that are no ONNX model ({reason}); "
                "the file may have been cut off in a download"
            )
        if size > LIMIT:
            raise ValueError(
                f"{path}: got {size / 2**30:.1f} GiB in one file, expected less than 2 GiB, which "
                "protobuf can read: save the model with its weights in another file (external data)"
            )
        stream.seek(0)
        return stream.read()


def _no_outline(stream: IO[bytes], size: int) -> str:
    """Why a file cannot be a ModelProto, from its outermost fields, whose contents are not read."""
    place = 0
    for _ in range(_MOST_FIELDS):
        if place == size:
            return ""
        stream.seek(place)
        head = stream.read(20)  # two numbers of at most ten bytes
        tag, used = _varint(head)
        value, more = _varint(head[used:])
        kind = tag & 7
        if not used or not tag >> 3 or kind not in (0, 1, 2, 5) or (kind in (0, 2) and not more):
            return f"broken protobuf at byte {place}"
        if _FIELDS.get(tag >> 3, kind) != kind:
            return f"field {tag >> 3} at byte {place} has another type than in a model"
        place += used + {0: more, 1: 8, 2: more + value, 5: 4}[kind]
        if place > size:
            return f"broken protobuf: a field ends at byte {place}, the file at {size}"
    return ""


def _varint(data: bytes) -> tuple[int, int]:
    """A number in protobuf's encoding, and its size in bytes; size 0 if it is incomplete."""
    value = 0
    for place, byte in enumerate(data[:10]):
        value |= (byte & 127) << (7 * place)
        if byte < 128:
            return value, place + 1
    return 0, 0


def _refuse_others(start: bytes, name: str) -> None:
    if not start:
        raise ValueError(f"{name}: got an empty file, expected an ONNX model")
    for signature, what in _OTHERS.items():
        if start.startswith(signature):
            raise ValueError(f"{name}: got {what}, expected an ONNX model")


def _parse(data: bytes, name: str) -> onnx.ModelProto:
    _refuse_others(data[:64], name)
    try:
        model = onnx.ModelProto.FromString(data)
    except DecodeError as error:
        raise ValueError(
            f"{name}: got {len(data)} bytes that are no ONNX model (broken protobuf: {error}); "
            "the file may have been cut off in a download"
        ) from error
    if not model.HasField("graph"):
        raise ValueError(f"{name}: got a protobuf without a graph, expected an ONNX model")
    texts.refuse_bytes(model)
    domains.make_usual(model)
    return model


def is_large(model: onnx.ModelProto) -> bool:
    """Whether the model is too large for one protobuf message."""
    try:
        return model.ByteSize() >= LIMIT
    except EncodeError:  # some implementations of protobuf refuse to compute such a size
        return True


def save(model: onnx.ModelProto, path: str | os.PathLike[str]) -> None:
    """Writes a model; over 2 GB, the weights are stored in PATH.data beside it."""
    if not is_large(model):
        onnx.save(model, os.fspath(path))
        return
    # A copy, because saving with external data removes the weights from the model.
    large = onnx.ModelProto()
    large.CopyFrom(model)
    weights = os.path.basename(os.fspath(path)) + ".data"
    onnx.save(large, os.fspath(path), save_as_external_data=True, location=weights)
