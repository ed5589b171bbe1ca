"""How the NumPy function of a prototype is called: from NumPy, from torch, by the user."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from myops import _author_errors, _dtypes, _numpy_call
from myops._description import OpInfo
from myops._torch import arrays


class Native:
    """The C++ side of a prototype: all of it but the kernel, which is the function."""

    is_prototype = True

    def __init__(
        self, op: Any, function: Callable[..., Any], description: Mapping[str, Any]
    ) -> None:
        self._name = description["name"]
        self._outputs = [item["name"] for item in description["outputs"]]
        described = op.describe()["inputs"]  # with the key of a random op
        self._decide = [item["values"] for item in described]
        self._fixed = len(described) - bool(described[-1]["variadic"])
        self._is_random = description["random"]
        self.take(op, function)

    def take(self, op: Any, function: Callable[..., Any]) -> None:
        """Computes with `function` from now on, and checks with the rule of `op`."""
        self._op = op
        self._function = function
        self.describe = op.describe
        self.infer = op.infer
        self.complete = op.complete
        self.check_copy = op.check_copy
        self.dispatcher_schema = op.dispatcher_schema

    def call(
        self, inputs: Sequence[np.ndarray | None], attributes: dict[str, Any], threads: int
    ) -> list[np.ndarray | None]:
        """Checks, infers and allocates as for a kernel; then the function computes."""
        # Numbers that decide a shape are read once, as for a kernel: others may write them.
        decide = [*self._decide[: self._fixed], *[False] * (len(inputs) - self._fixed)]
        inputs = [
            array.copy() if decides and array is not None else array
            for array, decides in zip(inputs, decide, strict=True)
        ]

        def body(outputs: list[Any], make: Callable[[int, Sequence[int]], Any]) -> None:
            arrays: list[Any] = [None if array is None else _read_only(array) for array in inputs]
            settings = self._op.complete(attributes)
            if self._is_random:
                key = arrays.pop()
                settings["seed"] = settings["seed"] if key is None else int(key[0])
            if self._fixed < len(self._decide):
                arrays = [*arrays[: self._fixed], arrays[self._fixed :]]
            try:
                results = self._function(*arrays, **settings)
            except Exception as error:
                named = _author_errors.named(self._name, "the function", error)
                if named is None:
                    raise
                raise ValueError(str(named)) from error  # as what a kernel refuses
            results = results if isinstance(results, (tuple, list)) else (results,)
            if len(results) != len(outputs):
                self._refuse("the function", f"{len(results)} results", str(len(outputs)))
            for place, (name, result) in enumerate(zip(self._outputs, results, strict=True)):
                output = outputs[place]
                if output is None and result is not None:
                    output = make(place, np.shape(result))  # None: this call leaves it out
                if output is not None:
                    self._fill(name, result, output)

        return self._op.call(inputs, attributes, threads, body)

    def _fill(self, name: str, value: Any, output: np.ndarray) -> None:
        if value is None:
            self._refuse(name, "None from the function", "an array: this call computes it")
        result = _numpy_call.plain(self._name, name, value, " from the function")
        if result.shape != output.shape:
            self._refuse(
                name, f"shape {list(result.shape)} from the function",
                f"{list(output.shape)}, what the shape rule says",
            )  # fmt: skip
        if not _fits(result.dtype, output.dtype):
            self._refuse(name, f"dtype {result.dtype} from the function", str(output.dtype))
        self._refuse_wrapped(name, result, output.dtype)
        with np.errstate(over="ignore"):  # what is too large becomes infinite, as in a kernel
            output[...] = result.astype(output.dtype)

    def _refuse_wrapped(self, name: str, result: np.ndarray, wanted: np.dtype) -> None:
        """No integer may become another one."""
        if result.size and result.dtype.kind in "iu" and wanted.kind in "iu":
            limits, low, high = np.iinfo(wanted), int(result.min()), int(result.max())
            if low < limits.min or high > limits.max:
                wrong = low if low < limits.min else high
                self._refuse(name, f"{wrong} from the function", f"numbers of {wanted}")

    def _refuse(self, what: str, got: str, expected: str) -> None:
        raise ValueError(f"{self._name}: {what}: got {got}, expected {expected}")


def _read_only(array: np.ndarray) -> np.ndarray:
    view = array.view()
    view.flags.writeable = False
    return view


def _fits(given: np.dtype, wanted: np.dtype) -> bool:
    """Whether a cast loses precision at most, and no fraction or sign."""
    floating = ("float16", "float32", "float64", *_dtypes.NARROW_FLOATS)
    if given.kind == "c" and wanted.name not in _dtypes.COMPLEX:
        return False  # NumPy allows it for dtypes of ml_dtypes
    if given.name in floating and wanted.name in (*floating, *_dtypes.COMPLEX):
        return True
    return np.can_cast(given, wanted, "same_kind")


def kernel(info: OpInfo) -> Callable[..., Any]:
    """What torch's dispatcher calls for tensors on the CPU."""

    def run(*inputs: Any, **attributes: Any) -> Any:
        padded = [*inputs, *[None] * (len(info.inputs) - len(inputs))]
        flat = info.flat(padded)
        given = [
            _array(item, info.is_integer(declared))
            for item, declared in zip(flat, info.expanded(len(flat)).inputs, strict=True)
        ]
        try:
            results = _numpy_call.call(info, info.nested(given), attributes)
        except ValueError as error:  # what a C++ kernel refuses is a RuntimeError in torch
            raise RuntimeError(str(error)) from error
        pairs = zip(info.outputs, results, strict=True)
        tensors = tuple(_tensor(result, info.types[item.type][0]) for item, result in pairs)
        return tensors if len(tensors) > 1 else tensors[0]

    return run


def _array(item: Any, integer: bool) -> np.ndarray | None:
    if item is None or not isinstance(item, torch.Tensor):  # the numbers of a `values` input
        return None if item is None else np.array(item, np.int64 if integer else np.float64)
    return arrays.to_numpy(item)


def _tensor(array: np.ndarray | None, dtype: str) -> torch.Tensor:
    if array is None:  # left out
        return torch.empty(0, dtype=arrays.DTYPES[dtype])
    return arrays.to_torch(array)
