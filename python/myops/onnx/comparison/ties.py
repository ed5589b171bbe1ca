"""Differences that are only a choice among equal values (ties).

Two correct implementations may return different indices for the largest of [0, 0, 0], and two boxes
with equal scores in different orders. Such a difference is no fault if the values are equal:

* indices of ArgMax, ArgMin and TopK: the data that the node read is equal at both indices;
* rows in another order: all rows exist, and wherever rows changed places, the sort key (the values
of
  TopK, or a value of the model with one entry per row, such as scores) is equal.

Equal means within the tolerance, because a difference in the last bit can decide the choice.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import onnx

from myops.onnx.comparison.graph import Graph
from myops.onnx.comparison.metrics import Tolerance

_INDEX_OPS = {"ArgMax": 0, "ArgMin": 0, "TopK": 1}  # the output with indices
_SETS = ("NonMaxSuppression", "NonZero", "Unique")  # the order of their results has no meaning
_PASSING = ("Cast", "Identity", "Squeeze", "Unsqueeze", "Reshape")
_MOST_ROWS = 4096


class Ties:
    """Classifies differences by the values that decided the choice."""

    def __init__(self, graph: Graph, values: Mapping[str, Any], tolerance: Tolerance) -> None:
        self._graph = graph
        self._values = values
        self._tolerance = tolerance

    @staticmethod
    def wanted(graph: Graph) -> list[str]:
        """Values that have to be fetched for this."""
        found = []
        for node in graph.nodes:
            if node.op_type in _INDEX_OPS and node.domain in ("", "ai.onnx"):
                found += [node.input[0], *(name for name in node.output if name)]
        return [name for name in found if name in graph.producers or name in _inputs(graph)]

    def of_indices(self, name: str, expected: np.ndarray, got: np.ndarray) -> str | None:
        """The reason, if indices that differ point to equal data; None if they do not."""
        if expected.dtype.kind not in "iu" or got.dtype.kind not in "iu":
            return None
        found = self._index_node(name)
        if found is None or expected.shape != got.shape:
            return None
        node, output = found
        data, made = self._values.get(node.input[0]), self._values.get(output)
        if not isinstance(data, np.ndarray) or not isinstance(made, np.ndarray):
            return None
        if made.size != got.size or not np.array_equal(made.ravel(), got.ravel()):
            return None
        axis, keep = _axis(node)
        shape = made.shape
        if node.op_type != "TopK" and not keep:
            shape = (*made.shape[: axis % data.ndim], 1, *made.shape[axis % data.ndim :])
        mine, theirs = (array.reshape(shape).astype(np.int64) for array in (got, expected))
        if not _valid(theirs, data.shape[axis], axis):
            return None
        one, other = (np.take_along_axis(data, index, axis) for index in (mine, theirs))
        if not self._equal(one, other):
            return None
        places = int(np.count_nonzero(mine != theirs))
        return f"{places} of {mine.size} indices of {node.op_type} point at equal values"

    def of_rows(
        self, name: str, expected: np.ndarray, got: np.ndarray, others: Iterable[str]
    ) -> str | None:
        """The reason, if rows in another order have equal sort keys; None if they do not.

        Args:
            others: Names of values that agree with PyTorch, among which keys may be found.
        """
        if expected.shape != got.shape or not expected.ndim:
            return None
        places, _ = self._graph.between(name, ())
        nodes = [self._graph.nodes[place] for place in places]
        sorters = [node for node in nodes if _sorts(node)]
        if not sorters:
            return None
        for axis in range(expected.ndim):
            orders = self._orders(expected, got, axis)
            if orders is None:
                continue
            moved = sum(int(np.count_nonzero(o != np.arange(o.size))) for o in orders)
            keys = [node.output[0] for node in sorters if node.op_type == "TopK"]
            verdict = self._keys_equal(orders, got.shape, axis, [*keys, *others])
            if verdict is not None:
                return f"{moved} rows stand in another order; {verdict}" if verdict else None
            if any(node.op_type in _SETS or not _standard(node) for node in sorters):
                names = ", ".join(sorted({node.op_type for node in sorters}))
                return f"{moved} rows stand in another order after {names}"
        return None

    def near(self, places: Iterable[int]) -> list[str]:
        """Nodes among these that had to choose among equal values."""
        found = []
        for place in places:
            node = self._graph.nodes[place]
            if node.op_type not in _INDEX_OPS or not _standard(node):
                continue
            data = self._values.get(node.input[0])
            if not isinstance(data, np.ndarray) or not data.ndim:
                continue
            axis, _ = _axis(node)
            ordered = np.moveaxis(np.sort(data, axis=axis), axis, 0)
            largest = {item.name: item.i for item in node.attribute}.get("largest", 1)
            if node.op_type != "ArgMin" and largest:
                ordered = ordered[::-1]
            made = self._values.get(node.output[-1])
            count = 1
            if node.op_type == "TopK" and isinstance(made, np.ndarray):
                count = made.shape[axis]
            top = ordered[: count + 1]
            rtol, atol = self._tolerance.of(data, str(data.dtype))
            if np.any(np.isclose(top[:-1], top[1:], rtol=rtol, atol=atol)):
                found.append(self._graph.label(place))
        return found

    def choices(self, places: Iterable[int], made: Iterable[np.ndarray]) -> dict[str, np.ndarray]:
        """For nodes that return indices, the indices that PyTorch chose among equal values.

        Args:
            places: Nodes of the graph.
            made: Results of PyTorch's operators, among which its choice is found.
        """
        arrays = [array for array in made if array.dtype.kind in "iu" and array.size]
        found = {}
        for place in places:
            node = self._graph.nodes[place]
            if node.op_type not in _INDEX_OPS or not _standard(node):
                continue
            name = node.output[min(_INDEX_OPS[node.op_type], len(node.output) - 1)]
            mine = self._values.get(name)
            if not isinstance(mine, np.ndarray):
                continue
            for array in arrays:
                if array.size == mine.size and self.of_indices(
                    name, array.reshape(mine.shape), mine
                ):
                    found[name] = array.reshape(mine.shape).astype(mine.dtype)
                    break
        return found

    def _index_node(self, name: str) -> tuple[onnx.NodeProto, str] | None:
        """The node that chose these indices; nodes that only copy them are skipped."""
        while name in self._graph.producers:
            node = self._graph.nodes[self._graph.producers[name]]
            if not _standard(node):
                return None
            if node.op_type in _INDEX_OPS:
                place = _INDEX_OPS[node.op_type]
                is_index = len(node.output) > place and node.output[place] == name
                return (node, name) if is_index else None
            if node.op_type not in _PASSING:
                return None
            name = node.input[0]
        return None

    def _orders(self, expected: np.ndarray, got: np.ndarray, axis: int) -> list[np.ndarray] | None:
        """For each row of `got`, the index of the equal row of `expected`; for each index of the
        axes before."""
        length = expected.shape[axis]
        if not 1 < length <= _MOST_ROWS:
            return None
        lead = int(np.prod(expected.shape[:axis], dtype=np.int64))
        blocks = [array.reshape(lead, length, -1) for array in (expected, got)]
        orders = []
        for theirs, mine in zip(*blocks, strict=True):
            order = self._order(theirs, mine)
            if order is None:
                return None
            orders.append(order)
        return orders

    def _order(self, theirs: np.ndarray, mine: np.ndarray) -> np.ndarray | None:
        rtol, atol = self._tolerance.of(theirs, str(theirs.dtype))

        def same(one: np.ndarray, other: np.ndarray) -> np.ndarray:
            close = np.isclose(one, other, rtol=rtol, atol=atol, equal_nan=True)
            return np.asarray(close.all(axis=-1))

        order = np.arange(len(mine))
        moved = np.flatnonzero(~same(mine, theirs))
        free = list(moved)
        for row in moved:
            hits = np.flatnonzero(same(mine[row][None], theirs[free]))
            if not hits.size:
                return None
            order[row] = free.pop(int(hits[0]))
        return order

    def _keys_equal(
        self, orders: list[np.ndarray], shape: tuple[int, ...], axis: int, names: Iterable[str]
    ) -> str | None:
        """The key that is equal wherever rows changed places; "" if a key differs there, None if
        there is no key."""
        forbidden = False
        for name in dict.fromkeys(names):
            key = self._values.get(name)
            if not isinstance(key, np.ndarray) or key.dtype.kind != "f":
                continue
            flat = _as_key(key, shape, axis)
            if flat is None:
                continue
            if all(self._equal(row, row[order]) for row, order in zip(flat, orders, strict=True)):
                return f"{name!r} is equal there"
            if _sorted(flat):
                forbidden = True
        return "" if forbidden else None

    def _equal(self, one: np.ndarray, other: np.ndarray) -> bool:
        rtol, atol = self._tolerance.of(one, str(one.dtype))
        return bool(np.allclose(one, other, rtol=rtol, atol=atol, equal_nan=True))


def _as_key(key: np.ndarray, shape: tuple[int, ...], axis: int) -> np.ndarray | None:
    """One number per row, for each index of the axes before; None if the shape does not fit."""
    lead = int(np.prod(shape[:axis], dtype=np.int64))
    if key.size == lead * shape[axis] and shape[axis] in key.shape:
        return key.reshape(lead, shape[axis])
    return None


def _sorted(rows: np.ndarray) -> bool:
    steps = np.diff(rows, axis=-1)
    return bool((steps <= 0).all() or (steps >= 0).all())


def _axis(node: onnx.NodeProto) -> tuple[int, bool]:
    given = {item.name: item.i for item in node.attribute}
    axis = given.get("axis", -1 if node.op_type == "TopK" else 0)
    return axis, bool(given.get("keepdims", 1))


def _valid(index: np.ndarray, length: int, axis: int) -> bool:
    if index.size and (index.min() < 0 or index.max() >= length):
        return False
    ordered = np.sort(index, axis=axis)
    return not np.any(np.diff(ordered, axis=axis) == 0)  # none is chosen twice


def _standard(node: onnx.NodeProto) -> bool:
    return node.domain in ("", "ai.onnx")


def _sorts(node: onnx.NodeProto) -> bool:
    if node.op_type in ("TopK", *_SETS) and _standard(node):
        return True
    name = node.op_type.lower()
    return not _standard(node) and any(word in name for word in ("nms", "sort", "topk"))


def _inputs(graph: Graph) -> set[str]:
    return {item.name for item in graph.inputs}
