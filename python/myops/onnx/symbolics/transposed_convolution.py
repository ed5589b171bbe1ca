"""`conv_transpose2d` whose output_padding follows a length, as with output_size= in a U-Net.

An attribute of ONNX cannot. What output_padding adds lies behind everything else, so that the
largest one is written and the end cut off.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from myops.onnx.symbolics import register

_OPSET = 13  # of Squeeze with axes as input


@contextlib.contextmanager
def registered() -> Iterator[None]:
    """In this context, the newer exporter writes it so, unless a user has registered it. (The older
    one sees `aten::_convolution` with constant numbers.)"""
    names = ("conv_transpose1d", "conv_transpose2d.input", "conv_transpose3d.input")
    with register.registered_for_now({f"aten::{name}": _write for name in names}, _OPSET):
        yield


def _write(
    g: Any,
    x: Any,
    weight: Any,
    bias: Any = None,
    stride: Sequence[int] = (1,),
    padding: Sequence[Any] = (0,),
    output_padding: Sequence[Any] = (0,),
    groups: int = 1,
    dilation: Sequence[int] = (1,),
) -> Any:
    shapes = g.shape(x), g.shape(weight)
    if None in shapes:
        g.refuse("the number of axes of its arguments is not known here")
    axes = len(shapes[1]) - 2
    lists = (stride, padding, output_padding, dilation)
    stride, padding, more, dilation = (
        list(item) * (axes if len(item) == 1 else 1) for item in lists
    )
    if not all(isinstance(item, int) for item in (*stride, *padding, *dilation)):
        g.refuse("its stride, padding or dilation follows a length")
    known = [isinstance(item, int) for item in more]
    largest = [
        item if fixed else max(step, apart) - 1
        for item, fixed, step, apart in zip(more, known, stride, dilation, strict=True)
    ]
    single = len(shapes[0]) == axes + 1  # an image without a batch
    x = g.op("Unsqueeze", x, g.constant(np.array([0], np.int64))) if single else x
    y = g.op(
        "ConvTranspose", x, weight, *([] if bias is None else [bias]), strides=stride,
        pads=padding * 2, output_padding=largest, dilations=dilation, group=groups,
    )  # fmt: skip
    if not all(known):
        places = [place + 2 for place, fixed in enumerate(known) if not fixed]
        kept = g.list([item for item, fixed in zip(more, known, strict=True) if not fixed])
        most = np.array([largest[place - 2] for place in places], np.int64)
        inside = g.constant(np.array(places, np.int64))
        lengths = g.op("Gather", g.op("Shape", y), inside)
        ends = g.op("Add", g.op("Sub", lengths, g.constant(most)), kept)
        y = g.op("Slice", y, g.constant(np.zeros(len(places), np.int64)), ends, inside)
    return g.op("Squeeze", y, g.constant(np.array([0], np.int64))) if single else y
