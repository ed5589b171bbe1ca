"""The report as one self-contained HTML file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from myops._text import shown_in_html
from myops.onnx.comparison import pictures
from myops.onnx.comparison.metrics import QUANTILES
from myops.onnx.comparison.terminal import CAUSES

_TEMPLATE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>myops compare: {{ "pass" if report.passed else "fail" }}</title>
<style>
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 72rem; padding: 0 1rem;
       color: #222; }
h1 .pass { color: #2a7f4f } h1 .fail { color: #c0392b }
table { border-collapse: collapse; width: 100%; font-size: 13px }
th, td { text-align: left; padding: .25rem .5rem; border-bottom: 1px solid #e4e4e4;
         overflow-wrap: anywhere }
th { position: sticky; top: 0; background: #fff }
td.number { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums }
tr.fail td { background: #fdecea } tr.order td, tr.absorbed td { background: #fff8e1 }
.blame { border-left: 4px solid #c0392b; padding: .2rem 1rem; background: #fdf6f5 }
code { font-size: 13px; overflow-wrap: anywhere } img { max-width: 100%; height: auto }
figure { margin: 1rem 0 } .dim { color: #777; font-size: 13px }
</style>
</head>
<body>
<h1>{{ words.sides[0] }} and {{ words.sides[1] }}:
{% if report.passed %}<span class="pass">pass</span>{% else %}<span class="fail">fail</span>
{% endif %}</h1>
{% for blame in blames %}
<div class="blame">
<p><b>{{ "First difference" if loop.first else "The outputs begin to differ" }}</b>
in {{ blame.title }}: {{ words.causes[blame.cause] }}.</p>
{% if blame.nodes %}<p>{{ "Node" if blame.nodes|length == 1 else "Nodes" }}:
{% for node in blame.nodes %}<code>{{ node }}</code>{{ "" if loop.last else ", " }}{% endfor %}</p>
{% endif %}
<p>Value: <code>{{ blame.value }}</code></p>
<ul>{% for text in blame.evidence %}<li>{{ text }}</li>{% endfor %}</ul>
{% if blame.reproduction %}<p>Reproduction: <code>{{ blame.reproduction }}/script.py</code></p>
{% endif %}
</div>
{% endfor %}
{% for note in report.notes %}<p>{{ note }}</p>{% endfor %}
<h2>Error along the depth of the network</h2>
<img alt="error of each value along the depth of the network" src="{{ plot }}">
{% if images %}<h2>Pictures</h2>{% endif %}
{% for title, name, status, uri in images %}
<figure><figcaption>{{ title }} <code>{{ name }}</code> {{ status }}</figcaption>
<img alt="{{ words.short[0] }}, {{ words.short[1] }} and the difference of {{ title }}"
src="{{ uri }}"></figure>
{% endfor %}
{% for heading, rows in tables %}
<h2>{{ heading }}</h2>
<table><thead><tr><th>{{ words.heading }}</th><th>value in the graph</th>
<th>{{ words.short[0] }}</th><th>{{ words.short[1] }}</th>
<th>max abs</th><th>max rel</th><th>cosine</th>
{% for level in quantiles %}<th>{{ level }} %</th>{% endfor %}<th></th></tr></thead><tbody>
{% for value in rows %}<tr class="{{ value.status }}">
<td>{{ value.title }} <span class="dim">{{ value.kind }}</span></td>
<td><code>{{ value.name }}</code></td>
<td>{{ value.dtype }}{{ value.shape|list }}</td>
<td>{{ value.onnx_dtype }}{{ value.onnx_shape|list }}</td>
{% with d = value.difference %}{% if d %}
<td class="number">{{ number(d.max_abs) }}</td><td class="number">{{ number(d.max_rel) }}</td>
<td class="number">{{ "-" if d.cosine is none else "%.6f"|format(d.cosine) }}</td>
{% for level in quantiles %}<td class="number">{{ number(d.quantiles[level]) }}</td>{% endfor %}
{% else %}{% for _ in range(3 + quantiles|length) %}<td>-</td>{% endfor %}{% endif %}{% endwith %}
<td>{{ value.status }}{% if value.detail %}: {{ value.detail }}{% endif %}</td></tr>
{% endfor %}</tbody></table>
{% endfor %}
{% if report.unmatched %}<h2>Not compared</h2>
<table><tbody>{% for item in report.unmatched %}
<tr><td>{{ item.path }}</td><td>{{ item.kind }}</td><td>{{ item.reason }}</td></tr>
{% endfor %}</tbody></table>{% endif %}
<p class="dim">An element agrees when |{{ words.letters[1] }} - {{ words.letters[0] }}| &le;
atol + rtol |{{ words.letters[0] }}|. "order": only a choice among equals.
"absorbed": it differs, but everything computed from it agrees.
{% for name, version in report.versions.items() %}{{ name }} {{ version }}
{{- "" if loop.last else ", " }}
{% endfor %}</p>
</body>
</html>
"""


@dataclass(frozen=True)
class Words:
    """What a page calls things.

    sides: What was compared, as the title says it. short: As columns say it. letters: As formulas
        do.
    heading: Over the titles of values.
    outputs: Over the table of the outputs of the untouched model.
    causes: What may be the cause of a difference.
    """

    sides: tuple[str, str] = ("PyTorch", "ONNX Runtime")
    short: tuple[str, str] = ("PyTorch", "ONNX Runtime")
    letters: tuple[str, str] = ("torch", "onnx")
    heading: str = "module"
    outputs: str = "Outputs of the model as ONNX Runtime optimises it"
    causes: Mapping[str, str] = field(default_factory=lambda: CAUSES)


def render(report: Any, words: Words | None = None) -> str:
    """The page; all that comes from the model is escaped.

    Args:
        report: A `Report`, or one with the same attributes.
        words: Default: those of a comparison with PyTorch.
    """
    import jinja2

    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, finalize=shown_in_html
    )
    words = words or Words()
    images = [
        (
            value.title,
            value.name,
            value.status,
            pictures.as_uri(pictures.pictures(value, words.short)),
        )
        for value in pictures.chosen(report)
    ]
    blames = [report.blame, getattr(report, "begins", None)]
    if blames[0] is None or (blames[1] is not None and blames[1].value == blames[0].value):
        del blames[1]
    tables: list[Any] = [("Values", report.values)]
    if report.outputs:
        tables.append((words.outputs, report.outputs))
    return environment.from_string(_TEMPLATE).render(
        report=report,
        words=words,
        blames=[blame for blame in blames if blame is not None],
        quantiles=QUANTILES,
        plot=pictures.as_uri(pictures.depth_plot(report)),
        images=images,
        tables=tables,
        number=lambda number: f"{number:.2e}",
    )
