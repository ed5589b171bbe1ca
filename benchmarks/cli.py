"""The command: chooses cases, runs them, reports."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from benchmarks import discover, system
from benchmarks.measure import Plan
from benchmarks.report import terminal
from benchmarks.result import Result
from benchmarks.runner import run_case

QUICK = Plan(rounds=5, sample=0.002, budget=0.1)


def bench(
    op: Annotated[
        list[str] | None,
        typer.Option(help="Only cases whose group contains this, e.g. resize, 'cubic backward'."),
    ] = None,
    case: Annotated[
        list[str] | None, typer.Option(help="Only cases with this name, e.g. a, '720p x2'.")
    ] = None,
    threads: Annotated[str, typer.Option(help="Numbers of threads, e.g. 1,2.")] = "1,2",
    rounds: Annotated[int, typer.Option(min=1, help="Clean samples wanted.")] = 15,
    budget: Annotated[
        float, typer.Option(help="Seconds for one candidate of one case; slow ones get 3 samples.")
    ] = 0.5,
    quick: Annotated[bool, typer.Option(help="A fast look: 5 short samples.")] = False,
    json_path: Annotated[
        Path | None, typer.Option("--json", help="Write everything that was measured.")
    ] = None,
) -> None:
    """Measures the ops beside their peers and says who is ahead."""
    console = Console()
    if not console.is_terminal:
        console = Console(width=180)  # a table in a file needs no folding
    plan = QUICK if quick else Plan(rounds=rounds, budget=budget)
    counts = [int(count) for count in threads.split(",")]
    chosen = [
        (item, module)
        for item, module in discover.all_cases()
        if (not op or any(word in item.group for word in op)) and (not case or item.name in case)
    ]
    if not chosen:
        raise typer.BadParameter("no case has such an --op and --case")
    peers, absent = discover.peers()
    facts = system.describe()
    terminal.show_facts(console, facts, absent)
    results: list[Result] = []
    for item, module in chosen:
        for count in counts:
            results.append(run_case(item, module.ours, peers, count, plan))
            terminal.show_case(console, results[-1])
        item.release()
    results.sort(key=lambda result: (result.threads,))
    terminal.show_summary(console, results)
    if json_path is not None:
        document = {
            "facts": facts,
            "absent": absent,
            "results": [result.as_json() for result in results],
        }
        json_path.write_text(json.dumps(document, indent=1) + "\n")
    wrong = [name for result in results for name in result.wrong if "myops" in name]
    if wrong:
        console.print(f"[bold red]wrong results of ours: {', '.join(wrong)}[/]")
        raise typer.Exit(1)


def main() -> None:
    typer.run(bench)
