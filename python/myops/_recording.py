"""What calls of ops did: the lines that the native libraries make of each call, as dictionaries.

The libraries of every known op library are asked: for torch, for NumPy and torch's fast calls, and
for ONNX Runtime. Each is a binary with a core of its own, so each records for itself.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from myops import _libraries, _numpy

_one_at_a_time = threading.Lock()


@contextlib.contextmanager
def recorded(who: str = "explain") -> Iterator[list[dict[str, Any]]]:
    """Records every call of an op in this process, on any thread, while the block runs.

    The list is filled when the block ends, in the order in which the calls began. A call that was
    made from inside another `recorded` block is a RuntimeError.
    """
    calls: list[dict[str, Any]] = []
    if not _one_at_a_time.acquire(blocking=False):
        raise RuntimeError(
            f"{who}: got a call while another one records, expected one at a time: calls of all "
            "threads are recorded together"
        )
    begun: list[Any] = []
    try:
        for library in _libraries.known():
            for source in _sources(library):
                source.begin()
                begun.append(source)
        yield calls
    finally:
        try:
            lines = [line for source in begun for line in source.end().splitlines()]
            calls.extend(sorted(map(json.loads, lines), key=lambda call: call["start"]))
        finally:
            _one_at_a_time.release()


class _Module:
    """A module `_numpy`."""

    def __init__(self, module: Any) -> None:
        self.begin = module.record_calls
        self.end = module.recorded_calls


class _Binary:
    """A library for torch or ONNX Runtime."""

    def __init__(self, path: Path) -> None:
        self._function = ctypes.CDLL(str(path)).myops_record_calls
        self._function.restype = ctypes.c_char_p
        self._function.argtypes = (ctypes.c_int,)

    def begin(self) -> None:
        self._function(1)

    def end(self) -> str:
        return self._function(0).decode()


def _sources(library: _libraries.Library) -> Iterator[Any]:
    """What can record: the module, and the binaries that this process has loaded."""
    module = _numpy if library is _libraries.OURS else sys.modules.get(f"{library.package}._numpy")
    if module is not None:
        yield _Module(module)
    for path in library.loaded():
        yield _Binary(path)
