"""Records what forward reads into Python while it is traced: a trace makes it a constant.

A trace records no decision, but each time forward reads a length or another number into Python, a
tensor is asked for it, which can be observed.
"""

from __future__ import annotations

import contextlib
import functools
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import torch
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

from myops.onnx.exporting.recorded import (
    Attribute,
    Read,
    Recorded,
    constant_arguments,
    is_users,
    traced_place,
    user_place,
)

_READS = {
    "__int__": "int()", "__float__": "float()", "__bool__": "if, and, or, not", "item": ".item()",
    "__index__": "range() or an index", "tolist": ".tolist()", "numpy": ".numpy()",
    "__array__": "NumPy", "__complex__": "complex()",
}  # fmt: skip
_MAY_WARN = ("__getitem__", "__len__", "__iter__", "__contains__", "unbind", "tensor", "as_tensor")
_COPIES = ("tensor", "as_tensor", "roll")  # turn lengths into constants without reading them
_LENGTHS = ("__get__", "size", "numel")  # give lengths; __get__ is x.shape, among others

_NAMES_VALUES = "_jit_pass_onnx_assign_scoped_names_for_node_and_value"


@contextlib.contextmanager
def recording_trace(found: Recorded) -> Iterator[None]:
    """Notes what forward reads into Python while it is traced, the operator that fails then, and
    where the values of the graph come from.

    What torch has under another name is not noted.
    """
    from torch.onnx._internal import torchscript_exporter

    utils: Any = getattr(torchscript_exporter, "utils", None)
    write = getattr(utils, "_run_symbolic_function", None)
    named = getattr(torch._C, _NAMES_VALUES, None)

    def naming(graph: Any) -> None:
        assert named is not None
        named(graph)
        for node in graph.nodes():
            found.origins |= dict.fromkeys(
                (v.debugName() for v in node.outputs()), node.sourceRange()
            )

    def writing(graph: Any, block: Any, node: Any, *args: Any, **kwargs: Any) -> Any:
        assert write is not None
        try:
            return write(graph, block, node, *args, **kwargs)
        except Exception:
            found.failed = found.failed or (node.kind(), traced_place(node.sourceRange()))
            raise

    with contextlib.ExitStack() as stack:
        if write is not None:
            stack.enter_context(mock.patch.object(utils, "_run_symbolic_function", writing))
        if named is not None:
            stack.enter_context(mock.patch.object(torch._C, _NAMES_VALUES, naming))
        stack.enter_context(TraceReads(found))
        yield


class TraceReads(TorchFunctionMode):
    """A context that notes what is read while a model is traced in it."""

    def __init__(self, found: Recorded) -> None:
        super().__init__()
        self._found = found
        self._said: set[Any] = set()
        self._made: dict[int, _Number] = {}

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if not torch.jit.is_tracing():
            return function(*args, **kwargs)
        name = getattr(function, "__name__", "")
        self._found.attributes += [
            Attribute(*named, user_place())
            for named, value in constant_arguments(function, args, kwargs)
            if any(map(_is_number, value if isinstance(value, (list, tuple)) else [value]))
        ]
        frame: Any = sys._getframe(1)
        call = functools.partial(function, *args, **kwargs)
        warns = name in _READS or name in _MAY_WARN
        result = self._warning_at(frame, call) if warns else call()
        if name in _READS and args and _is_number(args[0]):
            self._note(frame, _READS[name], args[:1], result)
        elif name in _COPIES and any(map(_is_number, pytree.tree_leaves((args, kwargs)))):
            self._note(frame, f"torch.{name}()", (args, kwargs), None)
        if name in _LENGTHS and isinstance(result, (tuple, torch.Tensor)):
            numbers = [item for item in pytree.tree_leaves(result) if _is_number(item)]
            if name != "__get__" or isinstance(result, tuple):
                self._made |= {id(item): _Number(item, None, True) for item in numbers}
        elif _is_number(result):
            self._made[id(result)] = self._number(result, (*args, *kwargs.values()))
        return result

    def _note(self, frame: Any, how: str, given: Any, result: Any) -> None:
        place = user_place(frame)
        if place is None:
            return
        numbers = [self._known(item) for item in pytree.tree_leaves(given) if _is_number(item)]
        read = self._found.reads.setdefault(
            _stack(frame), Read(place, how, all(item.of_length for item in numbers))
        )
        read.sources.add(hash(tuple(item.source for item in numbers)))
        # Lengths of 0 and 1 are a matter of their own. (So is a length itself in a condition.)
        few = all(n.few or (n.of_length and n.tensor.dtype != torch.bool) for n in numbers)
        if isinstance(result, bool) and is_users(frame.f_code.co_filename) and not few:
            read.results.add(result)

    def _known(self, item: torch.Tensor) -> _Number:
        known = self._made.get(id(item))
        return known if known is not None and known.tensor is item else _Number(item, None, False)

    def _number(self, result: torch.Tensor, args: Any) -> _Number:
        """What a function made of its arguments. A bool may be equal although they are not, so that
        its source is the difference that was compared, or whatever else they are."""
        tensors = [item for item in pytree.tree_leaves(args) if isinstance(item, torch.Tensor)]
        known = [self._known(item) for item in tensors if item.dim() == 0]
        of_length = len(known) == len(tensors) > 0 and all(item.of_length for item in known)
        if result.dtype != torch.bool:
            return _Number(result, None, of_length)
        if len(args) == 2 and not any(getattr(n, "dtype", 0) == torch.bool for n in args):
            sides = [self._value(item) for item in args]
            if None not in sides:
                few = of_length and any(
                    value <= 1
                    for item, value in zip(args, sides, strict=True)
                    if not isinstance(item, torch.Tensor)
                )
                return _Number(result, hash(sides[0] - sides[1]), of_length, few)
        sources = [item.source for item in known]
        sources += [_summary(item) for item in tensors if item.dim() > 0]
        few = bool(known) and all(item.few for item in known)
        return _Number(result, hash(tuple(sources)), of_length, few)

    def _value(self, item: Any) -> Any:
        if isinstance(item, torch.Tensor) and item.dim() == 0 and not item.is_complex():
            return self._known(item).value
        return item if isinstance(item, (int, float)) else None

    def _warning_at(self, frame: Any, call: Callable[[], Any]) -> Any:
        """Calls a function; its warnings point to the line in the frame, not to this one."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            result = call()
        for item in caught:
            told = (str(item.message), frame.f_code.co_filename, frame.f_lineno)
            if told not in self._said:
                self._said.add(told)
                warnings.warn_explicit(item.message, item.category, *told[1:])
        return result


class _Number:
    """A tensor of rank 0.

    source: Changes if what it was computed from changes; by default its value.
    of_length: Whether it was computed from lengths only.
    few: For a bool: whether it says if lengths are at most 1, or near it.
    """

    def __init__(
        self, tensor: torch.Tensor, source: int | None, of_length: bool, few: bool = False
    ) -> None:
        self.tensor, self._source, self.of_length, self.few = tensor, source, of_length, few

    @functools.cached_property
    def value(self) -> float:
        return _sum(self.tensor)

    @property
    def source(self) -> int:
        return hash(self.value) if self._source is None else self._source


def _summary(item: torch.Tensor) -> int:
    """A number that probably is another one for other elements."""
    return hash(_sum(item))


def _sum(item: torch.Tensor) -> float:
    with _not_traced():
        try:
            wide = item.detach().abs() if item.is_complex() else item.detach()
            return wide.double().sum().item()
        except (RuntimeError, TypeError):  # it has no elements that can be read
            return 0.0


@contextlib.contextmanager
def _not_traced() -> Iterator[None]:
    """In this context, a trace does not record what is computed."""
    trace: Any = torch._C
    state = trace._get_tracing_state()
    trace._set_tracing_state(None)
    try:
        yield
    finally:
        trace._set_tracing_state(state)


def _stack(frame: Any) -> tuple[Any, ...]:
    """The calls of the model's functions that lead to a line: the same in each run."""
    found: list[Any] = []
    while frame is not None:
        if _is_users(frame.f_code.co_filename):
            found.append((frame.f_code, frame.f_lasti))
        frame = frame.f_back
    return tuple(found)


_is_users = functools.lru_cache(1024)(is_users)


def _is_number(item: Any) -> bool:
    return isinstance(item, torch.Tensor) and item.dim() == 0
