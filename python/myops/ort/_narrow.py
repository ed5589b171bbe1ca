"""Runs of sessions whose tensors have types that NumPy does not have: bfloat16, floats of 8 bits.

ONNX Runtime takes and returns them as OrtValues only. This file imports nothing of myops, because
the process in which `myops doctor` runs a model loads it by its path.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

# ONNX Runtime's name -> ONNX's number, and the type of the bits.
TYPES = {
    "bfloat16": (16, "uint16"), "float8e4m3fn": (17, "uint8"), "float8e4m3fnuz": (18, "uint8"),
    "float8e5m2": (19, "uint8"), "float8e5m2fnuz": (20, "uint8"),
}  # fmt: skip
NUMBERS = {number for number, _ in TYPES.values()}
_PLAIN = {"float", "double", "float16", "bool", "string", "int8", "int16", "int32", "int64",
          "uint8", "uint16", "uint32", "uint64"}  # fmt: skip


class CannotFeedError(RuntimeError):
    """This ONNX Runtime takes no tensors of these types from Python; the model may be right."""


def bound(session: Any, feed: Mapping[str, Any]) -> Callable[[], list[Any]]:
    """A run with these inputs, without conversions: arrays, or OrtValues where an input or an
    output has such a type.

    Args:
        session: Of ONNX Runtime.
        feed: Arrays by name; of a type that NumPy does not have, of `ml_dtypes` or the bits.

    Raises:
        CannotFeedError: The run cannot be made from Python.
    """
    types = {item.name: _element(item) for item in session.get_inputs()}
    named = [*types.values(), *map(_element, session.get_outputs())]
    if all(name in _PLAIN or not name for name in named):
        return lambda: session.run(None, feed)
    values = {name: _value(np.asarray(array), types.get(name, "")) for name, array in feed.items()}
    return lambda: session.run_with_ort_values(None, values)


def results(session: Any, feed: Mapping[str, Any]) -> list[Any]:
    """What a session returns, as arrays; of types that NumPy does not have as float32."""
    import onnx

    found = []
    for result in bound(session, feed)():
        kind, value = element(result), plain(result)
        if kind in TYPES:
            dtype = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(TYPES[kind][0]))
            value = value.reshape(-1).view(dtype).reshape(value.shape).astype(np.float32)
        found.append(value)
    return found


def plain(result: Any) -> Any:
    """A result of such a run as an array, of a type that NumPy does not have as its bits; what is
    no such tensor stays as it is."""
    if not hasattr(result, "is_tensor") or not result.has_value() or not result.is_tensor():
        return result
    name = result.data_type().removeprefix("tensor(").removesuffix(")").lower()
    if name in TYPES:
        shape, bits = result.shape(), np.dtype(TYPES[name][1])
        size = int(np.prod(shape, dtype=np.int64)) * bits.itemsize
        data = ctypes.string_at(result.data_ptr(), size) if size else b""
        return np.frombuffer(data, bits).reshape(shape)
    try:
        return result.numpy()
    except RuntimeError:  # two elements in a byte
        return result


def wide(bits: np.ndarray, name: str) -> np.ndarray:
    """bfloat16 as float32; bits of other types stay as they are."""
    if name != "bfloat16" or bits.dtype != np.uint16:
        return bits
    return (bits.astype(np.uint32) << 16).view(np.float32)


def element(result: Any) -> str:
    """The type of the elements of a result that is no array, such as "int4"; or ""."""
    if not hasattr(result, "data_type"):
        return ""
    text: str = result.data_type()
    return text.removeprefix("tensor(").removesuffix(")").lower()


def _element(item: Any) -> str:
    """The type of the elements of an input or output; "" for one that is no tensor."""
    text: str = item.type
    return text[7:-1] if text.startswith("tensor(") else ""


def _value(array: np.ndarray, name: str) -> Any:
    import onnxruntime

    made = onnxruntime.OrtValue
    array = np.ascontiguousarray(array).reshape(array.shape)
    if name not in TYPES:
        if array.dtype.kind in "OSU":
            raise CannotFeedError("a model with texts and with numbers that NumPy does not have")
        return made.ortvalue_from_numpy(array)
    number, bits = TYPES[name]
    if not hasattr(made, "ortvalue_from_numpy_with_onnx_type"):
        raise CannotFeedError(f"onnxruntime {onnxruntime.__version__} takes no {name} from Python")
    if array.dtype.itemsize != np.dtype(bits).itemsize:
        raise CannotFeedError(f"an array of {array.dtype} for an input of {name}")
    # (An array of ml_dtypes without axes has no view of another type.)
    shaped = array.reshape(-1).view(bits).reshape(array.shape)
    return made.ortvalue_from_numpy_with_onnx_type(shaped, number)
