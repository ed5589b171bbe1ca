"""Modules around the ops.

Example:
    >>> layer = myops.nn.DeformConv2dPack(4, 8, 3, padding=1)
    >>> layer(torch.rand(2, 4, 5, 6)).shape
    torch.Size([2, 8, 5, 6])
"""

# No `from __future__ import annotations`: TorchScript reads the annotations of members as objects.

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import init

from myops._text import shorten
from myops.ops._numbers import integer, integers, is_several, refuse_no_flag
from myops.ops.deform_conv2d import deform_conv2d
from myops.ops.my_add import my_add

__all__ = ["DeformConv2d", "DeformConv2dPack", "ModulatedDeformConv2dPack", "MyAdd"]


def __dir__() -> list[str]:
    return sorted(__all__)


class MyAdd(torch.nn.Module):
    """`myops.my_add` as a layer: 2a + b.

    Example:
        >>> myops.nn.MyAdd()(torch.ones(2), torch.zeros(2))
        tensor([2., 2.])
    """

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        return my_add(a, b)


class _DeformConv2d(torch.nn.Module):
    """Settings and parameters that all deformable layers have."""

    bias: Tensor | None

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | Sequence[int],
        stride: int | Sequence[int],
        padding: int | Sequence[int],
        dilation: int | Sequence[int],
        groups: int,
        bias: bool,
    ) -> None:
        super().__init__()
        in_channels = self._number("in_channels", in_channels)
        out_channels = self._number("out_channels", out_channels)
        groups = self._number("groups", groups)
        refuse_no_flag(f"{type(self).__name__}: bias", bias)
        self._expect_divisor("groups", groups, in_channels=in_channels, out_channels=out_channels)
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.kernel_size = self._pair("kernel_size", kernel_size)
        self.stride = self._pair("stride", stride)
        self.padding = self._pair("padding", padding)
        self.dilation = self._pair("dilation", dilation)
        self.groups = groups
        self.weight = torch.nn.Parameter(
            torch.empty(out_channels, in_channels // groups, *self.kernel_size)
        )
        self.register_parameter(
            "bias", torch.nn.Parameter(torch.empty(out_channels)) if bias else None
        )

    def _pair(self, name: str, item: int | Sequence[int]) -> tuple[int, int]:
        where = f"{type(self).__name__}: {name}"
        values = integers(where, item if is_several(item) else (item, item))
        if len(values) != 2:
            raise ValueError(f"{where}: got {len(values)} numbers, expected 1 or 2")
        return self._number(name, values[0]), self._number(name, values[1])

    def _number(self, name: str, item: int) -> int:
        where = f"{type(self).__name__}: {name}"
        number = int(integer(where, item))
        if not 0 <= number < 2**31:  # lengths of memory; torch's text would name none of these
            raise ValueError(f"{where}: got {shorten(repr(item), 60)}, expected 0 to {2**31 - 1}")
        return number

    def _expect_divisor(self, name: str, groups: int, **totals: int) -> None:
        for whole, total in totals.items():
            if groups < 1 or total % groups:
                raise ValueError(
                    f"{type(self).__name__}: {name}: got {groups}, expected a divisor of {whole}, "
                    f"{total}"
                )

    def extra_repr(self) -> str:
        text = f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}"
        text += f", stride={self.stride}"
        for name, default in (("padding", (0, 0)), ("dilation", (1, 1)), ("groups", 1),
                              ("deform_groups", 1)):  # fmt: skip
            value = getattr(self, name, default)
            text += f", {name}={value}" if value != default else ""
        return text + (", bias=False" if self.bias is None else "")

    def _convolve(self, input: Tensor, offset: Tensor, mask: Tensor | None) -> Tensor:
        return deform_conv2d(
            input, offset, self.weight, self.bias, self.stride, self.padding, self.dilation, mask
        )


class DeformConv2d(_DeformConv2d):
    """`myops.deform_conv2d` as a layer, the counterpart of `torchvision.ops.DeformConv2d`.

    Constructor, parameters (`weight`, `bias`) and their initial distribution are torchvision's,
    so its `state_dict` loads.

    Args:
        in_channels: Channels of the input, C.
        out_channels: Channels of the result, oC.
        kernel_size: kH and kW, or one int.
        stride: Step between output pixels, y and x, or one int; >= 1.
        padding: Zero border, y and x, or one int; >= 0.
        dilation: Step between taps, y and x, or one int; >= 1.
        groups: Groups of channels that are convolved separately; divides both channel counts.
        bias: Whether a learned number is added to each output channel.

    Raises:
        ValueError: groups does not divide the channels, or an argument that may be a pair is
            neither an int nor two of them.

    Example:
        >>> layer = myops.nn.DeformConv2d(3, 8, 3, padding=1)
        >>> image, offset, mask = torch.rand(2, 3, 5, 6), torch.rand(2, 18, 5, 6), None
        >>> layer(image, offset, mask).shape
        torch.Size([2, 8, 5, 6])
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | Sequence[int],
        stride: int | Sequence[int] = 1,
        padding: int | Sequence[int] = 0,
        dilation: int | Sequence[int] = 1,
        groups: int = 1,
        bias: bool = True,
    ) -> None:
        super().__init__(
            in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias
        )
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Uniform numbers within 1 / sqrt(fan in), as for torch.nn.Conv2d."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            bound = 1 / math.sqrt(self.weight[0].numel())
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input: Tensor, offset: Tensor, mask: Tensor | None = None) -> Tensor:
        """`input` [N, C, H, W], `offset` [N, 2 * offset_groups * kH * kW, oH, oW], `mask`
        [N, offset_groups * kH * kW, oH, oW] -> [N, oC, oH, oW]; see `myops.deform_conv2d`."""
        return self._convolve(input, offset, mask)


class _Pack(_DeformConv2d):
    """A deformable layer whose offsets come from a convolution of its own, `conv_offset`."""

    planes: int  # channels of conv_offset for each tap

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | Sequence[int],
        stride: int | Sequence[int] = 1,
        padding: int | Sequence[int] = 0,
        dilation: int | Sequence[int] = 1,
        groups: int = 1,
        deform_groups: int = 1,
        bias: bool = True,
        *,
        deformable_groups: int | None = None,
    ) -> None:
        super().__init__(
            in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias
        )
        deform_groups = self._number("deform_groups", deform_groups)
        if deformable_groups is not None:
            deformable_groups = self._number("deformable_groups", deformable_groups)
            if deform_groups not in (1, deformable_groups):
                raise ValueError(
                    f"{type(self).__name__}: deformable_groups: got {deformable_groups} beside "
                    f"deform_groups={deform_groups}, expected one of the two names"
                )
            deform_groups = deformable_groups
        self._expect_divisor("deform_groups", deform_groups, in_channels=in_channels)
        self.deform_groups = deform_groups
        self.taps = deform_groups * self.kernel_size[0] * self.kernel_size[1]
        self.conv_offset = torch.nn.Conv2d(
            in_channels, self.planes * self.taps, self.kernel_size, self.stride, self.padding,
            self.dilation,
        )  # fmt: skip
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Sets `conv_offset` to 0, so that training starts with an undeformed convolution."""
        init.zeros_(self.conv_offset.weight)
        if self.conv_offset.bias is not None:
            init.zeros_(self.conv_offset.bias)

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *rest: Any) -> None:
        for name in ("weight", "bias"):
            other = f"{prefix}conv_offset_mask.{name}"  # as CenterNet and its descendants call it
            if other in state_dict:
                state_dict[f"{prefix}conv_offset.{name}"] = state_dict.pop(other)
        super()._load_from_state_dict(state_dict, prefix, *rest)


class DeformConv2dPack(_Pack):
    """Deformable convolution, version 1, that finds its own offsets; mmcv's `DeformConv2dPack`.

    The offsets are conv_offset(x): for each tap y, then x. The parameters (`weight`,
    `conv_offset.weight`, `conv_offset.bias`; `bias` only when asked for, mmcv has none here) and
    their initial values are mmcv's, so its `state_dict` loads.

    Args:
        in_channels: Channels of the input, C.
        out_channels: Channels of the result, oC.
        kernel_size: kH and kW, or one int.
        stride: Step between output pixels, y and x, or one int; >= 1.
        padding: Zero border, y and x, or one int; >= 0.
        dilation: Step between taps, y and x, or one int; >= 1.
        groups: Groups of channels that are convolved separately; divides both channel counts.
        deform_groups: Groups of channels, each with its own offsets; divides in_channels.
        bias: Whether a learned number is added to each output channel.
        im2col_step: Has no effect; configurations made for mmcv may give it.
        deformable_groups: Another name for deform_groups, which older code uses.

    Raises:
        ValueError: groups or deform_groups does not divide the channels, or an argument that may
            be a pair is neither an int nor two of them.

    Example:
        >>> layer = myops.nn.DeformConv2dPack(4, 8, 3, padding=1, deform_groups=2)
        >>> layer(torch.rand(2, 4, 5, 6)).shape
        torch.Size([2, 8, 5, 6])
    """

    planes = 2

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | Sequence[int],
        stride: int | Sequence[int] = 1,
        padding: int | Sequence[int] = 0,
        dilation: int | Sequence[int] = 1,
        groups: int = 1,
        deform_groups: int = 1,
        bias: bool = False,
        im2col_step: int = 32,
        *,
        deformable_groups: int | None = None,
    ) -> None:
        super().__init__(
            in_channels, out_channels, kernel_size, stride, padding, dilation, groups,
            deform_groups, bias, deformable_groups=deformable_groups,
        )  # fmt: skip

    def reset_parameters(self) -> None:
        """Uniform weights after He et al. 2015; zeros in `bias` and `conv_offset`."""
        super().reset_parameters()
        init.kaiming_uniform_(self.weight, nonlinearity="relu")
        if self.bias is not None:
            init.zeros_(self.bias)

    def forward(self, x: Tensor) -> Tensor:
        """`x` [N, C, H, W] -> [N, oC, oH, oW]."""
        return self._convolve(x, self.conv_offset(x), None)


class ModulatedDeformConv2dPack(_Pack):
    """Deformable convolution, version 2, that finds its own offsets and mask; mmcv's
    `ModulatedDeformConv2dPack`.

    Of conv_offset(x), the first two thirds of the channels are the offsets, for each tap y, then
    x; sigmoid of the last third is the mask, 0.5 at first. The parameters (`weight`, `bias`,
    `conv_offset.weight`, `conv_offset.bias`) and their initial values are mmcv's, so its
    `state_dict` loads; so does one that calls them `conv_offset_mask`, as CenterNet's does.

    Args:
        in_channels: Channels of the input, C.
        out_channels: Channels of the result, oC.
        kernel_size: kH and kW, or one int.
        stride: Step between output pixels, y and x, or one int; >= 1.
        padding: Zero border, y and x, or one int; >= 0.
        dilation: Step between taps, y and x, or one int; >= 1.
        groups: Groups of channels that are convolved separately; divides both channel counts.
        deform_groups: Groups of channels with offsets and masks of their own; divides
            in_channels.
        bias: Whether a learned number is added to each output channel.
        deformable_groups: Another name for deform_groups: that of CenterNet's `DCN` and BasicSR's
            `DCNv2Pack`.

    Raises:
        ValueError: groups or deform_groups does not divide the channels, or an argument that may
            be a pair is neither an int nor two of them.

    Example:
        >>> layer = myops.nn.ModulatedDeformConv2dPack(4, 8, 3, padding=1, deform_groups=2)
        >>> layer(torch.rand(2, 4, 5, 6)).shape
        torch.Size([2, 8, 5, 6])
    """

    planes = 3

    def reset_parameters(self) -> None:
        """Uniform weights within 1 / sqrt(C * kH * kW); zeros in `bias` and `conv_offset`."""
        super().reset_parameters()
        bound = 1 / math.sqrt(self.in_channels * self.kernel_size[0] * self.kernel_size[1])
        init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            init.zeros_(self.bias)

    def forward(self, x: Tensor) -> Tensor:
        """`x` [N, C, H, W] -> [N, oC, oH, oW]."""
        offset, mask = self.conv_offset(x).split([2 * self.taps, self.taps], dim=1)
        return self._convolve(x, offset, mask.sigmoid())
