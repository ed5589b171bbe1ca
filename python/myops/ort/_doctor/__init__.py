"""`doctor`: why a model does not load or run, in words.

    report      findings and facts: `DoctorReport`, `Finding`
    terminal    how they are shown, there and in notebooks
    environment versions, CPU, providers
    elf, libraries, tracing   custom-op libraries
    named       those that a bundled model names
    ops, values, weights      the model, without running it
    messages, run_messages    ONNX Runtime's messages in words
    examination, trial  the order of it all, and the verdict
    nodes       what runs in place of each node
    process, child            everything that could crash runs in a process of its own

Nothing here imports torch, and nothing of the user's is loaded into this process.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from myops._checked import checked
from myops.onnx.graph import files
from myops.ort._doctor import feeds
from myops.ort._doctor.examination import Examination
from myops.ort._doctor.report import DoctorReport, Finding, LibraryFacts, NodeFacts

__all__ = ["DoctorReport", "Finding", "LibraryFacts", "NodeFacts", "doctor"]


@checked()
def doctor(
    model: files.Model | None = None,
    libraries: Sequence[str | os.PathLike[str]] = (),
    *,
    myops_library: bool = True,
    providers: Sequence[str] = ("CPUExecutionProvider",),
    run: bool = False,
    inputs: Mapping[str, Any] | None = None,
    dims: Mapping[str, int] | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    advance: Callable[[str], None] | None = None,
) -> DoctorReport:
    """Finds out why a model does not load or run, and says what to do.

    The model and the libraries are loaded in processes of their own: one that crashes does no
    harm here. Nothing is changed.

    Args:
        model: A path, the bytes of a file, or an onnx.ModelProto. None: only the environment and
            the libraries.
        libraries: Custom-op libraries that the model needs beside ours.
        myops_library: Whether our library is loaded too, as myops.ort.session does. False shows
            the model as an ONNX Runtime without myops sees it.
        providers: Execution providers that are asked for, most wanted first.
        run: Also run the model, with invented inputs where none are given: lengths that nodes
            demand are solved for, several are tried for the others. When none of them runs, that
            is no error of the model.
        inputs: Arrays, or paths of .npy files, for some inputs by name; implies run.
        dims: Lengths of axes that the model leaves open, by their names, or as "INPUT:AXIS" for
            one without a name; implies run.
        shapes: Shapes of inputs, by name; implies run.
        advance: Called with a text before each step.

    Returns:
        The report: `verdict`, `summary`, `findings`, `exit_status`, facts; `report.print()`,
        `str(report)` and `report.to_dict()`.

    Raises:
        FileNotFoundError: No such model file.
        IsADirectoryError: The model is a folder.
        ValueError: `inputs` or `dims` name what the model does not have.

    Example:
        >>> report = myops.ort.doctor("model.onnx", run=True)
        >>> report.print()
        The model loads and runs in ONNX Runtime ...
    """
    asked = feeds.Asked(inputs or {}, dims or {}, shapes or {})
    return Examination(libraries, myops_library, list(providers), advance).examine(
        model, asked, run or bool(asked)
    )
