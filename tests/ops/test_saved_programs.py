"""`torch.export.save` and `load`: every way to call a resize with dynamic lengths survives them.

A program that is saved may compute with lengths by few of Python's functions only, so each form of
the arguments is tried with each mode.
"""

from __future__ import annotations

import io
import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch

import myops

Way = Callable[[torch.Tensor, torch.Tensor, str], torch.Tensor]
MODES = ["nearest", "nearest-exact", "bilinear", "bicubic", "area", "linear", "trilinear"]
RANKS = {"linear": 3, "trilinear": 5}


def _interpolated(form: Callable[[torch.Tensor, torch.Tensor], dict[str, Any]]) -> Way:
    return lambda x, number, mode: myops.interpolate(x, mode=mode, **form(x, number))


FORMS: dict[str, Callable[[torch.Tensor, torch.Tensor], dict[str, Any]]] = {
    "numbers": lambda x, number: {"size": [9] * (x.dim() - 2)},
    "lengths": lambda x, number: {"size": [2 * n + 1 for n in x.shape[2:]]},
    "quotients": lambda x, number: {"size": [(3 * n) // 4 + 1 for n in x.shape[2:]]},
    "factor": lambda x, number: {"scale_factor": 1.3},
    "exact factor": lambda x, number: {"scale_factor": 2.5},
    "factors": lambda x, number: {"scale_factor": [1.3, 1.1, 1.9][: x.dim() - 2]},
    "factor of a tensor": lambda x, number: {"scale_factor": number},
    "size of a tensor": lambda x, number: {"size": (number * 5).to(torch.int64)},
    "recomputed": lambda x, number: {"scale_factor": 1.7, "recompute_scale_factor": True},
}  # fmt: skip
RESIZES: dict[str, Way] = {
    "scales": lambda x, number, mode: myops.resize(x, [1, 1, 1.3, 0.7], mode=mode),
    "exact scales": lambda x, number, mode: myops.resize(x, [2.5, 0.75], mode=mode, axes=[2, 3]),
    "sizes": lambda x, number, mode: myops.resize(
        x, sizes=[x.shape[2] + 3, x.shape[3] * 2], mode=mode, axes=[2, 3]
    ),
    "box": lambda x, number, mode: myops.resize(
        x, sizes=[12, 14], mode=mode, axes=[2, 3], keep_aspect_ratio_policy="not_larger"
    ),
}
CASES = [
    *[(mode, RANKS.get(mode, 4), _interpolated(FORMS[form]), f"{mode}, {form}")
      for mode, form in itertools.product(MODES, FORMS)],
    *[(mode, 4, way, f"resize {mode}, {name}")
      for mode, (name, way) in itertools.product(("linear", "area"), RESIZES.items())],
]  # fmt: skip


class Model(torch.nn.Module):
    def __init__(self, way: Way, mode: str) -> None:
        super().__init__()
        self.way, self.mode = way, mode

    def forward(self, x: torch.Tensor, number: torch.Tensor) -> torch.Tensor:
        y = self.way(x, number, self.mode)
        return y[..., : y.shape[-1] - 1]  # which computes with the length of the result


@pytest.mark.parametrize(
    ("mode", "rank", "way"), [case[:3] for case in CASES], ids=[case[3] for case in CASES]
)
def test_a_saved_program_computes_the_same(mode: str, rank: int, way: Way) -> None:
    model, number = Model(way, mode).eval(), torch.tensor(1.6)
    # (From 4 on, no length of a result is 1, for which torch.export would need a second program.)
    dims = {axis: torch.export.Dim(f"n{axis}", min=4, max=64) for axis in range(2, rank)}
    example = torch.rand(1, 2, *[8, 10, 6][: rank - 2])
    program = torch.export.export(model, (example, number), dynamic_shapes=(dims, None))
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    loaded = torch.export.load(file).module()
    for lengths in ([13, 7, 5], [11, 31, 12], [4, 5, 9]):
        x = torch.rand(1, 2, *lengths[: rank - 2])
        assert torch.equal(loaded(x, number), model(x, number))
