"""Which inputs and outputs of an op may have half precision, from the op's definition.

Definitions are those of ONNX, of ONNX Runtime's own domains, and the descriptions of op libraries.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import onnx

from myops.onnx.graph import scopes, structure
from myops.onnx.schema import ONNX_TYPE_NAMES

# An input or output of a node, of the type float32 in the model as it is:
FOLLOWS = "follows"  # float32 or half, as the node
FIXED = "float32"  # float32 whatever the node is
FREE = "free"  # read in any precision

# Inputs that are coordinates, boxes, sizes or factors, with names for messages.
COORDINATES: dict[str, dict[int, str]] = {
    "AffineGrid": {0: "the transformation"},
    "GridSample": {1: "the grid"},
    "MaxRoiPool": {1: "the boxes"},
    "NonMaxSuppression": {0: "the boxes"},
    "Range": {0: "the start", 1: "the limit", 2: "the step"},
    "Resize": {1: "roi", 2: "scales"},
    "RoiAlign": {1: "the boxes"},
    "Upsample": {1: "scales"},
}
# Ops that read the type or the shape of an input, or make another type of it.
READS_ANY = {"Cast", "Shape", "Size"}
# Ops whose sums need most of the time; the other ops follow their neighbours.
HEAVY = {"Conv", "ConvTranspose", "DeformConv", "Einsum", "GRU", "Gemm", "LSTM", "MatMul", "RNN"}
# Ops that change no number, so that they lose nothing in half precision.
MOVES = {
    "Abs", "Concat", "ConstantOfShape", "DepthToSpace", "Expand", "Flatten", "Gather",
    "GatherElements", "GatherND", "Identity", "Max", "MaxPool", "Min", "Neg", "Pad", "Relu",
    "Reshape", "ScatterElements", "ScatterND", "Slice", "SpaceToDepth", "Split", "Squeeze", "Tile",
    "Transpose", "Unsqueeze", "Where",
}  # fmt: skip
# Ops whose output type is that of an attribute or of a body.
_MADE = {"ConstantOfShape"}
CONTROL = {"If", "Loop", "Scan"}


@dataclass(frozen=True)
class Slots:
    """The possible precisions of the float32 inputs and outputs of a node.

    Attributes:
        inputs: FOLLOWS, FIXED or FREE by index; inputs of other types are left out.
        outputs: The same.
        coordinates: Indices of inputs that are coordinates or sizes, and their names.
        reason: The reason why the node cannot be half; "" if it can.
    """

    inputs: dict[int, str]
    outputs: dict[int, str]
    coordinates: dict[int, str]
    reason: str

    @property
    def can_be_half(self) -> bool:
        return not self.reason


class UnknownOpError(Exception):
    """No installed package defines the op of a node."""


def slots(node: onnx.NodeProto, is_float: Callable[[str], bool], opset: int, half: str) -> Slots:
    """The possible precisions of a node's float32 inputs and outputs.

    Args:
        node: A node other than If, Loop and Scan.
        is_float: Whether a value is a float32 tensor.
        opset: The version of the node's domain.
        half: "float16" or "bfloat16".

    Raises:
        UnknownOpError: Nothing defines the op.
    """
    given = {place: name for place, name in enumerate(node.input) if name and is_float(name)}
    made = {place: name for place, name in enumerate(node.output) if name and is_float(name)}
    standard = not structure.is_custom(node.domain)
    if standard and node.op_type in READS_ANY:
        kind = FOLLOWS if node.op_type == "Cast" else FIXED
        return Slots(dict.fromkeys(given, FREE), dict.fromkeys(made, kind), {}, "")
    if standard and node.op_type in _MADE:
        return Slots({}, dict.fromkeys(made, FOLLOWS), {}, "")
    wanted = f"tensor({half})"
    formal = _definition(node, opset)
    special = _coordinates(node)
    fixed_kinds = {formal.kind(place, False) for place in special if place in given}
    found: tuple[dict[int, str], dict[int, str]] = {}, {}
    for values, places, is_output in ((given, found[0], False), (made, found[1], True)):
        for place in values:
            kind = formal.kind(place, is_output)
            allowed = formal.allowed.get(kind, ())
            follows = wanted in allowed and kind not in fixed_kinds
            places[place] = FOLLOWS if follows else FIXED
    coordinates = {place: what for place, what in special.items()
                   if place < len(node.input) and node.input[place]}  # fmt: skip
    reason = ""
    if FOLLOWS not in (*found[0].values(), *found[1].values()):
        reason = f"its definition has no {half}"
        if fixed_kinds and any(wanted in formal.allowed.get(kind, ()) for kind in fixed_kinds):
            names = [what for place, what in coordinates.items() if place in given]
            reason = f"{' and '.join(names)} would be {half} too"
        elif formal.has_other_types:
            reason = "it takes or makes sequences or optional values"
    return Slots(*found, coordinates, reason)


def _coordinates(node: onnx.NodeProto) -> dict[int, str]:
    if not structure.is_custom(node.domain):
        return COORDINATES.get(node.op_type, {})
    info = scopes.op_of(node)
    if info is None:
        return {}
    return {place: item.name for place, item in enumerate(info.inputs) if item.values}


@dataclass(frozen=True)
class _Definition:
    """Types of inputs and outputs by index: type parameters, and the dtypes of each."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    allowed: dict[str, tuple[str, ...]]

    def kind(self, place: int, is_output: bool) -> str:
        kinds = self.outputs if is_output else self.inputs
        return kinds[min(place, len(kinds) - 1)] if kinds else ""

    @property
    def has_other_types(self) -> bool:
        return any(not name.startswith("tensor(") for names in self.allowed.values()
                   for name in names[:1])  # fmt: skip


def _definition(node: onnx.NodeProto, opset: int) -> _Definition:
    info = scopes.op_of(node)
    if info is not None:
        return _Definition(
            tuple(item.type for item in info.inputs), tuple(item.type for item in info.outputs),
            {kind: tuple(f"tensor({ONNX_TYPE_NAMES.get(name, name)})" for name in names)
             for kind, names in info.types.items()},
        )  # fmt: skip
    domain = node.domain if structure.is_custom(node.domain) else ""
    try:
        schema: Any = onnx.defs.get_schema(node.op_type, opset, domain)
        return _of(schema, "type_str", "type_param_str")
    except onnx.defs.SchemaError:
        pass
    known = _in_runtime().get((domain, node.op_type))
    newest = max((s for s in known or () if s.since_version <= opset),
                 key=lambda s: s.since_version, default=None)  # fmt: skip
    if newest is None:
        raise UnknownOpError(structure.label(node))
    return _of(newest, "typeStr", "type_param_str")


def _of(schema: Any, type_of: str, parameter: str) -> _Definition:
    allowed = {getattr(item, parameter): tuple(item.allowed_type_strs)
               for item in schema.type_constraints}  # fmt: skip
    kinds = [tuple(getattr(item, type_of) for item in items)
             for items in (schema.inputs, schema.outputs)]  # fmt: skip
    for kind in (*kinds[0], *kinds[1]):
        allowed.setdefault(kind, (kind,))
    return _Definition(kinds[0], kinds[1], allowed)


@functools.cache
def _in_runtime() -> dict[tuple[str, str], Sequence[Any]]:
    """The definitions of ONNX Runtime's own domains, if this release provides them."""
    from onnxruntime.capi import _pybind_state as state

    found: dict[tuple[str, str], list[Any]] = {}
    for schema in getattr(state, "get_all_operator_schema", list)():
        found.setdefault((schema.domain, schema.name), []).append(schema)
    return dict(found)
