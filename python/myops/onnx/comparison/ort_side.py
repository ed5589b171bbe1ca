"""Runs a model in ONNX Runtime and fetches values from inside it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto

from myops.onnx.comparison.graph import Graph
from myops.onnx.graph import scopes
from myops.ort import _narrow, _session

LEVELS = ("disable", "basic", "extended", "all")
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
    ) -> dict[str, np.ndarray | str]:
        """Values of the model by name; a string gives the reason why there is none.

        Args:
            model: It is not changed.
            feeds: Arrays by name of the graph input.
            names: Values of the graph, also inner ones. Default: its outputs.
            level: "disable", "basic", "extended" or "all" optimisations.

        Raises:
            RuntimeError: ONNX Runtime does not load it.
            RunError: It does not run to its end.
        """
        return self.opened(model, names, level)(feeds)

    def opened(
        self, model: onnx.ModelProto, names: Iterable[str] | None = None, level: str = "disable"
    ) -> Callable[[Mapping[str, np.ndarray]], dict[str, np.ndarray | str]]:
        """The same for several runs: a function of the inputs, with one session for all of them."""
        wanted = [item.name for item in model.graph.output]
        if names is not None:
            wanted = list(dict.fromkeys(names))
            model = with_outputs(model, wanted)
        session: Any = None

        def run(feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray | str]:
            nonlocal session
            wide, fed = without_narrow(model, dict(feeds))
            session = session or self.session(wide, level)
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

    def session(self, model: onnx.ModelProto, level: str = "disable") -> Any:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4  # errors are raised
        options.graph_optimization_level = {
            "disable": onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL,
            "basic": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC,
            "extended": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED,
            "all": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL,
        }[level]
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
        return runner.run(graph.model, inputs, names, level), None
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


def with_outputs(model: onnx.ModelProto, names: Iterable[str]) -> onnx.ModelProto:
    """A copy whose outputs are the given values of its graph."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    graph = copy.graph
    known = {item.name: item for item in (*graph.output, *graph.value_info, *graph.input)}
    stated = []
    for name in names:
        item = onnx.ValueInfoProto(name=name)  # without a type: ONNX Runtime infers it
        if name in known:
            item.type.CopyFrom(known[name].type)
            if item.type.HasField("tensor_type"):
                item.type.tensor_type.ClearField("shape")  # an edit may have made it stale
        stated.append(item)
    del graph.output[:]
    graph.output.extend(stated)
    return copy


def without_narrow(
    model: onnx.ModelProto, feeds: dict[str, np.ndarray]
) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """Makes inputs and outputs of bfloat16 and of floats of 8 bits float32, which represents all of
    their values."""
    graph = model.graph
    narrow = [item for item in (*graph.input, *graph.output)
              if item.type.tensor_type.elem_type in _narrow.NUMBERS]  # fmt: skip
    if not narrow:
        return model, feeds
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    graph = copy.graph
    before, after, renamed = [], [], {}
    for item in graph.input:
        if (kind := item.type.tensor_type.elem_type) in _narrow.NUMBERS:
            wide = f"{item.name}/float32"
            before.append(onnx.helper.make_node("Cast", [wide], [item.name], to=kind))
            feeds[wide] = np.asarray(feeds.pop(item.name), np.float32)
            item.name = wide
            item.type.tensor_type.elem_type = TensorProto.FLOAT
    for item in graph.output:
        if item.type.tensor_type.elem_type in _narrow.NUMBERS:
            renamed[item.name] = f"{item.name}/narrow"
            after.append(onnx.helper.make_node("Cast", [renamed[item.name]], [item.name], to=1))
            item.type.tensor_type.elem_type = TensorProto.FLOAT
    for node in (*before, *scopes.all_nodes(graph.node)):
        for names in (node.input, node.output):
            for place, name in enumerate(names):
                names[place] = renamed.get(name, name)
    nodes = [*before, *graph.node, *after]
    kept = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
    del graph.node[:]
    graph.node.extend(kept)
    del graph.value_info[:]
    return copy, feeds


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
