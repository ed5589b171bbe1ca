"""The op in every runtime, on the same numbers: NumPy, ONNX Runtime natively, as a PyOp and through
its function body, and onnx's own evaluator."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from myops import _dtypes
from myops.ort import _extensions
from myops.testing.calls import CallOutcome, OpCall, refusal
from myops.testing.models import OPSET, between_nodes, feeds, node_model, output_dtypes
from myops.testing.op_under_test import OpUnderTest

_SILENT = 4  # ONNX Runtime's log level: errors come as exceptions


def session_options(threads: int = 2) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = _SILENT
    return options


class Runtimes:
    """Runs calls in each runtime; keeps a session for each signature of a call."""

    def __init__(self, tested: OpUnderTest) -> None:
        self.tested = tested
        self._sessions: dict[Any, Any] = {}

    def numpy(self, call: OpCall, threads: int = 2) -> CallOutcome:
        return _outcome(lambda: self.tested.call_numpy(call.inputs, call.attributes, threads))

    def native(self, call: OpCall, threads: int = 2) -> CallOutcome:
        """The op's kernel in ONNX Runtime."""
        return self._in_session(call, "native", threads)

    def overwriting(self, call: OpCall) -> CallOutcome:
        """The op's kernel in ONNX Runtime, in a model in which an output may use an input's
        memory."""
        import onnxruntime

        def run() -> list[np.ndarray]:
            options = session_options()
            # Otherwise ONNX Runtime would remove the other nodes, which only copy.
            options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
            model = between_nodes(node_model(self.tested.info, call, call.shapes))
            return self.run(self.tested.native_session(model, options), call)

        return _outcome(run)

    def bit_for_bit(self, exact: bool = False) -> dict[str, Callable[[OpCall], CallOutcome]]:
        """The runtimes that must give torch's bits.

        Args:
            exact: Whether models state lengths as numbers, which texts of refusals contain.
        """
        if self.tested.info.writes:  # it has no node
            return {"NumPy": self.numpy}
        kinds = {"ONNX Runtime": "native"} if self.tested.is_native else {EVALUATOR: "evaluator"}
        if has_pyops():
            kinds["PyOp"] = "pyop"
        found: dict[str, Callable[[OpCall], CallOutcome]] = {"NumPy": self.numpy}
        for who, kind in kinds.items():
            found[who] = functools.partial(self._in_session, kind=kind, exact=exact)
        return found

    def notes(self) -> list[str]:
        """What of `bit_for_bit` does not run, and why."""
        reason = self.tested.no_kernel
        found = [f"{reason}: {IN_ITS_PLACE}"] if reason else []
        return found if has_pyops() else [*found, NO_PYOPS]

    def host_lacks(self, call: OpCall) -> str:
        """The reason why ONNX Runtime has no tensors for the dtypes of a call; or ""."""
        inputs = [str(array.dtype) for array in call.inputs if array is not None]
        for dtype in (*inputs, *output_dtypes(self.tested.info, call)):
            if dtype in _dtypes.COMPLEX:
                return f"ONNX Runtime has no tensors of {dtype}: not compared there"
        return ""

    def session(self, call: OpCall, kind: str, threads: int = 2, opset: int = OPSET) -> Any:
        """The session that runs calls like this one."""
        traits = [
            None
            if array is None
            else (str(array.dtype), array.shape if item.values else array.ndim)
            for item, array in zip(
                self.tested.info.expanded(len(call.inputs)).inputs, call.inputs, strict=True
            )
        ]
        key = (kind, threads, opset, *traits, repr(sorted(call.attributes.items())))
        if key not in self._sessions:
            self._sessions[key] = self.new_session(call, kind, threads, opset=opset)
        return self._sessions[key]

    def new_session(
        self,
        call: OpCall,
        kind: str,
        threads: int = 2,
        dims: Sequence[Any] | None = None,
        opset: int = OPSET,
    ) -> Any:
        """A session of `node_model(info, call, dims, opset)`: "native", "pyop", "evaluator" or
        "body"."""
        model, options = node_model(self.tested.info, call, dims, opset), session_options(threads)
        if kind == "native":
            return self.tested.native_session(model, options)
        if kind == "pyop":
            return self.tested.pyop_session(model, options)
        if kind == "evaluator":
            return self.tested.evaluator(model)
        import onnxruntime

        with warnings.catch_warnings():
            warnings.simplefilter("error")  # MissingBodyWarning: there is nothing to run
            model = self.tested.with_bodies(model)
        return onnxruntime.InferenceSession(model.SerializeToString(), options)

    def run(self, session: Any, call: OpCall) -> list[np.ndarray]:
        """The outputs of a session of `node_model`."""
        results = session.run(None, feeds(self.tested.info, call))
        dtypes = output_dtypes(self.tested.info, call)
        return [
            array.astype(_dtypes.numpy_dtype(dtype)) if dtype in _dtypes.NARROW_FLOATS else array
            for array, dtype in zip(results, dtypes, strict=True)
        ]

    def _in_session(
        self, call: OpCall, kind: str, threads: int = 2, exact: bool = False
    ) -> CallOutcome:
        def run() -> list[np.ndarray]:
            if exact:
                return self.run(self.new_session(call, kind, threads, call.shapes), call)
            return self.run(self.session(call, kind, threads), call)

        return _outcome(run)


def _outcome(run: Callable[[], list[np.ndarray]]) -> CallOutcome:
    try:
        return CallOutcome(run())
    except Exception as error:  # ONNX Runtime's errors share no base class with ours
        return CallOutcome([], refusal(error))


@functools.cache
def has_pyops() -> bool:
    """Whether onnxruntime-extensions is installed."""
    try:
        _extensions.load()
    except ImportError:
        return False
    return True


EVALUATOR = "onnx.reference"
HOSTED = ("ONNX Runtime", "PyOp")  # the runtimes that run inside ONNX Runtime
IN_ITS_PLACE = "PyOps and onnx's evaluator take the place of native sessions"
NO_PYOPS = (
    "PyOps did not run: onnxruntime-extensions is missing; pip install onnxruntime-extensions"
)
