"""Exports one case with one exporter at one opset, and runs the file in ONNX Runtime."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import torch
from torch.utils import _pytree as pytree

import myops.onnx
import myops.ort
from myops.onnx.graph import scopes
from myops.onnx.matrix import _signature, cells, guarding, narrow_floats
from myops.onnx.matrix._captured_warnings import captured_warnings
from myops.onnx.matrix.cells import Case, Outcome

# Largest difference that counts as agreement, for values up to 1; relative for larger ones.
TOLERANCES = {"float64": 1e-6, "float32": 1e-4, "float16": 5e-3, "bfloat16": 4e-2,
              "complex64": 1e-4, "complex128": 1e-6}  # fmt: skip


@dataclasses.dataclass
class Prepared:
    """A case with PyTorch's results, which are computed once and compared in every cell."""

    case: Case
    module: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    names: list[str] | None  # of the graph's inputs; None: numbers are among them
    axes: _signature.AxisNames
    shapes: Any  # the axes as torch.export wants them
    runs: list[tuple[dict[str, np.ndarray], list[np.ndarray]]]  # feeds and expected outputs
    limits: list[float]  # for each output


def prepare(row: str, case: Case) -> Prepared:
    """Runs the case in PyTorch.

    Raises:
        ValueError: The inputs do not fit the model's parameters, or each other.
        RuntimeError: PyTorch itself does not run it.
    """
    module = _signature.as_module(case.model)
    runs: list[tuple[dict[str, np.ndarray], list[np.ndarray]]] = []
    for number, args in enumerate((case.args, *case.run_at)):
        where = f"opset_matrix: {row!r}: " + (f"run_at[{number - 1}]" if number else "args")
        try:
            named = _signature.leaves(_signature.by_parameter(module, args, case.kwargs))
        except TypeError as error:
            raise ValueError(f"{where}: {error}") from error
        feeds = {name: _signature.array(item) for name, item in named.items()}
        if number and [(n, a.ndim) for n, a in feeds.items()] != [
            (n, a.ndim) for n, a in runs[0][0].items()
        ]:
            raise ValueError(
                f"{where}: got inputs of another number or rank, expected those of args"
            )
        try:
            with torch.no_grad(), evaluating(module):
                # Copies, because a model may write into its inputs.
                given, more = pytree.tree_map_only(torch.Tensor, torch.clone, (args, case.kwargs))
                expected = pytree.tree_leaves(module(*given, **dict(more)))
        except Exception as error:
            raise RuntimeError(
                f"{where}: PyTorch does not run the model: {shorten(error)}"
            ) from error
        expected = [item for item in expected if item is not None]
        runs.append((feeds, [_signature.array(item) for item in expected]))
        dtypes = [str(getattr(item, "dtype", "")).removeprefix("torch.") for item in expected]
    values = _signature.by_parameter(module, case.args, case.kwargs)
    axes = _signature.changing_axes([feeds for feeds, _ in runs])
    inputs = _signature.leaves(values)
    tensors = all(isinstance(item, torch.Tensor) for item in inputs.values())
    return Prepared(
        case, module, case.args,
        {name: case.kwargs[name] for name in values if name in case.kwargs},  # in forward's order
        list(inputs) if tensors else None, axes, _signature.dynamic_shapes(values, axes), runs,
        [TOLERANCES.get(dtype, 0.0) for dtype in dtypes],
    )  # fmt: skip


@contextlib.contextmanager
def evaluating(module: Any) -> Iterator[None]:
    training = [item for item in module.modules() if item.training]
    for item in training:
        item.training = False
    try:
        yield
    finally:
        for item in training:
            item.training = True


def measure(prepared: Prepared, exporter: str, opset: int, tolerance: float | None) -> Outcome:
    """The outcome of a case for one exporter and opset. Exceptions of both sides become
    outcomes."""
    label = prepared.case.label
    with captured_warnings() as said:
        try:
            model, program = _export(prepared, exporter, opset)
            model = _with_names(prepared, model)
        except Exception as error:
            return Outcome(cells.REFUSED, reason=shorten(error), label=label)
    try:
        with captured_warnings():
            session = myops.ort.session(narrow_floats.outside(model), session_options=_options())
    except Exception as error:
        return Outcome(cells.LOAD_ERROR, None, _written(model, opset), shorten(error), label)
    worst: float | None = 0.0
    reason, wrong = "", False
    limits = prepared.limits if tolerance is None else [tolerance] * len(prepared.limits)
    for number, (feeds, expected) in enumerate(prepared.runs):
        known = {item.name for item in session.get_inputs()}
        try:
            outputs = session.run(None, {k: v for k, v in feeds.items() if k in known})
        except Exception as error:
            text = f"does not run{_where(number, feeds)}: {shorten(error)}"
            return Outcome(cells.LOAD_ERROR, worst if number else None, _written(model, opset),
                           text, label)  # fmt: skip
        gap, limit, why = difference(outputs, expected, limits)
        if gap > limit and not wrong:
            wrong = True
            lost = sorted(set(feeds) - known)
            why += f"; the file has no input {', '.join(lost)}" if lost else ""
            reason = why + _where(number, feeds)
        worst = max(worst or 0.0, gap)
    written = _written(model, opset)
    if not wrong and prepared.case.checks:
        with captured_warnings():
            fault = guarding.found(prepared, model, program, exporter, opset, tolerance)
        if fault is not None and fault.check == "lost_node":
            return Outcome(cells.LOST, worst, written, _cut(fault.text, 200), label)
        if fault is not None:  # right for the example, wrong for other inputs
            wrong, worst, reason = True, None, _cut(fault.text, 200)
    if not wrong:
        verdict = cells.OK if written is None else cells.CHANGED
        return Outcome(verdict, worst, written, "" if written is None else _changed(opset, written),
                       label)  # fmt: skip
    if written is not None:
        reason += f"; {_changed(opset, written)}"
    if said:
        return Outcome(cells.WARNED, worst, written, f"{reason}; {shorten(said[0])}", label)
    return Outcome(cells.WRONG, worst, written, reason, label)


def _where(number: int, feeds: Mapping[str, np.ndarray]) -> str:
    if not number:
        return ""
    return " at another size: " + ", ".join(str(list(item.shape)) for item in feeds.values())


def _changed(opset: int, written: int) -> str:
    return f"asked for opset {opset}, the file is in opset {written}"


def _written(model: onnx.ModelProto, opset: int) -> int | None:
    """The opset of the file if it is not the requested one."""
    with contextlib.suppress(ValueError):  # only nodes of other domains
        got = scopes.onnx_opset(model)
        return None if got == opset else got
    return None


def _options() -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    return options


def _export(prepared: Prepared, exporter: str, opset: int) -> tuple[onnx.ModelProto, Any]:
    """The file, and torch.export's program of the model if it is known."""
    common: dict[str, Any] = {"kwargs": prepared.kwargs or None, "input_names": prepared.names,
              "opset_version": opset}  # fmt: skip
    module, args, axes = prepared.module, prepared.args, prepared.axes or None
    with evaluating(module):
        if prepared.case.through == "myops":
            # The matrix compares the numbers itself, and shows wrong files that a check would
            # refuse.
            checks = ("lost_node", "frozen_input", "numbers")
            proto = myops.onnx.export(
                module, args, dynamic_axes=axes, exporter=exporter, skip_checks=checks,
                constants=prepared.case.constants, **common,
            )  # fmt: skip
            return proto, None
        if exporter == "dynamo":
            program = torch.onnx.export(
                module, args, dynamo=True, dynamic_shapes=prepared.shapes, verbose=False, **common
            )
            assert program is not None
            return program.model_proto, program.exported_program
        file: Any = io.BytesIO()
        torch.onnx.export(module, args, file, dynamo=False, dynamic_axes=axes, **common)
        return onnx.load_from_string(file.getvalue()), None


def _with_names(prepared: Prepared, model: onnx.ModelProto) -> onnx.ModelProto:
    """The file with the parameters' names for its inputs, if the exporter chose other names.

    It does so if numbers are among the inputs, because these are not in the graph.
    """
    if prepared.names is not None:
        return model
    weights = {tensor.name for tensor in model.graph.initializer}
    graph = [item.name for item in model.graph.input if item.name not in weights]
    known = _signature.leaves(
        _signature.by_parameter(prepared.module, prepared.args, prepared.kwargs)
    )
    tensors = [name for name, item in known.items() if isinstance(item, torch.Tensor)]
    if set(graph) <= set(known) or len(graph) != len(tensors):
        return model
    pairs = {old: new for old, new in zip(graph, tensors, strict=True) if old != new}
    return myops.onnx.edit(model, rename=pairs, check=False)


def difference(
    outputs: Sequence[Any], expected: Sequence[np.ndarray], limits: Sequence[float]
) -> tuple[float, float, str]:
    """The largest difference, the tolerance, and a description of the difference."""
    got = [np.asarray(item) for item in pytree.tree_leaves(outputs)]
    if len(got) != len(expected):
        return np.inf, 0.0, f"{len(got)} outputs instead of {len(expected)}"
    found = (0.0, 1.0, "")
    for number, (mine, right) in enumerate(zip(got, expected, strict=True)):
        which = f"output {number}: " if len(got) > 1 else ""
        if mine.shape != right.shape:
            return np.inf, 0.0, f"{which}shape {list(mine.shape)} instead of {list(right.shape)}"
        error = _largest(mine, right)
        finite = np.abs(right[np.isfinite(right)].astype(np.complex128)) if right.size else right
        size = max(1.0, float(finite.max(initial=0.0)))
        limit = limits[number] * size
        if error - limit > found[0] - found[1] or number == 0:
            found = (error, limit, f"{which}off by {error:.2g}")
    return found


def _largest(mine: np.ndarray, right: np.ndarray) -> float:
    if not right.size:
        return 0.0
    if right.dtype.kind in "USO" or mine.dtype.kind in "USO":
        return 0.0 if np.array_equal(mine, right) else np.inf
    wide = np.complex128 if "c" in (mine.dtype.kind, right.dtype.kind) else np.float64
    a, b = mine.astype(wide), right.astype(wide)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    with np.errstate(invalid="ignore"):
        gap = np.where(same, 0.0, np.abs(a - b))
    return float(np.nan_to_num(gap, nan=np.inf, posinf=np.inf).max())


# The text before the part of a message that gives the reason.
_PREFIXES = re.compile(
    r"^(\[ONNXRuntimeError\] : \d+ : [A-Z_]+ : )?(Load model from .*? failed: ?)?"
    r"(Exception during (initialization|loading): )?"
    r"(/\S+:\d+ .{0,300}?\) )?"
)
_NOISE = re.compile(r"/\S+\.h:\d+: \w+: Assertion `\w+` failed: ")


def shorten(error: BaseException | str, limit: int = 200) -> str:
    """The sentence of an error that gives the reason, on one line."""
    if isinstance(error, str):
        return _cut(error, limit)
    text = str(error) or type(error).__name__
    cause = error.__cause__
    # torch's exporter puts the reason under a page of advice.
    if cause is not None and ("Failed to" in text or "What to do" in text or not str(error)):
        return shorten(cause, limit)
    return _cut(_PREFIXES.sub("", text.strip()) or text, limit)


def _cut(text: str, limit: int) -> str:
    paragraph = re.split(r"\n\s*\n|\n\nWhile executing|Traceback \(most", text.strip())[0]
    paragraph = _NOISE.sub("", paragraph)
    line = re.sub(r"\x1b\[[0-9;]*m", "", re.sub(r"\s+", " ", paragraph)).strip()
    return line if len(line) <= limit else line[: limit - 3].rstrip() + "..."
