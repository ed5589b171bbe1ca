"""The cases of the zoo: a network, example inputs, dynamic axes, and twelve other sizes of each."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from zoo.networks import any_factor, control_flow, dense, video
from zoo.networks import vision_transformers as transformers

Size = tuple[Any, ...]


@dataclass(frozen=True)
class Case:
    """A network of the zoo.

    build: Makes it, with random weights.
    inputs: The inputs of a size.
    example, sizes: The size that is exported, and the others that are run.
    refused: What cannot be exported, by exporter, with a part of the reason.
    multiple: What lengths are multiples of.
    structure: What it has in common with the network that it is like.
    """

    name: str
    structure: str
    build: Callable[[], nn.Module]
    inputs: Callable[[Size, torch.Generator], tuple[Any, ...]]
    axes: Mapping[str, Mapping[int, str]]
    example: Size
    sizes: Sequence[Size]
    refused: Mapping[str, str] = field(default_factory=dict)
    multiple: int = 1
    fast: bool = False  # whether it is in `make test`

    def model(self) -> nn.Module:
        """The network with offsets that are not zero, and the statistics of the example."""
        torch.manual_seed(len(self.name))
        model = self.build()
        with torch.no_grad():
            for name, value in model.named_parameters():
                if "offset" in name and value.abs().max() == 0:
                    value.normal_(std=0.1)
            norms = [item for item in model.modules() if isinstance(item, nn.BatchNorm2d)]
            for norm in norms:
                norm.momentum = 1.0
            if norms:
                model.train()(*self.made(self.example))
        return model.eval()

    def made(self, size: Size) -> tuple[Any, ...]:
        generator = torch.Generator().manual_seed(sum(map(int, size)))
        return self.inputs(size, generator)


def _image(channels: int = 3, lead: tuple[int, ...] = (1,)) -> Callable[..., tuple[Tensor, ...]]:
    def make(size: Size, generator: torch.Generator) -> tuple[Tensor, ...]:
        return (torch.rand(*lead, channels, *size, generator=generator),)

    return make


# Odd, prime, even, smaller, larger, wide, tall, square.
_SIZES = [(37, 41), (31, 31), (40, 64), (64, 40), (29, 53), (17, 19), (23, 71), (66, 34), (48, 48),
          (33, 16), (16, 45), (73, 59)]  # fmt: skip
_SMALL = [(13, 11), (8, 8), (17, 24), (24, 9), (9, 16), (11, 25), (16, 16), (19, 10), (15, 15),
          (12, 23), (21, 13), (10, 18)]  # fmt: skip


def _multiples(of: int) -> list[Size]:
    quotients = [(2, 3), (3, 3), (5, 4), (2, 5), (1, 2), (5, 2), (3, 5), (2, 1), (2, 2), (5, 1),
                 (1, 5), (4, 3)]  # fmt: skip
    return [(of * a, of * b) for a, b in quotients]


def _hw(multiple: int = 1, first: int = 2) -> dict[int, str]:
    times = f"{multiple}*" if multiple > 1 else ""
    return {first: f"{times}height", first + 1: f"{times}width"}


def _plain(name: str, structure: str, build: Any, **options: Any) -> Case:
    """An image of any size goes in."""
    options.setdefault("axes", {"x": _hw()})
    options.setdefault("inputs", _image())
    return Case(name, structure, build, **{"example": (32, 44), "sizes": _SIZES, **options})


def _stride(name: str, structure: str, build: Any, multiple: int, **options: Any) -> Case:
    """An image whose lengths are multiples of the network's stride."""
    sizes = _multiples(multiple)
    options.setdefault("inputs", _image())
    options.setdefault("axes", {"x": _hw(multiple)})
    example = (3 * multiple, 4 * multiple)
    return Case(name, structure, build, **{"example": example, "sizes": sizes,
                                           "multiple": multiple, **options})  # fmt: skip


def _queries(size: Size, generator: torch.Generator) -> tuple[Tensor, ...]:
    h, w, count = size
    image = torch.rand(1, 3, h, w, generator=generator)
    places = torch.rand(1, count, 2, generator=generator) * 2 - 1
    return image, places, torch.full((1, count, 2), 2 / math.sqrt(count))


def _factor(count: int) -> Any:
    def make(size: Size, generator: torch.Generator) -> tuple[Tensor, ...]:
        h, w, *factors = size
        factor = torch.tensor(factors[0] if count == 0 else factors)
        return torch.rand(1, 3, h, w, generator=generator), factor

    return make


def _frames(size: Size, generator: torch.Generator) -> tuple[Tensor, ...]:
    t, h, w = size
    return (torch.rand(t, 1, 4, h, w, generator=generator),)


def _steps(size: Size, generator: torch.Generator) -> tuple[Any, ...]:
    h, w, most, shift = size
    return torch.rand(1, 3, h, w, generator=generator) + shift, most


_FACTORS = [1.5, 2.0, 2.5, 3.0, 1.25, 3.7, 4.0, 1.0, 2.2, 0.75, 1.9, 2.75]

CASES = [
    _stride("BiRefNet", "encoder at two sizes, deformable pyramid in the decoder, patches of the "
            "image", dense.BiRefNet, 16),
    _stride("EDVR", "pyramid of deformable alignments with cascade, temporal attention",
            video.Edvr, 4, inputs=_image(lead=(1, 3)), axes={"x": _hw(4, 3)}),
    _plain("BasicVSR++", "recurrent propagation in both directions, flow-guided deformable "
           "alignment of second order", video.BasicVsr, inputs=_image(lead=(1, 3)),
           axes={"x": _hw(1, 3)}, example=(12, 14), sizes=_SMALL),
    _stride("CenterNet", "ResNet with deformable layers, peaks by topk", dense.CenterNet, 16,
            fast=True),
    _stride("DLA34", "levels aggregated repeatedly with deformable layers", dense.Dla, 8),
    _plain("U-Net", "skip connections, padded where a length is odd", dense.UNet, fast=True),
    _plain("PSPNet", "pyramid of adaptive poolings", dense.PspNet),
    _plain("SegFormer", "overlapping patches, keys of lower resolution, depthwise "
           "convolution of tokens",
           transformers.SegFormer),
    _stride("DINOv2", "positions resized by size", transformers.Dino, 14, fast=True),
    _stride("DINOv2, factor", "positions resized by a factor of lengths",
            lambda: transformers.Dino(by_factor=True), 14,
            refused={"dynamo": "a length would be built in",
                     "torchscript": "a function of torch that takes plain numbers gets a tensor"}),
    _stride("DINOv2, registers", "positions resized with antialias",
            lambda: transformers.Dino(antialias=True), 14),
    _plain("Depth Anything", "the image made a multiple of 14 inside, features fused by size",
           transformers.DepthAnything, example=(43, 58)),
    _plain("Depth Anything, int()", "the same with int(h // 14 * 14)",
           lambda: transformers.DepthAnything(with_int=True), example=(43, 58),
           refused=dict.fromkeys(("dynamo", "torchscript"), "a length would be built in")),
    _plain("Swin", "shifted windows with masks and padding", transformers.Swin),
    Case("LIIF", "colours at any positions, from a grid of coordinates", any_factor.Liif, _queries,
         {"image": _hw(), "places": {1: "count"}, "cell": {1: "count"}}, (9, 12, 20),
         [(*size, 7 * i + 3) for i, size in enumerate(_SIZES)]),
    Case("Meta-SR", "a filter for each pixel, predicted from the factor", any_factor.MetaSr,
         _factor(0), {"x": _hw()}, (8, 11, 2.5),
         [(h // 2, w // 2, f) for (h, w), f in zip(_SIZES, _FACTORS, strict=True)]),
    Case("ArbRCAN", "channel attention, filters and positions that depend on two factors",
         any_factor.ArbRcan, _factor(2), {"x": _hw()}, (8, 11, 2.5, 2.0),
         [(h // 2, w // 2, f, g)
          for (h, w), f, g in zip(_SIZES, _FACTORS, _FACTORS[::-1], strict=True)], fast=True),
    Case("recurrent alignment, scripted", "a loop over any number of frames",
         lambda: torch.jit.script(control_flow.Recurrent()), _frames,
         {"frames": {0: "frames", 3: "height", 4: "width"}}, (3, 8, 9),
         [(1 + i % 5, h, w) for i, (h, w) in enumerate(_SIZES)],
         refused={"dynamo": "got a scripted module"}),
    Case("refinement, scripted", "steps until convergence, a branch on a value",
         lambda: torch.jit.script(control_flow.Refine()), _steps, {"x": _hw()}, (8, 9, 6, 0.5),
         [(h, w, 1 + i, (-1) ** i) for i, (h, w) in enumerate(_SIZES)],
         refused={"dynamo": "got a scripted module"}),
]  # fmt: skip
