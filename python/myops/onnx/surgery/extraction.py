"""`extract`: makes a part of a model a separate model."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import onnx

from myops._checked import callers_level, checked
from myops.onnx.graph import files, inference, storage, structure
from myops.onnx.graph.structure import GraphError, Index


class RedundantInputWarning(UserWarning):
    """A requested input has no influence on the requested outputs.

    Example:
        >>> import warnings
        >>> with warnings.catch_warnings(record=True) as caught:
        ...     warnings.simplefilter("always")
        ...     part = myops.onnx.extract("model.onnx", ["x", "conv1"], ["relu1"])
        >>> print(caught[0].message)
        extract: inputs: 'x' does nothing: the outputs follow from the other inputs, ...
    """


@checked()
def extract(
    model: files.Model,
    inputs: Sequence[str] | None = None,
    outputs: Sequence[str] | None = None,
    f: files.Target = None,
    *,
    module: str | None = None,
    call: int | None = None,
) -> onnx.ModelProto:
    """Extracts the nodes between some values of a model as a separate model.

    The result has all nodes that the outputs need, back to the inputs, including custom nodes and
    outer values that bodies of If, Loop and Scan read. Any value can be an output, also one from
    which another output is computed. Opsets, metadata and the model-local functions in use are
    kept. Of external weights, only those that the part needs are read.

    Args:
        model: A path, the bytes of a file, or a ModelProto. It is not changed.
        inputs: Values that become inputs. Default: the model's own, as far as needed.
        outputs: Values that become outputs. Default: the model's own.
        f: File to write: a path, or an object open for writing bytes. None: only return.
        module: Path of a PyTorch module, such as "backbone.layer1", instead of inputs and outputs.
        call: Which call of the module, when it is called several times; the first is 0.

    Returns:
        The part.

    Raises:
        GraphError: A name that does not exist, or an output that needs more than the inputs; the
            text says which value is missing and which node makes it.

    Warns:
        RedundantInputWarning: An input that the outputs do not depend on.

    Example:
        >>> part = myops.onnx.extract("model.onnx", ["conv1"], ["relu2"])
    """
    proto = storage.load(model)
    if module is not None:
        if inputs or outputs:
            raise GraphError("extract: got a module and names of values, expected one of them")
        inputs, outputs = _of_module(proto, module, call)
    elif call is not None:
        raise GraphError("extract: call: got a number, expected it together with a module")
    elif not inputs and not outputs:
        raise GraphError("extract: got none of inputs, outputs and module, expected at least one")
    index = Index(proto)
    targets = _distinct(outputs or index.outputs, "outputs")
    for name in targets:
        index.check(name, "outputs")
    if inputs:
        sources = _distinct(inputs, "inputs")
        for name in sources:
            index.check(name, "inputs")
    else:
        sources = [name for name in index.inputs if name not in index.constants]
    kept, reached, missing = _walk(index, sources, targets)
    if missing:
        raise GraphError(_missing_text(index, kept, sources, missing))
    idle = [name for name in sources if name not in reached]
    if inputs and idle:
        warnings.warn(
            f"extract: inputs: {', '.join(map(repr, idle))} does nothing: the outputs follow from "
            "the other inputs, whatever it holds. Leave it out, or name an output that needs it.",
            RedundantInputWarning,
            stacklevel=callers_level(),
        )
    elif not inputs:
        sources = [name for name in sources if name in reached]
    part = _cut(proto, kept, sources, targets)
    if reason := inference.problem(part):
        if not inference.problem(proto):
            raise GraphError(f"extract: the part is not a valid model: {reason}")
        warnings.warn(
            f"extract: the model was not valid before: {reason}", stacklevel=callers_level()
        )
    storage.finish(part, model, f)
    return part


def _distinct(names: Sequence[str], what: str) -> list[str]:
    twice = sorted({name for name in names if list(names).count(name) > 1})
    if twice:
        raise GraphError(f"{what}: got {', '.join(map(repr, twice))} more than once")
    return list(names)


def _of_module(proto: onnx.ModelProto, path: str, call: int | None) -> tuple[list[str], list[str]]:
    region = find_region(proto, path, call)
    return list(region.inputs), list(region.outputs)


def find_region(proto: onnx.ModelProto, path: str, call: int | None):  # type: ignore[no-untyped-def]
    """The nodes, inputs and outputs of one call of a PyTorch module.

    Raises:
        ValueError: No such module, or no such call of it.
    """
    from myops.onnx.module_paths import regions

    found = regions(proto, path)
    if call is None and len(found) > 1:
        raise GraphError(
            f"module: {path!r} is called {len(found)} times; say which call: 0 to {len(found) - 1}"
        )
    number = call or 0
    if not 0 <= number < len(found):
        known = "0" if len(found) == 1 else f"0 to {len(found) - 1}"
        times = "once" if len(found) == 1 else f"{len(found)} times"
        raise GraphError(f"call: got {number}, expected {known}: module {path!r} is called {times}")
    return found[number]


def _walk(
    index: Index, sources: Sequence[str], targets: Sequence[str]
) -> tuple[list[int], set[str], dict[str, int | None]]:
    """Nodes between sources and targets, sources that matter, and graph inputs that are missing.

    For a missing input: the node that wants it.
    """
    stops = set(sources)
    kept: set[int] = set()
    reached: set[str] = set()
    missing: dict[str, int | None] = {}
    queue: list[tuple[str, int | None]] = [(name, None) for name in targets]
    seen: set[str] = set()
    while queue:
        name, reader = queue.pop()
        if name in stops:
            reached.add(name)
        elif name in index.producers:
            number = index.producers[name]
            if number not in kept:
                kept.add(number)
                queue.extend((read, number) for read in structure.reads(index.graph.node[number]))
        elif name not in index.constants and name not in seen:
            missing[name] = reader
        seen.add(name)
    return sorted(kept), reached, missing


def _missing_text(
    index: Index, kept: Sequence[int], sources: Sequence[str], missing: dict[str, int | None]
) -> str:
    """What else the outputs need, at the place where it meets what follows from the inputs."""
    broken = [name for name in missing if name not in index.inputs]
    if broken:
        return f"extract: the model is broken: nothing makes the value {broken[0]!r}."
    follows, lacks = set(sources), set(missing)
    meets: dict[str, int | None] = {}
    for number in kept:
        node = index.graph.node[number]
        read = structure.reads(node)
        fed = bool(follows.intersection(read))
        if fed:
            follows.update(node.output)
            meets.update({name: number for name in read if name in lacks - follows})
        if lacks.intersection(read):
            lacks.update(node.output)
    texts = []
    for name, reader in (meets or missing).items():
        if name in index.producers:
            maker = structure.label(index.graph.node[index.producers[name]])
            text = f"value {name!r}, made by node {maker}"
        else:
            text = f"the model's input {name!r}"
        if reader is not None:
            text += f", which node {structure.label(index.graph.node[reader])} reads"
        texts.append(text)
    given = ", ".join(map(repr, sources)) or "nothing"
    advice = " and ".join(map(repr, meets or missing))
    deeper = [name for name in missing if name not in meets]
    other = f", or go back to {', '.join(map(repr, deeper))}, from which it follows" if (
        meets and deeper
    ) else ""  # fmt: skip
    return (
        f"extract: inputs: from {given} alone the outputs cannot be computed; they also need "
        f"{'; '.join(texts)}. Add {advice} to the inputs{other}."
    )


def _cut(
    proto: onnx.ModelProto, kept: Sequence[int], sources: Sequence[str], targets: Sequence[str]
) -> onnx.ModelProto:
    stated = inference.types(proto, [*sources, *targets])
    for name in sources:
        if name not in stated:
            place = Index(proto).producers.get(name)
            if place is None:
                raise GraphError(
                    f"extract: inputs: {name!r}, an input of the model, has no type there, and an "
                    "input must have one."
                )
            maker = structure.label(proto.graph.node[place])
            raise GraphError(
                f"extract: inputs: the type of {name!r}, made by node {maker}, is unknown, and an "
                "input must have one. Take an input before that node, or register the schema of "
                "its op with onnx.defs.register_schema."
            )
    part = onnx.ModelProto()
    for field in part.DESCRIPTOR.fields:
        if field.name not in ("graph", "functions", "opset_import"):
            _copy_field(proto, part, field.name)
    graph = part.graph
    graph.name = proto.graph.name or "graph"
    graph.doc_string = proto.graph.doc_string
    graph.metadata_props.extend(proto.graph.metadata_props)
    graph.node.extend(proto.graph.node[number] for number in kept)
    for name in sources:
        graph.input.append(stated[name])
    for name in targets:
        graph.output.append(stated.get(name) or onnx.ValueInfoProto(name=name))
    needed = {name for node in graph.node for name in structure.reads(node)} | set(targets)
    made = {name for node in graph.node for name in node.output}
    graph.initializer.extend(
        t for t in proto.graph.initializer if t.name in needed and t.name not in sources
    )
    graph.sparse_initializer.extend(
        t for t in proto.graph.sparse_initializer if t.values.name in needed
    )
    constants = {tensor.name for tensor in graph.initializer}
    for item in proto.graph.input:  # old files list their weights among the inputs
        if item.name in constants:
            graph.input.append(item)
    inner = needed | made
    ends = {*sources, *targets}
    graph.value_info.extend(stated[n] for n in stated if n in made and n not in ends)
    graph.quantization_annotation.extend(
        item for item in proto.graph.quantization_annotation if item.tensor_name in inner
    )
    part.functions.extend(proto.functions)
    structure.set_functions(part, structure.used_functions(part))
    part.opset_import.extend(proto.opset_import)
    return part


def _copy_field(source: onnx.ModelProto, target: onnx.ModelProto, name: str) -> None:
    value = getattr(source, name)
    if hasattr(value, "extend"):
        getattr(target, name).extend(value)
    elif source.HasField(name):
        setattr(target, name, value)
