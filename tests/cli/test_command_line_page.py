"""The commands behave as docs/command_line.md shows."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from test_commands import COMMANDS, called

import myops.cli

PAGE = (Path(__file__).parents[2] / "docs" / "command_line.md").read_text()


def test_statuses_on_the_page_equal_those_of_the_commands() -> None:
    (row,) = re.findall(r"^\| 1 \|(.*)\|$", PAGE, re.MULTILINE)
    with_verdict = {name for name, module in myops.cli.commands().items()
                    if hasattr(module, "VERDICT")}  # fmt: skip
    assert set(re.findall(r"`(\w+)`", row)) == with_verdict
    assert with_verdict < set(COMMANDS)


def test_examples_of_the_page_behave_as_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (block,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    Path("net.py").write_text(block)
    words = ["net.py:cases", "--exporter", "dynamo", "--opsets", "18", "--fail-on", "wrong,lost"]
    status, out, errors = called("matrix", *words, "--json")
    assert status == 0, errors
    assert [cell["verdict"] for cell in json.loads(out)["cells"]] == ["ok", "ok"]
    Path("net.py").write_text(block.replace("x * factor", "x * float(factor)"))
    words[2] = "torchscript"
    status, out, errors = called("matrix", *words, "--json")
    assert status == 1, errors
