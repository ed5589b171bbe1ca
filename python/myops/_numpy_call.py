"""Runs a kernel on NumPy arrays: `call`. Needs NumPy, never torch."""

from __future__ import annotations

import json
import operator
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import numpy as np

from myops._description import OPS, OpInfo
from myops._names import near_misses
from myops._op_parts import InputInfo
from myops._text import shorten

MOST_THREADS = 1024


def call(
    op: str | OpInfo,
    inputs: Sequence[np.ndarray | None],
    attributes: Mapping[str, Any] | None = None,
    threads: int = 0,
    surrounded: tuple[int, int] | None = None,
) -> list[Any]:
    """Runs a kernel on NumPy arrays.

    Args:
        op: The op, or the name of one of ours, e.g. "my_add".
        inputs: One entry for each input of the description: None for one that is left out, a list
            for a variadic one. An op that writes into inputs writes into these arrays.
        attributes: Values that differ from the defaults.
        threads: Most threads to use, at most 1024; 0 means MYOPS_NUM_THREADS or one per core. The
            result does not depend on it.
        surrounded: (count, value): so many bytes of that value lie before and after each result, in
            the array that is its `base`. For tests of what a kernel writes; not for prototypes.

    Returns:
        The outputs; None for one that this call leaves out. Arrays of bfloat16 and of the floats of
        8 bits have dtypes of `ml_dtypes`.

    Raises:
        ValueError: The kernel's own refusal, or no legal number of threads.

    Example:
        >>> call("my_add", [np.float32([1, 2]), np.float32([10, 20])])[0].tolist()
        [12.0, 24.0]
    """
    info = OPS[op] if isinstance(op, str) else op
    wrong = info.wrong_flag(attributes or {})
    if wrong:
        raise ValueError(wrong)
    given, declared = inputs, info.inputs
    if not info.is_plain:
        if info.is_variadic and not isinstance(inputs[-1], (list, tuple)):
            got = type(inputs[-1]).__name__
            raise ValueError(f"{info.name}: {info.inputs[-1].name}: got {got}, expected a list")
        given = info.flat(inputs)
        declared = info.expanded(len(given)).inputs
        _check_written(info, given)
    arrays = [
        None if array is None else _readable(info, plain(info.name, item.name, array), item)
        for array, item in zip(given, declared, strict=True)
    ]
    if type(threads) is not int or not 0 < threads <= MOST_THREADS:
        threads = _number_of_threads(info, threads)
    known = [item.name for item in info.attributes]
    for name in attributes or ():
        if name not in known:
            raise ValueError(_unknown(info, name, known))
    beside, fill = surrounded or (0, 0)
    if beside:
        results = info.native.call(
            arrays, dict(attributes or {}), threads, beside=beside, fill=fill
        )
    else:
        results = info.native.call(arrays, dict(attributes or {}), threads)
    if not info.is_plain:
        for item, array, used in zip(declared, given, arrays, strict=True):
            if item.written and used is not array and array is not None and used is not None:
                np.copyto(array, used)  # the kernel wrote into a copy
    return results


def _unknown(info: OpInfo, name: str, known: list[str]) -> str:
    expected = f"expected one of [{', '.join(known)}]" if known else "expected none"
    near = near_misses(name, [*(item.name for item in info.inputs), *known])
    return f"{info.name}: {name}: got an attribute of this name, {expected}{near and '.' + near}"


def stated_threads() -> int:
    """MYOPS_NUM_THREADS; 0 if it is not set.

    Raises:
        ValueError: It is no number of threads.
    """
    text = os.environ.get("MYOPS_NUM_THREADS", "")
    if not text:
        return 0
    number = int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0
    if not 0 < number <= MOST_THREADS:
        raise ValueError(
            f"MYOPS_NUM_THREADS: got {_quoted(text)}, expected a number from 1 to {MOST_THREADS}. "
            "Unset it to use one thread per core"
        )
    return number


def _number_of_threads(op: OpInfo, given: Any) -> int:
    expected = f"expected an integer from 0 to {MOST_THREADS}"
    try:
        number = operator.index(given)
    except TypeError:
        raise TypeError(f"{op.name}: threads: got {type(given).__name__}, {expected}") from None
    if not 0 <= number <= MOST_THREADS:
        raise ValueError(f"{op.name}: threads: got {number}, {expected}")
    return number or stated_threads()


def _quoted(text: str) -> str:
    return json.dumps(shorten(text, 60))


def plain(op: str, argument: str, value: Any, where: str = "") -> np.ndarray:
    """`value` as an array. A mask would be lost, so that numbers count which are none."""
    masks = sys.modules.get("numpy.ma")  # imported by whoever made a masked array
    if masks is not None and isinstance(value, masks.MaskedArray):
        raise ValueError(
            f"{op}: {argument}: got a masked array{where}, expected an array without a mask: "
            "give the masked elements a number (filled()) or leave them out (compressed())"
        )
    return np.asarray(value)


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
    except RuntimeError:  # too expensive to decide
        return True


def _check_written(op: OpInfo, arrays: Sequence[Any]) -> None:
    """Refuses inputs to write into that are not arrays with separate memory for each element."""

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
