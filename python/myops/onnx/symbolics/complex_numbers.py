"""Refuses nodes with complex tensors, because ONNX Runtime has no such tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

from myops import _dtypes
from myops._description import OpInfo


def refuse(info: OpInfo, dtypes: Sequence[str | None]) -> None:
    """Refuses a node with a complex input or output.

    Args:
        dtypes: One entry per input; None for an input that is left out or unknown.

    Raises:
        ValueError: One of them is complex.
    """
    known = dict(zip((item.type for item in info.inputs), dtypes, strict=False))
    for item, dtype in zip(info.inputs, dtypes, strict=False):
        if dtype in _dtypes.COMPLEX:
            _refuse(info, item.name, str(dtype))
    for output in info.outputs:
        dtype = known.get(output.type) or info.types[output.type][0]
        if dtype in _dtypes.COMPLEX and output.type not in {item.type for item in info.inputs}:
            _refuse(info, output.name, dtype)


def _refuse(info: OpInfo, name: str, dtype: str) -> NoReturn:
    raise ValueError(
        f"{info.name}: {name}: got dtype {dtype}, expected one that ONNX Runtime has: it has no "
        "tensors of complex numbers. Export a model that passes their parts as real numbers "
        "(torch.view_as_real) and an op that takes those"
    )


def takes_any(info: OpInfo) -> bool:
    """Whether an input of the op may be complex."""
    return any(dtype in _dtypes.COMPLEX for item in info.inputs for dtype in info.types[item.type])


def refusing(info: OpInfo) -> Callable[..., Any]:
    """The function that the exporter based on torch.export calls for a node with complex inputs,
    instead of the translation. It represents them as floats with one more axis for the parts."""

    def translate(*inputs: Any, **attributes: Any) -> Any:
        parts: Mapping[str, str] = {"FLOAT": "complex64", "DOUBLE": "complex128"}
        found = [getattr(getattr(item, "dtype", None), "name", "") for item in inputs]
        dtypes = [
            parts.get(dtype) if parts.get(dtype) in info.types[item.type] else None
            for dtype, item in zip(found, info.inputs, strict=False)
        ]
        refuse(info, dtypes)
        names = [
            item.name for item in info.inputs if set(info.types[item.type]) & {*_dtypes.COMPLEX}
        ]
        _refuse(info, names[0], "complex64 or complex128")

    return translate
