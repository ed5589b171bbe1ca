"""Finds the node of ours with the meaning of a standard Resize, Upsample or DeformConv of any
opset.

Resize by opset:
    19, 18      like ours, with the same attributes
    11, 13      the same without antialias, axes and aspect policy; "tf_half_pixel_for_nn" (11) is
                a rule that ours does not have
    10          X and scales; coordinates are asymmetric; nearest rounds down on an axis that grows
                and up on an axis that shrinks
    Upsample    as 10, with factors of at least 1; in opset 7 they are an attribute
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

from myops import _description
from myops.onnx.builder import Builder
from myops.onnx.graph import scopes
from myops.onnx.lowering import site_of
from myops.onnx.surgery.summary import dtype_name
from myops.ops._resize_axes import axes_of, listed_axes

_NEWEST = {"Resize": 19, "DeformConv": 22, "Upsample": 10}


@dataclass
class Ours:
    """The node of ours with the same meaning."""

    op_type: str
    inputs: list[str]
    attributes: list[onnx.AttributeProto]
    before: list[onnx.NodeProto] = field(default_factory=list)  # constants that it reads


@dataclass
class Other:
    """No node of ours has the same meaning."""

    reason: str


def resize(node: onnx.NodeProto, scope: scopes.Scope, version: int) -> Ours | Other:
    if version > _NEWEST["Resize"]:
        return Other(f"Resize-{version} is newer than this library")
    if version == 10:
        return _first_resize(node, scope, node.input[1], [])
    given = _attributes(node)
    if given.get("coordinate_transformation_mode") == b"tf_half_pixel_for_nn":
        return Other("tf_half_pixel_for_nn, which only opset 11 has, is no mode of myops::Resize")
    ours = Ours("Resize", list(node.input), list(node.attribute))
    return _unless(_differs(ours, node, scope), ours)


def upsample(node: onnx.NodeProto, scope: scopes.Scope, version: int) -> Ours | Other:
    if version < 7 or version > _NEWEST["Upsample"]:
        return Other(f"Upsample-{version} has other attributes than Upsample-7 and -9")
    if version >= 9:
        return _first_resize(node, scope, node.input[1], [])
    factors = np.array(_attributes(node).get("scales", []), np.float32)
    name = f"{node.output[0]}/scales"
    constant = onnx.helper.make_node(
        "Constant", [], [name], name=name, value=numpy_helper.from_array(factors)
    )
    return _first_resize(node, scope, name, [constant], factors)


def _first_resize(
    node: onnx.NodeProto,
    scope: scopes.Scope,
    scales: str,
    before: list[onnx.NodeProto],
    factors: np.ndarray | None = None,
) -> Ours | Other:
    """Resize-10 and Upsample: asymmetric coordinates; growing and shrinking axes round
    differently."""
    mode = _attributes(node).get("mode", b"nearest").decode()
    if mode not in ("nearest", "linear"):
        return Other(f'mode "{mode}" is no mode of {node.op_type} at this opset')
    settings = {"mode": mode, "coordinate_transformation_mode": "asymmetric"}
    if mode == "nearest":
        factors = scope.value(scales) if factors is None else factors
        grows = node.op_type == "Upsample" or bool(factors is not None and np.all(factors >= 1))
        if not grows and factors is None:
            return Other(
                "nearest of opset 10 rounds down on axes that grow and up on those that shrink, "
                "and the factors are known at run time only"
            )
        if not grows and factors is not None and not np.all(factors <= 1):
            return Other(
                "nearest of opset 10 rounds down on axes that grow and up on those that shrink; "
                "this node does both, and myops::Resize has one rounding for all"
            )
        settings["nearest_mode"] = "floor" if grows else "ceil"
    made = [onnx.helper.make_attribute(name, value) for name, value in settings.items()]
    ours = Ours("Resize", [node.input[0], "", scales], made, before)
    return _unless(_differs(ours, node, scope, factors), ours)


def deform_conv(node: onnx.NodeProto, scope: scopes.Scope, version: int) -> Ours | Other:
    if version > _NEWEST["DeformConv"]:
        return Other(f"DeformConv-{version} is newer than this library")
    if reason := _dtype_problem("DeformConv", node, scope):
        return Other(reason)
    ranks = [scope.shape(name) for name in node.input[:3]]
    known = {len(shape) for shape in ranks if shape is not None}
    if not known:
        return Other("the rank of X is unknown, and myops::DeformConv has two dimensions only")
    if known != {4}:
        dimensions = min(known) - 2
        return Other(f"X has {dimensions} spatial dimensions, myops::DeformConv two only")
    return Ours("DeformConv", list(node.input), list(node.attribute))


def _unless(reason: str, ours: Ours) -> Ours | Other:
    return Other(reason) if reason else ours


def _attributes(node: onnx.NodeProto) -> dict[str, Any]:
    return {item.name: onnx.helper.get_attribute_value(item) for item in node.attribute}


def _dtype_problem(op_type: str, node: onnx.NodeProto, scope: scopes.Scope) -> str:
    dtype = scope.dtype(node.input[0])
    known = _description.by_onnx_type(op_type).types["T"]
    if dtype in known:
        return ""
    found = scope._type(node.input[0])
    number = found.elem_type if found is not None else 0
    if not number:
        return f"the dtype of {node.input[0]!r} is unknown, to ONNX Runtime too"
    return f"X is {dtype_name(number)}, and myops::{op_type} computes in {', '.join(known)}"


def _differs(
    ours: Ours, node: onnx.NodeProto, scope: scopes.Scope, factors: np.ndarray | None = None
) -> str:
    """The reason why ONNX Runtime's kernel computes something else than ours; "" if it does not.

    Only the file is considered, not axes that happen to keep their length at run time.
    """
    if reason := _dtype_problem("Resize", node, scope):
        return reason
    call = onnx.NodeProto(
        op_type="Resize", domain=_description.DOMAIN, input=ours.inputs, output=node.output
    )
    call.attribute.extend(ours.attributes)
    site = site_of(call, scope)
    if factors is not None:
        site.values[2], site.shapes[2], site.dtypes[2] = factors, [len(factors)], "float32"
    g = Builder(site, scope.opset, lambda hint: hint, "")
    crops = g.attribute("coordinate_transformation_mode") == "tf_crop_and_resize"
    shape = g.shape("X")
    if shape is not None and any(
        not -len(shape) <= axis < len(shape) for axis in g.attribute("axes")
    ):
        return f"X has {len(shape)} axes, and the attribute axes lists others"
    if g.input("scales") and g.input("sizes"):
        return "it has scales and sizes, and only one of them can hold"
    if g.dtype("X") == np.uint8 and (crops or g.attribute("mode") != "nearest"):
        return "ONNX Runtime cuts off the fractions of uint8 results, myops::Resize rounds"
    keeps_aspect = g.input("sizes") and g.attribute("keep_aspect_ratio_policy") != "stretch"
    if keeps_aspect and min(g.attribute("axes"), default=0) < 0:
        return "ONNX Runtime does not resize under an aspect policy with negative axes"
    copies = "ONNX Runtime copies an axis whose length stays, myops::Resize still "
    if shape is None:
        return f"{copies}crops, and the rank of X is unknown" if crops else ""
    axes = axes_of(g, list(range(len(listed_axes(g)))))
    same = axes.output.equals(axes.input).value
    if crops:
        if same is None:
            return f"{copies}crops, and whether one does is known at run time only"
        return f"{copies}crops" if _crops_any(g, same) else ""
    if same is None or axes.scale is None or axes.scale.value is None:
        return ""
    stretched = same & (axes.scale.value != 1)  # 5 times 1.1 is still 5
    if stretched.any() and (same.all() or g.attribute("antialias")):
        return copies + "applies the factor"
    return ""


def _crops_any(g: Builder, chosen: np.ndarray) -> bool:
    """Whether the region of interest crops, or may crop, one of the chosen axes."""
    roi = g.value("roi")
    if roi is None:
        return bool(chosen.any())
    starts, ends = np.split(roi.reshape(-1).astype(np.float64), 2)
    return bool((((starts != 0) | (ends != 1)) & chosen).any())
