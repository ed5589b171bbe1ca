"""Follows differences along the data flow of a graph."""

from __future__ import annotations

from collections.abc import Sequence

from myops.onnx.comparison.graph import Graph
from myops.onnx.comparison.result import Value
from myops.onnx.graph import structure


def nearest(graph: Graph, names: set[str]) -> dict[str, set[str]]:
    """For each of these values, which of them it is computed from directly."""
    origins: dict[str, set[str]] = {name: {name} for name in names if name not in graph.producers}
    parents: dict[str, set[str]] = {name: set() for name in origins}
    for node in graph.nodes:
        above: set[str] = set()
        for name in structure.reads(node):
            above |= origins.get(name, set())
        for name in node.output:
            if name in names:
                parents[name] = above
                origins[name] = {name}
            elif name:
                origins[name] = above
    return parents


def settle(graph: Graph, values: Sequence[Value], *, deep: bool = False) -> list[str]:
    """Marks absorbed differences; returns the names of the values at which a difference starts.

    A value that agrees with its axes in another order is no fault if everything that is computed
    from it agrees: exporters merge transpositions, so the file may have only the value before or
    after one. Otherwise the order may be what is wrong, and the difference starts there.

    Args:
        deep: Whether a difference may pass through several values before it is absorbed, for
            example if a tool moved a computation past a whole part of the graph.
    """
    by_name: dict[str, list[Value]] = {}
    for value in values:
        by_name.setdefault(value.name, []).append(value)
    for found in by_name.values():
        counterpart = next((v for v in found if v.status in ("ok", "order")), None)
        for value in found:
            if counterpart is not None and value.status == "fail" and value.path:
                value.status = "absorbed"
                value.detail = f"as a value of {counterpart.title} it agrees"
    bad = {n for n, found in by_name.items() if any(v.status == "fail" for v in found)}
    parents = nearest(graph, set(by_name))
    children: dict[str, set[str]] = {name: set() for name in by_name}
    for name, above in parents.items():
        for parent in above:
            children[parent].add(name)
    transposed = {n for n in bad if all(v.transposed for v in by_name[n] if v.status == "fail")}
    for name in sorted(bad, key=graph.depth, reverse=True):
        if children[name] and not children[name] & bad and name not in graph.outputs:
            for value in by_name[name]:
                if value.status == "fail":
                    value.status = "absorbed"
                    value.detail = "what is computed from it agrees"
                    if value.transposed:
                        value.detail = f"its axes are in another order; {value.detail}"
            if deep or name in transposed:
                bad.discard(name)
    still = {n for n, found in by_name.items() if any(v.status == "fail" for v in found)}
    return sorted((n for n in still if not parents[n] & still), key=graph.depth)
