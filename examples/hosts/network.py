"""The network that the other hosts run, and the files that contain it.

    python network.py FOLDER

writes into FOLDER

    net.ts             TorchScript                  for libtorch
    net.pt2            an AOTInductor package       for libtorch (compiled: needs a C++ compiler)
    net.onnx           with function bodies         for ONNX Runtime in any language
    x.npy, factor.npy  one input of another size than the one that was exported
    y.npy              what PyTorch makes of it

Between our ops there are only operators that round nothing (Relu, Tile), so whoever runs our
kernels must get y.npy, bit for bit.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path

import numpy as np
import torch

import myops
import myops.onnx


class Net(torch.nn.Module):
    """Enlarges x (N, 2, H, W) by a factor (2,) that is known at run time only, then bends it."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(2, 2, 3, 3) / 4)
        self.bias = torch.nn.Parameter(torch.randn(2))

    def forward(self, x: torch.Tensor, factor: torch.Tensor) -> torch.Tensor:
        large = myops.interpolate(x, scale_factor=factor, mode="bicubic")
        offset = large.repeat(1, 9, 1, 1)
        bent = myops.deform_conv2d(large, offset, self.weight, self.bias, padding=1)
        return myops.my_add(bent.relu(), large)


def write(folder: Path, *, package: bool = True) -> None:
    """Writes the files above; without `package` all but net.pt2."""
    folder.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)
    net = Net().eval().requires_grad_(False)
    exported = torch.randn(2, 2, 8, 7), torch.tensor([2.0, 2.0])
    with warnings.catch_warnings():
        # torch recommends torch.export instead; programs that load TorchScript still exist.
        warnings.filterwarnings("ignore", ".*torch.jit", DeprecationWarning)
        torch.jit.script(net).save(folder / "net.ts")
    lengths = {"n": torch.export.Dim("n"), "h": torch.export.Dim("h"), "w": torch.export.Dim("w")}
    dynamic = {"x": {0: lengths["n"], 2: lengths["h"], 3: lengths["w"]}, "factor": None}
    myops.onnx.export(
        net, exported, folder / "net.onnx", input_names=["x", "factor"], output_names=["y"],
        dynamic_shapes=dynamic,
    )  # fmt: skip
    if package:
        program = torch.export.export(net, exported, dynamic_shapes=dynamic)
        torch._inductor.aoti_compile_and_package(program, package_path=str(folder / "net.pt2"))
    x, factor = torch.randn(3, 2, 12, 9), torch.tensor([2.5, 3.0])
    for name, tensor in (("x", x), ("factor", factor), ("y", net(x, factor))):
        np.save(folder / f"{name}.npy", tensor.numpy())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--no-package", action="store_true", help="leave out net.pt2")
    arguments = parser.parse_args()
    write(arguments.folder, package=not arguments.no_package)
