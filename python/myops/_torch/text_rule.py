"""Evaluates shape rules as text where torch traces with symbolic lengths.

csrc/core/text_rule.h describes the syntax. Nothing is refused here: invalid rules are refused when
their library is loaded, and calls with known lengths by the C++ code.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from myops._description import OpInfo
from myops._op_parts import DecidedLength

# The whole pattern of an input with values: names, at least one.
_NUMBERS = re.compile(r"\{([A-Za-z_0-9 ]*[A-Za-z_][A-Za-z_0-9 ]*)\}")
_WORD = re.compile(r"(?:[A-Za-z_]\w*)?<=\s*|\.\.\.|\w+(?:\.\.\.)?|[({]")
_CALLS: dict[str, Callable[..., Any]] = {"min": torch.sym_min, "max": torch.sym_max}


@dataclass(frozen=True)
class Word:
    """A number, a name, "..." or "S...", or an expression. `bound`: the largest value of a length
    that the kernel decides, whose name is the word."""

    name: str = ""
    many: bool = False
    tree: ast.expr | None = None
    bound: bool = False


@dataclass(frozen=True)
class Pattern:
    words: tuple[Word, ...]
    numbers: bool = False  # names for the numbers of an input


def rule_of(info: OpInfo) -> Callable[[Sequence[Any], dict[str, Any]], list[list[Any]]]:
    """The rule as text, in the form of `shape=` of `define`."""
    inputs, outputs = _parsed(info.rule)
    outputs = outputs if info.outputs else ()  # "N ->" of an op without outputs

    def run(given: Sequence[Any], attributes: dict[str, Any]) -> list[list[Any]]:
        known = _Known(attributes)
        for number, item in enumerate(info.flat(given)):  # a list of tensors has one pattern
            if item is not None:
                known.match(inputs[min(number, len(inputs) - 1)], item)
        return [
            [length for word in pattern.words for length in known.lengths_of(word)]
            for pattern in outputs
        ]

    return run


@functools.cache
def _parsed(text: str) -> tuple[tuple[Pattern, ...], tuple[Pattern, ...]]:
    left, arrow, right = text.partition("->")
    inputs = tuple(_pattern(part, True) for part in _split(left))
    return inputs, tuple(_pattern(part, False) for part in _split(right)) if arrow else inputs


def _split(text: str) -> list[str]:
    """Splits at commas outside brackets."""
    parts, depth = [""], 0
    for letter in text:
        depth += {"(": 1, "{": 1, "[": 1, ")": -1, "}": -1, "]": -1}.get(letter, 0)
        if letter == "," and not depth:
            parts.append("")
        else:
            parts[-1] += letter
    return parts


def _pattern(text: str, of_input: bool) -> Pattern:
    names = _NUMBERS.fullmatch(text.strip())
    if of_input and names is not None:
        return Pattern(tuple(Word(name) for name in names[1].split()), numbers=True)
    words, at = [], 0
    while found := _WORD.search(text, at):
        at, token = found.end(), found[0].replace(" ", "")
        bound = token.endswith("<=")
        name = token.removesuffix("<=") if bound else ""
        if bound:
            found = _WORD.match(text, at)
            assert found is not None  # C++ has refused anything else
            at, token = found.end(), found[0]
        if token in ("(", "{"):
            end = _closing(text, at)
            words.append(Word(name, tree=_tree(text[at:end]), bound=bound))
            at = end + 1
        elif token.endswith("..."):
            words.append(Word(token, many=True))
        elif token.isdigit() or bound:
            words.append(Word(name, tree=_tree(token), bound=bound))
        else:
            words.append(Word(token))
    return Pattern(tuple(words))


def _closing(text: str, at: int) -> int:
    """The position of the bracket that closes the one at `at`."""
    depth = 1
    while depth:
        depth += {"(": 1, "{": 1, ")": -1, "}": -1}.get(text[at], 0)
        at += 1
    return at - 1


def _tree(text: str) -> ast.expr:
    """The expression. Names get a prefix, because a rule may use a Python keyword such as "is"."""
    named = re.sub(r"[A-Za-z_]\w*", lambda found: f"n{found[0]}", text.strip())
    return ast.parse(named, mode="eval").body


class _Known:
    """The values of names, from the inputs and attributes of a call."""

    def __init__(self, attributes: Mapping[str, Any]) -> None:
        self.attributes = attributes
        self.lengths: dict[str, Any] = {}
        self.many: dict[str, tuple[Any, ...]] = {}

    def match(self, pattern: Pattern, item: Any) -> None:
        if pattern.numbers:  # those of a tensor are not known
            is_list = isinstance(item, (list, tuple))
            numbers = list(item) if is_list else [None] * len(pattern.words)
            for word, number in zip(pattern.words, numbers, strict=True):
                self.bind(word.name, number)
            return
        axes = (len(item),) if isinstance(item, (list, tuple)) else tuple(item.shape)
        places = [number for number, word in enumerate(pattern.words) if word.many]
        first = places[0] if places else len(pattern.words)
        behind = len(pattern.words) - first - 1
        for word, length in zip(pattern.words[:first], axes, strict=False):
            self.bind(word.name, length)
        if not places:
            return
        end = len(axes) - behind
        self.bind_many(pattern.words[first].name, axes[first:end])
        for word, length in zip(pattern.words[first + 1 :], axes[end:], strict=True):
            self.bind(word.name, length)

    def bind(self, name: str, length: Any) -> None:
        """Binds a name; of two values, keeps a number if there is one, else a symbol, else None."""
        if not name:
            return
        before = self.lengths.get(name)
        if before is None or (isinstance(length, int) and not isinstance(before, int)):
            self.lengths[name] = length

    def bind_many(self, name: str, axes: tuple[Any, ...]) -> None:
        before = self.many.get(name)
        if before is None:
            self.many[name] = axes
        elif name == "...":
            self.many[name] = tuple(torch.broadcast_shapes(before, axes))
        else:
            pairs = zip(before, axes, strict=True)
            self.many[name] = tuple(b if isinstance(b, int) else a for a, b in pairs)

    def lengths_of(self, word: Word) -> Sequence[Any]:
        """The lengths of the axes for a word of an output."""
        if word.many:
            return self.many[word.name]
        if word.bound:
            assert word.tree is not None
            most = self.value(word.tree)
            return [DecidedLength(word.name, most if isinstance(most, int) else None)]
        if word.tree is not None:
            return [self.value(word.tree)]
        return [self.named(word.name)]

    def named(self, name: str) -> Any:
        return self.lengths[name] if name in self.lengths else self.attributes[name]

    def value(self, tree: ast.expr) -> Any:
        """A number or a symbolic length; None if a name in it is unknown."""
        if isinstance(tree, ast.Constant):
            return tree.value
        if isinstance(tree, ast.Name):
            return self.named(tree.id[1:])
        if isinstance(tree, ast.Subscript):
            assert isinstance(tree.value, ast.Name)
            return self.attributes[tree.value.id[1:]][self.value(tree.slice)]
        if isinstance(tree, ast.Call):
            assert isinstance(tree.func, ast.Name)
            values = [self.value(item) for item in tree.args]
            return None if None in values else functools.reduce(_CALLS[tree.func.id[1:]], values)
        if isinstance(tree, ast.UnaryOp):
            value = self.value(tree.operand)
            return None if value is None else -value
        assert isinstance(tree, ast.BinOp)
        left, right = self.value(tree.left), self.value(tree.right)
        if left is None or right is None:
            return None
        operators: dict[type, Callable[[Any, Any], Any]] = {
            ast.Add: lambda a, b: a + b, ast.Sub: lambda a, b: a - b, ast.Mult: lambda a, b: a * b,
            ast.FloorDiv: lambda a, b: a // b, ast.Mod: lambda a, b: a % b,
        }  # fmt: skip
        return operators[type(tree.op)](left, right)
