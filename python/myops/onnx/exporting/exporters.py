"""Calls torch's two exporters, and hides the messages that they print about themselves."""

from __future__ import annotations

import contextlib
import functools
import io
import logging
import os
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import onnx
import torch

import myops
from myops._torch import module_state
from myops.onnx.exporting import (
    digit_names,
    exact_doubles,
    exact_optimizer,
    grown_buffers,
    linspace,
    named_outputs,
    unique_names,
)
from myops.onnx.exporting.computed_once import computed_once
from myops.onnx.exporting.inputs import Inputs
from myops.onnx.exporting.recorded import Recorded, recording_torch_export
from myops.onnx.exporting.replaced_forward import (
    building_in,
    by_position,
    has_integers,
    reading_integers,
)
from myops.onnx.exporting.restored_runs import runs_restored, torchscript_utils
from myops.onnx.exporting.torch_arguments import ExporterSettings
from myops.onnx.exporting.trace_reads import recording_trace
from myops.onnx.graph import other_opsets, scopes
from myops.onnx.graph.other_opsets import TORCHSCRIPT_OPSETS
from myops.onnx.lowering import LoweringError, convert
from myops.onnx.symbolics import lengths_as_numbers, register, registry, torchvision, translation

_OWN_MESSAGES = (  # messages of torch's exporters about their own code
    "You are using the legacy TorchScript-based",
    "The feature will be removed. Please remove usage of this function",
    "# ONNX model has different number of inputs than the flatten dynamic_shapes",
    r".*isinstance\(treespec, LeafSpec\)",
    r"# The axis name: (\S+) will not be used, since it shares .* another axis: \1\.",
    "no signature found for <torch.ScriptMethod",
    r"`torch\.jit\.trace(_method)?` is deprecated",
    "_check_is_size will be removed",
    "The tensor attributes? .* assigned during export",  # as LSTM and GRU do in every call
    "Constant folding - Only steps=1 can be constant folded",
    "None of the inputs have requires_grad=True",  # torch.utils.checkpoint, as gradients are off
    # Not needed: the check "numbers" runs the file at other lengths of a dynamic batch.
    "Exporting a model to ONNX with a batch_size other than 1, with a variable length",
)
_TORCH = os.path.join(os.path.dirname(os.path.abspath(torch.__file__)), "")


def dynamo(
    model: Any,
    inputs: Inputs,
    output_names: Any,
    shapes: Any,
    opset: int,
    strict: bool,
    recorded: Recorded,
    settings: ExporterSettings,
) -> tuple[onnx.ModelProto, torch.export.ExportedProgram]:
    """Exports through torch.export.

    Args:
        strict: Whether another opset than the requested one is an error.
        recorded: Receives what torch.export decides about lengths.
    """
    translation.register_now()
    arguments = (model, inputs, output_names, shapes, opset, settings)
    call = functools.partial(_call_dynamo, *arguments)
    with (
        recording_torch_export(recorded),
        exact_optimizer.exact(),
        exact_doubles.kept(),
        unique_names.kept(),
        linspace.kept(),
        runs_restored(torch.export, "export", model),
        grown_buffers.not_written(),
    ):
        program = _with_or_without_integers(model, inputs, call)
    exact_doubles.restore(program)  # where the optimizer is off
    unique_names.separate(program.model)  # torch renames inputs and outputs last
    proto, exported = program.model_proto, program.exported_program
    got = scopes.onnx_opset(proto)
    if got == opset:
        return proto, exported
    try:  # torch only logs why it could not convert; ask again for the reason
        return convert(proto, opset), exported
    except LoweringError as error:
        if not strict:
            return proto, exported
        first, last = TORCHSCRIPT_OPSETS
        advice = ', or exporter="torchscript"' if first <= opset <= last else ""
        reason = other_opsets.why(error.__cause__ or error)
        raise LoweringError(
            f"export: opset_version: got {opset}, but torch's exporter only gives opset {got} for "
            f"this model: {reason}. Use opset_version={got}{advice}."
        ) from error


def refuse_scripted(model: Any) -> None:
    """Refuses scripted modules, which torch.export cannot read."""
    if isinstance(model, torch.jit.ScriptModule):
        raise ValueError(
            'export: model: got a scripted module for exporter="dynamo", which traces Python code '
            'and cannot read one. Use exporter="torchscript", or give the module as it was '
            "before torch.jit.script."
        )


def _with_or_without_integers(model: Any, inputs: Inputs, call: Callable[[], Any]) -> Any:
    try:
        return call()
    except Exception:  # torch's errors share no base class
        # A position or a length may be a tensor: torch.export can trace the integer in it where it
        # cannot trace the tensor.
        if not has_integers(inputs) or isinstance(model, torch.export.ExportedProgram):
            raise
        try:
            with reading_integers(model):
                program = call()
        except Exception:  # the first error is the one that the user should see
            program = None
        if program is None:
            raise
    return program


def _call_dynamo(
    model: Any,
    inputs: Inputs,
    output_names: Any,
    shapes: Any,
    opset: int,
    settings: ExporterSettings,
) -> Any:
    with registry.exporting(opset), computed_once():
        return torch.onnx.export(
            model,
            _positional(inputs.args, inputs.kwargs),
            kwargs=inputs.kwargs or None,
            input_names=inputs.names,
            output_names=output_names,
            opset_version=opset,
            dynamo=True,
            dynamic_shapes=shapes,
            verbose=settings.verbose,
            optimize=settings.optimize,
            custom_translation_table={
                **lengths_as_numbers.translations(),
                **torchvision.translations(),
                **register.translations(opset),
                **settings.translations,
            },
            **settings.artifacts,
        )


def _positional(args: tuple[Any, ...], kwargs: Any) -> tuple[Any, ...]:
    """The arguments by position; after a dict as last argument follows an empty dict, because
    torch takes a dict at the end for keyword arguments."""
    ambiguous = not kwargs and args and isinstance(args[-1], dict)
    return (*args, {}) if ambiguous else args


def torchscript(
    model: Any,
    inputs: Inputs,
    output_names: Any,
    axes: Any,
    opset: int,
    recorded: Recorded,
    settings: ExporterSettings,
) -> onnx.ModelProto:
    """Exports through a trace, or from the program of a scripted module."""
    highest = TORCHSCRIPT_OPSETS[1]
    others = digit_names.stand_ins([*inputs.names, *(output_names or ())])
    myops._public()  # registers our ops, which a scripted module may contain
    with (
        tempfile.TemporaryDirectory() as folder,
        _keeping_loops(model),
        registry.exporting(opset),
        by_position(model, inputs, recorded),
        building_in(model, inputs) as (args, kwargs),
        recording_trace(recorded),
        # Before it reads the weights for the file, torch traces a module, and runs a scripted one.
        runs_restored(torch.jit, "_get_trace_graph", model),
        runs_restored(torchscript_utils(), "_get_example_outputs", model),
    ):
        path = os.path.join(folder, "model.onnx")
        given = _positional(args, kwargs)
        write = functools.partial(
            torch.onnx.export,
            kwargs=kwargs or None,
            input_names=[others.get(name, name) for name in inputs.names],
            output_names=output_names and [others.get(name, name) for name in output_names],
            opset_version=min(opset, highest),
            dynamo=False,
            dynamic_axes=axes and {others.get(name, name): item for name, item in axes.items()},
            verbose=settings.verbose,
            do_constant_folding=settings.optimize,
        )
        try:
            write(model, given, path)
        except RuntimeError as error:
            named_outputs.refuse_as_torch(error)
            # (The exporter's own trace cannot call scripted modules inside the model.)
            if "is not part of the active trace" not in str(error) or kwargs:
                raise
            with module_state.restored(model):
                traced = torch.jit.trace(model, given, check_trace=False)
            with runs_restored(torchscript_utils(), "_get_example_outputs", traced):
                write(traced, given, path)
        proto = onnx.load(path)
    digit_names.put_back(proto, others)
    return proto if opset <= highest else convert(proto, opset)


def refuse_opset(opset: int) -> None:
    """Refuses opsets that the TorchScript exporter does not write."""
    if opset < TORCHSCRIPT_OPSETS[0]:
        raise ValueError(
            f"export: opset_version: got {opset}, expected {TORCHSCRIPT_OPSETS[0]} or more"
        )


@contextlib.contextmanager
def _keeping_loops(model: Any) -> Iterator[None]:
    """In this context, a scripted loop over range(self.n) stays a loop; torch would unroll it for a
    small n.

    torch first makes the attributes of the module constants of the program; here, the attributes
    that count a loop are excluded.
    """
    counts = _loop_counts(model) if isinstance(model, torch.jit.ScriptModule) else []
    freeze: Callable[..., Any] = torch._C._freeze_module

    def keeping(module: Any, *args: Any, **kwargs: Any) -> Any:
        if counts and not args and "preservedAttrs" not in kwargs:
            try:
                return freeze(module, counts, **kwargs)
            except RuntimeError:  # an attribute that torch cannot keep: then the loop unrolls
                pass
        return freeze(module, *args, **kwargs)

    torch._C._freeze_module = keeping
    try:
        yield
    finally:
        torch._C._freeze_module = freeze


def _loop_counts(model: torch.jit.ScriptModule) -> list[str]:
    """The attributes, as in "block.n", that count a loop of a scripted module."""
    found = []
    graph: Any = model.inlined_graph  # its nodes live as long as it does
    for loop in graph.findAllNodes("prim::Loop", recurse=True):
        node = next(iter(loop.inputs())).node()
        path: list[str] = []
        while node.kind() == "prim::GetAttr":
            path.insert(0, node.s("name"))
            node = next(iter(node.inputs())).node()
        if path:
            found.append(".".join(path))
    return sorted(set(found))


@contextlib.contextmanager
def evaluating(model: Any) -> Iterator[None]:
    """In this context, the model is in eval mode; afterwards every submodule has its mode again."""
    training = [module for module in getattr(model, "modules", list)() if module.training]
    for module in training:
        module.training = False
    try:
        yield
    finally:
        for module in training:
            module.training = True


@contextlib.contextmanager
def without_own_messages() -> Iterator[None]:
    """In this context, torch's messages about itself are hidden; those about the model are
    shown."""
    # The others have the level of one of these. (Setting a level clears a cache of every logger,
    # and torch has hundreds.)
    names = ("torch", "torch.onnx", "onnxscript", "onnx_ir")
    known: list[tuple[str, Any]] = list(logging.root.manager.loggerDict.items())
    own = [name for name, it in known if name.startswith("torch.") and getattr(it, "level", None)]
    loggers = [logging.getLogger(name) for name in dict.fromkeys([*names, *own])]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(max(logger.level, logging.ERROR))
    try:
        with contextlib.ExitStack() as stack:
            stack.enter_context(warnings.catch_warnings())
            stack.enter_context(contextlib.redirect_stdout(io.StringIO()))
            stack.enter_context(_replaced_stderr())
            if hasattr(torch._C, "_jit_onnx_log"):  # writes from C++, past sys.stdout
                stack.enter_context(mock.patch.object(torch._C, "_jit_onnx_log"))
            for message in _OWN_MESSAGES:
                warnings.filterwarnings("ignore", message)
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


def _replaced_stderr() -> Any:
    stream: Any = _WithoutTorch(sys.stderr)
    return contextlib.redirect_stderr(stream)


class _WithoutTorch:
    """stderr without the lines that torch prints itself, such as whole graphs before an error."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        caller = sys._getframe(1).f_code.co_filename
        return len(text) if caller.startswith(_TORCH) else self._stream.write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
