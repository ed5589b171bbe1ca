"""Shapes: results have the shapes that torch's fake kernel, the meta device, onnx and ONNX Runtime
expect."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from torch._subclasses import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from myops import _shape_rule
from myops._op_parts import DecidedLength
from myops.testing import casts, variations
from myops.testing.bits import given_of
from myops.testing.calls import OpCall, refusal
from myops.testing.cases import Case
from myops.testing.models import node_model, output_dtypes
from myops.testing.op_under_test import OpUnderTest
from myops.testing.runtimes import session_options
from myops.testing.trial import Trial

_FAKE_CAUSE = (
    "the fake kernel (for ops of this library `shape=` of define, or the shape rule in C++) and "
    "the kernel disagree; torch.compile and torch.export allocate what the fake kernel says"
)
_ONNX_CAUSE = (
    "the shape rule is wrong where lengths are names: a Dim that is not known() has no value, and "
    "only an equal symbol means an equal length"
)


@dataclass(frozen=True)
class Expected:
    """Shape, strides and dtype of one output of a fake run; None for an unknown length or
    stride."""

    dtype: str
    shape: list[int | None]
    strides: list[int | None]
    unknown: dict[int, Any]  # axis -> the symbol of a length that is not known yet


@dataclass(frozen=True)
class FakeRun:
    outputs: list[Expected]
    refusal: str = ""


def run_fake(tested: OpUnderTest, case: Case) -> FakeRun:
    """Calls the public function on tensors without memory, like torch.compile and torch.export."""
    mode = FakeTensorMode(shape_env=ShapeEnv())
    try:
        fakes = [mode.from_tensor(item.detach(), static_shapes=True) for item in case.tensors]
        with mode:
            varied = case.having(fakes)
            return FakeRun(_expected(tested.function(*varied.args, **varied.kwargs)))
    except Exception as error:  # any exception of a fake kernel is compared
        return FakeRun([], refusal(error))


def _expected(result: Any) -> list[Expected]:
    def numbers(items: Any) -> list[int | None]:
        return [item if isinstance(item, int) else None for item in items]

    return [
        Expected(
            str(t.dtype)[6:],
            numbers(t.shape),
            numbers(t.stride()),
            {axis: n.node for axis, n in enumerate(t.shape) if not isinstance(n, int)},
        )
        for t in given_of(result)
    ]


def shapes(trial: Trial) -> None:
    """Checks that inferred, fake and real shapes are equal, for the case, its dtypes, layouts and
    lengths."""
    trial.call()
    varied = [("", trial.case), *variations.layouts(trial.case)]
    varied += [(f"{p} = {n}", case) for p, n, case in casts.dtypes(trial.tested, trial.case)]
    varied += list(variations.lengths(trial.case, trial.axes))
    known: dict[Any, Any] = {}
    for label, case in varied:
        _fake(trial, label, case)
        _inferred(trial, label, case, known)
    _meta(trial)


def _fake(trial: Trial, label: str, case: Case) -> None:
    try:
        real = trial.tested.function(*case.args, **case.kwargs)
    except Exception:  # refusals are compared in "errors" and "lengths"
        return
    fake = run_fake(trial.tested, case)
    trial.tally.ran += 1
    if fake.refusal:
        trial.tally.fail(label, f"the fake kernel: {fake.refusal}", "a result", _FAKE_CAUSE)
        return
    expected = _expected(real)
    _unknown_fit(trial, label, fake.outputs, expected)
    for one, other in zip(fake.outputs, expected, strict=True):
        for trait in ("dtype", "shape", "strides"):
            mine, true = getattr(one, trait), getattr(other, trait)
            if trait == "strides" and 0 in other.shape:
                continue  # strides of an empty tensor have no meaning
            if not _fits(mine, true):
                trial.tally.fail(
                    label,
                    f"the fake kernel: {trait} {mine}",
                    f"{true}, as the kernel gives",
                    _FAKE_CAUSE,
                )
                return


def _unknown_fit(
    trial: Trial, label: str, fakes: Sequence[Expected], reals: Sequence[Expected]
) -> None:
    """Checks that lengths that the data decides are within their bounds, and are equal if the fake
    kernel has one symbol for them."""
    bound: dict[str, int] = {}
    for fake, real in zip(fakes, reals, strict=True):
        for axis, node in fake.unknown.items():
            length = real.shape[axis] if axis < len(real.shape) else None
            symbol, limits = str(node.expr), node.shape_env.bound_sympy(node.expr)
            trial.tally.ran += 1
            if length is None or not limits.lower <= length <= limits.upper:
                trial.tally.fail(
                    label,
                    f"the fake kernel: a length from {limits.lower} to {limits.upper}",
                    f"{length}, as the kernel gives",
                    "the bound of Dim::at_most in the shape rule (or of `shape=`) is too low",
                )
            elif bound.setdefault(symbol, length) != length:
                trial.tally.fail(
                    label,
                    f"the fake kernel: one length for several axes, here {bound[symbol]}",
                    f"{length}, as the kernel gives",
                    "the shape rule has one name in Dim::at_most for lengths that differ",
                )


def _fits(fake: Any, real: Any) -> bool:
    if isinstance(fake, str):
        return fake == real
    return len(fake) == len(real) and all(
        one is None or one == other for one, other in zip(fake, real, strict=True)
    )


def _meta(trial: Trial) -> None:
    """Checks calls on the meta device, if no number in a tensor decides the shape."""
    if variations.value_places(trial.tested, trial.case):
        return
    tensors = [item.to("meta") for item in trial.case.tensors]
    real = trial.tested.function(*trial.case.args, **trial.case.kwargs)
    case = trial.case.having(tensors)
    if any(None in output.shape for output in run_fake(trial.tested, trial.case).outputs):
        _refused_on_meta(trial, case)
        return
    try:
        result = trial.tested.function(*case.args, **case.kwargs)
    except Exception as error:  # a missing kernel raises
        trial.tally.fail("on the meta device", refusal(error), "a result", _FAKE_CAUSE)
        return
    trial.tally.ran += 1
    for one, other in zip(_expected(result), _expected(real), strict=True):
        if one != other:
            trial.tally.fail("on the meta device", str(one), str(other), _FAKE_CAUSE)


def _refused_on_meta(trial: Trial, case: Case) -> None:
    """Checks that a call on "meta" is refused if the data decides a length."""
    try:
        trial.tested.function(*case.args, **case.kwargs)
        text = "a result"
    except Exception as error:  # the op's own, or another
        text = refusal(error)
    trial.tally.ran += 1
    if "on meta" not in text:
        trial.tally.fail(
            "on the meta device", text, "a refusal that names the device: the data decides the "
            "shape of the result", _FAKE_CAUSE,
        )  # fmt: skip


def _inferred(trial: Trial, label: str, case: Case, known: dict[Any, Any]) -> None:
    """Checks the shapes of onnx and ONNX Runtime, with lengths as numbers and as names.

    `known`: earlier results, because with names, many cases have the same model.
    """
    run = trial.run(case)
    if run.call is None or run.inner.refused:
        return
    real = [(str(array.dtype), list(array.shape)) for array in run.inner.outputs]
    named = _names(trial, case, run.call)
    tools = {"onnx.shape_inference": _by_onnx}
    lacks = trial.runtimes.host_lacks(run.call)
    if lacks:
        trial.tally.note(lacks)
    elif trial.tested.is_native and trial.tested.is_too_old_for_optional_inputs:
        trial.tally.note(
            "ONNX Runtime before 1.24 infers no shapes of an op with optional inputs (it would end "
            "the process where one is left out): not compared"
        )
    elif trial.tested.is_native:
        tools["ONNX Runtime"] = _by_ort
    else:
        trial.tally.note(f"ONNX Runtime infers no shapes: {trial.tested.no_kernel}")
    for kind, dims in (("numbers", run.call.shapes), ("names", named)):
        model = node_model(trial.tested.info, run.call, dims)
        bound = _bound(dims, run.call)
        who = f"with lengths as {kind}"
        for tool, infer in tools.items():
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    key = (tool, model.SerializeToString())
                    found = known[key] if key in known else infer(trial, model)
                    known[key] = found
            except Exception as error:  # of either tool
                trial.tally.fail(label, f"{tool} {who}: {refusal(error)}", "shapes", _ONNX_CAUSE)
                continue
            trial.tally.ran += 1
            dtypes = output_dtypes(trial.tested.info, run.call)
            decided = _decided(trial, run.call)
            for (_, shape), inferred, dtype, open_axes in zip(
                real, found, dtypes, decided, strict=True
            ):
                complete = (
                    kind == "numbers"
                    and tool.startswith("onnx")
                    and not trial.tested.info.has_values
                )
                if open_axes and not _named(inferred, shape, open_axes, bound):
                    trial.tally.fail(
                        label,
                        f"{tool} {who}: shape {inferred}",
                        f"{shape} ({dtype}), as the kernel gives, with a name for the length on "
                        f"axis {', '.join(map(str, open_axes))}",
                        _ONNX_CAUSE,
                    )
                    continue
                if open_axes:
                    continue
                if not _agrees(inferred, shape, bound, complete):
                    trial.tally.fail(
                        label,
                        f"{tool} {who}: shape {inferred}",
                        f"{shape} ({dtype}), as the kernel gives",
                        _ONNX_CAUSE,
                    )


def _decided(trial: Trial, call: OpCall) -> list[list[int]]:
    """For each output that the call computes, the axes whose lengths the data decides."""
    info = trial.tested.info
    dtypes = [None if array is None else str(array.dtype) for array in call.inputs]
    numbers = [
        array.ravel().tolist() if array is not None and item.values else None
        for item, array in zip(info.expanded(len(call.inputs)).inputs, call.inputs, strict=True)
    ]
    found = _shape_rule.infer_decided(info, call.shapes, dtypes, call.attributes, numbers)
    wanted = info.present(info.nested(call.inputs), call.attributes)
    return [
        [axis for axis, dim in enumerate(dims or []) if isinstance(dim, DecidedLength)]
        for given, (_, dims) in zip(wanted, found, strict=True)
        if given
    ]


def _named(
    inferred: list[Any] | None, real: list[int], axes: Sequence[int], bound: dict[str, int]
) -> bool:
    """Whether such lengths have names, each for one length, and the other lengths agree."""
    if inferred is None:
        return True  # the tool infers nothing here
    if len(inferred) != len(real):
        return False
    for axis, (one, other) in enumerate(zip(inferred, real, strict=True)):
        if axis in axes:
            if not isinstance(one, str) or bound.setdefault(one, other) != other:
                return False
        elif (bound.get(one) if isinstance(one, str) else one) not in (other, None):
            return False
    return True


def _names(trial: Trial, case: Case, call: OpCall) -> list[list[Any] | None]:
    """One name for each set of axes that change together, numbers for the others."""
    numbers = variations.input_of_tensors(trial.tested, case)
    dims: list[list[Any] | None] = list(call.shapes)
    for index, axes in enumerate(trial.axes):
        for place, axis in axes.places:
            number = numbers[place]
            if number is not None and dims[number] is not None:
                dims[number][axis] = f"n{index}"  # type: ignore[index]
    return dims


def _bound(dims: Sequence[list[Any] | None], call: OpCall) -> dict[str, int]:
    """The length of each name."""
    found: dict[str, int] = {}
    for lengths, array in zip(dims, call.inputs, strict=True):
        if lengths is not None and array is not None:
            pairs = zip(lengths, array.shape, strict=True)
            found.update({name: n for name, n in pairs if isinstance(name, str)})
    return found


def _agrees(
    inferred: list[Any] | None, real: list[int], bound: dict[str, int], complete: bool
) -> bool:
    if inferred is None:
        return not complete
    if len(inferred) != len(real):
        return False
    for one, other in zip(inferred, real, strict=True):
        known = bound.get(one) if isinstance(one, str) else one
        if known is None and complete:
            return False
        if known is not None and known != other:
            return False
    return True


def _by_onnx(trial: Trial, model: onnx.ModelProto) -> list[list[Any] | None]:
    from myops.onnx.schema import dims_of

    inferred = trial.tested.infer_model(model)
    return [dims_of(item.type.tensor_type) for item in inferred.graph.output]


def _by_ort(trial: Trial, model: onnx.ModelProto) -> list[list[Any] | None]:
    """The shapes of the outputs, None if unknown.

    A session describes an unknown shape like that of a scalar. Shapes behind an input that is a
    scalar are unknown, because shape inference of custom ops cannot tell these apart either.
    """
    session = trial.tested.native_session(model, session_options())
    return [[_length(n) for n in item.shape] or None for item in session.get_outputs()]


def _length(dim: Any) -> Any:
    """A number, a name, or None for a length that ONNX Runtime does not know."""
    return int(dim) if isinstance(dim, (int, np.integer)) else dim
