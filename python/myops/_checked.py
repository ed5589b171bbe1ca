"""Arguments of public functions, checked against the annotations of their signature.

Otherwise a wrong type fails somewhere inside, in words of Python, onnx or NumPy that name neither
the argument nor what was expected. Whether a value of the right type is possible is checked where
it is used.
"""

from __future__ import annotations

import builtins
import contextlib
import functools
import inspect
import operator
import os
import sys
import types
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Literal, ParamSpec, TypeVar, Union, get_args, get_origin

from myops._names import unknown_argument
from myops._text import printable, shorten

P = ParamSpec("P")
R = TypeVar("R")

_MYOPS = os.path.dirname(os.path.abspath(__file__)) + os.sep
_OPTIONAL = ("onnx", "onnxruntime")
_NO_LISTS = (str, bytes, bytearray, memoryview, Mapping)
_LISTS = (Sequence, Iterable)
# The words for one and for several.
_WORDS: dict[Any, tuple[str, str]] = {
    None: ("None", "None"),
    bool: ("True or False", "True or False"),
    int: ("an integer", "integers"),
    float: ("a number", "numbers"),
    str: ("a text", "texts"),
    bytes: ("the bytes of a file", "bytes of files"),
    os.PathLike: ("a path", "paths"),
    Callable: ("a function", "functions"),
    Any: ("a value", "values"),
    "write": ("an object open for writing bytes", "objects open for writing bytes"),
}


def checked(
    *, leave: Collection[str] = (), **hints: str
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """A decorator for a function, which then refuses arguments of a type that the annotations do
    not state.

    Integers and numbers may be those of NumPy, lists any iterables except texts and dicts; the
    function gets lists. True and False may be 1 and 0, but no number is True.

    Args:
        leave: Arguments that the function checks itself, in other words or errors.
        hints: More to say about arguments, after what was expected.

    The function raises TypeError: "function: argument: got ..., expected ...", or, for an argument
    that it does not have, "function: got an unknown argument 'nmae'. Did you mean name?".
    """
    return functools.partial(_checked, leave, hints)


def _checked(
    leave: Collection[str], hints: Mapping[str, str], function: Callable[P, R]
) -> Callable[P, R]:
    signature = inspect.signature(function)
    kinds: dict[str, Any] = {}
    takes_any = any(item.kind is item.VAR_KEYWORD for item in signature.parameters.values())

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError:
            known = signature.parameters
            for name in kwargs:
                if name not in known and not takes_any:
                    raise unknown_argument(function.__name__, name, known) from None
            return function(*args, **kwargs)  # Python says which argument is missing
        if not kinds:  # at the first call, because names may be imported after the function
            kinds.update(_kinds(function))
        for name, value in bound.arguments.items():
            if name in leave:
                continue
            fitted = functools.partial(
                _fitted, kinds[name], f"{function.__name__}: {name}", hints.get(name, "")
            )
            if signature.parameters[name].kind is inspect.Parameter.VAR_POSITIONAL:
                bound.arguments[name] = tuple(map(fitted, value))
            elif signature.parameters[name].kind is not inspect.Parameter.VAR_KEYWORD:
                bound.arguments[name] = fitted(value)
        return function(*bound.args, **bound.kwargs)

    return call


def callers_level() -> int:
    """For warnings.warn in the caller of this: the first line that is not in this library."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and _is_library(frame.f_code.co_filename):
        level, frame = level + 1, frame.f_back
    return level


def _is_library(file: str) -> bool:
    return file.startswith(_MYOPS) or os.path.basename(file) == "contextlib.py"


class _Names(dict[str, Any]):
    """The names that annotations use. Modules that are only imported for type checkers, as they
    may not be installed, have stand-ins: of a value, only the name of its class is compared."""

    def __missing__(self, name: str) -> Any:
        return _Module(name) if name in _OPTIONAL else getattr(builtins, name)


class _Module:
    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> type:
        return type(name, (), {"__module__": self._name, "is_stand_in": True})


def _kinds(function: Callable[..., Any]) -> dict[str, Any]:
    names = _Names(function.__globals__)
    return {name: eval(text, {}, names) if isinstance(text, str) else text  # our own text
            for name, text in function.__annotations__.items() if name != "return"}  # fmt: skip


def _fitted(kind: Any, where: str, hint: str, value: Any) -> Any:
    options = _options(kind)
    fits = any(_fits(option, value) for option in options)
    lists = [option for option in options if get_origin(option) is Sequence]
    if not fits and isinstance(value, Iterable) and not isinstance(value, _NO_LISTS):
        with contextlib.suppress(TypeError):  # from an array without axes
            items = list(value)  # of an array, a set, a generator
            fits = any(_fits(option, items) for option in lists)
            value = items if fits else value
    if not fits:
        text = shorten(printable(repr(value)), 100)
        raise TypeError(f"{where}: got {text}, expected {_words(kind)}{hint}")
    if isinstance(value, (int, float, str)):
        return value
    if bytes in options and isinstance(value, (bytearray, memoryview)):
        return bytes(value)
    # Numbers of NumPy and torch become Python's, which can be compared and written as JSON.
    if int in options and _is(int, value):
        return operator.index(value)
    return float(value) if float in options and _is(float, value) else value


def _options(kind: Any) -> tuple[Any, ...]:
    options = get_args(kind) if get_origin(kind) in (Union, types.UnionType) else (kind,)
    if any(get_origin(option) is os.PathLike for option in options):  # a text is a path, too
        return tuple(option for option in options if option is not str)
    return options


def _fits(kind: Any, value: Any) -> bool:
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return any(_fits(option, value) for option in _options(kind))
    if origin is Literal:
        return isinstance(value, str)  # which one is checked by the function
    if origin is Callable:
        return callable(value)
    if origin is Mapping:
        return isinstance(value, Mapping) and all(
            _fits(inner[0], key) and _fits(inner[1], item) for key, item in value.items()
        )
    if origin is Sequence:
        return isinstance(value, (list, tuple)) and all(_fits(inner[0], item) for item in value)
    if origin is Iterable:  # whose items are given once, to the function
        return isinstance(value, Iterable) and not isinstance(value, _NO_LISTS)
    if origin is tuple:  # the function refuses another length
        return isinstance(value, (list, tuple)) and all(map(_fits, inner, value))
    return _is(origin or kind, value)


def _is(kind: Any, value: Any) -> bool:
    """Whether a value is one of a class; the classes of numbers include those of NumPy."""
    if kind is Any:
        return True
    is_flag = type(value).__name__ in ("bool", "bool_")
    if kind is bool:
        return is_flag or (type(value) is int and value in (0, 1))
    if kind in (int, float):
        if is_flag or isinstance(value, (str, bytes)):
            return False
        try:
            (operator.index if kind is int else float)(value)
        except (TypeError, ValueError, OverflowError, RuntimeError, NotImplementedError):
            return False  # also from tensors, and from integers too large for a float
        return True
    if kind is bytes:
        return isinstance(value, (bytes, bytearray, memoryview))
    if kind in (None, types.NoneType):
        return value is None
    if kind is str:  # without halves of pairs, which neither a file nor a model can hold
        return isinstance(value, str) and not any("\ud800" <= sign < "\udc00" for sign in value)
    if kind is os.PathLike and isinstance(value, str):
        try:
            return b"\0" not in os.fsencode(value)
        except UnicodeEncodeError:
            return False
    if getattr(kind, "__name__", "") == "IO":
        return hasattr(value, "write")
    if getattr(kind, "is_stand_in", False):
        return any(base.__name__ == kind.__name__ for base in type(value).__mro__)
    return isinstance(value, kind)


def _words(kind: Any, several: bool = False) -> str:
    """What is expected: "a list of paths, or None"."""
    options = [option for option in _options(kind) if option not in (None, types.NoneType)]
    shown = list(dict.fromkeys(_word(option, several) for option in options))
    if len(options) < len(_options(kind)) and types.NoneType in _options(kind):
        shown.append("None")
    return " or ".join([", ".join(shown[:-1]), shown[-1]] if shown[1:] else shown)


def _word(kind: Any, several: bool) -> str:
    origin, inner = get_origin(kind), get_args(kind)
    if origin is Literal:
        return " or ".join(map(repr, inner))
    if origin in _LISTS:
        return f"{'lists' if several else 'a list'} of {_words(inner[0], True)}"
    if origin is Mapping:
        keys = "" if inner[0] in (str, Any) else f" by {_words(inner[0], True)}"
        return f"{'dicts' if several else 'a dict'} of {_words(inner[1], True)}{keys}"
    if origin is tuple:
        return f"{'pairs' if several else 'a pair'} of {' and '.join(map(_words, inner))}"
    found = origin or kind
    key = "write" if getattr(found, "__name__", "") == "IO" else found
    if key in _WORDS:
        return _WORDS[key][several]
    return f"{found.__module__.partition('.')[0]}.{found.__name__}"
