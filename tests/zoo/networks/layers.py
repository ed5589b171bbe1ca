"""Layers that several networks of the zoo share."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import myops


def conv(inputs: int, outputs: int, kernel: int = 3, stride: int = 1) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False),
        nn.BatchNorm2d(outputs),
        nn.ReLU(inplace=True),
    )


class Residual(nn.Module):
    """Two convolutions with a skip connection, as in ResNet."""

    def __init__(self, inputs: int, outputs: int, stride: int = 1) -> None:
        super().__init__()
        self.first = conv(inputs, outputs, 3, stride)
        self.second = nn.Sequential(
            nn.Conv2d(outputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs)
        )
        self.shortcut = nn.Conv2d(inputs, outputs, 1, stride) if stride > 1 else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.second(self.first(x)) + self.shortcut(x))


class GuidedDeform(myops.nn.ModulatedDeformConv2dPack):
    """Offsets and mask come from a second tensor, not from the convolved one (DCNv2Pack)."""

    def forward(self, x: Tensor, guide: Tensor) -> Tensor:  # type: ignore[override]
        rows, columns, mask = self.conv_offset(guide).chunk(3, dim=1)
        offset = torch.cat((rows, columns), dim=1)
        return myops.deform_conv2d(
            x, offset, self.weight, self.bias, self.stride, self.padding, self.dilation,
            mask.sigmoid(),
        )  # fmt: skip


class Attention(nn.Module):
    """Multi-head self-attention on [N, tokens, C]."""

    def __init__(self, channels: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(channels, 3 * channels)
        self.out = nn.Linear(channels, channels)

    def forward(self, x: Tensor) -> Tensor:
        n, tokens, channels = x.shape
        qkv = self.qkv(x).reshape(n, tokens, 3, self.heads, channels // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        x = nn.functional.scaled_dot_product_attention(q, k, v)
        return self.out(x.transpose(1, 2).reshape(n, tokens, channels))


def mlp(channels: int, inner: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(channels, inner), nn.GELU(), nn.Linear(inner, channels))
