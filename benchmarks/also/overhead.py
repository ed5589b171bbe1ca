"""What a call costs when there is next to nothing to compute."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from onnx import helper

import myops
from benchmarks import arrays, ort_session
from benchmarks.also._row import Row, any_disturbed, measured
from benchmarks.case import Arrays, Candidate
from benchmarks.cases import deform_conv2d, resize
from benchmarks.cases.deform_conv2d import PROBLEMS, DeformCase
from benchmarks.cases.resize import ResizeCase
from benchmarks.measure import Plan
from benchmarks.report.text import duration

TITLE = "Overhead of a call"
EXPLANATION = (
    "Our time minus theirs on tiny inputs, without gradients. In ONNX Runtime our node is compared "
    "with a built-in one, each in a model of one node, with bound inputs and outputs."
)


def rows(threads: int, plan: Plan) -> Iterator[Row]:
    torch.set_num_threads(threads)
    plan = replace(plan, rounds=2 * plan.rounds)
    a, b = torch.rand(4), torch.rand(4)
    yield _row(
        "my_add, 4 elements, torch.add",
        threads,
        plan,
        partial(myops.my_add, a, b),
        partial(torch.add, b, a, alpha=2),
        3.0,
    )
    x = torch.rand(1, 1, 4, 4)
    options = {"scale_factor": 2.0, "mode": "bilinear"}
    yield _row(
        "interpolate, 1x1x4x4, F.interpolate",
        threads,
        plan,
        partial(myops.interpolate, x, **options),
        partial(F.interpolate, x, **options),
        None,
    )
    yield from _in_ort(threads, plan)


def _in_ort(threads: int, plan: Plan) -> Iterator[Row]:
    vectors = {"a": np.ones(4, np.float32), "b": np.ones(4, np.float32)}

    def add(op: str, domain: str) -> bytes:
        node = helper.make_node(op, ["a", "b"], ["y"], domain=domain)
        return ort_session.model([node], vectors, {}, ["y"])

    def bound(model: bytes, inputs: Arrays, shape: tuple[int, ...]) -> Callable[[], Any]:
        running = ort_session.session(model, threads)
        return ort_session.bound(
            running, inputs, {running.get_outputs()[0].name: arrays.empty(shape)}
        )[0]

    yield _row(
        "MyAdd in ORT, 4 elements, Add",
        threads,
        plan,
        bound(add("MyAdd", "myops"), vectors, (4,)),
        bound(add("Add", ""), vectors, (4,)),
        2.0,
    )
    case = ResizeCase("linear", (1, 1, 4, 4), 2.0)
    yield _row(
        "Resize in ORT, 1x1x4x4, Resize",
        threads,
        plan,
        bound(resize.onnx_model(case, "myops"), case.inputs, case.output_shape),
        bound(resize.onnx_model(case, ""), case.inputs, case.output_shape),
        2.0,
    )
    problem = DeformCase("tiny", replace(PROBLEMS["f"], height=2, width=2))
    yield _row(
        "DeformConv in ORT, 1x3x2x2, DeformConv",
        threads,
        plan,
        bound(*deform_conv2d.onnx_model(problem, "myops"), problem.output_shape),
        bound(*deform_conv2d.onnx_model(problem, ""), problem.output_shape),
        2.0,
    )


def _row(
    name: str,
    threads: int,
    plan: Plan,
    ours: Callable[[], Any],
    theirs: Callable[[], Any],
    limit: float | None,
) -> Row:
    found = measured(
        [
            Candidate(key, call, lambda returned: [returned], "allocated")
            for key, call in (("ours", ours), ("theirs", theirs))
        ],
        plan,
    )
    left, right = found["ours"].seconds, found["theirs"].seconds
    detail = f"{duration(left)} - {duration(right)}"
    disturbed = any_disturbed(found)
    return Row(name, threads, (left - right) * 1e6, "us", "at most", limit, detail, disturbed)
