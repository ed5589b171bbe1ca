"""`export`: a torch model to a checked ONNX model, with either of torch's exporters."""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import IO, Any

import onnx
import torch

from myops import _given
from myops._checked import callers_level, checked
from myops.onnx import guards
from myops.onnx.exporting import dynamic_axes as _axes
from myops.onnx.exporting import exporters, named_outputs, torch_arguments
from myops.onnx.exporting.checked_export import ExportTask, with_any_exporter, with_one_exporter
from myops.onnx.exporting.inputs import Inputs
from myops.onnx.graph import writing
from myops.onnx.symbolics import (
    adaptive_pooling,
    arctangent,
    cosine,
    cross_entropy,
    distances,
    error_function,
    floor_division,
    interpolate,
    log_sigmoid,
    logarithms,
    negative_indices,
    older_exporter,
    products,
    repeated_indices,
    scatter_reduce,
    sorting,
    torchvision,
    transposed_convolution,
    unflatten,
)

DEFAULT_OPSET = 20  # torch's own default since 2.9, and the highest that both exporters know
_TRANSLATIONS = (
    adaptive_pooling, arctangent, cosine, cross_entropy, distances, error_function,
    floor_division, log_sigmoid, logarithms, products, scatter_reduce, sorting,
    transposed_convolution, unflatten,
)  # fmt: skip


@checked(
    # It takes programs, too, and says more about the others.
    leave=("model", "f", "dynamic_axes", "dynamo", "verify", "optimize", "verbose",
           "custom_opsets"),
)  # fmt: skip
def export(
    model: torch.nn.Module,
    args: Any = (),
    f: str | os.PathLike[str] | IO[bytes] | None = None,
    *,
    kwargs: Mapping[str, Any] | None = None,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    dynamic_axes: Mapping[str, Mapping[int, str] | Sequence[int]] | None = None,
    dynamic_shapes: Any = None,
    opset_version: int | None = None,
    exporter: str | None = None,
    target: str = "myops",
    constants: Sequence[str] = (),
    keep_initializers_as_inputs: bool = False,
    external_data: bool = False,
    skip_checks: str | Sequence[str] = (),
    libraries: Sequence[str | os.PathLike[str]] = (),
    register_torchvision: bool = True,
    register_interpolate: bool | None = None,
    dynamo: bool | None = None,
    do_constant_folding: bool = True,
    optimize: bool = True,
    verify: bool = True,
    verbose: bool | None = None,
    custom_opsets: Mapping[str, int] | None = None,
    custom_translation_table: Mapping[Any, Callable[..., Any]] | None = None,
    report: bool = False,
    profile: bool = False,
    dump_exported_program: bool = False,
    artifacts_dir: str | os.PathLike[str] = ".",
    **unknown: Any,
) -> onnx.ModelProto:
    """Exports a model to ONNX; ops of this library become nodes of the domain "myops".

    The model is exported in eval mode and left in the mode it was in. The result is checked with
    onnx.checker, its shapes are inferred, and then it is compared with the model in PyTorch:

    - "opset": the file's opset is the one asked for;
    - "lost_node": every custom operator that the model calls is in the graph;
    - "frozen_input": an input that changes the result in PyTorch changes it in the file;
    - "numbers": ONNX Runtime computes what PyTorch computes, at the example inputs, at changed
      ones, and at other lengths where axes are dynamic.

    The file is written only if all checks pass; docs/export.md says what to do if one fails.

    It accepts the arguments of torch.onnx.export. Two have another default: external_data is False,
    and verify True. Those without a meaning here (export_params, training, operator_export_type,
    export_modules_as_functions, autograd_inlining, and fallback of older releases) are accepted
    with the value for what happens in any case, such as export_params=True; with other values they
    are refused, and the message says what to do instead.

    Args:
        model: A torch.nn.Module (for "dynamo" also a torch.export.ExportedProgram, for
            "torchscript" also a scripted module). Of a module wrapped by torch.compile,
            DataParallel or DistributedDataParallel, the original module is exported.
        args: Example inputs: a tensor or a tuple, as for `model(*args, **kwargs)`. Python numbers
            become inputs of the graph, tensors of rank 0 (int64, float32, bool); so do the
            numbers in a torch.Size.
        f: File to write: a path, or an object open for writing bytes. None: only return.
        kwargs: Example inputs by name.
        input_names: Names of the graph inputs. Default: those of the parameters of forward.
        output_names: Names of the graph outputs; none may be the name of an input too. Default: the
            keys, where forward returns a dict; else the exporter's.
        dynamic_axes: {input name: {axis: name of the length}} or {input name: [axes]}, for both
            exporters. "32*h" is a length that always is a multiple of 32. Dynamic axes of outputs
            follow from those of inputs; names of outputs are accepted, as by torch.
        dynamic_shapes: The same in the form of torch.export, by parameter of forward, for both
            exporters. Not together with dynamic_axes.
        opset_version: ai.onnx opset of the result, default 20. "torchscript" writes 7 to 20 (above
            20 the model is converted), "dynamo" 18 and up (below 18 the model is converted).
        exporter: "dynamo" (the default, based on torch.export), "torchscript", or "auto": the
            first of them whose file passes all checks; one that cannot be compared with PyTorch
            only if neither can.
        target: "myops": our nodes, each with a function body of standard operators, so that
            ONNX Runtime runs the model with our library and without it. "onnx": standard
            operators only.
        constants: Parameters of forward whose numbers become constants of the model instead of
            inputs. A bool on which forward branches always becomes a constant, with a warning if
            it is not listed here.
        keep_initializers_as_inputs: Whether weights are inputs of the graph too, with their
            values as defaults.
        external_data: Whether the weights are stored in a separate file, NAME.data beside the
            model. Over 2 GB they always are.
        skip_checks: Names of checks to leave out, "all" for all of them. Without "opset", a model
            that torch cannot convert keeps the opset that torch gives it.
        libraries: Custom-op libraries for ONNX Runtime that the model needs in addition to ours.
        register_torchvision: Whether torchvision's deform_conv2d, where the model calls it, becomes
            myops::DeformConv, as after `myops.onnx.register_torchvision()`.
        register_interpolate: True: every interpolation of torch becomes myops::Resize, as after
            `myops.onnx.register_interpolate()`. None: those with antialias=True, which torch's
            exporters do not support or write wrongly, and all of them while
            `myops.patch_interpolate` is active. False: none.
        dynamo: torch's argument for the exporter: True for "dynamo", False for "torchscript". Not
            together with exporter.
        do_constant_folding: False: constants are not folded. In "dynamo" this is optimize=False.
        optimize: False: "dynamo" does not rewrite the graph. For that exporter only.
        verify: False leaves out the checks that run the file, "frozen_input" and "numbers". torch's
            own verification, which finds less, is never run.
        verbose: True: shows what torch's exporter prints.
        custom_opsets: {domain: version} for other domains among the model's nodes.
        custom_translation_table: {operator of torch: function in ONNX Script}, for "dynamo" only;
            `register_symbolic` is for either.
        report, profile, dump_exported_program: True: "dynamo" writes a report in Markdown, measures
            itself (in the report, or printed with verbose=True; needs pyinstrument), writes the
            torch.export.ExportedProgram. For that exporter only.
        artifacts_dir: The folder for these files.

    Returns:
        The model that was written.

    Raises:
        TypeError: An argument is unknown.
        ValueError: An argument has an invalid value, or no meaning here.
        RuntimeError: torch cannot export the model; the text says where and why, what to write
            instead, and whether the other exporter can.
        ExportCheckError: A check failed; `error.check` is its name. Nothing was written.
        LoweringError: The opset cannot express a node (target="onnx"), or the model could not be
            converted to it.

    Warns:
        ExportCheckWarning: A check could not be made, or only a part of it.
        MissingBodyWarning: A node without a function body, see `add_function_bodies`.

    Example:
        >>> class Enlarge(torch.nn.Module):
        ...     def forward(self, image, factor):
        ...         return myops.interpolate(image, scale_factor=factor, mode="bicubic")
        >>> model = myops.onnx.export(
        ...     Enlarge(), (torch.rand(1, 3, 8, 8), torch.tensor(2.0)), "enlarge.onnx",
        ...     dynamic_axes={"image": {2: "height", 3: "width"}})
    """
    torch_arguments.refuse(unknown, export)
    exporter = torch_arguments.exporter(exporter, dynamo)
    settings = torch_arguments.settings(
        exporter, verbose=verbose, optimize=optimize, do_constant_folding=do_constant_folding,
        custom_opsets=custom_opsets, custom_translation_table=custom_translation_table,
        report=report, profile=profile, dump_exported_program=dump_exported_program,
        artifacts_dir=artifacts_dir,
    )  # fmt: skip
    if target not in ("myops", "onnx"):
        raise ValueError(f'export: target: got {target!r}, expected "myops" or "onnx"')
    if dynamic_axes is not None and dynamic_shapes is not None:
        raise ValueError("export: dynamic_axes, dynamic_shapes: got both, expected one of them")
    if not isinstance(dynamic_axes, (Mapping, type(None))):
        raise ValueError(
            f"export: dynamic_axes: got {type(dynamic_axes).__name__}, expected a dict such as "
            '{"image": {2: "height"}}, by the names of inputs and outputs'
        )
    checks = torch_arguments.checks(guards.chosen(skip_checks), verify)
    writing.refuse(f, external_data)
    model = _unwrapped(model)
    args = tuple(args) if isinstance(args, (tuple, list)) else (args,)
    if input_names is not None:
        input_names = _given.names("export: input_names", input_names)
    if output_names is not None:
        output_names = _given.names("export: output_names", output_names)
    constants = _given.names("export: constants", constants)
    opset = DEFAULT_OPSET
    if opset_version is not None:
        newest = onnx.defs.onnx_opset_version()
        opset = _given.whole("export: opset_version", opset_version, 1, newest)
    inputs = Inputs(model, args, dict(kwargs or {}), input_names, constants)
    named_outputs.refuse(output_names or (), inputs)
    _axes.check_names(inputs, dynamic_axes or {}, output_names)
    task = ExportTask(
        model, inputs, output_names, dynamic_axes, dynamic_shapes,
        opset, target, checks, libraries,
        keep_initializers_as_inputs, settings,
    )  # fmt: skip
    task.multiples = _axes.multiples(inputs, dynamic_axes)
    # With gradients, some functions of torch consist of other operators.
    with exporters.evaluating(model), torch.no_grad():
        _build_in_flags(model, inputs)
        with contextlib.ExitStack() as stack:
            stack.enter_context(torchvision.registered(register_torchvision))
            stack.enter_context(interpolate.registered(register_interpolate))
            for translations in _TRANSLATIONS:
                stack.enter_context(translations.registered())
            stack.enter_context(negative_indices.counted_from_the_end())
            stack.enter_context(repeated_indices.added())
            stack.enter_context(older_exporter.completed())
            if exporter == "auto":
                proto = with_any_exporter(task)
            else:
                proto = with_one_exporter(task, exporter)
    writing.write(proto, f, external_data)
    return proto


def _unwrapped(model: Any) -> Any:
    """The original module, if torch.compile or a module that distributes the work wraps it.

    Their forward has no named parameters, and an exporter exports the original module in any case.
    """
    while True:
        if isinstance(model, torch._dynamo.OptimizedModule):
            model = model._orig_mod
        elif isinstance(model, (torch.nn.DataParallel, torch.nn.parallel.DistributedDataParallel)):
            model = model.module
        else:
            return model


def _build_in_flags(model: Any, inputs: Inputs) -> None:
    """Makes bools constants that forward reads into Python: they select a branch of the code and
    cannot be inputs."""
    if isinstance(model, torch.jit.ScriptModule):
        return  # its branches become If nodes
    flags = [slot for slot in inputs.slots if slot.number is bool]
    for name in dict.fromkeys(slot.parameter for slot in flags):
        mine = [slot for slot in flags if slot.parameter == name]
        if any(guards.is_read(model, inputs, slot) for slot in mine):
            values = [inputs.tensor(slot).item() for slot in mine]
            warnings.warn(
                f"export: {name}={values[0] if len(values) == 1 else values} is built into the "
                f"model, because forward branches on it. To say that this is meant: "
                f"constants=[{name!r}]",
                guards.ExportCheckWarning,
                stacklevel=callers_level(),
            )
            inputs.build_in([name])
