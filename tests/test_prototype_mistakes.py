"""Mistakes in the description, the shape rule and the function of a prototype: each is named with
the op, the argument and what was expected."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import myops
from myops import _numpy_call

_numbers = itertools.count()


def made(function: Callable[..., Any] = lambda x, **_: x * 2, **settings: Any) -> Any:
    given = {
        "name": f"mistaken_{next(_numbers)}",
        "types": {"T": ["float32"]},
        "inputs": [myops.Input("x", "T", ".")],
        "outputs": [myops.Output("y", "T", ".")],
        "shape": "S... -> S...",
    }
    return myops.prototype(function, domain="mistakes", **{**given, **settings})


def _attribute(name: str, default: Any = 1, **settings: Any) -> dict[str, Any]:
    return {"attributes": [myops.Attribute(name, default, ".", **settings)]}


DESCRIPTIONS: dict[str, tuple[dict[str, Any], str]] = {
    "input_keyword": (
        {"inputs": [myops.Input("lambda", "T", ".")]},
        "lambda: got a word that Python or TorchScript reserves, expected another name",
    ),
    "input_self": (
        {"inputs": [myops.Input("self", "T", ".")]},
        "self: got a word that Python or TorchScript reserves, expected another name",
    ),
    "attribute_keyword": (_attribute("class"), "class: got a word that Python or TorchScript res"),
    "attribute_self": (_attribute("self"), "self: got a word that Python or TorchScript reserves"),
    "namespace_keyword": (
        {"namespace": "class"},
        "namespace: got 'class', expected another name than a word of Python",
    ),
    "no_rule": ({"shape": None}, "shape: got None, expected a function, or a rule"),
    "version_0": ({"since_version": 0}, "since_version: got 0, expected a whole number from 1"),
    "version_text": ({"since_version": "1"}, "since_version: got '1', expected a whole number"),
    "version_large": ({"since_version": 2**40}, "since_version: got .*, expected a whole number"),
    "surrogate": (_attribute("p", "\ud800"), "attributes: p: default: .*, expected text that UTF"),
    "no_text": ({"doc": 3}, "doc: got 3, expected a text"),
    "too_many": (
        {
            "inputs": [myops.Input(f"x{i}", "T", ".") for i in range(70)],
            "function": lambda *x: x[0],
            "shape": lambda inputs, _: [inputs[0].shape],
        },
        "schema: got mistakes::.*, expected one that torch accepts",
    ),
    "name_keyword": ({"name": "import"}, "import: name: got a word that Python or TorchScript"),
    "generator": (
        {**_attribute("generator"), "random": True},
        "generator: got an input or attribute of this name in a random op",
    ),
    "large_default": (
        _attribute("p", 2**70),
        f"attributes: p: default: got {2**70}, expected integers of 64 bits",
    ),
    "no_number_between": (
        _attribute("p", 1.0, above=2, below=2, required=True),
        "p: got bounds from 2 to 2, expected bounds between which is a number",
    ),
    "optional_in_rule": (
        {**_attribute("p", 1, optional=True), "shape": "S... -> p"},
        'has the optional attribute "p" in an output',
    ),
    "type_of_an_output": (
        {
            "types": {"T": ["float32"], "I": ["int32", "int64"]},
            "outputs": [myops.Output("y", "I", ".")],
        },
        "y: got the type parameter I of 2 dtypes, which no input has, expected a parameter of one",
    ),
    "type_as_text": (
        {"types": {"T": "float32"}},
        "types: T: got 'float32', expected a list of dtypes",
    ),
    "input_as_text": (
        {"inputs": ["x"]},
        r"inputs: got 'x', expected a list of myops.Input\(name, type, doc\)",
    ),
    "backward_as_name": (
        {"backward": "soft_clip_backward"},
        "backward: got 'soft_clip_backward', expected a function: only an op in C",
    ),
    "jvp_as_name": ({"jvp": "name"}, "jvp: got 'name', expected a function"),
    "standard_as_name": ({"standard": ["Mul"]}, r"standard: got \['Mul'\], expected a function"),
    "doc": ({"doc": "\udc80"}, "doc: got .*, expected text that UTF-8 can encode"),
}


@pytest.mark.parametrize("mistake", DESCRIPTIONS)
def test_mistakes_in_descriptions_are_named(mistake: str) -> None:
    settings, text = DESCRIPTIONS[mistake]
    with pytest.raises((ValueError, RuntimeError), match=text):
        made(**settings)


LIST = ".* from the rule, expected a list with the list of the lengths of each output, of 1"
LENGTH = " from the rule, expected an integer from 0 on"
RULES: dict[str, tuple[Any, str]] = {
    "too_many": ([[2, 3], [2]], f"got {LIST}"),
    "none": ([], f"got {LIST}"),
    "nothing": (None, f"got {LIST}"),
    "flat": ([2, 3], f"got {LIST}"),
    "text": ([["n", 3]], f"got the length 'n'{LENGTH}"),
    "negative": ([[-1, 3]], f"got the length -1{LENGTH}"),
    "fraction": ([[2.5, 3]], f"got the length 2.5{LENGTH}"),
    "infinite": ([[float("inf"), 3]], f"got the length inf{LENGTH}"),
}


@pytest.mark.parametrize("traced", [False, True])
@pytest.mark.parametrize("mistake", RULES)
def test_mistakes_in_shape_rules_are_named(mistake: str, traced: bool) -> None:
    result, text = RULES[mistake]
    op = made(shape=lambda inputs, attributes: result)
    call = torch.compile(op, backend="eager") if traced else op
    with pytest.raises(RuntimeError, match=text):
        call(torch.ones(2, 3))


def test_a_rule_with_symbolic_lengths() -> None:
    op = made(shape=lambda inputs, attributes: [inputs[0].shape, inputs[0].shape])
    dynamic = {"x": {0: torch.export.Dim("n")}}

    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return op(x)

    with pytest.raises(RuntimeError, match=f"shape: got {LIST}"):
        torch.export.export(Model(), (torch.ones(4, 3),), dynamic_shapes=dynamic)


@pytest.mark.parametrize("length", [0.5, "n"])
def test_a_length_that_is_none_is_named_where_lengths_are_symbolic(length: Any) -> None:
    def rule(inputs: Any, attributes: Any) -> Any:
        return [[inputs[0].shape[0] / 2 if length == 0.5 else length, inputs[0].shape[1]]]

    compiled = torch.compile(made(shape=rule), backend="eager", fullgraph=True, dynamic=True)
    with pytest.raises(RuntimeError, match=f"shape: got the length .*{LENGTH}"):
        compiled(torch.ones(5, 3))


def test_a_float_that_is_whole_is_a_length() -> None:
    op = made(lambda x: x[:2], shape=lambda inputs, _: [[2.0, inputs[0].shape[1]]])
    for call in (op, torch.compile(op, backend="eager", fullgraph=True, dynamic=True)):
        assert call(torch.ones(5, 3)).shape == (2, 3)


TWO: dict[str, Any] = {
    "types": {"T": ["float32"], "B": ["bool"]},
    "outputs": [myops.Output("y", "T", "."), myops.Output("b", "B", ".")],
    "shape": "S... -> S..., S...",
    "backward": lambda ctx, grad, _: grad,
}
TANGENTS = {
    "one_of_two": (TWO, lambda ctx, t: t, "got 1 tangents, expected 2: one or None for each of y"),
    "two_of_one": ({}, lambda ctx, t: (t, t), "got 2 tangents, expected 1: one or None"),
}


@pytest.mark.parametrize("mistake", TANGENTS)
def test_mistakes_in_jvp_are_named(mistake: str) -> None:
    settings, jvp, text = TANGENTS[mistake]
    op = made(lambda x: (x, x > 0) if settings else x, jvp=jvp, **settings)
    with pytest.raises(RuntimeError, match=f"{op.__name__}: jvp: {text}"):
        torch.func.jvp(op, (torch.ones(2),), (torch.ones(2),))


EXPECTED = r"from the rule, expected \(outputs, out_dims\)"
BATCHES: dict[str, tuple[dict[str, Any], Any]] = {
    "no_dims": ({}, lambda op, x: op(x)),
    "no_dims_of_two": (TWO, lambda op, x: op(x)),
    "nothing": ({}, lambda op, x: None),
    "three": ({}, lambda op, x: (op(x), 0, 0)),
    "text": ({}, lambda op, x: (op(x), "0")),
    "few_outputs": (TWO, lambda op, x: (op(x)[:1], (0,))),
    "few_dims": (TWO, lambda op, x: (op(x), (0,))),
}


@pytest.mark.parametrize("mistake", BATCHES)
def test_mistakes_in_vmap_are_named(mistake: str) -> None:
    settings, rule = BATCHES[mistake]
    op = made(
        lambda x: (x, x > 0) if settings else x,
        vmap=lambda op, info, in_dims, inputs, attributes: rule(op, inputs[0]),
        **settings,
    )
    for call in (op, getattr(torch.ops.mistakes, op.__name__)):
        with pytest.raises(RuntimeError, match=f"{op.__name__}: vmap: got .* {EXPECTED}"):
            torch.func.vmap(call)(torch.ones(3, 2))


RESULTS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "complex": (lambda x: x * 1j, "y: got dtype complex64 from the function, expected float32"),
    "shape": (lambda x: x[:1], r"y: got shape \[1, 3\] from the function, expected \[2, 3\]"),
    "none": (lambda x: None, "y: got None from the function, expected an array"),
    "two": (lambda x: (x, x), "the function: got 2 results, expected 1"),
    "masked": (
        lambda x: np.ma.masked_less(x, 0),
        r"y: got a masked array from the function, expected an array without a mask: give .*filled",
    ),
    "raises": (
        lambda x: int("abc"),
        "mistaken_.*: the function raised ValueError: invalid literal for int",
    ),
    "singular": (
        lambda x: np.linalg.inv(np.zeros((2, 2))),
        "mistaken_.*: the function raised LinAlgError: Singular matrix",
    ),
    "objects": (lambda x: x.astype(object), "y: got dtype object from the function"),
}


@pytest.mark.parametrize("mistake", RESULTS)
def test_mistakes_in_results_are_named(mistake: str) -> None:
    function, text = RESULTS[mistake]
    with pytest.raises(RuntimeError, match=text):
        made(lambda x: function(x))(torch.ones(2, 3))


FINE: dict[str, Callable[[Any], Any]] = {
    "input": lambda x: x,
    "view": lambda x: x[::-1],
    "columns_first": lambda x: np.asfortranarray(x * 2),
    "read_only": lambda x: np.broadcast_to(x[:1], x.shape),
    "byteswapped": lambda x: x.astype(x.dtype.newbyteorder()),
}


@pytest.mark.parametrize("kind", FINE)
def test_results_of_any_layout_are_copied(kind: str) -> None:
    """Also an input that is returned: torch's compilers take a result for memory of its own."""
    x = torch.arange(6.0).reshape(2, 3)
    result = made(lambda x: FINE[kind](x))(x)
    assert torch.equal(result, torch.from_numpy(np.array(FINE[kind](x.numpy()), np.float32)))
    result += 1
    assert torch.equal(x, torch.arange(6.0).reshape(2, 3))


def test_calls_on_arrays() -> None:
    double = made(lambda x: x * 2)
    x = np.float32([[1, -1], [2, 3]])
    assert np.array_equal(double.numpy(x), 2 * x)
    for call in (double.numpy, lambda x: _numpy_call.call("my_add", [x, x])):
        with pytest.raises(ValueError, match=r"(x|a): got a masked array, expected an array"):
            call(np.ma.masked_less(x, 0))
    upper = made(lambda x: np.array([item.upper() for item in x], object), types={"T": ["string"]})
    assert upper.numpy(np.array(["a", "b"])).tolist() == ["A", "B"]


def _flagged(x: Any, *, flag: bool, perhaps: bool | None) -> Any:
    return x * 2 if flag or perhaps else x


flagged = made(
    _flagged,
    attributes=[
        myops.Attribute("flag", False, "."),
        myops.Attribute("perhaps", None, ".", optional=True, type="bool"),
    ],
    backward=lambda ctx, grad: grad,
)
WAYS: dict[str, Callable[..., Any]] = {
    "torch": lambda x, **given: flagged(x, **given),
    "gradient": lambda x, **given: flagged(x.requires_grad_(), **given),
    "vmap": lambda x, **given: torch.func.vmap(lambda row: flagged(row, **given))(x),
    "compiled": lambda x, **given: torch.compile(
        lambda y: flagged(y, **given), fullgraph=True, backend="eager"
    )(x),
    "numpy": lambda x, **given: flagged.numpy(x.numpy(), **given),
    "kernel": lambda x, **given: myops.ops.resize._resize(
        x, None, None, np.array([3, 4]), antialias=given["flag"]
    ),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("value", [None, 2, -1, "yes"])
def test_a_bool_is_nothing_else(value: Any, way: str) -> None:
    """torch's dispatcher takes None for False, and any number for True."""
    with pytest.raises((RuntimeError, ValueError), match=f"(flag|antialias): got {value!r}, expec"):
        WAYS[way](torch.ones(2, 3), flag=value)


@pytest.mark.parametrize("way", [way for way in WAYS if way != "kernel"])
def test_what_stands_for_a_bool(way: str) -> None:
    for given in ({"flag": 1}, {"flag": True}, {"flag": 0, "perhaps": 1}):
        assert WAYS[way](torch.ones(2, 3), **given)[0, 0] == 2
    assert WAYS[way](torch.ones(2, 3), flag=0, perhaps=None)[0, 0] == 1
    with pytest.raises((RuntimeError, ValueError), match="perhaps: got 2, expected bool"):
        WAYS[way](torch.ones(2, 3), perhaps=2)
