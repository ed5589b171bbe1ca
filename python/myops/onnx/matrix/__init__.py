"""Opset matrix: for each exporter and opset, how far the exported model's results are from
PyTorch's.

opset_matrix    measures a matrix
Case            a model and the inputs with which it is measured
Matrix          the result: cells, also as text, Markdown, JSON, HTML

Example:
    >>> from myops.onnx.matrix import Case, opset_matrix
    >>> case = Case(torch.nn.GELU(), torch.rand(3), run_at=[torch.rand(5)])
    >>> [cell.verdict for cell in opset_matrix({"gelu": case}, [20], ["torchscript"]).cells]
    ['ok']
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from myops._checked import checked
from myops._names import choose
from myops.onnx.matrix.cells import EXPORTERS, VERDICTS, Case, Cases, Cell, Outcome
from myops.onnx.matrix.report import Matrix

__all__ = [
    "EXPORTERS",
    "VERDICTS",
    "Case",
    "Cell",
    "Matrix",
    "Outcome",
    "newest_opset",
    "opset_matrix",
]


def __dir__() -> list[str]:
    return sorted(__all__)


LOWEST_OPSET = 7  # the lowest that an exporter of current torch releases writes
FIRST_OPSET = 9  # the lowest of a matrix, by default


def newest_opset() -> int:
    """The newest opset of ai.onnx that the installed onnx knows."""
    import onnx

    return int(onnx.defs.onnx_opset_version())


@checked()
def opset_matrix(
    cases: Cases,
    opsets: Sequence[int] | None = None,
    exporters: Sequence[str] = tuple(EXPORTERS),
    *,
    tolerance: float | None = None,
    title: str = "",
    progress: Callable[[str], object] | None = None,
) -> Matrix:
    """Exports models with each exporter and opset, runs them in ONNX Runtime, and compares.

    Every cell is a plain call of `torch.onnx.export`, in eval mode; our custom-op library is
    registered in ONNX Runtime, so that models may contain our nodes. If a file agrees at the given
    inputs, the checks of `myops.onnx.export` follow: other values of every input, other lengths of
    dynamic axes. A cell is "ok", "opset changed", "node lost", "refused", "load error", "wrong,
    with a warning" or "silently wrong".

    Args:
        cases: Name of a row -> (model, args), (model, args, kwargs), a `Case`, or a list of
            `Case`, of which the row shows the worst. A model is a torch.nn.Module or a function.
        opsets: Opsets of ai.onnx to request. Default: 9 to the newest that onnx knows.
        exporters: "torchscript", "dynamo" or both.
        tolerance: Largest difference that counts as agreement, for values up to 1; for larger
            values it is multiplied by the largest value of the output. Default: by dtype, 1e-4 for
            float32.
        title: The subject of the matrix.
        progress: Called with the name of a row when it is done for an exporter and opset.

    Returns:
        The matrix; `print` it with rich, or see `Matrix.to_markdown`, `to_json`, `to_html`.

    Raises:
        ValueError: An exporter or opset does not exist, or cases have another form.
        RuntimeError: PyTorch itself does not run a model.

    Example:
        >>> matrix = opset_matrix({"gelu": (torch.nn.GELU(), torch.rand(3))}, [18, 20], ["dynamo"])
        >>> [cell.verdict for cell in matrix.cells]
        ['ok', 'ok']
    """
    from myops.onnx.matrix import cells, measure
    from myops.onnx.matrix._reuse import reused_work

    rows = cells.as_cases(cases)
    chosen = [choose(name, EXPORTERS, "opset_matrix: exporters: there is") for name in exporters]
    wanted = _checked(range(FIRST_OPSET, newest_opset() + 1) if opsets is None else opsets)
    found: list[Cell] = []
    with (
        measure.captured_warnings()
    ):  # all of them first, so that a mistake is reported before minutes of work
        prepared = {row: [measure.prepare(row, case) for case in given]
                    for row, given in rows.items()}  # fmt: skip
    with reused_work():
        for row in rows:
            for exporter in chosen:
                for opset in wanted:
                    outcomes = [
                        measure.measure(item, exporter, opset, tolerance) for item in prepared[row]
                    ]
                    found.append(cells.combine(row, exporter, opset, outcomes))
                    if progress is not None:
                        progress(row)
    return Matrix(found, title=title, tolerance=tolerance)


def _checked(opsets: Sequence[int]) -> list[int]:
    wanted = sorted(set(opsets))
    newest = newest_opset()
    wrong = [opset for opset in wanted if not LOWEST_OPSET <= opset <= newest]
    if wrong or not wanted:
        got = wrong[0] if wrong else "none"
        raise ValueError(
            f"opset_matrix: opsets: got {got}, expected numbers from {LOWEST_OPSET} to {newest}, "
            "the newest that the installed onnx knows"
        )
    return wanted
