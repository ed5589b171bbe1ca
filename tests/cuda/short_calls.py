"""A call of every case in two dtypes with its gradients, for compute-sanitizer.

scripts/test_on_gpu.sh runs it.
"""

from __future__ import annotations

import itertools
import sys
from pathlib import Path

import torch


def main() -> None:
    sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1])]
    from gpu_cases import ON_DEVICE

    pairs = itertools.product(ON_DEVICE.items(), (torch.float32, torch.bfloat16))
    for (name, (function, case, *_)), dtype in pairs:
        leaves = [item.to("cuda", dtype).requires_grad_() for item in case.tensors]
        result = function(*leaves)
        arriving = torch.ones_like(result).requires_grad_()
        found = torch.autograd.grad(result, leaves, arriving, create_graph=True)
        torch.stack([item.square().sum() for item in found]).sum().backward()
        torch.cuda.synchronize()
        print(name, dtype)


if __name__ == "__main__":
    main()
