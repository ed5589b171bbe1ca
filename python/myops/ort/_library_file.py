"""Library files that must not be loaded: the system's loader ends the process (SIGBUS) for one
whose end is missing, as after a download that broke off."""

from __future__ import annotations

import os
import struct
import sys

_ELF = b"\x7fELF"
_WIDE_LITTLE = b"\x02\x01"  # 64 bit, little-endian: all systems for which libraries are built
_LOADED = 1  # the type of a segment that is loaded into memory


def refuse_damaged(path: str) -> None:
    """Looks at the headers of a file only.

    Raises:
        ValueError: It is no shared library, or only the beginning of one.
    """
    if sys.platform != "linux":
        return  # the loaders of other systems look at the size themselves
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        head = file.read(64)
        if not head.startswith(_ELF):
            raise ValueError(
                f"{path}: got a file that is no shared library, expected one with custom operators "
                "for ONNX Runtime; `myops doctor --library FILE` says what it is"
            )
        if head[4:6] != _WIDE_LITTLE:
            return  # the loader refuses it
        if len(head) == 64:
            (start,) = struct.unpack_from("<Q", head, 32)
            each, count = struct.unpack_from("<HH", head, 54)
            file.seek(start)
            table = file.read(each * count)
            if len(table) == each * count and not any(
                _ends_after(table, place, size) for place in range(0, len(table), each or 1)
            ):
                return
    raise ValueError(
        f"{path}: got the beginning of a shared library, expected all of it: the file was cut off, "
        "as by a download or a copy that broke off; copy it again"
    )


def _ends_after(table: bytes, place: int, size: int) -> bool:
    """Whether a segment goes beyond the end of the file."""
    (kind,) = struct.unpack_from("<I", table, place)
    (start,) = struct.unpack_from("<Q", table, place + 8)
    (length,) = struct.unpack_from("<Q", table, place + 32)
    return kind == _LOADED and start + length > size
