"""The functions given to `register_symbolic`, and how an exporter calls one."""

from __future__ import annotations

import abc
import contextlib
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
import torch

from myops._names import near_misses

LOWEST, HIGHEST = 7, 99  # opsets
_LISTS = (list, tuple)


@dataclass(frozen=True)
class Registration:
    """A function and the range of its opsets."""

    function: Callable[..., Any]
    opsets: tuple[int, int]


class GraphContext(abc.ABC):
    """The `g` of a registered function; see `register_symbolic`."""

    opset: int
    name: str

    @abc.abstractmethod
    def op(self, op_type: str, *inputs: Any, outputs: int = 1, **attributes: Any) -> Any: ...

    @abc.abstractmethod
    def dtype(self, value: Any) -> np.dtype | None: ...

    @abc.abstractmethod
    def shape(self, value: Any) -> Sequence[int | None] | None: ...

    def constant(self, array: Any) -> Any:
        return self.op("Constant", value=array if hasattr(array, "dtype") else np.asarray(array))

    def list(self, items: Any) -> Any:
        if not isinstance(items, _LISTS):
            return items  # the exporter has joined it already
        if all(isinstance(item, int) for item in items):
            return self.constant(np.array(items, np.int64))
        one = self.constant(np.array([1], np.int64))
        pieces = [
            self.constant(np.array([item], np.int64))
            if isinstance(item, int)
            else self.op("Reshape", item, one)
            for item in items
        ]
        return self.op("Concat", *pieces, axis=0)

    def refuse(self, reason: str) -> NoReturn:
        raise ValueError(f"{self.name}: cannot be written in opset {self.opset}: {reason}")

    def inputs_of(self, op_type: str, inputs: Sequence[Any], value_type: Any) -> Any:
        """The inputs of a node; None for one that is left out, except at the end."""
        given = [None if item is None or isinstance(item, str) else item for item in inputs]
        while given and given[-1] is None:
            given.pop()
        for item in given:
            if item is not None and not isinstance(item, value_type):
                self.refuse(f"{op_type} got the input {item!r}; make it a value with g.constant")
        return given


def refuse_values(
    g: GraphContext, op_type: str, attributes: Mapping[str, Any], value_type: Any
) -> None:
    """Refuses attributes that are computed at run time."""
    for key, value in attributes.items():
        for item in value if isinstance(value, _LISTS) else [value]:
            if isinstance(item, value_type):
                g.refuse(
                    f"{op_type}: attribute {key} is computed at run time: it follows the length of "
                    "an input, or a number in one. An attribute cannot change: give it to the node "
                    "as an input, or call the operator with a fixed number"
                )


def written(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """The attributes that are given; None and empty lists mean that one is left out."""
    return {
        key: value
        for key, value in attributes.items()
        if value is not None and not (isinstance(value, _LISTS) and not value)
    }


registered: dict[str, list[Registration]] = {}  # by qualified name, newest last
_exporting: list[int] = []  # the opsets that the exports in progress request


def overloads_of(name: str) -> list[torch._ops.OpOverload]:
    """The dispatcher's overloads under a qualified name."""
    namespace, colons, rest = name.partition("::")
    title, _, overload = rest.partition(".")
    if not (namespace and colons and title):
        raise ValueError(f'register_symbolic: got {name!r}, expected "namespace::name"')
    packet = getattr(getattr(torch.ops, namespace), title, None)
    if packet is None:
        known = [n for n in torch._C._dispatch_get_all_op_names() if n.startswith(namespace + "::")]
        if not known:
            raise ValueError(
                f"register_symbolic: no operator {name!r}: the namespace {namespace!r} is empty. "
                "Import or load the library that defines it first."
            )
        raise ValueError(
            f"register_symbolic: no operator {name!r}."
            f"{near_misses(name, sorted({n.partition('.')[0] for n in known}))}"
        )
    names = [overload] if overload else packet.overloads()
    unknown = sorted(set(names) - set(packet.overloads()))
    if unknown:
        raise ValueError(
            f"register_symbolic: {namespace}::{title} has no overload {unknown[0]!r}, only "
            f"{', '.join(packet.overloads())}"
        )
    found = [getattr(packet, item) for item in names]
    return [item for item in found if overload or not _writes(item)]


def _writes(overload: torch._ops.OpOverload) -> bool:
    """Whether it is an overload with out=; exporters get the functional overload instead."""
    return any(item.is_out for item in overload._schema.arguments)


def names() -> list[str]:
    """The names that have a registration."""
    return list(registered)


def select(name: str, opset: int) -> Registration | None:
    """The registration for an export to an opset; None if there is none."""
    fitting = [r for r in registered.get(name, []) if r.opsets[0] <= opset <= r.opsets[1]]
    return max(reversed(fitting), key=lambda item: item.opsets[0], default=None)


def required(name: str, opset: int) -> Registration:
    """As `select`, but raises an error if no registration fits."""
    found = select(name, opset)
    if found is None:
        ranges = ", ".join(
            f"{low} and later" if high == HIGHEST else f"{low} to {high}"
            for low, high in sorted({item.opsets for item in registered.get(name, [])})
        )
        raise ValueError(
            f"{name}: got an export to opset {opset}, but register_symbolic has it for opset "
            f"{ranges} only. Export to one of them, or register a function for opset {opset}."
        )
    return found


@contextlib.contextmanager
def exporting(opset: int) -> Iterator[None]:
    """In this context, exports have this requested opset."""
    _exporting.append(opset)
    try:
        yield
    finally:
        _exporting.pop()


def wanted_opset(built: int) -> int:
    """The requested opset of the export in progress; `built` for an export that is not ours."""
    return _exporting[-1] if _exporting else built


def apply(
    name: str,
    registration: Registration,
    g: Any,
    schema: Any,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
) -> Any:
    """Calls the function with the arguments that `register_symbolic` describes."""
    function = registration.function
    positional: list[Any] = []
    keywords: dict[str, Any] = {}
    omittable = 0  # trailing positional arguments at their default
    given = list(args)
    for item in schema.arguments:
        default = item.default_value if item.has_default_value() else None
        if item.kwarg_only:
            value = kwargs.get(item.name, default)
            if value != default or _takes(function, item.name):
                keywords[item.name] = value
            continue
        at_default = not given and item.name not in kwargs
        positional.append(given.pop(0) if given else kwargs.get(item.name, default))
        same = at_default or (type(positional[-1]) is type(default) and positional[-1] == default)
        omittable = omittable + 1 if same and item.has_default_value() else 0
    while omittable and not _fits(function, [g, *positional], keywords):
        positional.pop()
        omittable -= 1
    result = function(g, *positional, **keywords)
    if result is None:
        raise ValueError(f"{name}: the registered function returned None, expected a graph value")
    return tuple(result) if isinstance(result, (list, tuple)) else result


def _takes(function: Callable[..., Any], name: str) -> bool:
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return False
    return name in parameters or any(p.kind is p.VAR_KEYWORD for p in parameters.values())


def _fits(function: Callable[..., Any], args: list[Any], kwargs: dict[str, Any]) -> bool:
    try:
        inspect.signature(function).bind(*args, **kwargs)
    except TypeError:
        return False
    except ValueError:  # a function without a signature
        return True
    return True
