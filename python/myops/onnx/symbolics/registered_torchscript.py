"""`register_symbolic` for the TorchScript exporter."""

from __future__ import annotations

import contextlib
import functools
import importlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch.onnx import symbolic_helper

from myops import _dtypes
from myops.onnx.symbolics import constant_lengths, registry
from myops.onnx.symbolics.registry import overloads_of

_OPSETS = range(7, 21)
# How symbolic_helper reads a constant of each type of a dispatcher schema.
_PARSE: dict[str, Any] = {
    "int": "i", "SymInt": "i", "float": "f", "bool": "b", "str": "s", "number": "t",
    "ScalarType": "i", "Layout": "i", "MemoryFormat": "i", "Device": "s",
    "List[int]": "is", "List[SymInt]": "is", "List[float]": "fs", "List[bool]": "is",
}  # fmt: skip


class TorchScriptContext(registry.GraphContext):
    """The `g` of a registered function."""

    def __init__(self, name: str, graph: Any, opset: int) -> None:
        self.name, self._graph, self.opset = name, graph, opset

    def op(self, op_type: str, *inputs: Any, outputs: int = 1, **attributes: Any) -> Any:
        given = self.inputs_of(op_type, inputs, torch._C.Value)
        registry.refuse_values(self, op_type, attributes, torch._C.Value)
        absent = symbolic_helper._optional_input_placeholder_tensor
        values = [absent(self._graph) if item is None else item for item in given]
        keywords = {
            f"{key}_{_suffix(value)}": _attribute(value)
            for key, value in registry.written(attributes).items()
        }
        result = self._graph.op(op_type, *values, outputs=outputs, **keywords)
        return tuple(result) if outputs > 1 else result

    def dtype(self, value: Any) -> np.dtype | None:
        known = symbolic_helper._type_utils.JitScalarType.from_value(
            value, symbolic_helper._type_utils.JitScalarType.UNDEFINED
        )
        if known == symbolic_helper._type_utils.JitScalarType.UNDEFINED:
            return None
        return _dtypes.numpy_dtype(str(known.dtype()).removeprefix("torch."))

    def shape(self, value: Any) -> list[int | None] | None:
        return symbolic_helper._get_tensor_sizes(value)


def _suffix(value: Any) -> str:
    if isinstance(value, (torch.Tensor, np.ndarray, np.generic)):
        return "t"
    first = value[0] if isinstance(value, (list, tuple)) else value
    floats = isinstance(value, (list, tuple)) and any(isinstance(item, float) for item in value)
    return "s" if isinstance(first, str) else "f" if floats or isinstance(first, float) else "i"


def _attribute(value: Any) -> Any:
    if isinstance(value, (np.ndarray, np.generic)):
        array = np.array(value)
        if array.dtype.kind != "V":
            return torch.from_numpy(array)
        # bfloat16 and floats of 8 bits, which torch does not read from NumPy
        return torch.from_numpy(array.astype(np.float32)).to(getattr(torch, array.dtype.name))
    if isinstance(value, (list, tuple)):
        floats = any(isinstance(item, float) for item in value)
        return [float(item) if floats else item for item in value]
    return int(value) if isinstance(value, bool) else value


def install(name: str) -> None:
    """Registers, for every opset of the exporter, a function that looks up the right one."""
    if name in _originals:
        return
    title = name.partition(".")[0]
    _originals[name] = _functions_of(title)
    for opset in _OPSETS:
        torch.onnx.register_custom_op_symbolic(title, functools.partial(_symbolic, name), opset)


@contextlib.contextmanager
def wrapped(name: str, wrapper: Callable[..., Any]) -> Iterator[None]:
    """In this context, the exporter writes an operator by `wrapper(original, g, *inputs)`, unless a
    user has registered it. `original` is the exporter's own function for the opset."""
    if name in {item.partition(".")[0] for item in registry.names()}:
        yield
        return
    originals = {key: item for key, item in _functions_of(name).items() if item is not None}
    for opset, original in originals.items():
        function = functools.partial(wrapper, original)
        torch.onnx.register_custom_op_symbolic(name, function, opset)
    try:
        yield
    finally:
        for opset in originals:
            torch.onnx.unregister_custom_op_symbolic(name, opset)


def _functions_of(title: str) -> dict[int, Any]:
    for opset in _OPSETS:  # torch imports them at the first export; until then, some are missing
        importlib.import_module(f"torch.onnx.symbolic_opset{opset}")
    group = _registry().get_function_group(title)
    return {opset: group.get(opset) for opset in _OPSETS} if group else {}


def uninstall(name: str) -> None:
    """Undoes `install`."""
    title = name.partition(".")[0]
    originals = _originals.pop(name)
    for opset in _OPSETS:
        torch.onnx.unregister_custom_op_symbolic(title, opset)
    if not any(originals.values()):
        # torch keeps an entry without functions, on which its next error message fails.
        getattr(_registry(), "_registry", {}).pop(title, None)


_originals: dict[str, dict[int, Any]] = {}  # torch's own functions, by name and opset


def _registry() -> Any:
    from torch.onnx._internal.torchscript_exporter import registration

    return registration.registry


def _symbolic(name: str, graph: Any, *args: Any, **kwargs: Any) -> Any:
    from torch.onnx._internal.torchscript_exporter._globals import GLOBALS

    built = GLOBALS.export_onnx_opset_version
    wanted = registry.wanted_opset(built)
    schema = _schema(name, graph)
    registration = None if schema is None else registry.select(name, wanted)
    original = _originals[name].get(built)
    if registration is None and original is not None:
        return original(graph, *args, **kwargs)
    registration = registration or registry.required(name, wanted)
    arguments = (schema or overloads_of(name)[0]._schema).arguments
    given = _with_doubles(graph, args)
    values = [_read(value, item.real_type) for value, item in zip(given, arguments, strict=False)]
    plain = [v for v, item in zip(values, arguments, strict=False) if not item.kwarg_only]
    named = {item.name: v for v, item in zip(values, arguments, strict=False) if item.kwarg_only}
    g = TorchScriptContext(name, graph, built)
    result = registry.apply(name, registration, g, schema, plain, named)
    _set_types(name, graph, schema, values, result)
    return result


def _schema(name: str, graph: Any) -> Any:
    """The schema of the overload that was called; None if the name is that of another overload."""
    node = getattr(graph, "original_node", None)
    text = node.schema() if node is not None else ""
    overloads = overloads_of(name)
    if not text or text == "(no schema)":
        every = [overload._schema for overload in overloads_of(name.partition(".")[0])]
        fitting, own = _fitting(every, node), overloads[0]._schema
        if "." in name and fitting is not None and fitting.overload_name != own.overload_name:
            return None
        return fitting or own
    called = torch._C.parse_schema(text)
    for overload in overloads:
        if overload._schema.overload_name == called.overload_name:
            return called
    return None if "." in name else called


def _fitting(schemas: list[Any], node: Any) -> Any:
    """The first schema with the number of arguments of a node, and lists where it has lists; None
    if there is none."""
    values = list(node.inputs()) if node is not None else []
    for schema in schemas:
        kinds = [str(item.real_type) for item in schema.arguments]
        if len(kinds) == len(values) and all(map(_may_be, kinds, values)):
            return schema
    return None


def _may_be(kind: str, value: Any) -> bool:
    """Whether a value may be an argument of a type (a list is no number)."""
    if "Tensor" in kind or "List" in kind:
        return True
    listed = isinstance(value.type(), torch._C.ListType)
    if value.node().kind() == "onnx::Constant" and "value" in value.node().attributeNames():
        constant = symbolic_helper._node_get(value.node(), "value")
        listed |= isinstance(constant, torch.Tensor) and constant.dim() > 0
    return not listed


def _with_doubles(graph: Any, args: Any) -> list[Any]:
    """The arguments, with lists of floats from the program, because torch rounds them to
    float32."""
    node = getattr(graph, "original_node", None)
    sources = list(node.inputs()) if node is not None else []
    if len(sources) != len(args):
        return list(args)
    found = []
    for value, source in zip(args, sources, strict=True):
        known = source.toIValue() if source.node().kind() == "prim::Constant" else None
        floats = isinstance(known, list) and any(isinstance(item, float) for item in known)
        found.append(known if floats else value)
    return found


def _read(value: Any, declared: Any) -> Any:
    """A graph value as a Python value, if the schema says that it is one and it is constant."""
    if not isinstance(value, torch._C.Value):
        return value
    if symbolic_helper._is_none(value):
        return None
    kind = str(declared)
    while kind.startswith("Optional["):
        kind = kind[len("Optional[") : -1]
    if kind in ("List[Tensor]", "List[Optional[Tensor]]"):
        items = symbolic_helper._unpack_list(value)
        return [None if symbolic_helper._is_none(item) else item for item in items]
    if kind not in _PARSE:
        return value
    known = symbolic_helper._maybe_get_const(value, _PARSE[kind])
    if isinstance(known, torch._C.Value) and value.node().kind() == "prim::ListConstruct":
        inner = kind[len("List[") : -1]
        known = [symbolic_helper._maybe_get_const(v, _PARSE[inner]) for v in value.node().inputs()]
    if isinstance(known, torch.Tensor):  # a list of constants is one as well
        known = known.tolist() if kind.startswith("List[") else known.item()
    if kind == "ScalarType" and isinstance(known, int):
        return int(symbolic_helper._type_utils.JitScalarType(known).onnx_type().value)
    return known


def _set_types(name: str, graph: Any, schema: Any, values: Sequence[Any], result: Any) -> None:
    """Gives the outputs of nodes without shape inference the dtype, the rank, and the lengths that
    are constant."""
    node = getattr(graph, "original_node", None)
    if node is None:
        return
    outputs = result if isinstance(result, tuple) else (result,)
    pairs = [
        (number, new, old)
        for number, (new, old) in enumerate(zip(outputs, node.outputs(), strict=False))
        if not new.node().kind().startswith("onnx::") and _is_tensor(new) and _is_tensor(old)
    ]
    if not pairs:
        return
    lengths = _constant_lengths(name, schema, list(node.inputs()), values)
    for number, new, old in pairs:
        type_ = old.type()
        if type_.dim() is not None:
            known = lengths[number] if lengths is not None and number < len(lengths) else None
            fits = known is not None and len(known) == type_.dim()
            type_ = type_.with_sizes(known if fits else [None] * type_.dim())
        new.setType(type_)


def _is_tensor(value: Any) -> bool:
    return bool(value.type().isSubtypeOf(torch._C.TensorType.get()))


def _constant_lengths(
    name: str, schema: Any, sources: Sequence[Any], values: Sequence[Any]
) -> list[list[int | None]] | None:
    """Args:
    sources: The arguments in the traced program, which has the example's lengths.
    values: The arguments as the registered function got them.
    """
    arguments = list(schema.arguments)
    if len(sources) != len(values):
        return None
    given = [
        _described(str(item.real_type), source, value)
        for item, source, value in zip(arguments, sources, values, strict=False)
    ]
    if any(item is NotImplemented for item in given):
        return None
    overload = next(
        item for item in overloads_of(name) if item._schema.name == schema.name
        and item._schema.overload_name == schema.overload_name
    )  # fmt: skip
    args = [v for v, item in zip(given, arguments, strict=False) if not item.kwarg_only]
    kwargs = {item.name: v for v, item in zip(given, arguments, strict=False) if item.kwarg_only}
    return constant_lengths.of_results(overload, args, kwargs)


def _described(kind: str, source: Any, value: Any) -> Any:
    """An argument for constant_lengths.py; NotImplemented if too little is known about it."""
    if isinstance(value, (list, tuple)):
        sources = list(source.node().inputs())
        inner = kind.removeprefix("Optional[").removeprefix("List[")
        if not any(isinstance(item, torch._C.Value) for item in value):
            return list(value)
        if len(sources) != len(value):
            return NotImplemented
        found = [_described(inner, *pair) for pair in zip(sources, value, strict=True)]
        return NotImplemented if any(item is NotImplemented for item in found) else found
    if not isinstance(value, torch._C.Value):
        return value
    if "List" in kind:
        return NotImplemented
    if "int" in kind.lower():
        return constant_lengths.INTEGER
    if "float" in kind:
        return constant_lengths.FLOAT
    if "Tensor" not in kind or not _is_tensor(source):
        return NotImplemented
    example, dtype = source.type().varyingSizes(), source.type().dtype()
    if example is None or dtype is None:
        return NotImplemented
    return constant_lengths.TensorArgument(example, dtype, symbolic_helper._get_tensor_sizes(value))
