"""The parts of a description: inputs, outputs, attributes, and lengths that the data decides. Needs
NumPy, never torch."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

Dim = int | str | None  # a length, a symbolic name, or unknown


class DecidedLength(NamedTuple):
    """A length of an output that the data decides: `myops.at_most`.

    Attributes:
        name: Lengths of one name are equal, also in several outputs; "": a length of its own.
        most: The largest value that it can have; None: not known.
    """

    name: str = ""
    most: Any = None


def at_most(bound: Any = None, name: str = "") -> DecidedLength:
    """A length that the data decides, in the result of a shape rule (`shape=`).

    Only the function or the kernel knows it, after it has computed. Traces, exported programs and
    ONNX models get an unknown length that does not exceed the bound.

    Args:
        bound: The largest value that it can have, such as a length of an input. Default: no bound.
        name: Lengths with the same name are equal, also in several outputs. Default: no name.

    Returns:
        The length, for the result of the rule; a symbolic `bound` counts as none.

    Example:
        >>> def shape(inputs, attributes):
        ...     boxes, scores = inputs
        ...     kept = myops.at_most(boxes.shape[0], "K")
        ...     return [[kept], [kept, 4]]
    """
    if isinstance(bound, DecidedLength):
        bound = bound.most
    return DecidedLength(name, bound if isinstance(bound, int) else None)


@dataclass(frozen=True)
class InputInfo:
    """An input of an op: `myops.Input`.

    Attributes:
        name: An identifier.
        type: One of the op's type parameters.
        doc: A sentence for readers.
        optional: Whether it may be left out.
        values: Whether it is a short list, such as scales, whose numbers decide the output's shape.
        access: The layouts that the kernel accepts: "contiguous", "channels_last", "strided" or
            "shape_only". Anything else is copied for it.
        variadic: Whether it is a list of one or more tensors; only the last input can be one.
        written: Whether the kernel writes into it, which only an op in C++ can.

    Example:
        >>> factors = myops.Input("factors", "F", "One for each axis.", values=True)
        >>> factors.values, factors.optional, factors.access
        (True, False, 'contiguous')
    """

    name: str
    type: str
    doc: str
    optional: bool = False
    values: bool = False
    access: str = "contiguous"
    variadic: bool = False
    written: bool = False


@dataclass(frozen=True)
class OutputInfo:
    """An output of an op: `myops.Output`.

    Attributes:
        name: An identifier.
        type: One of the op's type parameters.
        doc: A sentence for readers.
        may_overwrite: Inputs whose memory ONNX Runtime may use for it.
        only_if: For an optional output: the bool attribute, or the optional input, that decides
            whether a call computes it. If not, callers get None. "": it is always computed.
        elementwise: Whether each element is computed from those at the same place of the inputs, so
            that PyTorch's results lie in memory in the order of the inputs.

    Example:
        >>> myops.Output("y", "T", "Of the shape of x.").name
        'y'
    """

    name: str
    type: str
    doc: str
    may_overwrite: tuple[str, ...] = ()
    only_if: str = ""
    elementwise: bool = False


_FLAGS = (bool, int, np.bool_)


@dataclass(frozen=True)
class AttributeInfo:
    """An attribute of an op: `myops.Attribute`.

    Attributes:
        name: An identifier.
        default: A bool, an int, a float, a string, or a list of ints, floats or strings. A float is
            rounded to 32 bits, as a value that a call gives is; see `type`. For a required or
            optional attribute only its type counts, and this is None.
        doc: A sentence for readers.
        choices: The legal strings or ints, or the legal elements of a list. Empty: any.
        type: bool, int, float, double, string, ints, floats, doubles or strings. Default: the type
            of the default value, which is float or floats, never double or doubles. These have 64
            bits; an ONNX model stores them in a tensor, because its float attributes have 32.
        required: Whether every call has to give it.
        optional: Whether it may be left out, or be None, which is then what the op sees.
        at_least, above, at_most, below: Bounds of a number, or of each number of a list; `above`
            and `below` do not allow the bound itself.

    Raises:
        ValueError: The type of the default is none of these.

    Example:
        >>> myops.Attribute("mode", "nearest", "How.", choices=("nearest", "linear")).type
        'string'
        >>> bits = myops.Attribute("bits", 0, "Of a number.", choices=(4, 8), required=True)
        >>> bits.type, bits.default
        ('int', None)
    """

    name: str
    default: Any
    doc: str
    choices: tuple[str, ...] | tuple[int, ...] = ()
    type: str = ""
    required: bool = False
    optional: bool = False
    at_least: float | None = None
    above: float | None = None
    at_most: float | None = None
    below: float | None = None

    def __post_init__(self) -> None:
        # Fields of a wrong type are refused by `prototype`, which knows the op's name.
        if self.type is None or (isinstance(self.type, str) and not self.type):
            object.__setattr__(self, "type", _type_of(self.name, self.default))
        if any(flag for flag in (self.required, self.optional) if isinstance(flag, _FLAGS)):
            object.__setattr__(self, "default", None)

    @property
    def short_default(self) -> Any:
        """The default in the fewest digits that mean the same float of 32 bits, such as 0.7."""
        return _shortest(self.default) if self.type in ("float", "floats") else self.default

    @property
    def is_list(self) -> bool:
        return self.type in ("ints", "floats", "doubles", "strings")

    def is_written(self, value: Any) -> bool:
        """Whether a node has the attribute. An empty list that is the default is left out, because
        torch's exporters cannot write it."""
        if value is None:
            return False
        may_be_absent = self.is_list and not self.required and not self.optional
        return not (may_be_absent and not len(value) and not self.default)


def float32(value: Any) -> Any:
    if type(value) is float:
        return ctypes.c_float(value).value
    return type(value)(map(float32, value)) if isinstance(value, (list, tuple)) else value


def _shortest(value: Any) -> Any:
    if type(value) is float:
        return float(str(np.float32(value))) if float32(value) == value else value
    return type(value)(map(_shortest, value)) if isinstance(value, (list, tuple)) else value


def _type_of(name: str, default: Any) -> str:
    kinds = {bool: "bool", int: "int", float: "float", str: "string"}
    if type(default) in kinds:
        return kinds[type(default)]
    if isinstance(default, (list, tuple)) and default:
        inner = {kinds.get(type(item)) for item in default}
        if inner <= {"int", "float"}:
            return "floats" if "float" in inner else "ints"
        if inner == {"string"}:
            return "strings"
    raise ValueError(
        f"attribute {name!r}: default: got {default!r}, expected a bool, an int, a float, a string "
        'or a list of numbers or strings; for None or an empty list give the type, as type="ints"'
    )


# The names in the messages of csrc/core/code_mistakes.cpp.
KINDS = {
    "bool": "a bool", "int": "an int", "float": "a float", "double": "a float",
    "string": "a string", "ints": "a list of ints", "floats": "a list of floats",
    "doubles": "a list of floats", "strings": "a list of strings",
}  # fmt: skip
