"""myops in ONNX Runtime. Needs neither torch nor a compiler.

    session(model)       an InferenceSession that knows the nodes of the domain "myops", and those
                         of other packages' op libraries (`myops.op_library`)
    register(options)    the same for SessionOptions of your own
    get_library_path()   the library itself, for C, C++, C#, Java, JavaScript ...
    enable_pyops()       the ops as PyOps of onnxruntime-extensions
    pyop_session(model)  a session that runs every node of ours through NumPy
    bundle(model, folder) a folder with a model, the libraries it needs, and loaders
    bench(model)         how long a model takes, beside others
    verify(folder)       who signed a bundle, and that none of its files was changed
    explain(model)       what runs for each custom node, and how long it takes
    doctor(model)        why a model does not load or run, in words

The library works in every onnxruntime >= 1.17, with equal bits. Two gaps of old versions remain:
before 1.24, shapes are not inferred for ops that have optional inputs (Resize), because ONNX
Runtime itself would crash on one that is left out; and for a node that leaves out an input in the
middle, 1.17 needs the type of its result in the model, as onnx.shape_inference writes it.

Example:
    >>> session = myops.ort.session("upscale.onnx")
    >>> (y,) = session.run(None, {"x": x, "scales": np.float32([1, 1, 2.5, 2.5])})
    >>> y.shape
    (1, 3, 20, 20)
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from myops._distribution import RUNTIME_ONLY
from myops.ort._session import MINIMUM_ONNXRUNTIME as MINIMUM_ONNXRUNTIME
from myops.ort._session import checked_onnxruntime, get_library_path, register, session
from myops.ort._session import serialized as serialized

if TYPE_CHECKING:
    from myops.ort._bench import bench
    from myops.ort._bundle import bundle
    from myops.ort._doctor import doctor
    from myops.ort._explain import explain
    from myops.ort._signing import verify
    from myops.ort.pyops import PyopSession, enable_pyops, pyop_session

__all__ = [
    "PyopSession",
    "bench",
    "bundle",
    "doctor",
    "enable_pyops",
    "explain",
    "get_library_path",
    "pyop_session",
    "register",
    "session",
    "verify",
]

# Imported when it is first used, and not part of myops-runtime: name -> module.
_MODULES = {
    "PyopSession": "pyops",
    "bench": "_bench",
    "bundle": "_bundle",
    "doctor": "_doctor",
    "enable_pyops": "pyops",
    "explain": "_explain",
    "pyop_session": "pyops",
}

if not TYPE_CHECKING:  # or any name would be right for a type checker

    def __getattr__(name: str) -> Any:
        if name == "verify":  # of both distributions
            return importlib.import_module("myops.ort._signing").verify
        if name not in _MODULES:
            raise AttributeError(f"module 'myops.ort' has no attribute {name!r}")
        if RUNTIME_ONLY:
            raise AttributeError(
                f"myops.ort.{name}: got myops-runtime, expected all of myops: "
                "pip uninstall myops-runtime, then pip install myops"
            )
        if _MODULES[name] == "pyops":  # a missing onnxruntime is reported by the doctor
            checked_onnxruntime()
        return getattr(importlib.import_module(f"myops.ort.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(set(__all__) - set(_MODULES)) if RUNTIME_ONLY else sorted(__all__)
