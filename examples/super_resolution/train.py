"""Trains the super-resolution model: a few minutes on two CPU cores.

python examples/super_resolution/train.py --help
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from data import HELD_OUT, TRAINING, photograph, psnr, shrink, to_picture, to_scales, to_tensor
from model import FACTORS, SuperResolution, save
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from torch import Tensor

Pair = tuple[Tensor, Tensor]  # the enlarged picture and the original, [1, 3, H, W] each


class Photographs:
    """Random patches of the training photographs, each batch at one factor.

    Args:
        factors: What to shrink and enlarge by.
        patch: Height and width of a patch, in pixels of the original.
        batch: Patches a step.
        seed: Of the patches' random generator.
    """

    def __init__(self, factors: tuple[float, ...], patch: int, batch: int, seed: int) -> None:
        self.patch, self.batch = patch, batch
        self.random = np.random.default_rng(seed)
        self.pairs: dict[float, list[Pair]] = {factor: [] for factor in factors}
        enlarge = SuperResolution().enlarge
        for name in TRAINING:
            picture = photograph(name)
            original = to_tensor(picture)  # all factors share it
            for factor, pairs in self.pairs.items():
                enlarged = enlarge(to_tensor(shrink(picture, factor)[0]), to_scales(factor))
                height, width = enlarged.shape[2:]
                pairs.append((enlarged, original[:, :, :height, :width]))
        # How far bicubic is off: what the loss of each factor is measured against.
        self.bicubic_error = {
            factor: float(np.mean([(a - b).square().mean() for a, b in pairs]))
            for factor, pairs in self.pairs.items()
        }

    def batches(self) -> Iterator[tuple[float, Tensor, Tensor]]:
        """Endlessly: a factor, and Tensor[batch, 3, patch, patch] of enlarged and original."""
        while True:
            factor = float(self.random.choice(list(self.pairs)))
            pairs = self.pairs[factor]
            areas = np.array([original[0, 0].numel() for _, original in pairs])
            chosen = self.random.choice(len(pairs), self.batch, p=areas / areas.sum())
            patches = [self._patch(pairs[index]) for index in chosen]
            yield factor, torch.cat([a for a, _ in patches]), torch.cat([b for _, b in patches])

    def _patch(self, pair: Pair) -> Pair:
        height, width = pair[0].shape[2:]
        y = int(self.random.integers(height - self.patch + 1))
        x = int(self.random.integers(width - self.patch + 1))
        flip, turns = bool(self.random.integers(2)), int(self.random.integers(4))

        def view(picture: Tensor) -> Tensor:
            picture = picture[:, :, y : y + self.patch, x : x + self.patch]
            return (picture.flip(3) if flip else picture).rot90(turns, (2, 3))

        return view(pair[0]), view(pair[1])


def train(photographs: Photographs, steps: int, rate: float, seed: int) -> SuperResolution:
    """Minimises the squared error, each factor's relative to that of bicubic.

    Without that the large factors, whose errors are larger, would take the weights for
    themselves. The loss shown is that ratio, smoothed: below 1 is better than bicubic.
    """
    torch.manual_seed(seed)
    model = SuperResolution()
    # Nearly twice as fast to train on a CPU; torch's stub does not know the argument alone.
    model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    optimizer = torch.optim.Adam(model.parameters(), lr=rate)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, rate, steps, pct_start=0.05)
    columns = (
        TextColumn("training"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("error against bicubic {task.fields[loss]:.3f}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns) as progress:
        task = progress.add_task("training", total=steps, loss=1.0)
        smooth = 1.0
        for step, (factor, enlarged, original) in enumerate(photographs.batches()):
            if step == steps:
                break
            refined = model.refine(
                enlarged.contiguous(memory_format=torch.channels_last), to_scales(factor)
            )
            ratio = (refined - original).square().mean() / photographs.bicubic_error[factor]
            optimizer.zero_grad()
            # Adam's step does not depend on the scale of the loss, but its epsilon does: a
            # squared error of pictures from 0 to 1 is about this small.
            (ratio * 1e-3).backward()
            optimizer.step()
            schedule.step()
            smooth += (ratio.item() - smooth) * min(0.5, 20 / steps)
            progress.update(task, advance=1, loss=smooth)
    return model.eval()


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    add = parser.add_argument
    add("--output", type=Path, default=Path("build/super_resolution/srcnn.npz"), help="weights")
    add("--steps", type=int, default=6000, help="training steps")
    add("--batch", type=int, default=8, help="patches a step")
    add("--patch", type=int, default=48, help="height and width of a patch")
    add("--rate", type=float, default=1e-3, help="largest learning rate")
    add("--seed", type=int, default=0, help="of the weights and the patches")
    add("--threads", type=int, default=0, help="of torch; 0: as many as torch takes")
    return parser.parse_args()


def main() -> None:
    args = arguments()
    if args.threads:
        torch.set_num_threads(args.threads)
    console = Console()
    console.print(f"{len(TRAINING)} photographs: {', '.join(TRAINING)}")
    photographs = Photographs(FACTORS, args.patch, args.batch, args.seed)
    model = train(photographs, args.steps, args.rate, args.seed)
    save(model, args.output)
    console.print(f"weights: {args.output} ({args.output.stat().st_size / 1024:.0f} KiB)")

    console.print(f"PSNR on [bold]{HELD_OUT}[/bold], which was not trained on:")
    picture = photograph(HELD_OUT)
    for factor in FACTORS:
        small, target = shrink(picture, factor)
        with torch.no_grad():
            enlarged = model.enlarge(to_tensor(small), to_scales(factor))
            refined = model.refine(enlarged, to_scales(factor))
        before, after = (psnr(to_picture(x.numpy()), target) for x in (enlarged, refined))
        console.print(f"  x{factor:g}  bicubic {before:.2f} dB, ours {after:.2f} dB")


if __name__ == "__main__":
    main()
