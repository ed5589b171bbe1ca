"""Refusals of `myops.interpolate` name its own arguments, not those of the op Resize."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

import myops

X8 = torch.rand(1, 3, 8, 8)
WORDS: dict[str, tuple[dict[str, Any], str]] = {
    "zero": ({"scale_factor": 0}, "scale_factor: got 0 on axis 2, expected a finite number above"),
    "list": ({"scale_factor": [1.0, 0.0]}, "scale_factor: got 0 on axis 3, expected a finite"),
    "tensor": ({"scale_factor": torch.tensor([0.0, 1.0])}, "scale_factor: got 0 on axis 2"),
    "small": ({"scale_factor": 0.01}, "scale_factor: got an output of length 0 on axis 2"),
    "large": ({"scale_factor": 1e30}, r"scale_factor: got an output of length 8e\+30 on axis 2"),
    "text": ({"scale_factor": "2"}, "scale_factor: got '2', expected numbers"),
    "no_float": ({"scale_factor": 10**400}, "scale_factor: got 1000.*, expected numbers th"),
    "no_floats": ({"scale_factor": [10**400, 1]}, "scale_factor: got 1000.*, expected numb"),
    "vector": ({"scale_factor": [torch.ones(2), 1.0]}, r"scale_factor: got a tensor of shape"),
    "complex": ({"scale_factor": [torch.tensor(1j), 1.0]}, "scale_factor: got a tensor of t"),
    "size": ({"size": [-1, 4]}, "size: got -1 on axis 2, expected at least 1"),
    "sizes": ({"size": torch.tensor([0, 4])}, "size: got 0 on axis 2, expected at least 1"),
    "long": ({"size": [2**62, 4]}, r"size: got 4611686018427387904 on axis 2, expected at most 2"),
    "bits": ({"size": 10**400}, "size: got 1000.*, expected integers of 64 bits"),
    "bool": ({"size": torch.tensor(True)}, "size: got dtype bool, expected int64"),
    "dtype": ({"input": X8.long(), "size": 4}, "input: got dtype int64, expected float16"),
    "empty": ({"input": X8[..., :0, :], "size": 4}, "size: got 4 on axis 2, expected 0, as in"),
    "out": ({"size": 4, "out": X8}, r"out: got shape \[1, 3, 8, 8\], expected shape"),
    "no_out": ({"size": 4, "out": "a"}, "out: got str, expected a Tensor"),
    "flag": ({"size": 4, "antialias": []}, r"antialias: got \[\], expected a bool"),
    "flags": ({"size": 4, "align_corners": {}}, r"align_corners: got \{\}, expected a bool"),
}  # fmt: skip


CASES = [
    (mistake, recompute)
    for mistake, (given, _) in WORDS.items()
    for recompute in ((None, True) if "scale_factor" in given else (None,))
]


@pytest.mark.parametrize("mode", ["nearest", "bilinear", "area"])
@pytest.mark.parametrize(("mistake", "recompute"), CASES)
def test_refusals_name_what_the_caller_gave(
    mistake: str, recompute: bool | None, mode: str
) -> None:
    """Not the inputs of Resize, the op that computes."""
    given, text = WORDS[mistake]
    if "scale_factor" in given:
        by_length = recompute or mode == "area"
        given = {**given, "recompute_scale_factor": recompute}
        if by_length and mistake in ("zero", "list", "tensor", "small", "large"):
            text = "scale_factor: got (-?[0-9.]+, expected a finite|an output length of [0-9]+ on)"
    with pytest.raises((RuntimeError, TypeError), match=f"^interpolate: {text}"):
        myops.interpolate(**{"input": X8, "mode": mode, **given})


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({}, "size and scale_factor: got 0 of them, expected exactly one"),
        ({"size": 4, "scale_factor": 2}, "size and scale_factor: got 2 of them"),
        ({"size": 4, "mode": "cubic"}, "mode: got 'cubic', expected one of"),
        ({"size": 4, "mode": "trilinear"}, 'input: got rank 4, expected 5 for "trilinear"'),
        ({"size": 4, "align_corners": True}, "align_corners: got True, expected None"),
        ({"size": (4, 4, 4)}, "size: got 3 entries, expected 2"),
        ({"size": torch.ones(3, dtype=torch.int64)}, "size: got a tensor of shape (3,)"),
        ({"size": 4, "antialias": True}, "antialias: got True"),
        ({"size": 4, "recompute_scale_factor": True}, "recompute_scale_factor: got True"),
        ({"size": 0}, "interpolate: size: got 0 on axis 2, expected at least 1"),
        (
            {"scale_factor": -1.0},
            "interpolate: scale_factor: got -1 on axis 2, expected a finite number above 0",
        ),
        ({"scale_factor": float("inf")}, "interpolate: scale_factor: got inf"),
        ({"scale_factor": torch.tensor(float("nan"))}, "interpolate: scale_factor: got nan"),
        ({"scale_factor": torch.tensor(2 + 1j)}, "scale_factor: got a tensor of torch.complex64"),
        ({"scale_factor": torch.tensor([True, True])}, "scale_factor: got a tensor of torch.bool"),
    ],
)
def test_wrong_arguments_are_refused(options: dict[str, Any], text: str) -> None:
    with pytest.raises((ValueError, RuntimeError, TypeError)) as info:
        myops.interpolate(X8, **options)
    assert text in str(info.value)


LENGTH = "interpolate: scale_factor: got an output length of "


@pytest.mark.parametrize("by_sizes", [{"mode": "area"}, {"recompute_scale_factor": True}], ids=str)
@pytest.mark.parametrize(
    ("factor", "number", "tensor"),
    [
        (math.nan, "got nan, expected a finite number above 0", "0 on axis 2, expected at least 1"),
        (math.inf, "got inf, expected a finite", "2199023255552 on axis 2, expected at most 2^40"),
        (-1.0, "got -1.0, expected a finite", "0 on axis 2, expected at least 1"),
        (0.0, "got 0.0, expected a finite", "0 on axis 2, expected at least 1"),
        (0.01, LENGTH + "0 on axis 2", "0 on axis 2, expected at least 1"),
        (1e300, LENGTH + "2199023255552 on", "2199023255552 on axis 2, expected at most 2^40"),
    ],
)
def test_factors_that_give_no_length_are_refused(
    by_sizes: dict[str, Any], factor: float, number: str, tensor: str
) -> None:
    """The text names the factor, also where the op gets sizes that were computed from it."""
    tensors = torch.tensor([factor, 1.0], dtype=torch.float64)
    for given, text in ((factor, number), ((factor, 1), number), (tensors, LENGTH + tensor)):
        with pytest.raises(RuntimeError) as info:
            myops.interpolate(X8, scale_factor=given, **by_sizes)
        assert text in str(info.value)
        assert str(info.value).startswith("interpolate: scale_factor: ")


def test_other_errors_stay() -> None:
    with (
        torch.device("cpu"),
        pytest.raises(TypeError, match=r"NewInterpolate: scales: got float, exp"),
    ):
        myops.NewInterpolate.apply(X8, 2.0)  # type: ignore[arg-type]
    with pytest.raises(RuntimeError, match=r"^resize: scales: got 0 on axis 0"):
        myops.resize(X8, [0.0, 1.0, 1.0, 1.0])
    with pytest.raises(TypeError, match=r"^resize: scales: got 1000.*, expected numbers that a fl"):
        myops.resize(X8, [10**400, 1, 1, 1])
