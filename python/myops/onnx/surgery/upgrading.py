"""`upgrade_ops`: replaces nodes of op libraries by their newest version, and standard nodes by ours
if ours have the same meaning, which is the reverse of `lower`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import onnx

from myops import _description
from myops._checked import checked
from myops.onnx.builder import LoweringError
from myops.onnx.graph import files, inference, scopes, storage, structure, versions
from myops.onnx.surgery import _standard_forms, _versions
from myops.onnx.surgery._standard_forms import Other, Ours

_FORMS: dict[str, Callable[[onnx.NodeProto, scopes.Scope, int], Ours | Other]] = {
    "Resize": _standard_forms.resize,
    "Upsample": _standard_forms.upsample,
    "DeformConv": _standard_forms.deform_conv,
}


@dataclass(frozen=True)
class Upgraded:
    """The result of `upgrade_ops`.

    Attributes:
        model: The new model.
        upgraded: The nodes that were replaced.
        kept: The nodes that were not replaced, and the reasons.

    Example:
        >>> result = myops.onnx.upgrade_ops("resize.onnx")
        >>> result.upgraded
        ["'Resize_3' (Resize)"]
    """

    model: onnx.ModelProto = field(repr=False)
    upgraded: list[str]
    kept: dict[str, str]

    @property
    def raised(self) -> list[str]:
        """The earlier name of `upgraded`."""
        return self.upgraded


@checked()
def upgrade_ops(
    model: files.Model,
    f: files.Target = None,
    *,
    function_bodies: bool = True,
) -> Upgraded:
    """Replaces standard Resize, Upsample and DeformConv nodes by ours, so that our kernels run.

    Nodes of op libraries with an earlier version of their domain are written with the newest
    version, and compute the same as before. If an op has no function for this (`upgrade=` of
    `Library.define`), all nodes of that domain are kept.

    A standard node is replaced only if our op has exactly the same meaning; all others are kept,
    with a reason. "nearest" then selects the same elements as ONNX Runtime's own kernel; the other
    modes and DeformConv agree within rounding, 1e-5 of the largest element in float32. `lower` is
    the reverse. One difference cannot be found without a run: factors that are inputs, and so close
    to 1 that no length changes (5 * 1.1 is 5), are ignored by ONNX Runtime's kernel but applied by
    ours.

    Nodes in bodies of If, Loop and Scan are replaced too; model-local functions that contain such
    nodes are inlined, because types are known only in the graph.

    Args:
        model: A path, the bytes of a file, or a ModelProto. It is not changed.
        f: File to write: a path, or an object open for writing bytes. None: only return.
        function_bodies: Whether our nodes get function bodies, see `add_function_bodies`, so that
            runtimes without our library still run the model.

    Returns:
        The new model, and the outcome for each node.

    Raises:
        ValueError: It is no ONNX model.

    Warns:
        MissingBodyWarning: The model's opset cannot express a body.

    Example:
        >>> result = myops.onnx.upgrade_ops("resize.onnx", "ours.onnx")
        >>> result.upgraded, result.kept
        (["'Resize_3' (Resize)"], {})
    """
    proto = storage.load(model)
    result = _inline_holders(scopes.inline_callers(proto))
    _state_types(result)
    upgraded: list[str] = []
    kept: dict[str, str] = {}
    later, outdated = _versions.upgrade(result)
    for scope in list(scopes.all_scopes(result)):
        for place in reversed(range(len(scope.graph.node))):
            node = scope.graph.node[place]
            if node.op_type not in _FORMS or structure.is_custom(node.domain):
                continue
            title = _title(node, kept, upgraded)
            form = _form(node, scope)
            if isinstance(form, Other):
                kept[title] = form.reason
            else:
                upgraded.append(title)
                _replace(scope.graph, place, form)
    upgraded.reverse()
    upgraded += later
    kept |= outdated
    if not upgraded:
        result.CopyFrom(proto)
    else:
        versions.state(result)
        if function_bodies:
            from myops.onnx.bodies import add_function_bodies

            result = add_function_bodies(result)
    storage.finish(result, model, f)
    return Upgraded(result, upgraded, dict(reversed(kept.items())))


def _state_types(model: onnx.ModelProto) -> None:
    """Writes the type of X into the model if only ONNX Runtime knows it, as after its own fused
    nodes."""
    candidates = [n for n in model.graph.node if n.op_type in _FORMS and n.input]
    wanted = [node.input[0] for node in candidates if not structure.is_custom(node.domain)]
    known = inference.types(model)
    made = structure.Index(model).producers
    unknown = [name for name in wanted if name not in known and name in made]
    found = inference.types(model, unknown) if unknown else {}
    outputs = {item.name for item in model.graph.output}
    model.graph.value_info.extend(
        found[name] for name in dict.fromkeys(unknown) if name in found and name not in outputs
    )


def _title(node: onnx.NodeProto, *taken: Any) -> str:
    title = structure.label(node)
    if any(title in names for names in taken):
        title += f", making {next(iter(node.output), '')!r}"
    return title


def _form(node: onnx.NodeProto, scope: scopes.Scope) -> Ours | Other:
    try:
        schema = onnx.defs.get_schema(node.op_type, scope.opset, "")
    except onnx.defs.SchemaError:
        return Other(f"opset {scope.opset} has no {node.op_type}")
    version = schema.since_version
    if not schema.min_input <= len(node.input) <= schema.max_input or not any(node.output):
        return Other("it has another number of inputs or outputs than the operator")
    for item in node.attribute:
        declared = schema.attributes.get(item.name)
        kind = onnx.AttributeProto.AttributeType.Name(item.type)
        if declared is None or declared.type != getattr(onnx.defs.OpSchema.AttrType, kind, None):
            return Other(f"the operator has no attribute {item.name!r} of this kind")
        if not _is_utf8(item.s):
            return Other(f"the attribute {item.name!r} is no UTF-8")
    try:
        return _FORMS[node.op_type](node, scope, version)
    except LoweringError as error:  # the model does not contain all that it needs
        return Other(str(error.__cause__ or error))


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def _replace(graph: Any, place: int, form: Ours) -> None:
    node = graph.node[place]
    node.domain, node.op_type = _description.DOMAIN, form.op_type
    del node.input[:]
    node.input.extend(form.inputs)
    del node.attribute[:]
    node.attribute.extend(form.attributes)
    for number, constant in enumerate(form.before):
        graph.node.insert(place + number, constant)


def _inline_holders(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model in which every function is inlined that contains a node which could be upgraded."""
    holders: set[tuple[str, str]] = set()
    while True:
        found = {
            (function.domain, function.name)
            for function in model.functions
            for node in scopes.all_nodes(function.node)
            if (node.op_type in _FORMS and not structure.is_custom(node.domain))
            or (node.domain, node.op_type) in holders
        }
        if found == holders:
            break
        holders = found
    return onnx.inliner.inline_selected_functions(model, sorted(holders)) if holders else model


# The earlier names.
Raised = Upgraded
raise_ops = upgrade_ops
