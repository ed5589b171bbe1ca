"""Trains the three networks on the same pictures: minutes on two CPU cores.

python examples/deformable_digits/train.py --help
"""

from __future__ import annotations

import argparse
import functools
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from data import Digits, held_out_pictures, scatter, split
from model import DESIGNS, Network, accuracy, predict, save
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Table


@dataclass(frozen=True)
class Recipe:
    """How every network is trained.

    Args:
        epochs: How often each training digit is seen, each time placed anew.
        batch: Pictures a step.
        rate: Largest learning rate, of the offset convolutions too.
    """

    epochs: int = 100
    batch: int = 64
    rate: float = 1e-2


def train(
    name: str,
    digits: Digits,
    recipe: Recipe,
    seed: int,
    report: Callable[..., None] = lambda loss: None,
) -> Network:
    """Trains the network of `DESIGNS` called `name`.

    Args:
        name: A key of `DESIGNS`.
        digits: What to train on. The pictures depend on `seed` only, not on the network.
        recipe: The same for all networks, to be fair.
        seed: Of the first weights, the placing of the digits, and their order.
        report: Called after each epoch with `loss=` its mean loss.

    Returns:
        The network after the last epoch, in eval mode.
    """
    torch.manual_seed(seed)
    network = Network(DESIGNS[name])
    generator = torch.Generator().manual_seed(seed)
    count, batches = len(digits.labels), len(digits.labels) // recipe.batch
    optimizer = torch.optim.AdamW(network.parameters(), lr=recipe.rate)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, recipe.rate, recipe.epochs * batches)
    for _ in range(recipe.epochs):
        pictures = scatter(digits.images, generator)
        order = torch.randperm(count, generator=generator)[: batches * recipe.batch]
        total = 0.0
        for chosen in order.split(recipe.batch):
            loss = F.cross_entropy(network(pictures[chosen]), digits.labels[chosen])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            total += loss.item()
        report(loss=total / batches)
    return network.eval()


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    add = parser.add_argument
    add("--output", type=Path, default=Path("build/deformable_digits/digits.npz"), help="weights")
    add("--epochs", type=int, default=Recipe.epochs, help="each sees every training digit once")
    add("--batch", type=int, default=Recipe.batch, help="pictures a step")
    add("--rate", type=float, default=Recipe.rate, help="largest learning rate")
    add("--seeds", type=int, nargs="+", default=[0],
        help="train once with each; the weights of the first are written")  # fmt: skip
    add("--threads", type=int, default=0, help="of torch; 0: as many as torch takes")
    return parser.parse_args()


def main() -> None:
    args = arguments()
    if args.threads:
        torch.set_num_threads(args.threads)
    recipe = Recipe(args.epochs, args.batch, args.rate)
    digits = split()[0]
    pictures, labels = held_out_pictures()
    networks: dict[tuple[str, int], Network] = {}
    seconds: dict[str, float] = dict.fromkeys(DESIGNS, 0.0)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("loss {task.fields[loss]:.3f}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns) as progress:
        for seed in args.seeds:
            for name in DESIGNS:
                task = progress.add_task(f"{name}, seed {seed}", total=args.epochs, loss=0.0)
                start = time.perf_counter()
                report = functools.partial(progress.update, task, advance=1)
                networks[name, seed] = train(name, digits, recipe, seed, report)
                seconds[name] += time.perf_counter() - start

    kept = {name: networks[name, args.seeds[0]] for name in DESIGNS}
    save(kept, args.output)
    table = Table(title=f"Right on {len(labels)} pictures of digits not trained on")
    for heading in ("network", "weights", *(f"seed {seed}" for seed in args.seeds), "mean", "time"):
        table.add_column(heading, justify="left" if heading == "network" else "right")
    for name, network in kept.items():
        scores = [
            100 * accuracy(predict(networks[name, seed], pictures), labels) for seed in args.seeds
        ]
        table.add_row(
            name,
            str(network.weight_count()),
            *(f"{score:.1f}%" for score in scores),
            f"{statistics.mean(scores):.1f}%",
            f"{seconds[name] / len(args.seeds):.0f} s",
        )
    console = Console()
    console.print(table)
    size = args.output.stat().st_size / 1024
    console.print(f"weights: {args.output} ({size:.0f} KiB)", soft_wrap=True)


if __name__ == "__main__":
    main()
