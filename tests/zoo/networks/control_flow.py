"""Loops and branches at run time: scripted modules, in which both become nodes."""

# No `from __future__ import annotations`: TorchScript reads annotations as objects.

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Recurrent(nn.Module):
    """A recurrent state, aligned with each of any number of frames [T, N, C, H, W]."""

    def __init__(self) -> None:
        super().__init__()
        self.conv_offset = nn.Conv2d(8, 27, 3, padding=1)
        self.weight = nn.Parameter(torch.randn(4, 4, 3, 3) / 6)
        self.mix = nn.Conv2d(8, 4, 3, padding=1)

    def forward(self, frames: Tensor) -> Tensor:
        state = torch.zeros_like(frames[0])
        for i in range(frames.shape[0]):
            found = self.conv_offset(torch.cat([frames[i], state], 1))
            offset, mask = found[:, :18], found[:, 18:]
            aligned = torch.ops.myops.deform_conv2d(
                state, self.weight, offset, None, torch.sigmoid(mask), pads=[1, 1, 1, 1]
            )
            state = torch.tanh(self.mix(torch.cat([frames[i], aligned], 1)))
        return state


class Refine(nn.Module):
    """Steps until convergence, at most as many as an input says; then a branch."""

    def __init__(self) -> None:
        super().__init__()
        self.step = nn.Conv2d(3, 3, 3, padding=1)

    def forward(self, x: Tensor, most: int) -> Tensor:
        moved = 1.0
        count = 0
        while moved > 0.05 and count < most:
            new = 0.5 * x + 0.2 * torch.tanh(self.step(x))
            moved = float((new - x).abs().mean())
            x = new
            count += 1
        if float(x.mean()) > 0.0:
            x = F.interpolate(x, scale_factor=2.0, mode="nearest")
        return x
