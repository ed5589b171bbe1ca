"""Exporters: both write the op's node with its attributes, and ONNX Runtime computes torch's bits
with the file, at other lengths too: natively, as a PyOp, and through the function body."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from myops._dtypes import COMPLEX, NARROW_FLOATS
from myops.onnx.schema import attribute_value
from myops.testing.bits import BODY_TOLERANCE, too_far
from myops.testing.calls import CallOutcome, OpCall, refusal
from myops.testing.cases import Case
from myops.testing.families.programs import (
    dynamic_axes,
    input_names,
    module_of,
    other_lengths,
)
from myops.testing.models import OPSET
from myops.testing.runtimes import EVALUATOR, has_pyops, session_options
from myops.testing.trial import Trial

_NODE_CAUSE = {
    "dynamo": "the translation for the exporter of torch.export is missing or wrong",
    "torchscript": "the symbolic function of the torch.autograd.Function is missing or wrong: the "
    "order of inputs, the name or the suffix (_i, _f, _s) of an attribute",
}
_NUMBERS_CAUSE = (
    "the node's inputs or attributes are not those of the call in torch, or the exporter wrote a "
    "length of the example into the graph"
)


def dynamo(trial: Trial) -> None:
    """Checks torch.onnx.export(dynamo=True)."""
    _export(trial, "dynamo")


def torchscript(trial: Trial) -> None:
    """Checks torch.onnx.export(dynamo=False)."""
    _export(trial, "torchscript")


def _export(trial: Trial, exporter: str) -> None:
    call, names, axes = trial.call(), input_names(trial), dynamic_axes(trial)
    for name in {str(a.dtype) for a in call.inputs if a is not None} & {*NARROW_FLOATS}:
        trial.tally.note(f"ONNX Runtime's Python API has no {name} arrays: not exported")
        return
    lacks = trial.runtimes.host_lacks(call)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the exporters about themselves
        try:
            model = trial.tested.export(
                module_of(trial),
                tuple(trial.case.tensors),
                input_names=names,
                dynamic_axes={names[place]: known for place, known in axes.items()} or None,
                exporter=exporter,
                opset_version=OPSET,
            )
        except Exception as error:  # of torch's exporters
            if lacks:
                _refused_by_name(trial, refusal(error), call)
                return
            trial.tally.fail("", refusal(error)[:2000], "a model", _NODE_CAUSE[exporter])
            return
    if lacks:
        trial.tally.fail(
            "", "a model", f"a refusal that names the dtype: {lacks}", _NODE_CAUSE[exporter]
        )
    elif _node_is_right(trial, exporter, model, call):
        _sessions_agree(trial, model)


def _refused_by_name(trial: Trial, text: str, call: OpCall) -> None:
    """Checks that a dtype that ONNX Runtime lacks is refused with a text that names it."""
    names = {str(array.dtype) for array in call.inputs if array is not None} & {*COMPLEX}
    trial.tally.ran += 1
    if not any(name in text for name in names):
        trial.tally.fail(
            "", f"refused: {text[:2000]}", f"a refusal that names {' or '.join(names)}",
            "another fault came before the refusal",
        )  # fmt: skip


def _node_is_right(trial: Trial, exporter: str, model: onnx.ModelProto, call: OpCall) -> bool:
    """Checks that the graph has the op's node, with the attributes of the call in torch."""
    info = trial.tested.info
    nodes = [
        node
        for node in model.graph.node
        if (node.domain, node.op_type) == (info.domain, info.onnx_type)
    ]
    wanted = f"one node {info.node}"
    if len(nodes) != 1:
        found = ", ".join(f"{n.domain or 'ai.onnx'}::{n.op_type}" for n in model.graph.node)
        trial.tally.fail("", f"nodes {found or 'none'}", wanted, _NODE_CAUSE[exporter])
        return False
    trial.tally.ran += 1
    protos = {item.name: item for item in nodes[0].attribute}
    for item in info.attributes:
        given = item.default
        if item.name in protos:
            given = attribute_value(info.name, item, protos[item.name])
        expected = call.attributes[item.name]
        expected = item.default if expected is None else expected  # None stands for it
        same = _plain(given) == _plain(expected)
        if item.type in ("float", "floats") and None not in (given, expected):
            same = np.array_equal(np.float32(given), np.float32(expected))
        if not same:
            trial.tally.fail(
                "",
                f"attribute {item.name} = {_plain(given)!r} in the file",
                f"{_plain(expected)!r}, as in the call in torch",
                _NODE_CAUSE[exporter],
            )
    return True


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, (list, tuple)) else value


def _sessions_agree(trial: Trial, model: onnx.ModelProto) -> None:
    """Checks that the file gives torch's bits, and without the library the same within rounding."""
    import onnxruntime

    tested = trial.tested
    has_body = any(
        (item.domain, item.name) == (tested.info.domain, tested.info.onnx_type)
        for item in model.functions
    )
    trial.tally.ran += 1
    if not has_body and trial.settings.bodies:
        trial.tally.fail(
            "", "no function body in the file", "one, so that any runtime can run the file",
            "standard(g) of the op is missing or refuses, see the check 'bodies'. If it has none "
            "on purpose: skip={'bodies': why}",
        )  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "model.onnx")
        onnx.save(model, path)  # users load files
        loaders: dict[str, Callable[[], Any]] = {}
        if tested.is_native:
            loaders["ONNX Runtime"] = lambda: tested.native_session(onnx.load(path), options())
        else:
            loaders[EVALUATOR] = lambda: tested.evaluator(onnx.load(path))
        if has_pyops():
            loaders["PyOp"] = lambda: tested.pyop_session(onnx.load(path), options())
        for note in trial.runtimes.notes():
            trial.tally.note(note)
        if has_body:
            loaders["function body"] = lambda: onnxruntime.InferenceSession(path, options())
        for who, load in loaders.items():
            try:
                session = load()
            except Exception as error:  # of ONNX Runtime
                trial.tally.fail("", f"{who}: {refusal(error)}", "a session", _NUMBERS_CAUSE)
                continue
            for label, case in [("", trial.case), *other_lengths(trial)]:
                _compare(trial, label, who, session, case)


# What the session of an old ONNX Runtime raises for an output of float8.
_NO_ARRAY = "No corresponding Numpy type for Tensor Type"


def _as_expected(results: Sequence[np.ndarray], expected: CallOutcome) -> list[np.ndarray]:
    """Converts outputs whose float dtype NumPy lacks: ONNX Runtime returns their bits as
    integers."""
    wanted = [array.dtype for array in expected.outputs] + [None] * len(results)
    return [
        array.view(dtype)
        if dtype is not None and dtype.name in NARROW_FLOATS and array.dtype.kind == "u"
        and array.itemsize == dtype.itemsize else array
        for array, dtype in zip(results, wanted, strict=False)
    ]  # fmt: skip


def options() -> Any:
    return session_options()


def _compare(trial: Trial, label: str, who: str, session: Any, case: Case) -> None:
    expected = trial.run(case).result
    given = (
        session.input_names if who == EVALUATOR else [item.name for item in session.get_inputs()]
    )
    feeds = {
        name: tensor.detach().contiguous().numpy()
        for name, tensor in zip(input_names(trial), case.tensors, strict=True)
        if name in given
    }
    try:
        outcome = CallOutcome(_as_expected(session.run(None, feeds), expected))
    except Exception as error:  # of ONNX Runtime
        outcome = CallOutcome([], refusal(error))
    narrow = {array.dtype.name for array in expected.outputs} & set(NARROW_FLOATS)
    if narrow and _NO_ARRAY in outcome.refusal:
        trial.tally.note(
            f"this ONNX Runtime returns no {', '.join(sorted(narrow))}: not compared there"
        )
        return
    if who != "function body" or outcome.refused:
        trial.compare_bits(label, who, outcome, expected, _NUMBERS_CAUSE)
        return
    trial.tally.ran += 1
    limits = {**BODY_TOLERANCE, **trial.settings.body_tolerance}
    limit = limits.get(str(expected.outputs[0].dtype))
    got, wanted = too_far(outcome.outputs, expected.outputs, limit)
    if got:
        trial.tally.fail(label, f"{who}: {got}", f"torch: {wanted}", _NUMBERS_CAUSE)
