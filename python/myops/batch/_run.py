"""`myops.batch.run`: runs a model over many rows."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from myops._checked import checked
from myops.batch import (
    _constants,
    _given,
    _identity,
    _local,
    _matching,
    _plan,
    _single,
    _state,
    _store,
)
from myops.batch._job import Job, make_session
from myops.batch._recipe import Recipe
from myops.batch._result import Result
from myops.batch._sinks import PARTS
from myops.ort._named_libraries import Policy

Source = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]


@checked()
def run(
    model: str | os.PathLike[str],
    source: Source | Mapping[str, Source],
    output: str | os.PathLike[str],
    *,
    constants: Mapping[str, Any] | None = None,
    columns: Mapping[str, str] | None = None,
    keep: Sequence[str] = (),
    format: str = "",
    outputs: Sequence[str] | None = None,
    whole: Sequence[str] = (),
    rows: Literal["", "axis0", "file"] = "",
    layout: str = "",
    channels: int = 0,
    range: tuple[float, float] | None = None,
    output_range: tuple[float, float] | None = None,
    mean: Sequence[float] = (),
    std: Sequence[float] = (),
    resize: str = "",
    engine: Literal["local", "ray"] = "local",
    workers: int | None = None,
    threads: int | None = None,
    readers: int | None = None,
    batch: int | None = None,
    isolate: bool = False,
    address: str | None = None,
    limit: int | None = None,
    retry_failed: bool = False,
    max_failures: int | None = None,
    libraries: Sequence[str | os.PathLike[str]] = (),
    named_libraries: Policy = "check",
    progress: Callable[[int, int, int], None] | None = None,
) -> Result:
    """Runs a model over all rows of a source, and writes an output for each.

    A row is a picture file, a row of a Parquet file, or an element of axis 0 of .npy and .npz
    files. The results are, bit for bit, those of the model called with each row alone, with any
    number of workers and any batch size. An interrupted run, also by kill -9, continues where it
    stopped if it is started again; a row that fails is listed, and the others run. docs/batch.md
    explains the rules.

    Args:
        model: Path of the .onnx file.
        source: Files, folders, patterns such as "photos/*.jpg", or URLs for fsspec. A dict has
            them by input of the graph: files are paired by their names without extensions.
        output: A folder, or a file for all rows, which ends in .parquet, .npz or .npy; a local path
            or a URL. It must be new, empty, or the output of the same run.
        constants: Inputs that are the same for each row: numbers, lists, arrays.
        columns: Input -> column of a table, where their names differ.
        keep: Columns of a Parquet source that are copied into the output.
        format: One of png, jpg, webp, bmp, tif, bytes, npy, npz, parquet. Default: png if all
            outputs are pictures, bytes if they are files, parquet for a source in Parquet, else
            npz.
        outputs: The outputs to write. Default: all.
        whole: Outputs whose axis 0 does not count rows.
        rows: Whether axis 0 of .npy and .npz files counts rows ("axis0") or a file is one row
            ("file"). Default: from the graph; an error if it does not say.
        layout, channels: The form of pictures in tensors: nchw, nhwc, chw, hwc or hw, with 1, 3 or
            4 channels. Default: from the graph; an error if it does not say.
        range: The values of black and white in the model's floats, such as (0, 1). No default.
        output_range: The same for outputs. Default: `range`.
        mean, std: For each channel: (value - mean) / std, after `range`.
        resize: nearest, bilinear, bicubic or lanczos: resizes pictures to the size that the graph
            fixes. Default: a picture of another size fails.
        engine: "local", or "ray" (the extra myops[ray]).
        workers: Simultaneous calls. Default: one per core.
        threads: Threads of a call. Default: the number of cores / workers.
        readers: Additional threads that only read and write. Default: 2, or 16 per worker for URLs.
        batch: Most rows of one call. Default: as many as fit into 64 KiB and 20 ms.
        isolate: Whether the model runs in separate processes, for models that may end theirs.
        address: The address of a Ray cluster. Default: one is started.
        limit: Most rows to run. Default: all.
        retry_failed: Whether rows that failed in an earlier run are run again.
        max_failures: The run ends when more rows have failed. Default: no limit.
        libraries, named_libraries: As for `myops.ort.session`.
        progress: Called with the number of rows done, of rows failed and of all rows.

    Returns:
        The result of the run.

    Raises:
        FileNotFoundError: The model or the source does not exist.
        ValueError: An argument does not fit the model, something is left open, or the output is
            that of another run.
        RuntimeError: Another run works on this output, the model does not load, or there are more
            failures than `max_failures`.
        ImportError: A package is missing that this source, output or engine needs.
        OSError: An output cannot be written.

    Example:
        >>> np.save("images.npy", np.ones((5, 3, 8, 8), np.float32))
        >>> scales = {"scales": [1, 1, 2, 2]}
        >>> result = myops.batch.run("upscale.onnx", "images.npy", "out", constants=scales)
        >>> (result.done, result.failed, result.rows_per_call)  # its batch is 1 in the file
        (5, 0, 1)
    """
    path = _given.checked_model(model)
    target = _single.target(os.fspath(output))
    settings = _given.settings(layout, channels, range, output_range, mean, std, resize)
    _given.check_words(format=format, engine=engine, rows=rows, batch=batch, workers=workers,
                       threads=threads, limit=limit, readers=readers,
                       max_failures=max_failures)  # fmt: skip
    if address and engine != "ray":
        raise ValueError(f"address: got {address!r} with engine={engine!r}, expected engine='ray'")
    if named_libraries == "signed" and engine == "ray":
        raise ValueError(
            "named_libraries: got 'signed' with engine='ray', expected engine='local': what "
            "travels to the machines of Ray is a bundle made here, not the signed one"
        )
    given = tuple(os.path.abspath(item) for item in libraries)
    session = make_session(path, given, named_libraries)
    fixed = _constants.constants(session, constants or {})
    files = _matching.paired(session, fixed, source, target.output)
    recipe, table = _matching.recipe_of(session, fixed, files, columns or {}, rows, settings)
    recipe = _matching.with_outputs(recipe, session, outputs, whole, batch)
    if target.single:
        chosen = _given.single_format(format, target.single, recipe)
    else:
        chosen = _given.chosen_format(format, recipe, table, files)
    _given.check_keep(keep, chosen, table, files)
    _given.check_names(chosen, recipe, keep, table)
    _given.check_pixels(chosen, recipe, session)
    needed = list(dict.fromkeys([*(item.column for item in recipe.inputs), *keep]))
    plan = _plan.plan(files, table, limit, needed)
    parts = chosen in PARTS
    if not parts:
        plan.name_outputs("" if chosen == "bytes" else f".{chosen}")
    job = Job(path, given, named_libraries, recipe, target.folder, chosen, tuple(keep))
    shown = target.single or chosen.removesuffix("-parts")
    total = plan.total
    if not total:
        return Result(target.output, 0, 0, 0, 0, "", 0.0, engine, 0, 0, 0, 0, shown)
    dense = recipe.stacks and all(item.kind in ("array", "text") for item in recipe.inputs)
    length = _plan.shard_rows(plan, parts, table, dense)
    identity = _identity.identity(job, plan, length)
    count = sum(-(-entry.rows // length) for entry in plan) if table else -(-total // length)
    shared = table and dense and engine == "local" and not isolate  # cores help with a shard
    works = _local.sizes(workers, threads, total if shared else count)
    if engine == "ray":
        works = (workers or (0 if address else works[0]), threads or (1 if address else works[1]))
    job = replace(job, threads=works[1])
    remote = any(map(_store.is_remote, (target.output, *plan[0].files.values())))
    state = _state.State(target)
    state.lock()
    try:
        state.open(identity)
        _store.remove_partial(target.folder)
        if retry_failed:
            state.done = {number: item for number, item in state.done.items() if not item[1]}
        made = _engine(engine, job, works[0], isolate, remote, readers, session, address)
        shards = _plan.shards(plan, length, table)
        started = time.perf_counter()
        before = sum(state.counts())
        try:
            _go(made, shards, state, total, max_failures, progress)
        finally:
            failures = state.write_failures()
        done, failed = state.counts()
        if target.single:
            _finish(target, recipe, state, failed, done + failed > before)
    finally:
        state.close()
    return Result(
        target.output, total, done, failed, before, failures, time.perf_counter() - started, engine,
        made.workers, job.threads, made.calls, made.in_memory, shown,
    )  # fmt: skip


def _go(
    engine: Any,
    shards: Iterator[_plan.Shard],
    state: _state.State,
    total: int,
    max_failures: int | None,
    progress: Callable[[int, int, int], None] | None,
) -> None:
    done, failed = state.counts()
    if progress:
        progress(done, failed, total)
    waiting = (shard for shard in shards if shard.number not in state.done)
    running = engine.run(waiting, set(state.begun))
    try:
        for kind, value in running:
            state.tick()
            if kind == "begin":
                state.begin(value)
            elif kind == "record":
                state.record(value)
                done += value.done
                failed += len(value.failed)
                if progress:
                    progress(done, failed, total)
                if max_failures is not None and failed > max_failures:
                    first = next(item[1][0] for item in state.done.values() if item[1])
                    raise RuntimeError(
                        f"max_failures: got {failed} failed rows, expected at most {max_failures}; "
                        f"row {first[0]} ({first[1]}): {first[2]} What is done stays; the same run "
                        "goes on"
                    )
    finally:
        running.close()


def _finish(
    target: _single.Target, recipe: Recipe, state: _state.State, failed: int, more: bool
) -> None:
    """Joins the parts to one file. The parts are kept if rows have failed, which may be run
    again."""
    if more or state.joined is None:
        state.join(_single.join(target, [item.name for item in recipe.outputs], failed))
    if not failed:
        _single.remove_parts(target)


def _engine(
    name: str, job: Any, workers: int, isolate: bool, remote: bool, readers: Any, session: Any,
    address: str | None,
) -> Any:  # fmt: skip
    if name == "ray":
        from myops.batch._ray import Cluster

        return Cluster(job, workers, address)
    shared = session if job.threads == 1 else None
    return _local.Local(job, workers, isolate, remote, readers, shared)
