"""One function for nodes of several kinds: standard operators find out which kind a node is of."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx

from myops._description import OpInfo
from myops._op_parts import AttributeInfo, Dim
from myops.onnx.body_dtypes import dtype_is, need_cast_like, refuse_results, refuse_unknown
from myops.onnx.builder import Builder, Site
from myops.onnx.schema import ELEMENT_TYPES

Fresh = Callable[[str], str]

_NO_LIST = -(2**31)  # stands for an attribute list that a node does not have
# The values, by type, that mean in a function: the node does not have this optional attribute.
_NOTHING: dict[str, Any] = {
    "bool": 2, "int": -(2**63), "float": -(2.0**127), "double": -(2.0**1023),
    "string": "\x01nothing", "ints": [_NO_LIST], "floats": [_NO_LIST], "doubles": [_NO_LIST],
    "strings": ["\x01nothing"],
}  # fmt: skip


class BodyCase:
    """One kind of node: the properties in which kinds differ."""

    def __init__(self, site: Site) -> None:
        self.site = site

    def traits(self) -> dict[str, Any]:
        """The properties of a kind; first those that ONNX Runtime knows when it loads the model."""
        site = self.site
        found: dict[str, Any] = {}
        ease = {"bool": 0, "int": 0, "float": 0, "double": 0, "string": 1}
        for attribute in sorted(site.info.attributes, key=lambda item: ease.get(item.type, 2)):
            found[f"value of {attribute.name}"] = site.attributes[attribute.name]
        for item, name, dims, dtype in zip(
            site.info.inputs, site.inputs, site.shapes, site.dtypes, strict=True
        ):
            if name and not item.values:
                found[f"rank of {item.name}"] = None if dims is None else len(dims)
                found[f"dtype of {item.name}"] = dtype
            if item.optional:
                found[f"presence of {item.name}"] = bool(name)
            if name and item.values:
                found[f"length of {item.name}"] = None if dims is None else dims[0]
        return found

    def without_numbers(self) -> Site:
        """The site without lengths and numbers, which a function must not rely on."""
        shapes: list[list[Dim] | None] = [
            dims if dims is None or item.values else [None] * len(dims)
            for dims, item in zip(self.site.shapes, self.site.info.inputs, strict=True)
        ]
        names = [
            item.name if name else ""
            for item, name in zip(self.site.info.inputs, self.site.inputs, strict=True)
        ]
        blank: list[np.ndarray | None] = [None] * len(names)
        return dataclasses.replace(self.site, inputs=names, shapes=shapes, values=blank)


def choose(
    info: OpInfo, cases: list[BodyCase], opset: int, fresh: Fresh, write: Callable[..., Any]
) -> list[onnx.NodeProto]:
    """The nodes of a function that is right for all cases.

    `write(site, full, opset, fresh, outputs)` returns the nodes of one case, see `bodies`.
    """
    outputs = [item.name for item in info.outputs]
    return _Chooser(info, cases, opset, fresh, write).nodes(cases, outputs)


def default_in_function(attribute: AttributeInfo) -> Any:
    """Its default in a function, where no list can be empty and no value can be None."""
    missing = attribute.optional or (attribute.is_list and not attribute.default)
    return _NOTHING[attribute.type] if missing else attribute.default


class _Chooser:
    """Builds If(is the first case) then the first case, else the same for the others."""

    def __init__(
        self,
        info: OpInfo,
        cases: list[BodyCase],
        opset: int,
        fresh: Fresh,
        write: Callable[..., Any],
    ) -> None:
        self._info, self._opset, self._fresh, self._write = info, opset, fresh, write
        traits = [case.traits() for case in cases]
        self._varied = {
            name for one in traits for name in one if any(t.get(name) != one[name] for t in traits)
        }
        # Lists of numbers that come in several dtypes are read as float64 or int64, which hold
        # them all.
        self._wide: dict[int, str] = {}
        for i, item in enumerate(info.inputs):
            kinds = {case.site.dtypes[i] for case in cases if case.site.inputs[i]}
            if item.values and (len(kinds) > 1 or None in kinds):
                self._wide[i] = "int64" if info.is_integer(item) else "float64"

    def nodes(self, cases: list[BodyCase], outputs: list[str]) -> list[onnx.NodeProto]:
        if len(cases) == 1:
            return self._case(cases[0], outputs)
        g = Builder(cases[0].site, self._opset, self._fresh, "")
        if self._opset < 12:
            g.refuse(
                "nodes of one type differ in the " + ", ".join(sorted(self._varied))
                + ", and no operator tells them apart before opset 12",
                "Use opset 13 or up.",
            )  # fmt: skip
        for item in self._info.inputs:
            found = {case.traits().get(f"dtype of {item.name}") for case in cases}
            if len(found - {None}) > 1:
                refuse_unknown(g, item.name, {str(dtype) for dtype in found - {None}})
        refuse_results(g, self._info, [case.site.dtypes for case in cases])
        condition = ""
        for trait in self._telling(cases[0], cases[1:]):
            one = self._condition(g, trait, cases[0].traits()[trait])
            condition = g.op("And", condition, one) if condition else one
        branches = {}
        for branch, rest in (("then_branch", cases[:1]), ("else_branch", cases[1:])):
            made = [self._fresh(name) for name in outputs]
            values = [onnx.ValueInfoProto(name=name) for name in made]
            branches[branch] = onnx.helper.make_graph(self.nodes(rest, made), branch, [], values)
        return [*g.nodes, onnx.helper.make_node("If", [condition], outputs, **branches)]

    def _telling(self, case: BodyCase, others: list[BodyCase]) -> list[str]:
        """Traits that together distinguish `case` from all others."""
        mine, chosen = case.traits(), []
        theirs = [other.traits() for other in others]
        for trait in mine:
            if any(trait in other and other[trait] != mine[trait] for other in theirs):
                chosen.append(trait)
                theirs = [t for t in theirs if trait not in t or t[trait] == mine[trait]]
        return chosen

    def _case(self, case: BodyCase, outputs: list[str]) -> list[onnx.NodeProto]:
        """The case with nodes around it that make it a valid graph for nodes of other kinds,
        too."""
        site = case.without_numbers()
        g = Builder(site, self._opset, self._fresh, "")
        inputs, dtypes = list(site.inputs), list(site.dtypes)
        for number, item in enumerate(self._info.inputs):
            name = inputs[number]
            if not name:
                continue
            if number in self._wide:
                dtypes[number] = self._wide[number]
                name = g.op("Cast", name, to=ELEMENT_TYPES[self._wide[number]])
            if f"presence of {item.name}" in self._varied and not item.values:
                g.refuse(f"some nodes have the input {item.name} and others do not")
            if {f"presence of {item.name}", f"length of {item.name}"} & self._varied:
                name = self._padded(g, name, site.shapes[number], dtypes[number])
            if f"dtype of {item.name}" in self._varied:
                name = g.op("Cast", name, to=ELEMENT_TYPES[str(g.dtype(item.name))])
            if f"rank of {item.name}" in self._varied:
                name = self._ranked(g, name, site.shapes[number])
            inputs[number] = name
        adapted = dataclasses.replace(site, inputs=inputs, dtypes=dtypes)
        made, back = list(outputs), []
        for place, (output, wanted) in enumerate(zip(self._info.outputs, outputs, strict=True)):
            like = [item.name for number, item in enumerate(self._info.inputs)
                    if item.type == output.type
                    and (f"dtype of {item.name}" in self._varied
                         or (number in self._wide and site.inputs[number]))]  # fmt: skip
            if like:
                need_cast_like(g, like[0])
                made[place] = self._fresh(wanted)
                back.append(onnx.helper.make_node("CastLike", [made[place], like[0]], [wanted]))
        known = dataclasses.replace(case.site, dtypes=dtypes)
        body = self._write(adapted, known, self._opset, self._fresh, made)
        return [*g.nodes, *body, *back]

    def _padded(self, g: Builder, name: str, dims: Any, dtype: Any) -> str:
        """The list, with the length of this case; in other cases, any numbers in that length."""
        if dims is None or not isinstance(dims[0], int):
            g.refuse(f"nodes of one type differ in the length of {name}, and one is unknown")
        full = g.op("Concat", name, g.constant(np.ones(dims[0], dtype)), axis=0)
        return self._head(g, full, dims[0])

    def _head(self, g: Builder, name: str, length: int) -> str:
        start, end = g.constant(np.array([0])), g.constant(np.array([length]))
        return g.op("Slice", name, start, end)

    def _ranked(self, g: Builder, name: str, dims: Any) -> str:
        """The tensor, with the rank of this case; in other cases, any tensor of that rank."""
        if dims is None:
            g.refuse("nodes of one type differ in rank, and one rank is unknown")
        ones = g.constant(np.ones(len(dims), np.int64))
        lengths = g.op("Concat", g.op("Shape", name), ones, axis=0)
        # In the branch for another rank, these lengths are wrong, and operators behind would seem
        # not to fit them. So they depend on an element, times 0: then neither shape inference nor
        # constant folding finds them when a model is loaded.
        flat = g.op("Reshape", name, g.constant(np.array([-1])))
        first = g.op("Cast", self._head(g, flat, 1), to=onnx.TensorProto.INT64)
        zero = g.op("ReduceSum", g.op("Mul", first, g.constant(np.array([0]))), keepdims=0)
        return g.op("Reshape", name, g.op("Add", self._head(g, lengths, len(dims)), zero))

    def _condition(self, g: Builder, trait: str, value: Any) -> str:
        kind, item = trait.split(" of ")
        if kind == "value":
            attribute = next(known for known in self._info.attributes if known.name == item)
            return self._attribute_is(g, attribute, value)
        if value is None:
            g.refuse(f"nodes of one type differ in the {trait}, and one is unknown")
        if kind == "dtype":
            return dtype_is(g, item, value)
        # ONNX Runtime computes Shape while it loads the model, but not Size.
        lengths = g.op("Shape", g.op("Shape", item) if kind == "rank" else item)
        if kind != "presence":
            return g.op("Equal", lengths, g.constant(np.array([value])))
        empty = g.op("Equal", lengths, g.constant(np.array([0])))
        return g.op("Not", empty) if value else empty

    def _attribute_is(self, g: Builder, attribute: AttributeInfo, value: Any) -> str:
        nothing = default_in_function(attribute)
        if attribute.optional and value == nothing:
            g.refuse(f"the attribute {attribute.name} is {value!r}, which stands for nothing there")
        if value is None or (
            attribute.is_list and not len(value) and not attribute.is_written(value)
        ):
            value = nothing
        if attribute.type == "string":
            given = self._reference(g, attribute, "value_string")
            return self._is_text(g, given, value)
        if attribute.type == "strings":
            return self._are_texts(g, attribute, value)
        if attribute.type == "double":
            given = self._reference(g, attribute, "value")
            return g.op("Equal", given, g.constant(np.array(value, np.float64)))
        if attribute.type in ("bool", "int"):
            given = self._reference(g, attribute, "value_int")
            return g.op("Equal", given, g.constant(np.array(int(value))))
        if attribute.type == "float":
            given = self._reference(g, attribute, "value_float")
            return g.op("Equal", given, g.constant(np.float32(value)))
        kind = {"ints": np.int64, "floats": np.float32, "doubles": np.float64}[attribute.type]
        wanted = np.array(list(value), kind)
        field = "value" if attribute.type == "doubles" else f"value_{attribute.type}"
        given = self._reference(g, attribute, field)
        size = g.op("Equal", g.op("Shape", given), g.constant(np.array([len(wanted)])))
        target = g.constant(wanted)
        head = self._head(g, g.op("Concat", given, target, axis=0), len(wanted))
        apart = g.op("Sub", head, target)
        total = g.op("ReduceSum", g.op("Mul", apart, apart), keepdims=0)
        return g.op("And", size, g.op("Equal", total, g.constant(np.array(0, kind))))

    def _is_text(self, g: Builder, given: str, text: str) -> str:
        """Whether the string, or the list of one string, is this text."""
        if self._opset >= 19:
            return g.op("Equal", given, g.op("Constant", value_string=text))
        # Two strings that are equal are one without repetition.
        given = g.op("Reshape", given, g.constant(np.array([1])))
        both = g.op("Concat", given, g.op("Constant", value_strings=[text]), axis=0)
        return g.op("Equal", g.op("Shape", g.op("Unique", both)), g.constant(np.array([1])))

    def _are_texts(self, g: Builder, attribute: AttributeInfo, texts: Sequence[str]) -> str:
        given = self._reference(g, attribute, "value_strings")
        result = g.op("Equal", g.op("Shape", given), g.constant(np.array([len(texts)])))
        if not texts:
            return result
        padding = g.op("Constant", value_strings=list(texts))
        padded = g.op("Concat", given, padding, axis=0)
        for number, text in enumerate(texts):
            ends = [g.constant(np.array([number + step])) for step in (0, 1)]
            result = g.op("And", result, self._is_text(g, g.op("Slice", padded, *ends), text))
        return result

    def _reference(self, g: Builder, attribute: AttributeInfo, field: str) -> str:
        """A constant with the value of the function's attribute."""
        name = g.op("Constant", value_int=0)
        kinds = {"value_int": "INT", "value_float": "FLOAT", "value_string": "STRING",
                 "value_ints": "INTS", "value_floats": "FLOATS", "value_strings": "STRINGS",
                 "value": "TENSOR"}  # fmt: skip
        node = g.nodes[-1]
        del node.attribute[:]
        kind = getattr(onnx.AttributeProto, kinds[field])
        node.attribute.append(
            onnx.AttributeProto(name=field, type=kind, ref_attr_name=attribute.name)
        )
        return name
