"""A short run of the campaign with a new seed each time; `make fuzz` runs it longer."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import calls_same_bits
import campaign
import pytest
from drawing import Options, WrongError
from torch import Tensor

SECONDS = float(os.environ.get("MYOPS_FUZZ_SECONDS", "12"))
HERE = Path(__file__).parent
OTHERS = [op for op in campaign.OPS if op not in ("deform_conv2d", "same_bits")]


@pytest.mark.slow
@pytest.mark.parametrize("ops", [["deform_conv2d"], ["same_bits"], OTHERS])
def test_random_calls_equal_the_reference(ops: list[str]) -> None:
    command = [sys.executable, str(HERE / "campaign.py"), "--seconds", str(SECONDS), "--ops", *ops]
    process = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    print(process.stdout)
    assert process.returncode == 0, process.stdout
    assert " calls" in process.stdout.splitlines()[-1]


def test_a_finding_can_be_repeated_with_another_option(capsys: pytest.CaptureFixture[str]) -> None:
    """The command that a finding prints reproduces it."""
    for op in campaign.OPS:
        arguments = ["--ops", op, "--case", "5", "--options", json.dumps({"threads": 1})]
        assert campaign.main(arguments) == 0
        assert '"threads": 1' in capsys.readouterr().out


@pytest.mark.parametrize("wrong", ["strided", "one image"])
def test_same_bits_finds_what_depends_on_strides_or_the_batch(
    wrong: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = calls_same_bits.call

    def call(o: Options, tensors: dict[str, Tensor]) -> Tensor:
        x = tensors["x"]
        off = not x.is_contiguous() if wrong == "strided" else x.shape[0] == 1
        return right(o, tensors) + (1 if off else 0)

    monkeypatch.setattr(calls_same_bits, "call", call)
    options = next(
        drawn
        for drawn in map(calls_same_bits.draw, range(1000))
        if drawn["op"] == "deform_conv2d"
        and drawn["batch"] > 1
        and drawn["layouts"]["x"] == "permuted"
        and drawn["dtype"] == "float32"
    )
    with pytest.raises(WrongError, match="in order" if wrong == "strided" else "a part alone"):
        calls_same_bits.check(options)


def test_the_environment_of_a_finding_is_named() -> None:
    _, variables = campaign.ENVIRONMENTS
    command = campaign.repeat("resize", 5, variables)
    assert "MYOPS_CACHED_BYTES=16384 MYOPS_STREAMING_STORES=1 python tests/fuzz" in command
