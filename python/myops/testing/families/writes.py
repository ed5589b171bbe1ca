"""Writes: an op that writes into an input does so in every runtime and tells torch, and exported
programs contain the op without writes instead."""

from __future__ import annotations

import itertools
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch

from myops import _libraries, _numpy_call
from myops._description import OpInfo
from myops.testing import casts, variations
from myops.testing.bits import arrays_of, given_of, to_numpy, to_torch, too_far
from myops.testing.calls import CallOutcome, refusal
from myops.testing.cases import Case
from myops.testing.families.programs import Module, input_names, module_of
from myops.testing.runtimes import session_options
from myops.testing.trial import Trial, reference_outputs

_CAUSE = (
    "an op with an input that is .written() changes that input and nothing else, and gives what "
    "the op of functional_of() gives; a reference returns the same: what the op writes, then its "
    "results"
)
_TORCH_CAUSE = (
    "torch must know what the op writes: the version of the tensor, its gradient, and the op "
    "without writes for programs"
)


def functional_of(info: OpInfo) -> OpInfo:
    """The op without writes that replaces it in programs."""
    for library in _libraries.known():
        for other in library.ops.values():
            if (other.namespace, other.in_place) == (info.namespace, info.name):
                return other
    raise ValueError(
        f"{info.qualified}: got no op without writes in its library, expected one that is "
        f"described with functional_of(describe_{info.name}())"
    )


class Writer(Module):
    """Calls the op on copies; returns the written tensors, then the results."""

    def __init__(self, trial: Trial) -> None:
        super().__init__(trial)
        self.written = places_written(trial)

    def call(self, tensors: Any) -> Any:
        own = [
            tensor * 1 if place in self.written else tensor for place, tensor in enumerate(tensors)
        ]
        result = super().call(own)
        return (*[own[place] for place in self.written], *given_of(result))


def places_written(trial: Trial) -> list[int]:
    """The indices of the tensors that the op writes."""
    numbers = variations.input_of_tensors(trial.tested, trial.case.copied())
    return [
        place
        for place, number in enumerate(numbers)
        if number is not None and trial.tested.info.declared(number).written
    ]


def writes(trial: Trial) -> None:
    """Checks eager calls, other layouts, NumPy, compiled and exported programs, and autograd."""
    if trial.tested.info.onnx_type:
        trial.tally.fail("", "an ONNX node of the op", "none: nodes write nothing", _CAUSE)
    original = trial.case
    places = places_written(trial)
    expected = _without_writes(trial, trial.case)
    cases = [("", trial.case), *variations.layouts(trial.case)]
    cases += [(label, case) for label, case in variations.lengths(trial.case, _axes(trial))]
    cases += [(f"{p} = {n}", case) for p, n, case in _dtypes(trial)]
    for label, case in cases:
        if "expanded" in label:
            continue  # torch refuses such writes
        given = case.copied() if "strided" not in label else _apart(case, original)
        _eager(trial, label, case, given, places)
    _numpy(trial, places)
    _told(trial)
    for who, run in _programs(trial).items():
        try:
            outcome = CallOutcome(arrays_of(run(trial.case.copied().tensors)))
        except Exception as error:  # of torch, of the op
            outcome = CallOutcome([], refusal(error))
        trial.compare_bits("", who, outcome, expected, _TORCH_CAUSE)
    _exported(trial, expected)


def _axes(trial: Trial) -> list[variations.LinkedAxes]:
    trial.case = trial.case.copied()  # the calls that find axes write into it
    return trial.axes


def _dtypes(trial: Trial) -> list[tuple[str, str, Case]]:
    return list(casts.dtypes(trial.tested, trial.case.copied()))


def _without_writes(trial: Trial, case: Case) -> CallOutcome:
    """The outcome of the same call of the op without writes."""
    functional = functional_of(trial.tested.info)
    packet = getattr(getattr(torch.ops, functional.namespace), functional.name)
    wanted = functional.present(case.args, case.kwargs)  # empty tensors stand for the others
    try:
        arrays = arrays_of(packet(*case.args, **case.kwargs))
        return CallOutcome([array for array, given in zip(arrays, wanted, strict=True) if given])
    except Exception as error:  # of the op
        return CallOutcome(
            [], refusal(error).replace(f"{functional.name}: ", f"{trial.tested.name}: ")
        )


def _eager(trial: Trial, label: str, case: Case, given: Case, places: list[int]) -> None:
    """Compares a call with `given`, which it writes into, with that of the op without writes."""
    expected = _without_writes(trial, case)
    before = [to_torch(to_numpy(tensor)) for tensor in given.tensors]
    versions = [tensor._version for tensor in given.tensors]
    try:
        result = trial.tested.function(*given.args, **given.kwargs)
    except Exception as error:  # of the op
        trial.compare_bits(label, "torch", CallOutcome([], refusal(error)), expected, _CAUSE)
        return
    written = [given.tensors[place] for place in places]
    outcome = CallOutcome(arrays_of((*written, *given_of(result))))
    trial.compare_bits(label, "torch", outcome, expected, _CAUSE)
    for place, (tensor, old, version) in enumerate(
        zip(given.tensors, before, versions, strict=True)
    ):
        counted = tensor._version - version
        if (counted > 0) != (place in places):
            trial.tally.fail(
                label, f"{given.labels()[place]}: {counted} writes counted",
                "one or more" if place in places else "none", _TORCH_CAUSE,
            )  # fmt: skip
        if place not in places:
            trial.compare_bits(
                label, given.labels()[place],
                CallOutcome(arrays_of(tensor)), CallOutcome(arrays_of(old)), _CAUSE,
            )  # fmt: skip
    if label or trial.settings.reference is None:
        return
    trial.tally.ran += 1
    judged = reference_outputs(trial.settings.reference, case.having(before))
    got, wanted = too_far(outcome.outputs, judged, trial.tolerance)
    if got:
        trial.tally.fail(label, f"torch: {got}", f"reference: {wanted}", _CAUSE)


def _apart(case: Case, original: Case) -> Case:
    """A case whose tensors have memory of their own, and the strides that they had: a copy of a
    strided tensor would be contiguous, so only those of the original case are copied."""
    kept = {tensor.untyped_storage().data_ptr() for tensor in original.tensors}
    return case.having([
        tensor.clone() if tensor.untyped_storage().data_ptr() in kept else tensor
        for tensor in case.tensors
    ])  # fmt: skip


def _numpy(trial: Trial, places: list[int]) -> None:
    """Compares with NumPy, in arrays of several layouts."""
    expected = _without_writes(trial, trial.case)
    numbers = variations.input_of_tensors(trial.tested, trial.case.copied())
    layouts: dict[str, Callable[[np.ndarray], np.ndarray]] = {
        "": np.array,
        "Fortran order": lambda array: np.array(array, order="F"),
        "every second element": lambda array: (
            np.repeat(array, 2, axis=-1)[..., ::2] if array.ndim else array.copy()
        ),
    }
    for label, change in layouts.items():
        inputs: list[Any] = [None] * len(trial.tested.info.inputs)
        for number, tensor in zip(numbers, trial.case.tensors, strict=True):
            if number is not None:
                inputs[number] = change(to_numpy(tensor))
        attributes = {k: v for k, v in trial.case.kwargs.items() if not isinstance(v, torch.Tensor)}
        results = _numpy_call.call(trial.tested.info, inputs, attributes)
        written = [inputs[numbers[place]] for place in places]  # type: ignore[index]
        outcome = CallOutcome(arrays_of([*written, *given_of(results)]))
        trial.compare_bits(label, "NumPy", outcome, expected, _CAUSE)


def _told(trial: Trial) -> None:
    """Checks that a gradient through the write is refused, however the op is called."""
    packet = getattr(getattr(torch.ops, trial.tested.namespace), trial.tested.name)
    ways = (("the op", trial.tested.function), ("torch.ops", packet))
    for (who, function), place in itertools.product(ways, range(len(trial.case.tensors))):
        case = trial.case.copied()
        tensors = case.tensors
        if not tensors[place].is_floating_point():
            continue
        leaf = tensors[place].detach().clone().requires_grad_()
        tensors[place] = leaf * 1
        case = case.having(tensors)
        try:
            function(*case.args, **case.kwargs)
            text = "no error"
        except RuntimeError as error:
            text = refusal(error)
        trial.tally.ran += 1
        if "requires grad" not in text:
            trial.tally.fail("", f"{who}: {case.labels()[place]}: {text}",
                             "a refusal of a tensor that requires grad", _TORCH_CAUSE)  # fmt: skip


def _programs(trial: Trial) -> dict[str, Callable[[Any], Any]]:
    def compiled(tensors: Any) -> Any:
        torch._dynamo.reset()
        program = torch.compile(Writer(trial).call, fullgraph=True, dynamic=True,
                                backend=trial.settings.backend)  # fmt: skip
        return program(tensors)

    def exported(tensors: Any) -> Any:
        program = _decomposed(trial)
        functional = functional_of(trial.tested.info)
        names = [str(n.target).split(".")[:2] for n in program.graph.nodes]
        if [functional.namespace, functional.name] not in names:
            raise RuntimeError(f"no {functional.qualified} in the program: {program.graph}")
        return program.module()(*tensors)

    return {"torch.compile": compiled, "torch.export": exported}


def _decomposed(trial: Trial) -> torch.export.ExportedProgram:
    tensors = tuple(trial.case.copied().tensors)
    return torch.export.export(module_of(trial, Writer), tensors).run_decompositions({})


def _exported(trial: Trial, expected: CallOutcome) -> None:
    """Checks the export to ONNX: the node of the op without writes, and torch's bits in ONNX
    Runtime."""
    functional = functional_of(trial.tested.info)
    if not functional.onnx_type:
        trial.tally.note(f"{functional.name} has no ONNX node: nothing was exported")
        return
    names = input_names(trial)
    with warnings.catch_warnings(), tempfile.TemporaryDirectory() as folder:
        warnings.simplefilter("ignore")
        try:
            model = trial.tested.export(
                module_of(trial, Writer), tuple(trial.case.copied().tensors), input_names=names,
                exporter="dynamo",
            )  # fmt: skip
            nodes = {(node.domain, node.op_type) for node in model.graph.node}
            if (functional.domain, functional.onnx_type) not in nodes:
                raise RuntimeError(f"no node {functional.node} in the file, but {nodes}")
            path = str(Path(folder) / "model.onnx")
            onnx.save(model, path)
            session = trial.tested.native_session(onnx.load(path), session_options())
            feeds = {n: to_numpy(t) for n, t in zip(names, trial.case.tensors, strict=True)}
            outcome = CallOutcome(session.run(None, feeds))
        except Exception as error:  # of torch, of ONNX Runtime
            outcome = CallOutcome([], refusal(error))
    trial.compare_bits("", "ONNX Runtime", outcome, expected, _TORCH_CAUSE)
    try:
        trial.tested.export(module_of(trial, Writer), tuple(trial.case.copied().tensors),
                            input_names=names, exporter="torchscript")  # fmt: skip
        text = "a file"
    except Exception as error:  # of torch, of the op
        text = refusal(error)
    trial.tally.ran += 1
    if "TorchScript exporter" not in text:
        trial.tally.fail("", f"the TorchScript exporter: {text[:500]}",
                         "a refusal, because it loses what is written", _TORCH_CAUSE)  # fmt: skip
