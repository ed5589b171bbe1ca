"""Writes what the page runs: the models, the digits and a photograph.

    super_resolution.onnx  byte for byte the file of examples/super_resolution/demo.py (`make demo`)
    bicubic.onnx           its first part, the enlarging, to compare with
    refine.onnx            its second part, the convolutions, for GPUs
    digits.onnx            the network of examples/deformable_digits, with its sampling positions
    digits.json            handwritten digits that were not trained on, 8x8 pixels of 0 to 16
    photograph.png         the photograph that was not trained on

python examples/playground/models.py --help
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from pathlib import Path

import onnx
import torch
from torch import Tensor, nn

import myops.onnx

sys.path.insert(0, str(Path(__file__).parents[1] / "deformable_digits"))

from data import place, split
from model import Network, load
from sampling import taps_of_both

COPIES = 3  # of each digit


class Sampling(nn.Module):
    """The network, the drawing of its picture, and where its deformable layers sample it."""

    def __init__(self, network: Network) -> None:
        super().__init__()
        self.network = network

    def forward(
        self, image: Tensor, side: Tensor, degrees: Tensor, centre: Tensor
    ) -> tuple[Tensor, ...]:
        """Places a digit on a picture and reads it.

        Args:
            image, side, degrees, centre: See `place`; one digit, Tensor[1, 1, 8, 8].

        Returns:
            The picture [1, 1, 28, 28], the scores [1, 10], and of the second and the third layer
            the positions of the taps [h, w, 9, 2], y and x, and their masks [h, w, 9].
        """
        picture = place(image, side.clamp_min(1.0), degrees, centre)  # not divided by 0
        second, third = taps_of_both(self.network, picture)
        scores = self.network(picture)
        return picture, scores, second.moved, second.mask, third.moved, third.mask


def cut(model: Path) -> None:
    """Writes bicubic.onnx and refine.onnx, the two parts of super_resolution.onnx, beside it.

    onnxruntime-web's build for GPUs has no float64, in which the first part computes lengths and
    coordinates.
    """
    graph = onnx.load(model).graph
    (enlarged,) = (node.output[0] for node in graph.node if node.domain == "myops")
    picture, scales = (value.name for value in graph.input)
    result = graph.output[0].name
    for name, inputs, output in (
        ("bicubic.onnx", [picture, scales], enlarged),
        ("refine.onnx", [enlarged, scales], result),
    ):
        myops.onnx.extract(model, inputs, [output], model.with_name(name))


def export_digits(path: Path) -> None:
    """Writes digits.onnx, for one digit at a time."""
    example = (torch.rand(1, 1, 8, 8), torch.tensor([18.0]), torch.tensor([10.0]), torch.ones(1, 2))
    myops.onnx.export(
        Sampling(load()["deformable"]).eval(),
        example,
        path,
        input_names=["image", "side", "degrees", "centre"],
        output_names=[
            "picture", "scores", "second_taps", "second_mask", "third_taps", "third_mask"
        ],
    )  # fmt: skip


def write_digits(path: Path) -> None:
    """Writes the first held-out images of each digit: `{"3": [[64 numbers], ...], ...}`."""
    held_out = split()[1]
    found = {}
    for digit in range(10):
        images = held_out.images[held_out.labels == digit][:COPIES]
        found[str(digit)] = (images * 16).round().int().reshape(COPIES, 64).tolist()
    path.write_text(json.dumps(found))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--demo", type=Path, default=Path("build/super_resolution"),
        help="what examples/super_resolution/demo.py wrote")  # fmt: skip
    add("--output", type=Path, default=Path("build/playground_models"), help="folder to write to")
    args = parser.parse_args()
    model = args.demo / "super_resolution.onnx"
    if not model.is_file():
        parser.error(f"no {model}: `make demo` writes it")
    args.output.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(model, args.output / "super_resolution.onnx")
    shutil.copyfile(args.demo / "original.png", args.output / "photograph.png")
    cut(args.output / "super_resolution.onnx")
    export_digits(args.output / "digits.onnx")
    write_digits(args.output / "digits.json")


if __name__ == "__main__":
    main()
