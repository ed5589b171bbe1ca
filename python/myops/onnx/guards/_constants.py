"""The integers that a model computes with: in its code, its attributes, its variables."""

from __future__ import annotations

import math
from typing import Any

from myops.onnx.exporting.recorded import is_users
from myops.onnx.guards._profiler import profiled_by

_MOST = 4096


class Constants:
    """A context that collects the numbers in the functions that run, outside torch and this
    library.

    At these numbers, results that a model computes from a length change: h // 14, h % 32, h > 512.
    """

    def __init__(self) -> None:
        self.found: set[int] = set()
        self._seen: dict[Any, bool] = {}

    def __enter__(self) -> Constants:
        self._profiler = profiled_by(self._profile)
        self._profiler.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._profiler.__exit__(None, None, None)

    def _profile(self, frame: Any, event: str, argument: Any) -> None:
        if event != "return":
            return
        code = frame.f_code
        if code not in self._seen:
            self._seen[code] = is_users(code.co_filename)
            if self._seen[code]:
                self.add(code.co_consts)
        if self._seen[code]:
            local = frame.f_locals
            self.add(list(local.values()))
            self.add(list(getattr(local.get("self"), "__dict__", {}).values()))

    def add(self, value: Any, depth: int = 2) -> None:
        """Adds the integers in a value; for a factor of 0.25, which divides by 4, adds 4."""
        if isinstance(value, (tuple, list)) and depth and len(value) <= 256:
            for item in value:
                self.add(item, depth - 1)
        elif type(value) in (int, float) and math.isfinite(value) and value:
            for item in (abs(value), 1 / abs(value)):
                near = round(item) if item < _MOST else 0
                if near >= 2 and abs(item - near) < 1e-3 * near:
                    self.found.add(near)
