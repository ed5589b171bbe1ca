"""Tests that need a GPU: `make test-cuda` runs them, and prints a message without one."""

import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parent))
collect_ignore_glob = [] if torch.cuda.is_available() else ["test_*.py"]
