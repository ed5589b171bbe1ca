"""Ops as PyOps of onnxruntime-extensions: NumPy kernels inside an ONNX Runtime session.

Ours, those of other packages' op libraries, and prototypes. The kernels are those of the native
library, reached through Python (a prototype's is its function); results have equal bits. It
is a way to run a model where only Python packages can be installed, to step through a node in a
debugger, and to check the native library against a second host. It is never a fast path: each
call takes the interpreter lock and copies its tensors twice.

There are two ways to use them:

`enable_pyops()` registers the ops under their own names in their own domains, for models whose
nodes PyOps can express as they stand. `pyop_session(model)` rewrites a copy of the model first
(into private domains such as "myops.pyop.resize") and has none of the first four limits, nor the
sixth.

What PyOps of onnxruntime-extensions 0.15 cannot do (measured), and what becomes of it:

1. float16 and bfloat16 tensors end the process. pyop_session carries them through the PyOp as
   float32: Cast widens the inputs, the kernel still computes on the narrow type, and the Cast
   after it narrows values that are exact already. Every value has equal bits; a NaN stays a NaN,
   but its payload may change.
2. All inputs are required. pyop_session fills optional inputs that are left out with empty
   tensors; without it you do (an optional input with 0 elements counts as left out).
3. Attributes are int, float or string, all are required, and a float arrives with 6 digits only.
   pyop_session puts all of them into one string. Without it, every attribute has to be written
   out, and a float, a list or an optional attribute has to be a string in JSON:
   cubic_coeff_a="-0.75", axes="[2, 3]", limit="null". A node that is written otherwise is refused
   when the model is loaded.
4. An exception in a PyOp ends the process. PyopSession.run raises it instead.
5. Shapes are not inferred through a PyOp, and an op with a variadic input, whose nodes have any
   number of inputs, is none: pyop_session makes a PyOp for each number.
6. A node whose op has several versions cannot have an attribute that only some of its nodes have.
   enable_pyops leaves such ops out; pyop_session runs them.
7. Once enable_pyops() has been called, a session cannot have both the library of
   onnxruntime-extensions and ours: ONNX Runtime refuses a domain that two libraries provide (in
   older versions the PyOps shadow the native ops). Compare the two in separate sessions.

What does work: float32, float64, uint8, int32, int64 behind one name, empty tensors and scalars,
several outputs. Results go back as arrays, not through Python lists as usual, so that even the
payload of a float32 NaN survives.
"""

from __future__ import annotations

import itertools
import json
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime

from myops import _dtypes, _libraries, _numpy_call
from myops._checked import checked
from myops._description import OpInfo
from myops._op_parts import AttributeInfo
from myops.onnx.graph import files
from myops.onnx.schema import ELEMENT_TYPES
from myops.ort import _extensions, _passed_on, _pyop_models, _session

_enabled: dict[str, set[str]] = {}  # domain -> the ops that enable_pyops has registered
_callable: set[str] = set()  # domains of the ops that pyop_session can run
_numbers = itertools.count()
# What went wrong in a PyOp, by the number of its session: it cannot be raised where it happens.
_failures: dict[int, Exception] = {}


def _package() -> Any:
    try:
        return _extensions.load()
    except ImportError as error:
        raise ImportError(
            "PyOps need onnxruntime-extensions; get it with `pip install 'myops[pyops]'`"
        ) from error


def extensions_library() -> str:
    """The custom-op library of onnxruntime-extensions, through which PyOps come into a session."""
    return _package().get_library_path()


def is_enabled() -> bool:
    """Whether enable_pyops() has been called in this process."""
    return bool(_enabled)


def enable_pyops() -> list[str]:
    """Registers every op as a PyOp under its own name in its domain, "myops" for ours.

    Sessions made afterwards with the library of onnxruntime-extensions run these nodes through
    NumPy. It holds for the whole process and cannot be undone; called again, it adds the op
    libraries that became known since (`myops.op_library`, `myops.prototype`). The limits are in
    the docstring of this module: `pyop_session` has fewer.

    Returns:
        The names of the PyOps, such as "myops::MyAdd".

    Raises:
        ImportError: onnxruntime-extensions is missing.
        ValueError: A domain got another prototype since the last call: sessions may point into
            its list of PyOps, which must not grow. `pyop_session` has no such limit.

    Example:
        >>> "myops::Resize" in myops.ort.enable_pyops()
        True
        >>> options = onnxruntime.SessionOptions()
        >>> options.register_custom_ops_library(onnxruntime_extensions.get_library_path())
        >>> session = onnxruntime.InferenceSession("add.onnx", options)
    """
    kinds = _package().PyCustomOpDef
    before = {domain: set(names) for domain, names in _enabled.items()}
    first = [i for i in _libraries.nodes() if not i.is_variadic and not _has_versions(i)]
    for info in first:
        if info.name in before.get(info.domain, ()):
            continue
        if info.domain in before:
            raise ValueError(
                f"enable_pyops: {info.node} was defined after the PyOps of {info.domain!r} had "
                "been enabled, expected all its ops to be there then; use pyop_session(model)"
            )
        attributes = {
            item.name: kinds.dt_int64
            if item.type in ("bool", "int") and not item.optional
            else kinds.dt_string
            for item in info.attributes
        }
        _define(info.domain, info, attributes, _plain)
        _enabled.setdefault(info.domain, set()).add(info.name)
    return [info.node for info in first]


def _has_versions(info: OpInfo) -> bool:
    """Whether a node's meaning depends on an attribute that nodes of version 1 do not have."""
    library = _libraries.find(info.domain)
    assert library is not None  # it has the op
    return library.versions(info.onnx_type)[-1].since_version > 1


def _define(
    domain: str,
    info: OpInfo,
    attributes: dict[str, int],
    body: Callable[[OpInfo, tuple[str, ...]], Callable[..., Any]],
) -> None:
    """One PyOp for each combination of dtypes; `body` also gets the dtypes of the outputs."""
    for inputs, outputs in _pyop_models.signatures(info):
        _package().onnx_op(
            op_type=f"{domain}::{info.onnx_type}",
            inputs=[ELEMENT_TYPES[dtype] for dtype in inputs],
            outputs=[ELEMENT_TYPES[dtype] for dtype in outputs],
            attrs=attributes,
        )(body(info, outputs))


class _Array(np.ndarray):
    """An array that is its own list.

    onnxruntime-extensions fetches a result by `result.flatten().tolist()` and then makes an array
    of it: without the detour it is many times faster, and exact for every NaN.
    """

    def tolist(self) -> Any:
        return self.view(np.ndarray)


def _results(
    arrays: Sequence[np.ndarray | None], dtypes: Sequence[np.dtype]
) -> tuple[np.ndarray, ...]:
    """None, an output that is left out, is an empty array: a PyOp has all outputs."""
    pairs = zip(arrays, dtypes, strict=True)
    return tuple((np.empty(0, t) if a is None else a).view(_Array) for a, t in pairs)


def _plain(info: OpInfo, outputs: tuple[str, ...]) -> Callable[..., tuple[np.ndarray, ...]]:
    wanted = [_dtypes.numpy_dtype(dtype) for dtype in outputs]

    def run(*arrays: np.ndarray, **attributes: Any) -> tuple[np.ndarray, ...]:
        inputs = [
            None if item.optional and array.size == 0 else array
            for item, array in zip(info.inputs, arrays, strict=True)
        ]
        values = {
            item.name: _attribute(info, item, attributes[item.name]) for item in info.attributes
        }
        return _results(_numpy_call.call(info, inputs, values), wanted)

    return run


def _attribute(info: OpInfo, item: AttributeInfo, value: Any) -> Any:
    if item.type == "bool" and not item.optional:
        return _pyop_models.truth(info, item, value)
    if item.type in ("int", "string") and not item.optional:
        return value
    try:
        return json.loads(value)
    except json.JSONDecodeError as error:
        raise ValueError(f'{info.name}: {item.name}: got "{value}", expected JSON') from error


def _define_pyops() -> None:
    """The PyOps of the private domains; each once, as ONNX Runtime keeps pointers to them."""
    kinds = _package().PyCustomOpDef
    for info in _libraries.nodes():
        counts: set[Any] = {None}
        if info.is_variadic:
            counts = _pyop_models.counts.get((info.domain, info.name), set())
        for count in counts:
            domain = _pyop_models.private_domain(info, count)
            if domain not in _callable:
                described = info if count is None else info.expanded(count)
                _define(domain, described, {_pyop_models.CALL: kinds.dt_string}, _carrier)
                _callable.add(domain)


def _carrier(info: OpInfo, outputs: tuple[str, ...]) -> Callable[..., tuple[np.ndarray, ...]]:
    wanted = [_dtypes.numpy_dtype(dtype) for dtype in outputs]

    def run(*arrays: np.ndarray, **attributes: str) -> tuple[np.ndarray, ...]:
        request = _pyop_models.Request.loads(attributes[_pyop_models.CALL])
        try:
            inputs = [
                None if dtype is None else array.astype(_dtypes.numpy_dtype(dtype), copy=False)
                for dtype, array in zip(request.dtypes, arrays, strict=True)
            ]
            results = _numpy_call.call(info, inputs, request.attributes)
            pairs = zip(results, wanted, strict=True)
            made = [None if item is None else np.asarray(item, dtype) for item, dtype in pairs]
            return _results(made, wanted)
        except Exception as error:  # may not leave the PyOp; PyopSession raises it
            _failures.setdefault(request.session, error)
            return _results([None] * len(wanted), wanted)

    return run


class PyopSession(onnxruntime.InferenceSession):
    """The InferenceSession that `pyop_session` returns: its `run` raises what a kernel raises.

    One run at a time: further threads wait for their turn.

    Example:
        >>> session = myops.ort.pyop_session("upscale.onnx")
        >>> isinstance(session, myops.ort.PyopSession)
        True
    """

    def __init__(self, model: bytes, number: int, *args: Any, **kwargs: Any) -> None:
        self._number = number
        self._turn = threading.Lock()
        # Constant folding may run a node here already.
        self._raising(lambda: super(PyopSession, self).__init__(model, *args, **kwargs))

    def _raising(self, call: Callable[[], Any]) -> Any:
        with self._turn:
            failure: Exception | None = None
            try:
                result = call()
            except Exception as error:
                failure = _failures.pop(self._number, None)
                if failure is None:
                    raise
                raise failure from error  # what followed from the empty result
            failure = _failures.pop(self._number, None)
            if failure is not None:
                raise failure
            return result

    def run(self, *args: Any, **kwargs: Any) -> Any:
        return self._raising(lambda: super(PyopSession, self).run(*args, **kwargs))

    def run_with_ort_values(self, *args: Any, **kwargs: Any) -> Any:
        return self._raising(lambda: super(PyopSession, self).run_with_ort_values(*args, **kwargs))

    def run_with_iobinding(self, *args: Any, **kwargs: Any) -> Any:
        return self._raising(lambda: super(PyopSession, self).run_with_iobinding(*args, **kwargs))

    def run_async(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError("PyopSession.run_async: use run in a thread of your own")


@checked()
def pyop_session(
    model: str | os.PathLike[str] | bytes | onnx.ModelProto,
    *,
    providers: Sequence[str | tuple[str, Mapping[str, Any]]] = ("CPUExecutionProvider",),
    session_options: onnxruntime.SessionOptions | None = None,
    libraries: Sequence[str | os.PathLike[str]] = (),
    **options: Any,
) -> PyopSession:
    """Loads a model so that its nodes of the domain "myops" run through NumPy.

    Nodes of other packages' op libraries and of prototypes do so too.

    A copy of the model is rewritten for PyOps (see this module's docstring); `model` itself is
    not touched. Every model that `myops.ort.session` runs can be run, with equal bits.

    Args:
        model: A path, the bytes of a file, or an onnx.ModelProto; less than 2 GiB with its
            weights.
        providers: Execution providers, most wanted first.
        session_options: Your own; the library of onnxruntime-extensions is added to them.
        libraries: Custom-op libraries of others that the model needs too.
        options: Passed on to onnxruntime.InferenceSession, such as `provider_options`.

    Returns:
        The session; its `run` raises ValueError with the kernel's text when a kernel refuses.

    Raises:
        ImportError: onnxruntime-extensions is missing.
        TypeError: An argument is unknown here and to InferenceSession, which would ignore it.
        ValueError: An attribute has a wrong type, the type of an input cannot be inferred, or the
            model has 2 GiB or more.

    Example:
        >>> session = myops.ort.pyop_session("upscale.onnx")
        >>> (y,) = session.run(None, {"x": x, "scales": np.float32([1, 1, 2.5, 2.5])})
    """
    _passed_on.refuse_unknown(pyop_session, options, _session.checked_onnxruntime())
    number = next(_numbers)
    copy = onnx.ModelProto()
    copy.CopyFrom(files.load(model))
    _session.serialized(copy)  # the steps below need it in one message, with its weights
    rewritten = _pyop_models.rewrite(copy, number)
    _define_pyops()
    if session_options is None:
        session_options = onnxruntime.SessionOptions()
    _session.register_libraries(
        session_options, [extensions_library(), *(os.fspath(library) for library in libraries)]
    )
    return PyopSession(
        _session.serialized(rewritten),
        number,
        session_options,
        providers=list(providers),
        **options,
    )
