"""The op in every runtime, on the same numbers: torch, NumPy, ONNX Runtime natively, as a PyOp and
through its function body."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import torch
from onnx import TensorProto, helper

from myops.onnx.schema import ELEMENT_TYPES
from myops.testing.bits import arrays_of, to_numpy
from myops.testing.cases import Case
from myops.testing.subject import DispatcherCalls, Seen, Subject

OPSET = 20  # of the models that the battery builds: the default of myops.onnx.export
_IR_VERSION = 10
_SILENT = 4  # ONNX Runtime's log level: errors come as exceptions


@dataclass(frozen=True)
class Outcome:
    """What a runtime made of a call: outputs, or the text of a refusal."""

    outputs: list[np.ndarray]
    refusal: str = ""

    @property
    def refused(self) -> bool:
        return bool(self.refusal)


@dataclass(frozen=True)
class Call:
    """A call of the op below the public function, in arrays: what a node gets."""

    inputs: list[np.ndarray | None]
    attributes: dict[str, Any]

    @property
    def shapes(self) -> list[list[int] | None]:
        return [None if array is None else list(array.shape) for array in self.inputs]


@dataclass(frozen=True)
class TorchRun:
    """The public function in torch.

    Attributes:
        result: What the function returned.
        call: The call of the op inside it; None when it refused before that.
        inner: What the op returned.
    """

    result: Outcome
    call: Call | None
    inner: Outcome


def refusal(error: BaseException) -> str:
    return str(error) or type(error).__name__


def run_torch(subject: Subject, case: Case) -> TorchRun:
    """Calls the public function, and sees the op's call inside it."""
    with DispatcherCalls() as seen:
        try:
            result = Outcome(arrays_of(subject.function(*case.args, **case.kwargs)))
        except Exception as error:  # whatever a function raises is a refusal to be compared
            result = Outcome([], refusal(error))
    mine = [item for item in seen if subject.is_mine(item.overload)]
    if not mine:
        return TorchRun(result, None, result)
    call = call_of(subject, mine[0])
    if mine[0].result is None:
        return TorchRun(result, call, result)
    return TorchRun(result, call, Outcome(arrays_of(mine[0].result)))


def call_of(subject: Subject, seen: Seen) -> Call:
    """The arguments of a dispatcher call as a node gets them: lists of numbers are arrays."""
    inputs, attributes = seen.settled()
    arrays: list[np.ndarray | None] = []
    for item, info in zip(inputs, subject.info.inputs, strict=True):
        if item is None:
            arrays.append(None)
        elif isinstance(item, torch.Tensor):
            arrays.append(np.array(to_numpy(item)))
        else:
            arrays.append(_numbers(item, subject.info.is_integer(info)))
    return Call(arrays, attributes)


def call_arrays(seen: Seen) -> tuple[list[np.ndarray | None], dict[str, Any]]:
    """(inputs, attributes) of any dispatcher call, as its kernel takes them in NumPy."""
    inputs, attributes = seen.settled()
    arrays = [
        item
        if item is None
        else np.array(to_numpy(item))
        if isinstance(item, torch.Tensor)
        else _numbers(item, all(isinstance(number, int) for number in item))
        for item in inputs
    ]
    return arrays, attributes


def _numbers(items: Sequence[float], integer: bool) -> np.ndarray:
    """float32 where it holds them exactly, as the exporters write them."""
    if integer:
        return np.array(items, np.int64)
    exact = np.array(items, np.float64)
    single = exact.astype(np.float32)
    return single if (single == exact).all() else exact


def node_model(
    subject: Subject, call: Call, dims: Sequence[Sequence[Any] | None] | None = None
) -> onnx.ModelProto:
    """A model of one node for calls like this one.

    bfloat16 enters and leaves as float32, which holds it exactly: ONNX Runtime's Python API has no
    bfloat16 arrays.

    Args:
        dims: Lengths or names of each input. Default: a name for each axis, different ones; but
            lists such as scales have as many numbers as here.
    """
    nodes: list[onnx.NodeProto] = []
    inputs: list[onnx.ValueInfoProto] = []
    names: list[str] = []
    for number, (item, array) in enumerate(zip(subject.info.inputs, call.inputs, strict=True)):
        if array is None:
            names.append("")
            continue
        lengths = None if dims is None else dims[number]
        if lengths is None:
            lengths = [f"{item.name}_{axis}" for axis in range(array.ndim)]
            lengths = list(array.shape) if item.values else lengths
        dtype = str(array.dtype)
        inputs.append(helper.make_tensor_value_info(item.name, _outside(dtype), lengths))
        names.append(item.name)
        if dtype == "bfloat16":
            names[-1] = f"{item.name}_bfloat16"
            nodes.append(
                helper.make_node("Cast", [item.name], [names[-1]], to=TensorProto.BFLOAT16)
            )
    while names and not names[-1]:
        names.pop()
    outputs = [item.name for item in subject.info.outputs]
    settings = _settings(subject, call.attributes)
    nodes.append(
        helper.make_node(subject.info.onnx_type, names, outputs, domain=subject.domain, **settings)
    )
    results = []
    for output, dtype in zip(outputs, output_dtypes(subject, call), strict=True):
        result = output
        if dtype == "bfloat16":
            result = f"{output}_float32"
            nodes.append(helper.make_node("Cast", [output], [result], to=TensorProto.FLOAT))
        results.append(helper.make_tensor_value_info(result, _outside(dtype), None))
    graph = helper.make_graph(nodes, subject.name, inputs, results)
    opsets = [
        helper.make_opsetid("", OPSET),
        helper.make_opsetid(subject.domain, subject.opset_version),
    ]
    return helper.make_model(graph, opset_imports=opsets, ir_version=_IR_VERSION)


def _outside(dtype: str) -> int:
    if dtype == "bfloat16":
        return TensorProto.FLOAT
    known = ELEMENT_TYPES.get(dtype)
    return helper.np_dtype_to_tensor_dtype(np.dtype(dtype)) if known is None else known


def _settings(subject: Subject, attributes: dict[str, Any]) -> dict[str, Any]:
    """The attributes that differ from their defaults, as a node has them."""
    defaults = {item.name: item.default for item in subject.info.attributes}
    return {
        key: int(value) if isinstance(value, bool) else value
        for key, value in attributes.items()
        if value != defaults[key] and not (isinstance(value, (list, tuple)) and not value)
    }


def output_dtypes(subject: Subject, call: Call) -> list[str]:
    """What the description says: the dtype of the first input of the output's type."""
    found = []
    for output in subject.info.outputs:
        like = [
            str(array.dtype)
            for item, array in zip(subject.info.inputs, call.inputs, strict=True)
            if item.type == output.type and array is not None
        ]
        found.append(like[0] if like else subject.info.types[output.type][0])
    return found


def feeds(subject: Subject, call: Call) -> dict[str, np.ndarray]:
    """What a session of `node_model` is fed."""
    return {
        item.name: array.astype(np.float32) if str(array.dtype) == "bfloat16" else array
        for item, array in zip(subject.info.inputs, call.inputs, strict=True)
        if array is not None
    }


def session_options(threads: int = 2) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = _SILENT
    return options


class Runtimes:
    """Runs calls in each runtime; sessions are kept, one for each signature of a call."""

    def __init__(self, subject: Subject) -> None:
        self.subject = subject
        self._sessions: dict[Any, Any] = {}

    def numpy(self, call: Call, threads: int = 2) -> Outcome:
        return _outcome(lambda: self.subject.call_numpy(call.inputs, call.attributes, threads))

    def native(self, call: Call, threads: int = 2) -> Outcome:
        """The op's kernel in ONNX Runtime."""
        return self._in_session(call, "native", threads)

    def bit_for_bit(self, exact: bool = False) -> dict[str, Callable[[Call], Outcome]]:
        """The runtimes that must give torch's bits.

        Args:
            exact: Whether models state lengths as numbers, as texts of refusals have them.
        """
        found: dict[str, Callable[[Call], Outcome]] = {"NumPy": self.numpy}
        for who, kind in (("ONNX Runtime", "native"), ("PyOp", "pyop")):
            if kind == "native" or has_pyops():
                found[who] = functools.partial(self._in_session, kind=kind, exact=exact)
        return found

    def session(self, call: Call, kind: str, threads: int = 2) -> Any:
        """The session that runs calls like this one."""
        traits = [
            None
            if array is None
            else (str(array.dtype), array.shape if item.values else array.ndim)
            for item, array in zip(self.subject.info.inputs, call.inputs, strict=True)
        ]
        key = (kind, threads, *traits, repr(sorted(call.attributes.items())))
        if key not in self._sessions:
            self._sessions[key] = self.new_session(call, kind, threads)
        return self._sessions[key]

    def new_session(
        self, call: Call, kind: str, threads: int = 2, dims: Sequence[Any] | None = None
    ) -> Any:
        """A session of `node_model(subject, call, dims)`: "native", "pyop" or "body"."""
        model, options = node_model(self.subject, call, dims), session_options(threads)
        if kind == "native":
            return self.subject.native_session(model, options)
        if kind == "pyop":
            return self.subject.pyop_session(model, options)
        import onnxruntime

        with warnings.catch_warnings():
            warnings.simplefilter("error")  # MissingBodyWarning: there is nothing to run
            model = self.subject.with_bodies(model)
        return onnxruntime.InferenceSession(model.SerializeToString(), options)

    def run(self, session: Any, call: Call) -> list[np.ndarray]:
        """The outputs of a session of `node_model`."""
        results = session.run(None, feeds(self.subject, call))
        dtypes = output_dtypes(self.subject, call)
        return [
            array.astype(ml_dtypes.bfloat16) if dtype == "bfloat16" else array
            for array, dtype in zip(results, dtypes, strict=True)
        ]

    def _in_session(self, call: Call, kind: str, threads: int = 2, exact: bool = False) -> Outcome:
        def run() -> list[np.ndarray]:
            if exact:
                return self.run(self.new_session(call, kind, threads, call.shapes), call)
            return self.run(self.session(call, kind, threads), call)

        return _outcome(run)


def _outcome(run: Callable[[], list[np.ndarray]]) -> Outcome:
    try:
        return Outcome(run())
    except Exception as error:  # ONNX Runtime's errors share no base class with ours
        return Outcome([], refusal(error))


@functools.cache
def has_pyops() -> bool:
    """Whether onnxruntime-extensions is installed."""
    try:
        import onnxruntime_extensions  # noqa: F401
    except ImportError:
        return False
    return True


NO_PYOPS = (
    "PyOps did not run: onnxruntime-extensions is missing; pip install onnxruntime-extensions"
)
