"""Runs a model in ONNX Runtime and fetches values from inside it."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx

from myops.onnx.comparison import run_models
from myops.onnx.comparison.graph import Graph
from myops.onnx.graph import scopes
from myops.ort import _large, _narrow, _session

LEVELS = ("disable", "basic", "extended", "all")
_LARGE = 2**18  # elements: of such weights ONNX Runtime gets arrays, as it keeps copies of others
EXTENSIONS = ("ai.onnx.contrib", "com.microsoft.extensions")  # of onnxruntime-extensions


class RunError(RuntimeError):
    """ONNX Runtime loaded a model but did not run it to its end."""


@dataclass
class Runner:
    """Settings for running models.

    libraries: Custom-op libraries in addition to those of myops and onnxruntime-extensions.
    """

    libraries: Sequence[Any] = ()

    def libraries_of(self, model: onnx.ModelProto) -> list[Any]:
        """The other libraries that a model needs."""
        domains = {node.domain for node in scopes.all_nodes(model.graph.node)}
        domains.update(n.domain for f in model.functions for n in scopes.all_nodes(f.node))
        found = list(self.libraries)
        if domains.intersection(EXTENSIONS):
            from myops.ort import pyops

            found.append(pyops.extensions_library())
        return found

    def run(
        self,
        model: onnx.ModelProto,
        feeds: Mapping[str, np.ndarray],
        names: Iterable[str] | None = None,
        level: str = "disable",
        types: Mapping[str, onnx.TypeProto] | None = None,
    ) -> dict[str, np.ndarray | str]:
        """Values of the model by name; a string gives the reason why there is none.

        Args:
            model: It is not changed.
            feeds: Arrays by name of the graph input.
            names: Values of the graph, also inner ones. Default: its outputs.
            level: "disable", "basic", "extended" or "all" optimisations.
            types: Types of inner values that the model does not state.

        Raises:
            RuntimeError: ONNX Runtime does not load it.
            RunError: It does not run to its end.
        """
        return self.opened(model, names, level, types)(feeds)

    def opened(
        self,
        model: onnx.ModelProto,
        names: Iterable[str] | None = None,
        level: str = "disable",
        types: Mapping[str, onnx.TypeProto] | None = None,
    ) -> Callable[[Mapping[str, np.ndarray]], dict[str, np.ndarray | str]]:
        """The same for several runs: a function of the inputs, with one session for all of them."""
        wanted = [item.name for item in model.graph.output]
        if names is not None:
            wanted = list(dict.fromkeys(names))
        session: Any = None
        weights: Any = None  # which the session reads
        widened: dict[str, str] = {}

        def run(feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray | str]:
            nonlocal session, weights, widened
            if session is None:
                light, weights = self._light(model)
                if names is not None:
                    run_models.set_outputs(light, wanted, types or {})
                widened = run_models.widen(light)
                session = self.session(light, level, weights)
            fed = run_models.wide_feeds(feeds, widened)
            expected = {item.name: item.type for item in session.get_inputs()}
            missing = [name for name in expected if name not in fed]
            if missing:
                raise ValueError(f"the ONNX model has the inputs {missing}, which have no value")
            fed = {name: as_type(array, expected[name])
                   for name, array in fed.items() if name in expected}  # fmt: skip
            texts = any(array.dtype.kind in "OSU" for array in fed.values())
            try:
                if texts:  # ONNX Runtime makes no OrtValue of strings
                    return dict(zip(wanted, map(_plain, session.run(wanted, fed)), strict=True))
                values = session.run_with_ort_values(wanted, _ort_values(fed))
            except Exception as error:  # ONNX Runtime's own kinds have no common base
                raise RunError(f"ONNX Runtime does not run the model: {error}") from error
            return dict(zip(wanted, map(_array, values), strict=True))

        return run

    @staticmethod
    def _light(model: onnx.ModelProto) -> tuple[onnx.ModelProto, dict[str, Any]]:
        """A copy of the model, and those of its weights that are not in it."""
        if any(math.prod(tensor.dims) > _LARGE for tensor in model.graph.initializer):
            _return_freed()
        if not scopes.needs_pyops(model):  # their sessions take one message
            return _large.detached(model, _LARGE)
        copy = onnx.ModelProto()
        copy.CopyFrom(model)
        return copy, {}

    def session(
        self,
        model: onnx.ModelProto,
        level: str = "disable",
        weights: Mapping[str, Any] | None = None,
    ) -> Any:
        """A session; the caller keeps the weights, which are those that are not in the model."""
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4  # errors are raised
        options.graph_optimization_level = {
            "disable": onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL,
            "basic": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC,
            "extended": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED,
            "all": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL,
        }[level]
        _large.give(options, weights or {})
        try:
            opened: Any = _session.session
            if scopes.needs_pyops(model):
                from myops.ort.pyops import pyop_session as opened
            return opened(model, session_options=options, libraries=self.libraries_of(model))
        except (ImportError, OSError, ValueError):
            raise
        except Exception as error:  # ONNX Runtime's own kinds have no common base
            raise RuntimeError(
                f"ONNX Runtime does not load the model: {error}. `myops doctor` explains why"
            ) from error


def _return_freed() -> None:
    """Returns freed memory to the system. glibc keeps that of an earlier session, in pieces that
    the next one does not fit into."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:  # other C libraries return it themselves
        trim(0)


def fetch(
    graph: Graph,
    runner: Runner,
    inputs: Mapping[str, np.ndarray],
    names: Sequence[str],
    level: str,
) -> tuple[dict[str, Any], tuple[int, str] | None]:
    """Values of the graph. If ONNX Runtime stops at a node: the values before it, the node, and the
    reason."""
    try:
        return runner.run(graph.model, inputs, names, level, graph.types), None
    except RunError as error:
        reason = str(error)
    runs, stops = 0, len(graph.nodes)  # how many of the first nodes run, and how many do not
    results: dict[str, Any] = {}
    while stops - runs > 1:
        middle = (runs + stops) // 2
        within = [name for name in names if graph.depth(name) < middle and name in graph.producers]
        last = [name for name in graph.nodes[middle - 1].output if name][:1]
        part = graph.submodel(range(middle), list(inputs), [*within, *last], inputs)
        try:
            results = runner.run(part, inputs, [*within, *last], level)
            runs = middle
        except RunError as error:
            reason, stops = str(error), middle
    return results, (stops - 1, reason)


def as_type(array: np.ndarray, stated: str) -> np.ndarray:
    """An array in the type that an input of a session states, such as "tensor(float16)"."""
    kinds: dict[str, Any] = {"float": "float32", "double": "float64"}
    kind = stated.removeprefix("tensor(").removesuffix(")")
    if kind in _narrow.TYPES:
        kinds[kind] = onnx.helper.tensor_dtype_to_np_dtype(_narrow.TYPES[kind][0])
    return np.asarray(array, kinds.get(kind, kind)) if kind != "string" else np.asarray(array)


def _ort_values(feeds: Mapping[str, np.ndarray]) -> dict[str, Any]:
    import onnxruntime

    make = onnxruntime.OrtValue.ortvalue_from_numpy
    return {name: make(np.ascontiguousarray(array).reshape(array.shape))
            for name, array in feeds.items()}  # fmt: skip


def _array(value: Any) -> np.ndarray | str:
    if not value.has_value():
        return "an optional value that is absent"
    if not value.is_tensor():
        return f"a {value.data_type()}, not a tensor"
    try:
        return np.asarray(value.numpy())
    except RuntimeError as error:
        return f"{value.data_type()} cannot be fetched: {error}"


def _plain(value: Any) -> np.ndarray | str:
    """The same for results that a session returned as Python objects."""
    if value is None:
        return "an optional value that is absent"
    return value if isinstance(value, np.ndarray) else f"a {type(value).__name__}, not a tensor"
