"""The state of a module: what forward can change, as it was, and how to put it back.

State are the buffers, the plain attributes (counters, caches) and what is in lists, dicts and
tuples among these. Other objects of the user's are taken for unchanged, and so are the values in
weights, of which a copy would take too much memory.
"""

from __future__ import annotations

import contextlib
from collections import OrderedDict, defaultdict, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

_LISTS: tuple[Any, ...] = (list, deque)
_DICTS: tuple[Any, ...] = (dict, OrderedDict, defaultdict)
_COMPARED = (bool, int, float, complex, str, bytes, torch.Size, torch.dtype, torch.device)
_TABLES = ("_buffers", "_parameters", "_modules", "_non_persistent_buffers_set")
# Hooks and the like, which are the caller's business, and `training`, which forward leaves alone.
_TORCHS = frozenset(vars(torch.nn.Module())) - {*_TABLES}


@dataclass
class _Kept:
    """An object as it was. content: A copy of the tensor, or what was in the container."""

    value: Any
    content: Any = None
    version: int = 0


@dataclass
class Changes:
    """Names of what is not as it was.

    buffers: Of buffers with other values in the same shape, and of those that are gone.
    weights: Of weights, if something was written into them or they are others.
    results: Of plain attributes, and of buffers that are new or have another shape. Many of these
        are no state, but results that are kept, as a mask is for the next call.
    """

    buffers: set[str] = field(default_factory=set)
    weights: set[str] = field(default_factory=set)
    results: set[str] = field(default_factory=set)

    def add(self, other: Changes) -> None:
        self.buffers |= other.buffers
        self.weights |= other.weights
        self.results |= other.results


class ModuleState:
    """The state of a module, and of all modules in it, at the time of this call."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self._known: dict[int, _Kept] = {}
        if isinstance(model, torch.export.ExportedProgram):  # its modules share these tensors
            self._keep(dict(model.named_buffers()))
        self._keep(model)

    def restore(self) -> None:
        """Makes the state again what it was, in the same objects."""
        with torch.no_grad():
            for kept in self._known.values():
                _put_back(kept)

    def changes(self) -> Changes:
        """What is not as it was."""
        found = Changes()
        for path, module in getattr(self._model, "named_modules", list)():
            kept = self._known.get(id(module))
            if kept is None or kept.content is None:
                continue
            self._compare(f"{path}." if path else "", kept.content, _state_of(module), found)
        return found

    def _compare(self, path: str, old: dict[str, _Kept], new: Any, found: Changes) -> None:
        for table in ("_buffers", "_parameters"):
            before = old[table].content if table in old else {}
            after = new.get(table, {})
            for name in {*before, *after}:
                was = before.get(name, _Kept(None))
                if name in after and not self._differs(was, after[name], set()):
                    continue
                if table == "_parameters":
                    found.weights.add(path + name)
                elif name not in after or _shape(after[name]) == _shape(was.content):
                    found.buffers.add(path + name)
                else:
                    found.results.add(path + name)
        for name in {*old, *new} - {*_TABLES}:
            if name not in old or name not in new or self._differs(old[name], new[name], set()):
                found.results.add(path + name)

    def _keep(self, value: Any) -> _Kept:
        if value is None or isinstance(value, _COMPARED):
            return _Kept(value)
        kept = self._known.get(id(value))
        if kept is not None:
            return kept
        self._known[id(value)] = kept = _Kept(value)
        if isinstance(value, torch.Tensor):
            if isinstance(value, torch.nn.Parameter):
                kept.version = _version(value)
            elif not isinstance(value, FakeTensor):
                kept.content = value.detach().clone()
        elif isinstance(value, torch.nn.Module):
            if not _is_lazy(value):
                kept.content = {name: self._keep(x) for name, x in _state_of(value).items()}
        elif type(value) in _DICTS:
            kept.content = {key: self._keep(item) for key, item in value.items()}
        elif type(value) in _LISTS or isinstance(value, tuple):
            kept.content = [self._keep(item) for item in value]
        elif type(value) is set:
            kept.content = set(value)
        return kept

    def _differs(self, kept: _Kept, now: Any, seen: set[int]) -> bool:
        """Whether an object has another value than the one that was kept."""
        old, content = kept.value, kept.content
        if id(kept) in seen:  # a container in itself
            return False
        if isinstance(old, torch.nn.Parameter):
            return now is not old or _version(now) != kept.version
        if type(old) is not type(now):
            return True
        if isinstance(old, torch.Tensor):
            return content is not None and _same(now, content) is False
        seen = {*seen, id(kept)}
        if type(old) in _DICTS:
            return content.keys() != now.keys() or any(
                self._differs(content[key], now[key], seen) for key in content
            )
        if type(old) in _LISTS or isinstance(old, tuple):
            return len(content) != len(now) or any(
                self._differs(a, b, seen) for a, b in zip(content, now, strict=True)
            )
        if type(old) is set:
            return bool(content != now)
        return isinstance(old, _COMPARED) and old != now


@contextlib.contextmanager
def restored(model: Any) -> Iterator[ModuleState]:
    """After this context, the state of the model is what it was before."""
    state = ModuleState(model)
    try:
        yield state
    finally:
        state.restore()


def _state_of(module: Any) -> dict[str, Any]:
    if isinstance(module, torch.jit.ScriptModule):  # its attributes are not Python's
        return {
            "_buffers": dict(module.named_buffers(recurse=False)),
            "_parameters": dict(module.named_parameters(recurse=False)),
            "_modules": dict(module.named_children()),
        }
    return {name: item for name, item in vars(module).items() if name not in _TORCHS}


def _put_back(kept: _Kept) -> None:
    value, content = kept.value, kept.content
    if content is None:
        return
    if isinstance(value, torch.Tensor):
        if value.shape != content.shape or value.dtype != content.dtype:
            value.data = content.clone()
        elif not _same(value, content):
            value.copy_(content)
    elif isinstance(value, torch.jit.ScriptModule):
        for name, buffer in content["_buffers"].content.items():
            if getattr(value, name, None) is not buffer.value:
                setattr(value, name, buffer.value)
    elif isinstance(value, torch.nn.Module):
        own = vars(value)
        for name in {*own} - {*content} - _TORCHS:
            del own[name]
        own.update({name: item.value for name, item in content.items()})
    elif type(value) in _DICTS:
        items = {key: item.value for key, item in content.items()}
        if list(items) != list(value) or any(items[key] is not value[key] for key in items):
            value.clear()
            value.update(items)
    elif type(value) in _LISTS:
        if len(value) != len(content) or any(
            a is not b.value for a, b in zip(value, content, strict=True)
        ):
            value.clear()
            value.extend(item.value for item in content)
    elif type(value) is set and value != content:
        value.clear()
        value.update(content)


def _shape(value: Any) -> Any:
    return getattr(value, "shape", None)


def _is_lazy(module: torch.nn.Module) -> bool:
    """Whether the module gets its weights in its first run: these are no state."""
    tensors = [*module._parameters.values(), *module._buffers.values()]
    return any(item is not None and torch.nn.parameter.is_lazy(item) for item in tensors)


def _version(weight: torch.Tensor) -> int:
    return 0 if weight.is_inference() else weight._version  # which inference tensors do not count


def _same(one: torch.Tensor, other: torch.Tensor) -> bool | None:
    """Whether the values are the same, NaN included; None if they cannot be compared."""
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    try:
        if torch.equal(one, other):
            return True
        equal = one == other
        return bool((equal | (one != one) & (other != other)).all())
    except (RuntimeError, NotImplementedError):  # as those of sparse tensors
        return None
