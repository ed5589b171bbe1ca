"""Networks with a result for each pixel: BiRefNet, U-Net, PSPNet, CenterNet, DLA."""

from __future__ import annotations

import itertools

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import myops
from zoo.networks.layers import Residual, conv


class _Deformable(nn.Module):
    """A deformable convolution as BiRefNet has it: the mask goes up to 2."""

    def __init__(self, channels: int, kernel: int) -> None:
        super().__init__()
        taps, pad = kernel * kernel, kernel // 2
        self.pad = pad
        self.offset = nn.Conv2d(channels, 2 * taps, kernel, padding=pad)
        self.modulator = nn.Conv2d(channels, taps, kernel, padding=pad)
        self.regular = nn.Conv2d(channels, channels, kernel, padding=pad, bias=False)
        self.norm = nn.BatchNorm2d(channels)

    def forward(self, x: Tensor) -> Tensor:
        mask = 2.0 * torch.sigmoid(self.modulator(x))
        offset = 0.2 * self.offset(x)  # untrained, larger ones would amplify rounding
        x = myops.deform_conv2d(x, offset, self.regular.weight, None, padding=self.pad, mask=mask)
        return torch.relu(self.norm(x))


class _Pyramid(nn.Module):
    """ASPP with deformable branches and one over the whole image."""

    def __init__(self, channels: int, kernels: tuple[int, ...] = (1, 3, 5)) -> None:
        super().__init__()
        self.branches = nn.ModuleList(_Deformable(channels, kernel) for kernel in kernels)
        self.whole = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(channels, channels, 1))
        self.join = conv(channels * (len(kernels) + 1), channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        found = [branch(x) for branch in self.branches]
        whole = F.interpolate(self.whole(x), size=x.shape[2:], mode="bilinear", align_corners=True)
        return self.join(torch.cat([*found, whole], 1))


class _Decode(nn.Module):
    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.first, self.pyramid = conv(inputs, 8), _Pyramid(8)
        self.last = conv(8, outputs)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.pyramid(self.first(x)))


def _patches(x: Tensor, like: Tensor) -> Tensor:
    """The image cut into patches of another tensor's size, which become channels."""
    n, c = x.shape[:2]
    h, w = like.shape[2:]
    x = x.reshape(n, c, x.shape[2] // h, h, x.shape[3] // w, w)
    return x.permute(0, 1, 2, 4, 3, 5).reshape(n, -1, h, w)


class BiRefNet(nn.Module):
    """A mask of x [N, 3, H, W]: encoder at two sizes, deformable decoder, patches of the image."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.ModuleList([Residual(3, 8, 2), Residual(8, 8, 2), Residual(8, 16, 2)])
        self.squeeze = _Decode(32, 16)
        self.lateral = nn.ModuleList([nn.Conv2d(16, 8, 1), nn.Conv2d(16, 8, 1)])
        self.patches = nn.ModuleList([nn.Conv2d(3 * 64, 4, 3, padding=1),
                                      nn.Conv2d(3 * 16, 4, 3, padding=1)])  # fmt: skip
        self.decoder = nn.ModuleList([_Decode(20, 8), _Decode(12, 8)])
        self.last = nn.Conv2d(8, 1, 1)

    def _encode(self, x: Tensor) -> list[Tensor]:
        found = []
        for stage in self.encoder:
            x = stage(x)
            found.append(x)
        return found

    def forward(self, x: Tensor) -> Tensor:
        half = F.interpolate(x, size=(x.shape[2] // 2, x.shape[3] // 2), mode="bilinear",
                             align_corners=True)  # fmt: skip
        levels = [
            torch.cat([a, F.interpolate(b, size=a.shape[2:], mode="bilinear", align_corners=True)],
                      1)
            for a, b in zip(self._encode(x), self._encode(half), strict=True)
        ]  # fmt: skip
        out = self.squeeze(levels[2])
        for decode, image, lateral, level in zip(
            self.decoder, self.patches, self.lateral, levels[1::-1], strict=True
        ):
            out = decode(torch.cat([out, image(_patches(x, out))], 1))
            out = F.interpolate(out, size=level.shape[2:], mode="bilinear", align_corners=True)
            out = out + lateral(level)
        out = F.interpolate(out, size=x.shape[2:], mode="bilinear", align_corners=True)
        return torch.sigmoid(self.last(out))


class UNet(nn.Module):
    """Encoder and decoder with skip connections; the decoder pads where a length was odd."""

    def __init__(self, depth: int = 3) -> None:
        super().__init__()
        width = [6 * 2**i for i in range(depth + 1)]
        self.first = conv(3, width[0])
        pairs = list(itertools.pairwise(width))
        self.down = nn.ModuleList(conv(a, b) for a, b in pairs)
        self.up = nn.ModuleList(nn.ConvTranspose2d(b, a, 2, 2) for a, b in reversed(pairs))
        self.join = nn.ModuleList(conv(2 * a, a) for a, _ in reversed(pairs))
        self.last = nn.Conv2d(width[0], 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        levels = [self.first(x)]
        for down in self.down:
            levels.append(down(F.max_pool2d(levels[-1], 2)))
        out = levels.pop()
        for up, join in zip(self.up, self.join, strict=True):
            out, level = up(out), levels.pop()
            rows, columns = level.shape[2] - out.shape[2], level.shape[3] - out.shape[3]
            out = F.pad(out, [columns // 2, columns - columns // 2, rows // 2, rows - rows // 2])
            out = join(torch.cat([level, out], 1))
        return self.last(out)


class PspNet(nn.Module):
    """Pyramid pooling: means over 1, 2, 3 and 6 parts of each axis, resized and concatenated."""

    def __init__(self, channels: int = 8) -> None:
        super().__init__()
        self.body = nn.Sequential(conv(3, channels), nn.MaxPool2d(2), conv(channels, channels))
        self.levels = nn.ModuleList(
            nn.Sequential(
                nn.AdaptiveAvgPool2d(parts), nn.Conv2d(channels, channels // 4, 1), nn.ReLU()
            )
            for parts in (1, 2, 3, 6)
        )
        self.last = nn.Conv2d(2 * channels, 3, 1)

    def forward(self, x: Tensor) -> Tensor:
        features = self.body(x)
        size = features.shape[2:]
        context = [F.interpolate(level(features), size=size, mode="bilinear", align_corners=True)
                   for level in self.levels]  # fmt: skip
        result = self.last(torch.cat([features, *context], 1))
        return F.interpolate(result, size=x.shape[2:], mode="bilinear", align_corners=True)


def _deform(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(
        myops.nn.ModulatedDeformConv2dPack(inputs, outputs, 3, padding=1),
        nn.BatchNorm2d(outputs),
        nn.ReLU(inplace=True),
    )


def _best(heat: Tensor, size: Tensor, most: int) -> tuple[Tensor, Tensor]:
    """The peaks of a heat map with their boxes, as CenterNet decodes them."""
    heat = torch.sigmoid(heat)
    heat = heat * (F.max_pool2d(heat, 3, 1, 1) == heat).to(heat.dtype)
    n, _, _, w = heat.shape
    scores, places = heat.reshape(n, -1).topk(most)
    places = places % (heat.shape[2] * w)
    rows, columns = (places // w).to(heat.dtype), (places % w).to(heat.dtype)
    size = size.permute(0, 2, 3, 1).reshape(n, -1, 2)
    size = size.gather(1, places.unsqueeze(2).expand(n, most, 2)) / 2
    middle = torch.stack((columns, rows), 2)
    return torch.cat((middle - size, middle + size), 2), scores


class CenterNet(nn.Module):
    """Boxes and scores from ResNet with deformable layers before each enlargement."""

    def __init__(self, classes: int = 3, most: int = 8) -> None:
        super().__init__()
        self.most = most
        self.body = nn.Sequential(
            conv(3, 8, 7, 2), nn.MaxPool2d(3, 2, 1), Residual(8, 8), Residual(8, 16, 2),
            Residual(16, 16, 2),
        )  # fmt: skip
        self.up = nn.Sequential(
            *[
                nn.Sequential(_deform(16, 16), nn.ConvTranspose2d(16, 16, 4, 2, 1, bias=False),
                              nn.BatchNorm2d(16), nn.ReLU())
                for _ in range(2)
            ]
        )  # fmt: skip
        self.heat, self.size = nn.Conv2d(16, classes, 1), nn.Conv2d(16, 2, 1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        x = self.up(self.body(x))
        return _best(self.heat(x), self.size(x), self.most)


class _Up(nn.Module):
    """Brings levels to the size of the first, step by step (IDAUp of DLA)."""

    def __init__(self, outputs: int, inputs: list[int], factors: list[int]) -> None:
        super().__init__()
        pairs = list(zip(inputs, factors, strict=True))[1:]
        self.project = nn.ModuleList(_deform(count, outputs) for count, _ in pairs)
        self.node = nn.ModuleList(_deform(outputs, outputs) for _ in pairs)
        self.up = nn.ModuleList(
            nn.ConvTranspose2d(outputs, outputs, 2 * f, f, f // 2, groups=outputs, bias=False)
            for _, f in pairs
        )

    def forward(self, levels: list[Tensor], start: int, end: int) -> None:
        for i in range(start + 1, end):
            j = i - start - 1
            levels[i] = self.up[j](self.project[j](levels[i]))
            levels[i] = self.node[j](levels[i] + levels[i - 1])


class Dla(nn.Module):
    """CenterNet on a DLA: levels of strides 2, 4, 8, aggregated repeatedly. Multiples of 8."""

    def __init__(self, classes: int = 3) -> None:
        super().__init__()
        widths = [8, 12, 16]
        self.body = nn.ModuleList([Residual(3, 8, 2), Residual(8, 12, 2), Residual(12, 16, 2)])
        self.tree = nn.ModuleList(conv(2 * width, width, 1) for width in widths)
        self.again = nn.ModuleList(Residual(width, width) for width in widths)
        self.up = nn.ModuleList([_Up(12, [12, 16], [1, 2]), _Up(8, [8, 12, 12], [1, 2, 2])])
        self.ida = _Up(8, [8, 12], [1, 2])
        self.heat = nn.Conv2d(8, classes, 1)

    def forward(self, x: Tensor) -> Tensor:
        levels = []
        for body, again, tree in zip(self.body, self.again, self.tree, strict=True):
            x = body(x)
            x = tree(torch.cat([x, again(x)], 1))
            levels.append(x)
        outputs = [levels[-1]]
        for number, up in enumerate(self.up):
            start = len(levels) - number - 2
            up(levels, start, len(levels))
            outputs.insert(0, levels[-1])
        last = outputs[:2]
        self.ida(last, 0, 2)
        return torch.sigmoid(self.heat(last[-1]))
