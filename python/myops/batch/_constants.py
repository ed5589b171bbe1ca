"""Inputs that are the same for each row."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from myops._names import choose
from myops.batch import _arrays, _store
from myops.batch._recipe import dtype_of, shape_of


def constants(session: Any, given: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Values for inputs that are the same for every row.

    Raises:
        ValueError: There is no such input, or the value has another kind or shape.
    """
    known = {item.name: item for item in session.get_inputs()}
    known |= {item.name: item for item in session.get_overridable_initializers()}
    found = {}
    for name, value in given.items():
        choose(name, known, "constants: the inputs of the model have")
        found[name] = _constant(name, value, known[name])
    return found


def _constant(name: str, value: Any, wanted: Any) -> np.ndarray:
    dtype, shape = dtype_of(wanted, "input"), shape_of(wanted)
    shown = f"{wanted.type} {list(wanted.shape)}"
    if isinstance(value, str) and dtype != "object":
        value = _parsed(name, value, shown)
    try:
        array = np.asarray(value)
        if array.dtype.kind in "OUS" and dtype != "object":
            raise ValueError("text")
        cast = array.astype(dtype)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"constants: {name}: got {value!r}, expected {shown}") from None
    lossless = cast.dtype.kind in "fO" or (
        array.dtype.kind == cast.dtype.kind == "b"
        or (cast.dtype.kind != "b" and array.dtype.kind in "iu" and bool((cast == array).all()))
        or (cast.dtype.kind in "iu" and array.dtype.kind == "f" and bool((cast == array).all()))
    )
    if not lossless:
        raise ValueError(f"constants: {name}: got {value!r}, expected {shown}")
    if cast.ndim == 0 and shape and all(item == 1 for item in shape):
        cast = cast.reshape([1] * len(shape))
    fits = len(shape) == cast.ndim and all(
        want in (None, got) for want, got in zip(shape, cast.shape, strict=True)
    )
    # Without a shape the graph may also leave the rank open, which only who gives an array means.
    if not fits and (shape or not isinstance(value, np.ndarray)):
        raise ValueError(
            f"constants: {name}: got {value!r} of shape {list(cast.shape)}, expected {shown}"
        )
    return cast


def _parsed(name: str, text: str, shown: str) -> Any:
    if text.lower().endswith(".npy"):
        return _arrays.load(_store.read(text), text)[""]
    try:
        return json.loads(text)
    except ValueError:
        pass
    try:
        return json.loads(f"[{text}]")
    except ValueError:
        raise ValueError(f"constants: {name}: got {text!r}, expected {shown}") from None
