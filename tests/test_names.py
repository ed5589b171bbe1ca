"""Suggestions for misspelled names: names that are alike, and no others."""

from __future__ import annotations

import pytest

from myops._names import near_misses


@pytest.mark.parametrize(("name", "known", "suggested"), [
    ("factr", ["factor", "actor"], ["factor", "actor"]),
    ("bb", ["a", "b"], ["b"]),
    ("in", ["x", "input"], ["input"]),
    ("x", ["conv_x", "box", "y"], ["conv_x"]),  # a word of it, not any letter of it
    ("conv", ["head", "backbone.layer1.conv1"], ["backbone.layer1.conv1"]),
    ("net.onnx", ["nat.onnx", "test.onnx", "net2.onnx"], ["net2.onnx", "nat.onnx"]),
    ("cat", ["Concat", "Cast", "Add"], ["Cast", "Concat"]),
    ("IMAGE", ["image", "image"], ["image"]),
])  # fmt: skip
def test_names_that_are_alike(name: str, known: list[str], suggested: list[str]) -> None:
    assert near_misses(name, known) == f" Did you mean {' or '.join(map(repr, suggested))}?"


@pytest.mark.parametrize(("name", "known"), [
    ("a", ["alpha", "beta", "gamma"]), ("y", ["by", "x"]), ("out", ["cut", "logits"]),
    ("x.onnx", ["good.onnx", "bad.onnx"]),  # alike in the ending only
    ("stem.weight", ["head.weight"]), ("batch", ["path"]), ("", ["a"]), ("x", []),
])  # fmt: skip
def test_other_names_are_not_suggested(name: str, known: list[str]) -> None:
    assert near_misses(name, known) == ""
