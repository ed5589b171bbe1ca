"""A short run of the campaign with a new seed each time; `make fuzz` runs it longer."""

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
@pytest.mark.parametrize("ops", [["deform_conv2d"], ["resize", "interpolate", "my_add"]])
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
