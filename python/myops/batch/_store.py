"""Files of sources and outputs: in folders, and in buckets through fsspec.

A file is either complete or does not exist. In a folder it gets a temporary name and is renamed; in
an object store an object appears when its upload is complete; elsewhere it is renamed.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import tempfile
import uuid
from collections.abc import Callable, Iterator
from typing import IO, Any

# Stores in which an object appears whole when it has been uploaded, and whose rename is a copy.
_OBJECT_STORES = {"s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "adl", "oci", "oss", "memory"}


class WriteError(OSError):
    """An output cannot be written: the disk is full, or it may not be written to. Ends the run."""


def is_remote(path: str) -> bool:
    """Whether a path is a URL for fsspec, such as "s3://bucket/folder"."""
    return "://" in path


def plain(path: str) -> str:
    """A path without "file://", which means a local path."""
    return path.removeprefix("file://").removeprefix("local://")


def filesystem(path: str) -> tuple[Any, str]:
    """fsspec's file system of a path, and the path in it.

    Raises:
        ImportError: fsspec, or the package that it needs for this kind of path, is missing.
        ValueError: There is no such kind of path.
    """
    try:
        import fsspec
    except ImportError as error:
        raise ImportError(
            f"{path}: needs the package fsspec, which is not installed: pip install fsspec"
        ) from error
    try:
        found, inner = fsspec.core.url_to_fs(path)
    except ImportError as error:
        raise ImportError(f"{path}: {error}") from error
    return found, inner


def read(path: str) -> bytes:
    """The bytes of a file."""
    if is_remote(path):
        files, inner = filesystem(path)
        return bytes(files.cat_file(inner))
    with opened(path) as stream:
        return stream.read()


@contextlib.contextmanager
def opened(path: str) -> Iterator[IO[bytes]]:
    """A file for reading at any place in it."""
    if is_remote(path):
        files, inner = filesystem(path)
        with files.open(inner, "rb") as stream:
            yield stream
        return
    with open(path, "rb", opener=_regular) as stream:
        yield stream


def _regular(path: str, flags: int) -> int:
    """Opens a file: a pipe could keep its reader waiting, and a device never ends."""
    found = os.open(path, flags | os.O_NONBLOCK)
    if stat.S_ISREG(os.fstat(found).st_mode):
        return found
    os.close(found)
    raise OSError(errno.EINVAL, "got no regular file, expected one", path)


def join(folder: str, name: str) -> str:
    """The path of a file in a folder."""
    return f"{folder.rstrip('/')}/{name}" if is_remote(folder) else os.path.join(folder, name)


def write(path: str, data: bytes) -> int:
    """Writes a file, whole or not at all; how many bytes.

    Raises:
        WriteError: It cannot be written.
    """
    with writing(path) as stream:
        stream.write(data)
    return len(data)


@contextlib.contextmanager
def writing_large(path: str, partial: str) -> Iterator[IO[bytes]]:
    """As `writing`, for files that may be larger than memory.

    Args:
        partial: The folder in which the file is while it is written, beside `path`.
    """
    if not is_remote(path):
        with writing(path, partial) as stream:
            yield stream
        return
    try:
        with tempfile.NamedTemporaryFile() as stream:
            yield stream
            stream.flush()
            _appear(path, lambda files, inner: files.put_file(stream.name, inner))
    except WriteError:
        raise
    except OSError as error:
        raise WriteError(error.errno, f"{path}: {error.strerror}") from error


@contextlib.contextmanager
def temporary(folder: str) -> Iterator[str]:
    """A path for a file beside the outputs, or on this machine where these are elsewhere; what is
    there when the block ends is removed, or by `remove_partial` after a run that was killed."""
    with contextlib.ExitStack() as stack:
        if is_remote(folder):
            folder = stack.enter_context(tempfile.TemporaryDirectory())
        path = _partial(folder)
        stack.callback(_remove, path)
        yield path


def _partial(folder: str) -> str:
    """Not the name of an output and an ending, which could be too long together."""
    return join(folder, f".{uuid.uuid4().hex}.part")


@contextlib.contextmanager
def writing(path: str, partial: str = "") -> Iterator[IO[bytes]]:
    """A stream into a file that appears when the block ends, and not when it raises.

    Args:
        partial: The folder in which it is until then; default: that of the file.

    Raises:
        WriteError: It cannot be written.
    """
    if is_remote(path):
        with _writing_remote(path) as stream:
            yield stream
        return
    folder, name = os.path.split(path)
    partial = _partial(partial or folder)
    try:
        os.makedirs(folder or ".", exist_ok=True)
        with open(partial, "wb") as stream:
            yield stream
        os.replace(partial, path)
    except OSError as error:
        _remove(partial)
        raise WriteError(error.errno, f"{os.path.join(folder, name)}: {error.strerror}") from error
    except BaseException:
        _remove(partial)
        raise


@contextlib.contextmanager
def _writing_remote(path: str) -> Iterator[IO[bytes]]:
    import io

    buffer = io.BytesIO()
    yield buffer
    _appear(path, lambda files, inner: files.pipe_file(inner, buffer.getvalue()))


def _appear(path: str, put: Callable[[Any, str], object]) -> None:
    """Lets a file appear that put(file system, path) writes: whole or not at all."""
    files, inner = filesystem(path)
    try:
        if {*_protocols(files)} & _OBJECT_STORES:
            put(files, inner)
            return
        folder, _, _ = inner.rpartition("/")
        files.makedirs(folder, exist_ok=True)
        partial = _partial(folder)
        put(files, partial)
        if files.exists(inner):
            files.rm_file(inner)
        files.mv(partial, inner)
    except Exception as error:  # each store has its own kinds
        raise WriteError(f"{path}: {error}") from error


def _protocols(files: Any) -> tuple[str, ...]:
    return (files.protocol,) if isinstance(files.protocol, str) else tuple(files.protocol)


def _remove(path: str) -> None:
    with contextlib.suppress(OSError):
        os.remove(path)


def remove(path: str) -> None:
    """Removes a file, if it is there."""
    if is_remote(path):
        files, inner = filesystem(path)
        with contextlib.suppress(FileNotFoundError):
            files.rm_file(inner)
    else:
        _remove(path)


def size(path: str) -> int:
    """How many bytes a file has; -1 where there is none."""
    try:
        if is_remote(path):
            files, inner = filesystem(path)
            return int(files.size(inner))
        return os.path.getsize(path)
    except OSError:
        return -1


def exists(path: str) -> bool:
    """Whether there is such a file or folder."""
    if is_remote(path):
        files, inner = filesystem(path)
        return bool(files.exists(inner))
    return os.path.exists(path)


def names(folder: str) -> list[str]:
    """The names in a folder; none where it does not exist."""
    try:
        if is_remote(folder):
            files, inner = filesystem(folder)
            return sorted(str(item).rstrip("/").rpartition("/")[2]
                          for item in files.ls(inner, detail=False))  # fmt: skip
        return sorted(os.listdir(folder))
    except FileNotFoundError:
        return []


def remove_partial(folder: str) -> None:
    """Removes what runs that were killed left half written in a folder and those in it."""
    if is_remote(folder):
        return
    for root, _, files in os.walk(folder):
        for name in files:
            if name.startswith(".") and name.endswith(".part") and len(name) == 38:
                _remove(os.path.join(root, name))
