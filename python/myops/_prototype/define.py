"""`myops.prototype`: an op from a NumPy function, with no compiler."""

from __future__ import annotations

import dataclasses
import inspect
import keyword
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from myops import _description, _dtypes, _libraries, _numpy
from myops._description import AttributeInfo, InputInfo, OpInfo, OutputInfo
from myops._op_library import QuantizedRule
from myops._prototype import call, shape_rule
from myops._torch import written

_AUTOCAST = ("", "lower", "float32", "widest")
_ACCESS = ("contiguous", "channels_last", "strided", "shape_only")
_kept: list[torch.library.Library] = []  # torch forgets the ops of one that is gone


def prototype(
    function: Callable[..., Any],
    *,
    domain: str,
    types: Mapping[str, Sequence[str]],
    inputs: Sequence[InputInfo],
    outputs: Sequence[OutputInfo],
    shape: Callable[..., Any] | str,
    attributes: Sequence[AttributeInfo] = (),
    name: str | None = None,
    onnx_type: str | None = None,
    doc: str | None = None,
    namespace: str | None = None,
    save: Callable[..., None] | None = None,
    backward: Callable[..., Any] | None = None,
    jvp: Callable[..., Any] | None = None,
    vmap: Callable[..., Any] | None = None,
    standard: Callable[[Any], list[str]] | None = None,
    quantized: QuantizedRule | None = None,
    upgrade: Callable[[Any], list[str]] | None = None,
    autocast: str = "",
    random: bool = False,
    since_version: int = 1,
) -> Callable[..., Any]:
    """Makes an op of a NumPy function: for torch, both exporters, ONNX tools and PyOps.

    It has everything that an op with a C++ kernel has: the same checks with the same texts,
    autograd, torch.compile, torch.export, function bodies, `myops.onnx.lower`; except speed, and
    a library for ONNX Runtime, where its nodes run in `myops.ort.pyop_session` or as their function
    bodies.

    Later the description moves to C++ (`myops new` shows where), and the other arguments to
    `library.define`. Neither callers nor exported models change.

    Args:
        function: Called with an array for each input (None for one that is left out) and every
            attribute by name; returns the output, or a tuple of them. The arrays are read-only.
            Results may be wider than the output's dtype and are rounded to it; bfloat16 and the
            floats of 8 bits are those of `ml_dtypes`.
        domain: ONNX domain of the node; several prototypes may share one.
        types: Type parameters and their dtypes, {"T": ["float32", "float64"]}: inputs and outputs
            of one type parameter have one dtype. The dtypes are float16, bfloat16, float32,
            float64, float8_e4m3fn, float8_e5m2, complex64, complex128, bool, int and uint with
            8, 16, 32 and 64 bits, and string, which PyTorch does not have.
        inputs: `myops.Input(name, type, doc, optional=False, values=False, variadic=False)`, in
            order. `values` marks a short list, such as scales, whose numbers decide the output's
            shape; `variadic` a list of tensors, the last input, which the function gets as a list.
        outputs: `myops.Output(name, type, doc, only_if="")`, in order. `only_if` names what says
            whether the output is computed: a bool attribute, or an optional input. The function
            returns None for what it leaves out, and so does the op.
        shape: `shape(inputs, attributes)` returns the lengths of each output. An input has `shape`
            and `dtype`, or is None; one of `values` is the list of its numbers where they are
            known, a variadic one a list of such inputs. A length may be a number, a name of a
            graph, or unknown: it can be passed on and computed with. `myops.at_most(bound, name)`
            is a length that only the function knows; so is None. What makes no sense is refused by
            `raise ValueError("op: argument: got ..., expected ...")`. Or the rule as text, such as
            "N C H W -> N C (H * 2) (W * 2)" or "N 4, N -> K<=N 4, K<=N"; docs/your_own_op.md.
        attributes: `myops.Attribute(name, default, doc, choices=(), ...)`; the default is a bool,
            int, float, string, or list of ints, floats or strings. Floats have the precision of
            float32, as in ONNX, unless their type is "double" or "doubles". An attribute may be
            required or optional, and have bounds.
        name: Name of the op. Default: that of the function.
        onnx_type: Type of the node. Default: the name in CamelCase. "": the op has no node, as that
            of a gradient.
        doc: One sentence. Default: the first line of the function's docstring.
        namespace: Namespace in torch.ops. Default: the domain, dots written as underscores.
        save, backward, jvp, vmap, standard, quantized, upgrade: As in `Library.define`; without
            `backward` the op is not differentiable, without `standard` only myops can run its node.
        autocast: What torch.autocast does to floating tensors other than float64: "lower" casts
            them to its dtype, "float32" to float32, "widest" to the widest dtype among them. "":
            nothing.
        random: Whether the result depends on random numbers. The op then takes `seed=`, `key=` (a
            tensor of one int64) or `generator=`, and without them torch's global generator
            decides; its node has an attribute `seed`. The function gets `seed` by name and must
            depend on it alone: see `myops.Philox`.
        since_version: The version of the domain from which on the node has this meaning. Another
            op of the same `onnx_type` has the earlier one.

    Defined again with an equal description, as when a notebook cell runs twice, the op takes the
    new functions.

    Returns:
        The function for callers: inputs, then attributes, by position or name. Its attribute
        `numpy` is the same on arrays, with the checks.

    Raises:
        ValueError: Something in the description makes no sense, or the name is taken by an op with
            another description.

    Example:
        >>> def soft_clip(x, *, limit):
        ...     '''limit * tanh(x / limit), element by element.'''
        ...     return limit * np.tanh(x / limit)
        >>> clip = myops.prototype(
        ...     soft_clip, domain="doc_example",
        ...     types={"T": ["float32", "float64"]},
        ...     inputs=[myops.Input("x", "T", "Any tensor.")],
        ...     outputs=[myops.Output("y", "T", "Of the shape of x.")],
        ...     attributes=[myops.Attribute("limit", 1.0, "What |y| stays below.")],
        ...     shape=lambda inputs, attributes: [inputs[0].shape])
        >>> clip(torch.tensor([0.0, 100.0]), limit=2.0)
        tensor([0., 2.])
    """
    name = function.__name__ if name is None else name
    if onnx_type is None:
        onnx_type = "".join(word[:1].upper() + word[1:] for word in name.split("_"))
    if doc is None:
        doc = (inspect.getdoc(function) or f"{name}.").splitlines()[0]
    if namespace is None:
        namespace = re.sub(r"[.-]", "_", domain)
    _check_kinds(name, types, inputs, outputs, attributes)
    description = {
        "name": name,
        "onnx_type": onnx_type,
        "since_version": since_version,
        "doc": doc,
        "types": {parameter: tuple(dtypes) for parameter, dtypes in types.items()},
        "inputs": [dataclasses.asdict(item) for item in inputs],
        "outputs": [dataclasses.asdict(item) for item in outputs],
        "attributes": [dataclasses.asdict(item) for item in attributes],
        "rule": shape if isinstance(shape, str) else "",
        "autocast": autocast,
        "random": random,
    }
    _check(description, domain, namespace)
    passed = [*attributes, *([AttributeInfo("seed", 0, "")] if random else [])]
    _check_signature(function, name, [item.name for item in inputs], passed)
    is_rule = isinstance(shape, str) and shape.isascii() and shape.isprintable() and shape.strip()
    if not callable(shape) and not is_rule:
        raise ValueError(
            f"prototype {name}: shape: got {shape!r}, expected a function, or a rule such as "
            '"N C H W -> N C (H * 2) (W * 2)"'
        )
    function_rule = None if isinstance(shape, str) else shape
    rules = {"shape": function_rule, "save": save, "backward": backward, "jvp": jvp, "vmap": vmap,
             "standard": standard, "quantized": quantized, "upgrade": upgrade}  # fmt: skip
    given = {kind: rule for kind, rule in rules.items() if rule is not None}
    _check_rules(name, given)
    fixed = len(inputs) - 1 if inputs and inputs[-1].variadic else None
    op = _numpy.Op(description, shape_rule.rule(function_rule, name, len(outputs), fixed))
    before = _defined.get((domain, name))
    if before is not None and before.is_like(description, namespace, given):
        before.native.take(op, function)
        before.rules.update(given)
        return before.public
    native = call.Native(op, function, description)
    info = _description.read(native, domain, namespace)
    library = _libraries.of_prototypes(domain, namespace)
    library.add(info)
    try:
        _register(info)
    except ValueError:
        library.remove(info)
        raise
    made = library.define(name, **{kind: _late(given, kind) for kind in given})
    public: Any = written.function_of(made, function.__doc__ or info.doc, function.__module__)
    public.numpy = made.numpy  # as what library.define returns
    _defined[domain, name] = _Defined(description, namespace, native, given, public)
    return public


@dataclasses.dataclass
class _Defined:
    """A prototype of this process. Defined again, as a notebook does, it takes the new functions;
    what torch and ONNX Runtime have registered cannot change."""

    description: dict[str, Any]
    namespace: str
    native: call.Native
    rules: dict[str, Callable[..., Any]]
    public: Callable[..., Any]

    def is_like(
        self, description: dict[str, Any], namespace: str, rules: Mapping[str, Any]
    ) -> bool:
        same = (self.description, self.namespace) == (description, namespace)
        return same and set(self.rules) == set(rules)


_defined: dict[tuple[str, str], _Defined] = {}


def _late(rules: Mapping[str, Callable[..., Any]], kind: str) -> Callable[..., Any]:
    """A function that calls the current rule of that kind, which a new definition may replace."""
    return lambda *arguments: rules[kind](*arguments)


def _register(info: OpInfo) -> None:
    """Lets torch's dispatcher know the op, as the torch library does for C++."""
    library = torch.library.Library(info.namespace, "FRAGMENT")
    for values in (False, True) if info.has_values else (False,):
        schema = info.native.dispatcher_schema(values)
        try:
            library.define(schema)
        except RuntimeError as error:
            raise ValueError(
                f"prototype {info.name}: schema: got {info.namespace}::{schema}, expected one that "
                "torch accepts, of a name that no other library has registered"
            ) from error
        overload = f"{info.name}.values" if values else info.name
        library.impl(overload, call.kernel(info), "CPU")
    _kept.append(library)


def _check_kinds(
    name: str, types: Any, inputs: Sequence[Any], outputs: Sequence[Any], attributes: Sequence[Any]
) -> None:
    """Refuses what is no description at all."""
    given = (
        ("inputs", inputs, InputInfo, "myops.Input(name, type, doc)"),
        ("outputs", outputs, OutputInfo, "myops.Output(name, type, doc)"),
        ("attributes", attributes, AttributeInfo, "myops.Attribute(name, default, doc)"),
    )
    for what, items, kind, expected in given:
        for item in items:
            if not isinstance(item, kind):
                raise ValueError(
                    f"prototype {name}: {what}: got {item!r}, expected a list of {expected}"
                )
    for item in outputs:
        if item.elementwise:
            raise ValueError(
                f"prototype {name}: outputs: {item.name}: got elementwise, expected an output in "
                "contiguous memory: a function in NumPy does not choose where its result lies"
            )
    for parameter, dtypes in types.items():
        if isinstance(dtypes, str):
            raise ValueError(
                f"prototype {name}: types: {parameter}: got {dtypes!r}, expected a list of dtypes"
            )


def _check(description: Mapping[str, Any], domain: str, namespace: str) -> None:
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
    whole_number = isinstance(version, int) and 1 <= version <= 1000
    expect(whole_number, "since_version", version, "a whole number from 1 to 1000")
    for what, given in (("domain", domain), ("namespace", namespace)):
        free = not _numpy.taken_by(given)
        expect(free, what, given, "a name that no other library uses")
    node = description["onnx_type"]
    expect(not node or re.fullmatch(identifier, node), "onnx_type", node, "an identifier")
    policy = description["autocast"]
    expect(policy in _AUTOCAST, "autocast", policy, ", ".join(map(repr, _AUTOCAST)))
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
        kinds = ", ".join(_description.KINDS)
        expect(item["type"] in _description.KINDS, f"{where}: type", item["type"], kinds)
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


def _check_rules(name: str, rules: Mapping[str, Any]) -> None:
    for kind, rule in rules.items():
        if kind == "backward" and isinstance(rule, str):
            raise ValueError(
                f"prototype {name}: backward: got {rule!r}, expected a function: only an op in C++ "
                "names the op that computes its gradient (backward_of). Call that op in "
                "backward(ctx, *grads), and keep what it needs in save"
            )
        if not callable(rule):
            raise ValueError(f"prototype {name}: {kind}: got {rule!r}, expected a function")


def _elements(default: Any) -> Sequence[Any]:
    return default if isinstance(default, (list, tuple)) else [default]


def _check_signature(
    function: Callable[..., Any],
    name: str,
    inputs: Sequence[str],
    attributes: Sequence[AttributeInfo],
) -> None:
    try:
        signature = inspect.signature(function)
    except ValueError:  # a ufunc, for example, has no signature; a wrong call will fail
        return
    try:
        signature.bind(*inputs, **{item.name: item.default for item in attributes})
    except TypeError as error:
        wanted = ", ".join([*inputs, *(["*"] if attributes else []), *(a.name for a in attributes)])
        raise ValueError(
            f"prototype {name}: function: got {function.__name__}{signature}, expected one that "
            f"takes ({wanted}): {error}"
        ) from None
