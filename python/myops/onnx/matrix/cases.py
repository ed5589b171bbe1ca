"""The built-in cases: F.interpolate and myops.interpolate at the sizes where exporters fail."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

import myops
from myops.onnx.matrix import notes
from myops.onnx.matrix.cells import Case
from myops.onnx.matrix.report import Matrix

# Row -> options of interpolate
_MODES: dict[str, dict[str, Any]] = {
    "nearest": {"mode": "nearest"},
    "nearest-exact": {"mode": "nearest-exact"},
    "bilinear": {"mode": "bilinear", "align_corners": False},
    "bilinear align_corners": {"mode": "bilinear", "align_corners": True},
    "bilinear antialias": {"mode": "bilinear", "antialias": True},
    "bicubic": {"mode": "bicubic", "align_corners": False},
    "bicubic align_corners": {"mode": "bicubic", "align_corners": True},
    "bicubic antialias": {"mode": "bicubic", "antialias": True},
    "area": {"mode": "area"},
}
_OTHER_RANKS = {
    "linear (1 axis)": ({"mode": "linear"}, 1),
    "trilinear (3 axes)": ({"mode": "trilinear"}, 3),
}

# Factors and sizes for a 9x10 image: integers, fractions, shrinking, down to one pixel.
_FACTORS = {"x2": 2.0, "x1.7": 1.7, "x0.6": 0.6, "x0.12, to 1x1": 0.12}
_SIZES = {"to 14x6": (14, 6), "to 1x1": (1, 1)}


class _Resize(torch.nn.Module):
    def __init__(self, interpolate: Callable[..., Any], **options: Any) -> None:
        super().__init__()
        self.interpolate = interpolate
        self.options = options

    def forward(self, x: Any) -> Any:
        return self.interpolate(x, **self.options)


class _ResizeBy(torch.nn.Module):
    """Resize by a factor that is an input."""

    def __init__(self, interpolate: Callable[..., Any], read: bool, **options: Any) -> None:
        super().__init__()
        self.interpolate = interpolate
        self.read = read  # F.interpolate takes numbers only
        self.options = options

    def forward(self, x: Any, factor: Any) -> Any:
        scale = factor.item() if self.read else factor
        return self.interpolate(x, scale_factor=scale, **self.options)


def interpolate() -> dict[str, list[Case]]:
    """Rows of `myops matrix interpolate`: name -> cases.

    For each mode of F.interpolate, a row by factor, by size, and with dynamic lengths (exported at
    one size, run at two others); the same modes of myops.interpolate, through myops.onnx.export,
    in a row with fixed and one with dynamic lengths; and a factor that is an input of the model.
    """
    rows: dict[str, list[Case]] = {}
    for name, options in _MODES.items():
        rows[f"{name}, scale_factor"] = _by_factor(F.interpolate, options)
        rows[f"{name}, size"] = _by_size(F.interpolate, options)
        rows[f"{name}, dynamic"] = _dynamic(F.interpolate, options)
    rows["bilinear, factor.item()"] = _by_input(F.interpolate, {"mode": "bilinear"}, read=True)
    ours = {name: (options, 2) for name, options in _MODES.items()}
    for name, (options, rank) in {**ours, **_OTHER_RANKS}.items():
        fixed = _by_factor(myops.interpolate, options, rank)[1:]  # x2 is the easiest case
        rows[f"myops {name}"] = fixed + _by_size(myops.interpolate, options, rank)
        rows[f"myops {name}, dynamic"] = [
            *_dynamic(myops.interpolate, options, rank),
            *_by_input(myops.interpolate, options, rank=rank),
        ]
    return rows


# checks=False below, because findings of the checks have no number for the table. With the checks,
# the 200 cells of opsets 11 and 20 had the same verdicts except "nearest, dynamic", whose lengths
# were then added to _dynamic: from 32x21 to 14x6, ONNX Runtime computes the coordinate 4 / (6 / 21)
# as a little less than 14, and uses another pixel than PyTorch.


def _image(*lengths: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(sum(lengths) + 31 * len(lengths))
    return torch.randn(1, 2, *lengths, generator=generator)


def _lengths(rank: int, height: int = 9, width: int = 10) -> tuple[int, ...]:
    return (9, height, width)[-rank:]


def _case(function: Any, label: str, x: Any, options: Any, **more: Any) -> Case:
    model = _Resize(function, **options, **more)
    return Case(model, (x,), label=label, through=_through(function), checks=False)


def _through(function: Any) -> str:
    return "myops" if function is myops.interpolate else "torch"


def _by_factor(function: Any, options: Any, rank: int = 2) -> list[Case]:
    x, row = _image(*_lengths(rank)), _image(*_lengths(rank, height=1))
    cases = [_case(function, label, x, options, scale_factor=s) for label, s in _FACTORS.items()]
    cases.append(_case(function, "x1.7 of a 1x10 image", row, options, scale_factor=1.7))
    if options["mode"] in ("bilinear", "bicubic"):
        cases.append(_case(function, "x1.7 recomputed", x, options, scale_factor=1.7,
                           recompute_scale_factor=True))  # fmt: skip
    return cases


def _by_size(function: Any, options: Any, rank: int = 2) -> list[Case]:
    x, row = _image(*_lengths(rank)), _image(*_lengths(rank, height=1))
    sizes = {label: (3, *size)[-rank:] for label, size in _SIZES.items()}
    cases = [_case(function, label, x, options, size=size) for label, size in sizes.items()]
    return [*cases, _case(function, "1x10 to 3x7", row, options, size=(5, 3, 7)[-rank:])]


def _dynamic(function: Any, options: Any, rank: int = 2) -> list[Case]:
    others = [(_image(*_lengths(rank, *size)),) for size in ((7, 13), (12, 5), (32, 21))]
    x = _image(*_lengths(rank))
    forms: list[tuple[str, dict[str, Any]]] = [
        ("x1.7 at other sizes", {"scale_factor": 1.7}),
        ("to 14x6 from other sizes", {"size": (3, 14, 6)[-rank:]}),
    ]
    if options["mode"] == "bilinear":
        recomputed = {"scale_factor": 1.7, "recompute_scale_factor": True}
        forms.append(("x1.7 recomputed at other sizes", recomputed))
    return [
        Case(
            _Resize(function, **options, **form),
            (x,),
            {},
            others,
            label,
            _through(function),
            checks=False,
        )
        for label, form in forms
    ]


def _by_input(function: Any, options: Any, read: bool = False, rank: int = 2) -> list[Case]:
    x, factors = _image(*_lengths(rank)), [torch.tensor(s) for s in (2.0, 1.7, 0.6)]
    others = [(x, factor) for factor in factors[1:]]
    model = _ResizeBy(function, read, **options)
    return [Case(model, (x, factors[0]), {}, others, "factor an input", _through(function),
                 checks=False)]  # fmt: skip


BUILT_IN: dict[str, Callable[[], dict[str, list[Case]]]] = {"interpolate": interpolate}
NOTES: dict[str, Callable[[Matrix], str]] = {"interpolate": notes.interpolate}
