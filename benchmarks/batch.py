"""Rows a second of `myops run`, beside a plain loop over session.run, and Ray Data by hand.

python benchmarks/batch.py                     # 3 minutes on 2 cores
python benchmarks/batch.py --part digits       # or pictures, rows, cores
python benchmarks/batch.py --part ray          # needs myops[ray]

Candidates run in turns, each round in another order; the table has the median of the rounds. A
plain loop is what a program does without us: it reads, decodes, runs a session with default
settings, encodes and writes, one row after the other, or 16 rows in a call. The part `cores` shows
how the defaults would do on more cores than this machine has: calls of the model wait as long as
they would take there, and compute nothing.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

sys.path[0] = str(Path(__file__).resolve().parents[1])

from benchmarks.batch_runs import inputs, more_cores, on_ray, one_machine  # noqa: E402


def main() -> None:
    shown = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=shown)
    parser.add_argument("--part", choices=("pictures", "digits", "rows", "cores", "ray"), nargs="*",
                        default=["pictures", "digits", "rows", "cores"])  # fmt: skip
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--pictures", type=int, default=128)
    parser.add_argument("--digits", type=int, default=4096)
    parser.add_argument("--most", type=int, default=1_000_000)
    parser.add_argument("--models", type=Path, help="a folder with the two exported models")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if args.models:
            for path in args.models.glob("*.onnx"):
                shutil.copy(path, folder)
        elif {"pictures", "digits", "rows", "ray"} & set(args.part):
            inputs.exported(folder)
        if "pictures" in args.part:
            one_machine.pictures(folder, args.pictures, args.rounds)
        if "digits" in args.part:
            one_machine.digits(folder, args.digits, args.rounds)
        if "rows" in args.part:
            one_machine.rows(folder, args.most, args.rounds)
        if "cores" in args.part:
            for cores in (4, 8, 16):
                more_cores.on_more_cores(folder, cores, 32 * cores)
        if "ray" in args.part:
            on_ray.by_ray(folder, args.digits, args.pictures, args.rounds)


if __name__ == "__main__":
    main()
