"""A moment of the campaign with a new seed each time; `make fuzz` gives it longer."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import campaign
import pytest

SECONDS = float(os.environ.get("MYOPS_FUZZ_SECONDS", "12"))
HERE = Path(__file__).parent


@pytest.mark.slow
@pytest.mark.parametrize(
    "ops", [["deform_conv2d"], [op for op in campaign.OPS if op != "deform_conv2d"]]
)
def test_calls_are_right(ops: list[str]) -> None:
    command = [sys.executable, str(HERE / "campaign.py"), "--seconds", str(SECONDS), "--ops", *ops]
    process = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    print(process.stdout)
    assert process.returncode == 0, process.stdout
    assert " calls" in process.stdout.splitlines()[-1]


def test_an_option_of_a_call_can_be_changed(capsys: pytest.CaptureFixture[str]) -> None:
    """What a finding prints repeats it."""
    for op in campaign.OPS:
        arguments = ["--ops", op, "--case", "5", "--options", json.dumps({"threads": 1})]
        assert campaign.main(arguments) == 0
        assert '"threads": 1' in capsys.readouterr().out
