"""Check "numbers": ONNX Runtime computes with the file what PyTorch computes with the model.

They are compared at the example inputs, at the changed inputs of the check "frozen_input", at
inputs of zeros, ones, large, tiny and negative numbers, and at other lengths where axes are
dynamic.
"""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from myops.onnx.guards import _advice, _origin, frozen_input, other_lengths, special_values
from myops.onnx.guards._difference import OutputDifference, compare, largest
from myops.onnx.guards._errors import ExportCheckError
from myops.onnx.guards._excuses import excuse
from myops.onnx.guards._exported import CannotRunError, Exported, MissingLibraryError

NAME = "numbers"
_FLOAT64 = 1e-10  # far more than the rounding errors of sums in float64


def check(exported: Exported) -> None:
    if exported.random:
        exported.uncompared = "its results vary from run to run"
        exported.warn(
            f"{NAME}: two runs of the model in PyTorch differ, so the results were not compared."
        )
        return
    try:
        got = exported.ort_base
    except CannotRunError as error:
        exported.uncompared = f"ONNX Runtime does not run it here: {error}"
        exported.warn(
            f"{NAME}: the model was not run in ONNX Runtime: {error}. The file is for runtimes "
            f"that have what this one lacks.{_advice.of_dtypes(exported)}"
        )
        return
    except MissingLibraryError as error:
        raise ExportCheckError(
            NAME,
            f"ONNX Runtime knows no operator {error}, so the model could not be run. Give the "
            'library that has it: libraries=["path/to/library.so"].',
        ) from error
    except RuntimeError as error:
        raise ExportCheckError(
            NAME,
            f"ONNX Runtime cannot run the exported model at the example inputs: {error}. "
            f"{_origin.of_failure(exported, error)}".rstrip(),
            elsewhere=True,
        ) from error
    found = compare(exported.base, got)
    if found is not None:
        reason = excuse(exported, {}, exported.base, got)
        if not reason:
            _judge(exported, found)
        exported.warn_excused(f"at the example inputs: {found.text}", reason)
    elif exported.base:
        _warn_of_fewer_digits(exported, got)
    for name, value, wanted, result in exported.pairs:
        found = compare(wanted, result)
        reason = excuse(exported, {name: value}, wanted, result) if found is not None else ""
        if found is not None and reason:
            exported.warn_excused(f"with another value of {name!r}: {found.text}", reason)
        elif found is not None:  # right at the example and wrong elsewhere
            where = _advice.of_reads(exported, {name: value}) or _origin.of_difference(
                exported, {name: value}, found
            )
            raise ExportCheckError(
                frozen_input.NAME,
                f"with another value of {name!r} {_title(exported, found)} is not what PyTorch "
                f"computes, though it is with the example's: part of it was built in. "
                f"{found.text}. {where}".rstrip(),
            )
        else:
            exported.traced_reads.compared({name: value})
    other_lengths.check(exported)
    special_values.check(exported)
    _warn_of_branches(exported)


def _warn_of_branches(exported: Exported) -> None:
    """Warns of branches of a trace whose other side no comparison has reached."""
    for place, read in exported.traced_reads.one_sided().items():
        what = "a length" if read.of_length else "a value"
        exported.warn(
            f"{NAME}: the branch on {what} at {place}, went the same way in all runs that were "
            "observed. The file has only this side of it, and is wrong where the model takes the "
            f"other.{_advice.instead_of([read])}"
        )


def _warn_of_fewer_digits(exported: Exported, got: list[Any]) -> None:
    """Warns if float64 results agree in few digits only: ONNX's attributes are float32, and so are
    some constants of torch's translations."""
    for place, (wanted, result) in enumerate(zip(exported.base, got, strict=True)):
        if wanted.dtype != np.float64 or not isinstance(result, np.ndarray):
            continue
        apart = largest(wanted, result)
        if apart > _FLOAT64:
            exported.warn(
                f"{NAME}: output {exported.final.graph.output[place].name!r} is float64, but "
                f"agrees with PyTorch to {apart:.0e} only: some numbers in the file are float32, "
                "as all attributes of ONNX nodes are. If that matters, write the operator of which "
                "it is an attribute (gelu, celu, addmm, log2) as arithmetic on tensors."
            )


def _judge(exported: Exported, found: OutputDifference) -> NoReturn:
    advice = (
        _advice.of_resize(exported, found.text)
        or _origin.of_difference(exported, {}, found)
        or "Find the first layer that differs with myops.onnx.compare."
    )
    raise ExportCheckError(
        NAME,
        f"at the example inputs {_title(exported, found)} is not what PyTorch computes: "
        f"{found.text}. {advice}",
        elsewhere=True,
    )


def _title(exported: Exported, found: OutputDifference) -> str:
    names = [item.name for item in exported.final.graph.output]
    return f"output {names[found.output]!r}" if found.output >= 0 else "the outputs"
