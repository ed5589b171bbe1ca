"""Several nodes of one op in one model, each with other inputs, outputs, attributes and ranks.

What is kept for an op and not for a call (a function body, a table, the number of outputs) fits
the first call only. So all calls are in one model, in two orders; one model per call would not
show it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from node_models import run_plain

import myops
import myops.ort
from myops.onnx import MissingBodyWarning, export

Call = Callable[[torch.Tensor], Any]

WEIGHT = torch.randn(4, 2, 3, 3, generator=torch.Generator().manual_seed(0))


def _convolved(groups: int = 1, mask: bool = False, bias: bool = False, **given: Any) -> Call:
    def call(x: torch.Tensor) -> torch.Tensor:
        one = x[:, :1, :: given.get("stride", 1), :: given.get("stride", 1)]
        return myops.deform_conv2d(
            x, (one - 0.5).repeat(1, 18, 1, 1), WEIGHT[:, : 2 // groups], padding=1,
            bias=WEIGHT[:, 0, 0, 0] if bias else None,
            mask=one.repeat(1, 9, 1, 1) if mask else None, **given,
        )  # fmt: skip

    return call


RESIZES: list[Call] = [
    lambda x: myops.interpolate(x, size=(7, 9), mode="bilinear"),
    lambda x: myops.interpolate(x, scale_factor=x.mean().clamp(1.2, 1.2), mode="bicubic"),
    lambda x: myops.interpolate(x, scale_factor=1.3),
    lambda x: myops.interpolate(x.unsqueeze(2), size=(3, 5, 11), mode="trilinear"),
    lambda x: myops.interpolate(x[0], size=2 * x.shape[3], mode="linear", align_corners=True),
    lambda x: myops.interpolate(x, scale_factor=0.5, mode="bilinear", antialias=True),
    lambda x: myops.resize(x[0, 0], [2.0, 1.5], mode="cubic"),
    lambda x: myops.resize(
        x, sizes=[6, 5], roi=[0.1, 0.2, 1.3, 0.9], mode="linear", extrapolation_value=7.0,
        coordinate_transformation_mode="tf_crop_and_resize", axes=[3, 2],
    ),
    lambda x: myops.resize(
        x, sizes=[12, 9], mode="linear", axes=[2, 3], keep_aspect_ratio_policy="not_larger"
    ),
]  # fmt: skip
CALLS: dict[str, list[Call]] = {
    "resize": RESIZES,
    "deform_conv2d": [
        _convolved(),
        _convolved(mask=True),
        _convolved(bias=True),
        _convolved(groups=2, mask=True, bias=True),
        _convolved(stride=2),
        _convolved(groups=2, stride=2, bias=True),
    ],
    "my_add": [
        lambda x: myops.my_add(x, x),
        lambda x: myops.my_add(x[0, 0], x),
        lambda x: myops.my_add(x[0], x[0, 0, 0]),
        lambda x: myops.my_add((9 * x).to(torch.int64), x[0, 0].to(torch.int64)),
    ],
}


def _stats(
    x: np.ndarray, weight: np.ndarray | None, *, gain: float, powers: list[int], both: bool
) -> tuple[np.ndarray, np.ndarray | None]:
    scaled = x * np.float32(gain) if weight is None else x * weight
    for power in powers:
        scaled = scaled**power
    return scaled, -scaled if both else None


def _standard(g: Any) -> list[str]:
    gain = g.constant(np.array(g.attribute("gain"), np.float32))
    value = g.op("Mul", g.input("x"), g.input("weight") or gain)
    for power in g.attribute("powers"):
        value = g.op("Pow", value, g.constant(np.array(power, np.float32)))
    return [value, g.op("Neg", value) if g.attribute("both") else ""]


stats = myops.prototype(
    _stats, name="stats", domain="several_calls_test", types={"T": ["float32"]},
    inputs=[myops.Input("x", "T", "Any."), myops.Input("weight", "T", "As x.", optional=True)],
    outputs=[myops.Output("y", "T", "As x."), myops.Output("z", "T", "As x.", only_if="both")],
    attributes=[
        myops.Attribute("gain", 1.5, "Any."),
        myops.Attribute("powers", [1], "Any."),
        myops.Attribute("both", False, "Whether z is computed."),
    ],
    shape=lambda inputs, attributes: [inputs[0].shape, inputs[0].shape],
    standard=_standard,
)  # fmt: skip
# One function body serves calls with and without an output, but not with and without an input.
WITHOUT_WEIGHT: list[Call] = [
    lambda x: stats(x)[0],
    lambda x: stats(x, gain=0.5, both=True),
    lambda x: stats(x[0], gain=3.0, both=True),
    lambda x: stats(x[0, 0], gain=-1.0)[0],
]
WITH_WEIGHT: list[Call] = [
    lambda x: stats(x[0], x[0] + 1)[0],
    lambda x: stats(x[0, 0], x[0, 0], both=True),
    lambda x: stats(x[0, 0, 0], x[0, 0, 0] - 1, both=True),
]
OTHER_POWERS: list[Call] = [
    lambda x: stats(x, powers=[2, 3])[0],
    lambda x: stats(x[0], x[0] - 1, powers=[2], both=True),
]
STATS = {
    "without": WITHOUT_WEIGHT,
    "with": WITH_WEIGHT,
    "all": [*WITHOUT_WEIGHT, *WITH_WEIGHT, *OTHER_POWERS],
}


class Model(torch.nn.Module):
    def __init__(self, calls: Sequence[Call]) -> None:
        super().__init__()
        self.calls = calls

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        results: list[torch.Tensor] = []
        for call in self.calls:
            made = call(x)
            results += made if isinstance(made, (list, tuple)) else [made]
        return results


def _exported(calls: Sequence[Call], exporter: str, dynamic: bool) -> Any:
    axes = {"x": {2: "h", 3: "w"}} if dynamic else None
    return export(Model(calls), (torch.rand(1, 2, 8, 10),), exporter=exporter, dynamic_axes=axes)


def _compare(got: Sequence[Any], wanted: Sequence[torch.Tensor], atol: float = 0.0) -> None:
    for number, (one, other) in enumerate(zip(got, wanted, strict=True)):
        assert one.dtype == other.numpy().dtype
        np.testing.assert_allclose(one, other.numpy(), 0, atol, err_msg=f"output {number}")


def _image(dynamic: bool) -> torch.Tensor:
    return torch.rand(1, 2, *((13, 12) if dynamic else (8, 10)))


@pytest.mark.parametrize("exporter", ["dynamo", "torchscript"])
@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("op", list(CALLS))
def test_every_node_is_its_own_call(op: str, dynamic: bool, order: int, exporter: str) -> None:
    calls = CALLS[op][::order]
    model = _exported(calls, exporter, dynamic)
    assert sum(node.domain == "myops" for node in model.graph.node) == len(calls)
    x = _image(dynamic)
    wanted = Model(calls)(x)
    _compare(myops.ort.session(model).run(None, {"x": x.numpy()}), wanted)
    _compare(run_plain(model, {"x": x.numpy()}), wanted, atol=2e-5)  # function bodies


@pytest.mark.filterwarnings("ignore::myops.onnx.MissingBodyWarning")
@pytest.mark.parametrize("exporter", ["dynamo", "torchscript"])
@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("kind", list(STATS))
def test_every_node_of_a_prototype_is_its_own_call(
    kind: str, dynamic: bool, order: int, exporter: str
) -> None:
    calls = STATS[kind][::order]
    model = _exported(calls, exporter, dynamic)
    x = _image(dynamic)
    wanted = Model(calls)(x)
    _compare(myops.ort.pyop_session(model).run(None, {"x": x.numpy()}), wanted)
    assert bool(model.functions) == (kind != "all")
    if model.functions:
        _compare(run_plain(model, {"x": x.numpy()}), wanted, atol=2e-5)


@pytest.mark.parametrize("variadic", [False, True])
def test_an_op_without_a_standard_form_is_not_said_to_differ(variadic: bool) -> None:
    last = (
        myops.Input("more", "T", ".", variadic=True)
        if variadic
        else myops.Input("more", "T", ".", optional=True)
    )
    name = "formless_list" if variadic else "formless"
    op = myops.prototype(
        lambda x, more: x * 2, name=name, domain="several_calls", types={"T": ["float32"]},
        inputs=[myops.Input("x", "T", "."), last], outputs=[myops.Output("y", "T", ".")],
        shape=lambda inputs, attributes: [inputs[0].shape],
    )  # fmt: skip

    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return op(op(x, [x]), [x, x]) if variadic else op(op(x, x))

    with pytest.warns(MissingBodyWarning, match=f"the op {name} has no standard form") as caught:
        model = export(Model(), (torch.randn(3),), skip_checks="all", exporter="torchscript")
    assert not model.functions
    assert "different numbers" not in str(caught[0].message)
