"""Inputs on which a model runs in this process: given ones, and invented ones for the rest."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx

from myops._text import reason
from myops.onnx.schema import dims_of
from myops.ort._doctor import feeds

Feed = Mapping[str, np.ndarray]
ADVICE = (  # commands show arguments as their options
    'Say what the inputs are like: shapes={"NAME": [1, 3, 320, 320]}, dims={"NAME": 16}, '
    'inputs={"NAME": "FILE.npy"}'
)


@dataclass
class Chosen:
    """Inputs on which a model ran.

    feed: Arrays by name of the input.
    invented: What of an input is made up that was not asked for, in words.
    """

    feed: dict[str, np.ndarray]
    invented: dict[str, str]

    def described(self) -> dict[str, dict[str, Any]]:
        """dtype and shape of each input, and what of it was made up."""
        return {
            name: {"dtype": str(array.dtype), "shape": list(array.shape),
                   "invented": self.invented.get(name, "")}
            for name, array in self.feed.items()
        }  # fmt: skip


def that_run(
    model: onnx.ModelProto,
    asked: tuple[Mapping[str, Any], Mapping[str, int], Mapping[str, Any]],
    *runs: Callable[[Feed], Any],
    defaults: bool = False,
) -> Chosen:
    """Inputs that a function accepts; several are tried.

    Args:
        model: What states the inputs.
        asked: Arrays or .npy files, lengths and shapes by name, as `myops.ort.doctor` takes them.
        runs: Functions that raise RunError for inputs that do not do; the second is asked when
            nothing suits the first.
        defaults: Whether an array may replace the value that an input has in the file. Functions
            that also run nodes alone take the value in the file.

    Raises:
        ValueError: A name that the model does not have, an array of another type than the model
            states, or an input that cannot be invented.
        RuntimeError: Nothing suits, or what a function raises for another reason.
    """
    from myops.onnx.comparison.ort_side import RunError

    if not defaults:
        _refuse_defaults(model, asked)
    try:
        made = feeds.make(model, feeds.Asked(*asked))
    except feeds.OnlyTensorsError as error:
        raise ValueError(f"{error}. `myops extract` cuts out a part behind this input") from None
    except feeds.CannotMakeError as error:
        raise ValueError(f"{error}. {ADVICE}") from None
    _refuse_other_types(model, asked[0], made.feeds[0])
    _refuse_other_shapes(model, asked[0], made.feeds[0])
    tried = [feed for found in made.feeds for feed in (_normal(model, asked[0], found), found)]
    if made.feeds[0].keys() <= asked[0].keys():
        tried = tried[:1]  # nothing is invented, so all are equal
    first: Exception | None = None
    for run in runs:
        for feed in tried:
            try:
                run(feed)
            except RunError as error:
                first = first or error
            else:
                return Chosen(feed, made.invented)
    shown = "; ".join(f"{name}: {note}" for name, note in made.invented.items())
    hint = f" Invented were {shown}." if shown else ""
    if len(tried) == 1:
        raise RuntimeError(f"the model does not run with these inputs: {reason(first)}{hint}")
    raise RuntimeError(
        f"the model does not run; {len(tried)} inputs were tried. With the first: {reason(first)}"
        f"{hint} {ADVICE}"
    )


def _refuse_defaults(
    model: onnx.ModelProto,
    asked: tuple[Mapping[str, Any], Mapping[str, int], Mapping[str, Any]],
) -> None:
    """Raises ValueError for what is asked of inputs that have a value in the file."""
    weights = {tensor.name for tensor in model.graph.initializer}
    for item in model.graph.input:
        if item.name in weights and (item.name in asked[0] or item.name in asked[2]):
            raise ValueError(
                f"inputs: {item.name}: got an input that has a value in the file, expected one "
                "without; put the other value into the file"
            )


def _refuse_other_types(model: onnx.ModelProto, given: Mapping[str, Any], feed: Feed) -> None:
    """ONNX Runtime refuses such arrays, and a conversion would hide it.

    Raises:
        ValueError: An array is not of the type that the model states. For float16, as for types
            that NumPy itself does not have, float32 is taken too, so that a model and its narrow
            form run on the same arrays.
    """
    for item in model.graph.input:
        kind = item.type.tensor_type.elem_type
        if item.name not in given or not kind:
            continue
        stated = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(kind))
        array = feed[item.name]
        taken = {stated, np.dtype(np.float32)} if stated == np.float16 else {stated}
        if stated.isbuiltin == 1 and stated.kind in "biufc" and array.dtype not in taken:
            raise ValueError(
                f"inputs: {item.name}: got an array of {array.dtype}, expected {stated}; convert "
                f"it: array.astype(np.{stated})"
            )


def _refuse_other_shapes(model: onnx.ModelProto, given: Mapping[str, Any], feed: Feed) -> None:
    """Names the axis, which ONNX Runtime does in several lines.

    Raises:
        ValueError: An array has another rank, or another length where the model states one.
    """
    for item in model.graph.input:
        tensor = item.type.tensor_type
        if item.name not in given or not tensor.HasField("shape"):
            continue
        stated, shape = dims_of(tensor) or [], feed[item.name].shape
        fixed = [(dim, length) for dim, length in zip(stated, shape, strict=False)
                 if isinstance(dim, int)]  # fmt: skip
        if len(stated) != len(shape) or any(dim != length for dim, length in fixed):
            lengths = ", ".join("?" if dim is None else str(dim) for dim in stated)
            raise ValueError(
                f"inputs: {item.name}: got an array of shape {list(shape)}, expected [{lengths}]"
            )


def _normal(model: onnx.ModelProto, given: Mapping[str, Any], feed: Feed) -> dict[str, np.ndarray]:
    """The same with floats of both signs, except for lists of factors."""
    random = np.random.default_rng(0)
    return {
        name: array if name in given or array.dtype.kind != "f" or feeds.is_list(name, model)
        else np.asarray(random.standard_normal(array.shape)).astype(array.dtype)
        for name, array in feed.items()
    }  # fmt: skip
