"""All values of a run, including those inside If, Loop and Scan.

A body runs as a separate model, whose additional inputs are the outer values that it reads; the
body of a loop runs once per iteration. So its values may have another shape in each iteration,
which would be impossible for outputs of the node itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx

from myops.onnx.comparison.graph import Graph
from myops.onnx.comparison.metrics import Tolerance, difference
from myops.onnx.graph import structure
from myops.onnx.two_files.backends import BACKENDS, Backend, Run

MOST_ITERATIONS = 100  # iterations of a loop that are recorded
MOST_BYTES = 1 << 30  # bytes of values inside bodies that are kept

Path = tuple[tuple[int, str], ...]  # the nodes around a body, by index, and the attributes
Lookup = Callable[[str], Any]


class _StopError(Exception):
    """A body cannot be run alone; the message gives the reason."""


@dataclass
class Trace:
    """The values of one run.

    Attributes:
        values: Those of the main graph by name; a string gives the reason for a missing array.
        inner: Those in bodies: by the nodes around them, the iterations, and the name.
        stop: The index of the node at which the run stopped, and the reason.
        notes: Notes on values that could not be recorded.
    """

    values: dict[str, Any]
    inner: dict[tuple[Path, tuple[int, ...], str], np.ndarray] = field(default_factory=dict)
    stop: tuple[int, str] | None = None
    notes: list[str] = field(default_factory=list)


def trace(backend: Backend, graph: Graph, feeds: Mapping[str, np.ndarray]) -> Trace:
    """Runs a model and keeps every value that its nodes make.

    Raises:
        RuntimeError: The backend does not load the model.
    """
    bodied = [node for node in graph.nodes if any(structure.subgraphs(node))]
    around = {name for node in bodied for name in structure.reads(node)}
    names = [name for name in graph.producers if name not in graph.constants or name in around]
    names += [name for name in graph.outputs if name not in names]
    values, stop = backend.fetch(graph, feeds, names)
    found = Trace({**feeds, **values}, stop=stop)
    if stop is None:
        weights = {tensor.name: tensor for tensor in graph.model.graph.initializer}

        def known(name: str) -> Any:
            if name in found.values or name not in weights:
                return found.values.get(name)
            return onnx.numpy_helper.to_array(weights[name])

        _BodyRunner(backend, graph, found).enter(graph.model.graph, known, (), ())
    return found


class _BodyRunner:
    def __init__(self, backend: Backend, graph: Graph, found: Trace) -> None:
        self._backend = backend
        self._model = graph.model
        self._types = graph.types
        self._found = found
        self._runs: dict[Path, tuple[Run, list[str], list[str]]] = {}
        self._bytes = 0
        self._chain: list[Any] = []  # graphs, from the main graph inwards

    def enter(self, graph: Any, lookup: Lookup, path: Path, iterations: tuple[int, ...]) -> None:
        """Records the values in every If, Loop and Scan of a graph."""
        self._chain.append(graph)
        try:
            for place, node in enumerate(graph.node):
                if not structure.is_custom(node.domain):
                    self._look(place, node, lookup, path, iterations)
        finally:
            self._chain.pop()

    def _look(
        self, place: int, node: onnx.NodeProto, lookup: Lookup, path: Path, iterations: Any
    ) -> None:
        run = {"If": self._if, "Loop": self._loop, "Scan": self._scan}.get(node.op_type)
        if run is None:
            return
        try:
            made = run(place, node, lookup, path, iterations)
        except (_StopError, RuntimeError, ValueError) as error:
            self._note(f"Inside {structure.label(node)} nothing was compared: {error}")
            return
        for name, array in zip(node.output, made, strict=False):
            self._check(node, lookup(name) if name else None, array)

    def _check(self, node: onnx.NodeProto, whole: Any, alone: Any) -> None:
        """Checks that a body has the same results alone as in the graph."""
        if not isinstance(whole, np.ndarray) or not isinstance(alone, np.ndarray):
            return
        same = whole.shape == alone.shape
        if same and whole.dtype.kind in "biufc" and alone.dtype.kind in "biufc":
            bounds = Tolerance().of(whole, str(whole.dtype))
            same = difference(whole, alone, *bounds).agrees
        if not same:
            self._note(
                f"The body of {structure.label(node)}, run alone, gives something else than in the "
                "graph, so the values inside are not those of the run: it draws random numbers, "
                f"or {BACKENDS[self._backend.name]} runs it otherwise inside its node."
            )

    def _note(self, text: str) -> None:
        if text not in self._found.notes:
            self._found.notes.append(text)

    def _if(
        self, place: int, node: onnx.NodeProto, lookup: Lookup, path: Path, iterations: Any
    ) -> list[Any]:
        condition = bool(np.asarray(_array(lookup, node.input[0])).ravel()[0])
        name = "then_branch" if condition else "else_branch"
        return self._run(node, (*path, (place, name)), iterations, [], lookup)

    def _loop(
        self, place: int, node: onnx.NodeProto, lookup: Lookup, path: Path, iterations: Any
    ) -> list[Any]:
        given = [*node.input, "", ""][:2]
        trips = int(np.asarray(_array(lookup, given[0])).ravel()[0]) if given[0] else None
        going = np.asarray(_array(lookup, given[1])) if given[1] else np.array(True)
        carried = [_array(lookup, name) for name in node.input[2:]]
        here = (*path, (place, "body"))
        number = 0
        while going.ravel()[0] and (trips is None or number < trips):
            if number == MOST_ITERATIONS:
                self._note(
                    f"Of {structure.label(node)} the first {MOST_ITERATIONS} iterations were "
                    "looked into."
                )
                return []
            inputs = [np.array(number, np.int64), going, *carried]
            results = self._run(node, here, (*iterations, number), inputs, lookup)
            going, carried = np.asarray(results[0]), results[1 : 1 + len(carried)]
            number += 1
        return carried

    def _scan(
        self, place: int, node: onnx.NodeProto, lookup: Lookup, path: Path, iterations: Any
    ) -> list[Any]:
        given = {item.name: item for item in node.attribute}
        if "num_scan_inputs" not in given or "directions" in given:
            raise _StopError("it is a Scan of opset 8")
        count = given["num_scan_inputs"].i
        states = [_array(lookup, name) for name in node.input[: len(node.input) - count]]
        scanned = [_array(lookup, name) for name in node.input[len(node.input) - count :]]
        axes = list(given["scan_input_axes"].ints) if "scan_input_axes" in given else [0] * count
        turned = given["scan_input_directions"].ints if "scan_input_directions" in given else ()
        backwards = list(turned) or [0] * count
        length = scanned[0].shape[axes[0]] if scanned else 0
        here = (*path, (place, "body"))
        for number in range(min(length, MOST_ITERATIONS)):
            parts = [
                array.take(length - 1 - number if back else number, axis)
                for array, axis, back in zip(scanned, axes, backwards, strict=True)
            ]
            inputs = [*states, *parts]
            results = self._run(node, here, (*iterations, number), inputs, lookup)
            states = results[: len(states)]
        if length > MOST_ITERATIONS:
            self._note(
                f"Of {structure.label(node)} the first {MOST_ITERATIONS} iterations were "
                "looked into."
            )
            return []
        return states

    def _run(
        self, node: onnx.NodeProto, path: Path, iterations: tuple[int, ...], inputs: list[Any],
        lookup: Lookup,
    ) -> list[Any]:  # fmt: skip
        """Runs a body once and records its values and those of its own bodies; returns its
        results."""
        body = next(item.g for item in node.attribute if item.name == path[-1][1])
        fed = {
            item.name: _ranked(array, item) for item, array in zip(body.input, inputs, strict=False)
        }
        values: dict[str, Any] = dict(fed)
        constants = {tensor.name: tensor for tensor in body.initializer}

        def inside(name: str) -> Any:
            if name in values:
                return values[name]
            if name in constants:
                return onnx.numpy_helper.to_array(constants[name])
            return lookup(name)

        if path not in self._runs:
            self._runs[path] = self._opened(body, fed, inside)
        run, captured, made = self._runs[path]
        if made:
            results = run({**fed, **{name: _array(inside, name) for name in captured}})
            values.update(results)
            for name, array in results.items():
                if isinstance(array, np.ndarray):
                    self._keep((path, iterations, name), array)
        self.enter(body, inside, path, iterations)
        return [inside(item.name) for item in body.output]

    def _keep(self, key: Any, array: np.ndarray) -> None:
        self._bytes += array.nbytes
        if self._bytes > MOST_BYTES:
            self._note(
                f"Values inside bodies are more than {MOST_BYTES >> 20} MiB; the later ones were "
                "not compared."
            )
        else:
            self._found.inner[key] = array

    def _opened(
        self, body: Any, fed: Mapping[str, np.ndarray], inside: Lookup
    ) -> tuple[Run, list[str], list[str]]:
        """A body as a model: the function that runs it, the outer values that it reads, and the
        values that its nodes make."""
        own = structure.defined(body)
        used = [name for inner in body.node for name in structure.reads(inner)]
        outer = [name for name in dict.fromkeys(used) if name not in own]
        weights = {t.name: t for graph in self._chain for t in graph.initializer}
        captured = [name for name in outer if name not in weights]
        made = [name for inner in body.node for name in inner.output if name]
        kinds = {name: kind.tensor_type.elem_type for name, kind in self._types.items()}
        kinds |= {item.name: item.type.tensor_type.elem_type
                  for graph in (*self._chain, body)
                  for item in (*graph.value_info, *graph.input, *graph.output)}  # fmt: skip
        arrays = {**fed, **{name: _array(inside, name) for name in captured}}
        graph = onnx.GraphProto(name=body.name or "body")
        graph.node.extend(body.node)
        graph.initializer.extend(body.initializer)
        graph.initializer.extend(weights[name] for name in outer if name in weights)
        graph.sparse_initializer.extend(body.sparse_initializer)
        graph.value_info.extend(body.value_info)
        for name, array in arrays.items():
            kind = kinds.get(name) or onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
            graph.input.append(onnx.helper.make_tensor_value_info(name, kind, None))
        known = {item.name: item for item in (*body.output, *body.value_info)}
        graph.output.extend(known.get(name, onnx.ValueInfoProto(name=name)) for name in made)
        model = onnx.ModelProto(ir_version=self._model.ir_version)
        model.graph.CopyFrom(graph)
        model.opset_import.extend(self._model.opset_import)
        return self._backend.opened(model, made), captured, made


def _array(lookup: Lookup, name: str) -> np.ndarray:
    found = lookup(name)
    if isinstance(found, np.ndarray):
        return found
    raise _StopError(f"it needs {name!r}, which is {found or 'unknown'}")


def _ranked(array: Any, item: onnx.ValueInfoProto) -> Any:
    """An iteration number or condition with the shape that the body declares: [] or [1]."""
    stated = item.type.tensor_type
    if stated.HasField("shape") and array.size == 1 and len(stated.shape.dim) != array.ndim:
        return array.reshape([1] * len(stated.shape.dim))
    return array
