"""Results whose lengths the data decides, in every family and every runtime."""

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from author_ops import ball_query, library, nms, select, unique

import myops
import myops.onnx
import myops.ort
from myops.testing import Case, checks

torch.manual_seed(0)
corners = torch.rand(9, 2) * 5
BOXES = torch.cat([corners, corners + torch.rand(9, 2) * 4 + 0.5], 1)
SCORES = torch.rand(9)
X = torch.randn(3, 5)
MASK = torch.rand(3, 5) < 0.5
NUMBERS = torch.tensor([3.0, 1.0, 2.0, 3.0, 1.0, 3.0])


def slow_nms(boxes, scores, threshold=0.5):
    low, high = torch.minimum(boxes[:, :2], boxes[:, 2:]), torch.maximum(boxes[:, :2], boxes[:, 2:])
    area = (high - low).prod(1)
    order = torch.sort(torch.nan_to_num(scores, nan=-torch.inf), stable=True, descending=True)[1]
    kept = []
    for i in order.tolist():
        sides = [torch.minimum(high[i], high[j]) - torch.maximum(low[i], low[j]) for j in kept]
        both = [float(side.prod()) if bool((side > 0).all()) else 0.0 for side in sides]
        pairs = zip(kept, both, strict=True)
        good = [
            not (b > 0 and area[i] > 0 and area[j] > 0)
            or not b / float(area[i] + area[j] - b) > np.float32(threshold)
            for j, b in pairs
        ]
        if all(good):
            kept.append(i)
    return boxes[kept], torch.tensor(kept, dtype=torch.int64)


def slow_select(x, mask):
    return x[mask]


def slow_unique(x, return_inverse=False, return_counts=False):
    numbers = sorted(set(x[x == x].tolist()))
    numbers += [float("nan")] * bool((x != x).any())
    place = [numbers.index(v) if v == v else len(numbers) - 1 for v in x.tolist()]
    counts = [place.count(k) for k in range(len(numbers))]
    inverse = torch.tensor(place, dtype=torch.int64) if return_inverse else None
    counted = torch.tensor(counts, dtype=torch.int64) if return_counts else None
    return torch.tensor(numbers, dtype=x.dtype), inverse, counted


def slow_ball_query(centres, points, radius=1.0, return_squares=False):
    squares = ((centres[:, None] - points[None]) ** 2).sum(2)
    near = squares <= np.float32(radius) ** 2
    return near.sum(1).cumsum(0), near.nonzero()[:, 1], squares[near] if return_squares else None


NEAR = [
    Case((torch.rand(4, 3), torch.rand(6, 3)), {"radius": 0.6}, name="pairs"),
    Case((torch.rand(4, 3), torch.rand(6, 3)), {"radius": 0.6, "return_squares": True}, name="all"),
]
NMS = [
    Case((BOXES, SCORES), name="some"),
    Case((BOXES, SCORES), {"threshold": 0.1}, name="few"),
    Case((BOXES, SCORES[:8]), refused="nms: scores: got shape [8], expected [N] with N = 9"),
]
SELECT = [
    Case((X, MASK), name="some"),
    Case((X, torch.zeros_like(MASK)), name="none"),
    Case((X, MASK[:2]), refused="select: mask: got shape [2, 5]"),
]
UNIQUE = [
    Case((NUMBERS,), name="alone"),
    Case((NUMBERS,), {"return_inverse": True}, name="inverse"),
    Case((NUMBERS,), {"return_counts": True}, name="counts"),
    Case((NUMBERS,), {"return_inverse": True, "return_counts": True}, name="all"),
]
FOUND = [
    *checks(nms, NMS, reference=slow_nms),
    *checks(select, SELECT, reference=slow_select),
    *checks(
        ball_query, NEAR, reference=slow_ball_query, gradients=1, skip={"bodies": "none is written"}
    ),
    *checks(unique, UNIQUE, reference=slow_unique, gradients=0),
]


@pytest.mark.parametrize("check", FOUND, ids=str)
def test_family(check):
    check()


class Detector(torch.nn.Module):
    def forward(self, boxes, scores):
        kept, indices = nms(boxes, scores)
        return kept * 2, scores[indices]


@pytest.mark.parametrize("exporter", ["dynamo", "torchscript"])
def test_lengths_in_a_file_have_a_name(tmp_path, exporter):
    file = tmp_path / "model.onnx"
    myops.onnx.export(
        Detector(), (BOXES, SCORES), file, input_names=["boxes", "scores"],
        output_names=["kept", "best"], dynamic_axes={"boxes": {0: "n"}, "scores": {0: "n"}},
        exporter=exporter,
    )  # fmt: skip
    model = onnx.load(file)
    kept = [
        dim.dim_param or dim.dim_value for dim in model.graph.output[0].type.tensor_type.shape.dim
    ]
    assert isinstance(kept[0], str)
    assert kept[0] not in ("", "n")
    assert kept[1] == 4
    session = myops.ort.session(file)
    for count in (9, 4, 1, 0):
        boxes, scores = BOXES[:count], SCORES[:count]
        results = session.run(None, {"boxes": boxes.numpy(), "scores": scores.numpy()})
        for result, expected in zip(results, Detector()(boxes, scores), strict=True):
            np.testing.assert_array_equal(result, expected.numpy())


def test_outputs_share_a_length_in_traces():
    dynamic = {0: torch.export.Dim.DYNAMIC}
    program = torch.export.export(Detector(), (BOXES, SCORES), dynamic_shapes=(dynamic, dynamic))
    (node,) = [n for n in program.graph.nodes if n.target is torch.ops.author_ops.nms.default]
    kept, indices = node.meta["val"]
    assert not isinstance(kept.shape[0], int)
    assert kept.shape[0].node.expr == indices.shape[0].node.expr
    fixed = torch.export.export(Detector(), (BOXES, SCORES))
    (symbol,) = fixed.range_constraints
    assert fixed.range_constraints[symbol].upper == 9  # what at_most says


def test_results_in_the_memory_of_the_caller():
    expected = select(X, MASK)
    out = torch.empty_like(expected)
    assert select(X, MASK, out=out) is out
    assert torch.equal(out, expected)
    with pytest.raises(RuntimeError, match=r"select: out: got shape \[1\], expected shape \["):
        select(X, MASK, out=torch.empty(1))


def test_a_batch_of_different_lengths_is_refused():
    masks = torch.stack([MASK, torch.zeros_like(MASK)])
    with pytest.raises(RuntimeError, match="select: vmap: got results of shapes"):
        torch.func.vmap(select, in_dims=(None, 0))(X, masks)
    assert torch.func.vmap(select, in_dims=(0, None))(torch.stack([X, 2 * X]), MASK).shape[0] == 2


def test_the_meta_device_knows_no_length():
    with pytest.raises(RuntimeError, match="select: x: got a tensor on meta"):
        select(X.to("meta"), MASK.to("meta"))


def test_onnx_shape_inference_names_a_shared_length():
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 18, "author_ops" : 1]>'
        "g (float[n, 4] b, float[n] s, float[m, 4] c, float[m] t) => (kept, i, other, j)"
        "{ kept, i = author_ops.Nms(b, s)  other, j = author_ops.Nms(c, t) }"
    )
    myops.onnx.register_schemas(model)
    inferred = onnx.shape_inference.infer_shapes(model, strict_mode=True)
    names = [next(d.dim_param for d in o.type.tensor_type.shape.dim) for o in inferred.graph.output]
    assert names[0] == names[1]
    assert names[2] == names[3]
    assert names[0] != names[2]
    assert all(name and name not in "nm" for name in names)
    session = myops.ort.session(model)
    shapes = [output.shape for output in session.get_outputs()]
    assert shapes[0][0] == shapes[1][0]
    assert shapes[2][0] == shapes[3][0] != shapes[0][0]
    assert library.ort_library.is_file()
    assert onnxruntime.__version__
