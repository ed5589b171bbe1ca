"""Super-resolution by any factor: LIIF, Meta-SR, ArbRCAN."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import myops


def _places(length: int, like: Tensor) -> Tensor:
    """The centres of `length` pixels between -1 and 1."""
    return (torch.arange(length, device=like.device).to(like.dtype) * 2 + 1) / length - 1


class Liif(nn.Module):
    """Colours of image [N, 3, H, W] at positions [N, Q, 2] (y, x), for pixels of size `cell`."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(), nn.Conv2d(4, 4, 3, padding=1)
        )
        self.mlp = nn.Sequential(
            nn.Linear(4 * 9 + 4, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 3)
        )

    def forward(self, image: Tensor, places: Tensor, cell: Tensor) -> Tensor:
        features = self.encoder(image)
        n, c, h, w = features.shape
        features = F.unfold(features, 3, padding=1).reshape(n, c * 9, h, w)
        rows, columns = _places(h, image), _places(w, image)
        grid = (
            torch.stack([rows[:, None].expand(h, w), columns[None, :].expand(h, w)], 0)
            .unsqueeze(0)
            .expand(n, 2, h, w)
        )
        results, areas = [], []
        for down in (-1, 1):
            for right in (-1, 1):
                moved = torch.stack(
                    [places[..., 0] + down / h + 1e-6, places[..., 1] + right / w + 1e-6], -1
                ).clamp(-1 + 1e-6, 1 - 1e-6)
                at = moved.flip(-1).unsqueeze(1)
                feature = F.grid_sample(features, at, "nearest", align_corners=False)[:, :, 0]
                middle = F.grid_sample(grid, at, "nearest", align_corners=False)[:, :, 0]
                apart = places - middle.permute(0, 2, 1)
                apart = torch.stack([apart[..., 0] * h, apart[..., 1] * w], -1)
                size = torch.stack([cell[..., 0] * h, cell[..., 1] * w], -1)
                inner = torch.cat([feature.permute(0, 2, 1), apart, size], -1)
                results.append(self.mlp(inner))
                areas.append((apart[..., 0] * apart[..., 1]).abs() + 1e-9)
        total = torch.stack(areas).sum(0)
        parts = zip(results, areas[::-1], strict=True)  # each corner weighs what is opposite
        return torch.stack([result * (area / total).unsqueeze(-1) for result, area in parts]).sum(0)


class MetaSr(nn.Module):
    """The image enlarged by a factor that is an input: it predicts a filter for each pixel."""

    def __init__(self) -> None:
        super().__init__()
        c = 4
        self.encoder = nn.Sequential(
            nn.Conv2d(3, c, 3, padding=1), nn.ReLU(), nn.Conv2d(c, c, 3, padding=1)
        )
        self.filters = nn.Sequential(nn.Conv2d(3, 16, 1), nn.ReLU(), nn.Conv2d(16, 9 * c * 3, 1))

    def forward(self, x: Tensor, factor: Tensor) -> Tensor:
        features = self.encoder(x)
        n, c, h, w = features.shape
        features = F.unfold(features, 3, padding=1).reshape(n, 9 * c, h, w)
        features = myops.interpolate(features, scale_factor=factor, mode="nearest")
        rows, columns = features.shape[2:]
        y = torch.arange(rows).to(x.dtype) / factor
        z = torch.arange(columns).to(x.dtype) / factor
        y, z = y - y.floor(), z - z.floor()
        place = torch.stack(
            [y[:, None].expand(rows, columns), z[None].expand(rows, columns),
             (1 / factor).expand(rows, columns)], 0
        ).unsqueeze(0)  # fmt: skip
        filters = self.filters(place).reshape(1, 9 * c, 3, rows, columns)
        return (features.unsqueeze(2) * filters).sum(1)


class _ChannelAttention(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(channels, channels, 3, padding=1), nn.ReLU(),
            nn.Conv2d(channels, channels, 3, padding=1),
        )  # fmt: skip
        self.weigh = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Conv2d(channels, 2, 1), nn.ReLU(),
            nn.Conv2d(2, channels, 1), nn.Sigmoid(),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        found = self.body(x)
        return x + found * self.weigh(found)


class ArbRcan(nn.Module):
    """Channel attention, then an enlargement whose filters and positions depend on two factors."""

    def __init__(self, experts: int = 2) -> None:
        super().__init__()
        c = 8
        self.first, self.last = nn.Conv2d(3, c, 3, padding=1), nn.Conv2d(c, 3, 3, padding=1)
        self.body = nn.Sequential(*[_ChannelAttention(c) for _ in range(2)])
        self.route = nn.Sequential(nn.Conv2d(4, 8, 1), nn.ReLU(), nn.Conv2d(8, experts + 2, 1))
        self.squeeze = nn.Parameter(torch.randn(experts, c // 2, c) / c)
        self.expand = nn.Parameter(torch.randn(experts, c, c // 2) / c)

    def forward(self, x: Tensor, factor: Tensor) -> Tensor:
        features = self.body(self.first(x))
        larger = myops.interpolate(features, scale_factor=factor, mode="bilinear")
        base = myops.interpolate(x, scale_factor=factor, mode="bicubic", antialias=True)
        rows, columns = larger.shape[2:]
        down, right = factor.unbind(0)
        y = (torch.arange(rows).to(x.dtype) + 0.5) / down
        z = (torch.arange(columns).to(x.dtype) + 0.5) / right
        y, z = y - torch.floor(y + 1e-6) - 0.5, z - torch.floor(z + 1e-6) - 0.5
        place = torch.stack(
            [y[:, None].expand(rows, columns), z[None].expand(rows, columns),
             (1 / down).expand(rows, columns), (1 / right).expand(rows, columns)], 0
        ).unsqueeze(0)  # fmt: skip
        found = self.route(place)
        weights, offset = torch.sigmoid(found[:, :-2]), torch.tanh(found[:, -2:])
        grid = (
            torch.stack(
                [
                    (_places(columns, x)[None, :] + offset[0, 0] / columns),
                    (_places(rows, x)[:, None] + offset[0, 1] / rows),
                ],
                -1,
            )
            .unsqueeze(0)
            .expand(x.shape[0], rows, columns, 2)
        )
        sampled = F.grid_sample(larger, grid, padding_mode="border", align_corners=False)
        out = sampled
        for number in range(weights.shape[1]):
            inner = torch.einsum("ec,nchw->nehw", self.squeeze[number], sampled)
            outer = torch.einsum("ce,nehw->nchw", self.expand[number], inner)
            out = out + outer * weights[:, number : number + 1]
        return self.last(out) + base
