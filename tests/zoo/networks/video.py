"""Restoration of videos: frames are aligned with deformable convolutions.

EDVR (Wang et al. 2019) aligns features on a pyramid, the coarse offsets first. BasicVSR++ (Chan et
al. 2022) goes through the frames in both directions and lets optical flow guide the offsets.
"""

from __future__ import annotations

import itertools

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import myops
from zoo.networks.layers import GuidedDeform

_CHANNELS = 8


def _leaky(x: Tensor) -> Tensor:
    return F.leaky_relu(x, 0.1)


def _twice(x: Tensor) -> Tensor:
    return F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False)


class PyramidAlignment(nn.Module):
    """Aligns one frame's features with the reference's: three levels, then once more."""

    def __init__(self, groups: int) -> None:
        super().__init__()
        c = _CHANNELS
        self.first = nn.ModuleList(nn.Conv2d(2 * c, c, 3, padding=1) for _ in range(3))
        self.second = nn.ModuleList(
            nn.Conv2d(c if level == 2 else 2 * c, c, 3, padding=1) for level in range(3)
        )
        self.align = nn.ModuleList(
            GuidedDeform(c, c, 3, padding=1, deformable_groups=groups) for _ in range(3)
        )
        self.join = nn.ModuleList(nn.Conv2d(2 * c, c, 3, padding=1) for _ in range(2))
        self.cascade = nn.Conv2d(2 * c, c, 3, padding=1)
        self.last = GuidedDeform(c, c, 3, padding=1, deformable_groups=groups)

    def forward(self, frame: list[Tensor], reference: list[Tensor]) -> Tensor:
        offset, feature = frame[0], frame[0]
        for level in (2, 1, 0):
            found = _leaky(self.first[level](torch.cat([frame[level], reference[level]], 1)))
            if level < 2:
                found = torch.cat([found, _twice(offset) * 2], 1)
            offset = _leaky(self.second[level](found))
            aligned = self.align[level](frame[level], offset)
            if level < 2:
                aligned = self.join[level](torch.cat([aligned, _twice(feature)], 1))
            feature = _leaky(aligned) if level else aligned
        offset = _leaky(self.cascade(torch.cat([feature, reference[0]], 1)))
        return _leaky(self.last(feature, offset))


class TemporalAttention(nn.Module):
    """Weights frames by their similarity to the middle one, then positions by attention."""

    def __init__(self, frames: int) -> None:
        super().__init__()
        c = _CHANNELS
        self.middle = frames // 2
        self.one, self.every = nn.Conv2d(c, c, 3, padding=1), nn.Conv2d(c, c, 3, padding=1)
        self.fuse = nn.Conv2d(frames * c, c, 1)
        self.attend, self.shrunk = nn.Conv2d(2 * c, c, 1), nn.Conv2d(c, c, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        b, t, c, h, w = x.shape
        reference = self.one(x[:, self.middle])
        embedded = self.every(x.reshape(-1, c, h, w)).reshape(b, t, c, h, w)
        likeness = [(embedded[:, i] * reference).sum(1, keepdim=True) for i in range(t)]
        weight = torch.sigmoid(torch.cat(likeness, 1)).unsqueeze(2).expand(b, t, c, h, w)
        x = (x * weight).reshape(b, t * c, h, w)
        fused = _leaky(self.fuse(x))
        pooled = torch.cat([F.max_pool2d(fused, 3, 2, 1), F.avg_pool2d(fused, 3, 2, 1)], 1)
        attention = _twice(self.shrunk(_leaky(self.attend(pooled))))
        return fused * torch.sigmoid(attention) * 2


class Edvr(nn.Module):
    """x [N, frames, 3, H, W] -> the middle frame, four times as large. H and W: multiples of 4."""

    def __init__(self, frames: int = 3) -> None:
        super().__init__()
        c = _CHANNELS
        self.middle = frames // 2
        self.first = nn.Conv2d(3, c, 3, padding=1)
        self.smaller = nn.ModuleList(nn.Conv2d(c, c, 3, 2, 1) for _ in range(2))
        self.align = PyramidAlignment(groups=2)
        self.fuse = TemporalAttention(frames)
        self.up = nn.ModuleList(nn.Conv2d(c, 4 * c, 3, padding=1) for _ in range(2))
        self.last = nn.Conv2d(c, 3, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        b, t, c, h, w = x.shape
        assert h % 4 == 0, "H has to be a multiple of 4"
        assert w % 4 == 0, "W has to be a multiple of 4"
        level = _leaky(self.first(x.reshape(-1, c, h, w)))
        levels = [level]
        for shrink in self.smaller:
            levels.append(_leaky(shrink(levels[-1])))
        frames = [[item.reshape(b, t, *item.shape[1:])[:, i] for item in levels] for i in range(t)]
        aligned = [self.align(frame, frames[self.middle]) for frame in frames]
        out = self.fuse(torch.stack(aligned, 1))
        for up in self.up:
            out = _leaky(F.pixel_shuffle(up(out), 2))
        base = F.interpolate(x[:, self.middle], scale_factor=4, mode="bilinear")
        return self.last(out) + base


def warp(x: Tensor, flow: Tensor) -> Tensor:
    """x [N, C, H, W] at the positions that flow [N, H, W, 2] (x, then y) points to."""
    h, w = x.shape[2:]
    rows, columns = torch.meshgrid(torch.arange(h), torch.arange(w), indexing="ij")
    places = torch.stack((columns, rows), 2).to(x.dtype) + flow
    grid = torch.stack(
        (2.0 * places[..., 0] / max(w - 1, 1) - 1.0, 2.0 * places[..., 1] / max(h - 1, 1) - 1.0), 3
    )
    return F.grid_sample(x, grid, padding_mode="border", align_corners=True)


class Flow(nn.Module):
    """Optical flow from coarse to fine, as SPyNet finds it: H and W are made multiples of 8."""

    def __init__(self) -> None:
        super().__init__()
        self.levels = nn.ModuleList(
            nn.Sequential(nn.Conv2d(8, 8, 7, padding=3), nn.ReLU(), nn.Conv2d(8, 2, 3, padding=1))
            for _ in range(3)
        )

    def forward(self, reference: Tensor, other: Tensor) -> Tensor:
        h, w = reference.shape[2:]
        size = (h + 7) // 8 * 8, (w + 7) // 8 * 8
        pairs = [
            (
                F.interpolate(reference, size=size, mode="bilinear", align_corners=False),
                F.interpolate(other, size=size, mode="bilinear", align_corners=False),
            )
        ]
        for _ in range(2):
            a, b = pairs[0]
            pairs.insert(0, (F.avg_pool2d(a, 2, 2), F.avg_pool2d(b, 2, 2)))
        a, _ = pairs[0]
        flow = a.new_zeros(a.shape[0], 2, a.shape[2], a.shape[3])
        for number, (level, (a, b)) in enumerate(zip(self.levels, pairs, strict=True)):
            if number:
                flow = 2.0 * F.interpolate(flow, size=a.shape[2:], mode="bilinear",
                                           align_corners=True)  # fmt: skip
            moved = warp(b, flow.permute(0, 2, 3, 1))
            flow = flow + level(torch.cat([a, moved, flow], 1))
        return F.interpolate(flow, size=(h, w), mode="bilinear", align_corners=False)


class FlowGuidedAlignment(nn.Module):
    """Aligns two earlier states: their flows and a residue are the offsets."""

    def __init__(self, groups: int = 2, most: float = 10.0) -> None:
        super().__init__()
        c, taps = _CHANNELS, 9 * 2 * groups
        self.most, self.weight = most, nn.Parameter(torch.randn(c, 2 * c, 3, 3) / 12)
        self.bias = nn.Parameter(torch.randn(c) / 10)
        self.conv_offset = nn.Sequential(
            nn.Conv2d(3 * c + 4, c, 3, padding=1), nn.LeakyReLU(0.1),
            nn.Conv2d(c, 3 * taps, 3, padding=1),
        )  # fmt: skip

    def forward(self, states: Tensor, guide: Tensor, near: Tensor, far: Tensor) -> Tensor:
        rows, columns, mask = self.conv_offset(torch.cat([guide, near, far], 1)).chunk(3, 1)
        one, two = (self.most * torch.tanh(torch.cat([rows, columns], 1))).chunk(2, 1)
        one = one + near.flip(1).repeat(1, one.shape[1] // 2, 1, 1)
        two = two + far.flip(1).repeat(1, two.shape[1] // 2, 1, 1)
        offset = torch.cat([one, two], 1)
        return myops.deform_conv2d(
            states, offset, self.weight, self.bias, padding=1, mask=mask.sigmoid()
        )


class BasicVsr(nn.Module):
    """x [N, frames, 3, H, W] -> all frames, twice as large. H and W: 8 and more, any."""

    def __init__(self) -> None:
        super().__init__()
        c = _CHANNELS
        self.first = nn.Conv2d(3, c, 3, padding=1)
        self.flow = Flow()
        self.align = nn.ModuleList(FlowGuidedAlignment() for _ in range(2))
        self.step = nn.ModuleList(nn.Conv2d((2 + i) * c, c, 3, padding=1) for i in range(2))
        self.up, self.last = nn.Conv2d(3 * c, 4 * c, 1), nn.Conv2d(c, 3, 3, padding=1)

    def _propagate(
        self,
        direction: int,
        features: list[Tensor],
        others: list[list[Tensor]],
        flows: list[Tensor],
    ) -> list[Tensor]:
        count = len(features)
        state = torch.zeros_like(features[0])
        before = far = torch.zeros_like(flows[0])
        states: list[Tensor] = []
        order = range(count - 1, -1, -1) if direction == 0 else range(count)
        for number, i in enumerate(order):
            if number:
                near = flows[i if direction == 0 else i - 1]
                guided = warp(state, near.permute(0, 2, 3, 1))
                older, older_guided = torch.zeros_like(state), torch.zeros_like(state)
                if number > 1:
                    older = states[-2]
                    far = near + warp(before, near.permute(0, 2, 3, 1))
                    older_guided = warp(older, far.permute(0, 2, 3, 1))
                guide = torch.cat([guided, features[i], older_guided], 1)
                state = self.align[direction](torch.cat([state, older], 1), guide, near, far)
                before = near
            parts = [features[i], *(other[i] for other in others), state]
            state = state + _leaky(self.step[direction](torch.cat(parts, 1)))
            states.append(state)
        return states[::-1] if direction == 0 else states

    def forward(self, x: Tensor) -> Tensor:
        frames = x.unbind(1)
        features = [_leaky(self.first(frame)) for frame in frames]
        pairs = list(itertools.pairwise(frames))
        backward = self._propagate(0, features, [], [self.flow(a, b) for a, b in pairs])
        forward = self._propagate(1, features, [backward], [self.flow(b, a) for a, b in pairs])
        results = []
        for frame, *parts in zip(frames, features, backward, forward, strict=True):
            out = _leaky(F.pixel_shuffle(self.up(torch.cat(parts, 1)), 2))
            base = F.interpolate(frame, scale_factor=2, mode="bilinear", align_corners=False)
            results.append(self.last(out) + base)
        return torch.stack(results, 1)
