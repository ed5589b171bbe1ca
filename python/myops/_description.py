"""What an op looks like, read from the C++ descriptions. Needs NumPy, never torch.

`OPS`, `onnx_ops` and `by_onnx_type` are the ops of myops itself; those of other libraries are in
`_libraries`.
"""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, NoReturn

import numpy as np

from myops import _dtypes, _numpy

DOMAIN: str = _numpy.DOMAIN
VERSION = "since_version"  # the attribute of a node with the version that it means; default 1

Dim = int | str | None  # a length, a symbolic name, or unknown


class DecidedLength(NamedTuple):
    """A length of an output that the data decides: `myops.at_most`.

    Attributes:
        name: Lengths of one name are equal, also in several outputs; "": a length of its own.
        most: The largest that it can be; None: not known.
    """

    name: str = ""
    most: Any = None


def at_most(bound: Any = None, name: str = "") -> DecidedLength:
    """A length that the data decides, in the result of a shape rule (`shape=`).

    Only the function or the kernel knows it, when it has computed. Traces, exported programs and
    ONNX models get an unknown length that stays below the bound.

    Args:
        bound: The largest that it can be, such as a length of an input. Default: no bound.
        name: Lengths of one name are equal: outputs that share a length. Default: its own.

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
    type: str  # one of the op's type parameters
    doc: str
    optional: bool = False
    values: bool = False  # its numbers decide the output's shape
    access: str = "contiguous"  # or channels_last, strided, shape_only
    variadic: bool = False
    written: bool = False


@dataclass(frozen=True)
class OutputInfo:
    """An output of an op: `myops.Output`.

    Attributes:
        name: An identifier.
        type: One of the op's type parameters.
        doc: A sentence for readers.
        may_overwrite: Inputs in whose memory ONNX Runtime may let it lie.
        only_if: Of an optional output: the bool attribute, or the optional input, that says whether
            a call computes it. Otherwise callers get None. "": always.

    Example:
        >>> myops.Output("y", "T", "Of the shape of x.").name
        'y'
    """

    name: str
    type: str
    doc: str
    may_overwrite: tuple[str, ...] = ()  # inputs in whose memory ONNX Runtime may let it lie
    only_if: str = ""


@dataclass(frozen=True)
class AttributeInfo:
    """An attribute of an op: `myops.Attribute`.

    Attributes:
        name: An identifier.
        default: A bool, an int, a float, a string, or a list of ints, floats or strings. Of a
            required or optional attribute only its type counts; the attribute then has None here.
        doc: A sentence for readers.
        choices: The legal strings or ints; of a list, those of its elements. Empty: any.
        type: bool, int, float, double, string, ints, floats, doubles or strings. Default: that of
            the default, which is never double or doubles: floats of 64 bits, which an ONNX model
            holds in a tensor, as its own attributes have 32.
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
        if not self.type:
            object.__setattr__(self, "type", _type_of(self.name, self.default))
        if self.required or self.optional:
            object.__setattr__(self, "default", None)

    @property
    def is_list(self) -> bool:
        return self.type in ("ints", "floats", "doubles", "strings")

    def is_written(self, value: Any) -> bool:
        """Whether a node has the attribute: not where its absence says the same, which torch's
        exporters cannot write for a list."""
        if value is None:
            return False
        may_be_absent = self.is_list and not self.required and not self.optional
        return not (may_be_absent and not len(value) and not self.default)


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


# How the texts of csrc/core/check_description.cpp call them.
KINDS = {
    "bool": "a bool", "int": "an int", "float": "a float", "double": "a float",
    "string": "a string", "ints": "a list of ints", "floats": "a list of floats",
    "doubles": "a list of floats", "strings": "a list of strings",
}  # fmt: skip


@dataclass(frozen=True)
class OpInfo:
    domain: str  # of the node
    namespace: str  # in torch.ops
    name: str  # of torch and Python
    onnx_type: str  # of the node; empty for an op that has none
    since_version: int
    doc: str
    types: dict[str, tuple[str, ...]]
    inputs: tuple[InputInfo, ...]
    outputs: tuple[OutputInfo, ...]
    attributes: tuple[AttributeInfo, ...]
    rule: str  # the shape rule, where it is text; else empty
    autocast: str  # "", or what torch.autocast casts to: lower, float32, widest
    random: bool  # its last input is then the key, its last attribute the seed
    native: Any = field(repr=False, compare=False)  # the C++ side: its kernel, its shape rule
    in_place: str = ""  # the op that writes, of which this one is the form without writes

    @property
    def node(self) -> str:
        """Domain and type of the node, as in "myops::Resize"."""
        return f"{self.domain}::{self.onnx_type}"

    @property
    def qualified(self) -> str:
        """The dispatcher's name, as in "myops::resize"."""
        return f"{self.namespace}::{self.name}"

    @property
    def is_prototype(self) -> bool:
        """Whether a Python function computes it: ONNX Runtime then runs it as a PyOp only."""
        return getattr(self.native, "is_prototype", False)

    def missing(self, attributes: Mapping[str, Any]) -> str:
        """What the C++ says of a call without a required attribute; "" where none is missing."""
        for item in self.attributes:
            if item.required and attributes.get(item.name) is None:
                return self.missing_text(item)
        return ""

    def missing_text(self, item: AttributeInfo) -> str:
        return (
            f"{self.name}: {item.name}: got nothing, expected {KINDS[item.type]}: the attribute is "
            "required"
        )

    @property
    def has_values(self) -> bool:
        return any(item.values for item in self.inputs)

    @functools.cached_property
    def is_variadic(self) -> bool:
        """Whether the last input is a list of tensors."""
        return bool(self.inputs) and self.inputs[-1].variadic

    @functools.cached_property
    def is_plain(self) -> bool:
        """Whether it has one tensor for each input, and writes into none."""
        return not self.is_variadic and not self.writes

    @functools.cached_property
    def writes(self) -> bool:
        """Whether the kernel writes into inputs."""
        return any(item.written for item in self.inputs)

    def is_integer(self, item: InputInfo) -> bool:
        return _dtypes.is_integer(self.types[item.type][0])

    def declared(self, number: int) -> InputInfo:
        """The description of the tensor with this number in `flat`."""
        return self.inputs[min(number, len(self.inputs) - 1)]

    def expanded(self, count: int) -> OpInfo:
        """The description with one input for each of the `count` tensors of a call or node.

        The same object where no input is variadic.
        """
        if not self.is_variadic:
            return self
        *fixed, listed = self.inputs
        items = [
            dataclasses.replace(listed, name=f"{listed.name}_{number}", variadic=False)
            for number in range(count - len(fixed))
        ]
        return dataclasses.replace(self, inputs=(*fixed, *items))

    def flat(self, inputs: Sequence[Any]) -> list[Any]:
        """One entry for each tensor: the list in the place of a variadic input is unpacked."""
        if not self.is_variadic or len(inputs) < len(self.inputs):
            return list(inputs)
        return [*inputs[:-1], *inputs[-1]]

    def nested(self, flat: Sequence[Any]) -> list[Any]:
        """The opposite of `flat`."""
        if not self.is_variadic:
            return list(flat)
        fixed = len(self.inputs) - 1
        return [*flat[:fixed], list(flat[fixed:])]

    def present(self, inputs: Sequence[Any], attributes: Mapping[str, Any]) -> list[bool]:
        """Which outputs a call computes (see `OutputInfo.only_if`)."""
        return [not item.only_if or self._given(item.only_if, inputs, attributes)
                for item in self.outputs]  # fmt: skip

    def _given(self, name: str, inputs: Sequence[Any], attributes: Mapping[str, Any]) -> bool:
        for item, value in zip(self.inputs, inputs, strict=False):
            if item.name == name:
                return value is not None
        for attribute in self.attributes:
            if attribute.name == name:
                return bool(attributes.get(name, attribute.default))
        return False  # an input behind those that were given


def read(native: Any, domain: str, namespace: str) -> OpInfo:
    """The description of an op of a `_numpy` module."""
    raw = native.describe()
    return OpInfo(
        **{
            **raw,
            "domain": domain,
            "namespace": namespace,
            "inputs": tuple(InputInfo(**item) for item in raw["inputs"]),
            "outputs": tuple(OutputInfo(**item) for item in raw["outputs"]),
            "attributes": tuple(AttributeInfo(**item) for item in raw["attributes"]),
            "native": native,
        }
    )


def read_all(module: Any) -> dict[str, OpInfo]:
    """The ops of a `_numpy` module, by name."""
    infos = [read(native, module.DOMAIN, module.NAMESPACE) for native in module.OPS]
    return {info.name: info for info in infos}


OPS: dict[str, OpInfo] = read_all(_numpy)


def onnx_ops() -> list[OpInfo]:
    """The ops of myops itself that have an ONNX node."""
    return [info for info in OPS.values() if info.onnx_type]


def by_onnx_type(onnx_type: str) -> OpInfo:
    """The op of myops itself whose ONNX node is `onnx_type`; KeyError when there is none."""
    for info in onnx_ops():
        if info.onnx_type == onnx_type:
            return info
    raise KeyError(onnx_type)


def infer(
    op: str | OpInfo,
    shapes: Sequence[Sequence[Dim] | None],
    dtypes: Sequence[str | None] = (),
    attributes: Mapping[str, Any] | None = None,
    values: Sequence[Sequence[float] | None] = (),
) -> list[tuple[str, list[Dim] | None]]:
    """Runs the op's shape rule.

    Args:
        op: The op, or the name of one of ours, e.g. "resize".
        shapes: One entry an input; None for an input that is left out.
        dtypes: One entry an input; None when unknown.
        attributes: Values that differ from the defaults.
        values: One entry an input: the numbers of a `values` input where they are known.

    Returns:
        (dtype, shape) of each output; a length is a number, a name or None.

    Raises:
        ValueError: The kernel's own refusal.
    """
    return [
        (dtype, None if dims is None else [None if isinstance(d, tuple) else d for d in dims])
        for dtype, dims in infer_decided(op, shapes, dtypes, attributes, values)
    ]


def infer_decided(
    op: str | OpInfo,
    shapes: Sequence[Sequence[Dim] | None],
    dtypes: Sequence[str | None] = (),
    attributes: Mapping[str, Any] | None = None,
    values: Sequence[Sequence[float] | None] = (),
) -> list[tuple[str, list[Any] | None]]:
    """`infer`, with a `DecidedLength` in the place of None for lengths that the data decides."""
    lists = [None if dims is None else list(dims) for dims in shapes]
    numbers = [None if item is None else [float(value) for value in item] for item in values]
    info = OPS[op] if isinstance(op, str) else op
    return [
        (
            dtype,
            None
            if dims is None
            else [DecidedLength(*d) if isinstance(d, tuple) else d for d in dims],
        )
        for dtype, dims in info.native.infer(lists, list(dtypes), dict(attributes or {}), numbers)
    ]


def symbolic_rule(info: OpInfo) -> Callable[[Sequence[Any], dict[str, Any]], list[list[Any]]]:
    """The op's shape rule for lengths that are symbolic in torch: it sees each as a name.

    What it returns takes inputs (anything with a shape, lists of numbers, None) and attributes,
    and returns the lengths of each output: numbers, symbolic lengths of the inputs, or None for
    one that the rule computes from lengths that it does not know.
    """

    def rule(inputs: Sequence[Any], attributes: dict[str, Any]) -> list[list[Any]]:
        symbolic: dict[str, Any] = {}
        shapes: list[list[Dim] | None] = []
        values: list[list[float] | None] = []
        for item in info.flat(inputs):
            is_list = isinstance(item, (list, tuple))
            numbers = is_list and all(isinstance(value, (int, float)) for value in item)
            values.append(list(item) if numbers else None)
            lengths = () if item is None else [len(item)] if is_list else item.shape
            for length in lengths:
                if not isinstance(length, int):
                    symbolic[str(length)] = length
            named: list[Dim] = [n if isinstance(n, int) else str(n) for n in lengths]
            shapes.append(None if item is None else named)
        try:
            results = infer_decided(info, shapes, (), attributes, values)
        except ValueError as error:  # as eager
            raise RuntimeError(str(error)) from None
        wanted = info.present(inputs, attributes)
        ranks_known: list[list[Any]] = [
            dims if given and dims is not None else [0]  # left out: an empty tensor
            for given, (_, dims) in zip(wanted, results, strict=True)
            if dims is not None or not given
        ]
        if len(ranks_known) < len(results):
            raise RuntimeError(
                f"{info.name}: the shape rule in C++ does not know the rank of every output while "
                "torch traces with symbolic lengths. Give define(..., shape=...)."
            )
        return [
            [symbolic[dim] if isinstance(dim, str) else dim for dim in dims] for dims in ranks_known
        ]

    return rule


def call(
    op: str | OpInfo,
    inputs: Sequence[np.ndarray | None],
    attributes: Mapping[str, Any] | None = None,
    threads: int = 0,
) -> list[Any]:
    """Runs a kernel on NumPy arrays.

    Args:
        op: The op, or the name of one of ours, e.g. "my_add".
        inputs: One entry an input of the description; None for one that is left out, a list for
            one that is variadic. What the op writes, it writes into these arrays.
        attributes: Values that differ from the defaults.
        threads: Most threads to use; 0 means MYOPS_NUM_THREADS or one per core. The result does
            not depend on it.

    Returns:
        The outputs; None for one that this call leaves out. Arrays of bfloat16 and of the floats of
        8 bits have dtypes of `ml_dtypes`.

    Raises:
        ValueError: The kernel's own refusal.

    Example:
        >>> call("my_add", [np.float32([1, 2]), np.float32([10, 20])])[0].tolist()
        [12.0, 24.0]
    """
    info = OPS[op] if isinstance(op, str) else op
    given, declared = inputs, info.inputs
    if not info.is_plain:
        if info.is_variadic and not isinstance(inputs[-1], (list, tuple)):
            got = type(inputs[-1]).__name__
            raise ValueError(f"{info.name}: {info.inputs[-1].name}: got {got}, expected a list")
        given = info.flat(inputs)
        declared = info.expanded(len(given)).inputs
        _check_written(info, given)
    arrays = [
        None if array is None else _readable(info, np.asarray(array), item)
        for array, item in zip(given, declared, strict=True)
    ]
    threads = threads or int(os.environ.get("MYOPS_NUM_THREADS", "0"))
    results = info.native.call(arrays, dict(attributes or {}), threads)
    if not info.is_plain:
        for item, array, used in zip(declared, given, arrays, strict=True):
            if item.written and used is not array and array is not None and used is not None:
                np.copyto(array, used)  # the kernel wrote into a copy
    return results


def _readable(op: OpInfo, array: np.ndarray, item: InputInfo) -> np.ndarray:
    """`array` itself when the kernel accepts its layout, else a contiguous copy."""
    if array.dtype.kind in "OUT":  # strings are objects, as in ONNX Runtime, in one piece
        if array.dtype.kind != "O" or not array.flags.c_contiguous:
            op.native.check_copy(item.name, list(array.shape), array.size * np.intp().nbytes)
        array = np.require(array.astype(object, copy=False), requirements=["C"])
    walkable = all(stride % max(array.itemsize, 1) == 0 for stride in array.strides)
    ready = array.flags.c_contiguous or (item.access == "strided" and walkable)
    unread = item.access == "shape_only"
    if array.dtype.isnative and (unread or (array.flags.aligned and ready)):
        return array
    op.native.check_copy(item.name, list(array.shape), array.nbytes)
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    return np.require(array, requirements=["C", "A"])


def _share(one: np.ndarray, other: np.ndarray) -> bool:
    try:
        return np.shares_memory(one, other, max_work=10_000)  # type: ignore[arg-type]  # its stub knows the constants only
    except RuntimeError:  # it would take too long to find out
        return True


def _check_written(op: OpInfo, arrays: Sequence[Any]) -> None:
    """What the op writes into are arrays with a place for each element."""

    def refuse(item: InputInfo, got: str, expected: str) -> NoReturn:
        raise ValueError(f"{op.name}: {item.name}: got {got}, expected {expected}")

    declared = op.expanded(len(arrays)).inputs
    for item, array in zip(declared, arrays, strict=True):
        if not item.written:
            continue
        if not isinstance(array, np.ndarray):
            refuse(item, type(array).__name__, "an array to write into")
        if not array.flags.writeable:
            refuse(item, "an array that is read-only", "one to write into")
        pairs = zip(array.strides, array.shape, strict=True)
        if any(step == 0 and length > 1 for step, length in pairs):
            refuse(
                item, "one place in memory for several elements",
                "a place for each, because the op writes into them; make a copy",
            )  # fmt: skip
        for other, used in zip(declared, arrays, strict=True):
            if other is not item and isinstance(used, np.ndarray) and _share(array, used):
                refuse(item, f"memory that it shares with {other.name}", "memory of its own")
