"""What is wrong with the values, inputs, attributes and dtypes of a model's nodes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import onnx

from myops import _description, _libraries, _shape_rule
from myops._names import near_misses
from myops.ort._doctor import graph, op_mistakes
from myops.ort._doctor.graph import LocatedNode, Provided
from myops.ort._doctor.report import ERROR, WARNING, Finding


def check(model: onnx.ModelProto, provided: Provided) -> Iterator[Finding]:
    """Findings about single nodes that need no runtime."""
    yield from _undefined_values(model)
    yield from _inputs_left_out(model, provided)
    yield from _attributes(model)
    yield from _dtypes(model, provided)


def _undefined_values(model: onnx.ModelProto) -> Iterator[Finding]:
    missing: dict[str, list[str]] = {}
    known: set[str] = set()

    def visit(body: Any, outer: set[str]) -> None:
        here = outer | {item.name for item in body.input}
        here |= {item.name for item in body.initializer}
        here |= {item.values.name for item in body.sparse_initializer}
        here |= {name for node in body.node for name in node.output}
        known.update(here)
        for node in body.node:
            for name in node.input:
                if name and name not in here:
                    label = LocatedNode(node, "", {}).label
                    missing.setdefault(name, []).append(label)
            for _, inner in graph.inner_graphs(node):
                visit(inner, here)
        for item in body.output:
            if item.name not in here:
                missing.setdefault(item.name, []).append(f"output {item.name!r} of the graph")

    visit(model.graph, set())
    for name, labels in missing.items():
        yield undefined_value(name, labels, known)


def undefined_value(name: str, labels: list[str], known: set[str]) -> Finding:
    """A value that is read but that no node computes."""
    return Finding(
        "value-undefined", ERROR, f"Nothing makes the value {name!r}.",
        "It is read, but is neither an input of the graph, nor an initializer, nor an output of "
        f"a node.{near_misses(name, known)}",
        "Often a node was removed or renamed by hand, or a part was cut out without its inputs. "
        "Correct the name, or make it an input of the graph.", nodes=labels,
    )  # fmt: skip


def _inputs_left_out(model: onnx.ModelProto, provided: Provided) -> Iterator[Finding]:
    for place in graph.places(model):
        kernels = provided.custom.get(place.domain, {}).get(place.node.op_type)
        if not kernels:
            continue
        for number, (_, kind) in enumerate(kernels[0]["inputs"]):
            given = number < len(place.node.input) and place.node.input[number]
            if kind == "required" and not given:
                name = input_name(place, number)
                yield Finding(
                    "input-missing", ERROR, f"{place.op}: the input {name} is missing.",
                    "The op needs it; in the node it is "
                    + ("empty." if number < len(place.node.input) else "not given at all."),
                    "Give the node this input where the model is made.", nodes=[place.label],
                )  # fmt: skip


def input_name(place: LocatedNode, number: int) -> str:
    """The name of an input in our descriptions, or else its number."""
    info = _libraries.op_of(place.node)
    if info is not None and number < len(info.inputs):
        return info.inputs[number].name
    return f"number {number}"


def _attributes(model: onnx.ModelProto) -> Iterator[Finding]:
    own = graph.functions(model)
    for place in graph.places(model):
        info = _libraries.op_of(place.node)
        if info is None or (place.domain, place.node.op_type) in own:
            continue
        known = [item.name for item in info.attributes]
        for attribute in place.node.attribute:
            if attribute.name not in (*known, _description.VERSION):
                yield Finding(
                    "attribute-unknown", WARNING,
                    f"{place.op} has no attribute {attribute.name!r}.",
                    f"It has {', '.join(known) or 'none at all'}."
                    f"{near_misses(attribute.name, known)} ONNX Runtime ignores it.",
                    "Correct the name, or remove the attribute.", nodes=[place.label],
                )  # fmt: skip


# ---- Dtypes and shapes.

_ASIDE = "doctor."  # a domain that shape inference does not know


def _scopes(model: onnx.ModelProto) -> list[Any]:
    """The results of shape inference; [] if there are none."""
    from myops.onnx.graph.scopes import all_scopes

    try:
        return list(all_scopes(model))
    except Exception:  # our shape rules refuse a node, or the model is broken
        pass
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    for place in graph.places(copy):
        if _libraries.find(place.domain):
            place.node.domain = _ASIDE + place.domain
    for library in _libraries.known():
        copy.opset_import.append(onnx.helper.make_opsetid(_ASIDE + library.domain, 1))
    try:
        return list(all_scopes(copy))
    except Exception:  # the model is broken apart from our nodes too; the runtime will report it
        return []


def dtypes(model: onnx.ModelProto, place: LocatedNode) -> list[str]:
    """The dtypes of a node's inputs, as far as they are known."""
    for scope in _scopes(model):
        for node in scope.graph.node:
            if list(node.output) == list(place.node.output):
                return [kind for name in node.input if (kind := _dtype_of(scope, name))]
    return []


def _dtype_of(scope: Any, name: str) -> str | None:
    """Any dtype that ONNX has, not only those that kernels of ours take."""
    known = scope._type(name)
    return graph.dtype_name(known.elem_type) if known is not None and known.elem_type else None


def _dtypes(model: onnx.ModelProto, provided: Provided) -> Iterator[Finding]:
    if not any(place.domain in provided.custom for place in graph.places(model)):
        return
    bodies = graph.functions(model)
    for scope in _scopes(model):
        for node in scope.graph.node:
            shown = onnx.NodeProto()
            shown.CopyFrom(node)
            shown.domain = node.domain.removeprefix(_ASIDE)
            place = LocatedNode(shown, "", {})
            kernels = provided.custom.get(place.domain, {}).get(node.op_type)
            if not kernels:
                continue
            found = [_dtype_of(scope, name) if name else "" for name in node.input]
            wrong = list(_dtype(place, found, kernels, (place.domain, node.op_type) in bodies))
            yield from wrong or _refused(place, scope)


def _refused(place: LocatedNode, scope: Any) -> Iterator[Finding]:
    """What the kernel of one of our ops would say of the shapes and attributes that are known."""
    from myops.onnx.lowering import site_of

    if _libraries.op_of(place.node) is None:
        return
    try:
        site = site_of(place.node, scope)
    except Exception:  # an attribute of a wrong type, too many inputs: found elsewhere
        return
    if any(name and shape is None for name, shape in zip(site.inputs, site.shapes, strict=False)):
        return
    numbers = [None if value is None or not item.values else [float(x) for x in value.ravel()]
               for item, value in zip(site.info.inputs, site.values, strict=False)]  # fmt: skip
    try:
        _shape_rule.infer(site.info, site.shapes, site.dtypes, site.attributes, numbers)
    except ValueError as error:
        blamed = op_mistakes.finding(str(error), [place.label])
        if blamed is not None:
            yield blamed
            return
        yield Finding(
            "kernel-refuses", ERROR, f"The kernel refuses this node: {error}",
            "This follows from the shapes and attributes in the model.",
            "Correct the node, or what comes before it, where the model is made.",
            nodes=[place.label],
        )  # fmt: skip
    except TypeError:  # an attribute of another type than the op declares: found elsewhere
        return


def _dtype(
    place: LocatedNode, dtypes: list[str | None], kernels: list[dict[str, Any]], has_body: bool
) -> Iterator[Finding]:
    def fits(kernel: dict[str, Any]) -> bool:
        kinds = kernel["inputs"]
        return all(
            not dtype or not kinds or kinds[min(i, len(kinds) - 1)][0] in ("any", dtype)
            for i, dtype in enumerate(dtypes)
        )

    if any(fits(kernel) for kernel in kernels):
        return
    wrong = []
    for number, dtype in enumerate(dtypes):
        taken = dict.fromkeys(
            kernel["inputs"][min(number, len(kernel["inputs"]) - 1)][0]
            for kernel in kernels
            if kernel["inputs"]
        )
        if dtype and taken and dtype not in taken and "any" not in taken:
            wrong.append((number, dtype, list(taken)))
    if wrong:
        number, dtype, kinds = wrong[0]
        name = input_name(place, number)
        what = f"{place.op} has no kernel for {dtype}: its input {name} has this dtype."
        why = f"For that input its kernels take {', '.join(kinds)}."
        fix = f"Cast to one of them before the node and back after it (x.to(torch.{_cast(kinds)}))."
    else:
        shown = ", ".join(
            f"{input_name(place, i)} {dtype}" for i, dtype in enumerate(dtypes) if dtype
        )
        what = f"{place.op} has no kernel for this mix of dtypes: {shown}."
        why = "Each dtype is known by itself, but no kernel takes them together."
        fix = "Cast the inputs to one dtype."
    if has_body:
        why += " The node has a function body, but ONNX Runtime does not fall back to it once a "
        why += "library provides the op."
        fix += " Or run the model without the library: the function body takes what the standard "
        fix += "operators take."
    yield Finding("dtype-unsupported", ERROR, what, why, fix, nodes=[place.label])


def _cast(taken: list[str]) -> str:
    return "float32" if "float32" in taken else taken[0]
