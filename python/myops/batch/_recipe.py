"""How a row becomes the inputs of a model, and its outputs a row: decided once, before the run.

Everything here follows from the graph, from the kinds of the columns and from the arguments. If
these leave something open, an error names the argument to give.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from myops._names import near_misses
from myops.batch import _pixels
from myops.batch._pixels import Layout, PixelSettings

DTYPES = {
    "float": "float32", "double": "float64", "float16": "float16", "bool": "bool",
    "string": "object", **{f"{sign}int{bits}": f"{sign}int{bits}"
                           for sign in ("", "u") for bits in (8, 16, 32, 64)},
}  # fmt: skip
_BATCH_NAMES = ("n", "b", "batch", "batch_size", "rows")


@dataclass(frozen=True)
class Input:
    """An input of the graph that has a column.

    name, column: Its name, and that of the column.
    kind: "picture", "bytes", "text" or "array".
    stack: Whether the graph's axis 0 counts rows; else a row is the whole input.
    dtype: Of NumPy.
    shape: Lengths; None for those that are open.
    layout: Of a picture.
    """

    name: str
    column: str
    kind: str
    stack: bool
    dtype: str
    shape: tuple[int | None, ...]
    layout: Layout | None = None


@dataclass(frozen=True)
class Output:
    """An output of the graph.

    name: Its name.
    rows: Whether its axis 0 counts rows, where rows are stacked.
    axes: How it holds a picture; "" where it does not.
    is_bytes: Whether it is the bytes of a file.
    size: Bytes of a row, where the graph fixes its shape.
    """

    name: str
    rows: bool
    axes: str = ""
    is_bytes: bool = False
    size: int | None = None


@dataclass(frozen=True)
class Recipe:
    """All of it.

    inputs: Those with columns.
    constants: The others, by name.
    outputs: Those that are wanted.
    pixels: What was said about pictures.
    batch: Rows of one call, at most; None for what the size of a row suggests.
    fixed: The length of axis 0 where the graph fixes it; 0: it is open, or counts no rows.
    """

    inputs: tuple[Input, ...]
    constants: dict[str, np.ndarray]
    outputs: tuple[Output, ...]
    pixels: PixelSettings = field(default_factory=PixelSettings)
    batch: int | None = None
    fixed: int = 0

    @property
    def stacks(self) -> bool:
        """Whether every input with a column has rows on axis 0."""
        return all(item.stack for item in self.inputs)

    @property
    def one_by_one(self) -> bool:
        """Whether a call takes one row."""
        return not self.stacks or self.fixed == 1 or self.batch == 1


def dtype_of(value: Any, what: str) -> str:
    """The dtype in NumPy of an input or output of a session; "object" for text."""
    inner = value.type.removeprefix("tensor(").removesuffix(")")
    if not value.type.startswith("tensor(") or inner not in DTYPES:
        raise ValueError(f"{what} {value.name!r}: got {value.type}, which `myops run` cannot hold")
    return DTYPES[inner]


def shape_of(value: Any) -> tuple[int | None, ...]:
    """The shape that the graph states, None for lengths that it leaves open."""
    return tuple(item if isinstance(item, int) and item >= 0 else None for item in value.shape)


def columns_of(session: Any, constants: Mapping[str, Any]) -> list[Any]:
    """The inputs that need a column."""
    return [item for item in session.get_inputs() if item.name not in constants]


def check_columns(needed: Sequence[str], given: Sequence[str]) -> None:
    """Raises ValueError unless the columns are those that the model needs."""
    for name in given:
        if name not in needed:
            raise ValueError(
                f"source: the model has no input {name!r} without a constant."
                f"{near_misses(name, needed)} It has {', '.join(map(repr, needed)) or 'none'}"
            )
    missing = [name for name in needed if name not in given]
    if missing:
        raise ValueError(
            f"source: got nothing for the input {missing[0]!r}; expected a column, or a constant "
            f"(constants={{{missing[0]!r}: ...}}, --set {missing[0]}=...)"
        )


def of_files(value: Any, column: str, said: PixelSettings) -> Input:
    """An input whose rows are files of pictures.

    Raises:
        ValueError: The input takes neither bytes nor a picture, or what it takes is left open.
    """
    dtype, shape = dtype_of(value, "input"), shape_of(value)
    what = f"input {value.name!r}"
    if dtype == "uint8" and len(shape) == 1 and shape[0] is None and not said.layout:
        return Input(value.name, column, "bytes", False, dtype, shape)
    layout = _pixels.layout_of(what, value.shape if shape else None, dtype, said)
    _pixels.check_range(what, layout, said.range, "range")
    if said.mean and not len(said.mean) == len(said.std) == layout.channels:
        raise ValueError(
            f"mean: got {len(said.mean)} numbers and {len(said.std)} for std, expected "
            f"{layout.channels}, as {what} has channels"
        )
    return Input(value.name, column, "picture", layout.axes[0] == "n", dtype, shape, layout)


def of_array(value: Any, column: str, rank: int, source: str) -> Input:
    """An input whose rows are numbers or text.

    Args:
        rank: Of a row's value.
        source: What messages call the source.

    Raises:
        ValueError: The ranks do not fit.
    """
    dtype, shape = dtype_of(value, "input"), shape_of(value)
    kind = "text" if dtype == "object" else "array"
    if rank == len(shape) or not shape:
        return Input(value.name, column, kind, False, dtype, shape)
    tail = shape[1:]
    flat = rank <= 1 and tail and None not in tail  # lists of all elements
    if rank == len(shape) - 1 or flat:
        return Input(value.name, column, kind, True, dtype, shape)
    named = f"column {column!r}" if column else "it"
    raise ValueError(
        f"{source}: {named} has rows of rank {rank}, expected rank {len(shape) - 1}, or "
        f"{len(shape)} for whole inputs: the input {value.name!r} takes {list(value.shape)}"
    )


def check_lengths(wanted: Input, lengths: Sequence[int], source: str) -> None:
    """Raises ValueError where no row of a table has the lengths that the graph fixes.

    Args:
        lengths: Of a row.
        source: What messages call the table.
    """
    tail = wanted.shape[1:] if wanted.stack else wanted.shape
    if len(lengths) == len(tail):
        fits = all(want in (None, got) for want, got in zip(tail, lengths, strict=True))
    else:
        known = [item for item in tail if item is not None]
        fits = len(known) < len(tail) or math.prod(known) == math.prod(lengths)
    if wanted.shape and not fits:
        shown = ", ".join("?" if item is None else str(item) for item in tail)
        what = f"column {wanted.column!r}" if wanted.column else "array"
        raise ValueError(
            f"{source}: {what}: got rows of shape {list(lengths)}, expected [{shown}], as the "
            f"input {wanted.name!r} takes them"
        )


def rows_of_arrays(value: Any, shape: tuple[int, ...], said: str, path: str) -> bool:
    """Whether a .npy or .npz file is one row; else its axis 0 counts rows.

    Raises:
        ValueError: The graph leaves that open.
    """
    if said:
        return said == "file"
    wanted = value.shape
    if len(shape) == len(wanted) - 1:
        return True
    first = wanted[0] if wanted else None
    named = isinstance(first, str) and first.lower() in _BATCH_NAMES
    if isinstance(first, int) or named or len(shape) != len(wanted):
        return False
    raise ValueError(
        f"{path}: got shape {list(shape)} for the input {value.name!r} of shape {list(wanted)}, "
        "which does not say whether its axis 0 counts rows; pass rows='axis0' (it does) or "
        "rows='file' (the file is one row)"
    )


def output(value: Any, inputs: Sequence[Input], whole: Sequence[str]) -> Output:
    """How an output is divided into rows, and whether it is a picture."""
    shape = shape_of(value)
    dtype = dtype_of(value, "output")
    stacks = all(item.stack for item in inputs)
    # What axis 0 is where rows are stacked: one that is fixed to something else counts no rows.
    first = {item.shape[0] for item in inputs if item.stack and item.shape}
    rows = stacks and value.name not in whole and (
        not shape or shape[0] is None or shape[0] in first or None in first
    )  # fmt: skip
    is_bytes = dtype == "uint8" and len(shape) == 1 and not rows
    pictures = [item.layout for item in inputs if item.layout is not None]
    axes = ""
    if pictures and not is_bytes and len(shape) in (0, 3, 4):
        try:
            axes = _pixels.layout_of(
                "", value.shape if shape else None, dtype, PixelSettings()
            ).axes
        except ValueError:
            like = pictures[0].axes
            axes = like if not shape or len(like) == len(shape) else ""
            if shape and axes and shape[axes.index("c")] not in (None, *_pixels.MODES):
                axes = ""  # features
    tail = shape[1:] if rows else shape
    known = [item for item in tail if item is not None]
    fixed = shape and len(known) == len(tail) and dtype != "object"
    size = math.prod(known) * np.dtype(dtype).itemsize if fixed else None
    return Output(value.name, rows, axes, is_bytes, size)


def cast(value: Any, wanted: Input) -> np.ndarray:
    """A row's value, or several on axis 0, in the input's dtype.

    Integers become wider ones and floats; floats other floats, unless a finite number would become
    infinite. Everything else is refused.

    Raises:
        ValueError: It is missing, or cannot be that dtype without losing its meaning.
    """
    what = f"column {wanted.column!r}" if wanted.column else "array"
    if value is None or isinstance(value, ValueError):  # a row that is no array
        raise ValueError(f"{what}: {value or 'got null'}")
    array = np.asarray(value)
    if wanted.dtype == "object":
        if array.dtype.kind not in "OU":
            raise ValueError(f"{what}: got {array.dtype}, expected text")
        return array.astype(object)
    if array.dtype == wanted.dtype:
        return array
    kinds = array.dtype.kind + np.dtype(wanted.dtype).kind
    if kinds in ("ff", "if", "uf"):
        with np.errstate(over="ignore"):
            made = array.astype(wanted.dtype)
        lost = np.isinf(made) & np.isfinite(array)
        if lost.any():
            raise ValueError(
                f"{what}: got {array[lost][0]}, expected at most {np.finfo(wanted.dtype).max}, the "
                f"largest number of {wanted.dtype}"
            )
        return made
    if kinds in ("ii", "uu", "iu", "ui"):
        made = array.astype(wanted.dtype)
        if (made == array).all():
            return made
    raise ValueError(
        f"{what}: got {'text' if array.dtype.kind in 'OUS' else array.dtype}"
        f"{' with numbers that do not fit' if array.dtype.kind in 'iu' else ''}, "
        f"expected {wanted.dtype}"
    )


def shaped(array: np.ndarray, wanted: Input, rows: int | None) -> np.ndarray:
    """Rows with their elements in the axes of the graph.

    Args:
        rows: How many rows are on axis 0; None: the array is one row.
    """
    tail = wanted.shape[1:] if wanted.stack else wanted.shape
    lengths = array.shape if rows is None else array.shape[1:]
    if len(lengths) != len(tail) and None not in tail:
        known = [item for item in tail if item is not None]
        if math.prod(lengths) == math.prod(known):
            return array.reshape(known if rows is None else [rows, *known])
    return array
