"""my_add: 2a + b. Nothing but memory traffic from 1e6 elements on; nothing but overhead at 1e3."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from functools import cached_property

import numpy as np
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


class MyAddCase(Case):
    """2a + b of two float32 vectors."""

    def __init__(self, count: int, target: Target | None = None) -> None:
        super().__init__(
            op="my_add",
            group="my_add",
            name=f"{count:.0e}".replace("e+0", "e"),
            shape=f"{count:,} elements",
            target=target,
            flops=2 * count,
            bytes=12 * count,
            tolerance=1e-6,
        )
        self.count = count

    @cached_property
    def inputs(self) -> Arrays:
        return {"a": arrays.normal([self.count], 1), "b": arrays.normal([self.count], 2)}

    @cached_property
    def expected(self) -> Sequence[np.ndarray]:
        a, b = self.inputs.values()
        return [2 * a.astype(np.float64) + b]


def cases() -> list[Case]:
    return [MyAddCase(count, target) for count, target in TARGETS.items()]


def ours(case: MyAddCase, threads: int) -> Iterator[Candidate]:
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
    node = helper.make_node("MyAdd", ["a", "b"], ["y"], domain="myops")
    yield from ort_session.candidates(
        "myops::MyAdd",
        "onnxruntime",
        ort_session.model([node], case.inputs, {}, ["y"]),
        case.inputs,
        arrays.empty([case.count]),
        threads,
    )
