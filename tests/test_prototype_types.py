"""Arguments of the wrong type where an op is described: the errors are ours, not those of pybind11
or of Python, and name the op, the argument and what was expected."""

from __future__ import annotations

import decimal
import fractions
import functools
import itertools
from typing import Any

import numpy as np
import pytest
import torch

import myops

_numbers = itertools.count()
WRONG = {
    "none": None, "text": "text", "bytes": b"x", "huge": 10**400, "nan": float("nan"),
    "complex": 1j, "decimal": decimal.Decimal("2.5"), "object": object(), "dict": {"a": 1},
    "list": [[1]], "texts": [None], "array": np.array(["a"]), "tensor": torch.ones(2),
    "sparse": torch.eye(2).to_sparse(), "class": int, "fraction": fractions.Fraction(1, 3),
}  # fmt: skip
GIVEN: dict[str, Any] = {
    "function": lambda x, **attributes: x,
    "domain": "wrong_types",
    "types": {"T": ["float32"]},
    "shape": "S... -> S...",
    "namespace": None, "onnx_type": None, "doc": None, "autocast": "", "random": False,
    "save": None, "backward": None, "jvp": None, "vmap": None, "standard": None,
    "quantized": None, "upgrade": None, "since_version": 1,
}  # fmt: skip
PARTS: dict[str, tuple[Any, dict[str, Any]]] = {
    "inputs": (
        myops.Input,
        {"name": "x", "type": "T", "doc": ".", "optional": False, "values": False,
         "access": "contiguous", "variadic": False, "written": False},
    ),
    "outputs": (
        myops.Output,
        {"name": "y", "type": "T", "doc": ".", "may_overwrite": (), "only_if": "",
         "elementwise": False},
    ),
    "attributes": (
        myops.Attribute,
        {"name": "a", "default": 1.0, "doc": ".", "choices": (), "type": "", "required": False,
         "optional": False, "at_least": None, "above": None, "at_most": None, "below": None},
    ),
}  # fmt: skip
CASES = [
    *(("", field) for field in (*GIVEN, *PARTS, "name")),
    *((part, field) for part, (_, fields) in PARTS.items() for field in fields),
]


def _describe(part: str, field: str, value: Any, name: str = "mistaken") -> None:
    given = {**GIVEN, "name": name}
    given |= {item: [make(**fields)] for item, (make, fields) in PARTS.items()}
    if part:
        make, fields = PARTS[part]
        given[part] = [make(**{**fields, field: value})]
    else:
        given[field] = value
    myops.prototype(given.pop("function"), **given)


@pytest.mark.parametrize("kind", WRONG)
@pytest.mark.parametrize(("part", "field"), CASES)
def test_a_description_of_the_wrong_type_is_refused_by_name(
    part: str, field: str, kind: str
) -> None:
    value = WRONG[kind]
    try:
        _describe(part, field, value, f"mistaken_{next(_numbers)}")
    except (ValueError, TypeError, RuntimeError) as error:
        text = str(error)
        assert "got " in text or "is taken by" in text
        assert "expected " in text or "is taken by" in text
        assert "pybind" not in text.lower()
        assert "C++ type" not in text


@pytest.mark.parametrize(
    ("part", "field", "value", "text"),
    [
        ("attributes", "above", "0", "attributes: a: above: got '0', expected a number that a"),
        ("attributes", "below", 10**400, "a: below: got 1000.*, expected a number that a float"),
        ("attributes", "choices", "ab", "a: choices: got 'ab', expected a list of texts or int"),
        ("attributes", "required", "yes", "a: required: got 'yes', expected True or False"),
        ("inputs", "optional", None, "inputs: x: optional: got None, expected True or False"),
        ("inputs", "type", ["T"], r"inputs: x: type: got \['T'\], expected a text"),
        ("outputs", "only_if", None, "outputs: y: only_if: got None, expected a text"),
        ("outputs", "may_overwrite", "x", "y: may_overwrite: got 'x', expected a list of names"),
        ("", "types", ["T"], r"mistaken: types: got \['T'\], expected type parameters with"),
        ("", "inputs", 3, r"mistaken: inputs: got 3, expected a list of myops.Input\(name"),
        ("", "random", "yes", "mistaken: random: got 'yes', expected True or False"),
        ("", "name", 3, "prototype : name: got 3, expected a text"),
        ("", "function", None, "mistaken: function: got None, expected a function"),
    ],
)  # fmt: skip
def test_the_text(part: str, field: str, value: Any, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        _describe(part, field, value)


def test_a_function_without_a_name_needs_one() -> None:
    parts = {name: [make(**fields)] for name, (make, fields) in PARTS.items()}
    given = {**GIVEN, **parts, "domain": "no_name"}
    function = functools.partial(given.pop("function"))
    with pytest.raises(
        ValueError, match=r"prototype: name: got functools.partial.*, expected name"
    ):
        myops.prototype(function, **given)
    named = myops.prototype(function, name="named", **given)
    assert torch.equal(named(torch.ones(2)), torch.ones(2))


RULES: dict[str, tuple[Any, str]] = {
    "shape": (lambda inputs: [inputs[0].shape], r"takes \(inputs, attributes\)"),
    "save": (lambda ctx, x: None, r"takes \(ctx, inputs, attributes, output\)"),
    "backward": (lambda ctx: None, r"takes \(ctx, grad_y\)"),
    "jvp": (lambda ctx, x, y: x, r"takes \(ctx, tangent_x\)"),
    "vmap": (lambda info, dims, inputs: None, r"takes \(op, info, in_dims, inputs, attributes\)"),
    "standard": (lambda g, opset: [], r"takes \(g\)"),
    "quantized": (lambda: {"y": "x"}, r"takes \(attributes\)"),
    "upgrade": (lambda g, *, version: [], r"takes \(g\)"),
}


@pytest.mark.parametrize("kind", RULES)
def test_rules_with_other_arguments_are_refused_where_they_are_given(kind: str) -> None:
    """Also where a package gives them to `define`; there, without touching the op."""
    rule, taken = RULES[kind]
    text = rf"{kind}: got <lambda>\(.*\), expected one that {taken}, by position: "
    with pytest.raises(ValueError, match=rf"prototype mistaken: {text}"):
        _describe("", kind, rule)
    taken = taken.replace("tangent_x", "tangent_a, tangent_b").replace("grad_y", "grad_c")
    if kind == "jvp":
        rule = lambda ctx, a: a  # noqa: E731
    text = rf"{kind}: got <lambda>\(.*\), expected one that {taken}, by position: "
    with pytest.raises(ValueError, match=f"my_add: {text}"):
        myops.op_library("myops").define("my_add", **{kind: rule})


def test_a_rule_that_is_no_function_is_refused_by_define() -> None:
    with pytest.raises(ValueError, match="my_add: standard: got 'Mul', expected a function"):
        myops.op_library("myops").define("my_add", standard="Mul")  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", WRONG)
def test_names_of_the_wrong_type(kind: str) -> None:
    value = WRONG[kind]
    if isinstance(value, str):
        return
    library = myops.op_library("myops")
    new_op: Any = lambda name: myops.new_package("fine_name", op=name)  # noqa: E731
    made: tuple[Any, ...] = (library.info, library.made, myops.new_package, new_op)
    for call in (myops.op_library, myops.package_stub, *made):
        with pytest.raises((ValueError, TypeError), match=r"got |has no "):
            call(value)


@pytest.mark.parametrize("kind", WRONG)
def test_seeds_of_the_wrong_type(kind: str) -> None:
    for name in ("seed", "stream"):
        given = {"seed": 1, "stream": 1, name: WRONG[kind]}
        if kind == "huge":
            myops.Philox(**given)
            continue
        with pytest.raises(TypeError, match=f"(?s)Philox: {name}: got .*, expected an integer"):
            myops.Philox(**given)
