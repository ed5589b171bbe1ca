"""`myops run`."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from myops._text import number_of
from myops.cli import _console, _graphs

VERDICT = "some rows failed and are listed in failed.jsonl, 3 none is done"
OPTIONS = {
    name: f"--{name.replace('_', '-')}"
    for name in (
        "source", "output", "format", "outputs", "whole", "rows", "layout", "channels", "range",
        "output_range", "mean", "std", "resize", "engine", "workers", "threads", "readers", "batch",
        "isolate", "address", "limit", "retry_failed", "max_failures", "keep", "named_libraries",
    )
}  # fmt: skip
OPTIONS |= {
    "source": "--input", "constants": "--set", "columns": "--column", "libraries": "--library",
}  # fmt: skip


def run(
    model: _graphs.Model,
    input: Annotated[
        list[str],
        typer.Option("--input", "-i", help="Files, a folder, a pattern or a URL; with several "
                     "inputs of the graph, NAME=PATTERN for each. May be given several times.",
                     metavar="[NAME=]PATTERN"),
    ],
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="FOLDER|FILE",
                          help="A folder or a URL for the outputs; a file that ends in .parquet, "
                          ".npz or .npy gets all rows."),
    ],
    set: Annotated[
        list[str] | None,
        typer.Option(help="An input that is the same for each row.",
                     metavar="NAME=2.5|1,2,3|FILE.npy"),
    ] = None,
    column: Annotated[
        list[str] | None,
        typer.Option(help="The column of a table for an input of another name.",
                     metavar="INPUT=COLUMN"),
    ] = None,
    keep: Annotated[
        str, typer.Option(help="Columns of Parquet that go into the output as they are.",
                          metavar="A,B"),
    ] = "",
    format: Annotated[
        str, typer.Option(help="Format of outputs: png, jpg, webp, bmp, tif, bytes, npy, npz or "
                          "parquet. Default: what suits them."),
    ] = "",
    outputs: Annotated[
        str, typer.Option(help="Outputs of the graph to write. Default: all.", metavar="A,B"),
    ] = "",
    whole: Annotated[
        str, typer.Option(help="Outputs whose axis 0 does not count rows.", metavar="A,B"),
    ] = "",
    rows: Annotated[
        str, typer.Option(help="Whether axis 0 of .npy and .npz files counts rows (axis0), or a "
                          "file is one row (file). Default: what the graph says."),
    ] = "",
    layout: Annotated[
        str, typer.Option(help="How pictures are held: nchw, nhwc, chw, hwc or hw. Default: what "
                          "the graph says."),
    ] = "",
    channels: Annotated[
        int, typer.Option(help="1, 3 or 4, where the graph leaves it open.", show_default=False),
    ] = 0,
    range: Annotated[
        str, typer.Option(help="The numbers for black and white.", metavar="0..1"),
    ] = "",
    output_range: Annotated[
        str, typer.Option(help="The same for outputs. Default: as --range.", metavar="0..1"),
    ] = "",
    mean: Annotated[
        str, typer.Option(help="For each channel, after --range: (value - mean) / std.",
                          metavar="R,G,B"),
    ] = "",
    std: Annotated[str, typer.Option(help="See --mean.", metavar="R,G,B")] = "",
    resize: Annotated[
        str, typer.Option(help="Resize pictures to what the graph fixes: nearest, bilinear, "
                          "bicubic or lanczos."),
    ] = "",
    engine: Annotated[
        str, typer.Option(help="local: this machine; ray: a cluster (myops[ray])."),
    ] = "local",
    workers: Annotated[
        int | None, typer.Option(help="Calls at once. Default: one for a core.")
    ] = None,
    threads: Annotated[
        int | None, typer.Option(help="Threads of a call. Default: such that all cores work.")
    ] = None,
    readers: Annotated[
        int | None, typer.Option(help="Threads beyond the workers that read and write. Default: 2, "
                                 "or 16 a worker for URLs."),
    ] = None,
    batch: Annotated[
        int | None, typer.Option(help="Rows in a call, at most. Default: what fits into 64 KiB "
                                 "and 20 ms."),
    ] = None,
    isolate: Annotated[
        bool, typer.Option("--isolate", help="Run the model in processes of their own, for models "
                           "that may end theirs."),
    ] = False,
    address: Annotated[
        str | None, typer.Option(help="Address of a Ray cluster. Default: one is started.")
    ] = None,
    limit: Annotated[int | None, typer.Option(help="Run at most so many rows.")] = None,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="Run rows again that failed before.")
    ] = False,
    max_failures: Annotated[
        int | None, typer.Option(help="End the run when more rows have failed.")
    ] = None,
    library: Annotated[
        list[Path] | None,
        typer.Option(help="A custom-op library that the model needs; may be given several times."),
    ] = None,
    named_libraries: Annotated[
        str, typer.Option(help="check, trust or ignore the libraries that a bundle's model names; "
                          "or signed: load a signed bundle only, by a key in MYOPS_TRUSTED_KEYS."),
    ] = "check",
    json: _graphs.Json = False,
) -> None:  # fmt: skip
    """Run a model over all rows of a source: pictures, arrays, Parquet; on this machine or on Ray.

    Results do not depend on the number of workers or on the batch. A run that was interrupted
    continues when the same command is given again. Rows that fail are listed; the others are run.

    Example: myops run upscale.onnx -i "photos/*.jpg" -o out --set factor=2.5 --range 0..1

    Example: myops run scores.onnx --input s3://bucket/table/ --output s3://bucket/scores --keep id
    """
    from myops.batch import run as run_

    if str(model) == "-":
        raise ValueError("MODEL: got -, expected a file: workers open it themselves")
    words: dict[str, Any] = {
        "rows": rows, "engine": engine, "named_libraries": named_libraries, "workers": workers,
        "threads": threads,
    }  # fmt: skip
    stopped = {"rows": 0}
    try:
        with _progress() as advance:

            def told(done: int, failed: int, total: int) -> None:
                stopped["rows"] = done + failed
                advance(done, failed, total)

            result = run_(
                model, _source(input), output, constants=_pairs(set, "--set", "NAME=VALUE"),
                columns=_pairs(column, "--column", "INPUT=COLUMN"), keep=_list(keep),
                format=format, outputs=_list(outputs) or None, whole=_list(whole), layout=layout,
                channels=channels, range=_range(range, "--range"), readers=readers, batch=batch,
                output_range=_range(output_range, "--output-range"), mean=_numbers(mean, "--mean"),
                std=_numbers(std, "--std"), resize=resize, isolate=isolate, address=address,
                limit=limit, retry_failed=retry_failed, max_failures=max_failures,
                libraries=library or (), progress=told, **words,
            )  # fmt: skip
    except KeyboardInterrupt:
        verb = "is" if stopped["rows"] == 1 else "are"
        text = f"{_rows(stopped['rows'])} {verb} settled; the same command goes on from there"
        _console.message("stopped", text, "bold yellow")
        raise
    if json:
        _console.print_json(result.to_dict())
    else:
        _say(result, input)
    if result.status:
        raise typer.Exit(result.status)


def _say(result: Any, given: list[str]) -> None:
    if not result.rows:
        _console.say(f"no rows in {', '.join(map(repr, given))}: nothing was done")
        return
    new = result.done + result.failed - result.before
    earlier = f"; earlier runs settled {_rows(result.before)}" if result.before else ""
    _console.say(
        f"{result.output}: {result.done} of {_rows(result.rows)} as {result.format}{earlier}"
    )
    if new:
        calls = f", up to {_rows(result.rows_per_call)} a call" if result.rows_per_call else ""
        _console.say(
            f"{result.seconds:.1f} s, {result.rows_per_second:.1f} rows a second; workers "
            f"{result.workers}, threads {result.threads}{calls}"
        )
    if result.failed:
        _console.say(f"{_rows(result.failed)} failed: {result.failures}")


def _rows(count: int) -> str:
    return number_of(count, "row")


def _source(given: list[str]) -> Any:
    """Patterns, or patterns by input, where what is before "=" is no part of a path."""
    named: dict[str, list[str]] = {}
    plain = []
    for text in given:
        name, sign, pattern = text.partition("=")
        if sign and pattern and "/" not in name and not any(s in name for s in "*?[.\\"):
            named.setdefault(name, []).append(pattern)
        else:
            plain.append(text)
    if named and plain:
        raise ValueError(
            f"--input: got {plain[0]!r} beside {next(iter(named))}=..., expected NAME=PATTERN for "
            "all or for none"
        )
    return named or plain


def _pairs(given: list[str] | None, option: str, form: str) -> dict[str, str]:
    found = {}
    for text in given or ():
        name, sign, value = text.partition("=")
        if not sign or not name or not value:
            raise ValueError(f"{option}: got {text!r}, expected {form}")
        if name in found:
            raise ValueError(f"{option}: got {name!r} twice, expected it once")
        found[name] = value
    return found


def _list(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _range(text: str, option: str) -> tuple[float, float] | None:
    if not text:
        return None
    low, sign, high = text.partition("..")
    try:
        if sign:
            return float(low), float(high)
    except ValueError:
        pass
    raise ValueError(f"{option}: got {text!r}, expected two numbers such as 0..1 or -1..1")


def _numbers(text: str, option: str) -> list[float]:
    try:
        return [float(part) for part in _list(text)]
    except ValueError:
        raise ValueError(f"{option}: got {text!r}, expected numbers such as 0.5,0.5,0.5") from None


@contextlib.contextmanager
def _progress() -> Iterator[Callable[[int, int, int], None]]:
    """A bar with the rate, the time that is left, and failures; nothing without a terminal."""
    from rich import progress

    columns = (
        progress.TextColumn("run"), progress.BarColumn(), progress.MofNCompleteColumn(),
        progress.TimeRemainingColumn(), progress.TextColumn("{task.fields[said]}", markup=False),
    )  # fmt: skip
    errors = _console.errors
    shown: Any = {"console": errors, "transient": True, "disable": not errors.is_terminal}
    with progress.Progress(*columns, **shown) as bar:
        task = bar.add_task("run", total=None, said="")
        started: list[float] = []

        def advance(done: int, failed: int, total: int) -> None:
            if not started:
                started.extend((time.perf_counter(), done + failed))
            spent = time.perf_counter() - started[0]
            rate = (done + failed - started[1]) / spent if spent > 0 else 0.0
            lost = f", {failed} failed" if failed else ""
            bar.update(task, completed=done + failed, total=total, said=f"{rate:.1f} rows/s{lost}")

        yield advance
