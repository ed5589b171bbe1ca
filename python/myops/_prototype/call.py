"""How the NumPy function of a prototype is called: from NumPy, from torch, by the user."""

from __future__ import annotations

import linecache
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Optional

import numpy as np
import torch

from myops import _description
from myops._description import OpInfo
from myops._torch.call import TorchOp
from myops.ort._pyop_models import numpy_dtype


class Native:
    """The C++ side of a prototype: all of it but the kernel, which is the function."""

    is_prototype = True

    def __init__(
        self, op: Any, function: Callable[..., Any], description: Mapping[str, Any]
    ) -> None:
        self._name = description["name"]
        self._outputs = [item["name"] for item in description["outputs"]]
        self._decide = [item["values"] for item in description["inputs"]]
        self._fixed = len(self._decide) - bool(description["inputs"][-1]["variadic"])
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
    ) -> list[np.ndarray]:
        """Checks, infers and allocates as for a kernel; then the function computes."""
        # Numbers that decide a shape are read once, as for a kernel: others may write them.
        decide = [*self._decide[: self._fixed], *[False] * (len(inputs) - self._fixed)]
        inputs = [
            array.copy() if decides and array is not None else array
            for array, decides in zip(inputs, decide, strict=True)
        ]
        outputs = self._op.call(inputs, attributes, threads)
        arrays: list[Any] = [None if array is None else _read_only(array) for array in inputs]
        if self._fixed < len(self._decide):
            arrays = [*arrays[: self._fixed], arrays[self._fixed :]]
        results = self._function(*arrays, **self._op.complete(attributes))
        results = list(results) if isinstance(results, (tuple, list)) else [results]
        if len(results) != len(outputs):
            self._refuse("the function", f"{len(results)} results", str(len(outputs)))
        if any(output is None for output in outputs):
            self._allocate(inputs, attributes, results, outputs)
        for name, result, output in zip(self._outputs, results, outputs, strict=True):
            if output is not None:
                self._fill(name, np.asarray(result), output)
        return outputs

    def _allocate(
        self,
        inputs: Sequence[np.ndarray | None],
        attributes: dict[str, Any],
        results: Sequence[Any],
        outputs: list[Any],
    ) -> None:
        """Makes the outputs with lengths that the function decides, with the checks of
        csrc/core/decided_outputs.cpp. What is None afterwards is left out."""
        shapes = [None if array is None else list(array.shape) for array in inputs]
        dtypes = [None if array is None else array.dtype.name for array in inputs]
        decide = [*self._decide[: self._fixed], *[False] * (len(inputs) - self._fixed)]
        values = [array.tolist() if d and array is not None and array.ndim == 1 else None
                  for array, d in zip(inputs, decide, strict=True)]  # fmt: skip
        described = self._op.infer(shapes, dtypes, attributes, values)
        said: dict[str, int] = {}
        for place, (dtype, dims) in enumerate(described):
            if (
                outputs[place] is not None
                or dims is None
                or not self._is_wanted(place, inputs, attributes)
            ):
                continue
            outputs[place] = np.empty(
                self._decided(self._outputs[place], np.shape(results[place]), dims, said),
                numpy_dtype(dtype),
            )

    def _is_wanted(self, place: int, inputs: Sequence[Any], attributes: Mapping[str, Any]) -> bool:
        return self._info().present(inputs, self._op.complete(attributes))[place]

    def _info(self) -> OpInfo:
        return _description.read(self, "", "")

    def _decided(
        self, name: str, shape: Sequence[int], dims: Sequence[Any], said: dict[str, int]
    ) -> list[int]:
        known = [-1 if isinstance(dim, tuple) else dim for dim in dims]
        alike = len(shape) == len(known) and all(
            wanted in (-1, got) for got, wanted in zip(shape, known, strict=True)
        )
        if not alike:
            self._refuse(
                name, f"shape {list(shape)} from the function",
                f"{known}, where -1 is a length for the function to decide",
            )  # fmt: skip
        for axis, (length, dim) in enumerate(zip(shape, dims, strict=True)):
            if not isinstance(dim, tuple):
                continue
            got = f"length {length} on axis {axis} from the function"
            title, most = dim
            if most is not None and length > most:
                self._refuse(name, got, f"at most {most}, the bound in the shape rule")
            if title and said.setdefault(title, length) != length:
                self._refuse(name, got, f'{said[title]}, that of another output for "{title}"')
        return list(shape)

    def _fill(self, name: str, result: np.ndarray, output: np.ndarray) -> None:
        if result.shape != output.shape:
            self._refuse(
                name, f"shape {list(result.shape)} from the function",
                f"{list(output.shape)}, what the shape rule says",
            )  # fmt: skip
        if not _fits(result.dtype, output.dtype):
            self._refuse(name, f"dtype {result.dtype} from the function", str(output.dtype))
        with np.errstate(over="ignore"):  # what is too large becomes infinite, as in a kernel
            output[...] = result.astype(output.dtype)

    def _refuse(self, what: str, got: str, expected: str) -> None:
        raise ValueError(f"{self._name}: {what}: got {got}, expected {expected}")


def _read_only(array: np.ndarray) -> np.ndarray:
    view = array.view()
    view.flags.writeable = False
    return view


def _fits(given: np.dtype, wanted: np.dtype) -> bool:
    """Whether a cast loses precision at most, and no fraction or sign."""
    floating = ("float16", "bfloat16", "float32", "float64")
    if given.name in floating and wanted.name in floating:
        return True
    return np.can_cast(given, wanted, "same_kind")


def kernel(info: OpInfo) -> Callable[..., Any]:
    """What torch's dispatcher calls for tensors on the CPU."""

    def run(*inputs: Any, **attributes: Any) -> Any:
        padded = [*inputs, *[None] * (len(info.inputs) - len(inputs))]
        flat = info.flat(padded)
        arrays = [
            _array(item, info.is_integer(declared))
            for item, declared in zip(flat, info.expanded(len(flat)).inputs, strict=True)
        ]
        try:
            results = _description.call(info, info.nested(arrays), attributes)
        except ValueError as error:  # what a C++ kernel refuses is a RuntimeError in torch
            raise RuntimeError(str(error)) from error
        given = zip(info.outputs, results, strict=True)
        tensors = tuple(_tensor(result, info.types[item.type][0]) for item, result in given)
        return tensors if len(tensors) > 1 else tensors[0]

    return run


def _array(item: Any, integer: bool) -> np.ndarray | None:
    if item is None or not isinstance(item, torch.Tensor):  # the numbers of a `values` input
        return None if item is None else np.array(item, np.int64 if integer else np.float64)
    item = item.detach()
    if item.dtype == torch.bfloat16:
        return item.view(torch.int16).numpy().view(numpy_dtype("bfloat16"))
    return item.numpy()


def _tensor(array: np.ndarray | None, dtype: str) -> torch.Tensor:
    if array is None:  # left out
        return torch.empty(0, dtype=getattr(torch, dtype))
    if array.dtype.name == "bfloat16":
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


_TYPES = {
    "bool": "bool", "int": "int", "float": "float", "string": "str",
    "ints": "List[int]", "floats": "List[float]",
}  # fmt: skip


def public(op: TorchOp, function: Callable[..., Any]) -> Callable[..., Any]:
    """The function for callers, as an op file writes it by hand.

    Written as source text, because TorchScript reads it (and takes no keyword-only argument with
    a default), and compilers see through it best.
    """
    info = op.info
    parameters = []
    for number, item in enumerate(info.inputs):
        kind = "Optional[Tensor]" if item.optional else "Tensor"
        kind = "Any" if item.values else "List[Tensor]" if item.variadic else kind
        droppable = all(later.optional for later in info.inputs[number:])
        parameters.append(f"{item.name}: {kind}" + (" = None" if droppable else ""))
    for attribute in info.attributes:
        default = attribute.default
        default = list(default) if isinstance(default, tuple) else default
        parameters.append(f"{attribute.name}: {_TYPES[attribute.type]} = {default!r}")
    names = [item.name for item in info.inputs]
    passed = ", ".join([*names, *(f"{item.name}={item.name}" for item in info.attributes)])
    source = (
        f"def {info.name}({', '.join(parameters)}):\n"
        f"    if torch.jit.is_scripting():\n"
        f"        return torch.ops.{info.namespace}.{info.name}({passed})\n"
        f"    else:\n"
        f"        return _op({passed})\n"
    )
    file = f"<myops.prototype {info.qualified}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    namespace = {"torch": torch, "Tensor": torch.Tensor, "Optional": Optional, "List": list,
                 "Any": Any, "_op": op}  # fmt: skip
    exec(compile(source, file, "exec"), namespace)
    made: Any = namespace[info.name]
    made.__doc__ = function.__doc__ or info.doc
    made.__module__ = function.__module__
    return made
