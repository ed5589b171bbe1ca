"""The plan of a conversion: which nodes become half, and why the others do not."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np
import onnx

from myops.onnx.precision.cut import least_casts
from myops.onnx.precision.definitions import Slots
from myops.onnx.precision.frames import Frame, Key

DTYPES: dict[str, Any] = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16}

# A vertex of the plan: ("node", frame, index), ("in", name), ("out", name), or ("tie", key) for a
# value that is passed into or out of a body and has the same type on both sides.
Vertex = tuple[Any, ...]
FLOAT32: Vertex = ("float32",)
ANY: Vertex = ("any",)  # a reader that accepts any precision


@dataclass(frozen=True)
class Read:
    """A place where a float32 value is read.

    Attributes:
        key: The value.
        vertex: The vertex whose precision is needed there: one of the plan, FLOAT32 or ANY.
        frame: The graph of the place.
        node: The index of the node; -1 for an output of the graph.
        slot: The index among the node's inputs, or among the outputs of the graph.
    """

    key: Key
    vertex: Vertex
    frame: int
    node: int
    slot: int


@dataclass
class PrecisionPlan:
    """The precision of each node, input and output.

    Attributes:
        frames: The graphs of the model.
        slots: The slots of each node that has float32 inputs or outputs.
        reasons: The reason why a vertex is float32: a kind and a sentence.
        makers: The maker of each float32 value.
        reads: The places where float32 values, including constants, are read.
        wanted: Vertices that become half unless there is a reason against it.
        free: Vertices that follow their neighbours, and the cost of float32 for each.
        chosen: Whether a vertex is half; filled by `choose`.
    """

    frames: list[Frame]
    half: str
    slots: dict[Vertex, Slots] = field(default_factory=dict)
    reasons: dict[Vertex, tuple[str, str]] = field(default_factory=dict)
    makers: dict[Key, Vertex] = field(default_factory=dict)
    reads: list[Read] = field(default_factory=list)
    wanted: dict[Vertex, bool] = field(default_factory=dict)
    free: dict[Vertex, int] = field(default_factory=dict)
    chosen: dict[Vertex, bool] = field(default_factory=dict)

    def pin(self, vertex: Vertex, kind: str, reason: str) -> None:
        """Makes a vertex float32."""
        if vertex not in self.reasons:
            self.reasons[vertex] = kind, reason

    def choose(self) -> None:
        """Decides about all remaining vertices, with the fewest casts."""
        fixed: dict[Any, bool] = {FLOAT32: False}
        fixed.update((vertex, True) for vertex in self.wanted)
        fixed.update((vertex, False) for vertex in self.reasons)
        free: dict[Any, int] = {
            vertex: cost for vertex, cost in self.free.items() if vertex not in fixed
        }
        readers = self.readers()
        values = [(maker, *readers.get(key, ())) for key, maker in self.makers.items()]
        self.chosen = least_casts(fixed, free, values)

    def readers(self) -> dict[Key, list[Vertex]]:
        """The readers of each value, without those that accept any precision."""
        found: dict[Key, list[Vertex]] = {}
        for item in self.reads:
            if item.vertex != ANY:
                found.setdefault(item.key, []).append(item.vertex)
        return found

    def is_half(self, vertex: Vertex) -> bool:
        return self.chosen.get(vertex, False)

    def node(self, vertex: Vertex) -> onnx.NodeProto:
        _, frame, place = vertex
        return self.frames[frame].graph.node[place]
