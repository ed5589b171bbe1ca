"""One function body for nodes of several dtypes: each node gets the form of its own dtype."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from node_models import run_plain, run_reference
from onnx import TensorProto, helper

import myops
from myops import _dtypes
from myops.onnx import MissingBodyWarning, add_function_bodies, export
from myops.onnx.schema import ELEMENT_TYPES

DTYPES = [name for name in _dtypes.NAMES if name not in ("string", *_dtypes.COMPLEX)]
FIRST_OPSETS = {"bfloat16": 16, "float8_e4m3fn": 19, "float8_e5m2": 19}
# The form of each dtype adds another number.
NUMBERS = {name: 10.0 * place for place, name in enumerate(_dtypes.NAMES, 1)}
DOMAIN = "body_dtypes_test"


def _marked(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return x.astype(np.float32) + np.float32(NUMBERS[x.dtype.name]), x


def _standard(g: Any) -> list[str]:
    number = g.constant(np.float32(NUMBERS[g.dtype("x").name]))
    return [g.op("Add", g.op("Cast", g.input("x"), to=TensorProto.FLOAT), number), g.input("x")]


marked = myops.prototype(
    _marked, name="marked", domain=DOMAIN,
    types={"T": [name for name in _dtypes.NAMES if name != "string"], "F": ["float32"]},
    inputs=[myops.Input("x", "T", "Any.")],
    outputs=[myops.Output("y", "F", "x + a number that says its dtype."),
             myops.Output("same", "T", "x.")],
    shape=lambda inputs, attributes: [inputs[0].shape, inputs[0].shape], standard=_standard,
)  # fmt: skip


def tensor(dtype: str) -> np.ndarray:
    """Small numbers, and the lowest and the highest of an integer dtype."""
    kind = _dtypes.numpy_dtype(dtype)
    if not _dtypes.is_integer(dtype):
        return np.array([0, 1, 0.5, 1.5]).astype(kind)
    limits = np.iinfo(dtype)
    return np.array([0, 1, limits.min, limits.max], kind)


def expected(dtypes: Sequence[str]) -> list[np.ndarray]:
    results = []
    for dtype in dtypes:
        x = tensor(dtype)
        results += [x.astype(np.float32) + np.float32(NUMBERS[dtype])]
        results += [x.astype(np.float32) if dtype in _dtypes.NARROW_FLOATS else x]
    return results


def model_of_dtypes(
    dtypes: Sequence[str], opset: int = 20
) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """One node for each dtype. NumPy lacks some floats: these enter and leave as float32."""
    nodes: list[onnx.NodeProto] = []
    inputs: list[onnx.ValueInfoProto] = []
    outputs: list[onnx.ValueInfoProto] = []
    feeds: dict[str, np.ndarray] = {}
    for dtype in dtypes:
        names = [f"{dtype}_{end}" for end in ("x", "y", "same")]
        kind = ELEMENT_TYPES[dtype]
        feeds[names[0]] = tensor(dtype)
        node = helper.make_node("Marked", names[:1], names[1:], domain=DOMAIN)
        if dtype in _dtypes.NARROW_FLOATS:
            feeds[names[0]] = feeds[names[0]].astype(np.float32)
            node.input[0], node.output[1] = f"{dtype}_in", f"{dtype}_out"
            nodes.append(helper.make_node("Cast", names[:1], node.input, to=kind))
            kind = TensorProto.FLOAT
        nodes.append(node)
        if node.output[1] != names[2]:
            nodes.append(helper.make_node("Cast", node.output[1:], names[2:], to=kind))
        for found, name, item in zip([inputs, outputs, outputs], names,
                                     [kind, TensorProto.FLOAT, kind], strict=True):  # fmt: skip
            found.append(helper.make_tensor_value_info(name, item, ["n"]))
    graph = helper.make_graph(nodes, "graph", inputs, outputs)
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid(DOMAIN, 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9), feeds


def compare(results: Sequence[np.ndarray], dtypes: Sequence[str]) -> None:
    for number, (got, wanted) in enumerate(zip(results, expected(dtypes), strict=True)):
        assert got.dtype == wanted.dtype
        np.testing.assert_array_equal(got, wanted, err_msg=f"output {number} of {dtypes}")


@pytest.mark.parametrize("first", DTYPES)
def test_any_two_dtypes(first: str) -> None:
    """Of all pairs, in both orders: the other order has the parameter `second`."""
    for second in DTYPES:
        if second != first:
            model, feeds = model_of_dtypes([first, second])
            compare(run_plain(add_function_bodies(model), feeds), [first, second])


@pytest.mark.parametrize("place", range(len(DTYPES)))
def test_three_dtypes(place: int) -> None:
    for steps in ((0, 1, 2), (0, 4, 9), (0, 7, 3)):
        dtypes = [DTYPES[(place + step) % len(DTYPES)] for step in steps]
        model, feeds = model_of_dtypes(dtypes)
        compare(run_plain(add_function_bodies(model), feeds), dtypes)


@pytest.mark.filterwarnings("ignore:overflow encountered in cast")
@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize("opset", [15, 16, 19, 21])
def test_all_dtypes_at_once(opset: int, order: int) -> None:
    newer = {name for name in DTYPES if opset < FIRST_OPSETS.get(name, 15)}
    dtypes = [name for name in DTYPES if name not in newer][::order]
    model, feeds = model_of_dtypes(dtypes, opset)
    portable = add_function_bodies(model)
    compare(run_reference(portable, feeds), dtypes)
    for level in ("ORT_DISABLE_ALL", "ORT_ENABLE_BASIC", "ORT_ENABLE_ALL"):
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, level)
        session = onnxruntime.InferenceSession(portable.SerializeToString(), options)
        compare(session.run(None, feeds), dtypes)


def test_onnxruntime_selects_the_forms_when_it_loads_the_model(tmp_path: Any) -> None:
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "loaded.onnx")
    portable = add_function_bodies(model_of_dtypes(DTYPES)[0])
    onnxruntime.InferenceSession(portable.SerializeToString(), options)
    loaded = onnx.load(options.optimized_model_filepath)
    assert {node.op_type for node in loaded.graph.node} <= {"Cast", "Add", "Identity"}


@pytest.mark.parametrize(
    ("dtypes", "opset", "reason"),
    [
        (["complex64", "float32"], 20, r"complex64, float32\), and no operator tells complex64"),
        (["int8", "complex128"], 20, r"complex128, int8\), and no operator tells complex128"),
        (["float8_e5m2", "int8"], 18, "no operator casts to float8 before opset 19"),
        (["bfloat16", "int8"], 15, "If has no outputs of bfloat16 before opset 16"),
        (["int8", "uint8"], 14, "the dtype of x, and CastLike is new in opset 15"),
    ],
)
def test_dtypes_that_no_operator_tells_apart(dtypes: list[str], opset: int, reason: str) -> None:
    for order in (1, -1):
        with pytest.warns(MissingBodyWarning, match=reason):
            assert not add_function_bodies(model_of_dtypes(dtypes[::order], opset)[0]).functions


class Marked(torch.nn.Module):
    def forward(self, *tensors: torch.Tensor) -> list[torch.Tensor]:
        return [result for x in tensors for result in marked(x)]


@pytest.mark.parametrize("exporter", ["dynamo", "torchscript"])
@pytest.mark.parametrize("order", [1, -1])
def test_exported(order: int, exporter: str) -> None:
    unknown = ("uint16", "uint32", "uint64") if exporter == "torchscript" else ()
    dtypes = [name for name in DTYPES if name not in (*_dtypes.NARROW_FLOATS, *unknown)][::order]
    arrays = [tensor(dtype) for dtype in dtypes]
    compare(_exported(Marked(), arrays, exporter), dtypes)


def _exported(module: torch.nn.Module, arrays: list[np.ndarray], exporter: str) -> list[np.ndarray]:
    model = export(module, tuple(map(torch.from_numpy, arrays)), exporter=exporter)
    names = [item.name for item in model.graph.input]
    return run_plain(model, dict(zip(names, arrays, strict=True)))


class Integers(torch.nn.Module):
    """deform_conv2d_int8 with offsets 0: a convolution."""

    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.weight = torch.randint(-9, 9, (2, 3, 3, 3), dtype=torch.int8, generator=generator)

        self.factor, self.offset = torch.tensor([0.5]), torch.zeros(1, 18, 3, 3)

    def forward(self, *images: torch.Tensor) -> list[torch.Tensor]:
        given = None, self.offset, self.weight, self.factor
        return [myops.deform_conv2d_int8(x, self.factor, *given) for x in images]


@pytest.mark.parametrize("exporter", ["dynamo", "torchscript"])
def test_deform_conv2d_int8_of_signed_and_unsigned_bytes(exporter: str) -> None:
    numbers = np.arange(75).reshape(1, 3, 5, 5) * 7
    for dtypes in itertools.permutations(["uint8", "int8"]):
        arrays = [numbers.astype(dtype) for dtype in dtypes]
        for result, x in zip(_exported(Integers(), arrays, exporter), arrays, strict=True):
            image = x[0].astype(np.float64)
            windows = np.lib.stride_tricks.sliding_window_view(image, (3, 3), (1, 2))
            wanted = np.einsum("chwij,ocij->ohw", windows, Integers().weight.numpy()) / 4
            np.testing.assert_array_equal(result[0], wanted)


def _enlarged(x: np.ndarray, shape: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return np.full([int(n) for n in shape], x.sum(), x.dtype), np.asarray(shape)


def _enlarged_standard(g: Any) -> tuple[str, str]:
    shape = g.op("Mul", g.input("shape"), g.constant(np.array([1], g.dtype("shape"))))
    total = g.op("ReduceSum", g.input("x"), keepdims=0)
    return g.op("Expand", total, g.op("Cast", shape, to=TensorProto.INT64)), shape


enlarged = myops.prototype(
    _enlarged, name="enlarged", domain=DOMAIN,
    types={"T": ["float32"], "I": ["int32", "int64"]},
    inputs=[myops.Input("x", "T", "Any."), myops.Input("shape", "I", "Two.", values=True)],
    outputs=[myops.Output("y", "T", "Of that shape."), myops.Output("same", "I", "The list.")],
    shape=lambda inputs, attributes: [
        list(inputs[1]) if isinstance(inputs[1], list) else [None, None], [2]],
    standard=_enlarged_standard,
)  # fmt: skip


def test_lists_of_int32_and_int64() -> None:
    """One body reads both as int64; such a model had none."""
    kinds = {"int32": TensorProto.INT32, "int64": TensorProto.INT64}
    nodes = [helper.make_node("Enlarged", ["x", name], [f"y{name}", f"same{name}"], domain=DOMAIN)
             for name in kinds]  # fmt: skip
    inputs = [helper.make_tensor_value_info(name, kind, [2]) for name, kind in kinds.items()]
    outputs = [helper.make_tensor_value_info(f"{title}{name}", number, None)
               for name, kind in kinds.items()
               for title, number in (("y", TensorProto.FLOAT), ("same", kind))]  # fmt: skip
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [3])
    model = add_function_bodies(helper.make_model(
        helper.make_graph(nodes, "g", [x, *inputs], outputs), ir_version=9,
        opset_imports=[helper.make_opsetid("", 18), helper.make_opsetid(DOMAIN, 1)],
    ))  # fmt: skip
    feeds = {"x": np.ones(3, np.float32), "int32": np.int32([2, 3]), "int64": np.int64([4, 1])}
    for run in (run_plain, run_reference):
        results = run(model, feeds)
        assert [(item.shape, item.dtype.name) for item in results] == [
            ((2, 3), "float32"), ((2,), "int32"), ((4, 1), "float32"), ((2,), "int64"),
        ]  # fmt: skip
        assert [item.sum() for item in results] == [18, 5, 12, 5]
