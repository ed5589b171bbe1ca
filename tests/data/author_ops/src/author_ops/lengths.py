"""Ops whose results have lengths that the data decides."""

from __future__ import annotations

from typing import Any

import numpy as np
from torch import Tensor

import myops
from author_ops import nms_rules

library = myops.op_library("author_ops")


nms = library.define(
    "nms", save=nms_rules.save, backward=nms_rules.backward, standard=nms_rules.standard,
)  # fmt: skip


def _save_mask(ctx: Any, inputs: Any, attributes: dict[str, Any], output: Any) -> None:
    ctx.save_for_backward(inputs[1])


def _scatter(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
    (mask,) = ctx.saved_tensors
    return grad.new_zeros(mask.shape).masked_scatter(mask, grad), None


def _select_standard(g: Any) -> list[str]:
    row = g.constant(np.array([-1]))
    chosen = g.op("Reshape", g.input("mask"), row)
    return [g.op("Compress", g.op("Reshape", g.input("x"), row), chosen, axis=0)]


select = library.define("select", save=_save_mask, backward=_scatter, standard=_select_standard)


def _unique_standard(g: Any) -> list[str]:
    values, _, inverse, counts = g.op("Unique", g.input("x"), sorted=1, outputs=4)
    return [
        values,
        inverse if g.attribute("return_inverse") else "",
        counts if g.attribute("return_counts") else "",
    ]


unique = library.define("unique", standard=_unique_standard)
ball_query = library.define("ball_query", backward="ball_query_backward")
