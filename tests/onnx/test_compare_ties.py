"""Differences that are ties, and faults that look like ties."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from compare_models import export, node_of
from onnx import TensorProto, helper, numpy_helper
from torch import nn

from myops.onnx.comparison import compare


class Largest(nn.Module):
    """[0, 0, 0].argmax(): one runtime says 0, another may say 1."""

    def __init__(self, choose):
        super().__init__()
        self.choose = choose

    def forward(self, x):
        return self.choose(x)


class Last(nn.Module):
    """An argmax that takes the last of equal values; the file takes the first."""

    def forward(self, x):
        return x.shape[-1] - 1 - torch.argmax(x.flip(-1), -1)


def argmax_file(length, select_last=0):
    node = helper.make_node("ArgMax", ["x"], ["y"], axis=-1, keepdims=0, name="argmax",
                            select_last_index=select_last)  # fmt: skip
    return one_node_file([node], [1, length], [("y", TensorProto.INT64)])


def one_node_file(nodes, shape, outputs, weights=()):
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info(name, kind, None) for name, kind in outputs],
        [numpy_helper.from_array(array, name) for name, array in weights],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


def test_argmax_among_equal_values_is_a_tie():
    x = torch.zeros(1, 3)
    report = compare(Last(), x, argmax_file(3))
    (value,) = report.values
    assert (value.expected.item(), value.got.item()) == (2, 0)
    assert (value.status, report.passed) == ("order", True)
    assert "point at equal values" in value.detail
    assert [item.status for item in report.outputs] == ["order"]


def test_argmax_among_nearly_equal_values_is_a_tie():
    x = torch.tensor([[0.0, 1.0, 1.0 + 1e-6]])
    report = compare(Largest(lambda t: torch.argmax(t[:, :2], -1)), x, argmax_file(3))
    assert report.values[0].status == "order"


def test_a_wrong_argmax_is_a_fault():
    x = torch.tensor([[0.0, 2.0, 1.0]])
    node = argmax_file(3)
    node.graph.node[0].op_type = "ArgMin"
    report = compare(Largest(lambda t: torch.argmax(t, -1)), x, node)
    assert (report.passed, report.values[0].status) == (False, "fail")
    assert report.first_mismatch.nodes == ["ArgMin 'argmax'"]


@pytest.mark.parametrize("largest", [0, 1])
def test_topk_indices_among_equal_values_are_ties(largest):
    """PyTorch chooses equal values in the opposite order; the values are the same."""

    def choose(x):
        values, _ = torch.sort(x, descending=bool(largest), stable=True)
        other = x.shape[-1] - 1 - torch.sort(x.flip(-1), descending=bool(largest), stable=True)[1]
        return values[:, :3], other[:, :3]

    node = helper.make_node("TopK", ["x", "k"], ["v", "i"], name="topk", largest=largest)
    outputs = [("v", TensorProto.FLOAT), ("i", TensorProto.INT64)]
    proto = one_node_file([node], [1, 6], outputs, [("k", np.array([3]))])
    report = compare(Largest(choose), torch.tensor([[1.0, 2, 1, 2, 2, 1]]), proto)
    assert [value.status for value in report.values] == ["ok", "order"]
    assert report.passed
    different = compare(Largest(choose), torch.tensor([[1.0, 2, 3, 4, 5, 6]]), proto)
    assert [value.status for value in different.values] == ["ok", "ok"]


def test_topk_with_one_index_twice_is_a_fault():
    def choose(x):
        return torch.topk(x, 2)[0], torch.zeros(1, 2, dtype=torch.int64)

    node = helper.make_node("TopK", ["x", "k"], ["v", "i"], name="topk")
    outputs = [("v", TensorProto.FLOAT), ("i", TensorProto.INT64)]
    proto = one_node_file([node], [1, 3], outputs, [("k", np.array([2]))])
    report = compare(Largest(choose), torch.ones(1, 3), proto)
    assert [value.status for value in report.values] == ["ok", "fail"]


class Boxes(nn.Module):
    """A detection head: boxes sorted by score, many scores equal. `backwards` sorts equals the
    other way round, as another runtime may."""

    def __init__(self, backwards=False, keep=6, indices=False):
        super().__init__()
        self.box, self.score = nn.Linear(3, 4), nn.Linear(3, 1)
        self.backwards, self.keep, self.indices = backwards, keep, indices

    def forward(self, x):
        boxes, scores = self.box(x), torch.round(self.score(x)[:, 0] * 2)
        if self.backwards:
            index = x.shape[0] - 1 - torch.sort(scores.flip(0), descending=True, stable=True)[1]
        else:
            index = torch.sort(scores, descending=True)[1]
        index = index[: self.keep]
        found = boxes[index], scores[index]
        return (*found, index) if self.indices else found


def boxes(**options):
    torch.manual_seed(7)
    one, other = Boxes(**options).eval(), Boxes(backwards=True, **options).eval()
    other.load_state_dict(one.state_dict())
    x = torch.randn(6, 3)
    scores = torch.round(one.score(x)[:, 0] * 2)
    assert len(set(scores.tolist())) < 5  # there are ties
    return other, x, export(one, (x,), "torchscript")


def test_boxes_sorted_by_equal_scores_are_ties():
    model, x, proto = boxes()
    report = compare(model, x, proto)
    by_place = [value for value in report.values if not value.path]
    assert sorted(value.status for value in by_place) == ["ok", "order"]
    assert report.passed
    assert "rows stand in another order" in " ".join(value.detail for value in by_place)
    assert [item.status for item in report.outputs] == [value.status for value in by_place]


def test_keeping_other_boxes_of_equal_scores_is_a_tie():
    """Other boxes of equal score are kept. This is no permutation, but it follows from the tie."""
    for indices in (True, False):
        model, x, proto = boxes(keep=2, indices=indices)
        report = compare(model, x, proto)
        first = report.values[-3 if indices else -2]
        if first.difference.agrees:
            pytest.fail("the example has no tie at the cut")
        assert report.passed, indices
        assert "follows from a choice among equal values" in first.detail


def test_a_wrong_box_among_equal_scores_is_a_fault():
    model, x, proto = boxes()
    gemm = node_of(proto, "Gemm")
    for tensor in proto.graph.initializer:
        if tensor.name == gemm.input[2]:
            wrong = numpy_helper.to_array(tensor) + np.float32(0.5)
            tensor.CopyFrom(numpy_helper.from_array(wrong, tensor.name))
    report = compare(model, x, proto)
    assert not report.passed
    assert report.first_mismatch.path == "box"


def test_boxes_in_an_order_against_their_scores_are_a_fault():
    """Rows were exchanged although their scores differ."""
    model, x, proto = boxes()

    class Turned(Boxes):
        def forward(self, x):
            found, scores = Boxes.forward(self, x)
            return found.flip(0), scores

    turned = Turned().eval()
    turned.load_state_dict(model.state_dict())
    report = compare(turned, x, proto)
    assert not report.passed
    assert [value.status for value in report.values if not value.path].count("fail") == 1


def test_rows_of_non_max_suppression_in_another_order_are_ties():
    """The file finds the boxes in the order of their scores, PyTorch in that of their places."""
    boxes = np.float32([[[0, 0, 1, 1], [5, 5, 6, 6], [0, 0, 1, 1.1], [9, 9, 10, 10]]])
    scores = np.float32([[[0.5, 0.9, 0.4, 0.7]]])

    class Suppress(nn.Module):
        def forward(self, x):
            return torch.tensor([[0, 0, 0], [0, 0, 1], [0, 0, 3]]) + (x.sum() * 0).long()

    constants = {"n": np.array([9]), "iou": np.float32([0.5]), "least": np.float32([0.1]),
                 "scores": scores, "zero": np.float32([0])}  # fmt: skip
    nodes = [
        helper.make_node("Mul", ["x", "zero"], ["none"]),
        helper.make_node("Add", ["none", "boxes"], ["moved"]),
        helper.make_node("NonMaxSuppression", ["moved", "scores", "n", "iou", "least"], ["y"]),
    ]
    proto = one_node_file(nodes, [1, 4, 4], [("y", TensorProto.INT64)],
                          [*constants.items(), ("boxes", boxes)])  # fmt: skip
    report = compare(Suppress(), torch.zeros(1, 4, 4), proto)
    assert report.values[0].got.tolist() == [[0, 0, 1], [0, 0, 3], [0, 0, 0]]
    assert (report.values[0].status, report.passed) == ("order", True)
    proto.graph.initializer[1].CopyFrom(numpy_helper.from_array(np.float32([1.0]), "iou"))
    assert not compare(Suppress(), torch.zeros(1, 4, 4), proto).passed  # one box more


def test_unsorted_rows_in_another_order_are_a_fault():
    class Plain(nn.Module):
        def forward(self, x):
            return torch.relu(x)

    proto = export(Plain(), (torch.rand(4, 2),), "torchscript")

    class Turned(nn.Module):
        def forward(self, x):
            return torch.relu(x).flip(0)

    assert not compare(Turned(), torch.rand(4, 2), proto).passed
