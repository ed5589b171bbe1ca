"""Calls of deform_conv2d in which settings that could be confused differ, and the reference."""

from __future__ import annotations

import json
import os
import sys
from hashlib import sha256
from typing import Any

import numpy as np
import torch
import warm
from reference_deform_conv2d import deform_conv2d as reference
from runtimes import to_numpy

import myops

# batch, channels, outputs, kernel, stride, padding, dilation, groups, offset groups, mask, bias.
# Where two settings could be confused they differ; the sums run over 9, 18 and 27 products.
CASES = [
    (1, 6, 2, (3, 2), (2, 1), (1, 0), (2, 1), 2, 3, True, True),
    (33, 6, 2, (3, 2), (2, 1), (1, 0), (2, 1), 2, 3, True, True),
    (2, 6, 2, (3, 2), (2, 1), (1, 0), (2, 1), 2, 3, False, False),
    (1, 2, 4, (3, 3), (1, 1), (1, 1), (1, 1), 2, 1, True, True),  # 9
    (2, 4, 6, (3, 3), (1, 2), (0, 1), (1, 1), 2, 2, True, False),  # 18
    (1, 3, 5, (3, 3), (1, 1), (1, 1), (1, 1), 1, 3, True, True),  # 27
    (1, 12, 12, (3, 3), (1, 1), (1, 1), (1, 1), 12, 4, True, True),  # one filter a channel
    (1, 40, 37, (1, 1), (1, 1), (0, 0), (1, 1), 1, 5, False, True),
    (0, 6, 2, (3, 2), (2, 1), (1, 0), (2, 1), 2, 3, True, True),  # no batch
]
CASE = ("batch", "channels", "outputs", "kernel", "stride", "padding", "dilation", "groups",
        "offset_groups", "mask", "bias")  # fmt: skip
DTYPES = myops._description.OPS["deform_conv2d"].types["T"]


def build(case: tuple[Any, ...], size: tuple[int, int] = (11, 9), dtype: str = "float64") -> Any:
    """(X, W, offset, B, mask) and the node's attributes."""
    c = dict(zip(CASE, case, strict=True))
    out = [
        (size[i] + 2 * c["padding"][i] - c["dilation"][i] * (c["kernel"][i] - 1) - 1)
        // c["stride"][i] + 1
        for i in (0, 1)
    ]  # fmt: skip
    taps = c["kernel"][0] * c["kernel"][1]
    offset = torch.randn(c["batch"], 2 * c["offset_groups"] * taps, *out, dtype=torch.float64) * 2
    # The gradient jumps where a position is an integer: keep away from there.
    offset = torch.where((offset - offset.round()).abs() < 0.02, offset + 0.05, offset)
    tensors = [
        torch.randn(c["batch"], c["channels"], *size, dtype=torch.float64),
        torch.randn(c["outputs"], c["channels"] // c["groups"], *c["kernel"], dtype=torch.float64),
        offset,
        torch.randn(c["outputs"], dtype=torch.float64) if c["bias"] else None,
        torch.randn(c["batch"], c["offset_groups"] * taps, *out, dtype=torch.float64)
        if c["mask"] else None,
    ]  # fmt: skip
    attributes = {
        "dilations": list(c["dilation"]),
        "group": c["groups"],
        "offset_group": c["offset_groups"],
        "pads": [*c["padding"], *c["padding"]],
        "strides": list(c["stride"]),
    }
    kind = getattr(torch, dtype)
    return [None if item is None else item.to(kind) for item in tensors], attributes


def expected(tensors: Any, attributes: dict[str, Any]) -> torch.Tensor:
    x, weight, offset, bias, mask = [None if t is None else t.double() for t in tensors]
    return reference(
        x, weight, offset, bias, mask, tuple(attributes["strides"]), tuple(attributes["pads"]),
        tuple(attributes["dilations"]), attributes["group"], attributes["offset_group"],
    )  # fmt: skip


def arrays(tensors: Any) -> list[np.ndarray | None]:
    return [None if item is None else to_numpy(item) for item in tensors]


def call(tensors: Any, attributes: dict[str, Any]) -> torch.Tensor:
    x, weight, offset, bias, mask = tensors
    return myops.deform_conv2d(
        x, offset, weight, bias, attributes["strides"], attributes["pads"],
        attributes["dilations"], mask,
    )  # fmt: skip


def in_dtype(tensors: list[Any], dtype: str) -> list[Any]:
    return [None if t is None else t.to(getattr(torch, dtype)) for t in tensors]


def off_integers(offset: torch.Tensor) -> torch.Tensor:
    """Offsets that 16-bit types do not round onto integers, where gradients jump."""
    return (offset * 16).round() / 16 + 1 / 32


def bits_of(result: torch.Tensor) -> str:
    return sha256(result.contiguous().view(torch.uint8).numpy().tobytes()).hexdigest()


def found_without(kernels: str, file: str) -> dict[str, Any]:
    """What found() of a test file returns in a process in which kernels are turned off."""
    folder, name = os.path.split(file)
    path = os.pathsep.join([folder, *sys.path])
    environment = {**os.environ, "MYOPS_DISABLE_KERNEL": kernels, "PYTHONPATH": path}
    program = f"import json, {name.removesuffix('.py')} as t; print(json.dumps(t.found()))"
    done = warm.run("-c", program, env=environment, without_myops=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
