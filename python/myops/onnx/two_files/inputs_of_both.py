"""Whether two files have the same inputs, so that both can run on the same values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx

from myops.onnx.schema import dims_of

_ADVICE = (
    "Expected files with the same inputs; myops edit renames them, myops inspect lists those of a "
    "file"
)


def notes(
    first: Sequence[onnx.ValueInfoProto],
    second: Sequence[onnx.ValueInfoProto],
    named: Mapping[str, str],
) -> list[str]:
    """Notes on inputs that one side does not have, or that have other names.

    Args:
        first, second: The inputs of both files.
        named: The names of paired inputs, first -> second.

    Raises:
        ValueError: The second has an input for which the first has no value, or no value suits both
            inputs of a pair.
    """
    one, two = ({item.name: item for item in side} for side in (first, second))
    strange = [name for name in two if name not in named.values()]
    if strange:
        raise ValueError(
            f"compare: the second file has the inputs {_listed(two)}, the first "
            f"{_listed(one) or 'none'}; nothing is known of {_listed(strange)}. {_ADVICE}"
        )
    differ = [f"{_shown(one[left])} in the first and {_shown(two[right])} in the second"
              for left, right in named.items() if _never_equal(one[left], two[right])]  # fmt: skip
    if differ:
        raise ValueError(
            f"compare: no value suits both files, whose inputs differ: {'; '.join(differ)}. "
            f"{_ADVICE}"
        )
    left = [name for name in one if name not in named]
    found = [f"Only the first has the input {_listed(left)}."] if left else []
    other = [f"{a!r} and {b!r}" for a, b in named.items() if a != b]
    if other:
        found.append(f"Inputs were paired in order: {', '.join(other)}.")
    return found


def _listed(names: Sequence[str] | Mapping[str, object]) -> str:
    return ", ".join(map(repr, names))


def _never_equal(one: onnx.ValueInfoProto, two: onnx.ValueInfoProto) -> bool:
    """Whether no value suits both inputs. Floats of another width, and integers, are converted."""
    kinds = {item.type.WhichOneof("value") for item in (one, two)} - {None}
    if kinds != {"tensor_type"}:
        return len(kinds) > 1
    left, right = (item.type.tensor_type for item in (one, two))
    if len({_kind(tensor.elem_type) for tensor in (left, right)} - {""}) > 1:
        return True
    ours, theirs = dims_of(left), dims_of(right)
    if ours is None or theirs is None:
        return False
    fixed = [{dim for dim in pair if isinstance(dim, int) and dim >= 0}
             for pair in zip(ours, theirs, strict=False)]  # fmt: skip
    return len(ours) != len(theirs) or any(len(lengths) > 1 for lengths in fixed)


def _kind(number: int) -> str:
    """What the numbers of an element type are; "" if it is not known."""
    if number == onnx.TensorProto.STRING:
        return "text"
    try:
        dtype = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(number))
    except (KeyError, ValueError, TypeError):
        return ""
    # Of the dtypes that NumPy lacks, all are floats here: of narrow integers no input is made.
    return {"b": "integer", "i": "integer", "u": "integer", "c": "complex"}.get(dtype.kind, "float")


def _shown(item: onnx.ValueInfoProto) -> str:
    """ "'x' float32[1, 3, h, w]"."""
    value = item.type.WhichOneof("value")
    if value != "tensor_type":
        return f"{item.name!r} {(value or '?').removesuffix('_type')}"
    tensor = item.type.tensor_type
    name = onnx.TensorProto.DataType.Name(tensor.elem_type).lower()
    name = {"float": "float32", "double": "float64"}.get(name, name)
    dims = dims_of(tensor)
    lengths = "" if dims is None else f"[{', '.join('?' if d is None else str(d) for d in dims)}]"
    return f"{item.name!r} {name}{lengths}"
