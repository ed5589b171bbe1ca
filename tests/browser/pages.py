"""Pages and results for the tests in the browser: ordinary ones, and ones that are difficult to
show."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path

import numpy as np

from myops.onnx.comparison.metrics import difference
from myops.onnx.comparison.result import FirstMismatch, Report, Value
from myops.onnx.matrix import Cell, Matrix
from myops.onnx.matrix.cells import (
    CHANGED,
    LOAD_ERROR,
    LOST,
    OK,
    REFUSED,
    VERDICTS,
    WARNED,
    WRONG,
    Outcome,
)

DOCS = Path(__file__).parents[2] / "docs"
EVIL = (
    "<script>window.hacked = 1</script><img src=x onerror='window.hacked = 2'>"
    '" onmouseover="window.hacked = 3" \' \x1b[31m\n\u202e{{ 7 * 7 }}'
)
LONG = "wordwithoutanyend" * 300
NOTES = f"""\
# Heading

A *paragraph* with `code`, **{LONG[:200]}**, and [a link](https://example.org/?q=1&r="2").

| left | {"wide column " * 20} |
|:--|--:|
| a | {"cell " * 60} |

- list with <b>HTML</b>
- <script>window.hacked = 4</script>
- [bad](javascript:window.hacked=5) [worse](data:text/html,x) ![picture](https://example.org/a.png)

```
{"a line of code that is long " * 20}
```

<iframe src="https://example.org"></iframe>
"""


def value(place: int, name: str, error: float | None, status: str, side: int = 16) -> Value:
    """A value of the network whose error is as large as stated."""
    rng = np.random.default_rng(place)
    expected = rng.standard_normal((1, 3, side, side)).astype(np.float32)
    got = expected.copy()
    if error:
        got[0, 0, place % side] += np.float32(min(error, 1e30))
    found = None if error is None else difference(expected, got, 1e-4, 1e-6)
    if found is not None and error is not None and not math.isfinite(error):
        found = dataclasses.replace(found, relative_rms=error, max_abs=error)
    return Value(name, 0, "Conv2d", "output", "", "", f"/{name}/Conv_output_0", f"Conv '/{name}'",
                 place, expected.shape, "float32", got.shape, "float32", found, status,
                 "768 of 768 elements" if status == "fail" else "", expected, got)  # fmt: skip


def failing() -> Report:
    values = [value(place, f"layers.{place}.conv", 1e-6 * (1 + place), "ok") for place in range(40)]
    values += [value(40, "layers.40.conv", 0.3, "order"), value(41, "a.b", 0.2, "absorbed")]
    values += [value(place, f"layers.{place}.conv", 0.5, "fail") for place in range(42, 60)]
    first = FirstMismatch("node", "layers.42.conv", 0, "Conv2d", values[42].name,
                  ["Conv '/layers.42'"], ["Conv '/layers.42'"],
                  ["attribute pads is [2, 1, 0, 1]"], inputs=[values[39].name])  # fmt: skip
    return Report(False, values, values[-1:], first, [], ["A note."], {"torch": "2", "onnx": "1"},
                  "myops compare net.py:example net.onnx --html report.html")  # fmt: skip


def hostile_report() -> Report:
    found = failing()
    for item in found.values:
        item.path, item.name, item.kind = EVIL + LONG, EVIL + LONG[:400], EVIL
        item.detail, item.onnx_dtype = EVIL + LONG, EVIL
    assert found.first_mismatch is not None
    found.first_mismatch.path = found.first_mismatch.kind = found.first_mismatch.fused = EVIL + LONG
    found.first_mismatch.value = found.values[42].name
    found.first_mismatch.nodes = [EVIL + LONG] * 3
    found.first_mismatch.evidence = [EVIL, LONG]
    found.first_mismatch.reproduction = EVIL + LONG
    found.notes = [EVIL + LONG]
    found.unmatched = [UnmatchedCall(EVIL + LONG, 0, EVIL, LONG)]
    found.versions = {EVIL: EVIL}
    found.command = f"myops compare {EVIL} {LONG}"
    return found


@dataclasses.dataclass
class UnmatchedCall:
    path: str
    call: int
    kind: str
    reason: str


def odd_report() -> Report:
    """Errors of 0, infinite ones, other shapes, a single huge one."""
    errors = [0.0, None, math.inf, math.nan, 1e-38, 3e20]
    values = [value(place, f"m{place}", error, "ok" if not error else "fail")
              for place, error in enumerate(errors)]  # fmt: skip
    return Report(False, values, [], None, [], [], {})


def empty_report() -> Report:
    return Report(True, [], [], None, [], [], {})


def committed_matrix() -> Matrix:
    return Matrix.read(DOCS / "opset_matrix.json")


def hostile_matrix() -> Matrix:
    cells = []
    for number, verdict in enumerate([*VERDICTS, WRONG]):
        case = f"{EVIL}{number}{LONG if number else ''}"
        for opset in range(7, 47):
            error = {OK: 1e-6, WARNED: 0.25, WRONG: math.inf}.get(verdict)
            written = 18 if verdict == CHANGED else None
            reason = "" if verdict == OK else f"{EVIL} {LONG} {opset if number == 4 else ''}"
            others = (Outcome(verdict, error, reason=EVIL, label=EVIL),) * (number == 6)
            cells.append(Cell(case, EVIL, opset, verdict, error, written, reason, 2, others))
    return Matrix(cells, EVIL + LONG, versions={EVIL: LONG}, notes=NOTES, command=EVIL + LONG)


def ragged_matrix() -> Matrix:
    """Rows of which not every exporter and opset was measured."""
    cells = [Cell("one", "dynamo", 18, OK, 0.0), Cell("two", "torchscript", 9, LOST, 0.0,
             reason="the node is gone"), Cell("one", "torchscript", 11, REFUSED, reason="no"),
             Cell("two", "dynamo", 12, LOAD_ERROR, reason="x")]  # fmt: skip
    return Matrix(cells, versions={})


REPORTS = {"failing": failing, "hostile report": hostile_report, "odd report": odd_report,
           "empty report": empty_report}  # fmt: skip
MATRICES = {"committed matrix": committed_matrix, "hostile matrix": hostile_matrix,
            "ragged matrix": ragged_matrix}  # fmt: skip
