"""The differences between the constants of two graphs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import onnx

from myops.onnx.surgery import summary
from myops.onnx.two_files.difference import Change, Detail
from myops.onnx.two_files.matching import Match
from myops.onnx.two_files.numbered_graph import array_of, digest

LONGEST = 8  # numbers of a tensor that are shown


def of_sides(field: str, sides: Sequence[Any], **more: Any) -> Detail:
    """A detail from both sides in one sequence."""
    return Detail(field, sides[0], sides[1], **more)


def changes(match: Match, where: str) -> Iterator[Change]:
    """Constants that were added, removed or changed."""
    one, two = match.first, match.second
    for name, tensor in one.constants.items():
        if name not in match.constants:
            if name not in match.values:
                yield Change("removed", "constant", name, where, [Detail("", _size(tensor), None)])
            continue
        found = list(details(tensor, two.constants[match.constants[name]]))
        if found:
            yield Change("changed", "constant", name, where, found)
    paired = set(match.constants.values())
    for name, tensor in two.constants.items():
        if name not in paired and match.is_unused(name):
            yield Change("added", "constant", name, where, [Detail("", None, _size(tensor))])
    for name in sorted({*one.sparse, *two.sparse}):
        sides = [scope.sparse.get(name) for scope in (one, two)]
        if sides[0] is None or sides[1] is None or one.numbers[name] != two.numbers[name]:
            shown = [side and f"sparse {_size(side.values)} of {list(side.dims)}" for side in sides]
            kinds = "added" if sides[0] is None else "removed" if sides[1] is None else "changed"
            yield Change(kinds, "constant", name, where, [of_sides("", shown)])


def _size(tensor: onnx.TensorProto) -> str:
    return f"{summary.dtype_name(tensor.data_type)}{list(tensor.dims)}"


def details(one: onnx.TensorProto, two: onnx.TensorProto) -> Iterator[Detail]:
    """The differences between two tensors: dtype, shape, or values of equal shape."""
    if one.data_type != two.data_type:
        names = [summary.dtype_name(item.data_type) for item in (one, two)]
        yield of_sides("dtype", names)
    if list(one.dims) != list(two.dims):
        yield Detail("shape", list(one.dims), list(two.dims))
    elif digest(one)[1:] != digest(two)[1:]:
        yield from _of_values(array_of(one), array_of(two))


def _of_values(one: np.ndarray | None, two: np.ndarray | None) -> Iterator[Detail]:
    if one is None or two is None:
        yield Detail("values", "unreadable" if one is None else "readable",
                     "unreadable" if two is None else "readable")  # fmt: skip
        return
    if one.dtype.kind not in "biufc" or two.dtype.kind not in "biufc":
        try:  # the types that onnx adds to NumPy's: bfloat16, float8
            one, two = one.astype(np.float64), two.astype(np.float64)
        except (TypeError, ValueError):
            count = int(np.count_nonzero(one != two))
            yield Detail("values", None, None, differing=count, size=one.size)
            return
    wide = np.complex128 if "c" in (one.dtype.kind, two.dtype.kind) else np.float64
    a, b = one.astype(wide), two.astype(wide)
    differs = (one != two) & ~(np.isnan(a) & np.isnan(b))
    count = int(np.count_nonzero(differs))
    if not count:
        return  # different bits of equal numbers: -0.0, another NaN, another dtype
    with np.errstate(invalid="ignore"):
        gap = np.abs(np.where(differs, b - a, 0))
    largest = float(np.where(np.isnan(gap), np.inf, gap).max())
    shown = [x.ravel()[:LONGEST].tolist() if x.size <= LONGEST else None for x in (one, two)]
    yield of_sides("values", shown, differing=count, size=one.size, largest=largest)
