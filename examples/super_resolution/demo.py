"""One .onnx file enlarges a photograph by 2, 3, 4 and 2.5 in ONNX Runtime.

The factor is an input of the graph: the model is exported once. The photograph was not trained
on. Writes pictures and a side-by-side sheet, prints a table, and fails (exit status 1) if the
model does not beat bicubic or ONNX Runtime differs from PyTorch. A second file takes the bytes of
a PNG or JPEG and gives those of a PNG, see image_model.py.

python examples/super_resolution/demo.py --help
"""

from __future__ import annotations

import argparse
import io
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import image_model
import numpy as np
import torch
import torch.nn.functional as F
from data import HELD_OUT, Picture, photograph, psnr, read, shrink, to_picture, to_scales, to_tensor
from model import WEIGHTS, SuperResolution, load
from PIL import Image
from rich.console import Console
from rich.table import Table
from sheet import Row, draw

import myops.onnx
import myops.ort

# The largest difference from PyTorch that is allowed; a step of an 8-bit picture is 4e-3. Our
# Resize gives equal bits in both, while the convolutions are PyTorch's and ONNX Runtime's own and
# add up in different orders. With the target "onnx" the Resize is ONNX Runtime's, which rounds
# coordinates in another way.
BOUNDS = {"myops": 1e-5, "onnx": 1e-3}
# With the same model and Pillow around it, the same 8-bit pixels come out: the convolutions are
# those of one ONNX Runtime, which may yet choose another order of adding for them.
IMAGE_BOUND = 1
REPEATS = 3  # the fastest run counts
FACE = (172, 70, 100)  # left, top and side of the part of the photograph held out to show


@dataclass(frozen=True)
class Result:
    """What happened at one factor. PSNR in dB, difference on a scale of 0 to 1, seconds."""

    factor: float
    small: Picture
    bicubic: Picture
    ours: Picture
    target: Picture
    psnr_bicubic: float
    psnr_ours: float
    difference: float
    seconds: float

    def faults(self, bound: float) -> list[str]:
        """What is wrong, in words; empty if all is well. `bound` is on the difference."""
        found = []
        if not self.psnr_ours > self.psnr_bicubic:
            found.append(f"x{self.factor:g}: {self.psnr_ours:.2f} dB does not beat bicubic")
        if not self.difference <= bound:
            found.append(
                f"x{self.factor:g}: differs from PyTorch by {self.difference:.1e}, "
                f"expected at most {bound:.0e}"
            )
        return found


def export(model: SuperResolution, path: Path, exporter: str, target: str) -> None:
    """Writes the model with height, width and factor left open."""
    myops.onnx.export(
        model,
        (torch.rand(1, 3, 32, 48), to_scales(3.0)),
        path,
        input_names=["picture", "scales"],
        output_names=["enlarged"],
        dynamic_axes={"picture": {2: "height", 3: "width"}},
        exporter=exporter,
        target=target,
    )


def enlarge(session: Any, model: SuperResolution, picture: Picture, factor: float) -> Result:
    """Shrinks `picture`, enlarges it again in ONNX Runtime, and compares."""
    small, target = shrink(picture, factor)
    inputs, scales = to_tensor(small), to_scales(factor)
    feed = {"picture": inputs.numpy(), "scales": scales.numpy()}
    seconds = float("inf")
    for _ in range(REPEATS):
        start = time.perf_counter()
        (enlarged,) = session.run(None, feed)
        seconds = min(seconds, time.perf_counter() - start)
    with torch.no_grad():
        expected = model(inputs, scales).numpy()
    # PyTorch's own bicubic, not ours, is what we have to beat.
    both = (scales[2].item(), scales[3].item())
    bicubic = to_picture(F.interpolate(inputs, scale_factor=both, mode="bicubic").numpy())
    ours = to_picture(enlarged)
    return Result(
        factor=factor,
        small=small,
        bicubic=bicubic,
        ours=ours,
        target=target,
        psnr_bicubic=psnr(bicubic, target),
        psnr_ours=psnr(ours, target),
        difference=float(np.abs(enlarged - expected).max()),
        seconds=seconds,
    )


def table_of(results: list[Result]) -> Table:
    table = Table(title="ONNX Runtime: one file, any factor", caption="PSNR in dB, 8-bit pixels")
    for heading in ("factor", "small", "output", "PSNR\nbicubic", "PSNR\nours", "gain"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("diff. from\nPyTorch", justify="right", no_wrap=True)
    table.add_column("time", justify="right", no_wrap=True)
    for result in results:
        table.add_row(
            f"x{result.factor:g}",
            *("{1}x{0}".format(*pixels.shape) for pixels in (result.small, result.ours)),
            f"{result.psnr_bicubic:.2f}",
            f"{result.psnr_ours:.2f}",
            f"{result.psnr_ours - result.psnr_bicubic:+.2f}",
            f"{result.difference:.1e}",
            f"{result.seconds * 1e3:.0f} ms",
        )
    return table


def middle(results: list[Result]) -> tuple[int, int, int]:
    """Left, top and side of a square in the middle of what all the pictures show."""
    height, width = np.min([result.target.shape[:2] for result in results], axis=0).tolist()
    side = min(height, width, FACE[2])
    return (width - side) // 2, (height - side) // 2, side


def write_pictures(
    results: list[Result], picture: Picture, folder: Path, crop: tuple[int, int, int]
) -> Path:
    """Every picture as PNG, and the sheet of what `crop` shows; returns the sheet's path."""
    Image.fromarray(picture).save(folder / "original.png")
    rows = []
    for result in results:
        label = f"x{result.factor:g}"
        shape = (result.target.shape[1], result.target.shape[0])
        nearest = np.array(Image.fromarray(result.small).resize(shape, Image.Resampling.NEAREST))
        for name, pixels in {
            "small": result.small,
            "nearest": nearest,
            "bicubic": result.bicubic,
            "ours": result.ours,
        }.items():
            Image.fromarray(pixels).save(folder / f"{label}_{name}.png")
        notes = (
            f"{psnr(nearest, result.target):.2f} dB",
            f"{result.psnr_bicubic:.2f} dB",
            f"{result.psnr_ours:.2f} dB",
            "{1} x {0}".format(*result.target.shape),
        )
        rows.append(Row(label, nearest, result.bicubic, result.ours, result.target, notes))
    left, upper, side = crop
    draw(rows, (left, upper, left + side, upper + side)).save(folder / "sheet.png")
    return folder / "sheet.png"


def enlarge_bytes(path: Path, plain: Any, result: Result, folder: Path) -> tuple[str, list[str]]:
    """Runs the model that takes bytes on the small picture, as PNG and as JPEG.

    Returns:
        What came out, in words, and what is wrong with it.
    """
    session = image_model.session(path)
    seen, faults = [], []
    for kind, options in (("PNG", {}), ("JPEG", {"quality": 95, "subsampling": 0})):
        file = io.BytesIO()
        Image.fromarray(result.small).save(file, kind, **options)
        png = image_model.enlarge(session, file.getvalue(), result.factor)
        if kind == "PNG":
            (folder / f"x{result.factor:g}_from_bytes.png").write_bytes(png)
        pixels = read(io.BytesIO(png))
        expected = image_model.by_hand(plain, file.getvalue(), result.factor)
        same = pixels.shape == expected.shape
        steps = int(np.abs(pixels.astype(int) - expected).max()) if same else 255
        size = "{1}x{0}".format(*pixels.shape)
        seen.append(f"{kind} x{result.factor:g} -> PNG {size}, off by {steps} steps")
        if steps > IMAGE_BOUND:
            faults.append(f"{kind} bytes: {steps} steps off, expected at most {IMAGE_BOUND}")
    return "; ".join(seen), faults


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    add = parser.add_argument
    add("--output", type=Path, default=Path("build/super_resolution"), help="folder to write to")
    add("--image", type=Path, help="your own picture in place of the photograph held out")
    add("--factors", type=float, nargs="+", default=[2.0, 3.0, 4.0, 2.5], help="1 or more each")
    add("--crop", type=int, nargs=3, metavar=("X", "Y", "SIDE"),
        help="what the sheet shows; default: the face, or the middle of your picture")  # fmt: skip
    add("--weights", type=Path, default=WEIGHTS, help="what train.py wrote")
    add("--exporter", choices=("dynamo", "torchscript"), default="dynamo")
    add("--target", choices=("myops", "onnx"), default="myops",
        help="our node, or standard ONNX ops only")  # fmt: skip
    return parser.parse_args()


def main() -> int:
    args = arguments()
    console = Console()
    args.output.mkdir(parents=True, exist_ok=True)
    path = args.output / "super_resolution.onnx"
    model = load(args.weights)
    export(model, path, args.exporter, args.target)
    session = myops.ort.session(path)
    picture = photograph(HELD_OUT) if args.image is None else read(args.image)
    results = [enlarge(session, model, picture, factor) for factor in args.factors]

    image_path = args.output / "super_resolution_image.onnx"
    image_model.export(model, image_path, args.exporter, args.target)
    seen, image_faults = enlarge_bytes(image_path, session, results[-1], args.output)

    console.print(table_of(results))
    shown = args.image or f"{HELD_OUT}, which was not trained on"
    crop = args.crop or (FACE if args.image is None else middle(results))
    sheet = write_pictures(results, picture, args.output, crop)
    # soft_wrap: a path can be copied only if no line break is put into it
    console.print(f"photograph  {shown}", soft_wrap=True)
    console.print(f"model       {path} ({path.stat().st_size / 1024:.0f} KiB)", soft_wrap=True)
    size = image_path.stat().st_size / 1024
    console.print(f"bytes model {image_path} ({size:.0f} KiB)", soft_wrap=True)
    console.print(f"            {seen}", soft_wrap=True)
    console.print(f"sheet       {sheet}", soft_wrap=True)
    faults = image_faults + [
        fault for result in results for fault in result.faults(BOUNDS[args.target])
    ]
    for fault in faults:
        console.print(f"[red]FAILED[/red] {fault}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
