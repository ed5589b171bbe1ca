"""`python benchmarks/run.py --help`: makes the folder above importable, then starts the command."""

import sys
from pathlib import Path

# Replaces benchmarks/ itself, whose peers/ hold modules that are named like the peers.
sys.path[0] = str(Path(__file__).resolve().parents[1])

from benchmarks.cli import main  # noqa: E402

if __name__ == "__main__":
    main()
