"""The command `myops compare`, the HTML report, PyOps in the model."""

from __future__ import annotations

import base64
import dataclasses
import html
import io
import json
import math
import os
import re

import numpy as np
import onnx
import pytest
import torch
import warm
from compare_models import Deep, export, node_of, set_attribute
from onnx import TensorProto, helper
from rich.console import Console
from torch import nn

from myops.onnx.comparison import compare, plot
from myops.onnx.comparison.html import render as page_of
from myops.onnx.comparison.metrics import difference
from myops.onnx.comparison.result import Report, Value

NET = """
import torch
from torch import nn


def example():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(1, 3, 3, padding=1), nn.ReLU(), nn.Conv2d(3, 1, 3, padding=1))
    return net, (torch.rand(1, 1, 12, 12),)
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "net.py").write_text(NET)
    namespace: dict = {}
    exec(NET, namespace)
    model, args = namespace["example"]()
    good = export(model, args, "torchscript")
    onnx.save(good, tmp_path / "good.onnx")
    set_attribute(node_of(good, "Conv", 1), "pads", [2, 1, 0, 1])
    onnx.save(good, tmp_path / "bad.onnx")
    return tmp_path


def myops(folder, *words):
    environment = os.environ | {"PYTHONPATH": os.path.abspath("python"), "COLUMNS": "80"}
    return warm.run("-m", "myops", *words, cwd=folder, env=environment)


def test_command_names_the_first_difference(folder):
    run = myops(folder, "compare", "net.py:example", "bad.onnx", "--html", "r.html", "--repro", "x")
    assert run.returncode == 1, run.stderr
    assert "First difference in '2' (Conv2d)" in run.stdout
    assert "Conv '/2/Conv'" in run.stdout
    assert "FAIL" in run.stdout
    assert max(map(len, run.stdout.splitlines())) <= 80
    assert (folder / "x" / "script.py").is_file()
    page = (folder / "r.html").read_text()
    assert "Conv &#39;/2/Conv&#39;" in page
    assert "://" not in re.sub('data:[^"]*', "", page)  # nothing from elsewhere
    assert "myops compare net.py:example bad.onnx --html r.html --repro x</code>" in page


def test_command_passes_where_the_files_agree(folder):
    from typer.testing import CliRunner

    from myops.cli import app

    target = f"{folder / 'net.py'}:example"
    run = CliRunner().invoke(app(), ["compare", target, str(folder / "good.onnx"), "--json"])
    assert run.exit_code == 0, run.output
    data = json.loads(run.stdout)
    assert data["passed"] is True
    assert data["first_mismatch"] is None
    assert data["blame"] is None
    assert {value["path"] for value in data["values"]} == {"", "0", "1", "2"}
    (first,) = [value for value in data["values"] if value["path"] == "0"]
    assert first["shape"] == [1, 3, 12, 12]
    assert set(first["difference"]["quantiles"]) == {"50", "90", "99", "100"}
    exported = CliRunner().invoke(app(), ["compare", target, "--exporter", "torchscript", "--all"])
    assert exported.exit_code == 0, exported.output
    assert "PASS" in exported.output


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["net.py:exmaple", "good.onnx"], "Did you mean 'example'?"),
        (["net.py:example", "god.onnx"], "Did you mean 'good.onnx'"),
        (["net.py:example", "good.onnx", "--exporter", "dynamo"], "expected one of both"),
        (["net.py:example", "net.py"], "no ONNX model"),
    ],
)
def test_wrong_arguments_of_the_command_are_refused(folder, words, text, monkeypatch):
    from typer.testing import CliRunner

    from myops.cli import app

    monkeypatch.chdir(folder)
    run = CliRunner().invoke(app(), ["compare", *words])
    assert text in str(run.exception)
    assert isinstance(run.exception, (ValueError, OSError))


def test_html_has_images_of_both_results_and_their_difference(tmp_path):
    from matplotlib import image

    report = faulty()
    report.write_html(tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    (figure, *_) = re.findall(r'<figure class="pictures">.*?</div></figure>', page, re.DOTALL)
    found = re.findall(
        r'<img (?:class="(\w*)" )?alt="([^"]*)" src="data:image/png;base64,([^"]+)"', figure
    )
    assert [kind for kind, *_ in found] == ["", "", "", "scale"]
    assert [text.split(",")[0].split(" of ")[0] for _, text, _ in found[:3]] == [
        "PyTorch", "ONNX Runtime", "difference",
    ]  # fmt: skip
    sides = [image.imread(io.BytesIO(base64.b64decode(item))) for *_, item in found]
    assert {side.shape for side in sides[:3]} == {(16, 16, 4)}  # a pixel for each element
    value = next(v for v in report.values if v.title in html.unescape(figure))
    gap = np.abs(value.got - value.expected)[0]
    channel = int(re.search(r"image 0 channel (\d+)", figure)[1])
    brightness = sides[2][..., :3].sum(axis=-1)
    assert brightness.argmax() == gap[channel].argmax()


def test_the_plot_marks_the_values_that_differ(tmp_path):
    report = faulty()
    report.write_html(tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    for name, width in (("broad", 720), ("narrow", 350)):
        (drawing,) = re.findall(rf'<svg class="{name}".*?</svg>', page, re.DOTALL)
        ok = [float(x) for x in re.findall(r'class="mark ok" cx="([\d.]+)"', drawing)]
        wrong = re.findall(r'class="mark fail" d="M([\d.]+) ([\d.]+) ', drawing)
        statuses = [value.status for value in report.values]
        assert (len(ok), len(wrong)) == (statuses.count("ok"), statuses.count("fail"))
        (first,) = re.findall(r'class="first" x1="([\d.]+)"', drawing)
        assert max(ok) < float(first) == float(wrong[0][0])
        assert all(0 < x < width for x in ok)
        assert f"{report.values[0].title}: ok, " in drawing  # under the pointer


def faulty():
    torch.manual_seed(3)
    model, args = Deep(4).eval(), (torch.rand(1, 3, 16, 16),)
    proto = export(model, args, "torchscript")
    set_attribute(node_of(proto, "Conv", 2), "pads", [2, 1, 0, 1])
    return compare(model, args, proto)


@pytest.mark.parametrize(
    ("errors", "ticks"),
    [
        ([], []),
        ([0.0], ["0"]),
        ([0.0, 0.0], ["0"]),
        ([math.inf, math.nan, None], ["inf"]),
        ([0.0, 1e-7, 2e-3, math.inf], ["0", "1e-7", "1e-2", "inf"]),
        ([1e-300, 1e300], ["0", "inf"]),
        ([3e-5], ["1e-5", "1e-4"]),
    ],
)
def test_the_plot_shows_errors_of_any_size(errors, ticks):
    found = plot.drawings(report_of(errors))
    assert len(found) == (2 if errors else 0)
    for drawing in found:
        assert {*ticks} <= {text for _, text in drawing.rows}
        assert len({*drawing.rows}) == len(drawing.rows) <= 10
        assert len(drawing.marks) == len(errors)
        for x, y, *_ in drawing.marks:
            assert drawing.left <= x <= drawing.right
            assert drawing.top <= y <= drawing.bottom
        heights = [drawing.bottom - y for _, y, *_ in drawing.marks]
        if None not in errors and not any(map(math.isnan, errors)):
            assert heights == sorted(heights)
    assert ("<svg" in page_of(report_of(errors))) == bool(errors)


def report_of(errors):
    def value(place, error):
        array = np.zeros(2, np.float32)
        gap = None if error is None else dataclasses.replace(
            difference(array, array, 1e-4, 1e-6), relative_rms=error)  # fmt: skip
        return Value(f"m{place}", 0, "ReLU", "output", "", "", f"v{place}", "n", place, (2,),
                     "float32", (2,), "float32", gap, "ok", "", array, array)  # fmt: skip

    values = [value(place, error) for place, error in enumerate(errors)]
    return Report(True, values, [], None, [], [], {"torch": "1"})


def test_names_of_a_model_file_are_escaped(tmp_path):
    class Twice(nn.Module):
        def forward(self, x):
            return x * 3

    evil = "<script>alert(1)</script>[bold]"
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "x"], [evil], name=evil)], "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2])],
        [helper.make_tensor_value_info(evil, TensorProto.FLOAT, [2])],
    )  # fmt: skip
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    report = compare(Twice(), torch.rand(2), proto)
    report.write_html(tmp_path / "r.html")
    assert "<script>alert" not in (tmp_path / "r.html").read_text()
    text = io.StringIO()
    report.print(Console(file=text, width=200))
    assert evil in text.getvalue()
    script = report.write_reproduction(tmp_path / "repro")
    run = warm.run(script)
    assert run.returncode == 1, run.stderr


def test_a_long_report_is_cut_to_the_values_near_the_difference():
    torch.manual_seed(3)
    model, args = Deep(30).eval(), (torch.rand(1, 3, 8, 8),)
    proto = export(model, args, "torchscript")
    set_attribute(node_of(proto, "Conv", 15), "pads", [2, 1, 0, 1])
    report = compare(model, args, proto)
    short, long = io.StringIO(), io.StringIO()
    report.print(Console(file=short, width=100))
    report.print(Console(file=long, width=100), all_values=True)
    assert "more" in short.getvalue()
    assert "layers.15.0" in short.getvalue()
    assert "layers.8.2" not in short.getvalue()
    assert "layers.8.2" in long.getvalue()


def test_a_wrong_pyop_of_onnxruntime_extensions_is_found():
    """A node of ai.onnx.contrib that Python computes, first rightly and then wrongly."""
    import onnxruntime_extensions as extensions

    wrong = []

    @extensions.onnx_op(op_type="CompareCube", inputs=[extensions.PyCustomOpDef.dt_float])
    def cube(x):
        return x**3 + len(wrong)

    class Cube(nn.Module):
        def forward(self, x):
            return x**3

    model = nn.Sequential(nn.Tanh(), Cube(), nn.Tanh())
    args = (torch.rand(2, 3),)
    proto = export(model, args, "torchscript")
    node = node_of(proto, "Pow")
    place = list(proto.graph.node).index(node)
    node.op_type, node.domain = "CompareCube", "ai.onnx.contrib"
    del node.input[1:]
    proto.opset_import.append(helper.make_opsetid("ai.onnx.contrib", 1))
    del proto.graph.value_info[:]
    report = compare(model, args, proto)
    assert report.passed
    assert {value.path for value in report.values} == {"", "0", "1", "2"}
    wrong.append(1)
    mismatch = compare(model, args, proto).first_mismatch
    assert mismatch.path == "1"
    assert mismatch.nodes == [f"ai.onnx.contrib::CompareCube {proto.graph.node[place].name!r}"]
