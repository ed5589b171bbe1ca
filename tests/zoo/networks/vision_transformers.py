"""Transformers on images of any size: DINOv2, Depth Anything, SegFormer, Swin."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import myops
from zoo.networks.layers import Attention, Residual, mlp


class Block(nn.Module):
    def __init__(self, channels: int, heads: int) -> None:
        super().__init__()
        self.norm, self.attention = nn.LayerNorm(channels), Attention(channels, heads)
        self.second_norm, self.mlp = nn.LayerNorm(channels), mlp(channels, 2 * channels)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm(x))
        return x + self.mlp(self.second_norm(x))


class Dino(nn.Module):
    """Tokens of patches of 14; the table of positions is resized to their number.

    by_factor: As DINOv2's first release does it: a factor with 0.1 added against rounding, made
        of lengths; otherwise by size.
    antialias: As the models with registers do it.
    """

    def __init__(self, by_factor: bool = False, antialias: bool = False, table: int = 4) -> None:
        super().__init__()
        c = 16
        self.by_factor, self.antialias, self.table = by_factor, antialias, table
        self.patches = nn.Conv2d(3, c, 14, 14)
        self.register = nn.Parameter(torch.randn(1, 1, c))
        self.positions = nn.Parameter(torch.randn(1, 1 + table * table, c))
        self.blocks = nn.ModuleList(Block(c, 2) for _ in range(2))
        self.norm = nn.LayerNorm(c)

    def _positions(self, h: int, w: int) -> Tensor:
        first, rest = self.positions[:, :1], self.positions[:, 1:]
        rest = rest.reshape(1, self.table, self.table, -1).permute(0, 3, 1, 2)
        if self.by_factor:
            factor = (h + 0.1) / self.table, (w + 0.1) / self.table
            rest = F.interpolate(rest, scale_factor=factor, mode="bicubic")
        else:
            rest = F.interpolate(rest, size=(h, w), mode="bicubic", antialias=self.antialias)
        return torch.cat([first, rest.permute(0, 2, 3, 1).reshape(1, h * w, -1)], 1)

    def forward(self, x: Tensor) -> Tensor:
        h, w = x.shape[2] // 14, x.shape[3] // 14
        tokens = self.patches(x).flatten(2).transpose(1, 2)
        tokens = torch.cat([self.register.expand(x.shape[0], -1, -1), tokens], 1)
        x = tokens + self._positions(h, w)
        for block in self.blocks:
            x = block(x)
        return self.norm(x)


class DepthAnything(nn.Module):
    """Depth of an image of any size, which is first made a multiple of the patch."""

    def __init__(self, with_int: bool = False) -> None:
        super().__init__()
        self.with_int = with_int
        self.backbone = Dino()
        self.project = nn.ModuleList([nn.Conv2d(16, 8, 1), nn.Conv2d(16, 8, 1)])
        self.larger = nn.ConvTranspose2d(8, 8, 2, 2)
        self.fuse = nn.ModuleList([Residual(8, 8), Residual(8, 8)])
        self.last = nn.Conv2d(8, 1, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        h, w = x.shape[2:]
        size = (h // 14 * 14, w // 14 * 14)
        if self.with_int:
            size = (int(size[0]), int(size[1]))
        tokens = self.backbone(F.interpolate(x, size=size, mode="bilinear", align_corners=True))
        grid = tokens[:, 1:].transpose(1, 2).reshape(x.shape[0], -1, size[0] // 14, size[1] // 14)
        near, far = self.larger(self.project[0](grid)), self.project[1](grid)
        out = F.interpolate(self.fuse[0](far), size=near.shape[2:], mode="bilinear",
                            align_corners=True)  # fmt: skip
        out = self.fuse[1](out + near)
        out = F.interpolate(out, size=size, mode="bilinear", align_corners=True)
        return F.interpolate(self.last(out).relu(), size=(h, w), mode="bilinear")


class _SmallerKeys(nn.Module):
    """SegFormer's attention: keys and values from an image that is made smaller."""

    def __init__(self, channels: int, factor: int) -> None:
        super().__init__()
        self.q, self.kv = nn.Linear(channels, channels), nn.Linear(channels, 2 * channels)
        self.smaller = nn.Conv2d(channels, channels, factor, factor)
        self.norm, self.out = nn.LayerNorm(channels), nn.Linear(channels, channels)

    def forward(self, x: Tensor, h: int, w: int) -> Tensor:
        n, _, c = x.shape
        image = x.permute(0, 2, 1).reshape(n, c, h, w)
        small = self.norm(self.smaller(image).reshape(n, c, -1).permute(0, 2, 1))
        k, v = self.kv(small).reshape(n, -1, 2, 2, c // 2).permute(2, 0, 3, 1, 4).unbind(0)
        q = self.q(x).reshape(n, -1, 2, c // 2).permute(0, 2, 1, 3)
        weight = (q @ k.transpose(-2, -1) * (c // 2) ** -0.5).softmax(-1)
        return self.out((weight @ v).transpose(1, 2).reshape(n, -1, c))


class _Stage(nn.Module):
    def __init__(self, inputs: int, channels: int, kernel: int, stride: int, factor: int) -> None:
        super().__init__()
        self.embed = nn.Conv2d(inputs, channels, kernel, stride, kernel // 2)
        self.norm, self.attention = nn.LayerNorm(channels), _SmallerKeys(channels, factor)
        self.second_norm, self.last_norm = nn.LayerNorm(channels), nn.LayerNorm(channels)
        self.wide, self.narrow = nn.Linear(channels, 16), nn.Linear(16, channels)
        self.depthwise = nn.Conv2d(16, 16, 3, padding=1, groups=16)

    def forward(self, x: Tensor) -> Tensor:
        x = self.embed(x)
        n, c, h, w = x.shape
        x = x.flatten(2).transpose(1, 2)
        x = x + self.attention(self.norm(x), h, w)
        inner = self.wide(self.second_norm(x)).transpose(1, 2).reshape(n, -1, h, w)
        x = x + self.narrow(F.gelu(self.depthwise(inner).flatten(2).transpose(1, 2)))
        return self.last_norm(x).reshape(n, h, w, c).permute(0, 3, 1, 2)


class SegFormer(nn.Module):
    """Classes for each pixel of an image of any size, 16 and more."""

    def __init__(self) -> None:
        super().__init__()
        self.stages = nn.ModuleList([_Stage(3, 8, 7, 4, 2), _Stage(8, 16, 3, 2, 1)])
        self.project = nn.ModuleList([nn.Linear(8, 8), nn.Linear(16, 8)])
        self.fuse = nn.Sequential(nn.Conv2d(16, 8, 1, bias=False), nn.BatchNorm2d(8), nn.ReLU())
        self.last = nn.Conv2d(8, 4, 1)

    def forward(self, x: Tensor) -> Tensor:
        size, levels = x.shape[2:], []
        for stage, project in zip(self.stages, self.project, strict=True):
            x = stage(x)
            n, _, h, w = x.shape
            level = project(x.flatten(2).transpose(1, 2)).permute(0, 2, 1).reshape(n, -1, h, w)
            levels.append(level)
        first = levels[0]
        levels[1] = F.interpolate(levels[1], size=first.shape[2:], mode="bilinear")
        out = self.last(self.fuse(torch.cat(levels, 1)))
        return F.interpolate(out, size=size, mode="bilinear", align_corners=False)


class _Windows(nn.Module):
    """Attention within windows, which are shifted by half a window in every second block."""

    def __init__(self, channels: int, window: int, shift: int) -> None:
        super().__init__()
        self.window, self.shift, self.heads = window, shift, 2
        self.norm, self.second_norm = nn.LayerNorm(channels), nn.LayerNorm(channels)
        self.qkv, self.out = nn.Linear(channels, 3 * channels), nn.Linear(channels, channels)
        self.mlp = mlp(channels, 2 * channels)
        self.bias = nn.Parameter(torch.randn((2 * window - 1) ** 2, self.heads))
        y, x = torch.meshgrid(torch.arange(window), torch.arange(window), indexing="ij")
        y, x = y.flatten(), x.flatten()
        index = (y[:, None] - y + window - 1) * (2 * window - 1) + x[:, None] - x + window - 1
        self.register_buffer("index", index)

    def _cut(self, x: Tensor) -> Tensor:
        n, h, w, c = x.shape
        k = self.window
        x = x.reshape(n, h // k, k, w // k, k, c)
        return x.permute(0, 1, 3, 2, 4, 5).reshape(-1, k * k, c)

    def _mask(self, h: int, w: int) -> Tensor:
        """The attention mask of a shifted window."""
        areas = torch.zeros(1, h, w, 1)
        cuts = slice(0, -self.window), slice(-self.window, -self.shift), slice(-self.shift, None)
        number = 0
        for rows in cuts:
            for columns in cuts:
                areas[:, rows, columns, :] = number
                number += 1
        areas = self._cut(areas).squeeze(2)
        apart = areas.unsqueeze(1) - areas.unsqueeze(2)
        return apart.masked_fill(apart != 0, -100.0).masked_fill(apart == 0, 0.0)

    def _attend(self, x: Tensor, mask: Tensor | None) -> Tensor:
        count, tokens, c = x.shape
        qkv = self.qkv(x).reshape(count, tokens, 3, self.heads, c // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        weight = q @ k.transpose(-2, -1) * (c // self.heads) ** -0.5
        bias = self.bias[self.index.flatten()].reshape(tokens, tokens, self.heads)
        weight = weight + bias.permute(2, 0, 1).unsqueeze(0)
        if mask is not None:
            number = mask.shape[0]
            weight = weight.reshape(-1, number, self.heads, tokens, tokens)
            weight = (weight + mask.unsqueeze(1).unsqueeze(0)).reshape(
                -1, self.heads, tokens, tokens
            )
        return self.out((weight.softmax(-1) @ v).transpose(1, 2).reshape(count, tokens, c))

    def forward(self, x: Tensor) -> Tensor:
        n, h, w, c = x.shape
        k = self.window
        shortcut = x
        x = F.pad(self.norm(x), (0, 0, 0, (k - w % k) % k, 0, (k - h % k) % k))
        rows, columns = x.shape[1], x.shape[2]
        mask = None
        if self.shift:
            x = torch.roll(x, (-self.shift, -self.shift), (1, 2))
            mask = self._mask(rows, columns)
        x = self._attend(self._cut(x), mask).reshape(n, rows // k, columns // k, k, k, c)
        x = x.permute(0, 1, 3, 2, 4, 5).reshape(n, rows, columns, c)
        if self.shift:
            x = torch.roll(x, (self.shift, self.shift), (1, 2))
        x = shortcut + x[:, :h, :w]
        return x + self.mlp(self.second_norm(x))


class Swin(nn.Module):
    """Two stages of windows with a merge between them, and a result as large as the image."""

    def __init__(self, window: int = 4, blocks: int = 2) -> None:
        super().__init__()
        shifts = [window // 2 * (i % 2) for i in range(blocks)]
        self.embed = nn.Conv2d(3, 8, 2, 2)
        self.first = nn.Sequential(*[_Windows(8, window, shift) for shift in shifts])
        self.merge, self.norm = nn.Linear(32, 16, bias=False), nn.LayerNorm(32)
        self.second = nn.Sequential(*[_Windows(16, window, shift) for shift in shifts])
        self.last = nn.Conv2d(16, 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        size = x.shape[2:]
        x = F.pad(x, (0, x.shape[3] % 2, 0, x.shape[2] % 2))
        x = self.first(self.embed(x).permute(0, 2, 3, 1))
        x = F.pad(x, (0, 0, 0, x.shape[2] % 2, 0, x.shape[1] % 2))
        x = torch.cat([x[:, 0::2, 0::2], x[:, 1::2, 0::2], x[:, 0::2, 1::2], x[:, 1::2, 1::2]], -1)
        x = self.second(self.merge(self.norm(x)))
        out = self.last(x.permute(0, 3, 1, 2))
        return myops.interpolate(out, size=(size[0], size[1]), mode="bicubic")
