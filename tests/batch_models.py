"""Small models, pictures and tables for the tests in this folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

FLOAT, UINT8, INT64, STRING = (
    TensorProto.FLOAT, TensorProto.UINT8, TensorProto.INT64, TensorProto.STRING,
)  # fmt: skip


def save(
    path: Path,
    nodes: list[onnx.NodeProto],
    inputs: dict[str, tuple[int, Any]],
    outputs: dict[str, tuple[int, Any]],
    constants: dict[str, Any] | None = None,
    domain: str = "",
) -> Path:
    """Writes a model; inputs and outputs are name: (element type, shape)."""
    infos = [[helper.make_tensor_value_info(name, *kind) for name, kind in values.items()]
             for values in (inputs, outputs)]  # fmt: skip
    made = [numpy_helper.from_array(np.asarray(value), name)
            for name, value in (constants or {}).items()]  # fmt: skip
    graph = helper.make_graph(nodes, "test", *infos, made)
    imports = [helper.make_opsetid("", 17), *([helper.make_opsetid(domain, 1)] if domain else [])]
    onnx.save(helper.make_model(graph, opset_imports=imports, ir_version=8), path)
    return path


def times(folder: Path, dtype: int = FLOAT, shape: Any = ("N", 3)) -> Path:
    """y = x * factor, for rows of x; factor is one number."""
    node = helper.make_node("Mul", ["x", "factor"], ["y"])
    inputs = {"x": (dtype, shape), "factor": (dtype, [])}
    return save(folder / "times.onnx", [node], inputs, {"y": (dtype, shape)})


def negative(folder: Path, shape: Any = (1, 3, "h", "w"), name: str = "negative") -> Path:
    """y = 1 - x, for a picture of floats from 0 to 1."""
    node = helper.make_node("Sub", ["one", "x"], ["y"])
    return save(folder / f"{name}.onnx", [node], {"x": (FLOAT, shape)}, {"y": (FLOAT, shape)},
                {"one": np.float32(1)})  # fmt: skip


def identity(folder: Path, dtype: int, shape: Any, name: str = "identity") -> Path:
    """y = x."""
    node = helper.make_node("Identity", ["x"], ["y"])
    return save(folder / f"{name}.onnx", [node], {"x": (dtype, shape)}, {"y": (dtype, shape)})


def matrix(folder: Path) -> Path:
    """Rows times a matrix; ONNX Runtime may add in another order for one row than for several."""
    random = np.random.default_rng(1)
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Tanh", ["h"], ["y"])]
    weights = {"w": random.standard_normal((33, 17)).astype(np.float32)}
    inputs, outputs = {"x": (FLOAT, ("N", 33))}, {"y": (FLOAT, ("N", 17))}
    return save(folder / "matrix.onnx", nodes, inputs, outputs, weights)


def slow(folder: Path, side: int = 500) -> Path:
    """x plus 0 times a product of matrices, which takes some milliseconds."""
    nodes = [
        helper.make_node("ConstantOfShape", ["shape"], ["zeros"]),
        helper.make_node("Unsqueeze", ["x", "axis"], ["column"]),
        helper.make_node("Mul", ["zeros", "column"], ["a"]),
        helper.make_node("MatMul", ["a", "a"], ["b"]),
        helper.make_node("MatMul", ["b", "a"], ["c"]),
        helper.make_node("ReduceSum", ["c", "axes"], ["d"], keepdims=0),
        helper.make_node("Add", ["x", "d"], ["y"]),
    ]
    constants = {"shape": np.int64([1, side, side]), "axis": np.int64([2]),
                 "axes": np.int64([1, 2])}  # fmt: skip
    return save(folder / "slow.onnx", nodes, {"x": (FLOAT, (1, 1))}, {"y": (FLOAT, (1, 1))},
                {**constants, "axes": np.int64([2])})  # fmt: skip


def failures(result: Any) -> dict[str, str]:
    """Name -> reason of the rows that failed."""
    lines = Path(result.failures).read_text().splitlines() if result.failures else []
    return {item["name"]: item["reason"] for item in map(json.loads, lines)}


def outputs_of(folder: Path) -> dict[str, bytes]:
    """Every file of an output, except the journal of the run."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*"))
            if path.is_file() and ".myops-run" not in path.parts}  # fmt: skip


def parts(folder: Path) -> dict[str, np.ndarray]:
    """The arrays of all .npz parts, concatenated."""
    found: dict[str, list[np.ndarray]] = {}
    for path in sorted(folder.glob("part-*.npz")):
        with np.load(path) as arrays:
            for name in arrays.files:
                found.setdefault(name, []).append(arrays[name])
    return {name: np.concatenate(pieces) for name, pieces in found.items()}
