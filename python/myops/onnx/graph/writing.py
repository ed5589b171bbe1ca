"""Writes an exported model, so that a file is either complete or not written at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import onnx
from onnx import external_data_helper

from myops.onnx.graph import files


def refuse(f: Any, external_data: bool) -> None:
    """Refuses, before the export, a destination that cannot be written after it."""
    if f is None or isinstance(f, (str, os.PathLike)):
        if f is not None:
            refuse_unwritable(f, "export: f")
        return
    if not hasattr(f, "write"):
        raise TypeError(f"export: f: got {type(f).__name__}, expected a path or a file object")
    if external_data:
        raise ValueError("export: f: got a file object, expected a path: external_data needs one")


def refuse_target(f: files.Target) -> None:
    """The same for what takes long: so that its result is not lost at the end."""
    if isinstance(f, (str, os.PathLike)):
        refuse_unwritable(f, "f")


def refuse_unwritable(path: str | os.PathLike[str], what: str) -> None:
    """Refuses a file that cannot be written.

    Args:
        path: The file.
        what: What messages call it.

    Raises:
        OSError: It is a folder, its folder does not exist, or nothing can be written there.
    """
    path = Path(path)
    if "\0" in os.fspath(path):
        raise ValueError(f"{what}: got {os.fspath(path)!r}, expected a path")
    if path.is_dir():
        raise IsADirectoryError(f"{what}: {path}: got a folder, expected a file")
    if not path.absolute().parent.is_dir():
        raise FileNotFoundError(f"{what}: {path}: no such folder: {path.parent}")
    if path.exists():
        if not os.access(path, os.W_OK):
            raise PermissionError(f"{what}: {path}: got a file that cannot be written")
        return
    try:
        with tempfile.NamedTemporaryFile(prefix=f".{path.name[:50]}.", dir=path.absolute().parent):
            pass
    except UnicodeEncodeError as error:
        raise ValueError(f"{what}: got {os.fspath(path)!r}, expected a path") from error
    except OSError as error:  # it would tell the temporary name
        raise type(error)(f"{what}: {path}: cannot be written: {error.strerror}") from error


def write(model: onnx.ModelProto, f: Any, external_data: bool) -> None:
    """Writes a model to a path or a stream; an existing file is replaced at the end."""
    large = files.is_large(model)
    refuse_target(f)
    if isinstance(f, (str, os.PathLike)):
        _write_file(model, Path(f).resolve(), external_data, large)
    elif f is not None:
        if large:
            raise ValueError("export: f: got a file object, expected a path: over 2 GB do not fit")
        if not callable(getattr(f, "write", None)):
            raise TypeError(
                f"f: got {f!r}, expected a path, an object open for writing bytes, or None"
            )
        f.write(model.SerializeToString())


def _write_file(model: onnx.ModelProto, path: Path, external_data: bool, large: bool) -> None:
    if path.exists() and not path.is_file():  # /dev/null
        files.save(model, path)
        return
    with tempfile.TemporaryDirectory(prefix=f".{path.name}.", dir=path.parent) as folder:
        new = Path(folder) / path.name
        files.save(_outside(model, path.name) if external_data and not large else model, new)
        if large:
            onnx.checker.check_model(os.fspath(new), full_check=True)
        for item in sorted(Path(folder).iterdir(), reverse=True):  # the weights before the model
            os.replace(item, path.parent / item.name)


def _outside(model: onnx.ModelProto, name: str) -> onnx.ModelProto:
    """A copy whose weights are written beside it; small ones, such as shapes, stay in the model."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    external_data_helper.convert_model_to_external_data(
        copy, all_tensors_to_one_file=True, location=f"{name}.data", size_threshold=1024
    )
    return copy
