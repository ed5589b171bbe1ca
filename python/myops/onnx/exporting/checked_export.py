"""One export, after its arguments have been read: torch's exporter, the changes to its file, the
checks; and the other exporter, if the first fails."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import onnx

from myops._torch import module_state
from myops.onnx import guards
from myops.onnx.bodies import add_function_bodies
from myops.onnx.exporting import (
    dtypes,
    exporters,
    failures,
    finishing,
    named_outputs,
    torch_arguments,
)
from myops.onnx.exporting import dynamic_axes as _axes
from myops.onnx.exporting.axis_names import name_axes
from myops.onnx.exporting.inputs import Inputs
from myops.onnx.exporting.recorded import Recorded
from myops.onnx.graph import files, versions
from myops.onnx.guards import ExportCheckError
from myops.onnx.guards._changes import resized
from myops.onnx.lowering import LoweringError, lower


@dataclasses.dataclass
class ExportTask:
    """The arguments of an export, except the exporter."""

    model: Any
    inputs: Inputs
    output_names: Any
    dynamic_axes: Any
    dynamic_shapes: Any
    opset: int
    target: str
    checks: Sequence[str]
    libraries: Sequence[Any]
    initializers_as_inputs: bool
    settings: torch_arguments.ExporterSettings
    multiples: Mapping[tuple[str, int], int] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass
class _Made:
    """A checked model. uncompared: Why it could not be compared with PyTorch; empty if it was."""

    proto: onnx.ModelProto
    uncompared: str


def with_any_exporter(task: ExportTask) -> onnx.ModelProto:
    """Exports with the first exporter whose file passes all checks; if neither file could be
    compared with PyTorch, with the first that writes one."""
    errors: dict[str, Exception] = {}
    uncompared: list[tuple[_Made, list[warnings.WarningMessage]]] = []
    for exporter in torch_arguments.EXPORTERS:
        try:
            with warnings.catch_warnings(record=True) as caught:
                made = _made(task, exporter)
        except (ExportCheckError, LoweringError, ValueError, TypeError, RuntimeError) as error:
            errors[exporter] = error
            continue
        if not made.uncompared:
            return _with_warnings(made, caught)
        uncompared.append((made, caught))
    if uncompared:
        return _with_warnings(*uncompared[0])
    first = errors["dynamo"]
    said = "\n".join(f"{name}: {failures.text(error)}" for name, error in errors.items())
    raise RuntimeError(f"export: neither exporter makes a right file.\n{said}") from first


def _with_warnings(made: _Made, caught: Sequence[warnings.WarningMessage]) -> onnx.ModelProto:
    """The model, after the warnings of its export only."""
    for item in caught:
        warnings.warn_explicit(item.message, item.category, item.filename, item.lineno)
    return made.proto


def with_one_exporter(task: ExportTask, exporter: str) -> onnx.ModelProto:
    """With one exporter; where torch fails, the error says whether the other would do."""
    error: failures.ExporterError | ExportCheckError | finishing.InvalidModelError
    try:
        return _made(task, exporter).proto
    except (failures.ExporterError, finishing.InvalidModelError) as raised:
        error = raised
    except ExportCheckError as raised:
        if not raised.elsewhere:
            raise
        error = raised
    if isinstance(error, failures.ExporterError) and not error.known:
        _refuse_what_does_not_run(task)
    # Not inside of except: the second error would seem to follow from the first.
    said = _other(task, exporter)
    if isinstance(error, failures.ExporterError):
        error.add(said)
        raise error.complete() from error.__cause__
    if isinstance(error, finishing.InvalidModelError):
        raise RuntimeError(f"{error} {said}") from error.__cause__
    raise ExportCheckError(error.check, f"{error.text} {said}") from error.__cause__


def _refuse_what_does_not_run(task: ExportTask) -> None:
    """Where PyTorch does not run the model either, no exporter is to blame."""
    args, kwargs = task.inputs.call()
    try:
        with guards.unchanged(task.model):
            guards.runnable(task.model)(*args, **kwargs)
    except Exception as error:  # the user's model, which may raise anything
        raise RuntimeError(failures.of_the_model(error)) from error


def _other(task: ExportTask, exporter: str) -> str:
    """Whether the other exporter makes a right file, in a sentence."""
    (other,) = [name for name in torch_arguments.EXPORTERS if name != exporter]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            quiet = dataclasses.replace(task.settings, verbose=False)
            made = _made(dataclasses.replace(task, settings=quiet), other)
    except Exception as error:
        return f'exporter="{other}" was tried and fails too: {failures.reason(error)}.'
    if made.uncompared:
        return (
            f'exporter="{other}" was tried: it exports the model, but the file could not be '
            f"compared with PyTorch ({made.uncompared})."
        )
    return (
        f'exporter="{other}" was tried: it exports the model and passes all checks; '
        'exporter="auto" takes whichever does.'
    )


def _made(task: ExportTask, exporter: str) -> _Made:
    """The checked model, with one exporter."""
    recorded = Recorded()
    with contextlib.nullcontext() if task.settings.verbose else exporters.without_own_messages():
        written, program = _exported(task, exporter, recorded)
    named_outputs.refuse_more(task.output_names or (), written)
    keys = recorded.keys if program is None else named_outputs.keys_of_program(program)
    renamed = named_outputs.name_by_keys(written, keys, task.output_names or ())
    recorded.origins = {renamed.get(name, name): said for name, said in recorded.origins.items()}
    versions.state(written)
    torch_arguments.set_versions(written, task.settings.custom_opsets)
    finishing.drop_left_out(written)
    proto = lower(written) if task.target == "onnx" else add_function_bodies(written)
    finishing.set_lowest_ir_version(proto)
    finishing.add_shapes(proto)
    if task.initializers_as_inputs:
        finishing.add_initializers_to_inputs(proto)
    exported = guards.Exported(
        task.model, task.inputs, written, proto, exporter, task.opset, program,
        task.libraries, _axes.limits(task.inputs, task.dynamic_shapes), task.multiples,
        _axes.asked(task.inputs, task.dynamic_axes, task.dynamic_shapes), recorded,
    )  # fmt: skip
    if not files.is_large(proto):
        try:
            finishing.refuse_invalid(
                proto,
                written,
                functools.partial(dtypes.advice, task.model, task.inputs, "bfloat16"),
            )
        except finishing.InvalidModelError as error:
            where = guards.origin_of_failure(exported, error, error.known)
            raise finishing.InvalidModelError(f"{error} {where}".rstrip()) from error.__cause__
    with exporters.without_own_messages():
        guards.run(exported, task.checks)
    return _Made(proto, exported.uncompared)


def _exported(task: ExportTask, exporter: str, recorded: Recorded) -> tuple[onnx.ModelProto, Any]:
    """The model from torch's exporter, and the program from which torch.export made it."""
    model, inputs = task.model, task.inputs
    names = (name for name, _ in getattr(model, "named_modules", list)())
    recorded.parametrized = any("parametrizations" in name.split(".") for name in names)
    if exporter == "dynamo":
        exporters.refuse_scripted(model)
        longer = _enlarged(task)
        shapes = task.dynamic_shapes
        if task.dynamic_axes is not None:
            shapes = _axes.shapes_from_axes(longer, task.dynamic_axes, task.output_names)
        strict = "opset" in task.checks
        arguments = (
            model,
            longer,
            task.output_names,
            shapes,
            task.opset,
            strict,
            recorded,
            task.settings,
        )
        call: Any = functools.partial(exporters.dynamo, *arguments)
    else:
        exporters.refuse_opset(task.opset)
        axes = _axes.named_axes(inputs, task.dynamic_axes, task.output_names)
        axes = axes or _axes.axes_from_shapes(inputs, task.dynamic_shapes)
        call = functools.partial(
            exporters.torchscript,
            model,
            inputs,
            task.output_names,
            axes,
            task.opset,
            recorded,
            task.settings,
        )
    try:
        with module_state.restored(model):
            result = call()
    except Exception as error:  # torch's errors share no base class
        if isinstance(error, LoweringError):
            raise
        refusal = failures.refusal_of_ours(error)
        if refusal is not None:
            raise failures.with_place(refusal, error, recorded) from None
        dynamic = _axes.asked(inputs, task.dynamic_axes, task.dynamic_shapes)
        raise failures.ExporterError(
            error, exporter, inputs, task.opset, recorded, dynamic
        ) from error
    if exporter != "dynamo":
        return result, None
    name_axes(result[0], _axes.titles(inputs, task.dynamic_axes, task.dynamic_shapes))
    return result


def _enlarged(task: ExportTask) -> Inputs:
    """The inputs with length 2 instead of 1 on dynamic axes, and with 2 * n instead of n on those
    that are named "n*h", if PyTorch accepts that.

    torch.export decides by the example what is broadcast, and whether an axis may be dynamic at
    all.
    """
    inputs = task.inputs
    examples = {slot.name: inputs.tensor(slot) for slot in inputs.slots}
    changes: dict[str, dict[int, int]] = {}
    for name, axis in _axes.asked(inputs, task.dynamic_axes, task.dynamic_shapes):
        multiple = task.multiples.get((name, axis), 1)
        if examples[name].shape[axis] == multiple:
            changes.setdefault(name, {})[axis] = 2 * multiple
    if not changes:
        return inputs
    longer = inputs.replaced({n: resized(examples[n], lengths) for n, lengths in changes.items()})
    args, kwargs = longer.call()
    try:
        with guards.unchanged(task.model):
            guards.runnable(task.model)(*args, **kwargs)
    except Exception as error:
        _refuse_what_does_not_run(task)  # with the example itself
        name, lengths = next(iter(changes.items()))
        axis, length = next(iter(lengths.items()))
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise ValueError(
            f"export: dynamic_axes: {name}: got an example of length {length // 2} on axis {axis}, "
            f"expected {length} or more: torch.export takes {length // 2} for a constant there, "
            f"and PyTorch does not run the model with {length}: {reason}"
        ) from error
    return longer
