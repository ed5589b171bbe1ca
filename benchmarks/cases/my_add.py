"""my_add: 2a + b. Nothing but memory traffic from 1e6 elements on; nothing but overhead at 1e3.

In ONNX Runtime the small ones are measured as 64 nodes that follow each other in one run: a `run`
of any model takes longer than all of torch.add on 1,000 elements, so that the time of a lone node
says nothing about the node.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from itertools import pairwise

import numpy as np
import onnx
import torch
from onnx import helper

import myops
from benchmarks import arrays, ort_session
from benchmarks.case import Arrays, Candidate, Case, Target

TARGETS = {
    10**3: Target(1.0, 1.0),
    10**4: Target(1.0, 1.0),
    10**5: Target(1.0, 1.0),
    10**6: Target(1.0, 1.0),
    10**7: Target(1.1, 1.3),
    5 * 10**7: Target(1.2, 1.5),
}
NODES = 64
LARGEST_OF_MANY = 10**6  # the overhead of `run` is 2%


class MyAddCase(Case):
    """2a + b of two float32 vectors; with `nodes` > 1, so many steps, each on the sum before."""

    def __init__(self, count: int, target: Target | None = None, nodes: int = 1) -> None:
        super().__init__(
            op="my_add",
            group="my_add" if nodes == 1 else f"my_add, {nodes} nodes",
            name=f"{count:.0e}".replace("e+0", "e"),
            shape=f"{count:,} elements",
            target=target,
            flops=2 * count * nodes,
            bytes=12 * count * nodes,
            tolerance=1e-6 if nodes == 1 else 1e-5,  # rounding errors add up
        )
        self.count = count
        self.nodes = nodes

    @cached_property
    def inputs(self) -> Arrays:
        return {"a": arrays.normal([self.count], 1), "b": arrays.normal([self.count], 2)}

    @cached_property
    def expected(self) -> Sequence[np.ndarray]:
        a, b = self.inputs.values()
        return [2 * self.nodes * a.astype(np.float64) + b]


def onnx_model(case: MyAddCase, step: Callable[[str, str, str], Sequence[onnx.NodeProto]]) -> bytes:
    """A model of `case.nodes` steps; step(a, b, c) makes the nodes of c = 2a + b."""
    nodes: list[onnx.NodeProto] = []
    names = ["b", *[f"sum{i}" for i in range(1, case.nodes)], "y"]
    for before, after in pairwise(names):
        nodes.extend(step("a", before, after))
    return ort_session.model(nodes, case.inputs, {}, ["y"])


def cases() -> list[Case]:
    alone = [MyAddCase(count, target) for count, target in TARGETS.items()]
    small = {count: target for count, target in TARGETS.items() if count <= LARGEST_OF_MANY}
    return [*alone, *[MyAddCase(count, target, NODES) for count, target in small.items()]]


def ours(case: MyAddCase, threads: int) -> Iterator[Candidate]:
    if case.nodes == 1:
        yield from _in_torch(case)
    yield from ort_session.candidates(
        "myops::MyAdd",
        "onnxruntime" if case.nodes > 1 or case.count > LARGEST_OF_MANY else "beside",
        onnx_model(case, lambda a, b, c: [helper.make_node("MyAdd", [a, b], [c], domain="myops")]),
        case.inputs,
        arrays.empty([case.count]),
        threads,
    )


def _in_torch(case: MyAddCase) -> Iterator[Candidate]:
    a, b = (torch.from_numpy(array) for array in case.inputs.values())
    call = myops.my_add
    yield Candidate(
        "myops.my_add", lambda: call(a, b), lambda out: [out.numpy()], "allocated", "torch"
    )
    if "out" in inspect.signature(call).parameters:
        out = torch.from_numpy(arrays.empty([case.count]))
        yield Candidate(
            "myops.my_add, out=",
            lambda: call(a, b, out=out),
            lambda _: [out.numpy()],
            "given",
            "torch",
        )
