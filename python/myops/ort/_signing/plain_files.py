"""Files of a signed bundle: only plain ones, opened from the folder down, no link followed."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_LONGEST = 1 << 22  # bytes of a file whose size nobody stated: signature.json, 150 a file


@contextlib.contextmanager
def opened(folder: Path) -> Iterator[int]:
    """A descriptor of the folder, which is the same folder even if its path is replaced."""
    try:
        root = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except NotADirectoryError as error:
        raise ValueError(f"{folder}: got a file, expected the folder of a bundle") from error
    try:
        yield root
    finally:
        os.close(root)


def read(
    root: int, folder: Path, name: str, expected: tuple[int, str] | None, copy: Path | None
) -> bytes:
    """Reads a file once: hashes it and writes what was hashed to `copy`.

    Returns:
        The content, where nothing is expected of it; else nothing.
    """
    most = expected[0] if expected else _LONGEST
    digest, size, content = hashlib.sha256(), 0, b""
    with contextlib.ExitStack() as stack:
        source = stack.enter_context(_plain_file(root, folder, name))
        target = stack.enter_context(copy.open("xb")) if copy else None
        while block := source.read(min(1 << 20, most - size + 1)):
            size += len(block)
            if size > most:
                break
            digest.update(block)
            if target:
                target.write(block)
            if expected is None:
                content += block
    got = digest.hexdigest()
    if size > most or (expected and (size, got) != expected):
        what = f"SHA-256 {got}" if size <= most else f"more than {most} bytes"
        wanted = f"SHA-256 {expected[1]}, as signed" if expected else "fewer"
        raise ValueError(
            f"{folder / name}: got {what}, expected {wanted}: the file was changed; copy the "
            "bundle again from whoever signed it"
        )
    return content


@contextlib.contextmanager
def _plain_file(root: int, folder: Path, name: str) -> Iterator[Any]:
    *folders, last = name.split("/")
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
    place = os.dup(root)
    try:
        for part in folders:
            inner = os.open(part, flags | os.O_DIRECTORY, dir_fd=place)
            os.close(place)
            place = inner
        opened = os.open(last, flags | os.O_NONBLOCK, dir_fd=place)  # or a FIFO would wait
    except FileNotFoundError as error:
        raise FileNotFoundError(
            f"{folder / name} is missing, expected a file that was signed; copy the whole bundle "
            "again"
        ) from error
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.ENOTDIR, errno.ENXIO):
            raise
        raise ValueError(_not_plain(folder / name)) from error
    finally:
        os.close(place)
    with open(opened, "rb", buffering=0) as stream:
        if not stat.S_ISREG(os.fstat(opened).st_mode):
            raise ValueError(_not_plain(folder / name))
        yield stream


def _not_plain(path: Path) -> str:
    return (
        f"{path}: got a symbolic link, a folder or a device, here or in the path, expected a plain "
        "file; copy the bundle again (with `cp -L` if its files are links)"
    )
