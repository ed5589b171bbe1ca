"""`export`: a torch model to a checked ONNX model, with either of torch's exporters."""

from __future__ import annotations

import contextlib
import difflib
import inspect
import io
import logging
import os
import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import IO, Any

import onnx
import torch

from myops.onnx import _dynamic_axes as _axes
from myops.onnx import _scopes, translation
from myops.onnx.bodies import add_function_bodies
from myops.onnx.lowering import LoweringError, convert, lower

DEFAULT_OPSET = 20  # torch's own default since 2.9, and the highest that both exporters know
_TORCHSCRIPT_OPSETS = (7, 20)
_DYNAMO_LOWEST = 18  # below, torch exports for 18 and converts
_TALK = (  # of torch's exporters about their own code
    "You are using the legacy TorchScript-based",
    "The feature will be removed. Please remove usage of this function",
    r".*isinstance\(treespec, LeafSpec\)",
    r"# The axis name: (\S+) will not be used, since it shares .* another axis: \1\.",
)
_LIMIT = 2**31 - 1  # bytes in one protobuf file


def export(
    model: torch.nn.Module,
    args: Any,
    f: str | os.PathLike[str] | IO[bytes] | None = None,
    *,
    kwargs: Mapping[str, Any] | None = None,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    dynamic_axes: Mapping[str, Mapping[int, str] | Sequence[int]] | None = None,
    dynamic_shapes: Any = None,
    opset_version: int | None = None,
    exporter: str = "dynamo",
    target: str = "myops",
    **unknown: Any,
) -> onnx.ModelProto:
    """Exports a model to ONNX; what it holds of this library becomes nodes of the domain "myops".

    The model is exported in eval mode and left in the mode it was in. The result is checked with
    onnx.checker, its shapes are inferred, and its ai.onnx opset is the one asked for.

    Args:
        model: A torch.nn.Module (for "dynamo" also a torch.export.ExportedProgram, for
            "torchscript" also a scripted module).
        args: Example inputs: a tensor or a tuple, as for `model(*args, **kwargs)`.
        f: File to write: a path, or an object open for writing bytes. None: only return.
        kwargs: Example inputs by name.
        input_names: Names of the graph inputs. Default: those of the parameters of forward.
        output_names: Names of the graph outputs.
        dynamic_axes: {input name: {axis: name of the length}} or {input name: [axes]}; either
            exporter takes it. Axes of outputs follow from those of inputs; names of outputs are
            accepted for torch's sake.
        dynamic_shapes: The same in the form of torch.export, by parameter of forward; either
            exporter takes it. Not together with dynamic_axes.
        opset_version: ai.onnx opset of the result, default 20. "torchscript" knows 7 to 20 (above
            20 the model is converted), "dynamo" 18 and up (below 18 the model is converted).
        exporter: "dynamo" (on top of torch.export) or "torchscript".
        target: "myops": our nodes, each with a function body of standard operators, so that
            ONNX Runtime runs the model with our library and without it. "onnx": standard
            operators only.

    Returns:
        The model that was written.

    Raises:
        TypeError: An argument that this function does not know.
        ValueError: An argument with a value that makes no sense.
        LoweringError: The opset cannot express a node (target="onnx"), or the model could not be
            converted to it.

    Warns:
        MissingBodyWarning: A node without a function body, see `add_function_bodies`.

    Example:
        >>> class Enlarge(torch.nn.Module):
        ...     def forward(self, image, factor):
        ...         return myops.interpolate(image, scale_factor=factor, mode="bicubic")
        >>> model = myops.onnx.export(
        ...     Enlarge(), (torch.rand(1, 3, 8, 8), torch.tensor(2.0)), "enlarge.onnx",
        ...     dynamic_axes={"image": {2: "height", 3: "width"}})
    """
    _refuse_unknown(unknown)
    _one_of("exporter", exporter, ("dynamo", "torchscript"))
    _one_of("target", target, ("myops", "onnx"))
    if dynamic_axes is not None and dynamic_shapes is not None:
        raise ValueError("export: dynamic_axes, dynamic_shapes: got both, expected one of them")
    opset = DEFAULT_OPSET if opset_version is None else int(opset_version)
    args = tuple(args) if isinstance(args, (tuple, list)) else (args,)
    inputs = _axes.Inputs(model, args, dict(kwargs or {}), input_names)
    with _evaluating(model), _quiet():
        if exporter == "dynamo":
            shapes = inputs.shapes_from_axes(dynamic_axes, output_names) or dynamic_shapes
            proto = _export_dynamo(model, inputs, output_names, shapes, opset)
        else:
            axes = inputs.named_axes(dynamic_axes, output_names)
            axes = axes or inputs.axes_from_shapes(dynamic_shapes)
            proto = _export_torchscript(model, inputs, output_names, axes, opset)
    proto = lower(proto) if target == "onnx" else add_function_bodies(proto)
    _set_lowest_ir_version(proto)
    _add_shapes(proto)
    _check_and_write(proto, f)
    return proto


def _refuse_unknown(unknown: Mapping[str, Any]) -> None:
    known = [name for name in inspect.signature(export).parameters if name != "unknown"]
    for name in unknown:
        near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
        hint = f". Did you mean {near[0]}?" if near else f": it knows {', '.join(known)}"
        raise TypeError(f"export: got an unknown argument {name!r}{hint}")


def _one_of(name: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        listed = " or ".join(f'"{choice}"' for choice in choices)
        raise ValueError(f"export: {name}: got {value!r}, expected {listed}")


def _export_dynamo(
    model: Any, inputs: _axes.Inputs, output_names: Any, shapes: Any, opset: int
) -> onnx.ModelProto:
    translation.register()
    program = torch.onnx.export(
        model,
        inputs.args,
        kwargs=inputs.kwargs or None,
        input_names=inputs.given_names,
        output_names=output_names,
        opset_version=opset,
        dynamo=True,
        dynamic_shapes=shapes,
        verbose=False,
    )
    assert program is not None
    proto = program.model_proto
    got = _scopes.onnx_opset(proto)
    if got == opset:
        return proto
    try:  # torch only logs why it could not convert; ask again for the reason
        return convert(proto, opset)
    except LoweringError as error:
        advice = ', or exporter="torchscript"' if opset <= _TORCHSCRIPT_OPSETS[1] else ""
        raise LoweringError(
            f"export: opset_version: got {opset}, but torch's exporter only gives opset {got} for "
            f"this model. {error.__cause__}. Use opset_version={got}{advice}."
        ) from error


def _export_torchscript(
    model: Any, inputs: _axes.Inputs, output_names: Any, axes: Any, opset: int
) -> onnx.ModelProto:
    lowest, highest = _TORCHSCRIPT_OPSETS
    if opset < lowest:
        raise ValueError(f"export: opset_version: got {opset}, expected {lowest} or more")
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.onnx")
        torch.onnx.export(
            model,
            inputs.args,
            path,
            kwargs=inputs.kwargs or None,
            input_names=inputs.names,
            output_names=output_names,
            opset_version=min(opset, highest),
            dynamo=False,
            dynamic_axes=axes,
        )
        proto = onnx.load(path)
    return proto if opset <= highest else convert(proto, opset)


@contextlib.contextmanager
def _evaluating(model: Any) -> Iterator[None]:
    """Eval mode inside; afterwards every submodule as it was."""
    training = [module for module in getattr(model, "modules", list)() if module.training]
    for module in training:
        module.training = False
    try:
        yield
    finally:
        for module in training:
            module.training = True


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Without torch's talk about itself; what it says about the model still comes through."""
    loggers = [logging.getLogger(name) for name in ("torch.onnx", "onnxscript")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            for talk in _TALK:
                warnings.filterwarnings("ignore", talk)
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


def _set_lowest_ir_version(model: onnx.ModelProto) -> None:
    """The file format that opset and functions need and no newer, for the sake of old runtimes."""
    opset = _scopes.onnx_opset(model)
    versions = {row[2]: row[1] for row in onnx.helper.VERSION_TABLE}
    needed = versions.get(opset, model.ir_version)
    if opset <= 10:
        needed = max(needed, 4)  # before, every initializer had to be an input
    model.ir_version = max(needed, 8) if model.functions else needed


def _add_shapes(model: onnx.ModelProto) -> None:
    inferred = next(_scopes.scopes(model)).inferred
    del model.graph.value_info[:]
    model.graph.value_info.extend(inferred.value_info)
    for output, known in zip(model.graph.output, inferred.output, strict=True):
        output.CopyFrom(known)


def _check_and_write(model: onnx.ModelProto, f: Any) -> None:
    small = model.ByteSize() < _LIMIT
    if small:
        onnx.checker.check_model(model, full_check=True)
    if isinstance(f, (str, os.PathLike)):
        if small:
            onnx.save(model, os.fspath(f))
            return
        # A copy, because saving with external data takes the weights out of the model.
        large = onnx.ModelProto()
        large.CopyFrom(model)
        weights = os.path.basename(os.fspath(f)) + ".data"
        onnx.save(large, os.fspath(f), save_as_external_data=True, location=weights)
        onnx.checker.check_model(os.fspath(f), full_check=True)
    elif f is not None:
        if not small:
            raise ValueError("export: f: got a file object, expected a path: over 2 GB do not fit")
        f.write(model.SerializeToString())
