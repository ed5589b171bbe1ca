"""The assignment of precisions that needs the fewest casts, as a minimum cut."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Any

from myops._extras import require

_FLOAT32, _HALF = "float32 side", "half side"


def least_casts(
    fixed: Mapping[Any, bool],
    free: Mapping[Any, int],
    values: Iterable[Iterable[Any]],
) -> dict[Any, bool]:
    """Whether each vertex is half, such that the cost of casts and of float32 is lowest.

    A value costs one cast if its maker and its readers do not all have the same precision; all
    readers of the other precision share the cast. A free vertex that becomes float32 costs its
    number as well. Of several such assignments, the one with most vertices in half is used.

    Args:
        fixed: Vertices that are decided: True for half.
        free: Vertices to decide, and the cost of float32 for each.
        values: For each value, its maker and its readers.

    Example:
        >>> least_casts({"conv": False, "out": True}, {"relu": 1}, [("conv", "relu"),
        ...                                                         ("relu", "out")])["relu"]
        True
    """
    assigned = dict(fixed)
    mixed: list[set[Hashable]] = []
    for pins in values:
        ends = {_end(pin, fixed) for pin in pins}
        if len(ends) > 1 and ends != {_FLOAT32, _HALF}:
            mixed.append(ends)
    if not mixed:
        return {**assigned, **dict.fromkeys(free, True)}
    networkx = require("networkx", "the choice of precisions")
    network: Any = networkx.DiGraph()
    network.add_nodes_from((_FLOAT32, _HALF))
    for vertex, cost in free.items():
        if cost:
            network.add_edge(("vertex", vertex), _HALF, capacity=cost)
    for number, ends in enumerate(mixed):
        into, out = ("into", number), ("out", number)
        network.add_edge(into, out, capacity=1)
        for end in ends:  # without a capacity: these are never cut
            network.add_edge(end, into)
            network.add_edge(out, end)
    flow = networkx.algorithms.flow.boykov_kolmogorov(network, _FLOAT32, _HALF)
    reached = _reached(flow)
    for vertex in free:
        assigned[vertex] = ("vertex", vertex) not in reached
    return assigned


def _end(pin: Any, fixed: Mapping[Any, bool]) -> Hashable:
    if pin in fixed:
        return _HALF if fixed[pin] else _FLOAT32
    return ("vertex", pin)


def _reached(flow: Any) -> set[Hashable]:
    """The vertices that can be reached from float32 in the residual graph: the smallest part."""
    found: set[Hashable] = {_FLOAT32}
    waiting: list[Hashable] = [_FLOAT32]
    while waiting:
        for neighbour, edge in flow[waiting.pop()].items():
            if neighbour not in found and edge["flow"] < edge["capacity"]:
                found.add(neighbour)
                waiting.append(neighbour)
    return found
