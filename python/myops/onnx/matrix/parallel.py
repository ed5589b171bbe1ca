"""The opset matrix in several processes: faster, and a crash affects one cell only."""

from __future__ import annotations

import contextlib
import multiprocessing
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from typing import Any

from myops.onnx.matrix import opset_matrix
from myops.onnx.matrix.cells import LOAD_ERROR, Cell

Load = Callable[[str], Mapping[str, Any]]
_worker = contextlib.ExitStack()  # contexts that last as long as the process
_rows: dict[str, Mapping[str, Any]] = {}

CRASHED = "the process died while the cell was measured"


def in_processes(
    load: Load,
    target: str,
    rows: Sequence[str],
    opsets: Sequence[int],
    exporters: Sequence[str],
    tolerance: float | None,
    jobs: int,
    progress: Callable[[str, int], object],
) -> list[Cell]:
    """Measures as `opset_matrix`, each row in a separate process.

    Args:
        load: A module-level function that returns all rows of the target in each process.
        target: The argument of `load`.
        rows: The rows to measure.
        opsets, exporters, tolerance: As for `opset_matrix`.
        jobs: How many processes.
        progress: Called with a row and how many of its cells are done.

    Returns:
        The cells, in the order of rows, exporters and opsets. A cell in which the process dies is
        a load error.
    """
    tasks = [(row, exporter) for row in rows for exporter in exporters]
    found: dict[tuple[str, str], list[Cell]] = {}

    def measured(task: tuple[str, str], cells: list[Cell]) -> None:
        found[task] = cells
        progress(task[0], len(cells))

    with contextlib.suppress(BrokenProcessPool), _pool(min(jobs, len(tasks))) as pool:
        futures = {pool.submit(_measure, load, target, *task, opsets, tolerance): task
                   for task in tasks}  # fmt: skip
        try:
            for future in as_completed(futures):
                measured(futures[future], future.result())
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    for task in tasks:  # tasks are left only after a crash
        if task not in found:
            measured(task, _one_by_one(load, target, *task, opsets, tolerance))
    return [cell for task in tasks for cell in found[task]]


def _pool(jobs: int) -> ProcessPoolExecutor:
    spawn = multiprocessing.get_context("spawn")  # a fork of torch's threads may hang
    return ProcessPoolExecutor(jobs, mp_context=spawn, initializer=_start)


def _start() -> None:
    import torch

    from myops.onnx.matrix._reuse import reused_work

    torch.set_num_threads(1)
    _worker.enter_context(reused_work())  # the list of operators serves all rows


def _measure(
    load: Load,
    target: str,
    row: str,
    exporter: str,
    opsets: Sequence[int],
    tolerance: float | None,
) -> list[Cell]:
    if target not in _rows:
        _rows[target] = load(target)
    cases = {row: _rows[target][row]}
    return opset_matrix(cases, opsets, [exporter], tolerance=tolerance).cells


def _one_by_one(
    load: Load,
    target: str,
    row: str,
    exporter: str,
    opsets: Sequence[int],
    tolerance: float | None,
) -> list[Cell]:
    cells: list[Cell] = []
    pool = _pool(1)
    for opset in opsets:
        try:
            cells += pool.submit(
                _measure, load, target, row, exporter, [opset], tolerance
            ).result()  # fmt: skip
        except BrokenProcessPool:
            cells.append(Cell(row, exporter, opset, LOAD_ERROR, reason=CRASHED))
            pool.shutdown()
            pool = _pool(1)
    pool.shutdown()
    return cells
