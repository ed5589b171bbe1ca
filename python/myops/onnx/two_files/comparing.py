"""`compare_files`: two ONNX files, or one file in two runtimes, value by value."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx

from myops._checked import checked
from myops.onnx.comparison.graph import Graph
from myops.onnx.comparison.metrics import Tolerance
from myops.onnx.comparison.ort_side import RunError
from myops.onnx.comparison.result import versions
from myops.onnx.graph import files
from myops.onnx.two_files import inputs_of_both, rows, search
from myops.onnx.two_files.backends import BACKENDS, Backend, flattened
from myops.onnx.two_files.matching import interface, match
from myops.onnx.two_files.result import FileReport, FileValue, FirstFileMismatch, UnmatchedValue
from myops.onnx.two_files.tracing import Trace, trace


@checked()
def compare_files(
    first: files.Model,
    second: files.Model | None = None,
    *,
    inputs: Mapping[str, Any] | None = None,
    dims: Mapping[str, int] | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    backend: str = "ort",
    against: str | None = None,
    libraries: Sequence[str | os.PathLike[str]] = (),
    rtol: float | None = None,
    atol: float | None = None,
    progress: Callable[[str], None] | None = None,
) -> FileReport:
    """Runs two ONNX files on the same inputs and compares all values, without PyTorch.

    Values are paired if the same operators compute them from the same inputs; where this was
    changed, by their position between other values or by their name, and last by their numbers. So
    the files may come from different exporters, or one may be a simplified, lowered or edited form
    of the other. Values inside If, Loop and Scan are compared too, each time the body runs.

    If the files differ, the report names the first value that differs although all before it agree.
    Its nodes run alone, on the values of the first file, which shows whether the difference arises
    there or is inherited. A bisection finds the cut at which the outputs begin to differ.

    Args:
        first: The expected model: a path, the bytes of a file, or a ModelProto.
        second: The model to check, in the same forms. None: the first file, in another backend.
        inputs: Arrays, or paths of .npy files, by the names of the first file's inputs. Inputs that
            are left out are generated: floats from the normal distribution, integers 1.
        dims: Lengths of the first file's dynamic axes, by name or as "INPUT:AXIS".
        shapes: Shapes of generated inputs.
        backend: What runs the files: "ort" (ONNX Runtime as it runs in production: inner values
            come from a run in which they are outputs; the outputs also from a run of the unchanged
            file), "ort-no-optimization", or "reference" (onnx.reference; nodes of op libraries call
            their kernels through NumPy).
        against: What runs the second file. Default: the same.
        libraries: Custom-op libraries that ONNX Runtime needs in addition to those of op libraries
            and of onnxruntime-extensions.
        rtol: Relative tolerance. Default by dtype: float64 1e-9, float32 1e-4, float16 1e-2,
            bfloat16 5e-2, integers 0.
        atol: Absolute tolerance. Default: rtol times the root mean square of the first file's
            value, at least rtol / 100; for integers 0.
        progress: Called with the name of each step.

    Returns:
        The report.

    Raises:
        ValueError: Inputs that do not fit, an unknown backend, files whose inputs have other types
            or shapes, or nothing to compare.
        FileNotFoundError: No such file or library.
        RuntimeError: A file does not load, the first fails with all inputs that were tried, or
            onnx.reference cannot run a node.

    Example:
        >>> simplified = myops.onnx.simplify("model.onnx", "simplified.onnx")
        >>> report = myops.onnx.compare_files("model.onnx", "simplified.onnx")
        >>> report.print()
        first   model.onnx
        second  simplified.onnx
        ...
        PASS 4 values compared
        >>> assert report.passed, report.first_mismatch.evidence
        >>> myops.onnx.compare_files("model.onnx", against="reference").passed
        True
    """
    say = progress or (lambda text: None)
    second_backend = Backend(against or backend, libraries, "against" if against else "backend")
    backends = Backend(backend, libraries), second_backend
    if second is None and backends[0].name == backends[1].name:
        raise ValueError(
            f"compare: got one file, in {backend!r} on both sides; expected a second file, or "
            f"another of {', '.join(BACKENDS)} for the second side, such as against='reference'"
        )
    models, graphs = _read(first, second)
    tolerance = Tolerance(rtol, atol)
    named = interface(*([item.name for item in graph.inputs] for graph in graphs))
    notes = inputs_of_both.notes(graphs[0].inputs, graphs[1].inputs, named)
    say("inputs")
    asked = inputs or {}, dims or {}, shapes or {}
    feeds, shown = _feeds(models, backends, asked, named)
    say("the first")
    traces = [trace(backends[0], graphs[0], feeds[0])]
    say("the second")
    traces.append(trace(backends[1], graphs[1], feeds[1]))
    both = traces[0], traces[1]
    say("comparing")
    matches = match(graphs[0].model, graphs[1].model)
    main = rows.of_main_graph(matches[0], graphs, both, tolerance)
    inner, more = rows.of_bodies(matches, both, tolerance)
    ends = interface(graphs[0].outputs, graphs[1].outputs)
    notes += _no_tensors(ends, both)
    lost = [name for name in graphs[0].outputs if name not in ends]
    found = search.Pairing(matches[0], graphs, backends, both, tolerance, main, inner, named)
    search.mark_ties(found)
    say("searching")
    mismatch, arising = search.first_difference(found)
    begins = search.begins(found)
    _settle_bodies(main, inner)
    absorbed = [row.title for row in (*main, *inner) if row.status == "absorbed"]
    if absorbed:
        notes.append(
            f"{len(absorbed)} values inside differ, and what follows from them agrees for these "
            f"inputs; the first is {absorbed[0]}."
        )
    outputs = _untouched(models, backends, feeds, ends, tolerance)
    _follow(main, outputs)
    differ = any(row.status == "fail" for row in (*main, *inner))
    for place, side in enumerate(("first", "second")):
        if traces[place].stop is not None and mismatch is None and not differ:
            _refuse_limits(backends[place], graphs[place], models[place], feeds[place],
                           traces[place].stop, side)  # fmt: skip
    for side, result in zip(("first", "second"), traces, strict=True):
        if result.stop is not None:
            place, reason = result.stop
            graph = graphs[("first", "second").index(side)]
            notes.append(f"The {side} stops at {graph.label(place)}: {reason.strip()}")
            mismatch = mismatch or FirstFileMismatch(
                "stops", graph.label(place), graph.label(place)
            )
    if lost:
        notes.append(f"The second has no output for {', '.join(map(repr, lost))} of the first.")
    failed = [row for row in (*main, *inner, *outputs) if row.status == "fail"]
    if mismatch is None and any(row.status == "fail" for row in outputs):
        row = next(row for row in outputs if row.status == "fail")
        mismatch = FirstFileMismatch("optimiser", row.name, row.other)
        mismatch.evidence.append(
            "All values agree when they are outputs, which keeps ONNX Runtime from fusing nodes; "
            "the outputs of the untouched file differ."
        )
    others = [name for name in arising if mismatch is not None and name != mismatch.value]
    if others:
        notes.append(f"Differences also arise at: {', '.join(map(repr, others[:5]))}.")
    notes += dict.fromkeys([*more, *traces[0].notes, *traces[1].notes])
    stopped = any(result.stop for result in traces)
    names = ("onnx", "numpy") if {b.name for b in backends} == {"reference"} else (
        "onnx", "onnxruntime", "numpy")  # fmt: skip
    return FileReport(
        passed=not failed and not stopped and not lost,
        sides=_titles(first, second, backends),
        values=sorted([*inner, *main], key=lambda row: row.depth),
        outputs=outputs,
        first_mismatch=mismatch,
        begins=begins,
        unmatched=_unmatched(graphs, both, main),
        notes=notes,
        inputs=shown,
        versions=versions(*names),
    )


def _read(
    first: files.Model, second: files.Model | None
) -> tuple[tuple[onnx.ModelProto, onnx.ModelProto], tuple[Graph, Graph]]:
    """Both models as they are, and their graphs; of one file, both are the same objects, because
    each is as large as the weights."""
    model = files.load(first)
    graph = Graph(flattened(model))
    if second is None:
        return (model, model), (graph, graph)
    other = files.load(second)
    return (model, other), (graph, Graph(flattened(other)))


def _refuse_limits(
    backend: Backend,
    graph: Graph,
    model: onnx.ModelProto,
    feed: Mapping[str, np.ndarray],
    stop: tuple[int, str] | None,
    side: str,
) -> None:
    """Raises RuntimeError if onnx.reference stops at a node that ONNX Runtime runs: that is no
    difference between models."""
    if stop is None or backend.name != "reference":
        return
    try:
        Backend("ort", backend.libraries).opened(model)(feed)
    except Exception:  # the file is at fault; what ONNX Runtime raises has no common base
        return
    place, why = stop
    raise RuntimeError(
        f"compare: the files could not be compared: {graph.label(place)} of the {side}: "
        f"{why.strip().rstrip('.')}. ONNX Runtime runs it, and the values before it agree. Choose "
        f'another backend: {backend.argument}="ort" or "ort-no-optimization"'
    )


def _titles(
    first: files.Model, second: files.Model | None, backends: tuple[Backend, Backend]
) -> tuple[str, str]:
    """The titles of both sides."""

    def title(model: files.Model, other: str) -> str:
        return os.fspath(model) if isinstance(model, (str, os.PathLike)) else other

    names = title(first, "the first"), title(first if second is None else second, "the second")
    if backends[0].name == backends[1].name and names[0] != names[1]:
        return names
    one, two = (
        f"{name} in {BACKENDS[backend.name]}" for name, backend in zip(names, backends, strict=True)
    )
    return one, two


def _feeds(
    models: tuple[onnx.ModelProto, onnx.ModelProto],
    backends: tuple[Backend, Backend],
    asked: tuple[Any, Any, Any],
    named: Mapping[str, str],
) -> tuple[tuple[dict[str, Any], dict[str, Any]], dict[str, Any]]:
    """Inputs with which the first runs, and if possible the second too; for both sides."""
    from myops.ort import _feeding

    def first_alone(feed: Mapping[str, np.ndarray]) -> None:
        backends[0].opened(models[0])(feed)

    def second(feed: Mapping[str, np.ndarray]) -> dict[str, Any]:
        return {two: feed[one] for one, two in named.items()}

    def both(feed: Mapping[str, np.ndarray]) -> None:
        sides = zip(backends, models, (feed, second(feed)), ("first", "second"), strict=True)
        for backend, model, given, side in sides:
            try:
                backend.opened(model)(given)  # closed at once: both together need twice the memory
            except RunError:
                raise  # other inputs may work
            except RuntimeError as error:
                raise RuntimeError(f"the {side} file: {error}") from error

    chosen = _feeding.that_run(models[0], asked, both, first_alone)
    return (chosen.feed, second(chosen.feed)), chosen.described()


def _no_tensors(ends: Mapping[str, str], traces: tuple[Trace, Trace]) -> list[str]:
    """Notes on outputs that cannot be compared.

    Raises:
        ValueError: No output can be compared.
    """
    notes = []
    for name, other in ends.items():
        for found, title in zip(traces, (name, other), strict=True):
            kind = found.values.get(title)
            if isinstance(kind, str):
                notes.append(f"The output {title!r} was not compared: it is {kind}.")
                break
    if notes and len(notes) == len(ends):
        raise ValueError(f"compare: expected outputs that are tensors. {' '.join(notes)}")
    return notes


def _untouched(
    models: tuple[onnx.ModelProto, onnx.ModelProto],
    backends: tuple[Backend, Backend],
    feeds: tuple[Any, Any],
    ends: Mapping[str, str],
    tolerance: Tolerance,
) -> list[FileValue]:
    """The outputs of the unchanged files; empty if no backend rewrites models."""
    if not any(backend.rewrites for backend in backends):
        return []
    sides = zip(backends, models, feeds, strict=True)
    try:
        one, two = (backend.opened(model)(feed) for backend, model, feed in sides)
    except RuntimeError:
        return []  # the run with all values failed too, and its error is reported
    found = []
    for name, other in ends.items():
        if isinstance(one[name], np.ndarray) and isinstance(two[other], np.ndarray):
            found.append(rows.compared(name, other, "name", one[name], two[other], tolerance))
            found[-1].role = "output"
    return found


def _follow(main: Sequence[FileValue], outputs: Sequence[FileValue]) -> None:
    """Gives outputs of the unchanged files the status "order" where the others have it."""
    known = {row.name: row for row in main if row.status == "order"}
    for row in outputs:
        counterpart = known.get(row.name)
        if (
            row.status == "fail"
            and counterpart is not None
            and row.got.shape == counterpart.got.shape
        ):
            pairs = (row.got, counterpart.got), (row.expected, counterpart.expected)
            same = all(np.allclose(*pair, rtol=1e-3, atol=1e-6, equal_nan=True) for pair in pairs)
            if same:
                row.status, row.detail = "order", counterpart.detail


def _settle_bodies(main: Sequence[FileValue], inner: Sequence[FileValue]) -> None:
    """Marks differences in a body as absorbed if the results of its node agree."""
    made: dict[int, list[FileValue]] = {}
    for row in main:
        made.setdefault(row.depth, []).append(row)
    for row in inner:
        around = made.get(row.depth, [])
        if row.status == "fail" and around and all(r.status != "fail" for r in around):
            row.status, row.detail = "absorbed", f"{row.detail}; what its node gives agrees"


def _unmatched(
    graphs: tuple[Graph, Graph], traces: tuple[Trace, Trace], main: Sequence[FileValue]
) -> list[UnmatchedValue]:
    found = []
    for side, graph, result in zip(("first", "second"), graphs, traces, strict=True):
        known = {row.name if side == "first" else row.other for row in main}
        for name, place in graph.producers.items():
            node = graph.nodes[place]
            if name in known or name in graph.constants or node.op_type == "Identity":
                continue
            value = result.values.get(name)
            reason = f"only in the {side}"
            if isinstance(value, str):
                reason = value
            elif value is None and result.stop is not None:
                reason = f"after the node at which the {side} stops"
            found.append(UnmatchedValue(name, node.op_type, reason))
    return found
