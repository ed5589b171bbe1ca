"""`compare`: a PyTorch model and its ONNX file."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from myops._checked import checked
from myops._names import near_misses
from myops.onnx import module_paths
from myops.onnx.comparison import steps, torch_side
from myops.onnx.comparison.first_mismatch import SearchContext
from myops.onnx.comparison.graph import Graph
from myops.onnx.comparison.metrics import Tolerance
from myops.onnx.comparison.ort_side import LEVELS, Runner, fetch
from myops.onnx.comparison.outputs import pair_outputs, refuse_none
from myops.onnx.comparison.pairing import pair_all
from myops.onnx.comparison.result import Report, Value, versions
from myops.onnx.comparison.ties import Ties
from myops.onnx.graph import files


@checked()
def compare(
    model: Any,
    args: Any,
    onnx_model: files.Model,
    *,
    kwargs: Mapping[str, Any] | None = None,
    libraries: Sequence[str | os.PathLike[str]] = (),
    rtol: float | None = None,
    atol: float | None = None,
    optimization: str = "disable",
    progress: Callable[[str], None] | None = None,
) -> Report:
    """Runs a model in PyTorch and its ONNX file in ONNX Runtime, and compares them inside.

    Values are matched by the path of the PyTorch module, which both exporters record in the file;
    the model needs no change, and is not changed. If they differ, the result names the first module
    whose inputs agree and whose outputs do not, and the node inside it.

    Args:
        model: A torch.nn.Module (or ExportedProgram). It runs in eval mode.
        args: Example inputs: a tensor or a tuple, as for `model(*args, **kwargs)`.
        onnx_model: The path of the file, its bytes or a ModelProto.
        kwargs: Example inputs by name.
        libraries: Custom-op libraries that the file needs in addition to those of myops and of
            onnxruntime-extensions, which is loaded if the model has nodes of its domains.
        rtol: Relative tolerance. Default by dtype: float64 1e-9, float32 1e-4, float16 1e-2,
            bfloat16 5e-2, integers 0.
        atol: Absolute tolerance. Default: rtol times the root mean square of PyTorch's value,
            at least rtol / 100; for integers 0.
        optimization: ONNX Runtime's optimisations for the model whose inner values are fetched:
            "disable", "basic", "extended" or "all". The outputs are compared once more with all
            optimisations, as the model runs in production.
        progress: Called with the name of each step.

    Returns:
        The report.

    Raises:
        ValueError: The inputs do not fit the file, no output can be compared, or an argument is
            invalid.
        FileNotFoundError: No such file or library.
        RuntimeError: ONNX Runtime does not load the file.

    Example:
        >>> model = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.ReLU())
        >>> image = torch.rand(1, 3, 8, 8)
        >>> exported = myops.onnx.export(model, (image,), "model.onnx", dynamo=False)
        >>> report = myops.onnx.compare(model, (image,), "model.onnx")
        >>> report.print()
        module ...
        PASS 2 values compared, of 2 of 2 module calls
        >>> report.write_html("report.html")
        >>> assert report.passed, report.first_mismatch.nodes
    """
    if optimization not in LEVELS:
        raise ValueError(
            f"compare: optimization: got {optimization!r}, expected one of {', '.join(LEVELS)}."
            + near_misses(optimization, LEVELS)
        )
    settings = ComparisonSettings(libraries, Tolerance(rtol, atol), optimization)
    return compared(model, args, kwargs or {}, onnx_model, settings, progress)


@dataclass(frozen=True)
class ComparisonSettings:
    """How `compared` compares.

    Attributes:
        libraries, optimization: As of `compare`.
        tolerance: From rtol and atol of `compare`.
        export_again: Whether the module that differs is exported once more, to say in which
            attribute or constant a node of the file differs from what the exporter writes.
    """

    libraries: Sequence[str | os.PathLike[str]] = ()
    tolerance: Tolerance = field(default_factory=Tolerance)
    optimization: str = "disable"
    export_again: bool = True


def compared(
    model: Any,
    args: Any,
    kwargs: Mapping[str, Any],
    onnx_model: files.Model,
    settings: ComparisonSettings,
    progress: Callable[[str], None] | None = None,
) -> Report:
    """What `compare` does, for callers inside this package."""
    say = progress or (lambda text: None)
    args = tuple(args) if isinstance(args, (tuple, list)) else (args,)
    tolerance = settings.tolerance
    proto = files.load(onnx_model)
    module = torch_side.as_module(model)
    say("PyTorch")
    run = torch_side.record(module, args, dict(kwargs))
    graph = Graph(proto)
    feeds, notes = steps.feeds(graph, run.inputs)
    regions = module_paths.regions(graph.model, calls=run.stacks)
    if len(regions) == 1 and len(run.calls) > 1:
        notes.append(
            "The file says nothing of modules, so only its outputs were compared. Files written by "
            "torch >= 1.13 do, unless a tool removed the names or metadata of the nodes."
        )
    runner = Runner(settings.libraries)
    say("ONNX Runtime")
    wanted = {name for region in regions for name in (*region.inputs, *graph.leaving(region))}
    wanted = {name for name in wanted if name in graph.producers} | set(graph.outputs)
    names = [*wanted, *Ties.wanted(graph)]
    results, stop = fetch(graph, runner, feeds, names, settings.optimization)
    results |= {name: array for name, array in feeds.items() if name not in results}
    say("comparing")
    ends = pair_outputs(graph, run, results, tolerance)
    notes += ends.notes
    if stop is None and not ends.pairs:
        refuse_none(graph, run, results)
    unpaired = ends.unpaired if stop is None else []  # values after the stop are unknown
    pairs, unmatched = pair_all(graph, regions, run, results, tolerance, ends.pairs)
    values = sorted(
        (steps.value(graph, pair, results, tolerance) for pair in pairs), key=lambda v: v.depth
    )
    ties = Ties(graph, results, tolerance)
    steps.mark_ties(ties, values)
    context = SearchContext(
        module, args, dict(kwargs), run, graph, regions, feeds, runner, tolerance, ties,
        "torchscript" if module_paths.from_torchscript(proto) else "dynamo",
        settings.export_again,
    )  # fmt: skip
    mismatch, starts = steps.search(context, values, say)
    say("ONNX Runtime, optimised")
    outputs: list[Value] = []
    if stop is None:
        outputs = steps.optimised(graph, runner, proto, feeds, pairs, tolerance)
        steps.mark_ties(ties, outputs)
        steps.follow(values, outputs)
    else:
        notes.append(
            f"ONNX Runtime stops at {graph.label(stop[0])}; values before it are compared."
        )
        mismatch = mismatch or steps.stopped(context, values, *stop)
    failed = [v for v in (*values, *outputs) if v.status == "fail" and not v.path]
    if mismatch is None and failed:
        mismatch = steps.optimiser(context, proto, outputs, pairs)
    elif mismatch is not None and not failed and not unpaired and stop is None:
        notes.append("The outputs of the model agree for these inputs all the same.")
    others = [name for name in starts if mismatch is not None and name != mismatch.value]
    if others:
        notes.append(f"Independent of that, differences also start at: {', '.join(others[:5])}.")
    return Report(
        passed=not (failed or unpaired or stop)
        and (mismatch is None or mismatch.cause == "rounding"),
        values=values,
        outputs=outputs,
        first_mismatch=mismatch,
        unmatched=unmatched,
        notes=notes,
        versions=versions("torch", "onnx", "onnxruntime", "numpy"),
        unpaired=unpaired,
    )
