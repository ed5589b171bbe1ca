"""A call of every case with first and second gradients: what compute-sanitizer watches.

scripts/test_on_gpu.sh runs it.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch


def main() -> None:
    sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1])]
    from gpu_cases import ON_DEVICE

    for name, (function, case, *_) in ON_DEVICE.items():
        leaves = [item.cuda().requires_grad_() for item in case.tensors]
        result = function(*leaves)
        arriving = torch.ones_like(result).requires_grad_()
        found = torch.autograd.grad(result, leaves, arriving, create_graph=True)
        torch.stack([item.square().sum() for item in found]).sum().backward()
        torch.cuda.synchronize()
        print(name)


if __name__ == "__main__":
    main()
