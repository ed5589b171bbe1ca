"""Writes, into the current folder, the files that the recorded commands read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx
import torch

import myops.onnx

NETWORK = """
import torch
import myops


class Block(torch.nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv1 = torch.nn.Conv2d(channels, channels, 3, padding=1)
        self.conv2 = torch.nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, x):
        return x + self.conv2(self.conv1(x).relu())


class Network(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = torch.nn.Conv2d(3, 8, 3, padding=1)
        self.blocks = torch.nn.Sequential(*[Block(8) for _ in range(3)])
        self.head = torch.nn.Conv2d(8, 3, 1)

    def forward(self, x):
        return self.head(myops.interpolate(self.blocks(self.stem(x)), scale_factor=2.0))


def example():
    torch.manual_seed(0)
    return Network(), (torch.rand(1, 3, 16, 16),)
"""


def main() -> None:
    Path("network.py").write_text(NETWORK)
    names: dict[str, Any] = {}
    exec(NETWORK, names)
    torch.manual_seed(0)
    model, args = names["example"]()
    exported = myops.onnx.export(model, args, "network.onnx")
    # A convolution in the middle gets pads that keep the size and are wrong.
    convs = [node for node in exported.graph.node if node.op_type == "Conv"]
    for attribute in convs[3].attribute:
        if attribute.name == "pads":
            attribute.ints[:] = [2, 1, 0, 1]
    onnx.save(exported, "broken.onnx")
    for node in exported.graph.node:
        if node.domain == "myops":
            node.op_type = "Resise"
    onnx.save(exported, "misspelled.onnx")


if __name__ == "__main__":
    main()
