"""Files of NumPy: .npy and .npz."""

from __future__ import annotations

import contextlib
import io
import math
import os
import shutil
import struct
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import IO, Any

import numpy as np

from myops.batch import _store

Column = np.ndarray | list[Any]  # an array with the rows on axis 0, or a value for each row
SHAPE = ".shape"


def kind(path: str) -> str:
    """ "npy", "npz" or "parquet"."""
    return path.lower().rpartition(".")[2]


def load(data: bytes, path: str) -> dict[str, np.ndarray]:
    """The arrays of a .npy (under "") or .npz file.

    Raises:
        ValueError: It is neither, or holds Python objects.
    """
    try:
        found = np.load(io.BytesIO(data), allow_pickle=False)
        return {"": found} if isinstance(found, np.ndarray) else {k: found[k] for k in found.files}
    except Exception as error:  # zipfile has kinds of its own
        raise ValueError(f"{path}: {error or 'got an empty file, expected arrays'}") from error


@dataclass(frozen=True)
class Header:
    """What stands before the elements of an array.

    shape, dtype: Of the array.
    fortran: Whether elements that are neighbours on the first axis are neighbours in the file.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    fortran: bool


def headers(path: str) -> dict[str, tuple[tuple[int, ...], np.dtype[Any]]]:
    """Name -> shape and dtype of the arrays in a .npy (under "") or .npz file, read from its
    headers alone.

    Raises:
        FileNotFoundError: It does not exist.
        ValueError: It is damaged, or holds Python objects.
    """
    with _checked(path), _store.opened(path) as stream:
        if kind(path) == "npy":
            found = {"": _header(stream)}
            start = stream.tell()
            _check_size(found[""], stream.seek(0, os.SEEK_END) - start)
        else:
            with zipfile.ZipFile(stream) as archive:
                found = {}
                for item in archive.infolist():
                    with archive.open(item) as inner:
                        head = _header(inner)
                        _check_size(head, item.file_size - inner.tell())
                    found[item.filename.removesuffix(".npy")] = head
    return {name: (item.shape, item.dtype) for name, item in found.items()}


def check_sums(path: str) -> None:
    """Reads a .npz through and compares the checksums of its arrays: what is not compressed is
    later read a few rows at a time, where damage to a number would not be noticed.

    Raises:
        ValueError: It is damaged.
    """
    with _checked(path), _store.opened(path) as stream, zipfile.ZipFile(stream) as archive:
        for item in archive.infolist():
            with archive.open(item) as inner:
                while inner.read(2**20):
                    pass


@contextlib.contextmanager
def _checked(path: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise
    except Exception as error:  # zipfile has kinds of its own
        raise ValueError(f"{path}: {error or 'got an empty file, expected arrays'}") from error


def _header(stream: Any) -> Header:
    version = np.lib.format.read_magic(stream)
    if version not in ((1, 0), (2, 0)):
        raise ValueError(f"got version {version} of the format, expected 1.0 or 2.0")
    read = getattr(np.lib.format, f"read_array_header_{version[0]}_0")
    shape, fortran, dtype = read(stream)
    if dtype.hasobject:
        raise ValueError("got Python objects, expected numbers or text")
    if any(length < 0 for length in shape):
        raise ValueError(f"got an array of shape {list(shape)}, expected no negative length")
    return Header(shape, dtype, fortran)


def _check_size(head: Header, size: int) -> None:
    """Raises ValueError where fewer bytes follow a header than its array has: it may say any
    number of rows, and each would be a failure."""
    if size < math.prod(head.shape) * head.dtype.itemsize:
        raise ValueError(f"got a file that is shorter than an array of shape {list(head.shape)}")


class Stored:
    """An array in a file, of which some rows are read at a time.

    Args:
        file: It has a number for the system.
        head: What the array is.
        start: Where its elements begin.
        path: What messages call it.
    """

    def __init__(self, file: IO[bytes], head: Header, start: int, path: str) -> None:
        self.shape, self.dtype = head.shape, head.dtype
        self._file, self._fortran, self._start, self._path = file, head.fortran, start, path
        _check_size(head, os.fstat(file.fileno()).st_size - start)

    def rows(self, first: int, count: int) -> np.ndarray:
        """Rows of axis 0.

        Raises:
            OSError: They cannot be read.
            ValueError: The file has become shorter.
        """
        count = max(0, min(count, self.shape[0] - first))
        tail = self.shape[1:]
        each = math.prod(tail) * self.dtype.itemsize
        if not self._fortran or len(self.shape) == 1:
            data = self._read(self._start + first * each, count * each)
            return np.frombuffer(data, self.dtype).reshape(count, *tail)
        # The rows' elements at each place of the other axes are neighbours.
        size, step = count * self.dtype.itemsize, self.shape[0] * self.dtype.itemsize
        begin = self._start + first * self.dtype.itemsize
        data = b"".join(self._read(begin + place * step, size) for place in range(math.prod(tail)))
        return np.frombuffer(data, self.dtype).reshape((count, *tail), order="F")

    def _read(self, start: int, size: int) -> bytes:
        # Not a map of the file into memory, which ends the process where the file is cut meanwhile.
        parts = []
        while size:
            parts.append(os.pread(self._file.fileno(), size, start))
            if not parts[-1]:
                raise ValueError(f"{self._path}: the file has become shorter while it was read")
            start, size = start + len(parts[-1]), size - len(parts[-1])
        return parts[0] if len(parts) == 1 else b"".join(parts)


def stored(path: str) -> dict[str, Stored]:
    """The arrays of a .npy (under "") or .npz file, which may be larger than memory.

    What is compressed, or on another machine, is copied into a file without a name first.

    Raises:
        FileNotFoundError: It does not exist.
        ValueError: It is damaged, or holds Python objects.
    """
    found = {}
    with _checked(path), _store.opened(path) as stream:
        here = not _store.is_remote(path)
        if kind(path) == "npy":
            file = os.fdopen(os.dup(stream.fileno()), "rb") if here else _copy(stream)
            file.seek(0)
            return {"": Stored(file, _header(file), file.tell(), path)}
        with zipfile.ZipFile(stream) as archive:
            for item in archive.infolist():
                with archive.open(item) as inner:
                    if here and item.compress_type == zipfile.ZIP_STORED:
                        head = _header(inner)
                        file = os.fdopen(os.dup(stream.fileno()), "rb")
                        start = _start(file, item) + inner.tell()
                    else:
                        file = _copy(inner)
                        head, start = _header(file), file.tell()
                found[item.filename.removesuffix(".npy")] = Stored(file, head, start, path)
    return found


def _copy(stream: IO[bytes]) -> IO[bytes]:
    file = tempfile.TemporaryFile()  # noqa: SIM115  (lives as long as the array)
    shutil.copyfileobj(stream, file, 2**20)
    file.flush()
    file.seek(0)
    return file


def _start(file: IO[bytes], item: zipfile.ZipInfo) -> int:
    """Where the bytes of a file in an archive begin, which its own header says."""
    name, extra = struct.unpack("<HH", os.pread(file.fileno(), 4, item.header_offset + 26))
    return item.header_offset + 30 + int(name) + int(extra)


def write_npz(stream: IO[bytes], columns: Mapping[str, Column]) -> None:
    """Writes columns as a .npz. Where rows have different shapes: all elements in one array,
    and the shapes in NAME.shape."""
    made: dict[str, np.ndarray] = {}
    for name, column in columns.items():
        if isinstance(column, np.ndarray):
            made[name] = column
            continue
        arrays = [np.asarray(item) for item in column]
        if len({item.shape for item in arrays}) == 1:
            made[name] = np.stack(arrays)
        elif len({item.ndim for item in arrays}) == 1:
            made[name] = np.concatenate([item.reshape(-1) for item in arrays])
            made[name + SHAPE] = np.array([item.shape for item in arrays], np.int64)
        else:
            raise ValueError(f"output {name!r}: got rows of different ranks, expected one rank")
    with zipfile.ZipFile(stream, "w") as archive:
        for name, item in made.items():
            with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as inner:
                np.lib.format.write_array(inner, text(item), allow_pickle=False)


def text(array: np.ndarray) -> np.ndarray:
    """Strings as NumPy writes them without pickle."""
    return array.astype(np.str_) if array.dtype == object else array


def arrays_file(arrays: Mapping[str, np.ndarray]) -> bytes:
    """The bytes of a .npz that depend on the arrays alone, not on the clock."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, array in arrays.items():
            inner = io.BytesIO()
            np.lib.format.write_array(inner, np.asanyarray(array), allow_pickle=False)
            archive.writestr(zipfile.ZipInfo(f"{name}.npy"), inner.getvalue())
    return stream.getvalue()


def array_file(array: np.ndarray) -> bytes:
    """The bytes of a .npy."""
    stream = io.BytesIO()
    np.lib.format.write_array(stream, text(array), allow_pickle=False)
    return stream.getvalue()
