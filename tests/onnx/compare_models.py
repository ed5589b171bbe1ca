"""Models for the tests of `compare`, and functions that put faults into their files."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import torch
from onnx import numpy_helper
from torch import nn

import myops
import myops.nn
import myops.onnx

EXPORTERS = ("dynamo", "torchscript")


class Deep(nn.Module):
    """Layers of convolution, normalisation and activation; 50 by default."""

    def __init__(self, depth: int = 50) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            *[
                nn.Sequential(
                    nn.Conv2d(8 if number else 3, 8, 3, padding=1),
                    nn.BatchNorm2d(8),
                    nn.ReLU(inplace=True),
                )
                for number in range(depth)
            ]
        )
        self.head = nn.Linear(8, 10)
        for layer in self.layers:  # a normalisation that does something
            layer[1].running_mean.normal_(0, 0.1)
            layer[1].running_var.uniform_(0.1, 0.3)

    def forward(self, x):
        return self.head(self.layers(x).mean((2, 3)))


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(4, 4, 3, padding=1)
        self.act = nn.ReLU(inplace=True)

    def forward(self, x):
        return self.act(self.conv(x)) + x


class Containers(nn.Module):
    """Modules with difficult paths: shared, nested, and with similar names."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(4, 4, 1)
        self.conv_1 = nn.Conv2d(4, 4, 1)
        self.block = Block()
        self.block_1 = Block()
        self.only = nn.Sequential(nn.Sequential(nn.Conv2d(4, 4, 1)))
        self.one = nn.ModuleDict({"a": nn.Tanh(), "b": nn.ModuleList([nn.Conv2d(4, 4, 1)])})
        self.two = nn.ModuleDict({"a": nn.Sigmoid(), "b": nn.ModuleList([nn.Conv2d(4, 4, 1)])})
        self.drop = nn.Dropout()
        self.same = nn.Identity()
        self.never = nn.Linear(2, 2)

    def forward(self, x):
        y = self.conv_1(self.conv(self.conv(x)))
        y = self.block_1(self.block(self.block(self.conv(y))))
        y = self.drop(self.same(self.only(y)))
        y = self.two["b"][0](self.two["a"](self.one["b"][0](self.one["a"](y))))
        return {"out": y, "pair": (torch.sin(y), self.one["a"](y))}


class Ours(nn.Module):
    """Nodes of the domain "myops" between others."""

    def __init__(self) -> None:
        super().__init__()
        self.pre = nn.Conv2d(3, 4, 3, padding=1)
        self.deform = myops.nn.DeformConv2dPack(4, 4, 3, padding=1)
        self.post = nn.Conv2d(4, 2, 1)
        nn.init.normal_(self.deform.conv_offset.weight, std=0.1)

    def forward(self, image, factor):
        y = self.deform(self.pre(image))
        return self.post(myops.interpolate(y, scale_factor=factor, mode="bicubic"))


def export(model: nn.Module, args: Any, exporter: str, **options: Any) -> onnx.ModelProto:
    return myops.onnx.export(model, args, exporter=exporter, skip_checks="all", **options)


def node_of(model: onnx.ModelProto, op_type: str, number: int = 0) -> onnx.NodeProto:
    return [node for node in model.graph.node if node.op_type == op_type][number]


def set_attribute(node: onnx.NodeProto, name: str, value: Any) -> None:
    kept = [item for item in node.attribute if item.name != name]
    assert len(kept) == len(node.attribute) - 1, f"{node.op_type} has no attribute {name}"
    del node.attribute[:]
    node.attribute.extend([*kept, onnx.helper.make_attribute(name, value)])


def flip_weight(model: onnx.ModelProto, name: str) -> None:
    """Reverses the order of the rows of a weight."""
    (tensor,) = [item for item in model.graph.initializer if item.name == name]
    turned = np.ascontiguousarray(numpy_helper.to_array(tensor)[::-1])
    tensor.CopyFrom(numpy_helper.from_array(turned, name))


def calls_of(model: nn.Module, *args: Any) -> list[tuple[str, ...]]:
    """The stack of modules at each call of a module, in order; written without our library."""
    stack: list[str] = []
    calls: list[tuple[str, ...]] = []
    handles = []
    for path, module in model.named_modules():
        if not path:
            continue

        def enter(module, args, path=path):
            stack.append(path)
            calls.append(tuple(stack))

        handles.append(module.register_forward_pre_hook(enter))
        handles.append(module.register_forward_hook(lambda *_: (stack.pop(), None)[1]))
    model(*args)
    for handle in handles:
        handle.remove()
    return calls
