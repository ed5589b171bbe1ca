"""The order of nodes, which tells the calls of a PyTorch module apart."""

from __future__ import annotations

import heapq
from collections import defaultdict

import onnx

from myops.onnx.graph import structure


def restore(old: onnx.ModelProto, new: onnx.ModelProto) -> None:
    """Sorts the nodes of a changed model as they were before the change.

    A node that makes the same value is the same node; a new node comes just before its reader.

    Args:
        old: The model before.
        new: The model after; its nodes are in another order that fits the data flow.
    """
    places = {
        name: place for place, node in enumerate(old.graph.node) for name in node.output if name
    }
    nodes = list(new.graph.node)
    makers = {name: number for number, node in enumerate(nodes) for name in node.output if name}
    needs = [{makers[name] for name in structure.reads(node) if name in makers} for node in nodes]
    ranks: list[tuple[int, int]] = [(len(places), 0)] * len(nodes)
    readers: dict[int, list[int]] = defaultdict(list)
    for number in reversed(range(len(nodes))):
        found = [places[name] for name in nodes[number].output if name in places]
        if found:
            ranks[number] = (min(found), 1)
        elif readers[number]:
            ranks[number] = (min(ranks[reader][0] for reader in readers[number]), 0)
        for needed in needs[number]:
            readers[needed].append(number)
    waiting = [len(needed) for needed in needs]
    ready = [(ranks[number], number) for number, count in enumerate(waiting) if not count]
    heapq.heapify(ready)
    order = []
    while ready:
        _, number = heapq.heappop(ready)
        order.append(number)
        for reader in readers[number]:
            waiting[reader] -= 1
            if not waiting[reader]:
                heapq.heappush(ready, (ranks[reader], reader))
    kept = [onnx.NodeProto.FromString(nodes[number].SerializeToString()) for number in order]
    if len(kept) == len(nodes):
        del new.graph.node[:]
        new.graph.node.extend(kept)
