"""Calls of my_add and its gradients against 2a + b in float64, integers against NumPy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from drawing import (
    FLOATS,
    Draw,
    Options,
    WrongError,
    accumulates,
    begin,
    common_classes,
    common_options,
    compare,
    equal_bits,
    exact,
    other_threads,
    runtimes_agree,
)
from torch import Tensor

import myops

INTEGERS = {"int32": torch.int32, "int64": torch.int64}
# Vectors, and pieces of 32768 elements (csrc/ops/my_add).
LENGTHS = (1, 2, 3, 5, 7, 8, 9, 13, 15, 16, 17, 31, 32, 33, 64, 65)
PIECES = (32767, 32768, 32769, 65536, 65537, 98305)


def draw(seed: int) -> Options:
    d = Draw(seed)
    while True:
        whole = [d.choice((1, 2, 3, 5, d.choice(LENGTHS))) for _ in range(d.randint(0, 6))]
        if whole and d.chance(8):
            whole[d.randrange(len(whole))] = d.choice(PIECES)
        if math.prod(whole) <= 1 << 18:
            break
    if whole and d.chance(20):
        whole[d.randrange(len(whole))] = 0
    operands = {}
    for name in "ab":
        start = d.choice((0, 0, d.randint(0, len(whole))))
        operands[name] = [d.choice((1, length, length, length)) for length in whole[start:]]
    dtype = d.dtype((*FLOATS, *INTEGERS))
    return {
        "dtype": dtype, "shapes": operands, "layouts": {"a": d.layout(), "b": d.layout()},
        "order": 0 if dtype in INTEGERS else d.choice((0, 1, 2)), "wants": d.subset("ab"),
        "grad_layout": d.layout(), **common_options(d),
    }  # fmt: skip


def classes(o: Options) -> list[str]:
    elements = math.prod(np.broadcast_shapes(*map(tuple, o["shapes"].values())))
    return [
        *common_classes(o),
        f"broadcast {'no' if o['shapes']['a'] == o['shapes']['b'] else 'yes'}",
        f"pieces {'several' if elements > 32768 else '1' if elements else '0'}",
        f"layout of a {o['layouts']['a']}",
        *([f"wants {''.join(o['wants'])}"] if o["order"] else []),
    ]  # fmt: skip


def formula(a: Tensor, b: Tensor) -> Tensor:
    return 2 * a + b


def check(o: Options) -> None:
    data = begin(o)

    def operand(name: str) -> Tensor:
        shape, layout = o["shapes"][name], o["layouts"][name]
        if o["dtype"] in INTEGERS:
            kind = INTEGERS[o["dtype"]]
            ends = torch.iinfo(kind)
            values = torch.randint(
                ends.min, ends.max, tuple(shape), generator=data.source, dtype=kind
            )
            return data.lay(values, layout)
        return data.lay(data.normal(shape).to(FLOATS[o["dtype"]]), layout)

    a, b = operand("a"), operand("b")
    if o["dtype"] in INTEGERS:
        got = myops.my_add(a, b)
        with np.errstate(over="ignore"):
            wanted = a.numpy() * a.numpy().dtype.type(2) + b.numpy()
        if not np.array_equal(got.numpy(), wanted):
            raise WrongError("y: not 2a + b")
        if o["again"]:
            runtimes_agree("my_add", [a, b], {}, got, data)
        return
    grad = None
    if o["order"]:
        shape = torch.broadcast_shapes(a.shape, b.shape)
        grad = data.lay(data.normal(shape).to(a.dtype), o["grad_layout"])

    def run(a: Tensor, b: Tensor, grad: Tensor | None, call: Any) -> dict[str, Tensor]:
        leaves = {"a": a.detach(), "b": b.detach()}
        if grad is None:
            return {"y": call(**leaves)}
        for name in o["wants"]:
            leaves[name].requires_grad_()
        results = {"y": call(**leaves)}
        twice = o["order"] == 2
        grad = grad.detach().requires_grad_(twice)
        wanted = [leaves[name] for name in o["wants"]]
        first = torch.autograd.grad(results["y"], wanted, grad, create_graph=twice)
        results |= {f"gradient of {n}": one for n, one in zip(o["wants"], first, strict=True)}
        if twice:
            (results["second gradient"],) = torch.autograd.grad(first, grad, wanted)
        return results

    got = run(a, b, grad, myops.my_add)
    wanted = run(exact(a), exact(b), None if grad is None else exact(grad), formula)
    # Gradients of a broadcast operand are torch's sums, in the dtype. Their error grows with the
    # sum of the terms' magnitudes, whatever cancels in it, and with the square root of their number
    # (Higham, Accuracy and Stability of Numerical Algorithms, sections 4.2 and 2.8).
    terms = math.prod(torch.broadcast_shapes(a.shape, b.shape))
    sizes = wanted if grad is None else run(exact(a), exact(b), exact(grad).abs(), formula)
    rounding = max(torch.finfo(a.dtype).eps, accumulates(a.dtype))
    for name, result in wanted.items():
        limit = 8 * accumulates(a.dtype)
        if "gradient of" in name and terms > result.numel() > 0:
            largest = float(sizes[name].detach().max())
            limit += math.sqrt(terms / result.numel()) * rounding * largest
        compare(name, got[name], result, limit)
    if o["again"]:
        torch.set_num_threads(other_threads(o))
        again = run(a.contiguous(), b.contiguous(), grad, myops.my_add)
        equal_bits("y, with other threads and inputs in order", got["y"], again["y"])
        runtimes_agree("my_add", [a, b], {}, got["y"], data)
