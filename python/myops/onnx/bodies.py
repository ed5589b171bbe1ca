"""Model-local function bodies, with which any ONNX Runtime runs a model with our nodes.

Each op type gets one function. (Overloads, one function per node, are ignored by ONNX Runtime up to
1.23, which then gives wrong results.) The function must be right for every node of its type in the
model. If the nodes differ in attributes, in which inputs they have, in dtype or in rank, the
function contains a case for each kind of node and selects the case at run time; ONNX Runtime does
so once, while it loads the model. An optional input that the function only passes on to a standard
operator, which may leave it out too, makes no other kind. Lengths and the numbers in scales or
sizes are never constants of the function, so they may change.
"""

from __future__ import annotations

import dataclasses
import warnings
from typing import Any

import onnx

from myops import _description
from myops._checked import callers_level, checked
from myops._description import OpInfo
from myops.onnx.body_cases import BodyCase, choose, default_in_function
from myops.onnx.body_inputs import case_nodes, make_uniform, state_lengths, with_optional_inputs
from myops.onnx.builder import LoweringError, Site
from myops.onnx.graph import files, scopes, storage
from myops.onnx.lowering import site_of, standard_hook
from myops.onnx.schema import attribute_proto


class MissingBodyWarning(UserWarning):
    """A node stays without a function body: only a runtime with our library can run the model.

    Example:
        >>> import warnings
        >>> with warnings.catch_warnings(record=True) as caught:
        ...     warnings.simplefilter("always")
        ...     portable = myops.onnx.add_function_bodies("opset8.onnx")
        >>> print(caught[0].message)
        node 'y' (myops::Resize): cannot be written in ai.onnx opset 8: ...
    """


@checked()
def add_function_bodies(model: files.Model, f: files.Target = None) -> onnx.ModelProto:
    """Gives every op of ours, or of another op library, in the model a body of standard operators.

    ONNX Runtime without our library then runs the bodies; with the library it runs our kernels.
    Call it again after nodes were added or their attributes edited. Model-local functions that
    call our nodes are inlined. `ir_version` becomes at least 8, the first with functions.

    Args:
        model: A path, the bytes of a file, or a ModelProto, with nodes of the domain "myops" or of
            a package's (`myops.op_library`). It is not changed.
        f: File to write: a path, or an object open for writing bytes. None: only return.

    Returns:
        A new model.

    Warns:
        MissingBodyWarning: The model's opset cannot express an op; its nodes stay without a body.

    Example:
        >>> portable = myops.onnx.add_function_bodies("model.onnx", "portable.onnx")
    """
    source = model
    model = scopes.inline_callers(storage.opened(source))
    found: dict[tuple[str, str], list[tuple[onnx.NodeProto, scopes.Scope, Site]]] = {}
    for scope in scopes.all_scopes(model):
        for node in scope.graph.node:
            if scopes.is_ours(node):
                key = (node.domain, node.op_type)
                found.setdefault(key, []).append((node, scope, site_of(node, scope)))
    for _, entries in sorted(found.items()):
        info = entries[0][2].info
        if standard_hook(info) is None:  # before reasons that concern the form
            _warn(info, f"{entries[0][2].label}: the op {info.name} has no standard form.")
            continue
        counts = sorted({len(site.info.inputs) for *_, site in entries})
        if len(counts) > 1:
            warnings.warn(
                f"The model has no function body for {info.node}, because its nodes have different "
                f"numbers of inputs ({', '.join(map(str, counts))}), and a function of ONNX has "
                f"one: ONNX Runtime runs it only with the library of {info.domain} registered. "
                'target="onnx" (or myops.onnx.lower) writes standard operators.',
                MissingBodyWarning,
                stacklevel=callers_level(),
            )
            continue
        try:
            opset = scopes.onnx_opset(model)
            sites, passed_on = with_optional_inputs([site for *_, site in entries], opset)
            cases = _cases(sites)
            count = _name_outputs(entries)
            function = _function(info, cases, opset, count)
        except LoweringError as error:
            _warn(info, str(error))
            continue
        if len(cases) > 1:
            state_lengths(info, entries)
            make_uniform(info, entries, cases, passed_on)
        model.functions.append(function)
        model.ir_version = max(model.ir_version, 8)
    storage.finish(model, source, f)
    return model


def _warn(info: OpInfo, reason: str) -> None:
    warnings.warn(
        f"{reason} The model has no function body for {info.node}, so ONNX Runtime runs it only "
        f"with the library of {info.domain} registered.",
        MissingBodyWarning,
        stacklevel=callers_level(),
    )


@checked()
def remove_function_bodies(model: files.Model, f: files.Target = None) -> onnx.ModelProto:
    """Returns a copy of the model without the bodies that `add_function_bodies` added.

    Args:
        model: A path, the bytes of a file, or a ModelProto. It is not changed.
        f: File to write: a path, or an object open for writing bytes. None: only return.

    Example:
        >>> bare = myops.onnx.remove_function_bodies("portable.onnx", "model.onnx")
    """
    copy = storage.load(model)
    kept = [item for item in copy.functions if not scopes.is_body(item)]
    del copy.functions[:]
    copy.functions.extend(kept)
    storage.finish(copy, model, f)
    return copy


def _cases(sites: list[Site]) -> list[BodyCase]:
    """The kinds of nodes, each with the properties that all its nodes share."""
    merged: dict[Any, Site] = {}
    for site in sites:
        case = BodyCase(site)
        key = tuple(sorted((name, repr(value)) for name, value in case.traits().items()))
        merged[key] = _common(merged[key], site) if key in merged else site
    return [BodyCase(site) for site in merged.values()]


def _common(one: Site, other: Site) -> Site:
    def shape(a: Any, b: Any) -> Any:
        if a is None or b is None or len(a) != len(b):
            return None
        return [x if x == y else None for x, y in zip(a, b, strict=True)]

    def value(a: Any, b: Any) -> Any:
        same = a is not None and b is not None and a.shape == b.shape and (a == b).all()
        return a if same else None

    return dataclasses.replace(
        one,
        # Within a case only the lists, such as scales, can differ in dtype.
        dtypes=[a if a == b else None for a, b in zip(one.dtypes, other.dtypes, strict=True)],
        shapes=[shape(a, b) for a, b in zip(one.shapes, other.shapes, strict=True)],
        values=[value(a, b) for a, b in zip(one.values, other.values, strict=True)],
        label=f"{one.label} and others",
    )


def _name_outputs(entries: list[Any]) -> int:
    """Gives all nodes of a type the same number of outputs and returns it, for the function.

    A trailing output that a node leaves out gets a name if another node has this output, because
    ONNX Runtime accepts no function with more outputs than its node has.
    """
    count = max(len(node.output) for node, *_ in entries)
    for node, *_ in entries:
        first = next(name for name in node.output if name)
        for number in range(len(node.output), count):
            node.output.append(f"{first}/left_out_{number}")
    return count


def _function(info: OpInfo, cases: list[BodyCase], opset: int, count: int) -> onnx.FunctionProto:
    info = dataclasses.replace(info, outputs=info.outputs[:count])
    names = [item.name for item in info.inputs]
    outputs = [item.name for item in info.outputs]
    used = {*names, *outputs}

    def fresh(hint: str) -> str:
        name, number = hint, 1
        while name in used:
            name, number = f"{hint}_{number}", number + 1
        used.add(name)
        return name

    nodes = choose(info, cases, opset, fresh, case_nodes)
    function = onnx.helper.make_function(
        info.domain,
        info.onnx_type,
        names,
        outputs,
        nodes,
        [onnx.helper.make_opsetid("", opset)],
        [item.name for item in info.attributes if item.required],
        [
            attribute_proto(item, default_in_function(item))
            for item in info.attributes
            if not item.required
        ],
    )
    if info.since_version > 1:
        stated = onnx.helper.make_attribute(_description.VERSION, info.since_version)
        function.attribute_proto.append(stated)
    function.doc_string = info.doc
    return function
