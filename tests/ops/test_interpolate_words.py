"""Refusals of `myops.interpolate` name its own arguments, not those of the op Resize."""

from __future__ import annotations

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
