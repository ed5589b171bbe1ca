"""`myops.prototype`: an op from a NumPy function, with no compiler."""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from myops import _description, _libraries, _numpy
from myops._description import OpInfo
from myops._op_library import QuantizedRule
from myops._op_parts import AttributeInfo, InputInfo, OutputInfo
from myops._prototype import call, checks, pickled, shape_rule
from myops._torch import written

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
    if name is None:
        name = getattr(function, "__name__", "")
    checks.texts(name, domain=domain, onnx_type=onnx_type, doc=doc, namespace=namespace)
    checks.function(name, function)
    if onnx_type is None:
        onnx_type = "".join(word[:1].upper() + word[1:] for word in name.split("_"))
    if doc is None:
        doc = (inspect.getdoc(function) or f"{name}.").splitlines()[0]
    if namespace is None:
        namespace = re.sub(r"[.-]", "_", domain)
    checks.kinds(name, types, inputs, outputs, attributes)
    checks.policies(name, autocast, random)
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
    checks.description(description, domain, namespace)
    names = [item.name for item in inputs]
    checks.signature(
        function, name, names, [*(item.name for item in attributes), *(["seed"] if random else [])]
    )
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
    keyed = [*names, *(["key"] if random else [])]
    checks.rules(name, given, keyed, [item.name for item in outputs])
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
    pickled.keep(domain, public)
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
