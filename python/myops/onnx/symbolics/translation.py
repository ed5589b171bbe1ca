"""Writes every op as one node for the exporter based on torch.export, derived from its
description."""

from __future__ import annotations

import importlib
import importlib.machinery
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

from myops import _description, _libraries
from myops._description import OpInfo
from myops.onnx.symbolics import complex_numbers
from myops.onnx.symbolics.attribute_text import FollowsLengthError

# The module with the exporter's list of operators. Importing it takes more than a second, so
# `register` waits until it is imported for an export. It and another module import each other;
# which of the two is finished last depends on which is imported first.
_REGISTRATION = "torch.onnx._internal.exporter._registration"
_REGISTRY = "torch.onnx._internal.exporter._torchlib._torchlib_registry"

_foreign: dict[Any, Callable[..., Any]] = {}  # the functions given to `register_translation`


def translation_table() -> dict[Any, Callable[..., Any]]:
    """Translations of all ops, for `torch.onnx.export(..., custom_translation_table=...)`.

    `import myops`, and the import of a package of ops, already register them. The table is only
    needed where this does not work: with MYOPS_IMPORT_HOOK=0, or in a torch release whose exporter
    stores its registry elsewhere.

    Returns:
        Dispatcher overload -> function that emits the node.

    Example:
        >>> torch.ops.myops.my_add.default in myops.onnx.translation_table()
        True
    """
    import torch

    from myops._torch.loading import load

    table = {}
    for library in _libraries.known():
        load(library)
        for info in library.ops.values():
            packet = getattr(getattr(torch.ops, info.namespace), info.name)
            if info.onnx_type:
                for overload in ["default"] + (["values"] if info.has_values else []):
                    table[getattr(packet, overload)] = translation(info)
    return {**table, **_foreign}


def register_translation(target: Any, function: Callable[..., Any]) -> None:
    """Lets the exporter write an op of another library with `function`.

    Args:
        target: A dispatcher overload, e.g. torch.ops.torchvision.deform_conv2d.default. The first
            function for a target stays.
        function: Called with the op's arguments, graph values where they are tensors; returns the
            graph value of the result. `translation(info)` is such a function for our own nodes.
    """
    _foreign.setdefault(target, function)
    register()


def translation(info: OpInfo) -> Callable[..., Any]:
    """The function that writes the op's node: inputs by position, attributes by name."""
    count = len(info.inputs)

    def translate(*inputs: Any, **attributes: Any) -> Any:
        import onnx_ir
        import onnxscript

        from myops.onnx.schema import attribute_proto, schema_of_node

        complex_numbers.refuse(info, [None] * count)  # an output that no input decides
        padded = [*inputs, *[None] * (count - len(inputs))]
        outputs = _count(info.present(padded, attributes))
        flat = info.flat(padded)
        domain = onnxscript.values.Opset(info.domain, _libraries.newest_version(info.domain))
        node = onnxscript.values.Op(
            domain, info.onnx_type, schema_of_node(info, len(flat), outputs)
        )
        values = [
            _constant(item, info.is_integer(declared)) if isinstance(item, Sequence) else item
            for item, declared in zip(flat, info.expanded(len(flat)).inputs, strict=True)
        ]
        while values and values[-1] is None:
            values.pop()
        keywords = {}
        for item in info.attributes:
            value = attributes.get(item.name)
            value = item.default if value is None else value
            if not item.is_written(value):
                continue
            if any(
                isinstance(part, onnx_ir.Value) for part in (value if item.is_list else [value])
            ):
                name = info.qualified.replace("::", ".")
                raise FollowsLengthError(name, item.name)
            keywords[item.name] = int(value) if item.type == "bool" else value
            proto = attribute_proto(item, value)
            if item.type in ("double", "doubles"):
                keywords[item.name] = proto.t
            elif item.is_list and not len(value):  # whose kind no element tells
                keywords[item.name] = onnx_ir.serde.deserialize_attribute(proto)
        if info.since_version > 1:
            keywords[_description.VERSION] = info.since_version
        made = node(*values, **keywords)
        if outputs == len(info.outputs):
            return made
        made = tuple(made) if isinstance(made, Sequence) else (made,)
        dtypes = [getattr(item, "dtype", None) for item in flat]
        return (*made, *_left_out(info, dtypes, len(made)))

    translate.__name__ = info.name
    return translate


def _count(wanted: Sequence[bool]) -> int:
    """The number of outputs of the node: trailing outputs that are left out do not count."""
    return max(number for number, given in enumerate(wanted) if given) + 1


def _left_out(info: OpInfo, dtypes: Sequence[Any], count: int) -> list[Any]:
    """Empty tensors, which replace the outputs after the first `count` in the program.

    `dtypes`: those of the inputs, as onnx_ir has them; None for an unknown one.
    """
    import onnx
    import onnxscript

    from myops.onnx.schema import ELEMENT_TYPES

    op: Any = onnxscript.opset18
    empty = []
    for output in info.outputs[count:]:
        pairs = zip(dtypes, info.expanded(len(dtypes)).inputs, strict=True)
        known = [dtype for dtype, item in pairs if dtype is not None and item.type == output.type]
        number = int(known[0]) if known else ELEMENT_TYPES[info.types[output.type][0]]
        empty.append(op.Constant(value=onnx.helper.make_tensor("", number, [0], [])))
    return empty


def _constant(numbers: Sequence[Any], integer: bool) -> Any:
    """A list of numbers as a graph value; if some are symbolic, the graph joins them."""
    import onnx_ir
    import onnxscript

    from myops.onnx.symbolics.symbolic import values_tensor

    op: Any = onnxscript.opset18
    if all(isinstance(number, (int, float)) for number in numbers):
        tensor = values_tensor(numbers, integer).numpy()
        return op.Constant(value=onnx_ir.serde.serialize_tensor(onnx_ir.tensor(tensor)))
    one = op.Constant(value_ints=[1])
    pieces = [
        op.Constant(value_ints=[number]) if isinstance(number, int) else op.Reshape(number, one)
        for number in numbers
    ]
    return op.Concat(*pieces, axis=0) if len(pieces) > 1 else pieces[0]


def register() -> None:
    """Lets a plain `torch.onnx.export(model, ...)` find the translations.

    They are registered in torch's exporter, whose import takes more than a second. So a finder on
    sys.meta_path waits for that import, adds them, and removes itself. With MYOPS_IMPORT_HOOK=0 in
    the environment there is no finder.
    """
    if _fill() or os.environ.get("MYOPS_IMPORT_HOOK") == "0":
        return
    if not any(isinstance(finder, _FillOnImport) for finder in sys.meta_path):
        sys.meta_path.insert(0, _FillOnImport())


def register_now() -> None:
    """Registers them at the beginning of an export: imports torch's exporter."""
    for name in (_REGISTRATION, _REGISTRY):
        try:
            importlib.import_module(name)
        except ImportError:  # a torch release that keeps its registry elsewhere
            return
    _fill()


def _fill() -> bool:
    """Adds the translations to those of torch's exporter; returns whether it was found."""
    entry = getattr(sys.modules.get(_REGISTRATION), "OnnxDecompMeta", None)
    registry = getattr(sys.modules.get(_REGISTRY), "_registry", None)
    if entry is None or registry is None:
        return False
    known = {meta.fx_target for meta in registry}
    refusals = _complex_table()
    for target, function in translation_table().items():
        if target in known:
            continue
        settings = {"fx_target": target, "signature": None, "is_custom": True,
                    "skip_signature_inference": True}  # fmt: skip
        registry.append(entry(onnx_function=function, **settings))
        if target in refusals:
            registry.append(entry(onnx_function=refusals[target], is_complex=True, **settings))
    return True


def _complex_table() -> dict[Any, Callable[..., Any]]:
    """The functions for nodes with complex inputs, for which the exporter has a separate list."""
    import torch

    return {
        getattr(getattr(torch.ops, info.namespace), info.name).default: complex_numbers.refusing(
            info
        )
        for info in _libraries.nodes()
        if complex_numbers.takes_any(info)
    }


class _FillOnImport:
    """A finder of modules that adds the translations when the exporter is imported.

    It has no base class, because importing importlib.abc would take as long as all of this.
    """

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        if name not in (_REGISTRATION, _REGISTRY):
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        if spec is None or spec.loader is None:
            return spec
        load = spec.loader.exec_module

        def exec_module(module: Any) -> None:
            load(module)
            if self in sys.meta_path and _fill():
                sys.meta_path.remove(self)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec
