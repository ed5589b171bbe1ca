"""`to_half` of models with sequences and optional values, whose elements stay float32."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from precision_models import run

import myops.onnx
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
