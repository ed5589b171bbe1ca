"""What the arguments of `myops.prototype` must be. Each refusal names the op, the argument, what it
got and what was expected; without them the C++ side would refuse a wrong type by its own name."""

from __future__ import annotations

import keyword
import numbers
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NoReturn

import numpy as np

from myops import _dtypes, _numpy, _op_parts, _rule_signatures
from myops._op_parts import AttributeInfo, InputInfo, OutputInfo
from myops._text import shorten

_AUTOCAST = ("", "lower", "float32", "widest")
_ACCESS = ("contiguous", "channels_last", "strided", "shape_only")
_FLAGS = ("optional", "values", "variadic", "written", "elementwise", "required")
_TEXTS = ("name", "type", "doc", "access", "only_if")
_BOUNDS = ("at_least", "above", "at_most", "below")


def _refuse(name: str, what: str, got: Any, expected: str) -> NoReturn:
    raise ValueError(
        f"prototype {name}: {what}: got {shorten(repr(got), 200)}, expected {expected}"
    )


def texts(name: Any, **given: Any) -> None:
    """Refuses a name, a domain, ... that is no text. None stands for a default."""
    for what, text in {"name": name, **given}.items():
        if not isinstance(text, str) and (text is not None or what == "domain"):
            _refuse(name if isinstance(name, str) else "", what, text, "a text")


def function(name: str, given: Any) -> None:
    if not callable(given):
        _refuse(name, "function", given, "a function of NumPy")
    if not name:
        raise ValueError(f"prototype: name: got {given!r}, which has no name, expected name=")


def policies(name: str, autocast: Any, random: Any) -> None:
    if not isinstance(autocast, str) or autocast not in _AUTOCAST:
        _refuse(name, "autocast", autocast, ", ".join(map(repr, _AUTOCAST)))
    _flag(name, "random", random)


def kinds(
    name: str, types: Any, inputs: Sequence[Any], outputs: Sequence[Any], attributes: Sequence[Any]
) -> None:
    """Refuses what is no description at all."""
    given = (
        ("inputs", inputs, InputInfo, "myops.Input(name, type, doc)"),
        ("outputs", outputs, OutputInfo, "myops.Output(name, type, doc)"),
        ("attributes", attributes, AttributeInfo, "myops.Attribute(name, default, doc)"),
    )
    for what, items, kind, example in given:
        if not isinstance(items, Sequence) or isinstance(items, (str, bytes)):
            _refuse(name, what, items, f"a list of {example}")
        for item in items:
            if not isinstance(item, kind):
                _refuse(name, what, item, f"a list of {example}")
            _fields(name, what, item)
    for item in outputs:
        if item.elementwise:
            raise ValueError(
                f"prototype {name}: outputs: {item.name}: got elementwise, expected an output in "
                "contiguous memory: a function in NumPy does not choose where its result lies"
            )
    if not isinstance(types, Mapping):
        _refuse(name, "types", types, 'type parameters with their dtypes: {"T": ["float32"]}')
    for parameter, dtypes in types.items():
        if not isinstance(parameter, str):
            _refuse(name, "types", parameter, "the name of a type parameter, a text")
        listed = isinstance(dtypes, Collection) and not isinstance(dtypes, (str, bytes, Mapping))
        if not listed or not all(isinstance(dtype, str) for dtype in dtypes):
            _refuse(name, f"types: {parameter}", dtypes, 'a list of dtypes, such as ["float32"]')


def _fields(name: str, what: str, item: Any) -> None:
    """Refuses fields of an Input, Output or Attribute that have the wrong type."""
    where = f"{what}: {item.name}" if isinstance(item.name, str) else what
    for field in (*_TEXTS, *_FLAGS, *_BOUNDS):
        value = getattr(item, field, None)
        if not hasattr(item, field):
            continue
        if field in _TEXTS and not isinstance(value, str):
            _refuse(name, "doc" if field == "doc" else f"{where}: {field}", value, "a text")
        if field in _FLAGS:
            _flag(name, f"{where}: {field}", value)
        if field in _BOUNDS and value is not None and not _is_number(value):
            _refuse(name, f"{where}: {field}", value, "a number that a float can be")
    if isinstance(item, OutputInfo):
        _strings(name, f"{where}: may_overwrite", item.may_overwrite, (str,), "names of inputs")
    if isinstance(item, AttributeInfo):
        kinds = (str, int, np.integer)
        _strings(name, f"{where}: choices", item.choices, kinds, "texts or integers")


def _flag(name: str, where: str, value: Any) -> None:
    number = isinstance(value, (int, np.integer)) and value in (0, 1)
    if not number and not isinstance(value, (bool, np.bool_)):
        _refuse(name, where, value, "True or False")


def _strings(name: str, where: str, value: Any, kinds: tuple[type, ...], expected: str) -> None:
    """Refuses what is no list of these; a text alone would count as the list of its letters."""
    if not isinstance(value, (list, tuple)) or not all(isinstance(one, kinds) for one in value):
        _refuse(name, where, value, f"a list of {expected}")


def _is_number(value: Any) -> bool:
    if not isinstance(value, numbers.Real) or isinstance(value, bool):
        return False
    try:
        float(value)
    except OverflowError:
        return False
    return True


def description(description: Mapping[str, Any], domain: str, namespace: str) -> None:
    """Refuses values that make no sense: names, dtypes, defaults, bounds."""
    title = description["name"]

    def expect(good: Any, what: str, got: Any, expected: str) -> None:
        if not good:
            raise ValueError(f"prototype {title}: {what}: got {got!r}, expected {expected}")

    identifier, dotted = r"[A-Za-z_]\w*", r"[A-Za-z_][\w.-]*"
    expect(re.fullmatch(identifier, title), "name", title, "an identifier")
    expect(re.fullmatch(dotted, domain), "domain", domain, 'letters, digits, "_", "-" and "."')
    expect(re.fullmatch(identifier, namespace), "namespace", namespace, "an identifier")
    reserved = keyword.iskeyword(namespace)
    expect(not reserved, "namespace", namespace, "another name than a word of Python")
    version = description["since_version"]
    is_int = isinstance(version, int) and not isinstance(version, bool)
    whole_number = is_int and 1 <= version <= 1000
    expect(whole_number, "since_version", version, "a whole number from 1 to 1000")
    for what, given in (("domain", domain), ("namespace", namespace)):
        free = not _numpy.taken_by(given)
        expect(free, what, given, "a name that no other library uses")
    node = description["onnx_type"]
    expect(not node or re.fullmatch(identifier, node), "onnx_type", node, "an identifier")
    types = description["types"]
    for parameter, dtypes in types.items():
        for dtype in dtypes:
            expect(dtype in _dtypes.NAMES, f"types: {parameter}", dtype, ", ".join(_dtypes.NAMES))
        expect(dtypes, f"types: {parameter}", dtypes, "at least one dtype")
    for item in description["inputs"]:
        where = f"inputs: {item['name']}: written"
        expect(not item["written"], where, True, "False: only an op in C++ writes into inputs")
    for kind in ("inputs", "outputs"):
        expect(description[kind], kind, [], "at least one")
        for item in description[kind]:
            known = ", ".join(types)
            expect(item["type"] in types, f"{kind}: {item['name']}: type", item["type"], known)
    for item in description["inputs"]:
        where = f"inputs: {item['name']}: access"
        expect(item["access"] in _ACCESS, where, item["access"], ", ".join(_ACCESS))
    for item in description["attributes"]:
        where = f"attributes: {item['name']}"
        kinds = ", ".join(_op_parts.KINDS)
        expect(item["type"] in _op_parts.KINDS, f"{where}: type", item["type"], kinds)
        free = item["required"] or item["optional"]
        expect(
            free or item["default"] is not None, f"{where}: default", None,
            "one, or required=True, or optional=True",
        )  # fmt: skip
        choices, default = item["choices"], item["default"]
        texts = "".join(text for text in _elements(default) if isinstance(text, str))
        readable = not re.search("[\ud800-\udfff]", texts)
        expect(readable, f"{where}: default", default, "text that UTF-8 can encode")
        whole = [number for number in _elements(default) if isinstance(number, int)]
        fits = all(-(2**63) <= number < 2**63 for number in whole)
        expect(fits, f"{where}: default", default, "integers of 64 bits")
        good = not choices or free or all(element in choices for element in _elements(default))
        expect(good, f"{where}: default", default, f"one of {choices}")
        for open_end, closed in (("above", "at_least"), ("below", "at_most")):
            both = item[open_end] is not None and item[closed] is not None
            expect(not both, f"{where}: {open_end} and {closed}", "both", "one of the two")
    arguments = [item for kind in ("inputs", "outputs", "attributes") for item in description[kind]]
    for text in (description["doc"], *(item["doc"] for item in arguments)):
        expect(isinstance(text, str), "doc", text, "a text")
        expect(not re.search("[\ud800-\udfff]", text), "doc", text, "text that UTF-8 can encode")
    names = [item["name"] for item in arguments]
    for name in names:
        expect(re.fullmatch(identifier, name), "the name of an argument", name, "an identifier")
        expect(names.count(name) == 1, "names", name, "each name once")


def _elements(default: Any) -> Sequence[Any]:
    return default if isinstance(default, (list, tuple)) else [default]


def rules(
    name: str, given: Mapping[str, Any], inputs: Sequence[str], outputs: Sequence[str]
) -> None:
    """Refuses rules that are no functions, or that take other arguments; `inputs` with the key."""
    backward = given.get("backward")
    if isinstance(backward, str):
        _refuse(
            name, "backward", backward, "a function: only an op in C++ names the op that computes "
            "its gradient (backward_of). Call that op in backward(ctx, *grads), and keep what it "
            "needs in save",
        )  # fmt: skip
    _rule_signatures.check(f"prototype {name}", given, inputs, outputs)


def signature(
    given: Callable[..., Any], name: str, inputs: Sequence[str], attributes: Sequence[str]
) -> None:
    """Refuses a NumPy function that does not take the inputs and attributes of the description."""
    refusal = _rule_signatures.refused_call(given, inputs, dict.fromkeys(attributes))
    if refusal:
        wanted = ", ".join([*inputs, *(["*"] if attributes else []), *attributes])
        raise ValueError(
            f"prototype {name}: function: got {_rule_signatures.title(given)}, expected one that "
            f"takes ({wanted}): {refusal}"
        )
