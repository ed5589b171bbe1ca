"""`to_half` of models with sequences and optional values, whose elements stay float32."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from precision_models import run

import myops.onnx
import myops.ort
from myops.onnx.precision.losses import relative_l2

SEQUENCES = {
    "a split that a product reads": """(float[n,8] x) => (float[n,8] y, seq(float[n,4]) s) {
        s = SplitToSequence<axis=1>(x, four)
        a = SequenceAt(s, zero)
        b = SequenceAt(s, one)
        a2 = MatMul(a, w)
        y = Concat<axis=1>(b, a2)
    }""",
    "a loop that appends": """(float[n,8] x) => (float[m,8] y) {
        start = SequenceEmpty()
        s = Loop(three, true, start) <body = b (int64 i, bool c, seq(float[n,8]) before)
                => (bool again, seq(float[n,8]) after) {
            again = Identity(c)
            product = MatMul(x, square)
            after = SequenceInsert(before, product)
        }>
        y = ConcatFromSequence<axis=0>(s)
    }""",
    "a map": """(float[n,8] x) => (float[n,8] y) {
        s = SplitToSequence<axis=1>(x, four)
        m = SequenceMap <body = b (float[n,4] e) => (float[n,4] r) {
            q = MatMul(e, w)
            r = Tanh(q)
        }>(s)
        y = ConcatFromSequence<axis=1>(m)
    }""",
    "an optional value": """(float[n,8] x) => (float[n,8] y) {
        o = Optional(x)
        has = OptionalHasElement(o)
        inner = OptionalGetElement(o)
        y = If(has) <then_branch = t () => (float[n,8] u) { u = MatMul(inner, square) },
                     else_branch = e () => (float[n,8] v) { v = Neg(inner) }>
    }""",
}


@pytest.mark.parametrize("runtime", ["cpu", "any"])
@pytest.mark.parametrize("name", list(SEQUENCES))
def test_elements_of_sequences_stay_float32(name: str, runtime: str) -> None:
    source = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 18]> g {SEQUENCES[name]}')
    random = np.random.default_rng(0)
    for called, array in {
        "four": np.array([4, 4]), "zero": np.array(0), "one": np.array(1), "three": np.array(3),
        "true": np.array(True), "w": random.standard_normal((4, 4)).astype(np.float32),
        "square": random.standard_normal((8, 8)).astype(np.float32),
    }.items():  # fmt: skip
        source.graph.initializer.append(numpy_helper.from_array(array, called))
    x = random.standard_normal((3, 8)).astype(np.float32)
    result = myops.onnx.to_half(source, runtime=runtime, keep_io_types=True, data=[{"x": x}])
    expected, got = run(source, {"x": x})[0], run(result.model, {"x": x})[0]
    assert relative_l2(expected, got) < 0.01
    assert any("sequences" in item.reason for item in result.nodes)


def test_an_input_that_is_a_sequence() -> None:
    """simplify takes a list of arrays; the others say that it cannot be given."""
    source = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["": 17]>
        g (seq(float[n,4]) s, float[n,4] x) => (float[m,4] y) {
            q = Relu(x)
            t = SequenceInsert(s, q)
            y = ConcatFromSequence<axis=0>(t)
        }""")
    x = np.ones((2, 4), np.float32)
    feeds = {"x": x, "s": [x, x]}
    assert myops.onnx.simplify(source, inputs=feeds).difference == 0
    with pytest.raises(ValueError, match="must be given as a list of arrays"):
        myops.onnx.simplify(source)
    calls: list[Callable[[], Any]] = [
        lambda: myops.onnx.to_half(source),
        lambda: myops.onnx.to_half(source, inputs=feeds),
        lambda: myops.onnx.to_half(source, data=[feeds]),
        lambda: myops.onnx.quantize(source, data=[feeds]),
        lambda: myops.onnx.compare_files(source, source, inputs=feeds),
    ]
    for call in calls:
        with pytest.raises(ValueError, match=r"'s' is .*sequence.*`myops extract` cuts"):
            call()
    for given in (None, feeds):
        report = myops.ort.doctor(source, run=True, inputs=given)
        (finding,) = report.findings
        assert (finding.code, report.exit_status) == ("not-run", 0)
        assert "is a sequence" in finding.why
