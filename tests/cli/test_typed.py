"""The command line that a page shows, which reproduces the page."""

from __future__ import annotations

import html
import json
import re
import shlex
import subprocess
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from myops.cli import _typed
from myops.onnx.matrix import Matrix

MODEL = """
import torch

cases = {"relu": (torch.relu, (torch.ones(3),)), "exp": (torch.exp, (torch.ones(3),))}
example = (torch.nn.ReLU(), (torch.ones(3),))
"""


def command_of(words: list[str]) -> str:
    """The result of `_typed.command` for the arguments of an invented command."""
    said: list[str] = []

    def show(
        context: typer.Context,
        first: str = typer.Argument("default"),
        rest: list[str] = typer.Argument(None),  # noqa: B008
        number: float = typer.Option(1.0, "--number", "-n"),
        many: list[Path] = typer.Option([], "--many", "-m"),  # noqa: B008
        flag: bool = typer.Option(False, "--flag"),
        either: bool = typer.Option(True, "--either/--neither"),
    ) -> None:
        said.append(_typed.command(context))

    app = typer.Typer()
    app.command("show")(show)
    app.command("other")(lambda: None)
    done = CliRunner().invoke(app, ["show", *words])
    assert done.exit_code == 0, done.output
    return said[0]


@pytest.mark.parametrize(("words", "expected"), [
    ([], "myops show"),
    (["a b", "it's", "é漢"], "myops show 'a b' 'it'\"'\"'s' 'é漢'"),
    (["-n", "2", "x", "-m", "p q", "--many=r"], "myops show x --number 2.0 --many 'p q' --many r"),
    (["--flag", "--neither"], "myops show --flag --neither"),
    (["--either"], "myops show --either"),
    (["--number=-3"], "myops show --number=-3.0"),
    (["--", "-x", "--flag"], "myops show -- -x --flag"),
    (["-", "y"], "myops show - y"),
    (["$HOME", "`ls`", "a;b", "*"], "myops show '$HOME' '`ls`' 'a;b' '*'"),
    (["", "x"], "myops show '' x"),
])  # fmt: skip
def test_arguments_are_quoted_for_a_shell(words: list[str], expected: str) -> None:
    assert command_of(words) == expected
    # Run again, it gives the same command.
    assert command_of(shlex.split(expected)[2:]) == expected


@pytest.mark.parametrize("word", [
    "a\nb", "tab\there", "\x1b[31mred", "'\\\n", "\u202eé\n漢", "\x7f", "\U000e0041", "\ue000$'x'",
])  # fmt: skip
def test_invisible_characters_are_quoted(word: str) -> None:
    text = command_of([word])
    assert text.isprintable()
    script = f'set -- {text.removeprefix("myops show ")}; printf %s "$1"'
    done = subprocess.run(["bash", "-c", script], capture_output=True, check=True)
    assert done.stdout.decode() == word


@pytest.mark.parametrize("output", ["page.html", "my page.html", "é'漢.html"])
def test_the_command_on_a_page_reproduces_it(
    output: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.py").write_text(MODEL)
    words = ["matrix", "net.py:cases", "--opsets", "17", "--case", "re*", "-o", output,
             "--exporter", "torchscript", "--jobs", "1", "-o", "m.json", "-o", "m.md"]  # fmt: skip
    first = run(words)
    page = (tmp_path / output).read_text("utf-8")
    data = json.loads((tmp_path / "m.json").read_text())
    (shown,) = re.findall(r"<h2 id=\"remake\">.*?<code>(.*?)</code>", page, re.DOTALL)
    command = html.unescape(shown)
    assert command == data["command"] == Matrix.read(tmp_path / "m.json").command
    assert f"\n{command}\n" in (tmp_path / "m.md").read_text()
    (tmp_path / output).unlink()
    assert run(shlex.split(command)[1:]) == first
    assert (tmp_path / output).read_text("utf-8") == page


def test_the_command_of_a_comparison(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.py").write_text(MODEL)
    run(["compare", "--html", "r.html", "net.py:example", "--exporter", "torchscript"])
    page = (tmp_path / "r.html").read_text()
    command = "myops compare net.py:example --exporter torchscript --html r.html"
    assert f"<code>{command}</code>" in page
    (tmp_path / "r.html").unlink()
    run(shlex.split(command)[1:])
    assert (tmp_path / "r.html").read_text() == page


def test_a_page_without_a_command_shows_none() -> None:
    from myops.onnx.matrix import Cell

    made = Matrix([Cell("row", "dynamo", 18, "ok", 0.0)])
    assert "again" not in made.to_html() + made.to_markdown()
    made.command = "myops matrix 'a ``` b'"
    assert "````\nmyops matrix 'a ``` b'\n````" in made.to_markdown()


def run(words: list[str]) -> str:
    from myops.cli import app

    done = CliRunner().invoke(app(), words)
    assert done.exit_code == 0, done.output
    return done.stdout
