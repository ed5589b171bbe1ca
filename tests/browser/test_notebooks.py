"""Results in a notebook: fragments in the page of another program."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import looking
import onnx
import pages
import pytest
from onnx import TensorProto, helper, numpy_helper

import myops.onnx
import myops.ort

Show = Callable[..., Any]

# What notebooks do to tables and text in outputs.
HOST = """<!doctype html><html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width"><style>
body { background: BACK; color: INK; font: 13px/1.3 serif; margin: 8px; min-height: 3000px; }
.output table { border-collapse: collapse; margin: 0 auto; table-layout: fixed; font-size: 9px; }
.output td, .output th, .output tr { text-align: right; vertical-align: middle; padding: .5em;
  border: none; white-space: pre; max-width: none; }
.output thead { border-bottom: 1px solid red; vertical-align: bottom; }
.output tbody tr:nth-child(odd) { background: #eeeeee; }
.output tbody tr:hover { background: #ddeeff; }
.output p, .output ul { margin: 0; padding: 0; }
.output code { background: #777777; color: #888888; }
.output h2 { font-size: 50px; }
</style></head><body ATTRIBUTES><h1>h</h1><p class="page">p <code>c</code> <a href="#x">a</a></p>
<table><tbody><tr><th>h</th><td class="ok number">d</td></tr></tbody></table>
<div class="finding error">f</div><div class="output">FRAGMENT</div></body></html>"""


def model() -> onnx.ModelProto:
    """A model of which all names are hostile."""
    names = {name: f"{name}{pages.EVIL}" for name in ("x", "y", "t")}
    info = helper.make_tensor_value_info
    nodes = [helper.make_node("Mul", [names["x"], names["t"]], [names["y"]], name=pages.LONG)]
    graph = helper.make_graph(
        nodes, pages.EVIL, [info(names["x"], TensorProto.FLOAT, [pages.EVIL, 2])],
        [info(names["y"], TensorProto.FLOAT, [pages.EVIL, 2])],
        [numpy_helper.from_array(pages.np.float32([2]), names["t"])],
    )  # fmt: skip
    found = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    found.metadata_props.add(key=pages.EVIL, value=pages.LONG)
    return found


def tripled() -> onnx.ModelProto:
    """Another factor."""
    found = model()
    factor = found.graph.initializer[0]
    factor.CopyFrom(numpy_helper.from_array(pages.np.float32([3]), factor.name))
    return found


def custom() -> onnx.ModelProto:
    found = model()
    found.graph.node[0].domain = found.graph.node[0].op_type = pages.EVIL
    found.opset_import.add(domain=pages.EVIL, version=1)
    return found


RESULTS: dict[str, Callable[[], Any]] = {
    "inspect": lambda: myops.onnx.inspect(custom()),
    "inspect, nothing": lambda: myops.onnx.inspect(helper.make_model(
        helper.make_graph([], "", [], []), opset_imports=[helper.make_opsetid("", 17)])),
    "doctor": lambda: myops.ort.doctor(model(), run=True),
    "doctor, errors": lambda: myops.ort.doctor(custom()),
    "doctor, environment": lambda: myops.ort.doctor(),
    "simplify": lambda: myops.onnx.simplify(model()),
    "matrix": pages.hostile_matrix,
    "matrix, committed": pages.committed_matrix,
    "matrix, ragged": pages.ragged_matrix,
    "compare": pages.failing,
    "compare, hostile": pages.hostile_report,
    "compare_files": lambda: myops.onnx.compare_files(model(), tripled()),
    "compare, nothing": pages.empty_report,
}  # fmt: skip


@pytest.fixture(scope="module")
def fragments() -> dict[str, str]:
    return {name: make()._repr_html_() for name, make in RESULTS.items()}


def notebook(
    path: Path, fragment: str, attributes: str = "", back: str = "#fff", ink: str = "#000"
) -> Path:
    page = HOST.replace("FRAGMENT", fragment).replace("ATTRIBUTES", attributes)
    path.write_text(page.replace("BACK", back).replace("INK", ink), "utf-8")
    return path


@pytest.mark.parametrize("width", [390, 1400])
@pytest.mark.parametrize("name", RESULTS)
def test_fragments_fit_into_the_notebook(
    name: str, width: int, fragments: dict[str, str], show: Show, tmp_path: Path
) -> None:
    driver = show(notebook(tmp_path / "n.html", fragments[name]), width)
    assert looking.strays(driver) == []
    whole, shown = looking.widths(driver)
    assert whole <= shown
    assert driver.execute_script("return window.hacked ?? null") is None
    for table in looking.heads(driver):
        assert table["row"] == table["column"] == 0, table
    inside = "return document.querySelector('.output').innerText"
    assert driver.execute_script(inside).strip()


@pytest.mark.parametrize(("theme", "scheme"), [
    ("", "light"), ("", "dark"),
    ('data-jp-theme-light="true"', "dark"), ('data-jp-theme-light="false"', "light"),
    ('class="vscode-light"', "dark"), ('class="vscode-dark"', "light"),
])  # fmt: skip
@pytest.mark.parametrize("name", RESULTS)
def test_fragments_are_legible_in_every_theme(
    name: str, theme: str, scheme: str, fragments: dict[str, str], show: Show, tmp_path: Path
) -> None:
    dark = "dark" in theme or '"false"' in theme or (not theme and scheme == "dark")
    colours = ("#111111", "#eeeeee") if dark else ("#ffffff", "#111111")
    driver = show(notebook(tmp_path / "n.html", fragments[name], theme, *colours), 1000, scheme)
    found = looking.contrasts(driver)
    assert found[0][0] >= 4.5, found[:5]
    script = "return getComputedStyle(document.querySelector('.myops')).backgroundColor"
    assert driver.execute_script(script) == ("rgb(22, 24, 28)" if dark else "rgb(255, 255, 255)")


# Everything of the style of the host's own elements.
_STYLES = """
const own = 'html, body, body > :not(.output), body > :not(.output) *';
const depends = /block-size|height|origin/;  // on how long the page is
return Array.from(document.querySelectorAll(own)).flatMap(item => {
  const style = getComputedStyle(item);
  return Array.from(style).filter(name => !depends.test(name)).map(
    name => [item.tagName, name, style[name]].join(' '));
});
"""


@pytest.mark.parametrize("name", RESULTS)
def test_fragments_do_not_change_the_notebook(
    name: str, fragments: dict[str, str], show: Show, tmp_path: Path
) -> None:
    without = show(notebook(tmp_path / "a.html", ""), 800).execute_script(_STYLES)
    driver = show(notebook(tmp_path / "b.html", fragments[name]), 800)
    assert driver.execute_script(_STYLES) == without
    script = """
      const all = rules => Array.from(rules).flatMap(r => r.selectorText ? [r.selectorText]
        : all(r.cssRules));
      return all(document.querySelector('.output style').sheet.cssRules);
    """
    selectors = [
        part.strip() for found in driver.execute_script(script) for part in found.split(",")
    ]
    assert len(selectors) > 60
    assert [part for part in selectors if ".myops" not in part] == []


def test_the_notebook_does_not_change_fragments(
    fragments: dict[str, str], show: Show, tmp_path: Path
) -> None:
    driver = show(notebook(tmp_path / "n.html", fragments["compare"]), 1000)
    script = """
      const cell = document.querySelector('.output tbody td'), style = getComputedStyle(cell);
      const row = getComputedStyle(document.querySelector('.output tbody th'));
      return [style.textAlign, style.fontSize, style.whiteSpace, style.verticalAlign,
              style.backgroundColor, row.textAlign, row.position,
              getComputedStyle(document.querySelector('.output h2')).fontSize];
    """
    assert driver.execute_script(script) == [
        "left", "13px", "nowrap", "top", "rgb(230, 244, 234)", "left", "sticky", "16px",
    ]  # fmt: skip


def test_two_matrices_in_one_notebook_keep_their_anchors(
    fragments: dict[str, str], show: Show, tmp_path: Path
) -> None:
    both = fragments["matrix"] + fragments["matrix, ragged"]
    script = """
      const ids = Array.from(document.querySelectorAll('[id]')).map(item => item.id);
      const links = Array.from(document.querySelectorAll('.myops td a')).map(a => a.hash.slice(1));
      return [ids.length, new Set(ids).size, links.filter(id => !ids.includes(id)).length];
    """
    count, distinct, broken = show(notebook(tmp_path / "n.html", both)).execute_script(script)
    assert count == distinct > 3
    assert broken == 0
