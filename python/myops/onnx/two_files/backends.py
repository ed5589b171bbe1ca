"""The runtimes of a model: ONNX Runtime with or without optimisations, or onnx's own evaluator."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnx.inliner

from myops._names import near_misses
from myops._text import reason
from myops.onnx.comparison.graph import Graph
from myops.onnx.comparison.ort_side import RunError, Runner, fetch
from myops.onnx.comparison.run_models import with_outputs
from myops.onnx.graph import scopes
from myops.onnx.reference import reference_ops

BACKENDS = {
    "ort": "ONNX Runtime",
    "ort-no-optimization": "ONNX Runtime without optimisations",
    "reference": "onnx.reference",
}

Run = Callable[[Mapping[str, np.ndarray]], dict[str, Any]]


class Backend:
    """Runs models and fetches values from inside them.

    Attributes:
        name: A key of BACKENDS.
        libraries: Custom-op libraries that ONNX Runtime needs for the models.
        argument: The argument that chose it, for errors.
        rewrites: Whether it changes a model before it runs it, so that a model with more outputs
            may compute something else. ONNX Runtime does this without optimisations too: nodes
            without a float16 kernel run in float32 between two casts.
    """

    def __init__(
        self,
        name: str,
        libraries: Sequence[str | os.PathLike[str]] = (),
        argument: str = "backend",
    ) -> None:
        if name not in BACKENDS:
            raise ValueError(
                f"compare: {argument}: got {name!r}, expected one of {', '.join(BACKENDS)}."
                + near_misses(name, BACKENDS)
            )
        self.name = name
        self.libraries = libraries
        self.argument = argument
        self.rewrites = name != "reference"
        self._level = "all" if name == "ort" else "disable"
        self._runner = Reference() if name == "reference" else Runner(libraries)

    def opened(self, model: onnx.ModelProto, names: Iterable[str] | None = None) -> Run:
        """A function from inputs to values by name; a string gives the reason for a missing array.

        Raises (the function):
            RuntimeError: The model does not load, or RunError: it does not run to its end.
        """
        return self._runner.opened(model, names, self._level)

    def fetch(
        self, graph: Graph, feeds: Mapping[str, np.ndarray], names: Sequence[str]
    ) -> tuple[dict[str, Any], tuple[int, str] | None]:
        """Values of a graph; if the run stops at a node: the values before it, its index, and the
        reason."""
        return fetch(graph, self._runner, feeds, names, self._level)


class Reference(Runner):
    """onnx.reference; nodes of op libraries call their kernels through NumPy."""

    def opened(
        self,
        model: onnx.ModelProto,
        names: Iterable[str] | None = None,
        level: str = "",
        types: Mapping[str, onnx.TypeProto] | None = None,
    ) -> Run:
        from onnx.reference import ReferenceEvaluator

        wanted = [item.name for item in model.graph.output]
        if names is not None:
            wanted = list(dict.fromkeys(names))
            model = with_outputs(model, wanted)
        evaluator: Any = None

        def run(feeds: Mapping[str, np.ndarray]) -> dict[str, Any]:
            nonlocal evaluator
            try:
                evaluator = evaluator or ReferenceEvaluator(model, new_ops=reference_ops())
            except Exception as error:  # what it raises has no common base
                raise RuntimeError(
                    f"onnx.reference does not load the model: {reason(error)}"
                ) from error
            narrow = _narrow(model)
            fed = {name: array.astype(narrow[name]) if name in narrow else array
                   for name, array in feeds.items()}  # fmt: skip
            try:
                with np.errstate(all="ignore"):
                    values = evaluator.run(wanted, fed)
            except Exception as error:  # as above
                kind = type(error).__name__
                raise RunError(
                    f"onnx.reference does not run the model: {kind}: {reason(error)}"
                ) from error
            return dict(zip(wanted, map(_array, values), strict=True))

        return run


def _narrow(model: onnx.ModelProto) -> dict[str, np.dtype]:
    """Inputs with the dtypes that onnx adds to NumPy's."""
    import ml_dtypes

    bfloat16 = onnx.TensorProto.BFLOAT16
    return {item.name: np.dtype(ml_dtypes.bfloat16) for item in model.graph.input
            if item.type.tensor_type.elem_type == bfloat16}  # fmt: skip


def _array(value: Any) -> Any:
    if value is None:
        return "an optional value that is absent"
    if isinstance(value, (list, dict)):
        return f"a {type(value).__name__}, not a tensor"
    array = np.asarray(value)
    return array.astype(np.float32) if array.dtype.kind == "V" else array


def flattened(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with the functions of the file inlined; nodes of op libraries stay nodes.

    It is the model itself if it has no functions, as each copy is as large as the weights.

    Raises:
        ValueError: onnx cannot inline a function.
    """
    if not model.functions:
        return model
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    del copy.functions[:]
    copy.functions.extend(f for f in model.functions if not scopes.is_body(f))
    if not copy.functions:
        return copy
    del copy.graph.initializer[:]  # the inliner takes one protobuf message, of less than 2 GiB
    try:
        inlined = onnx.inliner.inline_local_functions(copy)
    except Exception as error:  # what it raises has no common base
        raise ValueError(
            f"the functions of the model cannot be inlined: {reason(error)}"
        ) from error
    inlined.graph.initializer.extend(model.graph.initializer)
    return inlined
