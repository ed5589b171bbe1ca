"""Why a file is in a type of 16 bits, and what to do about it."""

from __future__ import annotations

from typing import Any

import torch

from myops.onnx.exporting.inputs import Inputs


def advice(model: Any, inputs: Inputs, dtype: str) -> tuple[str, str]:
    """The cause and the remedy, for a file with values of the type "bfloat16" or "float16"."""
    given: list[Any] = [getattr(model, name, list)() for name in ("parameters", "buffers")]
    tensors = [*(item for items in given for item in items), *map(inputs.tensor, inputs.slots)]
    half = f'myops.onnx.to_half(exported, dtype="{dtype}")'
    if any(item.dtype == getattr(torch, dtype) for item in tensors):
        return f"the model is in {dtype}", f"model.float() for the export, and {half} afterwards"
    if any(map(torch.is_autocast_enabled, ("cpu", "cuda"))):
        cause = f"torch.autocast is active around the export, so that the model runs in {dtype}"
    else:
        cause = (
            f"forward computes in {dtype}, by torch.autocast or a cast of its own, though weights "
            "and inputs are in other types"
        )
    return cause, f"the model without torch.autocast for the export, and {half} afterwards"
