"""Which nodes of a graph came from which PyTorch module, by the names of `named_modules()`.

Both exporters record the modules. The one based on torch.export writes the stack of modules into
the metadata of each node. TorchScript writes it into node names, /layer1/layer1.0/conv/Conv, where
each name begins with the last part of the path that is no number: "layer1.0.conv" is "conv" there,
"blocks.a" of a ModuleDict is "a", and the second use of a scope is "conv_1". Where several modules
fit, the names of weights decide, or the calls that PyTorch made, if they are given.

Example:
    >>> layers = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.ReLU())
    >>> model = myops.onnx.export(layers, torch.rand(1, 2), dynamo=False)
    >>> [region.path for region in myops.onnx.module_paths.regions(model)]
    ['', '0', '1']
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import onnx

from myops._names import near_misses
from myops.onnx.graph import scopes as _scopes
from myops.onnx.graph.randomness import is_random, random_functions
from myops.onnx.graph.structure import reads
from myops.onnx.graph.torchscript_scopes import Key, ScopeNames, Stack, by_calls, repeats

__all__ = ["Region", "regions"]


def __dir__() -> list[str]:
    return sorted(__all__)


SCOPES = "pkg.torch.onnx.name_scopes"
NO_MODULES = (
    "its nodes say nothing of modules. Files written by torch >= 1.13 do, unless a tool removed "
    "the names or metadata of the nodes"
)
# What torch.export calls the module of a node that belongs to none.
_NONE = "_empty_nn_module_stack_from_metadata_hook"
_MOST_LISTED = 20  # modules in a sentence
_NODE_NAME = "myops.node_name"  # the name of the node that this one was made from


@dataclass(frozen=True)
class Region:
    """The nodes of one call of a module.

    Attributes:
        path: As in named_modules(); "" is the whole model.
        call: 0 for the first call of the module, 1 for the second. Without `calls`, calls that
            follow each other without a node between them may be one region.
        nodes: Places in model.graph.node, constants included.
        inputs: Values that come from outside and are not constant.
        outputs: Values that are used outside, or are outputs of the model.
    """

    path: str
    call: int
    nodes: tuple[int, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


def regions(
    model: onnx.ModelProto, path: str | None = None, *, calls: Sequence[Stack] | None = None
) -> list[Region]:
    """The calls of PyTorch modules in a graph, in the order of their first nodes.

    A module is missing if no node of it is left: Identity, Dropout in eval mode, a module that
    was folded into constants or fused into the node of another.

    Args:
        model: Exported by either exporter of torch. Only the nodes of the graph itself are looked
            at, not those inside If, Loop or functions.
        path: Only the calls of this module. "" is the whole graph.
        calls: The stacks of modules of PyTorch's calls, in order of entry. They decide where the
            names in the file are ambiguous.

    Returns:
        The regions; at least one when `path` is given.

    Raises:
        ValueError: The graph has no module of this path; the message lists those that it has.

    Example:
        >>> for region in regions(onnx.load("model.onnx"), "layer1.0"):
        ...     print(region.call, region.inputs, region.outputs)
    """
    instances = _instances(model, calls)
    found = _with_boundaries(model, instances)
    whole = _with_boundaries(model, {("", 0): list(range(len(model.graph.node)))})
    if path is None:
        return whole + found
    chosen = [region for region in whole + found if region.path == path]
    if not chosen:
        raise ValueError(_missing(model, path, sorted({region.path for region in found})))
    return chosen


def constants(model: onnx.ModelProto) -> set[str]:
    """Values of the graph that no input of the model can change."""
    inputs = {item.name for item in model.graph.input}
    known = {tensor.name for tensor in model.graph.initializer} - inputs
    known |= {tensor.values.name for tensor in model.graph.sparse_initializer}
    functions = random_functions(model.functions)
    for node in model.graph.node:
        if not is_random(node, functions) and all(name in known for name in reads(node)):
            known.update(name for name in node.output if name)
    return known


def annotate(model: onnx.ModelProto, modules: Iterable[str]) -> None:
    """Writes the stack of modules into the metadata of TorchScript's nodes, as dynamo does.

    Args:
        model: It is changed.
        modules: The names of `named_modules()`.
    """
    stacks = _stacks(model, [_scope(node) for node in model.graph.node], set(modules))
    for node, stack in zip(model.graph.node, stacks, strict=True):
        if stack is not None and _metadata(node, SCOPES) is None:
            node.metadata_props.add(key=SCOPES, value=repr(["", *stack, node.op_type]))


def inherit(old: onnx.NodeProto, new: Iterable[onnx.NodeProto]) -> None:
    """Records that nodes replace `old`, so that they belong to the same module."""
    for node in new:
        del node.metadata_props[:]
        node.metadata_props.extend(old.metadata_props)
        if stack_of(old) is None and _scope(old) is not None:
            node.metadata_props.add(key=_NODE_NAME, value=old.name)


def restore(old: onnx.ModelProto, new: onnx.ModelProto) -> None:
    """Gives a converted model the metadata that the conversion dropped.

    A node that makes the same value is the same node; a new node belongs to the node that reads it.

    Args:
        old: The model before.
        new: The model after; it is changed.
    """
    makers = {name: node for node in old.graph.node for name in node.output if name}
    readers: dict[str, onnx.NodeProto] = {}
    for node in reversed(new.graph.node):
        same = next((makers[name] for name in node.output if name in makers), None)
        same = same or next((readers[name] for name in node.output if name in readers), None)
        if same is not None:
            if not node.metadata_props:
                node.metadata_props.extend(same.metadata_props)
            readers.update((name, same) for name in node.input if name)


def from_torchscript(model: onnx.ModelProto) -> bool:
    """Whether the names of nodes are those of the TorchScript exporter."""
    return any(_scope(node) for node in model.graph.node)


def stack_of(node: onnx.NodeProto) -> Stack | None:
    """The modules around a node, from its metadata; None if it does not contain them."""
    text = _metadata(node, SCOPES)
    if text is None:
        return None
    try:
        names = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        return None
    return tuple(name for name in names[:-1] if name and name != _NONE)


def _metadata(node: onnx.NodeProto, key: str) -> str | None:
    return next((item.value for item in node.metadata_props if item.key == key), None)


def _scope(node: onnx.NodeProto) -> str | None:
    """ "/layer1/layer1.0" of "/layer1/layer1.0/Conv"; None for a node that is not TorchScript's."""
    name = _metadata(node, _NODE_NAME) or node.name
    return name.rpartition("/")[0] if name.startswith("/") else None


def _instances(model: onnx.ModelProto, calls: Sequence[Stack] | None) -> dict[Key, list[int]]:
    """The nodes of each call of each module."""
    modules = None if calls is None else {path for stack in calls for path in stack}
    scopes = [_scope(node) for node in model.graph.node]
    stacks = _stacks(model, scopes, modules)
    if calls is not None and any(scopes):
        return by_calls(model, scopes, stacks, calls)
    found = _by_order(model, scopes, stacks)
    return found if calls is None else _counted(model, stacks, found, calls)


def _stacks(
    model: onnx.ModelProto, scopes: Sequence[str | None], modules: set[str] | None
) -> list[Stack | None]:
    names = ScopeNames(model, scopes, modules)
    stacks = []
    for node, scope in zip(model.graph.node, scopes, strict=True):
        stack = stack_of(node)
        if stack is None and scope is not None:
            stack = names.resolve(scope, node)
        stacks.append(stack)
    return stacks


def _by_order(
    model: onnx.ModelProto, scopes: Sequence[str | None], stacks: Sequence[Stack | None]
) -> dict[Key, list[int]]:
    """Goes through the nodes in order, as a profiler goes through calls: a module that was left and
    is entered again was called again."""
    found: dict[Key, list[int]] = defaultdict(list)
    counts: dict[str, int] = defaultdict(int)
    only: dict[Key, str | None] = {}  # calls that contain nodes of one scope only
    open_: list[Key] = []
    fixed = constants(model)
    for place, node in enumerate(model.graph.node):
        stack = stacks[place]
        if stack is None or (node.output and all(name in fixed for name in node.output)):
            continue
        same = 0
        for key, path in zip(open_, stack, strict=False):
            if key[0] != path:
                break
            same += 1
        if stack and same == len(stack) and only.get(open_[same - 1]) not in (None, scopes[place]):
            same -= 1  # in TorchScript each use of a scope has a number of its own
        del open_[same:]
        for path in stack[same:]:
            open_.append((path, counts[path]))
            counts[path] += 1
        for key in open_:
            inside = key != open_[-1] or (key in found and key not in only)
            only.pop(key, None)
            if not inside:
                only[key] = scopes[place]
            found[key].append(place)
    return dict(found)


def _counted(
    model: onnx.ModelProto,
    stacks: Sequence[Stack | None],
    found: dict[Key, list[int]],
    calls: Sequence[Stack],
) -> dict[Key, list[int]]:
    """The regions of each module; if it is known how many calls PyTorch made, equally many."""
    wanted: dict[str, int] = defaultdict(int)
    for stack in calls:
        wanted[stack[-1]] += 1
    groups: dict[str, list[list[int]]] = defaultdict(list)
    for (path, _), places in found.items():
        groups[path].append(places)
    result: dict[Key, list[int]] = {}
    for path, lists in groups.items():
        if wanted[path] == 1:
            lists = [sorted(place for places in lists for place in places)]
        elif len(lists) < wanted[path]:
            work = [[(stacks[i], model.graph.node[i].op_type) for i in places] for places in lists]
            parts = [repeats(*pair) for pair in zip(work, lists, strict=True)]
            if sum(map(len, parts)) == wanted[path]:
                lists = [part for split in parts for part in split]
        result.update({(path, call): places for call, places in enumerate(lists)})
    return dict(sorted(result.items(), key=lambda item: (item[1][0], -len(item[1]))))


def _with_boundaries(model: onnx.ModelProto, instances: dict[Key, list[int]]) -> list[Region]:
    fixed = constants(model)
    readers: dict[str, set[int]] = defaultdict(set)
    for place, node in enumerate(model.graph.node):
        for name in reads(node):
            readers[name].add(place)
    results = {item.name for item in model.graph.output}
    made = []
    for (path, call), places in instances.items():
        inside = set(places)
        produced = {name for place in places for name in model.graph.node[place].output if name}
        inputs = [name for place in places for name in reads(model.graph.node[place])]
        outputs = [
            name
            for place in places
            for name in model.graph.node[place].output
            if name in results or (name and name not in fixed and readers[name] - inside)
        ]
        outside = [name for name in inputs if name not in produced and name not in fixed]
        unique = tuple(dict.fromkeys(outside))
        made.append(Region(path, call, tuple(sorted(places)), unique, tuple(outputs)))
    return made


def names(model: onnx.ModelProto) -> list[str]:
    """The paths of the modules in a graph, in order; empty if its nodes do not record them."""
    return sorted({region.path for region in regions(model) if region.path})


def listing(known: Sequence[str]) -> str:
    """A sentence that lists modules, the outer ones first where there are many."""
    shown = sorted(known, key=lambda path: (path.count("."), path))[:_MOST_LISTED]
    more = f", and {len(known) - len(shown)} more" if len(known) > len(shown) else ""
    everything = " (`myops inspect MODEL --modules` lists all)" if more else ""
    return f"It has the modules {', '.join(map(repr, sorted(shown)))}{more}{everything}."


def _missing(model: onnx.ModelProto, path: str, known: list[str]) -> str:
    if not known:
        return f"no module {path!r} in the graph: {NO_MODULES}"
    inner = [
        node.name or node.op_type
        for node in model.graph.node
        for nested in _scopes.all_nodes([node])
        if nested is not node and path in (stack_of(nested) or ())
    ]
    if inner:
        return f"module {path!r} is inside the graphs of node {inner[0]!r}, which is not reached"
    if model.functions and any(not _scopes.is_body(f) for f in model.functions):
        hint = " The model has functions; inline them first: onnx.inliner.inline_local_functions."
    else:
        hint = ""
    return (
        f"no module {path!r} in the graph.{near_misses(path, known)} {listing(known)} "
        "A module leaves nothing "
        "behind when it computes nothing (Identity, Dropout in eval mode) or was folded into "
        f"constants or fused into the node of another module.{hint}"
    )
