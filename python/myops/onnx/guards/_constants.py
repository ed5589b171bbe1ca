"""The integers that a model computes with: in its code, its attributes, its variables."""

from __future__ import annotations

import numbers
import sys
from collections.abc import Iterator, Mapping
from types import CodeType, ModuleType
from typing import Any

import torch

from myops.onnx.exporting.recorded import is_users
from myops.onnx.guards._profiler import profiled_by

_MOST = 2**31
_MOST_INVERSE = 4096  # 1e-6 is no division by a million
_DEEPEST = 3  # attributes after the variable: self.config.audio.limit


class Constants:
    """A context that collects the numbers in the functions that run, outside torch and this
    library: in their code, variables and modules, and what their code names of other objects.

    At these numbers, results that a model computes from a length change: h // 14, h % 32, h > 512.
    """

    def __init__(self) -> None:
        self.found: set[int] = set()
        self._seen: dict[CodeType, bool] = {}
        self._looked: dict[tuple[CodeType, int], Any] = {}  # the objects, as ids are used again

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
                named = [frame.f_globals[n] for n in code.co_names if n in frame.f_globals]
                self.add(named)
                for item in named:
                    self._look(code, item)
        if self._seen[code]:
            local = frame.f_locals
            self.add(list(local.values()))
            self.add(list(getattr(local.get("self"), "__dict__", {}).values()))
            for item in list(local.values()):
                self._look(code, item)

    def _look(self, code: CodeType, item: Any, depth: int = _DEEPEST) -> None:
        """Adds the attributes and entries of an object that the code names."""
        if (code, id(item)) in self._looked or not depth:
            return
        if isinstance(item, (numbers.Number, str, torch.Tensor)) or item is None:
            return
        self._looked[code, id(item)] = item
        for value in _named(item, code):
            self.add(value)
            self._look(code, value, depth - 1)

    def add(self, value: Any, depth: int = 2) -> None:
        """Adds the integers in a value; for a factor of 0.25, which divides by 4, adds 4."""
        if isinstance(value, (tuple, list)) and depth and len(value) <= 256:
            for item in value:
                self.add(item, depth - 1)
        elif isinstance(value, (numbers.Integral, float)) and not isinstance(value, bool):
            size: Any = abs(value)
            if 0 < size < _MOST:
                self._add_near(size)
            if 1 / _MOST_INVERSE <= size < 1:
                self._add_near(1 / size)

    def _add_near(self, item: Any) -> None:
        near = round(item)
        if near >= 2 and abs(item - near) < 1e-3 * near:
            self.found.add(near)


def _named(item: Any, code: CodeType) -> Iterator[Any]:
    """What the code names of an object, without running code of the object's class."""
    if isinstance(item, Mapping):
        if type(item) is dict:
            yield from (item[key] for key in code.co_consts if _is_key(key) and key in item)
        return
    places = list(_dictionaries(item))
    for name in code.co_names:
        yield from (place[name] for place in places if name in place)


def _is_key(value: Any) -> bool:
    return isinstance(value, (str, int))


def _dictionaries(item: Any) -> Iterator[Mapping[str, Any]]:
    """Where the attributes of an object are, and those of its classes that are the model's."""
    if isinstance(item, ModuleType):
        if is_users(getattr(item, "__file__", None) or "<built-in>"):
            yield vars(item)
        return
    own = getattr(item, "__dict__", None) if not isinstance(item, type) else None
    if isinstance(own, dict):
        yield own
        if isinstance(item, torch.nn.Module):
            yield own.get("_modules") or {}
    for kind in (item if isinstance(item, type) else type(item)).__mro__:
        if _is_models(kind):
            yield vars(kind)


def _is_models(kind: type) -> bool:
    """Whether a class belongs to the model and not to Python, torch or this library."""
    file = getattr(sys.modules.get(kind.__module__), "__file__", None)
    return kind.__module__ == "__main__" or is_users(file or "<built-in>")
