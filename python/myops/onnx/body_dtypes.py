"""In a function for nodes of several dtypes, standard operators find out which one a tensor has."""

from __future__ import annotations

import numpy as np
import onnx

from myops._description import OpInfo
from myops.onnx.builder import Builder

# A dtype is known by which numbers a cast to it and back preserves. Each number is cast from a kind
# for which ONNX defines the result: of an integer that is too large, an integer dtype keeps the low
# bits, whereas a float that is too large becomes any integer. So all floats here are small.
_FRACTION_BITS = {"float8_e5m2": 2, "float8_e4m3fn": 3, "bfloat16": 7, "float16": 10, "float32": 23,
                  "float64": 52}  # fmt: skip
_FLOATS = np.array([1 + 2.0**-bits for bits in _FRACTION_BITS.values()])
_RANGES = {"bool": (0, 1)} | {
    name: (int(np.iinfo(name).min), int(np.iinfo(name).max))
    for name in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
}
_INTEGERS = np.array([-1, 2, 300, 70_000, 2**40], np.int64)


def refuse_unknown(g: Builder, name: str, dtypes: set[str]) -> None:
    """Refuses nodes whose input has these dtypes, if they cannot be told apart or cast."""
    listed = f"nodes of one type differ in the dtype of {name} ({', '.join(sorted(dtypes))}), and "
    others = sorted(dtypes - _FRACTION_BITS.keys() - _RANGES.keys())
    if others:
        g.refuse(f"{listed}no operator tells {' and '.join(others)} from other dtypes")
    if g.opset < 19 and any(dtype.startswith("float8") for dtype in dtypes):
        g.refuse(f"{listed}no operator casts to float8 before opset 19", "Use opset 19 or up.")


def refuse_results(g: Builder, info: OpInfo, dtypes: list[list[str | None]]) -> None:
    """Refuses outputs that an If cannot have. `dtypes` are those of the inputs of each node."""
    of_type = {kind: set(names) for kind, names in info.types.items() if len(names) == 1}
    for place, item in enumerate(info.inputs):
        of_type.setdefault(item.type, set()).update(str(given[place]) for given in dtypes)
    found = {dtype for output in info.outputs for dtype in of_type.get(output.type, ())}
    for dtype, first in (("bfloat16", 16), ("float8_e4m3fn", 19), ("float8_e5m2", 19)):
        if g.opset < first and dtype in found:
            g.refuse(
                f"nodes of one type differ, and If has no outputs of {dtype} before opset {first}",
                f"Use opset {first} or up.",
            )


def need_cast_like(g: Builder, name: str) -> None:
    """Refuses opsets without the operator that casts to the dtype of this input."""
    if g.opset < 15:
        g.refuse(
            f"nodes of one type differ in the dtype of {name}, and CastLike is new in opset 15",
            "Use opset 15 or up.",
        )


def dtype_is(g: Builder, name: str, dtype: str) -> str:
    """The nodes that say whether the tensor has this dtype, one that `refuse_unknown` accepts."""
    need_cast_like(g, name)
    bits = _FRACTION_BITS.get(dtype, 0)
    floats = _preserves(g, name, _FLOATS, [0 < kept <= bits for kept in _FRACTION_BITS.values()])
    if bits:
        return floats
    low, high = _RANGES[dtype]
    integers = _preserves(g, name, _INTEGERS, [low <= number <= high for number in _INTEGERS])
    return g.op("And", floats, integers)


def _preserves(g: Builder, name: str, numbers: np.ndarray, wanted: list[bool]) -> str:
    """Whether a cast to the dtype of the tensor and back preserves the wanted ones, no others."""
    there = g.op("CastLike", g.constant(numbers), name)
    # Back to float64: in int64, what uint64 makes of -1 would be -1 again.
    back = g.op("Cast", there, to=onnx.TensorProto.DOUBLE)
    preserved = g.op("Equal", back, g.constant(numbers.astype(np.float64)))
    right = g.op("Equal", preserved, g.constant(np.array(wanted)))
    count = g.op("ReduceSum", g.op("Cast", right, to=onnx.TensorProto.INT64), keepdims=0)
    return g.op("Equal", count, g.constant(np.array(len(wanted))))
