"""How the opset matrix is shown, the command, and the committed page."""

from __future__ import annotations

import html.parser
import importlib.metadata
import io
import json
import math
import random
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
import warm
from rich.console import Console
from torch import nn
from typer.testing import CliRunner

import myops.cli
from myops.onnx.matrix import Case, Cell, Matrix, layout, opset_matrix, report
from myops.onnx.matrix import cases as built_in
from myops.onnx.matrix.cells import CHANGED, LOAD_ERROR, LOST, OK, REFUSED, VERDICTS, WARNED, WRONG

DOCS = Path(__file__).parents[2] / "docs"
TORCHSCRIPT = ["torchscript"]
IMAGE = torch.randn(1, 2, 9, 10)


@pytest.fixture(scope="module")
def matrix() -> Matrix:
    evil = "<script>alert(1)</script>|"
    rows = {
        "relu": (torch.relu, IMAGE),
        evil: [Case(nn.Upsample(scale_factor=s, mode="bilinear"), IMAGE, label=f"x{s}")
               for s in (2, 0.6)],
        "exact": (lambda x: F.interpolate(x, scale_factor=2.0, mode="nearest-exact"), IMAGE),
    }  # fmt: skip
    return opset_matrix(rows, [9, 10, 11, 17], TORCHSCRIPT, title="three rows")


def essence(cell: Cell) -> Any:
    sizes = [(item.label, item.verdict, item.reason) for item in cell.others]
    return cell.case, cell.exporter, cell.opset, cell.verdict, cell.reason, cell.written, sizes


def test_json_round_trip_keeps_the_matrix(matrix: Matrix, tmp_path: Path) -> None:
    matrix.cells.append(Cell("relu", "torchscript", 20, WRONG, math.inf, reason="shape"))
    matrix.save(tmp_path / "matrix.json")
    found = json.loads((tmp_path / "matrix.json").read_text())
    again = Matrix.read(tmp_path / "matrix.json")
    matrix.cells.pop()
    # The version of the package; torch.__version__ may have a suffix, as in 2.15.0+cu132.
    assert found["versions"]["torch"] == importlib.metadata.version("torch")
    assert torch.__version__.startswith(found["versions"]["torch"])
    assert again.cells.pop().error == math.inf
    assert list(map(essence, again.cells)) == list(map(essence, matrix.cells))
    (tmp_path / "broken.json").write_text("{}")
    with pytest.raises(ValueError, match="not an opset matrix"):
        Matrix.read(tmp_path / "broken.json")


def test_markdown_has_every_cell(matrix: Matrix) -> None:
    lines = matrix.to_markdown().splitlines()
    start = lines.index("| | 9-10 | 11, 17 |")
    rows = [line.replace("\\|", "").split(" | ") for line in lines[start + 2 : start + 5]]
    assert [len(row) for row in rows] == [3, 3, 3]
    assert rows[0][1:] == ["✓0", "✓0 |"]
    assert rows[2][1:] == ["-", "- |"]
    assert any("| refused | torchscript | 9-11, 17 | exact |" in line for line in lines)


class Page(html.parser.HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.tips: list[str] = []
        self.loads: list[str] = []

    def handle_starttag(self, tag: str, attributes: Any) -> None:
        self.tags.append(tag)
        if tag not in ("meta", "br", "img"):
            self.open.append(tag)
        found = dict(attributes)
        if tag == "td" and "title" in found:
            self.tips.append(found["title"])
        self.loads += [
            found[name] for name in ("src", "href") if not found.get(name, "#").startswith("#")
        ]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_html_is_one_page_with_a_tooltip_for_each_cell(matrix: Matrix) -> None:
    page = Page()
    text = matrix.to_html()
    page.feed(text)
    assert page.open == []
    assert page.loads == []
    assert "script" not in page.tags
    assert "url(" not in text
    assert len(page.tips) == len(matrix.cells) == 12
    assert any("x0.6: " in tip and "might cause results" in tip for tip in page.tips)


@pytest.mark.parametrize(("width", "cells"), [(80, ["✓0", "✗0.5"]), (30, ["✓", "✗"])])
def test_a_narrow_terminal_gets_symbols_alone(width: int, cells: list[str]) -> None:
    case = "a_case_with_a_long_name"
    row = [Cell(case, "dynamo", 18, OK, 0.0), Cell(case, "dynamo", 20, WRONG, 0.5)]
    shown = io.StringIO()
    Console(file=shown, width=width).print(Matrix(row))
    (found,) = [line for line in shown.getvalue().splitlines() if case[:10] in line]
    assert found.split()[1:] == cells


@pytest.mark.parametrize(("encoding", "symbol"), [("utf-8", "✓0"), ("ascii", "+0")])
def test_the_terminal_table_fits_80_columns(matrix: Matrix, encoding: str, symbol: str) -> None:
    raw = io.BytesIO()
    console = Console(file=io.TextIOWrapper(raw, encoding=encoding), width=80)
    console.print(matrix)
    console.print(report.Details(matrix))
    console.file.flush()
    text = raw.getvalue().decode(encoding)
    assert symbol in text
    assert all(len(line.rstrip()) <= 80 for line in text.splitlines())


def test_a_matrix_with_missing_cells_and_every_verdict() -> None:
    cells = [
        Cell("one", "dynamo", 18, OK, 0.0),
        Cell("two", "torchscript", 9, LOST, 0.0, reason="a"),
        Cell("one", "torchscript", 11, REFUSED, reason="b"),
        Cell("two", "dynamo", 12, WRONG, 2.0),
    ]
    cells += [Cell("all", "dynamo", 10 + place, verdict) for place, verdict in enumerate(VERDICTS)]
    made = Matrix(cells)
    assert made.rows("torchscript")["one"] == [None, None, cells[2], *[None] * 6]
    text = io.StringIO()
    made.print(Console(file=text, width=100), details=True)
    assert "node lost  torchscript 9: two" in text.getvalue()
    assert "| one |  |  | - |  |" in made.to_markdown()
    page = made.to_html()
    assert page.count("<td></td>") == sum(row.count(None) for exporter in made.exporters
                                          for row in made.rows(exporter).values())  # fmt: skip
    reasons = [item.verdict for item in layout.reasons(cells)]
    assert reasons == sorted(reasons, key=VERDICTS.index, reverse=True)
    assert set(reasons) == {*VERDICTS} - {OK}
    empty = Matrix([])
    empty.print(Console(file=io.StringIO()))
    assert "0 cells" in empty.to_html()
    assert "0 cells" in empty._repr_html_()


def test_errors_and_opset_ranges_are_shortened() -> None:
    errors = (0.0, 2.4e-6, 0.977, 12.34, 1e30, math.inf, None)
    assert [layout.number(item) for item in errors] == [
        "0", "2e-6", "0.98", "12", "1e+30", "inf", "",
    ]  # fmt: skip
    assert layout.ranges([13, 9, 10, 11]) == "9-11, 13"


# The command


def run(*words: str) -> Any:
    return CliRunner().invoke(myops.cli.app(), ["matrix", *words])


MODEL = """
import torch
from myops.onnx.matrix import Case

def wrong(x):
    return x + (1.0 if torch.onnx.is_in_onnx_export() else 0.0)

cases = {"right": (torch.relu, (torch.ones(3),)), "wrong": Case(wrong, torch.ones(3))}
single = (torch.nn.ReLU(), (torch.ones(3),))

def made():
    return cases

nonsense = 3
"""


@pytest.fixture
def model(tmp_path: Path) -> str:
    (tmp_path / "matrix_model.py").write_text(MODEL)
    return str(tmp_path / "matrix_model.py")


def test_command_writes_html_and_markdown(tmp_path: Path) -> None:
    command = ["-m", "myops", "matrix", "interpolate", "--opsets", "10-11",
               "--exporter", "torchscript", "--case", "bilinear, scale_factor", "--details",
               "-o", str(tmp_path / "page.html"), "-o", str(tmp_path / "page.md")]  # fmt: skip
    done = warm.run(*command)
    assert (done.returncode, done.stderr) == (0, "")
    assert "bilinear, scale_factor" in done.stdout
    assert "might cause results" in done.stdout.replace("\n", " ").replace("    ", "")
    assert "10 in 2020" in (tmp_path / "page.md").read_text()
    assert (tmp_path / "page.html").read_text().startswith("<!doctype html>")


def test_command_accepts_cases_models_and_functions(model: str) -> None:
    for name, rows in (("cases", ["right", "wrong"]), ("single", ["single"]),
                       ("made", ["right", "wrong"])):  # fmt: skip
        done = run(f"{model}:{name}", "--opsets", "17", "--exporter", "torchscript", "--json")
        assert done.exit_code == 0, done.output
        assert [cell["case"] for cell in json.loads(done.stdout)["cells"]] == rows


def test_a_crash_affects_one_cell_only(tmp_path: Path) -> None:
    text = (
        MODEL
        + """
import os

def fatal(x):
    if torch.jit.is_tracing() and torch.onnx.utils.GLOBALS.export_onnx_opset_version == 13:
        os._exit(139)
    return x * 2

crashing = {"fatal": (fatal, (torch.ones(3),)), "calm": (torch.relu, (torch.ones(3),))}
"""
    )
    (tmp_path / "crashing.py").write_text(text)
    done = run(f"{tmp_path / 'crashing.py'}:crashing", "--opsets", "13", "--exporter",
               "torchscript", "--jobs", "2", "--json")  # fmt: skip
    assert done.exit_code == 0, done.output
    cells = json.loads(done.stdout)["cells"]
    assert [(c["case"], c["opset"], c["verdict"]) for c in cells] == [
        ("fatal", 13, LOAD_ERROR), ("calm", 13, OK),
    ]  # fmt: skip
    assert "died" in cells[0]["reason"]


def test_fail_on_selects_the_verdicts(model: str) -> None:
    common = (f"{model}:cases", "--opsets", "17", "--exporter", "torchscript")
    assert run(*common).exit_code == 0
    assert run(*common, "--fail-on", "wrong").exit_code == 1
    assert run(*common, "--fail-on", "any").exit_code == 1
    assert run(*common, "--fail-on", "refused,load").exit_code == 0
    assert run(*common, "--fail-on", "wrong", "--case", "right").exit_code == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("interpolat",), "Did you mean 'interpolate'"),
        (("interpolate", "--case", "bilinaer, size"), "Did you mean 'bilinear, size'"),
        (("interpolate", "--opsets", "20-11"), "lower opset first"),
        (("interpolate", "--opsets", "eleven"), "expected e.g. 17"),
        (("interpolate", "--opsets", "9-99"), "newest opset"),
        (("interpolate", "--exporter", "torchscrip"), "Did you mean 'torchscript'"),
        (("interpolate", "-o", "report.pdf"), "expected .html, .md or .json"),
        (("interpolate", "-o", "no_such_folder/report.md"), "no such folder"),
        (("interpolate", "--fail-on", "wrogn"), "Did you mean 'wrong'"),
        (("no_such_file.py:cases",), "no such file"),
    ],
)
def test_wrong_arguments_of_the_command_are_refused(words: tuple[str, ...], said: str) -> None:
    done = run(*words)
    assert isinstance(done.exception, (ValueError, FileNotFoundError))
    assert said in str(done.exception)


def test_a_target_of_another_kind_is_refused(model: str) -> None:
    assert "expected (model, args)" in str(run(f"{model}:nonsense").exception)


# The committed page


@pytest.fixture(scope="module")
def committed() -> Matrix:
    return Matrix.read(DOCS / "opset_matrix.json")


def test_the_committed_page_is_made_from_the_json(committed: Matrix) -> None:
    assert (DOCS / "opset_matrix.md").read_text(encoding="utf-8") == committed.to_markdown()
    assert committed.cases == list(built_in.interpolate())
    assert committed.exporters == ["torchscript", "dynamo"]


def test_our_rows_are_right_at_every_opset_that_has_a_form(committed: Matrix) -> None:
    ours = [cell for cell in committed.cells if cell.case.startswith("myops ")]
    assert {cell.verdict for cell in ours} == {OK, REFUSED, LOAD_ERROR}
    fixed = [cell for cell in ours if "dynamic" not in cell.case]
    for cell in ours:
        if cell.verdict == LOAD_ERROR:  # no model of such an opset loads
            others = [c for c in committed.cells if c.opset == cell.opset]
            assert OK not in {c.verdict for c in others}, cell
        if cell.verdict == REFUSED:  # the other exporter writes that opset
            assert cell.exporter == "dynamo", cell
            assert committed.cell(cell.case, "torchscript", cell.opset).verdict == OK
    assert sum(cell.verdict == OK for cell in fixed) > 0.8 * len(fixed)


def test_a_sample_of_the_committed_matrix_is_reproduced(committed: Matrix) -> None:
    if committed.versions != report.versions():
        pytest.skip(f"measured with {committed.software()}, not the versions installed here")
    chooser, sample = random.Random(7), []
    kinds = [(WRONG, 2), (WARNED, 2), (CHANGED, 1), (REFUSED, 2), (LOAD_ERROR, 1), (OK, 4)]
    for verdict, count in kinds:
        having = [cell for cell in committed.cells if cell.verdict == verdict]
        sample += chooser.sample(having, count)
    rows = built_in.interpolate()
    for cell in sample:
        again = opset_matrix({cell.case: rows[cell.case]}, [cell.opset], [cell.exporter])
        (found,) = again.cells
        assert (found.verdict, found.written) == (cell.verdict, cell.written), (cell, found)
        if cell.error is not None:
            assert found.error == pytest.approx(cell.error, rel=0.01, abs=2e-5)
