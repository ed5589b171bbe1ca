"""window_sums: an op whose shape rule is text in C++, and nowhere else."""

from __future__ import annotations

from typing import Any

import numpy as np
from torch import Tensor

import myops

library = myops.op_library("author_ops")


def _save(ctx: Any, inputs: Any, attributes: dict[str, Any], output: Any) -> None:
    ctx.shapes = [item.shape for item in inputs]
    ctx.size, ctx.step = attributes["size"], attributes["step"]


def _backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
    shape, of_bias = ctx.shapes
    size, step = ctx.size, ctx.step
    rows, columns = grad.shape[-2:]
    whole = grad.new_zeros([*grad.shape[:-2], *shape[-2:]])
    for i in range(size):
        for j in range(size):
            below, behind = i + step * (rows - 1) + 1, j + step * (columns - 1) + 1
            whole[..., i:below:step, j:behind:step] += grad
    return whole.sum_to_size(shape), grad.sum((-1, -2)).sum_to_size(of_bias)


def _standard(g: Any) -> list[str]:
    """A slice of x for each place in a window, and their sum."""
    if g.opset < 13:
        g.refuse("Unsqueeze takes its axes as an input since opset 13", "Use opset 13 or up.")
    size, step = g.attribute("size"), g.attribute("step")

    def numbers(*values: int) -> str:
        return g.constant(np.array(values))

    lengths = g.op("Slice", g.op("Shape", g.input("x")), numbers(-2), numbers(2**31))
    windows = g.op("Div", g.op("Add", lengths, numbers(step - size)), numbers(step))
    last = g.op("Mul", g.op("Sub", windows, numbers(1)), numbers(step))
    total = g.op("Unsqueeze", g.input("bias"), numbers(-2, -1))
    for i in range(size):
        for j in range(size):
            ends = g.op("Max", g.op("Add", last, numbers(i + 1, j + 1)), numbers(0))
            part = g.op("Slice", g.input("x"), numbers(i, j), ends, numbers(-2, -1),
                        numbers(step, step))  # fmt: skip
            total = g.op("Add", total, part)
    return [total]


window_sums = library.define("window_sums", save=_save, backward=_backward, standard=_standard)
