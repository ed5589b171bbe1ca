"""Prototypes with lengths that the function decides, lists of tensors and optional outputs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch

import myops
import myops.onnx
from myops.testing import Case, checks

torch.manual_seed(0)
CORNERS = torch.rand(6, 2) * 4
BOXES = torch.cat([CORNERS, CORNERS + 1 + torch.rand(6, 2) * 3], 1)
SCORES = torch.rand(6)


def _overlap(one: np.ndarray, other: np.ndarray) -> float:
    sides = np.minimum(one[2:], other[2:]) - np.maximum(one[:2], other[:2])
    areas = [float(np.prod(box[2:] - box[:2])) for box in (one, other)]
    if not (sides > 0).all() or not min(areas) > 0:
        return 0.0
    both = float(sides.prod())
    return both / (sum(areas) - both)


def nms_numpy(boxes: Any, scores: Any, *, threshold: float) -> Any:
    """Non-maximum suppression: the boxes that remain, and their indices."""
    kept: list[int] = []
    wide = boxes.astype(np.float64)
    for place in np.argsort(-np.nan_to_num(scores, nan=-np.inf), kind="stable").tolist():
        if all(_overlap(wide[place], wide[other]) <= threshold for other in kept):
            kept.append(place)
    return boxes[kept], np.array(kept, np.int64)


def nms_shape(inputs: Any, attributes: dict[str, Any]) -> Any:
    boxes, scores = inputs
    if len(boxes.shape) != 2 or boxes.shape[1] != 4:
        raise ValueError(f"nms: boxes: got shape {list(boxes.shape)}, expected [N, 4]")
    if len(scores.shape) != 1 or scores.shape[0] != boxes.shape[0]:
        raise ValueError(f"nms: scores: got shape {list(scores.shape)}, expected one a box")
    kept = myops.at_most(boxes.shape[0], "K")
    return [[kept, 4], [kept]]


def nms_save(ctx: Any, inputs: Any, attributes: Any, output: Any) -> None:
    ctx.mark_non_differentiable(output[1])
    ctx.save_for_backward(output[1])
    ctx.shape = inputs[0].shape


def nms_backward(ctx: Any, grad: Any, _: Any) -> Any:
    (indices,) = ctx.saved_tensors
    return grad.new_zeros(ctx.shape).index_add(0, indices, grad), None


BOTH = {"T": ["float32", "float64"], "I": ["int64"]}
nms = myops.prototype(
    nms_numpy, name="nms", domain="arguments_draft", types=BOTH,
    inputs=[myops.Input("boxes", "T", "[N, 4]."), myops.Input("scores", "T", "[N].")],
    outputs=[myops.Output("kept", "T", "[K, 4]."), myops.Output("indices", "I", "[K].")],
    attributes=[myops.Attribute("threshold", 0.5, "Intersection over union.")],
    shape=nms_shape, save=nms_save, backward=nms_backward,
)  # fmt: skip


def concat_numpy(tensors: Any, *, axis: int) -> Any:
    """The concatenation of tensors."""
    return np.concatenate(tensors, axis)


def concat_shape(inputs: Any, attributes: dict[str, Any]) -> Any:
    axis, (first, *rest) = attributes["axis"], inputs[0]
    if not 0 <= axis < len(first.shape):
        raise ValueError(f"concat: axis: got {axis}, expected 0 to {len(first.shape) - 1}")
    lengths = list(first.shape)
    for number, item in enumerate(rest, 1):
        others = [k for k in range(len(lengths)) if k != axis]
        if len(item.shape) != len(lengths) or any(item.shape[k] != lengths[k] for k in others):
            raise ValueError(
                f"concat: tensors[{number}]: got shape {list(item.shape)}, expected that of "
                "tensors[0] but on the axis"
            )
        lengths[axis] = lengths[axis] + item.shape[axis]
    return [lengths]


def concat_save(ctx: Any, inputs: Any, attributes: Any, output: Any) -> None:
    ctx.axis = attributes.get("axis", 0)
    ctx.lengths = [item.shape[ctx.axis] for item in inputs[0]]


concat = myops.prototype(
    concat_numpy, name="concat", domain="arguments_draft", types={"T": ["float32", "float64"]},
    inputs=[myops.Input("tensors", "T", "One or more.", variadic=True)],
    outputs=[myops.Output("result", "T", "All of them.")],
    attributes=[myops.Attribute("axis", 0, "Not negative.")],
    shape=concat_shape, save=concat_save,
    backward=lambda ctx, grad: list(torch.split(grad, ctx.lengths, ctx.axis)),
    standard=lambda g: [g.op("Concat", *g.inputs("tensors"), axis=g.attribute("axis"))],
)  # fmt: skip


def extremes_numpy(x: Any, weight: Any, *, return_low: bool) -> Any:
    """The largest element, optionally the smallest, and the largest times a weight."""
    low = x.min(0) if return_low else None
    return x.max(0), low, None if weight is None else x.max(0) * weight


def extremes_shape(inputs: Any, attributes: dict[str, Any]) -> Any:
    x, weight = inputs
    if len(x.shape) != 2 or x.shape[0] == 0:
        raise ValueError(f"extremes: x: got shape {list(x.shape)}, expected [R, C] with a row")
    if weight is not None and (len(weight.shape) != 1 or weight.shape[0] != x.shape[1]):
        raise ValueError(f"extremes: weight: got shape {list(weight.shape)}, expected [C]")
    return 3 * [[x.shape[1]]]


extremes = myops.prototype(
    extremes_numpy, name="extremes", domain="arguments_draft", types={"T": ["float32"]},
    inputs=[myops.Input("x", "T", "[R, C]."), myops.Input("weight", "T", "[C].", optional=True)],
    outputs=[
        myops.Output("high", "T", "[C]."),
        myops.Output("low", "T", "[C].", only_if="return_low"),
        myops.Output("weighted", "T", "[C].", only_if="weight"),
    ],
    attributes=[myops.Attribute("return_low", False, "Whether low is computed.")],
    shape=extremes_shape,
)  # fmt: skip


def blend_numpy(weights: Any, tensors: Any) -> Any:
    """A weighted sum of tensors; without weights, their sum."""
    weights = np.ones(len(tensors), tensors[0].dtype) if weights is None else weights
    return sum(weight * tensor for weight, tensor in zip(weights, tensors, strict=True))


def blend_shape(inputs: Any, attributes: dict[str, Any]) -> Any:
    weights, tensors = inputs
    if weights is not None and list(weights.shape) != [len(tensors)]:
        raise ValueError(f"blend: weights: got shape {list(weights.shape)}, expected one a tensor")
    return [tensors[0].shape]


blend = myops.prototype(
    blend_numpy, name="blend", domain="arguments_draft", types={"T": ["float32", "float64"]},
    inputs=[
        myops.Input("weights", "T", "[C].", optional=True),
        myops.Input("tensors", "T", "Of one shape.", variadic=True),
    ],
    outputs=[myops.Output("sum", "T", "Of this shape.")], shape=blend_shape,
)  # fmt: skip

X = torch.randn(4, 3)
SKIPPED = {"bodies": "none is written", "threads": "a Python function is told no number of them"}
FOUND = [
    *checks(nms, [Case((BOXES, SCORES))], skip=SKIPPED),
    *checks(
        concat,
        [Case(([X, X[:2], 2 * X],)), Case(([X, X[:, :1]],), {"axis": 1})],
        reference=lambda tensors, axis=0: torch.cat(tensors, axis),
        skip={"threads": SKIPPED["threads"]},
    ),
    *checks(
        extremes,
        [
            Case((X,)),
            Case((X,), {"return_low": True}, name="low"),
            Case((X, torch.rand(3)), name="weighted"),
            Case((X, torch.rand(3)), {"return_low": True}, name="all"),
        ],
        gradients=0,
        skip=SKIPPED,
    ),
]


@pytest.mark.parametrize("check", FOUND, ids=str)
def test_prototypes_pass_every_family(check: Any) -> None:
    check()


@pytest.mark.parametrize("exporter", ["dynamo", "torchscript"])
@pytest.mark.parametrize("weighted", [True, False])
def test_a_list_of_tensors_after_another_input(
    tmp_path: Path, exporter: str, weighted: bool
) -> None:
    """Each tensor is once among the inputs of the node, where the first one is left out too."""

    class Model(torch.nn.Module):
        def forward(self, w: Any, a: Any, b: Any) -> Any:
            return blend(w if weighted else None, [a, b]) + w.sum()

    with pytest.warns(myops.onnx.MissingBodyWarning):
        model = myops.onnx.export(
            Model(), (torch.rand(2), X, X + 1), tmp_path / "model.onnx", exporter=exporter,
            input_names=["w", "a", "b"],
        )  # fmt: skip
    (node,) = [node for node in model.graph.node if node.op_type == "Blend"]
    assert [*node.input] == ["w" if weighted else "", "a", "b"]


@pytest.mark.filterwarnings("ignore::myops.onnx.MissingBodyWarning")
@pytest.mark.parametrize("exporter", ["dynamo", "torchscript"])
@pytest.mark.parametrize("low", [False, True])
def test_torch_ops_with_outputs_left_out(tmp_path: Path, exporter: str, low: bool) -> None:
    """Where `extremes` returns None, torch.ops has an empty tensor, and so has the file. The node
    has no outputs behind the last that is computed."""

    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            return torch.ops.arguments_draft.extremes(x, return_low=low)

    x = torch.randn(4, 3)
    file = tmp_path / "model.onnx"
    model = myops.onnx.export(
        Model(), (x,), file, input_names=["x"], dynamic_axes={"x": {0: "n"}}, exporter=exporter,
        skip_checks="all",
    )  # fmt: skip
    (node,) = [node for node in model.graph.node if node.op_type == "Extremes"]
    assert len(node.output) == 1 + low
    evaluator = onnx.reference.ReferenceEvaluator(str(file), new_ops=myops.onnx.reference_ops())
    results = evaluator.run(None, {"x": x[:2].numpy()})
    for result, expected in zip(results, Model()(x[:2]), strict=True):
        np.testing.assert_array_equal(result, expected.numpy())
        assert result.dtype == np.float32


def ends_standard(g: Any) -> list[str]:
    axes = g.constant(np.array([0]))
    high = g.op("ReduceMax", g.input("x"), axes, keepdims=0)
    low = g.op("ReduceMin", g.input("x"), axes, keepdims=0) if g.attribute("both") else ""
    return [high, low]


ends = myops.prototype(
    lambda x, both: (x.max(0), x.min(0) if both else None), name="ends", domain="arguments_draft",
    types={"T": ["float32"]}, inputs=[myops.Input("x", "T", "[R, C].")],
    outputs=[myops.Output("high", "T", "[C]."), myops.Output("low", "T", "[C].", only_if="both")],
    attributes=[myops.Attribute("both", False, "Whether low is computed.")],
    shape="R C -> C, C", standard=ends_standard,
)  # fmt: skip


@pytest.mark.parametrize("exporter", ["dynamo", "torchscript"])
@pytest.mark.parametrize("both", [(True, False), (False, True), (True, True), (False, False)])
def test_one_body_serves_calls_with_and_without_an_output(
    tmp_path: Path, exporter: str, both: tuple[bool, bool]
) -> None:
    """A function has one number of outputs, so a node that leaves one out has a name for it. What
    the body returns there has another shape than the output would have."""

    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            found = [*ends(x, both=both[0]), *ends(x + 1, both=both[1])]
            return [tensor for tensor in found if tensor is not None]

    for axes in (None, {"x": {0: "n", 1: "c"}}):
        file = tmp_path / "model.onnx"
        myops.onnx.export(
            Model(), (X,), file, input_names=["x"], dynamic_axes=axes, exporter=exporter,
            opset_version=18,
        )  # fmt: skip
        session = onnxruntime.InferenceSession(str(file))  # without our library
        x = X if axes is None else torch.randn(5, 2)
        results = session.run(None, {"x": x.numpy()})
        for result, expected in zip(results, Model()(x), strict=True):
            np.testing.assert_array_equal(result, expected.numpy())
