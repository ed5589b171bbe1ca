"""Stub files: what type checkers and editors know of a package of ops.

An op has no annotations of its own: what `library.define` and `myops.prototype` return is made
while the program runs. The stub of a package writes them from the ops' descriptions.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import keyword
import math
import re
import sys
import types
from collections.abc import Iterable, Sequence
from typing import Any

from myops import _libraries
from myops._checked import checked
from myops._description import OpInfo
from myops._op_parts import AttributeInfo, InputInfo
from myops._text import printable

_PLAIN = (bool, int, float, str, bytes)
_ATTRIBUTES = {"bool": "bool", "int": "int", "float": "float", "string": "str",
               "ints": "Sequence[int]", "floats": "Sequence[float]", "double": "float",
               "doubles": "Sequence[float]", "strings": "Sequence[str]"}  # fmt: skip
_WIDTH = 100


@checked()
def package_stub(package: str) -> str:
    """What `__init__.pyi` of a package of ops should hold; `myops stubs` writes it.

    The names are those of the package's `__all__`. An op, as `library.define` or `myops.prototype`
    returns it, gets parameters, types and a docstring from its description; functions and classes
    of the package's modules stand there by reference, so that their own annotations count; numbers
    and strings have their type, and anything else is `Any`. Type checkers read the stub once the
    package has a file `py.typed` beside it.

    Args:
        package: Name of the package. It is imported, so it has to be built.

    Returns:
        The text of the file.

    Raises:
        ImportError: There is no such package, or it cannot be imported.
        TypeError: `package` is not a string.
        ValueError: It is a single module, has no `__all__`, or defines a function or class with
            annotations in `__init__.py` itself, which the stub would hide.

    Example:
        >>> print(myops.package_stub("myops.onnx").splitlines()[0])
        # Written by `myops stubs myops.onnx`. What is here at run time is in __init__.py.
    """
    if not package or importlib.util.find_spec(package.partition(".")[0]) is None:
        raise ModuleNotFoundError(f"package_stub: got {package!r}, expected the name of a package")
    module = importlib.import_module(package)
    title = f"package_stub: {package!r}"
    if not hasattr(module, "__path__"):
        raise ValueError(
            f"{title}: got a single module, expected a package: a folder with __init__.py, beside "
            "which the stub is read"
        )
    names = getattr(module, "__all__", None)
    if not isinstance(names, (list, tuple)):
        raise ValueError(f"{title}: expected __all__ in __init__.py, a list of its public names")
    references: list[tuple[str, str, str]] = []  # module, name there, name here
    body = []
    for name in sorted(set(names)):
        if not (isinstance(name, str) and name.isidentifier() and hasattr(module, name)):
            raise ValueError(f"{title}: __all__: got {name!r}, which the package does not have")
        value = getattr(module, name)
        home = _home(value, name)
        if (op := _op(value)) is not None:
            body.append(_function(name, *op))
        elif home is None:
            body.append(f"{name}: {type(value).__name__ if type(value) in _PLAIN else 'Any'}")
        elif home[0] == package and not isinstance(value, types.ModuleType):
            raise ValueError(
                f"{title}: {name} is defined in __init__.py itself, which the stub hides from type "
                "checkers; define it in a module of the package, and import it from there"
            )
        else:
            references.append((*home, name))
    first = f"# Written by `myops stubs {package}`. What is here at run time is in __init__.py."
    return render(first, references, sorted(set(names)), body)


def render(
    first: str,
    references: Iterable[tuple[str, str, str]],
    names: Sequence[str],
    body: Sequence[str],
) -> str:
    """A stub: a comment, `from module import name as name`, `__all__`, and the rest."""
    text = "\n".join(body)
    imports = []
    used = _names(text)
    if "Sequence" in used:
        imports.append("from collections.abc import Sequence")
    wanted = [name for name in ("Any", "Literal", "overload") if name in used]
    if wanted:
        imports.append(f"from typing import {', '.join(wanted)}")
    torchs = [name for name in ("Generator", "Tensor") if name in used]
    if torchs:
        imports += ["", f"from torch import {', '.join(torchs)}"]
    imports += [""] if imports else []
    lines = [
        first,
        *imports,
        *(f"from {module} import {name} as {here}"
          for module, name, here in sorted(references)),
        "",
        "__all__ = [",
        *(f'    "{name}",' for name in names),
        "]",
        *(f"\n{item}" for item in body),
    ]  # fmt: skip
    return "\n".join(lines) + "\n"


def _names(text: str) -> set[str]:
    return set(re.findall(r"\w+", re.sub(r'"""(\\.|[^\\])*?"""', "", text)))


def _op(value: Any) -> tuple[OpInfo, bool] | None:
    """The description behind an op, and whether it is a prototype's function for callers."""
    torch_side = sys.modules.get("myops._torch.call")
    if torch_side is not None and isinstance(value, torch_side.TorchOp):
        return value.info, False
    prototypes = sys.modules.get("myops._prototype.define")
    if prototypes is not None:
        for (domain, name), defined in prototypes._defined.items():
            library = _libraries.find(domain)
            if defined.public is value and library is not None:
                return library.ops[name], True
    return None


def _home(value: Any, name: str) -> tuple[str, str] | None:
    """The module where a function, class or module is, and its name there; None: a plain value."""
    if isinstance(value, types.ModuleType):
        parent, _, last = value.__name__.rpartition(".")
        return (parent, last) if parent else None
    place = sys.modules.get(getattr(value, "__module__", None) or "")
    for there in (getattr(value, "__name__", ""), name):
        if place is not None and there and getattr(place, there, None) is value:
            return place.__name__, there
    return None


def _function(name: str, info: OpInfo, is_prototype: bool) -> str:
    """`def` of an op: inputs, then attributes, by position or by name.

    Args:
        is_prototype: Whether it is a prototype's function, which has no `out`, and the key of a
            random op last.
    """
    inputs = []
    for place, item in enumerate(info.inputs):
        droppable = all(later.optional for later in info.inputs[place:])
        title = item.name + "_" * keyword.iskeyword(item.name)
        inputs.append(f"{title}: {_input_type(info, item)}" + " = None" * droppable)
    given = [item for item in info.attributes if not keyword.iskeyword(item.name)]
    attributes = [f"{item.name}: {_attribute_type(item)}{_default(item)}" for item in given]
    if info.random:  # a generator or the key decides where there is no seed
        attributes[-1] = "seed: int | None = None"
    parameters = [*inputs, *attributes]
    named: list[str] = []
    if info.random and is_prototype:
        parameters = [*inputs[:-1], *attributes, inputs[-1], "generator: Any = None"]
    if not is_prototype:
        takes_out = len(info.outputs) == 1 and not info.writes
        named = ["out: Tensor | None = None"] if takes_out else []
        named += ["generator: Generator | None = None"] if info.random else []
        rest = ["**attributes: Any"] if len(given) < len(info.attributes) else []
        named = [*(["*", *named] if named else []), *rest]
    result = _tensors(info) if len(info.outputs) == 1 else f"tuple[{_tensors(info)}]"
    result = result if info.outputs else "None"
    text = _docstring(info)
    forms = _forms(parameters, named)
    overload = "@overload\n" if len(forms) > 1 else ""
    return "\n\n".join(f"{overload}{_line(name, form, result)}\n{text}\n    ..." for form in forms)


def _forms(parameters: list[str], named: list[str]) -> list[list[str]]:
    """The parameters; or two kinds, for overloads, if some without a default follow others with
    one: either all up to the last of them are given by position, or they are given by name."""
    has_default = ["=" in item for item in parameters]
    late = [n for n, has in enumerate(has_default) if not has and any(has_default[:n])]
    if not late:
        return [[*parameters, *named]]
    until = late[-1] + 1
    by_place = [item.partition(" = ")[0] for item in parameters[:until]]
    by_name = [*parameters[: late[0]], "*", *parameters[late[0] :]]
    return [[*by_place, *parameters[until:], *named], [*by_name, *named[named[:1] == ["*"] :]]]


def _line(name: str, parameters: list[str], result: str) -> str:
    line = f"def {name}({', '.join(parameters)}) -> {result}:"
    if len(line) <= _WIDTH:
        return line
    return "\n".join([f"def {name}(", *(f"    {item}," for item in parameters),
                      f") -> {result}:"])  # fmt: skip


def _tensors(info: OpInfo) -> str:
    return ", ".join("Tensor | None" if item.only_if else "Tensor" for item in info.outputs)


def _input_type(info: OpInfo, item: InputInfo) -> str:
    if item.variadic:
        return "Sequence[Tensor]"
    numbers = f" | Sequence[{'int' if info.is_integer(item) else 'float'}]"
    return "Tensor" + numbers * item.values + " | None" * item.optional


def _attribute_type(item: AttributeInfo) -> str:
    kind = _ATTRIBUTES[item.type]
    if item.choices:
        choices = f"Literal[{', '.join(map(json.dumps, item.choices))}]"
        kind = f"Sequence[{choices}]" if item.is_list else choices
    return f"{kind} | None" if item.optional else kind


def _default(item: AttributeInfo) -> str:
    if item.required:
        return ""
    default = item.short_default
    if isinstance(default, str):
        return f" = {json.dumps(default)}"
    simple = default is None or (isinstance(default, (int, float)) and math.isfinite(default))
    return f" = {default!r}" if simple else " = ..."  # a list


def _docstring(info: OpInfo) -> str:
    given = [(item.name, item.doc) for item in info.inputs]
    given += [(item.name, item.doc) for item in info.attributes]
    returned = [(item.name, item.doc) for item in info.outputs]
    rows = [printable(info.doc)]
    for title, items in (("Args:", given), ("Returns:", returned)):
        lines = [f"    {name}: {printable(doc)}" for name, doc in items if doc]
        rows += ["", title, *lines] if lines else []
    text = "\n".join(f"    {row}" if row else "" for row in rows).strip().replace("\\", "\\\\")
    if '"""' in text or text.endswith('"'):
        text = text.replace('"', '\\"')
    return f'    """{text}\n    """' if "\n" in text else f'    """{text}"""'
