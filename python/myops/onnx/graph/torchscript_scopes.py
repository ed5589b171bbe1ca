"""Finds the calls of PyTorch modules in TorchScript's node names, /layer1/layer1.0/conv_1/Conv.

Each part of a scope is the name of a module from its last part on that is no number: "conv" for
"layer1.0.conv", "a" for an entry of a ModuleDict. If a scope is used again, the name of the second
use ends in "_1", which may also be the name of another module.
"""

from __future__ import annotations

import functools
import re
from collections import defaultdict
from collections.abc import Sequence

import onnx

Stack = tuple[str, ...]  # paths of the modules around a call, outer ones first, without the root
Key = tuple[str, int]  # path, number of the call
CallPath = tuple[Key, ...]  # a call with the calls around it


class ScopeNames:
    """TorchScript's scopes as paths of modules."""

    def __init__(
        self, model: onnx.ModelProto, scopes: Sequence[str | None], modules: set[str] | None
    ) -> None:
        owners = {item.name.rpartition(".")[0] for item in model.graph.initializer}
        self._owners = {owner for owner in owners if owner and "::" not in owner}
        known = set(modules or ())
        for owner in self._owners if modules is None else ():
            parts = owner.split(".")
            known.update(".".join(parts[:end]) for end in range(1, len(parts) + 1))
        self._known: dict[str, list[str]] = defaultdict(list)
        for path in sorted(known):
            self._known[unqualified(path)].append(path)
        self._complete = modules is not None
        self._all = {scope for scope in scopes if scope}

    def resolve(self, scope: str, node: onnx.NodeProto) -> Stack:
        """The stack of modules of a node."""
        parts = scope.split("/")[1:]
        stack: list[str] = []
        for part in parts[:-1]:
            stack.append(self._path(stack[-1] if stack else "", part, None))
        if not parts:
            return ()
        parent, part = stack[-1] if stack else "", parts[-1]
        base = repeated(part)
        if base is not None and self._is_repeat(scope, parent, part, base, node):
            part = base
        stack.append(self._path(parent, part, node))
        return tuple(stack)

    def _is_repeat(
        self, scope: str, parent: str, part: str, base: str, node: onnx.NodeProto
    ) -> bool:
        weights = {unqualified(owner) for owner in self._used_owners(node, parent)}
        if part in weights or base in weights:
            return base in weights
        if self._candidates(parent, part):
            return False
        if self._complete:
            return bool(self._candidates(parent, base))
        return scope[: len(scope) - len(part)] + base in self._all

    def _path(self, parent: str, part: str, node: onnx.NodeProto | None) -> str:
        if node is not None:
            owners = self._used_owners(node, parent)
            fitting = [owner for owner in owners if unqualified(owner) == part]
            if fitting:
                return fitting[0]
        numbers = part[len(unqualified(parent)) :] if parent else ""
        if part.startswith(unqualified(parent)) and re.fullmatch(r"(\.\d+)+", numbers):
            return parent + numbers  # the child of a Sequential
        candidates = self._candidates(parent, part)
        if len(candidates) == 1:
            return candidates[0]
        return f"{parent}.{part}" if parent else part

    def _candidates(self, parent: str, part: str) -> list[str]:
        start = f"{parent}." if parent else ""
        return [path for path in self._known.get(part, ()) if path.startswith(start)]

    def _used_owners(self, node: onnx.NodeProto, parent: str) -> list[str]:
        start = f"{parent}." if parent else ""
        owners = [name.rpartition(".")[0] for name in node.input]
        return [owner for owner in owners if owner in self._owners and owner.startswith(start)]


@functools.lru_cache(maxsize=100_000)
def unqualified(path: str) -> str:
    """TorchScript's name of a module: the last part that is no number, and the parts after it."""
    parts = path.split(".")
    for place in range(len(parts) - 1, -1, -1):
        if not parts[place].isnumeric():
            return ".".join(parts[place:])
    return path


def repeated(scope: str) -> str | None:
    """The scope of which this may be another use: "/conv" for "/conv_1"; None if there is none."""
    match = re.fullmatch(r"(.+)_[1-9]\d*", scope)
    return match[1] if match else None


def by_calls(
    model: onnx.ModelProto,
    scopes: Sequence[str | None],
    stacks: Sequence[Stack | None],
    calls: Sequence[Stack],
) -> dict[Key, list[int]]:
    """The nodes of each call: uses of a scope are numbered in order, like the calls of PyTorch.

    If nodes fit several calls and nothing decides, all of these calls are left out.
    """
    made: dict[str, list[CallPath]] = defaultdict(list)
    numbered = _numbered(calls)
    for call in numbered:
        made[_base(tuple(path for path, _ in call))].append(call)
    entered = {call: number for number, call in enumerate(numbered)}
    uses, places = _uses(model, scopes, stacks, made, entered)
    found: dict[Key, list[int]] = defaultdict(list)
    doubtful: set[Key] = set()
    for (scope, base, stack), nodes in places.items():
        same = made[base]
        own = [call for call in same if tuple(path for path, _ in call) == stack]
        if len(uses[base]) == len(same):
            call = same[uses[base].index(scope)]
        elif own and len(uses[base, stack]) == len(own):
            call = own[uses[base, stack].index(scope)]
        else:
            common = set.intersection(*map(set, same))
            doubtful.update(key for call in same for key in call if key not in common)
            call = tuple(common)
        for key in call:
            found[key].extend(nodes)
    order = sorted(found, key=lambda key: (min(found[key]), -len(found[key])))
    return {key: sorted(found[key]) for key in order if key not in doubtful}


Use = tuple[str, str, Stack]  # a scope, the scope without its number, the modules


def _uses(
    model: onnx.ModelProto,
    scopes: Sequence[str | None],
    stacks: Sequence[Stack | None],
    made: dict[str, list[CallPath]],
    order: dict[CallPath, int],
) -> tuple[dict[object, list[str]], dict[Use, list[int]]]:
    """The uses of each base in order, and the nodes of each use."""
    by_scope: dict[str, list[int]] = defaultdict(list)
    for place, scope in enumerate(scopes):
        if scope and stacks[place]:
            by_scope[scope].append(place)
    uses: dict[object, list[str]] = defaultdict(list)
    places: dict[Use, list[int]] = defaultdict(list)
    for scope, nodes in by_scope.items():
        bases = [base for base in (scope, repeated(scope)) if base in made]
        parts = {bases[0]: nodes} if len(bases) == 1 else {}
        if len(bases) == 2:
            parts = _shared_scope(model, stacks, made, bases, nodes, order)
        for base, own in parts.items():
            fitting = [stack for place in own if (stack := stacks[place]) and _base(stack) == base]
            stack = fitting[0] if fitting else ()
            uses[base].append(scope)
            uses[base, stack].append(scope)
            places[scope, base, stack] = own
    return uses, places


def _shared_scope(
    model: onnx.ModelProto,
    stacks: Sequence[Stack | None],
    made: dict[str, list[CallPath]],
    bases: list[str],
    nodes: list[int],
    order: dict[CallPath, int],
) -> dict[str, list[int]]:
    """The nodes of a scope that is both the first use of "/act_1" and the second of "/act"."""
    if len(made[bases[1]]) == 1:
        return {bases[0]: nodes}
    parts: dict[str, list[int]] = defaultdict(list)
    for place in nodes:
        stack = stacks[place]
        parts[bases[0] if stack and _base(stack) == bases[0] else bases[1]].append(place)
    if len(parts) == 2:
        return parts
    number = int(bases[0].rpartition("_")[2])
    halves = repeats([model.graph.node[place].op_type for place in nodes], nodes)
    if len(halves) == 2 and number < len(made[bases[1]]):
        entered = [made[bases[0]][0], made[bases[1]][number]]
        first = min((0, 1), key=lambda side: order[entered[side]])
        return {bases[first]: halves[0], bases[1 - first]: halves[1]}
    return parts


def repeats(work: Sequence[object], places: Sequence[int]) -> list[list[int]]:
    """Divides a list of nodes into the shortest parts that all have the same operators."""
    work = list(work)
    for length in range(1, len(work) + 1):
        if len(work) % length == 0 and work == work[:length] * (len(work) // length):
            return [list(places[start : start + length]) for start in range(0, len(work), length)]
    return []


def _numbered(calls: Sequence[Stack]) -> list[CallPath]:
    counts: dict[str, int] = defaultdict(int)
    numbered = []
    for stack in calls:
        counts[stack[-1]] += 1
        numbered.append(tuple((path, counts[path] - 1) for path in stack))
    return numbered


def _base(stack: Stack) -> str:
    return "".join(f"/{unqualified(path)}" for path in stack)
