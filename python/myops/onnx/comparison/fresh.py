"""Exports the module that differs first again, and lists where the file differs from the result."""

from __future__ import annotations

import difflib
import warnings
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
from onnx import numpy_helper

from myops.onnx.comparison import torch_side
from myops.onnx.comparison.graph import Graph
from myops.onnx.graph import scopes

if TYPE_CHECKING:
    from myops.onnx.comparison.first_mismatch import SearchContext
    from myops.onnx.comparison.result import FirstMismatch

_MOST_NODES = 2000
_MOST_EXPORTS = 3
_LEAST_ALIKE = 0.6


def changes(
    context: SearchContext, mismatch: FirstMismatch, places: Sequence[int]
) -> Iterator[tuple[int, str]]:
    """The differences between these nodes and a new export of their module.

    Nodes are matched by the sequence of their types, as a diff matches lines of a text; nodes
    without a match are not mentioned.
    """
    mine = context.graph
    outer = mismatch.path
    while mismatch.fused and not f"{mismatch.fused}.".startswith(f"{outer}." if outer else ""):
        outer = outer.rpartition(".")[0]  # a module that contains both
    around = [r for r in context.regions if set(places) <= set(r.nodes)]
    around = [r for r in around if f"{mismatch.path}.".startswith(f"{r.path}." if r.path else "")]
    around = [r for r in around if len(r.path) <= len(outer) and len(r.nodes) <= _MOST_NODES]
    best: tuple[Graph, dict[int, int]] | None = None
    for region in sorted(around, key=lambda r: -len(r.path))[:_MOST_EXPORTS]:
        exported = _export(context, region.path, region.call)
        if exported is None:
            continue
        theirs = Graph(exported)
        twins = _twins(mine, region.nodes, theirs)
        missing = [place for place in places if place not in twins]
        if best is None or not missing:
            best = theirs, twins
        if not missing:
            break
    if best is not None:
        theirs, twins = best
        for place in [place for place in places if place in twins]:
            for words in _differences(mine, place, theirs, twins[place], twins):
                yield place, words


def _twins(mine: Graph, places: Sequence[int], theirs: Graph) -> dict[int, int]:
    """For each node, the matching node of the new export, as in a diff of texts."""
    ours, new = (
        [place for place in places if not _is_constant(graph, place)]
        for graph, places in ((mine, places), (theirs, range(len(theirs.nodes))))
    )
    kinds = [
        [(graph.nodes[place].domain, graph.nodes[place].op_type) for place in places]
        for graph, places in ((mine, ours), (theirs, new))
    ]
    matcher = difflib.SequenceMatcher(None, kinds[0], kinds[1], autojunk=False)
    found: dict[int, int] = {}
    if len(ours) == len(new):  # even if types were changed
        if len(ours) < 3 or sum(a == b for a, b in zip(*kinds, strict=True)) > len(ours) // 2:
            return dict(zip(ours, new, strict=True))
    elif matcher.ratio() < _LEAST_ALIKE:
        return {}
    for block in matcher.get_matching_blocks():
        for step in range(block.size):
            found[ours[block.a + step]] = new[block.b + step]
    return found


def _is_constant(graph: Graph, place: int) -> bool:
    return all(name in graph.constants for name in graph.nodes[place].output)


def _export(context: SearchContext, path: str, call: int) -> onnx.ModelProto | None:
    import myops.onnx

    try:
        args, kwargs = torch_side.arguments(context.model, context.args, context.kwargs, path, call)
        module = context.model.get_submodule(path) if path else context.model
        with warnings.catch_warnings(), torch_side.untouched(context.model):
            warnings.simplefilter("ignore")
            return myops.onnx.export(
                module,
                args,
                kwargs=kwargs,
                exporter=context.exporter,
                opset_version=scopes.onnx_opset(context.graph.model),
                skip_checks="all",
            )
    except Exception:  # this is optional advice; not every module can be exported alone
        return None


def _differences(
    mine: Graph, place: int, theirs: Graph, other: int, twins: dict[int, int]
) -> Iterator[str]:
    node, counterpart = mine.nodes[place], theirs.nodes[other]
    if (node.domain, node.op_type) != (counterpart.domain, counterpart.op_type):
        yield f"a new export of the module has {counterpart.op_type} in its place"
        return
    ours, new = _attributes(node), _attributes(counterpart)
    for name in sorted({*ours, *new}):
        if ours.get(name) != new.get(name):
            yield (
                f"attribute {name} is {_shown(ours, name)}, in a new export of the module "
                f"{_shown(new, name)}"
            )
    if len(node.input) != len(counterpart.input):
        count = len(counterpart.input)
        yield f"it has {len(node.input)} inputs, in a new export of the module {count}"
        return
    for number, (one, another) in enumerate(zip(node.input, counterpart.input, strict=True)):
        source, expected = mine.producers.get(one), theirs.producers.get(another)
        if source in twins and expected is not None and twins[source] != expected:
            if expected in twins.values():
                yield f"input {number} comes from {mine.label(source)}, not so in a new export"
        elif one in mine.constants and another in theirs.constants:
            yield from _constant_difference(one, mine.constant(one), theirs.constant(another))


def _constant_difference(
    name: str, one: np.ndarray | None, other: np.ndarray | None
) -> Iterator[str]:
    if one is None or other is None:
        return
    if one.shape != other.shape or one.dtype != other.dtype:
        yield (
            f"constant {name!r} is {one.dtype}{list(one.shape)}, in a new export of the module "
            f"{other.dtype}{list(other.shape)}"
        )
    elif one.dtype.kind in "fciub":
        exact = (
            {"rtol": 0.0, "atol": 0.0} if one.dtype.kind != "f" else {"rtol": 1e-3, "atol": 1e-5}
        )
        close = np.isclose(one, other, equal_nan=one.dtype.kind == "f", **exact)
        if not close.all():
            wrong = int(np.count_nonzero(~close))
            yield (
                f"{wrong} of {close.size} elements of the constant {name!r} are others than in a "
                "new export of the module"
            )


def _attributes(node: onnx.NodeProto) -> dict[str, Any]:
    """The attributes of a node, and the defaults of those that it does not have."""
    found: dict[str, Any] = {}
    try:
        schema = onnx.defs.get_schema(node.op_type, domain=node.domain)
        for name, item in schema.attributes.items():
            if item.default_value.type:
                found[name] = _plain(onnx.helper.get_attribute_value(item.default_value))
    except onnx.defs.SchemaError:
        pass
    for item in node.attribute:
        found[item.name] = _plain(onnx.helper.get_attribute_value(item))
    return found


def _plain(value: Any) -> Any:
    if isinstance(value, onnx.TensorProto):
        return numpy_helper.to_array(value).tolist()
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, onnx.GraphProto):
        return "a graph"
    return list(value) if not isinstance(value, (str, int, float)) else value


def _shown(attributes: dict[str, Any], name: str) -> str:
    return repr(attributes[name])[:80] if name in attributes else "not given"
