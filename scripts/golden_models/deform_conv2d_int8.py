"""Golden models of deform_conv2d_int8."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from reference_deform_conv2d_int8 import deform_conv2d_int8 as reference
from runtimes import random_array

from golden_models import Node
from golden_models.deform_conv2d import ATTRIBUTES, arrays


def nodes(rng: np.random.Generator) -> Iterator[Node]:
    _, _, offset, bias, mask = (item.astype(np.float32) for item in arrays(rng))
    attributes = {**ATTRIBUTES, "mask_limit": 1.5}
    for dtype in ("uint8", "int8"):
        X, zero = random_array(rng, (2, 6, 7, 6), dtype), np.array([7], dtype)
        weight, scales = random_array(rng, (4, 3, 3, 2), "int8"), np.float32([1, 2, 3, 4]) / 256
        inputs = [X, np.float32([0.125]), zero, weight, scales, offset, bias, mask]
        wanted = reference(*inputs, **attributes)
        yield Node(f"deform_int8_{dtype}", "deform_conv2d_int8", inputs, attributes, wanted, dtype)
