"""Opens files of Parquet, which may be damaged."""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Iterator
from typing import Any

from myops.batch import _store


def arrow() -> Any:
    """The package pyarrow, or ImportError that says how to get it."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise ImportError(
            "Parquet needs the package pyarrow, which is not installed: pip install pyarrow"
        ) from error
    return pyarrow


@contextlib.contextmanager
def opened(path: str, buffer: int = 0) -> Iterator[Any]:
    """A pyarrow.parquet.ParquetFile.

    Args:
        buffer: Bytes of each column that are read at once; 0: all of a row group.

    Raises:
        ValueError: It is none, or it is damaged; also where this shows in the block.
    """
    pyarrow = arrow()
    with _store.opened(path) as stream, readable(path):
        yield pyarrow.parquet.ParquetFile(stream, buffer_size=buffer)


@contextlib.contextmanager
def readable(path: str) -> Iterator[None]:
    """Raises ValueError in place of what pyarrow raises for a damaged file."""
    try:
        yield
    except (arrow().ArrowException, UnicodeDecodeError) as error:
        caught: Exception = error
    except OSError as error:
        if error.errno is not None or type(error) is not OSError:  # of the system, or a WriteError
            raise
        caught = error
    else:
        return
    raise ValueError(
        f"{path}: cannot be read as a Parquet file, it may be damaged: {caught}"
    ) from caught


class _NoReadError(Exception):
    pass


class _Unread(io.RawIOBase):
    """A file of which only the size is known."""

    def __init__(self, size: int) -> None:
        self._size, self._at = size, 0

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._at = offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._size}[whence]
        return self._at

    def tell(self) -> int:
        return self._at

    def seekable(self) -> bool:
        return True

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        raise _NoReadError


@contextlib.contextmanager
def examined(path: str) -> Iterator[Any]:
    """As `opened`, for those who ask for the metadata of columns.

    `metadata.row_group(i).column(j)` ends the process where the footer is damaged: pyarrow does not
    expect an exception of C++ there. Reading handles them, and with `pre_buffer` it looks at all of
    this metadata before it reads any data, which this file does not give it.
    """
    with opened(path) as file:
        data = file.metadata
        unread = _Unread(_store.size(path))
        again = arrow().parquet.ParquetFile(unread, metadata=data, pre_buffer=True)
        with contextlib.suppress(_NoReadError):
            again.read_row_groups(range(data.num_row_groups), use_threads=False)
        found = [data.row_group(number).num_rows for number in range(data.num_row_groups)]
        if min(found, default=0) < 0 or sum(found) != data.num_rows:
            raise ValueError(
                f"{path}: got a damaged Parquet file: it has {data.num_rows} rows by its footer, "
                f"expected {sum(found)} as in its row groups"
            )
        yield file
