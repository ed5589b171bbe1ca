"""Where there is no GPU, nothing of this folder is collected: make test-cuda says so."""

import torch

collect_ignore_glob = [] if torch.cuda.is_available() else ["test_*.py"]
