"""A model over many rows: what `myops.batch.run` does."""

from __future__ import annotations

import mmap
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from myops import _libraries
from myops._version import __version__
from myops.batch import _local, _pixels, _plan, _recipe, _state, _store, _tables, _work
from myops.batch._pixels import Settings
from myops.batch._recipe import Recipe
from myops.ort._loaders.load import sha256
from myops.ort._named_libraries import Policy
from myops.ort._session import _mentions

Source = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
FORMATS = ("png", "jpg", "webp", "bmp", "tif", "bytes", "npy", "npz", "parquet")
_LOCATION = re.compile(rb"\n\x08location\x12")  # of weights in another file, in a model's bytes


@dataclass(frozen=True)
class Result:
    """What a run has done.

    Attributes:
        output: Where the outputs are.
        rows: Of the source.
        done: Rows with output, those of earlier runs too.
        failed: Rows without.
        before: Of both, how many an earlier run had settled.
        failures: The file that lists failed rows; "" where none failed.
        seconds: What this run took.
        engine, workers, threads: How it ran.
        rows_per_call: The most rows that one call of the model had.
        rows_in_memory: The most rows of the source that were in memory at once; 0 for engine ray.
        format: Of the outputs.

    Example:
        >>> np.save("images.npy", np.ones((2, 3, 8, 8), np.float32))
        >>> scales = {"scales": [1, 1, 2, 2]}
        >>> result = myops.batch.run("upscale.onnx", "images.npy", "out", constants=scales)
        >>> (result.rows, result.status, result.format)
        (2, 0, 'npz')
    """

    output: str
    rows: int
    done: int
    failed: int
    before: int
    failures: str
    seconds: float
    engine: str
    workers: int
    threads: int
    rows_per_call: int
    rows_in_memory: int
    format: str

    @property
    def status(self) -> int:
        """As the command's exit status: 0 all rows are done, 1 some failed, 3 none is done."""
        return 3 if not self.done else 1 if self.failed else 0

    @property
    def rows_per_second(self) -> float:
        """Of this run."""
        return (self.done + self.failed - self.before) / max(self.seconds, 1e-9)

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {**asdict(self), "status": self.status, "rows_per_second": self.rows_per_second}


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
    number of workers and any batch size. A run that was ended, also by kill -9, goes on where it
    was when it is started again; a row that fails is listed, and the rest goes on. docs/batch.md
    explains the rules.

    Args:
        model: Path of the .onnx file.
        source: Files, folders, patterns such as "photos/*.jpg", or URLs for fsspec. A dict has
            them by input of the graph: files are joined by their names without endings.
        output: A folder, or a URL. New, empty, or that of the same run.
        constants: Inputs that are the same for each row: numbers, lists, arrays.
        columns: Input -> column of a table, where their names differ.
        keep: Columns of a Parquet source that go into the output as they are.
        format: One of png, jpg, webp, bmp, tif, bytes, npy, npz, parquet. Default: png where all
            outputs are pictures, bytes where they are files, parquet for a source in Parquet, else
            npz.
        outputs: Those to write. Default: all.
        whole: Outputs whose axis 0 does not count rows.
        rows: Whether axis 0 of .npy and .npz files counts rows ("axis0") or a file is one row
            ("file"). Default: what the graph says, else an error.
        layout, channels: How pictures are held in tensors: nchw, nhwc, chw, hwc or hw, with 1, 3
            or 4 channels. Default: what the graph says, else an error.
        range: What black and white are in the model's floats, such as (0, 1). No default.
        output_range: The same for outputs. Default: `range`.
        mean, std: For each channel: (value - mean) / std, after `range`.
        resize: nearest, bilinear, bicubic or lanczos: gives pictures the size that the graph
            fixes. Default: a picture of another size fails.
        engine: "local", or "ray" (the extra myops[ray]).
        workers: Calls at once. Default: one a core.
        threads: Of a call. Default: so that workers * threads are the cores.
        readers: Threads beyond the workers that read and write. Default: 2, or 16 a worker for
            URLs.
        batch: Rows of one call, at most. Default: as many as fit into 64 KiB.
        isolate: Run the model in processes of their own, for models that may end theirs.
        address: Of a Ray cluster; default: one is started.
        limit: Only so many rows.
        retry_failed: Run rows again that failed in an earlier run.
        max_failures: End the run when more rows have failed.
        libraries, named_libraries: As `myops.ort.session` takes them.
        progress: Called with the rows done, the rows failed and all rows.

    Returns:
        What was done.

    Raises:
        FileNotFoundError: The model or the source does not exist.
        ValueError: Something does not fit the model or is left open, or the output is that of
            another run.
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
    path = _checked_model(model)
    target = os.fspath(output)
    settings = _settings(layout, channels, range, output_range, mean, std, resize)
    _check_words(format=format, engine=engine, rows=rows, batch=batch, workers=workers,
                 threads=threads, limit=limit, readers=readers)  # fmt: skip
    if address and engine != "ray":
        raise ValueError(f"address: got {address!r} with engine={engine!r}, expected engine='ray'")
    if named_libraries == "signed" and engine == "ray":
        raise ValueError(
            "named_libraries: got 'signed' with engine='ray', expected engine='local': what "
            "travels to the machines of Ray is a bundle made here, not the signed one"
        )
    given = tuple(os.path.abspath(item) for item in libraries)
    session = _work.make_session(path, given, named_libraries)
    fixed = _recipe.constants(session, constants or {})
    paired = _paired(session, fixed, source, target)
    recipe, table = _recipe_of(session, fixed, paired, columns or {}, rows, settings)
    recipe = _with_outputs(recipe, session, outputs, whole, batch)
    chosen = _format(format, recipe, table, paired)
    _check_keep(keep, chosen, table, paired)
    plan = _plan.entries(paired, table, limit)
    parts = chosen in _work.PARTS
    if not parts:
        plan = _plan.named(plan, _work.output_suffix(chosen))
    if not _store.is_remote(target):
        target = os.path.abspath(target)
    job = _work.Job(path, given, named_libraries, recipe, target, chosen, tuple(keep))
    total = sum(entry.rows for entry in plan)
    if not total:
        return Result(
            target, 0, 0, 0, 0, "", 0.0, engine, 0, 0, 0, 0, chosen.removesuffix("-parts")
        )
    length = _plan.shard_rows(plan, parts, table)
    identity = _identity(job, plan, length, session)
    count = sum(-(-entry.rows // length) for entry in plan) if table else -(-total // length)
    works = _local.sizes(workers, threads, count)
    if engine == "ray":
        works = (workers or (0 if address else works[0]), threads or (1 if address else works[1]))
    job = replace(job, threads=works[1])
    remote = any(map(_store.is_remote, (target, *plan[0].files.values())))
    state = _state.State(target)
    state.lock()
    try:
        state.open(identity)
        _store.remove_partial(target)
        if retry_failed:
            state.done = {number: item for number, item in state.done.items() if not item[1]}
        made = _engine(engine, job, works[0], isolate, remote, readers, session, address)
        shards = _plan.shards(plan, length, table)
        started = time.perf_counter()
        before = sum(done + len(failed) for done, failed in state.done.values())
        try:
            _go(made, shards, state, total, max_failures, progress)
        finally:
            failures = state.write_failures()
    finally:
        state.close()
    done = sum(item[0] for item in state.done.values())
    failed = sum(len(item[1]) for item in state.done.values())
    return Result(
        target, total, done, failed, before, failures, time.perf_counter() - started, engine,
        made.workers, job.threads, made.calls, made.in_memory, chosen.removesuffix("-parts"),
    )  # fmt: skip


def _go(
    engine: Any,
    shards: Iterator[_plan.Shard],
    state: _state.State,
    total: int,
    max_failures: int | None,
    progress: Callable[[int, int, int], None] | None,
) -> None:
    done = sum(item[0] for item in state.done.values())
    failed = sum(len(item[1]) for item in state.done.values())
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


def _engine(
    name: str, job: Any, workers: int, isolate: bool, remote: bool, readers: Any, session: Any,
    address: str | None,
) -> Any:  # fmt: skip
    if name == "ray":
        from myops.batch._ray import Cluster

        return Cluster(job, workers, address)
    shared = session if job.threads == 1 else None
    return _local.Local(job, workers, isolate, remote, readers, shared)


# ---- What was given.


def _checked_model(model: Any) -> str:
    path = os.path.abspath(os.fspath(model))
    if not os.path.exists(path):
        raise FileNotFoundError(f"no such file: {os.fspath(model)}")
    if os.path.isdir(path):
        raise IsADirectoryError(f"{os.fspath(model)}: got a folder, expected a model")
    if not os.path.isfile(path):
        raise ValueError(f"{os.fspath(model)}: got no regular file, expected a model")
    return path


def _settings(
    layout: str, channels: int, range: Any, output_range: Any, mean: Any, std: Any, resize: str
) -> Settings:
    if layout and layout not in _pixels.LAYOUTS:
        raise ValueError(f"layout: got {layout!r}, expected one of {', '.join(_pixels.LAYOUTS)}")
    if channels and channels not in _pixels.MODES:
        raise ValueError(f"channels: got {channels}, expected 1, 3 or 4")
    if resize and resize not in _pixels.FILTERS:
        raise ValueError(f"resize: got {resize!r}, expected one of {', '.join(_pixels.FILTERS)}")
    for name, item in (("range", range), ("output_range", output_range)):
        if item is not None and (len(item) != 2 or not item[0] < item[1]):
            raise ValueError(f"{name}: got {item!r}, expected two numbers, the smaller one first")
    if bool(mean) != bool(std) or len(mean) != len(std) or 0 in std:
        raise ValueError(
            f"mean: got {list(mean)} with std {list(std)}, expected as many numbers for both, and "
            "no 0 in std"
        )
    pairs = [None if item is None else (float(item[0]), float(item[1]))
             for item in (range, output_range)]  # fmt: skip
    return Settings(layout, channels, pairs[0], pairs[1], tuple(mean), tuple(std), resize)


def _check_words(**words: Any) -> None:
    known = {"format": ("", *FORMATS), "engine": ("local", "ray"), "rows": ("", "axis0", "file")}
    for name, value in words.items():
        if name in known and value not in known[name]:
            listed = ", ".join(filter(None, known[name]))
            raise ValueError(f"{name}: got {value!r}, expected one of {listed}")
        least = 0 if name == "readers" else 1
        if name not in known and value is not None and value < least:
            raise ValueError(f"{name}: got {value}, expected {least} or more")


def _patterns(source: Any) -> list[str]:
    items = [source] if isinstance(source, (str, os.PathLike)) else list(source)
    return [os.fspath(item) for item in items]


def _paired(
    session: Any, constants: Mapping[str, Any], source: Any, output: str
) -> dict[str, dict[str, str]]:
    """Name -> column -> path; "" is the column of all that tables hold."""
    needed = [item.name for item in _recipe.columns_of(session, constants)]
    if isinstance(source, Mapping):
        _recipe.check_columns(session, constants, list(source))
        return _plan.files({name: _patterns(item) for name, item in source.items()}, output)
    found = _plan.files({"": _patterns(source)}, output)
    if any(_plan.is_table(path) for item in found.values() for path in item.values()):
        return found
    if len(needed) != 1:
        listed = ", ".join(map(repr, needed)) or "none"
        raise ValueError(
            f"source: got files for a model with the inputs {listed}, expected files for each of "
            "them by name, or constants (constants={...}, --set NAME=VALUE)"
        )
    return {name: {needed[0]: item[""]} for name, item in found.items()}


def _recipe_of(
    session: Any,
    constants: dict[str, Any],
    paired: Mapping[str, Mapping[str, str]],
    columns: Mapping[str, str],
    rows: str,
    settings: Settings,
) -> tuple[Recipe, bool]:
    """How rows become inputs, and whether files have many rows."""
    needed = _recipe.columns_of(session, constants)
    if not paired:
        return Recipe((), constants, ()), False
    first = next(iter(paired.values()))
    if not any(map(_plan.is_table, first.values())):
        if columns or rows:
            word = "columns" if columns else "rows"
            raise ValueError(f"{word}: got it for files of pictures, which have no columns")
        found = [_recipe.of_files(item, item.name, settings) for item in needed]
        return _finished(tuple(found), constants, settings), False
    if "" not in first:
        return _recipe_of_arrays(needed, first, constants, rows, settings)
    path = first[""]
    have = _tables.names(path)
    for name in columns:
        if name not in [item.name for item in needed]:
            raise ValueError(f"columns: the model has no input {name!r} without a constant")
    if have == [""]:
        if len(needed) != 1:
            listed = ", ".join(repr(item.name) for item in needed) or "none"
            raise ValueError(
                f"source: got one array for a model with the inputs {listed}, expected an array "
                "for each of them in a .npz, or constants (constants={...}, --set NAME=VALUE)"
            )
        wanted = {needed[0].name: ""}
    else:
        wanted = {item.name: columns.get(item.name, item.name) for item in needed}
        _recipe.check_columns(session=_Named(needed), constants={}, given=[
            name for name, column in wanted.items() if column in have])  # fmt: skip
    if _tables.kind(path) != "parquet":
        shapes = _tables.shapes(path)
        files = {_recipe.rows_of_arrays(item, shapes[wanted[item.name]], rows, path)
                 for item in needed}  # fmt: skip
        if files == {True}:
            inputs = tuple(
                _recipe.of_array(item, wanted[item.name], len(shapes[wanted[item.name]]), path)
                for item in needed
            )
            return _finished(inputs, constants, settings), False
        if True in files:
            raise ValueError(f"{path}: some arrays are one row and some have many; say rows=")
    found = []
    for item in needed:
        column = wanted[item.name]
        found.append(_of_column(item, column, path, settings))
    return _finished(tuple(found), constants, settings), True


def _of_column(value: Any, column: str, path: str, settings: Settings) -> _recipe.Input:
    rank = _tables.rank(path, column)
    if rank is None:  # bytes, or a column whose shapes stand beside it
        if not _tables.rows(path):
            return _recipe.of_array(value, column, 0, path)
        first = _tables.read(path, [column], 0, 1)[column][0]
        if isinstance(first, bytes):
            return _recipe.of_files(value, column, settings)
        rank = getattr(first, "ndim", 0)
    return _recipe.of_array(value, column, rank, path)


def _recipe_of_arrays(
    needed: Sequence[Any], first: Mapping[str, str], constants: Any, rows: str, settings: Settings
) -> tuple[Recipe, bool]:
    """Files of arrays for each input by name: each file is one row."""
    if rows == "axis0":
        raise ValueError("rows: got axis0 for files by input, where each file is one row")
    found = []
    for item in needed:
        path = first[item.name]
        if _tables.kind(path) != "npy":
            raise ValueError(f"source: got {path} for the input {item.name!r}, expected .npy files")
        rank = len(_tables.shapes(path)[""])
        found.append(_recipe.of_array(item, item.name, rank, path))
    return _finished(tuple(found), constants, settings), False


class _Named:
    """Inputs, as `check_columns` asks a session for them."""

    def __init__(self, inputs: Sequence[Any]) -> None:
        self.get_inputs = lambda: list(inputs)


def _finished(inputs: tuple[_recipe.Input, ...], constants: Any, settings: Settings) -> Recipe:
    lengths = {item.shape[0] for item in inputs if item.stack and item.shape}
    fixed = [item for item in lengths if item is not None]
    if len(fixed) > 1:
        raise ValueError(
            f"model: its inputs fix axis 0 to {sorted(fixed)}, expected one number of rows a call"
        )
    stacks = all(item.stack for item in inputs)
    return Recipe(inputs, constants, (), settings, None, fixed[0] if fixed and stacks else 0)


def _with_outputs(
    recipe: Recipe, session: Any, outputs: Any, whole: Sequence[str], batch: int | None
) -> Recipe:
    from myops._names import choose

    known = {item.name: item for item in session.get_outputs()}
    for name in (*(outputs or ()), *whole):
        choose(name, known, "outputs: the outputs of the model have")
    wanted = list(dict.fromkeys(outputs)) if outputs else list(known)
    made = tuple(_recipe.output(known[name], recipe.inputs, whole, recipe.pixels)
                 for name in wanted)  # fmt: skip
    return replace(recipe, outputs=made, batch=batch)


def _format(said: str, recipe: Recipe, table: bool, paired: Mapping[str, Mapping[str, str]]) -> str:
    """The format of the outputs.

    Raises:
        ValueError: The one that was said does not fit.
    """
    outputs = recipe.outputs
    if not said:
        parquet = any(_tables.kind(path) == "parquet"
                      for item in list(paired.values())[:1] for path in item.values())  # fmt: skip
        if table:
            said = "parquet" if parquet else "npz"
        elif outputs and all(item.is_bytes for item in outputs):
            said = "bytes"
        else:
            said = "png" if outputs and all(item.axes for item in outputs) else "npz"
    if table and said not in ("npz", "parquet"):
        raise ValueError(f"format: got {said!r} for a source of tables, expected npz or parquet")
    if said in _pixels.FORMATS and paired:
        for item in outputs:
            if not item.axes:
                raise ValueError(
                    f"format: got {said!r}, but output {item.name!r} is no picture by its shape in "
                    "the graph; expected npz, npy or parquet"
                )
    if said == "bytes" and not all(item.is_bytes for item in outputs):
        raise ValueError("format: got 'bytes', expected outputs of uint8 with one axis")
    if said in ("npy", "bytes", *_pixels.FORMATS) and len(outputs) > 1:
        bad = [item.name for item in outputs if not re.fullmatch(r"[\w+-][\w.+-]*", item.name)]
        if bad:
            raise ValueError(
                f"format: got {said!r} with the output {bad[0]!r}, whose name cannot be part of a "
                "file's; expected npz or parquet"
            )
    if said in _pixels.FORMATS:
        _pixels.pillow()
    if said == "parquet":
        _tables.arrow()
    return "npz-parts" if table and said == "npz" else said


def _check_keep(keep: Sequence[str], format: str, table: bool, paired: Any) -> None:
    if not keep:
        return
    if format != "parquet" or not table:
        raise ValueError("keep: got names, expected a source of tables and format='parquet'")
    path = next(iter(next(iter(paired.values())).values()))
    from myops._names import choose

    for name in keep:
        choose(name, _tables.names(path), f"keep: {path} has")


# ---- What is compared with a run before.


def _identity(
    job: Any, plan: Sequence[_plan.Entry], shard_rows: int, session: Any
) -> dict[str, Any]:
    import onnxruntime

    _check_pixels(job, session)
    files = {os.path.basename(item): sha256(Path(item)) for item in job.libraries}
    for item in _libraries.known():
        if item.ort_library is not None and _mentions(job.model, item.domain):
            files[os.path.basename(item.ort_library)] = sha256(Path(item.ort_library))
    recipe = job.recipe
    versions = {"myops": __version__, "onnxruntime": onnxruntime.__version__}
    if any(item.kind == "picture" for item in recipe.inputs):
        versions["pillow"] = _pixels.pillow().__version__
    return {
        "model": sha256(Path(job.model)),
        "weights": {name: sha256(Path(job.model).parent / name)
                    for name in external_files(job.model)},
        "libraries": files,
        "source": _plan.digest(plan),
        "versions": versions,
        "shard_rows": shard_rows,
        "options": _plain({
            "constants": {name: {"dtype": str(item.dtype), "value": item.tolist()}
                          for name, item in recipe.constants.items()},
            "inputs": [asdict(item) for item in recipe.inputs],
            "outputs": [asdict(item) for item in recipe.outputs],
            "pixels": asdict(recipe.pixels),
            "format": job.format,
            "keep": job.keep,
        }),
    }  # fmt: skip


def _check_pixels(job: Any, session: Any) -> None:
    """Raises ValueError where pictures are written from floats without a range."""
    if job.format not in _pixels.FORMATS:
        return
    said = job.recipe.pixels
    types = {item.name: item.type for item in session.get_outputs()}
    for item in job.recipe.outputs:
        kind = types[item.name]
        if kind.startswith(("tensor(float", "tensor(double")) and not (
            said.output_range or said.range
        ):
            raise ValueError(
                f"output {item.name!r}: got floats, which do not say what black and white are; say "
                "output_range=, such as 0..1, 0..255 or -1..1"
            )


def _plain(item: Any) -> Any:
    """As JSON has it, to be compared with what was read from JSON."""
    import json

    return json.loads(json.dumps(item))


def external_files(model: str) -> list[str]:
    """Names of the files beside a model that hold weights of it.

    Found by the bytes with which an entry "location" begins, in any subgraph, without onnx.
    """
    found = set()
    with open(model, "rb") as file:
        if not os.fstat(file.fileno()).st_size:
            return []
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            for match in _LOCATION.finditer(data):
                length = data[match.end()]
                name = data[match.end() + 1 : match.end() + 1 + length]
                if length < 128 and os.path.isfile(
                    os.path.join(os.path.dirname(os.fsencode(model)), name)
                ):
                    found.add(os.fsdecode(name))
    return sorted(found)
