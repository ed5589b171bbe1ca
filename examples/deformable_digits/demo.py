"""A network with deformable layers beats plain ones and gives equal answers in ONNX Runtime.

Measures the three trained networks on digits that were not trained on, exports the deformable one,
runs it in ONNX Runtime and draws where it samples. Fails (exit status 1) if a plain network is as
good or an answer differs.

python examples/deformable_digits/demo.py --help
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from data import held_out_pictures, split
from model import WEIGHTS, Network, accuracy, load, predict
from rich.console import Console
from rich.table import Table
from sampling import draw
from torch import Tensor

import myops.onnx
import myops.ort

EXPORTERS = ("dynamo", "torchscript")

# Our deformable layers give equal bits in both; the plain convolutions are PyTorch's and ONNX
# Runtime's own, and add up in different orders. Scores lie between about -30 and 30.
BOUND = 1e-3


@dataclass(frozen=True)
class Measured:
    """One network on the held-out pictures, in PyTorch.

    Args:
        name: Key of `DESIGNS`.
        weights: How many numbers were trained.
        scores: Tensor[N, 10].
        right: Share of right answers, 0 to 1.
    """

    name: str
    weights: int
    scores: Tensor
    right: float


@dataclass(frozen=True)
class Run:
    """The deformable network in ONNX Runtime, against PyTorch.

    Args:
        exporter: Which of torch's exporters wrote the file.
        path: The file.
        right: Share of right answers, 0 to 1.
        differ: How many answers differ from PyTorch's.
        difference: The largest difference of any score.
        seconds: For all pictures.
    """

    exporter: str
    path: Path
    right: float
    differ: int
    difference: float
    seconds: float


def measure(networks: dict[str, Network], pictures: Tensor, labels: Tensor) -> list[Measured]:
    """Every network on the same pictures, in PyTorch."""
    measured = []
    for name, network in networks.items():
        scores = predict(network, pictures)
        measured.append(Measured(name, network.weight_count(), scores, accuracy(scores, labels)))
    return measured


def run_onnx(
    network: Network,
    scores: Tensor,
    pictures: Tensor,
    labels: Tensor,
    path: Path,
    exporter: str,
    target: str,
) -> Run:
    """Exports `network` for any number of pictures, and compares with its `scores` in PyTorch."""
    myops.onnx.export(
        network,
        (pictures[:2],),
        path,
        input_names=["pictures"],
        output_names=["scores"],
        dynamic_axes={"pictures": {0: "count"}},
        exporter=exporter,
        target=target,
    )
    session = myops.ort.session(path)
    start = time.perf_counter()
    (found,) = session.run(None, {"pictures": pictures.numpy()})
    seconds = time.perf_counter() - start
    return Run(
        exporter,
        path,
        accuracy(torch.from_numpy(found), labels),
        int((found.argmax(1) != scores.numpy().argmax(1)).sum()),
        float(np.abs(found - scores.numpy()).max()),
        seconds,
    )


def faults_of(measured: list[Measured], runs: list[Run]) -> list[str]:
    """What is wrong, in words; empty if all is well. The deformable network is the last."""
    *others, ours = measured
    found = [
        f"{ours.name}, {ours.right:.1%} right, does not beat {other.name}, {other.right:.1%}"
        for other in others
        if not ours.right > other.right
    ]
    for run in runs:
        if run.differ:
            found.append(f"{run.exporter}: {run.differ} answers differ from PyTorch's")
        if not run.difference <= BOUND:
            found.append(
                f"{run.exporter}: scores differ from PyTorch's by {run.difference:.1e}, expected "
                f"at most {BOUND:.0e}"
            )
    return found


def networks_table(measured: list[Measured], count: int) -> Table:
    table = Table(title=f"PyTorch, {count} pictures of digits not trained on")
    for heading in ("network", "weights", "right", "wrong"):
        table.add_column(heading, justify="left" if heading == "network" else "right")
    for item in measured:
        wrong = round((1 - item.right) * count)
        table.add_row(item.name, str(item.weights), f"{item.right:.1%}", str(wrong))
    return table


def runs_table(runs: list[Run]) -> Table:
    table = Table(title="ONNX Runtime, the deformable network on the same pictures")
    for heading in (
        "exporter",
        "right",
        "answers that\ndiffer",
        "largest diff.\nof a score",
        "time",
    ):
        table.add_column(heading, justify="left" if heading == "exporter" else "right")
    for item in runs:
        table.add_row(
            item.exporter,
            f"{item.right:.1%}",
            str(item.differ),
            f"{item.difference:.1e}",
            f"{item.seconds:.1f} s",
        )
    return table


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    add = parser.add_argument
    add("--output", type=Path, default=Path("build/deformable_digits"), help="folder to write to")
    add("--weights", type=Path, default=WEIGHTS, help="what train.py wrote")
    add("--digit", type=int, choices=range(10), default=3, metavar="0..9", help="in the picture")
    add("--copies", type=int, default=4, help="pictures of each held-out digit")
    add("--exporters", choices=EXPORTERS, nargs="+", default=list(EXPORTERS))
    add("--target", choices=("myops", "onnx"), default="myops",
        help="our node, or standard ONNX ops only")  # fmt: skip
    return parser.parse_args()


def main() -> int:
    args = arguments()
    console = Console()
    args.output.mkdir(parents=True, exist_ok=True)
    networks = load(args.weights)
    pictures, labels = held_out_pictures(args.copies)
    measured = measure(networks, pictures, labels)
    console.print(networks_table(measured, len(labels)))

    deformable, scores = networks["deformable"], measured[-1].scores
    runs = []
    for name in args.exporters:
        path = args.output / f"digits_{name}.onnx"
        runs.append(run_onnx(deformable, scores, pictures, labels, path, name, args.target))
    console.print(runs_table(runs))

    held_out = split()[1]
    first = int((held_out.labels == args.digit).nonzero()[0])
    draw(deformable, held_out.images[first : first + 1], args.output / "sampling.png")
    # soft_wrap: a path can be copied only if no line break is put into it
    for item in runs:
        size = item.path.stat().st_size / 1024
        console.print(f"model    {item.path} ({size:.0f} KiB)", soft_wrap=True)
    console.print(f"picture  {args.output / 'sampling.png'}", soft_wrap=True)
    faults = faults_of(measured, runs)
    for fault in faults:
        console.print(f"[red]FAILED[/red] {fault}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
