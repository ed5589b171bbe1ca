"""Random calls of resize and of its gradient: python resize_calls.py SEED COUNT prints a line for
each with a hash of the bits of its result."""

from __future__ import annotations

import hashlib
import math
import random
import sys
from typing import Any

import torch

import myops

# Around the lengths of vectors, and some for which rows are, or are not, whole cache lines.
LENGTHS = (1, 2, 3, 5, 8, 16, 16, 24, 33, 40, 72, 100, 128, 300, 1300)
FACTORS = (0, 0, 0.02, 0.02, 0.1, 0.24, 0.3, 0.5, 0.7, 0.9, 1, 1, 1, 1, 1.1, 2, 3.3)
MODES = ("linear", "linear", "cubic", "area", "nearest")
DTYPES = (torch.float32, torch.float32, torch.float64, torch.float16, torch.bfloat16)
SPECIAL = (0.0, -0.0, math.inf, -math.inf, math.nan)
MOST = 1 << 15  # elements


def lengths_of(random: random.Random, rank: int) -> tuple[list[int], list[int]]:
    x, y, budget = [1] * rank, [1] * rank, MOST
    for axis in random.sample(range(rank), rank):
        x[axis] = random.choice([length for length in LENGTHS if length <= budget])
        y[axis] = max(1, int(x[axis] * random.choice(FACTORS)))
        budget = max(1, budget // max(x[axis], y[axis]))
    return x, y


def filled(shape: list[int], special: bool, like: dict[str, Any]) -> torch.Tensor:
    numbers = torch.randn(shape)
    for value in SPECIAL if special else ():
        numbers[torch.rand(shape) < 0.02] = value
    return numbers.to(like["dtype"]).contiguous(memory_format=like["memory_format"])


def call(number: int, random: random.Random) -> None:
    rank = random.choice((2, 3, 4, 4, 4, 5))
    x, y = lengths_of(random, rank)
    mode = random.choice(MODES)
    options = {
        "mode": mode,
        "antialias": mode in ("linear", "cubic") and random.random() < 0.2,
        "coordinate_transformation_mode": "half_pixel" if mode == "area" else random.choice(
            ("half_pixel", "align_corners", "asymmetric")
        ),
    }  # fmt: skip
    memory_format = torch.contiguous_format
    if rank > 3 and random.random() < 0.5:
        memory_format = torch.channels_last if rank == 4 else torch.channels_last_3d
    like = {"dtype": random.choice(DTYPES), "memory_format": memory_format}
    special, backward = random.random() < 0.3, random.random() < 0.4
    image = filled(x, special, like).requires_grad_(backward)
    result = myops.resize(image, sizes=y, **options)
    if backward:
        (result,) = torch.autograd.grad(result, image, filled(y, special, like))
    result = result.detach().clone(memory_format=torch.contiguous_format).view(-1)
    # (A NaN may have any bits.)
    result = torch.where(result.isnan(), torch.full_like(result, 7), result)
    bits = hashlib.sha256(result.view(torch.uint8).numpy().tobytes()).hexdigest()[:16]
    print(number, x, y, options, like, "gradient" if backward else "", bits, flush=True)


def main(seed: int, count: int) -> None:
    torch.manual_seed(seed)
    choices = random.Random(seed)
    for number in range(count):
        call(number, choices)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
