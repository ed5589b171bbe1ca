"""Write a PyTorch operator once; run it in PyTorch and ONNX Runtime, with bit-identical results.

    myops.my_add, myops.resize, ...  the ops, on tensors of PyTorch
    myops.nn                         modules around them
    myops.explain                    what a call did: kernels, threads, time
    myops.patch_interpolate          torch's interpolate on our kernel
    myops.patch_torchvision          torchvision's deform_conv2d on our kernel
    myops.prototype                  an op of your own, from a NumPy function
    myops.new_package, myops.build   a package of ops in C++
    myops.op_library                 the ops of such a package
    myops.package_stub               its type stub
    myops.onnx                       export, function bodies, lowering
    myops.ort                        ONNX Runtime: library, session, PyOps
    myops.batch                      a model over many rows: folders, Parquet, Ray
    myops.testing                    the conformance suite for any op

`import myops` and `import myops.ort` do not import torch; the first use of an op does.

Example:
    >>> myops.my_add(torch.tensor([1.0]), torch.tensor([10.0]))
    tensor([12.])
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
from typing import Any

from myops import _op_library
from myops._distribution import RUNTIME_ONLY as _RUNTIME_ONLY
from myops._version import __version__ as __version__

if not _RUNTIME_ONLY:
    from myops.onnx.symbolics import translation as _translation

    # Must happen before the first export, and an export may be the first that touches an op. It
    # adds a finder to sys.meta_path; see `register` there, and MYOPS_IMPORT_HOOK in docs/export.md.
    _translation.register()


def _define(*arguments: Any) -> Any:
    """What `Library.define` does; the first call imports torch."""
    from myops._torch.define import define_op

    return define_op(*arguments)


_op_library.install_define(_define)


# Public names that are not ops. Those of the first kind do not need torch.
_TORCH_FREE = {
    "Attribute": ("myops._op_parts", "AttributeInfo"),
    "Input": ("myops._op_parts", "InputInfo"),
    "IntegerOp": ("myops._op_library", "IntegerOp"),
    "at_most": ("myops._op_parts", "at_most"),
    "Output": ("myops._op_parts", "OutputInfo"),
    "Philox": ("myops._random", "Philox"),
    "explain": ("myops._explain", "explain"),
    "forget_prepared": ("myops._prepared", "forget_prepared"),
    "new_package": ("myops.scaffold", "new_package"),
    "op_library": ("myops._libraries", "op_library"),
    "package_stub": ("myops._stubs", "package_stub"),
}
_MODULES = ("batch", "build", "nn", "onnx", "ort", "testing")
_TORCH = {
    "patch_interpolate": ("myops._torch.interpolate", "patch_interpolate"),
    "patch_torchvision": ("myops._torch.torchvision", "patch_torchvision"),
    "prototype": ("myops._prototype.define", "prototype"),
}


@functools.cache
def _public() -> dict[str, Any]:
    """The public names of all op modules: a new op appears here without an edit."""
    from myops import ops

    found = {name: getattr(module, name) for module in ops.modules() for name in module.__all__}
    for name, (module, member) in _TORCH.items():
        found[name] = getattr(importlib.import_module(module), member)
    globals().update(found)
    return found


def __getattr__(name: str) -> Any:
    if importlib.util.find_spec(f"myops.{name}") is not None:
        return importlib.import_module(f"myops.{name}")
    if _RUNTIME_ONLY:
        raise AttributeError(
            f"myops.{name}: got myops-runtime, which has `myops.ort` and `myops.batch` only, "
            "expected all of myops: "
            "pip uninstall myops-runtime, then pip install myops"
        )
    if name in _TORCH_FREE:
        module, member = _TORCH_FREE[name]
        return getattr(importlib.import_module(module), member)
    if not name.startswith("_"):
        found = _public()
        if name in found:
            return found[name]
    raise AttributeError(f"module 'myops' has no attribute {name!r}")


def __dir__() -> list[str]:
    if _RUNTIME_ONLY:
        return ["__doc__", "__version__", "batch", "ort"]
    return sorted({*_MODULES, *_TORCH_FREE, *_public(), "__version__", "__doc__"})
