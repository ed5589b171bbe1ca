"""How each command is called in the tests of every command."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

NET = """
import torch

class Net(torch.nn.Module):
    def forward(self, x):
        return x * 2

class Deep(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.add_module(HOSTILE, torch.nn.Linear(2, 3))

    def forward(self, x):
        return next(self.children())(x).relu()

example = (Net(), (torch.rand(1, 2),))
deep = (Deep(), (torch.rand(1, 2),))
hostile = {HOSTILE: example}
"""

# How each command is given a model and a file to write; None: it reads no model.
WORDS: dict[str, Callable[[Any, Any], list[Any]] | None] = {
    "bench": lambda model, out: [model, "--repeat", "2"],
    "bundle": lambda model, out: [model, "--output", out],
    "compare": lambda model, out: ["net.py:example", model],
    "diff": lambda model, out: [model, "good.onnx" if model == "-" else model],
    "doctor": lambda model, out: [model, "--run"],
    "edit": lambda model, out: [model, out, "--dim", "x:0=batch"],
    "explain": lambda model, out: [model],
    "export": None,
    "extract": lambda model, out: [model, out, "--outputs", "y"],
    "half": lambda model, out: [model, out, "--runtime", "any"],
    "inspect": lambda model, out: [model, "--nodes"],
    "lower": lambda model, out: [model, out],
    "matrix": None,
    "new": None,
    "outputs": lambda model, out: [model, out, "--all"],
    "quantize": lambda model, out: [model, out, "--data", "inputs"],
    "run": lambda model, out: [model, "--input", "inputs", "--output", out, "--rows", "axis0"],
    "upgrade": lambda model, out: [model, out],
    "simplify": lambda model, out: [model, out],
    "stubs": None,
    "verify": None,
    "view": lambda model, out: [model, "--no-browser"],
}
READERS = sorted(name for name, words in WORDS.items() if words)
OUTPUTS = ("text", "--json")
WRITERS = ("edit", "extract", "half", "lower", "outputs", "quantize", "simplify", "upgrade")
