"""Other lengths: which lengths the search tries, and which errors the checks of export give."""

from __future__ import annotations

import bisect
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
import torch
import torch.nn.functional as F
from guard_models import Model, assert_fails

import myops
from myops._torch import traced_numbers
from myops.onnx import ExportCheckError, ExportCheckWarning, export
from myops.onnx.exporting import exact_optimizer, float_lengths, recorded
from myops.onnx.guards import _difference, _lengths, _origin, other_lengths, special_values
from myops.onnx.guards._lengths import Group

EXPORTERS = ["dynamo", "torchscript"]
AXES = {"x": {2: "height", 3: "width"}}

pytestmark = pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")


# -- the search ---------------------------------------------------------------------------------


def frozen(seed: int) -> tuple[dict[str, int], int, Callable[..., Any], set[int]]:
    """A computation on two lengths that an exporter may build in, and the lengths that the model
    takes."""
    generator = random.Random(seed)
    unit = generator.choice([1, 1, 2, 4, 7, 8, 14, 32])
    constant = generator.choice([3, 7, 14, 16, 32, 60, 100])
    example = {"h": unit * generator.randint(2, 9), "w": unit * generator.randint(2, 9)}
    ways: list[Callable[[int, int], Any]] = [
        lambda h, w: h // constant,
        lambda h, w: h % constant == 0,
        lambda h, w: w % constant,
        lambda h, w: h > constant,
        lambda h, w: w <= constant,
        lambda h, w: (h // constant) * (w // constant),
        lambda h, w: h > w,
        lambda h, w: h == w,
        lambda h, w: round(h / constant),
        lambda h, w: -(-w // constant),
    ]
    return example, unit, generator.choice(ways), {constant}


@pytest.mark.parametrize("tied", [False, True])
def test_the_search_finds_lengths_with_another_result(tied: bool) -> None:
    """For every way to compute with lengths, and for all conditions on lengths."""
    for seed in range(300):
        example, unit, compute, constants = frozen(seed)
        groups = [Group([((name, 0), length)]) for name, length in example.items()]
        before, seen = compute(*example.values()), set()

        def attempt(point: Any, example: Any = example, unit: int = unit,
                    compute: Any = compute, seen: Any = seen) -> bool:  # fmt: skip
            h, w = point["h", 0], point["w", 0]
            if h % unit or w % unit or (tied and h - example["h"] != w - example["w"]):
                return False
            seen.add(compute(h, w))
            return True

        def always(*point: Any) -> bool:
            return True

        assert _lengths.explore(groups, constants, attempt, always, always)
        possible = {
            compute(h, w)
            for h in range(unit, 260, unit)
            for w in ([h - example["h"] + example["w"]] if tied else range(unit, 260, unit))
            if w > 0 and min(h, w) > 1
        }
        assert seen - {before} or possible == {before}, seed


def test_the_search_changes_lengths_in_their_ratio() -> None:
    """A mask of a quarter of the size: the axes change neither alone nor by the same amount."""
    taken = []
    groups = [Group([(("x", 0), 16)]), Group([(("mask", 0), 4)])]

    def attempt(point: Any) -> bool:
        if point["x", 0] != 4 * point["mask", 0]:
            return False
        taken.append(point["x", 0])
        return True

    assert _lengths.explore(groups, [], attempt, lambda: True, lambda point: True)
    assert len(taken) > 2


def test_the_search_ends_for_a_model_with_one_length() -> None:
    assert not _lengths.explore(
        [Group([(("x", 0), 16)])], [], lambda point: False, lambda: True, lambda point: True
    )


# -- what is said -------------------------------------------------------------------------------


def patches(x: torch.Tensor) -> torch.Tensor:
    return F.interpolate(x, size=(int(x.shape[2] // 14 * 14), int(x.shape[3] // 14 * 14)))


@pytest.mark.parametrize("exporter", EXPORTERS)
def test_the_line_that_builds_a_length_in_is_named(exporter: str) -> None:
    """The next length would not show it: 44 // 14 == 43 // 14."""
    line = patches.__code__.co_firstlineno + 1
    text = rf"length of the example is built in at {__file__}:{line}: return F.interp.*int\(\)"
    x = torch.rand(1, 2, 43, 58)
    assert_fails("numbers", text, Model(patches), x, dynamic_axes=AXES, exporter=exporter)


@pytest.fixture
def float32_factors(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files with the factors that torch's exporters write: we let them compute in float64."""
    monkeypatch.setattr(float_lengths, "widen", lambda program: None)
    monkeypatch.setattr(traced_numbers, "_value_of", None)


@pytest.mark.parametrize("quick", [True, False])
@pytest.mark.parametrize("exporter", EXPORTERS)
def test_a_factor_made_of_lengths_is_named(
    exporter: str, quick: bool, monkeypatch: pytest.MonkeyPatch, float32_factors: None
) -> None:
    """Python divides in float64, such a file in float32, so the result may be shorter by one; also
    where the outputs are so large that the node is not searched for."""
    if not quick:
        monkeypatch.setattr(_origin, "_SECONDS", 0.0)

    def forward(x: torch.Tensor) -> torch.Tensor:
        return myops.interpolate(x, scale_factor=(x.shape[3] + 5) / x.shape[3], mode="nearest")

    x = torch.rand(1, 1, 4, 32)
    with pytest.raises(ExportCheckError) as caught:
        export(Model(forward), (x,), input_names=["x"], dynamic_axes={"x": {3: "w"}},
               exporter=exporter)  # fmt: skip
    text = str(caught.value)
    assert "register_symbolic" not in text
    assert "runtime_assert" not in text
    if quick or exporter == "dynamo":
        assert "test_guards_lengths.py:" in text
        assert "Write size=(2 * h, 2 * w) instead of a scale_factor" in text


def test_large_results_are_compared_at_a_part_of_their_elements(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A comparison takes longer than most runs, and there is one for every length."""
    monkeypatch.setattr(_difference, "_MOST", 100)
    wanted = np.random.default_rng(0).random((3, 700, 5)).astype(np.float32)
    assert _difference.compare([wanted], [wanted.copy()]) is None
    for kind in (np.float32, np.int64):
        expected, got = (1000 * wanted).astype(kind), (1000 * wanted).astype(kind)
        got[1, 350:] += 7
        found = _difference.compare([expected], [got])
        assert found is not None
        place = [int(n) for n in found.text.split("at [")[1].split("]")[0].split(",")]
        assert place[0] == 1
        assert 350 <= place[1] < 700


def test_lines_of_torch_are_none_of_the_model() -> None:
    """Its passes name themselves by a path that begins in site-packages."""
    line = 'File "{}", line 24, in f'
    assert recorded.last_place(line.format("torch/fx/passes/runtime_assert.py")) is None
    assert recorded.last_place(line.format("torch/net.py")) is not None


def test_conditions_of_torch_export_are_named() -> None:
    text = r"holds only where 14\*\(x.shape\[2\]//14\) == 42"
    assert_fails("numbers", text, Model(patches), torch.rand(1, 2, 43, 58), dynamic_axes=AXES)


def bucketed(x: torch.Tensor) -> torch.Tensor:
    bucket = (24, 104)[min(bisect.bisect_left([24], x.shape[1]), 1)]
    return F.pad(x, (0, 0, 0, max(bucket - x.shape[1], 0)))


@pytest.mark.parametrize(("exporter", "title", "advised"), [
    ("dynamo", "t", "2*t"), ("torchscript", "t", "2*t"), ("dynamo", "3*t", "6*t"),
])  # fmt: skip
def test_advice_about_lengths_names_a_dynamic_axis(exporter: str, title: str, advised: str) -> None:
    with pytest.raises(ExportCheckError) as caught:
        export(Model(bucketed), (torch.rand(2, 18, 6),), input_names=["audio"], exporter=exporter,
               dynamic_axes={"audio": {0: "n", 1: title}})  # fmt: skip
    assert f'dynamic_axes={{"audio": {{1: "{advised}"}}}}' in str(caught.value)


@pytest.mark.parametrize("exporter", EXPORTERS)
def test_a_branch_on_a_large_length_is_found(exporter: str) -> None:
    def forward(x: torch.Tensor) -> torch.Tensor:
        return x * 2 if x.shape[2] > 555 else x + 1

    x = torch.rand(1, 1, 4, 4)
    assert_fails("numbers", "built in at", Model(forward), x, dynamic_axes=AXES, exporter=exporter)


@pytest.mark.parametrize("exporter", EXPORTERS)
def test_an_assert_of_the_model_is_no_fault(exporter: str, no_warnings: None) -> None:
    """torch.export records the assert as a condition, and PyTorch refuses lengths that violate
    it."""

    def forward(x: torch.Tensor) -> torch.Tensor:
        assert x.shape[2] % 14 == 0, "rows come in fourteens"
        return x.reshape(x.shape[0], x.shape[1], x.shape[2] // 14, 14, x.shape[3]).mean(3)

    export(Model(forward), torch.rand(1, 2, 28, 5), dynamic_axes=AXES, exporter=exporter)


def test_an_axis_that_became_static_is_refused() -> None:
    """torch's exporter makes an axis static if torch.export suggests it."""
    graph = onnx.parser.parse_graph("g (float[2,3] x) => (float[2,3] y) { y = Neg(x) }")
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 20)])
    from myops.onnx import guards
    from myops.onnx.exporting.inputs import Inputs

    module = Model(lambda x: -x)
    exported = guards.Exported(
        module, Inputs(module, (torch.rand(2, 3),), {}, None), model, model, "dynamo", 20,
        dynamic=[("x", 0)],
    )  # fmt: skip
    with pytest.raises(ExportCheckError, match="axis 0 of 'x' is to be dynamic, but has"):
        guards.run(exported, ["frozen_input"])


@pytest.mark.parametrize("exporter", EXPORTERS)
def test_equal_values_that_fill_a_longer_axis_are_ties(exporter: str, no_warnings: None) -> None:
    """The values of the example are repeated at other lengths, so there are ties."""

    def forward(x: torch.Tensor) -> torch.Tensor:
        return x.flatten(1).topk(3).indices

    export(Model(forward), torch.rand(1, 1, 5, 6), dynamic_axes=AXES, exporter=exporter)


def test_a_length_of_one_is_a_warning() -> None:
    """torch's trace writes linspace with a division by the length minus 1."""

    def forward(x: torch.Tensor) -> torch.Tensor:
        return x + torch.linspace(0, 1, x.shape[2])[:, None]

    x = torch.rand(1, 2, 6, 7)
    with pytest.warns(ExportCheckWarning, match="but not at length 1 of axis 2 of 'x'"):
        export(Model(forward), x, dynamic_axes={"x": [2]}, exporter="torchscript")


def test_a_search_that_ran_out_of_time_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(other_lengths, "SECONDS", 0.05)
    x = torch.rand(1, 2, 64, 64)
    model = torch.nn.Sequential(*[torch.nn.Conv2d(2, 2, 9, padding=4) for _ in range(20)])
    with pytest.warns(ExportCheckWarning, match=r"only \d+ other lengths|no other lengths"):
        export(model, x, dynamic_axes={"input": {2: "h", 3: "w"}}, exporter="torchscript")


def test_an_untested_fixed_output_shape_is_a_warning() -> None:
    def forward(x: torch.Tensor) -> torch.Tensor:
        assert x.shape[2] == 4, "four rows"
        return torch.zeros(2, 3) + x.mean()

    with pytest.warns(ExportCheckWarning, match=r"every output has a fixed shape"):
        export(Model(forward), torch.rand(1, 1, 4, 5), dynamic_axes={"x": [2]},
               exporter="torchscript")  # fmt: skip


def test_the_search_tries_only_declared_multiples() -> None:
    seen = []

    def forward(x: torch.Tensor) -> torch.Tensor:
        seen.append(tuple(x.shape[2:]))
        return F.avg_pool2d(x, 8)

    axes = {"x": {2: "8*h", 3: "8*w"}}
    export(Model(forward), torch.rand(1, 1, 16, 24), dynamic_axes=axes, exporter="torchscript")
    lengths = {int(n) for size in seen for n in size}
    assert len(lengths) >= 4
    assert not [n for n in lengths if n % 8]


# -- attributes that follow a length ------------------------------------------------------------


@torch.library.custom_op("myops_lengths_test::rows", mutates_args=())
def rows(x: torch.Tensor, height: int) -> torch.Tensor:
    return F.interpolate(x, size=(height, 5))


@rows.register_fake
def _(x: torch.Tensor, height: int) -> torch.Tensor:
    return x.new_empty((x.shape[0], x.shape[1], height, 5))


_library = torch.library.Library("myops_lengths_test", "FRAGMENT")
_library.define("fixed_rows(Tensor x, int height) -> Tensor")  # int: torch.export makes it constant
_library.impl("fixed_rows", lambda x, height: rows(x, height), "CompositeExplicitAutograd")
_library.impl("fixed_rows", lambda x, height: x.new_empty((*x.shape[:2], height, 5)), "Meta")
for _name in ("rows", "fixed_rows"):
    myops.onnx.register_symbolic(
        f"myops_lengths_test::{_name}",
        lambda g, x, height: g.op("myops_lengths_test::Rows", x, height=height),
    )


def following(x: torch.Tensor) -> torch.Tensor:
    return rows(x, x.shape[2] // 2)


def following_in_a_constant(x: torch.Tensor) -> torch.Tensor:
    return torch.ops.myops_lengths_test.fixed_rows(x, x.shape[2] // 2)


def following_in_ours(x: torch.Tensor) -> torch.Tensor:
    pad = x.shape[2] // 8
    offset = x.new_zeros(1, 18, x.shape[2] + 2 * pad - 2, x.shape[3] + 2 * pad - 2)
    return myops.deform_conv2d(x, offset, torch.ones(3, 2, 3, 3), padding=[pad, pad])


@pytest.mark.parametrize("exporter", EXPORTERS)
@pytest.mark.parametrize("forward", [following, following_in_a_constant])
def test_an_attribute_that_follows_a_length_is_refused(forward: Any, exporter: str) -> None:
    """No library can run the node; the error does not need one."""
    x = torch.rand(1, 2, 8, 9)
    text = r"height.*follows the length of an input|height.*computed at run time"
    with pytest.raises((ExportCheckError, RuntimeError, ValueError), match=text) as caught:
        export(Model(forward), x, dynamic_axes=AXES, exporter=exporter, skip_checks=["numbers"])
    assert "input" in str(caught.value)  # what to do
    fixed = export(Model(forward), x, exporter=exporter, skip_checks=["numbers"])
    (node,) = [node for node in fixed.graph.node if node.op_type == "Rows"]
    assert node.attribute[0].i == 4


@pytest.mark.parametrize("exporter", EXPORTERS)
def test_an_attribute_of_ours_that_follows_a_length_is_refused(exporter: str) -> None:
    x = torch.rand(1, 2, 8, 8)
    text = "follows the length of an input|attribute of an ONNX node cannot"
    with pytest.raises((ExportCheckError, RuntimeError, ValueError), match=text):
        export(Model(following_in_ours), x, dynamic_axes={"x": [2]}, exporter=exporter)


# -- special numbers ----------------------------------------------------------------------------


def guarded(x: torch.Tensor) -> torch.Tensor:
    return x / (x + 1e-9)


@pytest.mark.parametrize("exporter", EXPORTERS)
def test_a_small_constant_is_kept(exporter: str, no_warnings: None) -> None:
    model = export(Model(guarded), torch.rand(3, 4), exporter=exporter)
    assert "Add" in [node.op_type for node in model.graph.node]
    (got,) = myops.ort.session(model).run(None, {"x": np.zeros((3, 4), np.float32)})
    np.testing.assert_array_equal(got, 0)


def test_a_small_constant_that_is_dropped_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """As with an onnxscript whose optimizer cannot be made exact."""
    monkeypatch.delattr("onnxscript.rewriter._matcher.math")
    monkeypatch.setattr("onnxscript.rewriter._matcher.math", __import__("math"), raising=False)
    monkeypatch.setattr(exact_optimizer, "_Exact", lambda: __import__("math"))
    text = "with x all zeros output .* nan at .* a small constant was left out"
    assert_fails("numbers", text, Model(guarded), torch.rand(3, 4))


@pytest.mark.parametrize(
    "forward",
    [
        lambda x: x / x.norm(),  # NaN at zeros, in both
        lambda x: x.topk(2).indices,  # ties at zeros and ones
        lambda x: x.softmax(-1).argmax(-1),
        lambda x: (x - x.mean()) / x.std(),  # 0 / 0, and cancellation where numbers are large
        lambda x: torch.log(x),
        lambda x: x.exp(),
        lambda x: torch.round(x * 3),
    ],
)
def test_unstable_results_at_special_values_are_no_fault(forward: Any, no_warnings: None) -> None:
    export(Model(forward), torch.rand(2, 3, 8) + 0.1, exporter="torchscript")


def test_a_scale_factor_is_not_tried_with_large_values(monkeypatch: pytest.MonkeyPatch) -> None:
    """A large factor would need all memory of the machine."""
    seen = []

    def forward(x: torch.Tensor, factor: torch.Tensor) -> torch.Tensor:
        seen.append(float(factor.max()))
        return myops.interpolate(x, scale_factor=factor)

    export(Model(forward), (torch.rand(1, 1, 4, 6), torch.tensor([2.0, 2.0])),
           exporter="torchscript")  # fmt: skip
    assert max(seen) < 10


def test_sums_in_another_order_are_no_fault(no_warnings: None) -> None:
    assert special_values.SECONDS > 0
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.LayerNorm(64), torch.nn.GELU())
    export(model, torch.rand(2, 8, 64), exporter="torchscript")


@pytest.mark.parametrize("exporter", ["dynamo", "torchscript"])
@pytest.mark.parametrize("number", [64, 224, 512])
def test_a_factor_that_is_a_quotient_of_a_length_in_float32(
    number: int, exporter: str, float32_factors: None
) -> None:
    """PyTorch computes it in float64, and floor(factor * length) is `number` at every length."""

    class Side(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return myops.interpolate(x, scale_factor=number / x.shape[2], mode="bilinear")

    with pytest.raises(ExportCheckError, match=r"shape \[.*PyTorch \["):
        myops.onnx.export(
            Side(), (torch.rand(1, 3, 16, 12),), input_names=["x"],
            dynamic_axes={"x": {2: "h", 3: "w"}}, exporter=exporter,
        )  # fmt: skip
