"""Results in a terminal and as fragments for notebooks: `print` and `_repr_html_` of each kind.

How the fragments look is tested in tests/browser.
"""

from __future__ import annotations

import html.parser
import io
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from rich.console import Console

import myops.onnx
import myops.ort
from myops._explain import Call, Explanation, Step
from myops.onnx.comparison.metrics import difference
from myops.onnx.comparison.result import Report, Value
from myops.onnx.matrix import Cell, Matrix
from myops.ort._doctor.report import DoctorReport as Examined
from myops.ort._doctor.report import Finding

FORGED = "FORGED: all is well"
NASTY = f"n\x1b[31m\n{FORGED}\r\u202e[bold]:x:<script>alert(1)</script>é漢{{{{7*7}}}}"
SHOWN = f"n\\x1b[31m\\n{FORGED}\\r\\u202e[bold]:x:<script>alert(1)</script>é漢{{{{7*7}}}}"


def model(name: Callable[[str], str] = lambda text: text, domain: str = "") -> onnx.ModelProto:
    """x * 2 in float32, after an Identity that can go."""
    info = helper.make_tensor_value_info
    nodes = [
        helper.make_node("Identity", [name("x")], [name("i")]),
        helper.make_node("Mul", [name("i"), name("two")], [name("y")], name("mul"), domain=domain),
    ]
    graph = helper.make_graph(
        nodes, name("g"), [info(name("x"), TensorProto.FLOAT, [name("batch"), 3])],
        [info(name("y"), TensorProto.FLOAT, [name("batch"), 3])],
        [numpy_helper.from_array(np.float32([2]), name("two"))],
    )  # fmt: skip
    imports = [helper.make_opsetid("", 17), *([helper.make_opsetid(domain, 1)] if domain else [])]
    return helper.make_model(graph, opset_imports=imports, ir_version=8, producer_name=name("p"))


def wrong(name: Callable[[str], str]) -> onnx.ModelProto:
    """The same with another factor."""
    found = model(name)
    found.graph.initializer[0].CopyFrom(numpy_helper.from_array(np.float32([3]), name("two")))
    return found


def nasty(text: str) -> str:
    return text + NASTY


def report() -> Report:
    array = np.ones((2, 3), np.float32)
    values = [
        Value(nasty(f"m{place}"), 0, nasty("ReLU"), "output", "", "", nasty("v"), "n", place,
              (2, 3), "float32", (2, 3), "float32", difference(array, array, 1e-4, 1e-4), "order",
              nasty("why"), array, array) for place in range(60)
    ]  # fmt: skip
    return Report(True, values, values[:1], None, [], [nasty("note")], {"torch": "2"})


def matrix() -> Matrix:
    return Matrix([Cell(nasty("row"), "dynamo", opset, "refused", reason=nasty("why"))
                   for opset in (17, 18)], nasty("title"), versions={"torch": NASTY})  # fmt: skip


ONE = np.ones((1, 3), np.float32)


def explained() -> Explanation:
    """A call in which every text is hostile."""
    tensor = {"name": NASTY, "dtype": "float32", "shape": [2], "layout": "contiguous"}
    plan = [Step(NASTY, NASTY, NASTY, 2, 10**6, 0.5)]
    call = Call(nasty("op"), nasty("d"), "torch", nasty("n"), [tensor], [tensor], {NASTY: NASTY},
                "avx2", plan, 1, 2, 10**6, 1.0, NASTY)  # fmt: skip
    return Explanation([call])


def added() -> onnx.ModelProto:
    """A node of ours with a hostile name."""
    info = helper.make_tensor_value_info
    node = helper.make_node("MyAdd", ["x", "x"], ["y"], nasty("add"), domain="myops")
    types = (TensorProto.FLOAT, [3])
    graph = helper.make_graph([node], "g", [info("x", *types)], [info("y", *types)])
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("myops", 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=8)


RESULTS: dict[str, Callable[[], Any]] = {
    "explain": explained,
    "explain, model": lambda: myops.ort.explain(added()),
    "inspect": lambda: myops.onnx.inspect(model(nasty, nasty("d"))),
    "doctor": lambda: myops.ort.doctor(model(nasty), run=True),
    "doctor, errors": lambda: myops.ort.doctor(model(nasty, nasty("d"))),
    "doctor, environment": myops.ort.doctor,
    "simplify": lambda: myops.onnx.simplify(model(nasty)),
    "half": lambda: myops.onnx.to_half(model(nasty), keep=["Mul"], inputs={nasty("x"): ONE}),
    "quantize": lambda: myops.onnx.quantize(model(nasty), data=[{nasty("x"): ONE}]),
    "matrix": matrix,
    "compare": report,
    "compare_files": lambda: myops.onnx.compare_files(model(nasty), wrong(nasty)),
}


@pytest.fixture(scope="module")
def results() -> dict[str, Any]:
    return {name: make() for name, make in RESULTS.items()}


@pytest.mark.parametrize("width", [40, 80, 400])
@pytest.mark.parametrize("name", RESULTS)
def test_results_print_to_a_console(name: str, width: int, results: dict[str, Any]) -> None:
    """Any console of rich: no markup, emoji or control character of a name takes effect."""
    text = io.StringIO()
    assert results[name].print(Console(file=text, width=width, force_terminal=True)) is None
    plain = re.sub(r"\x1b\[[0-9;]*m", "", text.getvalue())
    assert plain.strip()
    assert not {sign for sign in plain if sign != "\n" and not sign.isprintable()}
    assert "\N{CROSS MARK}" not in plain  # what :x: stands for
    if width == 400:
        assert not any(line.startswith(FORGED) for line in plain.splitlines())
        if "environment" not in name and name != "simplify":
            assert SHOWN in plain
    if name != "inspect":  # whose lines are not broken, like those of the command
        assert max(len(line) for line in plain.splitlines()) <= width or width < 400


@pytest.mark.parametrize("name", RESULTS)
def test_results_print_without_a_console(
    name: str, results: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    results[name].print()
    out, errors = capsys.readouterr()
    assert out.strip()
    assert errors == ""
    assert not {sign for sign in out if sign != "\n" and not sign.isprintable()}


class Fragment(html.parser.HTMLParser):
    """Checks that tags are closed in order; collects tags, attributes and text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.text = ""
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attributes: Any) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attributes}
        if tag not in ("img", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += f"{data} " if "style" not in self.open else ""


@pytest.mark.parametrize("name", RESULTS)
def test_html_is_one_element_with_escaped_text(name: str, results: dict[str, Any]) -> None:
    text = results[name]._repr_html_()
    found = Fragment(text)
    assert text.startswith('<div class="myops fragment">')
    assert text.rstrip().endswith("</div>")
    assert not found.tags & {"script", "img", "iframe", "link", "html", "body", "main"}
    assert not {item for item in found.attributes if item.startswith("on") or item == "style"}
    assert "://" not in text.replace("http://www.w3.org", "")
    assert not {sign for sign in text if sign != "\n" and not sign.isprintable()}
    if "environment" not in name and name != "simplify":
        assert SHOWN in found.text


def test_inspect_prints_as_the_command_does(tmp_path: Path) -> None:
    from typer.testing import CliRunner

    from myops.cli import app

    onnx.save(model(), tmp_path / "m.onnx")
    summary = myops.onnx.inspect(tmp_path / "m.onnx")
    for options in ([], ["nodes"], ["modules"], ["nodes", "modules"]):
        text = io.StringIO()
        summary.print(Console(file=text, width=500), **dict.fromkeys(options, True))
        words = ["inspect", str(tmp_path / "m.onnx"), *(f"--{item}" for item in options)]
        assert CliRunner().invoke(app(), words).stdout == text.getvalue()
        assert ("Mul(i, two) -> y" in text.getvalue()) == ("nodes" in options)
        assert ("module     none" in text.getvalue()) == ("modules" in options)
    shown = Fragment(summary._repr_html_()).text
    shown = " ".join(shown.split())
    for fact in ("m.onnx", "float32 [batch, 3]", "Identity", "1, 4 bytes", "ai.onnx 17"):
        assert fact in shown


def test_simplify_shows_the_changes() -> None:
    result = myops.onnx.simplify(model())
    text = io.StringIO()
    result.print(Console(file=text, width=100))
    assert text.getvalue().startswith("2 nodes became 1; largest difference 0\nsize ")
    assert re.search(r"^  Identity +1 -> 0$", text.getvalue(), re.MULTILINE)
    shown = " ".join(Fragment(result._repr_html_()).text.split())
    assert "2 nodes became 1 ; largest difference 0" in shown
    assert "Identity 1 0" in shown
    unchecked = myops.onnx.simplify(model(), check=False)
    assert "numbers not compared" in unchecked._repr_html_()


def test_long_lists_are_cut_in_a_notebook() -> None:
    found = Examined("does not load", "no", [Finding("c", "error", "w", nodes=["n"] * 900)])
    assert "400 more nodes are not shown" in found._repr_html_()
    long = report()
    assert re.search(r"\d+ more values are not shown", long._repr_html_())
    assert long._repr_html_().count("<tr>") < 40
    graph = helper.make_graph([helper.make_node("Relu", ["x"], [f"y{n}"]) for n in range(900)],
                              "g", [], [])  # fmt: skip
    many = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    assert "400 more nodes are not shown" in myops.onnx.inspect(many)._repr_html_()


def test_an_empty_report_of_the_doctor_is_shown() -> None:
    for found in (Examined(), Examined(summary=NASTY)):
        assert "<div" in found._repr_html_()
        found.print(Console(file=io.StringIO()))
