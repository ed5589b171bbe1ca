"""Models with our nodes, the results of the kernel for them, and runs in plain ONNX Runtime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from runtimes import ONNX_TYPES

import myops.onnx
from myops import _numpy_call

LISTS = ("roi", "scales", "sizes")
KINDS = ["half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric",
         "tf_crop_and_resize"]  # fmt: skip
ROUNDINGS = ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"]


@dataclass
class Call:
    """One call of resize. With `constant`, its lists are constants of the graph, else inputs; with
    `dynamic`, the lengths of X are names."""

    x: np.ndarray
    roi: Any = None
    scales: Any = None
    sizes: Any = None
    attributes: dict[str, Any] = field(default_factory=dict)
    constant: bool = True
    dynamic: bool = False

    def expected(self) -> np.ndarray:
        lists = [self.roi, self.scales, self.sizes]
        return _numpy_call.call("resize", [self.x, *lists], self.attributes)[0]


def random_call(rng: np.random.Generator) -> Call:
    """A random valid call of Resize with any of its settings; lengths below 9, rank 1 to 6."""
    dtype = str(rng.choice(["float32", "float64", "float16", "bfloat16", "uint8"]))
    rank = int(rng.choice([1, 2, 3, 4, 4, 4, 5, 6]))
    shape = rng.integers(1, 9 if rank < 5 else 5, rank).tolist()
    element = ml_dtypes.bfloat16 if dtype == "bfloat16" else np.dtype(dtype)
    numbers = rng.integers(0, 256, shape) if dtype == "uint8" else rng.random(shape)
    call = Call(numbers.astype(element), constant=rng.random() < 0.5, dynamic=rng.random() < 0.5)
    count = max(1, rank - 2) if rng.random() < 0.6 else int(rng.integers(1, rank + 1))
    axes = sorted(rng.permutation(rank)[:count].tolist())
    torch_arithmetic = bool(rng.random() < 0.5)
    kind = str(rng.choice(["half_pixel", "align_corners", "asymmetric"] if torch_arithmetic
                          else KINDS))  # fmt: skip
    mode = str(rng.choice(["nearest", "linear", "cubic"]))
    call.attributes = {
        "mode": mode, "axes": [a - rank for a in axes] if rng.random() < 0.3 else axes,
        "coordinate_transformation_mode": kind, "nearest_mode": str(rng.choice(ROUNDINGS)),
        "torch_arithmetic": torch_arithmetic, "antialias": mode != "nearest" and rng.random() < 0.3,
        "exclude_outside": mode == "cubic" and rng.random() < 0.5, "cubic_coeff_a": -0.5,
    }  # fmt: skip
    if rng.random() < 0.6:
        scales = rng.integers(1, 33, count) / rng.integers(1, 33, count)
        lengths = np.array([shape[axis] for axis in axes])
        # Factors just above 1 may keep a length, and then ONNX Runtime copies.
        scales = np.where((scales > 1) & (scales < 1.5), 1.5, scales)
        call.scales = np.minimum(np.maximum(scales, 1.01 / lengths), 4 if rank < 5 else 2)
        call.scales = np.where(lengths == 1, np.maximum(call.scales, 2), call.scales)
        if not torch_arithmetic:
            call.scales = call.scales.astype(np.float32)
    else:
        call.sizes = rng.integers(1, 12 if rank < 5 else 5, count)
        call.attributes["keep_aspect_ratio_policy"] = str(
            rng.choice(["stretch", "stretch", "not_larger", "not_smaller"])
        )
    if kind == "tf_crop_and_resize":
        starts, ends = rng.random(count) * 0.5 - 0.1, 0.5 + rng.random(count) * 0.7
        call.roi = np.concatenate([starts, ends]).astype(np.float32)
        call.attributes["extrapolation_value"] = float(rng.choice([0, 7.6, -3, 300]))
    return call


def attributes_of(values: Mapping[str, Any]) -> dict[str, Any]:
    """Attributes as a node stores them: a bool as an int, and no empty list."""
    return {k: int(v) if isinstance(v, bool) else v for k, v in values.items() if v != []}


def resize_model(
    calls: Call | Sequence[Call], opset: int = 20
) -> tuple[onnx.ModelProto, dict[str, np.ndarray], list[np.ndarray]]:
    """A model with one Resize for each call: the model, its inputs, the kernel's outputs.

    bfloat16 enters and leaves as float32, which holds it exactly.
    """
    calls = [calls] if isinstance(calls, Call) else calls
    nodes, inputs, outputs, constants = [], [], [], []
    feeds: dict[str, np.ndarray] = {}
    expected = []
    for number, call in enumerate(calls):
        name, result = f"X{number}", f"Y{number}"
        half = str(call.x.dtype) == "bfloat16"
        kind = TensorProto.FLOAT if half else ONNX_TYPES[str(call.x.dtype)]
        dims = [f"d{number}{i}" if call.dynamic else n for i, n in enumerate(call.x.shape)]
        inputs.append(helper.make_tensor_value_info(name, kind, dims))
        feeds[name] = call.x.astype(np.float32) if half else call.x
        names = [name]
        for title in LISTS:
            numbers = getattr(call, title)
            names.append("" if numbers is None else f"{title}{number}")
            if numbers is None:
                continue
            if call.constant:
                constants.append(numpy_helper.from_array(numbers, names[-1]))
            else:
                shape = list(numbers.shape)
                dtype = ONNX_TYPES[str(numbers.dtype)]
                inputs.append(helper.make_tensor_value_info(names[-1], dtype, shape))
                feeds[names[-1]] = numbers
        while not names[-1]:
            names.pop()
        if half:
            names[0] = f"{name}_half"
            nodes.append(helper.make_node("Cast", [name], names[:1], to=TensorProto.BFLOAT16))
        made = f"{result}_half" if half else result
        settings = attributes_of(call.attributes)
        nodes.append(
            helper.make_node("Resize", names, [made], f"resize{number}", domain="myops", **settings)
        )
        if half:
            nodes.append(helper.make_node("Cast", [made], [result], to=TensorProto.FLOAT))
        rank = [f"o{number}{i}" for i in range(call.x.ndim)]
        outputs.append(helper.make_tensor_value_info(result, kind, rank))
        expected.append(call.expected())
    return model_of(nodes, inputs, outputs, constants, opset), feeds, expected


def model_of(
    nodes: Any, inputs: Any, outputs: Any, constants: Any = (), opset: int = 20, ir: int = 8
) -> onnx.ModelProto:
    graph = helper.make_graph(nodes, "graph", inputs, outputs, list(constants))
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("myops", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=ir)


def run_plain(model: onnx.ModelProto, feeds: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    """ONNX Runtime without our library."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return session.run(None, dict(feeds))


def run_reference(model: onnx.ModelProto, feeds: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    """The reference evaluator of the onnx package."""
    from onnx.reference import ReferenceEvaluator

    return list(ReferenceEvaluator(model).run(None, dict(feeds)))


def operators(model: onnx.ModelProto) -> list[str]:
    """The op types of the nodes of a graph, without Constant."""
    return [node.op_type for node in model.graph.node if node.op_type != "Constant"]


def error(actual: np.ndarray, expected: np.ndarray) -> float:
    """The largest difference, over the largest element where that is above 1."""
    assert actual.shape == expected.shape
    if actual.size == 0:
        return 0.0
    wide = np.asarray(expected, np.float64)
    return float(np.abs(np.asarray(actual, np.float64) - wide).max() / max(1.0, np.abs(wide).max()))


def tolerance(call: Call) -> float:
    """The largest `error` that is allowed: nearest is exact, uint8 may be off by 1."""
    if call.attributes.get("mode", "nearest") == "nearest":
        return 0.0
    one_step = 1.01 / max(1, int(call.expected().max())) if call.x.dtype == np.uint8 else 0
    return {"float32": 1e-5, "float64": 1e-12, "float16": 1e-3, "bfloat16": 8e-3,
            "uint8": one_step}[str(call.x.dtype)]  # fmt: skip


def check(model: onnx.ModelProto) -> None:
    """The checker and strict shape inference accept the model."""
    myops.onnx.register_schemas()
    onnx.checker.check_model(model, full_check=True)
    onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True, data_prop=True)


def branches(opset: int = 20) -> tuple[onnx.ModelProto, dict[str, Any]]:
    """Our nodes in both branches of an If, one of which takes X from outside, and in a Loop."""
    info = helper.make_tensor_value_info
    add = helper.make_node("MyAdd", ["X", "X"], ["then"], domain="myops")
    relu = helper.make_node("Relu", ["X"], ["positive"])
    twice = helper.make_node("MyAdd", ["positive", "X"], ["else"], domain="myops")
    body = helper.make_graph(
        [helper.make_node("Identity", ["go"], ["on"]),
         helper.make_node("MyAdd", ["state", "state"], ["next"], domain="myops")],
        "body",
        [info("i", TensorProto.INT64, []), info("go", TensorProto.BOOL, []),
         info("state", TensorProto.FLOAT, [3])],
        [info("on", TensorProto.BOOL, []), info("next", TensorProto.FLOAT, [3])],
    )  # fmt: skip
    out = [[info(name, TensorProto.FLOAT, [3])] for name in ("then", "else")]
    nodes = [
        helper.make_node("If", ["flag"], ["chosen"],
                         then_branch=helper.make_graph([add], "then", [], out[0]),
                         else_branch=helper.make_graph([relu, twice], "else", [], out[1])),
        helper.make_node("Constant", [], ["times"], value_int=2),
        helper.make_node("Loop", ["times", "", "chosen"], ["Y"], body=body),
    ]  # fmt: skip
    inputs = [info("X", TensorProto.FLOAT, [3]), info("flag", TensorProto.BOOL, [])]
    model = model_of(nodes, inputs, [info("Y", TensorProto.FLOAT, [3])], opset=opset)
    return model, {"X": np.float32([-1, 2, 3])}
