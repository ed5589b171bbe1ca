"""The C++ shape rule where torch traces with symbolic lengths: `define` without `shape=`."""

from __future__ import annotations

import re
from random import Random
from typing import Any

import numpy as np
import pytest
import torch
from torch._subclasses import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv

import myops
from myops import _libraries
from myops._description import OPS, OpInfo
from myops._op_parts import DecidedLength
from myops._shape_rule import infer, infer_decided, symbolic_rule
from myops._torch.text_rule import rule_of


def symbolic(*shapes: tuple[int, ...]) -> list[torch.Tensor]:
    """Tensors whose lengths are unknown to torch: different numbers are different symbols."""
    mode = FakeTensorMode(shape_env=ShapeEnv())
    return [mode.from_tensor(torch.empty(shape)) for shape in shapes]


def test_symbolic_lengths_are_passed_on() -> None:
    a, b = symbolic((5, 7), (7,))
    assert not isinstance(a.shape[0], int)
    (shape,) = symbolic_rule(OPS["my_add"])([a, b], {})
    assert list(map(str, shape)) == list(map(str, a.shape))  # the symbols, no new ones
    x, weight, offset = symbolic((2, 3, 9, 11), (4, 3, 3, 3), (2, 18, 7, 9))
    (shape,) = symbolic_rule(OPS["deform_conv2d"])([x, weight, offset, None, None], {})
    assert [str(length) for length in shape[:2]] == [str(x.shape[0]), str(weight.shape[0])]


@pytest.mark.parametrize(("sizes", "expected"), [([6, 8], [6, 8]), (None, [None, None])])
def test_numbers_in_lists_decide_lengths(sizes: Any, expected: list[Any]) -> None:
    """Sizes give known lengths; scales of unknown lengths give unknown ones."""
    (x,) = symbolic((2, 3, 5, 7))
    given = {"axes": [2, 3], "mode": "linear"}
    scales = None if sizes else [2.0, 2.0]
    (shape,) = symbolic_rule(OPS["resize"])([x, None, scales, sizes], given)
    assert shape[2:] == expected
    assert [str(length) for length in shape[:2]] == [str(length) for length in x.shape[:2]]


def test_symbolic_calls_are_refused_as_eager_calls() -> None:
    a, b = symbolic((5, 7), (7,))
    with pytest.raises(RuntimeError, match="my_add: b: got length 3 on axis 1, expected 1 or 4"):
        symbolic_rule(OPS["my_add"])([torch.ones(2, 4), torch.ones(3)], {})
    with pytest.raises(RuntimeError, match="grad: got rank 1"):
        symbolic_rule(OPS["deform_conv2d_backward"])([b, a, a, a, None], {})


# -- rules as text: followed in Python with symbolic lengths, in C++ with numbers ------------------

RULES = [
    ("... C H W, ... C -> ... C {(H - size) // step + 1} (W * 2 + 1)", [(2, 3, 5, 7), (4, 1, 3)]),
    ("S... N, M 3 -> S... (max(N, M) - min(N, 2)) {-(-M // step)}", [(2, 5, 4), (6, 3)]),
    ("A B, (A * 2) B -> {A % step} {sizes[1]} B 4 size", [(5, 3), (10, 3)]),
    ("..., ... -> ...", [(5, 1, 3), (1, 4, 1)]),
    ("N C, N -> C N", [(5, 3), (5,)]),
]


@pytest.mark.parametrize(("text", "shapes"), RULES)
def test_rules_mean_the_same_in_python_and_cpp(text: str, shapes: list[tuple[int, ...]]) -> None:
    info = text_op(text)
    random = Random(text)
    for _ in range(20):
        given = {"size": random.randint(0, 4), "step": random.randint(1, 4)}
        sizes = [random.randint(0, 9) for _ in range(2)]
        ((_, expected),) = infer(info, shapes, ["float32"] * 2, {**given, "sizes": sizes})
        attributes = {**given, "sizes": sizes}
        tensors = [torch.empty(shape) for shape in shapes]
        (by_python,) = rule_of(info)(tensors, attributes)
        assert by_python == expected
        (unknown,) = rule_of(info)(symbolic(*shapes), attributes)
        hints = [int(length) for length in unknown]  # of the examples
        assert hints == expected


def test_lengths_stay_symbolic() -> None:
    """One compilation, and one exported program, for every length."""
    text_op(RULES[0][0])
    op = torch.ops.text_rules.rule_0
    compiled = torch.compile(lambda x, b: op(x, b, size=3, step=1), dynamic=True, fullgraph=True)
    for rows in (7, 9, 12):
        with torch._dynamo.config.patch(error_on_recompile=rows > 7):
            result = compiled(torch.rand(2, 3, rows, rows + 1), torch.rand(4, 1, 3))
        assert result.shape == (4, 2, 3, rows - 2, 2 * rows + 3)
    torch._dynamo.reset()


def test_list_elements_are_known_where_a_list_is_given() -> None:
    info = text_op("N C, {rows columns} -> N C rows (columns * 2)", values=True)
    (x,) = symbolic((2, 3))
    (shape,) = rule_of(info)([x, [5, 7]], {})
    assert shape[2:] == [5, 14]
    (shape,) = rule_of(info)([x, torch.tensor([5, 7])], {})
    assert shape[2:] == [None, None]


def test_lengths_decided_by_the_kernel() -> None:
    """The bound of a length if it is a number; its name if one is written without a space before
    <=."""
    info = text_op("A 4, A -> K<=A <=(A * 2) <= 7 K<={size} A", name="decided")
    shapes, attributes = [(3, 4), (3,)], {"size": 2, "step": 1, "sizes": [1, 2]}
    expected = [("K", 3), ("", 6), ("", 7), ("K", 2), 3]
    ((_, by_cpp),) = infer_decided(info, shapes, ["float32"] * 2, attributes)
    assert by_cpp == expected
    assert all(isinstance(length, DecidedLength) for length in by_cpp[:4])
    (by_python,) = rule_of(info)([torch.empty(shape) for shape in shapes], attributes)
    assert by_python == expected
    ((_, named),) = infer_decided(info, [("n", 4), ("n",)], ["float32"] * 2, attributes)
    assert named == [("K", None), ("", None), ("", 7), ("K", 2), "n"]
    (traced,) = rule_of(info)(symbolic(*shapes), attributes)
    assert traced[:4] == named[:4]
    ((_, plain),) = infer(info, shapes, ["float32"] * 2, attributes)
    assert plain == [None] * 4 + [3]  # of `infer`, which knows no bounds


def expression(random: Random, depth: int) -> str:
    """A computed length, in the syntax that rules and Python share."""
    if depth == 0:
        return random.choice(["A", "is", "True", "size", "step", "sizes[1]", "0", "1", "7"])
    one, other = (expression(random, depth - 1) for _ in range(2))
    shapes = [
        "({0} {2} {1})", "(-{0})", "min({0}, {1})", "max({0}, {1}, 2)", "({0} // ({1} % 5 + 1))",
        "({0} % (3 - {1} % 3))",
    ]  # fmt: skip
    return random.choice(shapes).format(one, other, random.choice("+-*"))


@pytest.mark.parametrize("number", range(10))
def test_random_expressions_equal_python(number: int) -> None:
    """C++ and the symbolic rule against Python's arithmetic; "is" and "True" are names of
    lengths."""
    random = Random(f"expressions {number}")
    parts = [expression(random, random.randint(1, 4)) for _ in range(8)]
    text = "A is, True -> " + " ".join(f"max({part}, 0)".join("()") for part in parts)
    info = text_op(text, name=f"random_{number}")
    for _ in range(10):
        a, b, c = (random.randint(0, 9) for _ in range(3))
        given = {"size": random.randint(-9, 9), "step": random.randint(-9, 9)}
        sizes = [0, random.randint(-9, 9)]
        names = {**given, "sizes": sizes, "A": a, "is_": b, "True_": c, "min": min, "max": max}
        plain = [part.replace("is", "is_").replace("True", "True_") for part in parts]
        expected = [max(eval(part, {}, names), 0) for part in plain]
        shapes = [(a, b), (c,)]
        ((_, by_cpp),) = infer(info, shapes, ["float32"] * 2, {**given, "sizes": sizes})
        assert by_cpp == expected, text
        (traced,) = rule_of(info)(symbolic(*shapes), {**given, "sizes": sizes})
        assert [int(length) for length in traced] == expected, text


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("2A, B -> B", "expected a space behind the number"),
        ("A, B -> 02", "expected a number without zeros before it"),
        ("A, B -> 1000000000000", "expected a number below 10^12"),
        ("A, <=B -> B", 'has "<=B" in an input'),
        ("A, B -> B<=A", "but B is a length of an input, expected another name"),
        (f"A, B -> ({'-' * 60}A)", "expected at most 50 brackets or signs in each other"),
        (f"A, B -> ({'(' * 60}A{')' * 60})", "expected at most 50 brackets or signs"),
        (f"A, B -> (A{' + 1' * 400})", "a shape rule of 1611 characters, expected at most 1000"),
        ("A, {h w} -> A h", "names the numbers of b, which is not declared with values"),
        ("A, B -> \0A", "expected a function, or a rule such as"),
        ("\u00c9, B -> B", "expected a function, or a rule such as"),
        (" ", "expected a function, or a rule such as"),
    ],
)
def test_wrong_rules_are_refused(text: str, said: str) -> None:
    with pytest.raises((ValueError, RuntimeError), match=re.escape(said)):
        text_op(text, name="refused")
    library = _libraries.find("text_rules")
    assert library is None or "refused" not in library.ops


def test_traced_calls_are_refused_as_eager_calls() -> None:
    """Ranks, numbers and attributes are known where lengths are symbols."""
    text_op(RULES[0][0])
    op = torch.ops.text_rules.rule_0
    mode = FakeTensorMode(shape_env=ShapeEnv())
    for shapes, step in (([(5, 7), (3,)], 1), ([(2, 3, 5, 7), ()], 1), ([(3, 5, 7), (3,)], 0)):
        given = [torch.zeros(shape) for shape in shapes]
        with pytest.raises(RuntimeError) as by_call:
            op(*given, step=step)
        with pytest.raises(RuntimeError) as by_trace, mode:
            op(*(mode.from_tensor(item) for item in given), step=step)
        known = re.sub(r"\d+|\?|, with .*| with .*", "N", str(by_call.value))
        assert re.sub(r"\d+|\?|, with .*| with .*", "N", str(by_trace.value))[:40] == known[:40]


def text_op(text: str, values: bool = False, name: str = "") -> OpInfo:
    """A prototype with this rule; defined once."""
    if not name:
        name = "rule_of_values" if values else f"rule_{[r for r, _ in RULES].index(text)}"
    library = _libraries.find("text_rules")
    if library is None or name not in library.ops:

        def compute(a: Any, b: Any, **attributes: Any) -> Any:
            """Zeros of the shape that the rule says."""
            info = _libraries.find("text_rules").ops[name]  # type: ignore[union-attr]
            dtypes = [str(a.dtype), str(b.dtype)]
            given = [None, b.tolist()] if values else ()
            ((_, shape),) = infer(info, [a.shape, b.shape], dtypes, attributes, given)
            return np.zeros(shape, a.dtype)

        myops.prototype(
            compute,
            name=name,
            domain="text_rules",
            types={"T": ["float32"], "I": ["int64"]},
            inputs=[
                myops.Input("a", "T", "Any."),
                myops.Input("b", "I" if values else "T", "Any.", values=values),
            ],
            outputs=[myops.Output("y", "T", "As the rule says.")],
            attributes=[
                myops.Attribute("size", 2, "A number."),
                myops.Attribute("step", 2, "A number."),
                myops.Attribute("sizes", [1, 2], "Numbers."),
            ],
            shape=text,
        )
        library = _libraries.find("text_rules")
    assert library is not None
    return library.ops[name]
