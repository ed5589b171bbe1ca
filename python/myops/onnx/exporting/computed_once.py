"""Computes once what torch's exporter "dynamo" computes again in each call: three quarters of the
time that the export of a small model takes.

- It lists onnxscript's 500 functions for ATen operators. For this, onnxscript parses the Python
  source of each function, to return the name of its domain, and torch derives a signature from its
  type annotations. Neither changes, so that the first result can be used again.
- It lists the operators that torch composes of others, three times in a call. For each namespace of
  torch.ops it asks the dispatcher for all such operators of all namespaces. Here it asks once for
  each list.
- It examines the schema of each operator in these lists. Those of namespace aten do not change.
- It registers 11 000 kernels for them, each by a local function, whose type annotations Python
  computes each time. Here a function without annotations registers what is no special case.

With a torch or onnxscript that has these functions under other names, exports take longer, but are
the same.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import weakref
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock


@contextlib.contextmanager
def computed_once() -> Iterator[None]:
    """In this context, nothing of the above is computed for the second time."""
    with contextlib.ExitStack() as stack:
        for module, name, replacement in _REPLACED:
            try:
                owner = functools.reduce(
                    getattr, name.split(".")[:-1], importlib.import_module(module)
                )
                own = vars(owner)[name.split(".")[-1]]
            except (ImportError, AttributeError, KeyError):
                continue
            stack.enter_context(mock.patch.object(owner, name.split(".")[-1], replacement(own)))
        yield


@functools.cache
def _parsed(own: property) -> property:
    return property(functools.cache(own.fget))  # type: ignore[arg-type]


@functools.cache
def _derived(own: Callable[..., Any]) -> Callable[..., Any]:
    signatures: weakref.WeakKeyDictionary[Any, dict[Any, Any]] = weakref.WeakKeyDictionary()

    @functools.wraps(own)
    def signature_of(function: Any, *arguments: Any, **settings: Any) -> Any:
        known = signatures.setdefault(function, {})
        key = (arguments, *settings.items())
        if key not in known:
            known[key] = own(function, *arguments, **settings)
        return known[key]

    return signature_of


@functools.cache
def _listed(own: Callable[[], Any]) -> Callable[[], Any]:
    @functools.wraps(own)
    def composite_operators() -> Any:
        utils = importlib.import_module("torch._export.utils")
        utils._materialize_cpp_cia_ops()
        with mock.patch.object(utils, "_materialize_cpp_cia_ops"):
            return own()

    return composite_operators


@functools.cache
def _examined(own: Callable[[Any], bool]) -> Callable[[Any], bool]:
    cached = functools.cache(own)

    @functools.wraps(own)
    def can_be_preserved(operator: Any) -> bool:
        return (cached if getattr(operator, "namespace", "") == "aten" else own)(operator)

    return can_be_preserved


@functools.cache
def _without_annotations(own: Callable[..., Any]) -> Callable[..., Any]:
    keys = importlib.import_module("torch").DispatchKey

    @functools.wraps(own)
    def py_impl(operator: Any, key: Any) -> Any:
        kernels = operator.py_kernels
        if type(key) is not keys or key == keys.Python or key in kernels:
            return own(operator, key)

        def register(kernel):  # type: ignore[no-untyped-def]
            kernels[key] = kernel
            operator._dispatch_cache.clear()
            return kernel

        return register

    return py_impl


# The module, the name in it, and what makes the replacement from the original.
_REPLACED: list[tuple[str, str, Callable[[Any], Any]]] = [
    ("onnxscript._internal.values", "TracedOnnxFunction.function_ir", _parsed),
    ("torch.onnx._internal.exporter._schemas", "op_signature_from_function", _derived),
    ("torch.export.exported_program", "_collect_all_valid_cia_ops", _listed),
    ("torch.export.decomp_utils", "_collect_all_valid_cia_ops", _listed),
    ("torch._export.utils", "_check_valid_to_preserve", _examined),
    ("torch._ops", "OperatorBase.py_impl", _without_annotations),
]
