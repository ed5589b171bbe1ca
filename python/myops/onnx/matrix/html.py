"""The opset matrix as one self-contained HTML page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from myops._text import Lines, printable, shown_in_html
from myops.onnx.matrix import layout
from myops.onnx.matrix.cells import EXPORTERS, MEANINGS, Cell

if TYPE_CHECKING:
    from myops.onnx.matrix.report import Matrix

_PAGE = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Opset matrix{% if matrix.title %}: {{ matrix.title }}{% endif %}</title>
<style>
:root { color-scheme: light dark; --line: #8884; }
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 90rem; padding: 0 1rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; margin: .5rem 0 2rem; }
th, td { border: 1px solid var(--line); padding: .15rem .45rem; }
th, td { text-align: center; white-space: nowrap; }
th[scope=row], .why td { text-align: left; }
.why td { white-space: normal; vertical-align: top; }
td { font-variant-numeric: tabular-nums; }
td[tabindex]:hover, td[tabindex]:focus { outline: 2px solid currentColor; outline-offset: -2px; }
.ok { background: #1a7f3722; } .opset-changed, .node-lost { background: #d4a72c55; }
.refused { background: #8883; } .load-error { background: #a371f755; }
.wrong-with-a-warning { background: #f8514966; }
.silently-wrong { background: #cf222e; color: #fff; font-weight: 600; }
.legend span { display: inline-block; min-width: 1.6em; text-align: center; border-radius: .2em; }
.legend { list-style: none; padding: 0; }
.notes { white-space: pre-wrap; max-width: 60rem; }
small { opacity: .75; }
</style>
</head>
<body>
<h1>Opset matrix{% if matrix.title %}: {{ matrix.title }}{% endif %}</h1>
<p>{{ matrix.summary() }}.<br><small>Measured with {{ matrix.software() }}.</small></p>
<ul class="legend">
{%- for verdict, count in matrix.counts().items() if count %}
<li><span class="{{ css(verdict) }}">{{ symbols[verdict] }}</span>
 <b>{{ verdict }}</b> ({{ count }}): {{ meanings[verdict] }}</li>
{%- endfor %}
</ul>
<p>The number is the largest absolute difference from PyTorch over all sizes of the cell. Point at a
cell, or open the list below a table, to see why.</p>
{%- for exporter in matrix.exporters %}
<h2>{{ exporter }}</h2>
<p><code>{{ exporters.get(exporter, exporter) }}</code></p>
<div class="wide"><table>
<thead><tr><th scope="col">opset</th>
{%- for opset in matrix.opsets %}<th scope="col">{{ opset }}</th>{% endfor %}</tr></thead>
<tbody>
{%- for row in matrix.rows(exporter) %}
<tr><th scope="row">{{ row[0].case }}</th>
{%- for cell in row %}<td tabindex="0" class="{{ css(cell.verdict) }}" title="{{ tip(cell) }}">
{{- text(cell) }}</td>{% endfor %}</tr>
{%- endfor %}
</tbody></table></div>
<details><summary>Why cells are not ok</summary>
<table class="why">
<thead><tr><th>verdict</th><th>opsets</th><th>rows</th><th>why</th></tr></thead><tbody>
{%- for item in reasons if item.exporter == exporter %}
<tr><td class="{{ css(item.verdict) }}">{{ item.verdict }}</td><td>{{ item.opsets }}</td>
<td>{{ item.cases | join(", ") }}</td><td>{{ item.reason }}</td></tr>
{%- endfor %}
</tbody></table></details>
{%- endfor %}
{%- if matrix.notes %}
<h2>Notes</h2>
<div class="notes">{{ lines(matrix.notes) }}</div>
{%- endif %}
</body>
</html>
"""


def render(matrix: Matrix) -> str:
    """The page. Everything that comes from models and exporters is escaped."""
    import jinja2

    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, finalize=shown_in_html
    )
    return environment.from_string(_PAGE).render(
        matrix=matrix,
        symbols=layout.SYMBOLS,
        meanings=MEANINGS,
        exporters=EXPORTERS,
        reasons=layout.reasons(matrix.cells),
        css=lambda verdict: verdict.replace(",", "").replace(" ", "-"),
        text=layout.text,
        tip=_tip,
        lines=Lines,
    )


def _tip(cell: Cell) -> Lines:
    lines = [f"{cell.case}, {cell.exporter}, opset {cell.opset}: {cell.verdict}"]
    if cell.error is not None:
        lines.append(f"largest difference {cell.error:.3g} over {cell.sizes} size(s)")
    if cell.reason:
        lines.append(cell.reason)
    for item in cell.others:
        lines.append(f"{item.label or 'one size'}: {item.verdict}" + (
            f" ({item.error:.3g})" if item.error is not None else "") + (
            f", {item.reason}" if item.reason else ""))  # fmt: skip
    return Lines("\n".join(map(printable, lines)))
