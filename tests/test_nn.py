"""Deformable layers: the parameters, initial values and results of torchvision's and mmcv's."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
from reference_deform_conv2d import deform_conv2d as reference
from torch import Tensor

import myops
import myops.nn
import myops.onnx

SETTINGS: dict[str, Any] = {"stride": (2, 1), "padding": (1, 0), "dilation": (2, 1), "groups": 2}
IN, OUT, KERNEL, TAPS, GROUPS = 6, 4, (3, 2), 6, 3


def by_reference(x: Tensor, offset: Tensor, mask: Tensor | None, state: dict[str, Tensor],
                 offset_groups: int = GROUPS) -> Tensor:  # fmt: skip
    return reference(x, state["weight"], offset, state.get("bias"), mask, (2, 1), (1, 0, 1, 0),
                     (2, 1), 2, offset_groups)  # fmt: skip


def random_state(*names: str, planes: int = 0) -> dict[str, Tensor]:
    """A state as the other library would save it, with its names."""
    shapes = {
        "weight": (OUT, IN // 2, *KERNEL),
        "bias": (OUT,),
        "conv_offset.weight": (planes * GROUPS * TAPS, IN, *KERNEL),
        "conv_offset.bias": (planes * GROUPS * TAPS,),
    }
    return {name: torch.randn(shapes[name], dtype=torch.float64) for name in names}


def moves(x: Tensor, state: dict[str, Tensor]) -> Tensor:
    return torch.nn.functional.conv2d(
        x, state["conv_offset.weight"], state["conv_offset.bias"], (2, 1), (1, 0), (2, 1)
    )


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("masked", [True, False])
def test_deform_conv2d_loads_the_state_of_torchvision(bias: bool, masked: bool) -> None:
    state = random_state("weight", *(["bias"] if bias else []))
    layer = myops.nn.DeformConv2d(IN, OUT, KERNEL, bias=bias, **SETTINGS).double()
    assert list(layer.state_dict()) == list(state)
    layer.load_state_dict(state)
    x = torch.randn(2, IN, 9, 8, dtype=torch.float64)
    offset = torch.randn(2, 2 * GROUPS * TAPS, 4, 7, dtype=torch.float64)
    mask = torch.rand(2, GROUPS * TAPS, 4, 7, dtype=torch.float64) if masked else None
    torch.testing.assert_close(layer(x, offset, mask), by_reference(x, offset, mask, state))


def test_deform_conv2d_is_initialised_as_a_convolution() -> None:
    torch.manual_seed(3)
    layer = myops.nn.DeformConv2d(IN, OUT, KERNEL, **SETTINGS)
    torch.manual_seed(3)
    plain = torch.nn.Conv2d(IN, OUT, KERNEL, **SETTINGS)
    torch.testing.assert_close(layer.state_dict(), plain.state_dict(), rtol=0, atol=0)
    x = torch.randn(2, IN, 9, 8)
    torch.testing.assert_close(layer(x, torch.zeros(2, 2 * TAPS, 4, 7)), plain(x))


def test_pack_loads_the_state_of_mmcv() -> None:
    state = random_state("weight", "conv_offset.weight", "conv_offset.bias", planes=2)
    layer = myops.nn.DeformConv2dPack(IN, OUT, KERNEL, deform_groups=GROUPS, **SETTINGS).double()
    assert set(layer.state_dict()) == set(state)
    layer.load_state_dict(state)
    x = torch.randn(2, IN, 9, 8, dtype=torch.float64)
    torch.testing.assert_close(layer(x), by_reference(x, moves(x, state), None, state))


@pytest.mark.parametrize("bias", [True, False])
def test_modulated_pack_loads_the_state_of_mmcv(bias: bool) -> None:
    names = ["weight", *(["bias"] if bias else []), "conv_offset.weight", "conv_offset.bias"]
    state = random_state(*names, planes=3)
    layer = myops.nn.ModulatedDeformConv2dPack(
        IN, OUT, KERNEL, bias=bias, deform_groups=GROUPS, **SETTINGS
    ).double()
    assert set(layer.state_dict()) == set(state)
    layer.load_state_dict(state)
    x = torch.randn(2, IN, 9, 8, dtype=torch.float64)
    # As in mmcv: three equal parts, of which the first two are the offsets.
    first, second, mask = moves(x, state).chunk(3, dim=1)
    offset = torch.cat([first, second], dim=1)
    torch.testing.assert_close(layer(x), by_reference(x, offset, mask.sigmoid(), state))


@pytest.mark.parametrize("deep", [True, False])
def test_modulated_pack_loads_the_state_of_centernet(deep: bool) -> None:
    """Its class calls the convolution conv_offset_mask, and its groups deformable_groups."""
    names = ["weight", "bias", "conv_offset.weight", "conv_offset.bias"]
    state = random_state(*names, planes=3)
    saved = {name.replace("conv_offset", "conv_offset_mask"): state[name] for name in names}
    layer = myops.nn.ModulatedDeformConv2dPack(
        IN, OUT, KERNEL, deformable_groups=GROUPS, **SETTINGS
    ).double()
    network = torch.nn.Sequential(layer)
    if deep:
        network.load_state_dict({f"0.{name}": value for name, value in saved.items()})
    else:
        layer.load_state_dict(saved)
    assert set(layer.state_dict()) == set(names)
    x = torch.randn(2, IN, 9, 8, dtype=torch.float64)
    first, second, mask = moves(x, state).chunk(3, dim=1)
    offset = torch.cat([first, second], dim=1)
    torch.testing.assert_close(network(x), by_reference(x, offset, mask.sigmoid(), state))


def test_packs_start_with_zero_offsets() -> None:
    x = torch.randn(2, 4, 7, 6)
    for kind, factor in ((myops.nn.DeformConv2dPack, 1), (myops.nn.ModulatedDeformConv2dPack, 0.5)):
        layer = kind(4, 8, 3, padding=1, bias=True, deform_groups=2)
        for parameter in (layer.bias, layer.conv_offset.weight, layer.conv_offset.bias):
            assert not parameter.any()
        plain = torch.nn.functional.conv2d(x, layer.weight, padding=1)
        torch.testing.assert_close(layer(x), factor * plain)
        bound = 1 / 6 if factor == 0.5 else (2 / 36 * 3) ** 0.5  # 36 = 4 channels of 9 taps
        assert bound * 0.9 < layer.weight.abs().max() <= bound


def test_packs_train_their_offsets() -> None:
    torch.manual_seed(0)
    x, wanted = torch.randn(4, 2, 8, 8), torch.randn(4, 3, 8, 8)
    layer = myops.nn.ModulatedDeformConv2dPack(2, 3, 3, padding=1)
    optimizer = torch.optim.Adam(layer.parameters(), 0.02)
    losses = []
    for _ in range(12):
        optimizer.zero_grad()
        loss = (layer(x) - wanted).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0]
    assert layer.conv_offset.weight.abs().max() > 0.05
    assert layer.conv_offset.bias.abs().max() > 0.05


def test_layers_in_other_dtypes_and_layouts() -> None:
    layer = myops.nn.ModulatedDeformConv2dPack(4, 4, 3, padding=1)
    torch.nn.init.normal_(layer.conv_offset.weight, std=0.1)
    x = torch.randn(2, 4, 6, 5)
    wanted = layer(x)
    last = layer.to(memory_format=torch.channels_last)(x.to(memory_format=torch.channels_last))
    assert last.is_contiguous(memory_format=torch.channels_last)
    torch.testing.assert_close(last, wanted, rtol=1e-5, atol=1e-5)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        half = layer(x)
    assert half.dtype == torch.bfloat16
    torch.testing.assert_close(half.float(), wanted, rtol=0.1, atol=0.1)
    copy = pickle.loads(pickle.dumps(layer))
    torch.testing.assert_close(copy(x), layer(x), rtol=0, atol=0)
    assert layer.bfloat16()(x.bfloat16()).dtype == torch.bfloat16
    layer.eval().requires_grad_(False)
    assert layer(torch.randn(0, 4, 6, 5).bfloat16()).shape == (0, 4, 6, 5)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("opset", [13, 17, 20])
def test_packs_export(opset: int) -> None:
    model = torch.nn.Sequential(
        myops.nn.ModulatedDeformConv2dPack(3, 6, 3, padding=1, deform_groups=3, stride=2),
        torch.nn.ReLU(),
        myops.nn.ModulatedDeformConv2dPack(6, 4, (3, 1), padding=(1, 0), groups=2),
    ).eval()
    for layer in (model[0], model[2]):
        torch.nn.init.normal_(layer.conv_offset.weight, std=0.2)
    exported = myops.onnx.export(
        model, (torch.randn(1, 3, 8, 8),), opset_version=opset, exporter="torchscript",
        input_names=["x"], dynamic_axes={"x": {0: "n", 2: "h", 3: "w"}},
    )  # fmt: skip
    x = torch.randn(3, 3, 9, 12)
    plain = onnxruntime.InferenceSession(exported.SerializeToString())
    for session in (plain, myops.ort.session(exported)):
        (result,) = session.run(None, {"x": x.numpy()})
        torch.testing.assert_close(
            torch.from_numpy(result), model(x).detach(), rtol=1e-4, atol=1e-4
        )


REFUSALS: list[tuple[str, tuple[Any, ...], dict[str, Any], str]] = [
    ("DeformConv2d", (6, 4, 3), {"groups": 4},
     "DeformConv2d: groups: got 4, expected a divisor of in_channels, 6"),
    ("DeformConv2d", (6, 4, 3), {"groups": 3},
     "DeformConv2d: groups: got 3, expected a divisor of out_channels, 4"),
    ("DeformConv2d", (6, 4, 3), {"groups": 0},
     "DeformConv2d: groups: got 0, expected a divisor of in_channels, 6"),
    ("DeformConv2d", (6, 4, (3, 3, 3)), {},
     "DeformConv2d: kernel_size: got 3 numbers, expected 1 or 2"),
    ("DeformConv2dPack", (6, 4, 3), {"deform_groups": 4},
     "DeformConv2dPack: deform_groups: got 4, expected a divisor of in_channels, 6"),
    ("DeformConv2dPack", (6, 4, 3), {"deformable_groups": 4},
     "DeformConv2dPack: deform_groups: got 4, expected a divisor of in_channels, 6"),
    ("ModulatedDeformConv2dPack", (6, 4, 3), {"deform_groups": 3, "deformable_groups": 2},
     "ModulatedDeformConv2dPack: deformable_groups: got 2 beside deform_groups=3, expected one of "
     "the two names"),
    ("ModulatedDeformConv2dPack", (6, 4, 3), {"padding": (1, 1, 1, 1)},
     "ModulatedDeformConv2dPack: padding: got 4 numbers, expected 1 or 2"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "sizes", "named", "text"), REFUSALS)
def test_wrong_arguments_are_refused(
    kind: str, sizes: Any, named: dict[str, Any], text: str
) -> None:
    with pytest.raises(ValueError, match=kind) as info:
        getattr(myops.nn, kind)(*sizes, **named)
    assert str(info.value) == text


def test_repr_shows_settings_other_than_the_defaults() -> None:
    layer = myops.nn.DeformConv2dPack(6, 4, 3, padding=1, deform_groups=2)
    assert repr(layer).startswith(
        "DeformConv2dPack(\n  6, 4, kernel_size=(3, 3), stride=(1, 1), padding=(1, 1), "
        "deform_groups=2, bias=False\n"
    )
    assert repr(myops.nn.DeformConv2d(6, 4, 3)) == (
        "DeformConv2d(6, 4, kernel_size=(3, 3), stride=(1, 1))"
    )


@pytest.mark.parametrize("kind", [myops.nn.DeformConv2d, myops.nn.ModulatedDeformConv2dPack])
@pytest.mark.parametrize("name", ["in_channels", "out_channels", "groups", "kernel_size", "stride"])
@pytest.mark.parametrize("wrong", ["3", None, 2.5, -1, 10**400, float("nan"), 1j, [None, None]])
def test_settings_that_are_no_counts_are_refused_by_name(kind: Any, name: str, wrong: Any) -> None:
    given = {"in_channels": 4, "out_channels": 4, "kernel_size": 3, name: wrong}
    with pytest.raises((TypeError, ValueError), match=rf"{kind.__name__}: {name}: got "):
        kind(**given)


def test_counts_of_other_types() -> None:
    layer = myops.nn.DeformConv2d(np.int64(4), torch.tensor(4), np.array(3), groups=2.0)  # type: ignore[arg-type]
    assert layer.weight.shape == (4, 2, 3, 3)
