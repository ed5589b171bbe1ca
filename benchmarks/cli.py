"""The command: chooses what to measure, measures, reports."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from datetime import date
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from benchmarks import discover, limits, scaling, system
from benchmarks.measure import Plan
from benchmarks.random_shapes import run as random_run
from benchmarks.report import markdown, plots, terminal
from benchmarks.report.document import Document, Section
from benchmarks.runner import run_case

QUICK = Plan(rounds=5, sample=0.002, budget=0.1)
PARTS = ("limits", "cases", "also", "scaling", "random")


def bench(
    op: Annotated[
        list[str] | None,
        typer.Option(help="Only cases whose group contains this: resize, 'cubic backward'."),
    ] = None,
    case: Annotated[
        list[str] | None, typer.Option(help="Only cases with this name: a, '720p x2'.")
    ] = None,
    part: Annotated[
        list[str] | None,
        typer.Option(help=f"{', '.join(PARTS)}. Default: all; with --op or --case, cases."),
    ] = None,
    threads: Annotated[str, typer.Option(help="Numbers of threads.")] = "1,2",
    rounds: Annotated[int, typer.Option(min=1, help="Clean samples wanted of a candidate.")] = 15,
    budget: Annotated[
        float, typer.Option(help="Seconds for a candidate of a case; slow ones get 3 samples.")
    ] = 0.5,
    quick: Annotated[bool, typer.Option(help="A fast look: 5 short samples.")] = False,
    seed: Annotated[
        int, typer.Option(min=0, help="Of the part random: what its configurations are drawn from.")
    ] = 1,
    count: Annotated[
        int, typer.Option(min=1, help="Of the part random: configurations of each kind.")
    ] = 200,
    minutes: Annotated[
        float, typer.Option(min=0, help="Of the part random: the longest that it may take.")
    ] = 30.0,
    json_path: Annotated[
        Path | None, typer.Option("--json", help="Write everything that was measured.")
    ] = None,
    markdown_path: Annotated[
        Path | None,
        typer.Option("--markdown", help="Fill the marked parts of this page and PAGE_tables.md."),
    ] = None,
    plots_path: Annotated[
        Path | None, typer.Option("--plots", help="Write the plots into this folder.")
    ] = None,
    from_paths: Annotated[
        list[Path] | None,
        typer.Option("--from", help="Report JSON files, the later wins; measure nothing."),
    ] = None,
) -> None:
    """Measures the ops beside their peers and says who is ahead."""
    console = Console()
    if not console.is_terminal:
        console = Console(width=180)  # a table in a file need not be wrapped
    if from_paths:
        document = Document()
        for path in from_paths:
            document.update(Document.load(path))
        terminal.show_facts(console, document.facts, document.absent)
    else:
        parts = part or (["cases"] if op or case else list(PARTS))
        if unknown := set(parts) - set(PARTS):
            raise typer.BadParameter(f"--part: got {unknown.pop()}, expected one of {PARTS}")
        plan = QUICK if quick else Plan(rounds=rounds, budget=budget)
        counts = [int(count) for count in threads.split(",")]
        save = json_path and partial(Document.save, path=json_path)
        document = _measure(
            console, parts, op or [""], case or [], counts, plan, save, (seed, count, minutes)
        )
    terminal.show_summary(console, document)
    terminal.show_random(console, document.random)
    if json_path is not None:
        document.save(json_path)
    if markdown_path is not None:
        markdown.write(document, markdown_path)
    if plots_path is not None:
        plots_path.mkdir(parents=True, exist_ok=True)
        plots.write(document, plots_path)
    _fail_on_wrong(console, document)


def _measure(
    console: Console,
    parts: list[str],
    ops: list[str],
    names: list[str],
    counts: list[int],
    plan: Plan,
    save: Callable[[Document], None] | None,
    random: tuple[int, int, float],
) -> Document:
    """Measures `parts`; saves after each step, so that a run that is ended keeps what it has."""
    peers, absent = discover.peers()
    facts = {**system.describe(), "date": str(date.today()), "command": _command(sys.argv[1:])}
    document = Document(facts, absent)
    terminal.show_facts(console, facts, absent)
    start = time.perf_counter()
    if "limits" in parts:
        document.limits = {count: limits.measure_limits(count) for count in counts}
        terminal.show_limits(console, document.limits)
    if "cases" in parts:
        for item, module in discover.all_cases():
            if any(word in item.group for word in ops) and (not names or item.name in names):
                for count in counts:
                    document.results.append(run_case(item, module.ours, peers, count, plan))
                    terminal.show_case(console, document.results[-1])
                item.release()
                if save is not None:
                    save(document)
        if not document.results:
            raise typer.BadParameter("no case has such an --op and --case")
        document.results.sort(key=lambda result: result.threads)
    if "also" in parts:
        for module in discover.questions():
            section = Section(module.TITLE, module.EXPLANATION, [])
            for count in counts:
                section.rows.extend(module.rows(count, plan))
            document.also.append(section)
            terminal.show_section(console, section)
            if save is not None:
                save(document)
    if "scaling" in parts:
        for sweep in scaling.sweeps():
            document.scaling.extend(scaling.run(sweep))
        terminal.show_scaling(console, document.scaling)
    if "random" in parts:
        seed, each, minutes = random
        document.facts["seed"] = str(seed)
        document.random = random_run.run(
            seed, each, counts, ops, minutes=minutes,
            show=lambda found: terminal.show_measured(console, found),
        )  # fmt: skip
        random_run.explain_worst(document.random)
        if save is not None:
            save(document)
    document.facts["minutes"] = f"{(time.perf_counter() - start) / 60:.1f}"
    return document


def _command(arguments: list[str]) -> str:
    """The options of the command, without those that say where to write."""
    words = iter(arguments)
    kept = []
    for word in words:
        if word in ("--json", "--markdown", "--plots"):
            next(words, None)
        else:
            kept.append(f"'{word}'" if " " in word else word)
    return f"`{' '.join(['python benchmarks/run.py', *kept])}`"


def _fail_on_wrong(console: Console, document: Document) -> None:
    wrong = [
        f"{result.title}: {name}"
        for result in document.results
        for name in result.wrong
        if "myops" in name
    ]
    if wrong:
        console.print(f"[bold red]wrong results of ours:[/] {', '.join(wrong)}")
        raise typer.Exit(1)


def main() -> None:
    typer.run(bench)
