"""The op under test; creates its functions, models and sessions."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from myops import _libraries, _numpy_call
from myops._description import OpInfo
from myops.testing.cases import Case

_TORCHS_OWN = frozenset({"aten", "prim", "prims", "profiler", "inductor"})

_LISTS_OF_STRINGS = (1, 25)  # the first ONNX Runtime that hands them to libraries
_OPTIONAL_INPUTS = (1, 24)  # the first that infers shapes of ops with them


def _onnxruntime_version() -> tuple[int, ...]:
    import onnxruntime

    return tuple(int(part) for part in onnxruntime.__version__.split(".")[:2])


@dataclass(frozen=True)
class OpUnderTest:
    """An op under test.

    Attributes:
        info: Its description.
        function: The public function; the cases are arguments of it.
        libraries: Custom-op libraries for ONNX Runtime that the models need, in addition to those
            of the ops' packages.
    """

    info: OpInfo
    function: Callable[..., Any]
    libraries: tuple[str | os.PathLike[str], ...] = ()

    @property
    def name(self) -> str:
        return self.info.name

    @property
    def namespace(self) -> str:
        """The namespace of the torch op, as in torch.ops.<namespace>."""
        return self.info.namespace

    @property
    def is_native(self) -> bool:
        """Whether ONNX Runtime can load its kernel.

        Checks that need such a kernel are otherwise left out, with a note in the report.
        """
        return not self.no_kernel

    @property
    def no_kernel(self) -> str:
        """Why ONNX Runtime cannot load its kernel; empty if it can."""
        import onnxruntime

        if self.info.is_prototype:
            return "a prototype has no library for ONNX Runtime"
        lists = [item.name for item in self.info.attributes if item.type == "strings"]
        if lists and _onnxruntime_version() < _LISTS_OF_STRINGS:
            return (
                f"ONNX Runtime {onnxruntime.__version__} hands no lists of strings, such as "
                f"{lists[0]}, to libraries; 1.25 and later do"
            )
        return ""

    @property
    def is_too_old_for_optional_inputs(self) -> bool:
        """Whether ONNX Runtime infers no shapes of the op, because it has optional inputs."""
        optional = any(item.optional for item in self.info.inputs)
        return optional and _onnxruntime_version() < _OPTIONAL_INPUTS

    def is_mine(self, overload: Any) -> bool:
        """Whether a dispatcher op is this one."""
        return overload.namespace == self.namespace and _title(overload) == self.info.name

    def call_numpy(
        self, inputs: Sequence[np.ndarray | None], attributes: dict[str, Any], threads: int
    ) -> list[np.ndarray]:
        results = _numpy_call.call(self.info, self.info.nested(inputs), attributes, threads)
        return [array for array in results if array is not None]

    def with_bodies(self, model: onnx.ModelProto) -> onnx.ModelProto:
        """The model with a function body of standard operators for the op."""
        from myops.onnx import bodies

        return bodies.add_function_bodies(model)

    def infer_model(self, model: onnx.ModelProto) -> onnx.ModelProto:
        """The model after onnx.shape_inference."""
        from myops.onnx import schema

        schema.register_schemas()
        return onnx.shape_inference.infer_shapes(model, strict_mode=True)

    def native_session(self, model: onnx.ModelProto, options: Any) -> Any:
        """An ONNX Runtime session with the op's kernel."""
        import myops.ort

        return myops.ort.session(model, session_options=options, libraries=self.libraries)

    def pyop_session(self, model: onnx.ModelProto, options: Any) -> Any:
        """An ONNX Runtime session that runs the op as a PyOp."""
        import myops.ort

        return myops.ort.pyop_session(model, session_options=options)

    def evaluator(self, model: onnx.ModelProto) -> Any:
        """onnx's own evaluator, which calls the op's kernel or function."""
        from onnx.reference import ReferenceEvaluator

        from myops.onnx import reference_ops

        return ReferenceEvaluator(model, new_ops=reference_ops())

    def export(self, module: torch.nn.Module, args: tuple[Any, ...], **settings: Any) -> Any:
        """The module as an ONNX model, with function bodies and without checks."""
        import myops.onnx

        return myops.onnx.export(
            module, args, skip_checks="all", libraries=self.libraries, **settings
        )


def describe(namespace: str, name: str) -> OpInfo | None:
    """The description of a dispatcher op, or None for an op of another library."""
    for library in _libraries.known():
        if library.namespace == namespace:
            return library.ops.get(name)
    return None


def op_under_test(
    op: Any, cases: Sequence[Case], libraries: Sequence[str | os.PathLike[str]] = ()
) -> OpUnderTest:
    """Finds the op that `op` is, or that it calls.

    Args:
        op: A public function, such as `myops.resize` or the result of `myops.prototype`, or a torch
            op, such as `torch.ops.myops.resize`.
        cases: Calls of it; the first one that should not be refused is made.
        libraries: Custom-op libraries for ONNX Runtime that the models need, in addition to those
            of the ops' packages.

    Raises:
        ValueError: It calls no op with a description and a node, or several.
    """
    if isinstance(op, torch._ops.OpOverloadPacket):
        return _of_name(op.default.namespace, op.__name__, op, libraries)
    if isinstance(op, torch._ops.OpOverload):
        return _of_name(op.namespace, _title(op), op, libraries)
    if not callable(op):
        raise TypeError(f"check_op: op: got {op!r}, expected a function or a torch op")
    good = [case for case in cases if not case.refused]
    if not good:
        raise ValueError("check_op: cases: got none that the op accepts, expected at least one")
    title = getattr(op, "__name__", repr(op))
    refused: Exception | None = None
    with DispatcherCalls() as seen:
        try:
            op(*good[0].args, **good[0].kwargs)
        except Exception as error:  # of the op: "values" reports it, if we know which op it is
            refused = error
    names = list(dict.fromkeys((item.overload.namespace, _title(item.overload)) for item in seen))
    described = [(space, name) for space, name in names if describe(space, name) is not None]
    if len(described) != 1:
        found = ", ".join(f"{space}::{name}" for space, name in described or names) or "none"
        raise ValueError(
            f"check_op: op: {title} calls {found}, expected exactly one op with a description. "
            "Give the torch op itself, such as torch.ops.myops.my_add, or a function around one op."
            + (f" (It raised {type(refused).__name__}: {refused})" if refused else "")
        ) from refused
    return _of_name(*described[0], op, libraries)


def _of_name(
    namespace: str, name: str, function: Callable[..., Any], libraries: Sequence[Any]
) -> OpUnderTest:
    info = describe(namespace, name)
    if info is None:
        raise ValueError(
            f"check_op: op: got {namespace}::{name}, which has no description, expected an op made "
            "by MYOPS_OP (of a package that was imported) or by myops.prototype"
        )
    if not info.onnx_type and not info.writes:
        raise ValueError(
            f"check_op: op: got {namespace}::{name}, which has no ONNX node, expected the op that "
            "users call; its gradient is checked with it"
        )
    return OpUnderTest(info, function, tuple(libraries))


def _title(overload: Any) -> str:
    return overload._schema.name.partition("::")[2]


@dataclass(frozen=True)
class Seen:
    """One call of a dispatcher op: its arguments in the order of the schema, and its result or its
    refusal."""

    overload: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    result: Any  # None when the op refused
    error: Exception | None = None

    @property
    def name(self) -> str:
        return _title(self.overload)

    def settled(self) -> tuple[list[Any], dict[str, Any]]:
        """(inputs, attributes) with the defaults that the dispatcher leaves out."""
        inputs, attributes = [], {}
        for number, item in enumerate(self.overload._schema.arguments):
            default = item.default_value if item.has_default_value() else None
            if item.kwarg_only:
                attributes[item.name] = self.kwargs.get(item.name, default)
            else:
                inputs.append(self.args[number] if number < len(self.args) else default)
        return inputs, attributes


class DispatcherCalls(TorchDispatchMode):
    """Records the calls of ops that are not torch's own.

    Iterate over it, or ask `calls`.
    """

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[Seen] = []

    def __iter__(self) -> Any:
        return iter(self.calls)

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        if func.namespace in _TORCHS_OWN:
            return func(*args, **kwargs)
        place = len(self.calls)
        self.calls.append(Seen(func, args, kwargs, None))
        try:
            result = func(*args, **kwargs)
        except Exception as error:
            self.calls[place] = Seen(func, args, kwargs, None, error)
            raise
        self.calls[place] = Seen(func, args, kwargs, result)
        return result
