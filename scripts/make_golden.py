"""Makes tests/data/golden: models as this release writes them, and the results that are expected.

    python scripts/make_golden.py FOLDER

The stored folder is a promise: models of the first release's schema keep running. So it is made
once a release, into a new folder or with new names, and files that are there are never replaced.
Results do not come from our kernels: they are computed in float64 by torch, NumPy and the reference
evaluator of onnx.
"""

from __future__ import annotations

import hashlib
import json
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from onnx.reference import ReferenceEvaluator

import myops
import myops.onnx

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))
from reference_deform_conv2d import deform_conv2d as reference_deform  # noqa: E402
from reference_deform_conv2d_int8 import deform_conv2d_int8 as reference_int8  # noqa: E402
from runtimes import feeds, node_model, random_array  # noqa: E402

TOLERANCES = {"float16": 4e-3, "float32": 2e-5, "float64": 1e-10}
# IR version: the newest opset of its time. Bodies are functions, which came with IR version 8.
IR_VERSIONS = {3: 8, 4: 9, 5: 10, 6: 11, 7: 13, 8: 17, 9: 20, 10: 22, 11: 23}
EXPORTS = {"torchscript": (9, 11, 13, 16, 18, 20), "dynamo": (18, 20, 21, 23)}


class Folder:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.index: dict[str, Any] = {}
        if (path / "index.json").exists():
            raise SystemExit(f"{path} has golden files already; they are never replaced")
        path.mkdir(parents=True, exist_ok=True)

    def add(
        self,
        name: str,
        model: onnx.ModelProto,
        inputs: dict[str, np.ndarray],
        outputs: list[np.ndarray],
        **facts: Any,
    ) -> None:
        onnx.save(model, self.path / f"{name}.onnx")
        named = zip([item.name for item in model.graph.output], outputs, strict=True)
        stored = {f"in:{key}": value for key, value in inputs.items()}
        stored |= {f"out:{key}": value for key, value in named}
        np.savez_compressed(self.path / f"{name}.npz", **stored)
        opset = next(item.version for item in model.opset_import if not item.domain)
        self.index[name] = {
            "ir_version": model.ir_version,
            "opset": opset,
            "nodes": sorted({n.op_type for n in model.graph.node if n.domain == "myops"}),
            "body": bool(model.functions),
            "sha256": hashlib.sha256((self.path / f"{name}.onnx").read_bytes()).hexdigest(),
            **facts,
        }

    def close(self) -> None:
        text = json.dumps(self.index, indent=2, sort_keys=True)
        (self.path / "index.json").write_text(text + "\n")


# ---- Models of one node, without a body.


def wide(array: np.ndarray) -> np.ndarray:
    return array.astype(np.float64) if array.dtype.kind == "f" else array


def expected_add(inputs: list[Any], _: dict[str, Any]) -> np.ndarray:
    a, b = (wide(item) for item in inputs)
    return 2 * a + b  # integers wrap around, as ours do


def expected_resize(inputs: list[Any], attributes: dict[str, Any]) -> np.ndarray:
    exact = [None if item is None else item.copy() for item in inputs]
    exact[0] = exact[0].astype(np.float64)
    model = node_model("resize", exact, attributes)
    model.graph.node[0].domain = ""
    return ReferenceEvaluator(model).run(None, feeds("resize", exact))[0]


def expected_deform(inputs: list[Any], attributes: dict[str, Any]) -> np.ndarray:
    exact = [None if item is None else torch.from_numpy(wide(item)) for item in inputs]
    x, weight, offset, bias, mask = exact
    return reference_deform(
        x, weight, offset, bias, mask, tuple(attributes["strides"]), tuple(attributes["pads"]),
        tuple(attributes["dilations"]), attributes["group"], attributes["offset_group"],
    ).numpy()  # fmt: skip


def node_cases(rng: np.random.Generator) -> dict[str, tuple[Any, ...]]:
    """name: (op, inputs, attributes, expected result, dtype)."""
    cases: dict[str, tuple[Any, ...]] = {}
    for dtype in ("float16", "float32", "float64", "int32", "int64"):
        a, b = random_array(rng, (2, 3, 1), dtype), random_array(rng, (3, 4), dtype)
        cases[f"add_{dtype}"] = ("my_add", [a, b], {}, expected_add([a, b], {}), dtype)

    picture = random_array(rng, (1, 2, 5, 7), "float32")
    roi = np.float32([0.1, -0.2, 0.8, 1.1])
    crop = {"coordinate_transformation_mode": "tf_crop_and_resize", "extrapolation_value": 7.5}
    shrink = {"mode": "cubic", "antialias": True, "cubic_coeff_a": -0.5, "exclude_outside": True}
    scales, sizes = np.float32([1.7, 2.3]), np.int64([9, 4])
    for name, given, attributes in (
        ("nearest", [None, scales, None], {"mode": "nearest", "nearest_mode": "floor"}),
        ("linear", [None, scales, None], {"mode": "linear"}),
        ("cubic", [None, None, sizes], {"mode": "cubic"}),
        ("antialias", [None, None, np.int64([3, 4])], shrink),
        ("crop", [roi, None, sizes], {"mode": "linear", **crop}),
        ("corners", [None, None, sizes], {"mode": "linear",
                                          "coordinate_transformation_mode": "align_corners"}),
        ("ratio", [None, None, np.int64([11, 9])], {"mode": "linear",
                                                    "keep_aspect_ratio_policy": "not_larger"}),
    ):  # fmt: skip
        attributes = {"axes": [2, 3], **attributes}
        for dtype in ("float16", "float32", "float64") if name == "linear" else ("float32",):
            inputs = [picture.astype(dtype), *given]
            wanted = expected_resize(inputs, attributes)
            cases[f"resize_{name}_{dtype}"] = ("resize", inputs, attributes, wanted, dtype)
    pixels = rng.integers(0, 256, (1, 3, 6, 5), dtype=np.uint8)
    attributes = {"mode": "nearest", "axes": [2, 3], "nearest_mode": "floor",
                  "coordinate_transformation_mode": "asymmetric"}  # fmt: skip
    inputs = [pixels, None, np.float32([2, 3]), None]
    wanted = np.repeat(np.repeat(pixels, 2, axis=2), 3, axis=3)
    cases["resize_nearest_uint8"] = ("resize", inputs, attributes, wanted, "uint8")

    attributes = {"strides": [2, 1], "pads": [1, 0, 1, 0], "dilations": [2, 1], "group": 2,
                  "offset_group": 3}  # fmt: skip
    x, weight = random_array(rng, (2, 6, 7, 6), "float64"), rng.standard_normal((4, 3, 3, 2))
    offset, mask = rng.standard_normal((2, 36, 3, 5)) * 2, rng.standard_normal((2, 18, 3, 5))
    bias = rng.standard_normal(4)
    for version, optional in ((1, [None, None]), (2, [bias, mask])):
        for dtype in ("float16", "float32", "float64"):
            parts = [x, weight, offset, *optional]
            inputs = [None if item is None else item.astype(dtype) for item in parts]
            wanted = expected_deform(inputs, attributes)
            case = ("deform_conv2d", inputs, attributes, wanted, dtype)
            cases[f"deform_v{version}_{dtype}"] = case

    for dtype in ("uint8", "int8"):
        X, zero = random_array(rng, (2, 6, 7, 6), dtype), np.array([7], dtype)
        filters, scales = random_array(rng, (4, 3, 3, 2), "int8"), np.float32([1, 2, 3, 4]) / 256
        parts = [X, np.float32([0.125]), zero, filters, scales, offset, bias, mask]
        inputs = [item.astype(np.float32) if item.dtype == np.float64 else item for item in parts]
        more = {**attributes, "mask_limit": 1.5}
        wanted = reference_int8(*inputs, **more)
        cases[f"deform_int8_{dtype}"] = ("deform_conv2d_int8", inputs, more, wanted, dtype)
    return cases


def add_nodes(folder: Folder) -> None:
    cases = node_cases(np.random.default_rng(1))
    in_every_version = ("add_float32", "resize_cubic_float32", "deform_v2_float32")
    for name, (op, inputs, attributes, wanted, dtype) in cases.items():
        for ir, opset in IR_VERSIONS.items():
            if ir != 8 and name not in in_every_version:
                continue
            model = node_model(op, inputs, attributes, opset=opset)
            model.ir_version = ir
            # The type of the result is in the file, as 1.17 wants behind a gap in the inputs; its
            # shape is not, so that the library has to find it.
            assert not model.graph.output[0].type.tensor_type.HasField("shape")
            tolerance = TOLERANCES.get(dtype, 0)
            tolerance *= 5 if op == "deform_conv2d" else 1  # sums of 18 products
            folder.add(f"node_{name}_ir{ir}", model, feeds(op, inputs), [wanted],
                       tolerance=tolerance, made_by="hand")  # fmt: skip


# ---- Exported models, with function bodies.


class Ops:
    """Our functions in a model; `Exact` stands for them where the result is computed."""

    my_add = staticmethod(myops.my_add)
    deform = staticmethod(myops.deform_conv2d)

    @staticmethod
    def enlarge(x: torch.Tensor, factor: torch.Tensor, mode: str) -> torch.Tensor:
        return myops.interpolate(x, scale_factor=factor, mode=mode)


class Exact:
    @staticmethod
    def my_add(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return 2 * a + b

    @staticmethod
    def deform(x: Any, offset: Any, weight: Any, bias: Any = None, *_: Any, **more: Any) -> Any:
        padding, mask = more["padding"], more.get("mask")
        return reference_deform(x, weight, offset, bias, mask, pads=(padding,) * 4)

    @staticmethod
    def enlarge(x: torch.Tensor, factor: torch.Tensor, mode: str) -> torch.Tensor:
        corners = None if mode == "nearest" else False
        scale = tuple(float(value) for value in factor)
        return torch.nn.functional.interpolate(
            x, scale_factor=scale, mode=mode, align_corners=corners
        )


class Net(torch.nn.Module):
    """A small network around one op; its weights come from the seed."""

    def __init__(self) -> None:
        super().__init__()
        self.ops: Any = Ops
        self.convolution = torch.nn.Conv2d(3, 4, 3, padding=1)

    def exact(self, *inputs: torch.Tensor) -> np.ndarray:
        self.ops = Exact
        try:
            with torch.no_grad():
                doubled = [item.double() for item in inputs]
                return self.double()(*doubled).numpy()
        finally:
            self.ops = Ops
            self.float()


class Add(Net):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return self.ops.my_add(self.convolution(x), y).relu()


class Enlarge(Net):
    def __init__(self, mode: str) -> None:
        super().__init__()
        self.mode = mode

    def forward(self, x: torch.Tensor, factor: torch.Tensor) -> torch.Tensor:
        return self.ops.enlarge(self.convolution(x), factor, self.mode)


class Deform(Net):
    def __init__(self, masked: bool) -> None:
        super().__init__()
        self.offset = torch.nn.Conv2d(3, 18, 3, padding=1)
        self.modulation = torch.nn.Conv2d(3, 9, 3, padding=1) if masked else None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mask = None if self.modulation is None else self.modulation(x).sigmoid()
        weight, bias = self.convolution.weight, self.convolution.bias
        return self.ops.deform(x, self.offset(x), weight, bias, padding=1, mask=mask)


def add_exports(folder: Folder) -> None:
    torch.manual_seed(1)
    x, factor = torch.randn(2, 3, 6, 5), torch.tensor([1.5, 2.5])
    axes = {"x": {0: "batch", 2: "height", 3: "width"}}
    nets = {
        "add": (Add(), {"x": x, "y": torch.randn(4, 1, 1)}, 9),
        "enlarge_nearest": (Enlarge("nearest"), {"x": x, "factor": factor}, 9),
        "enlarge_bicubic": (Enlarge("bicubic"), {"x": x, "factor": factor}, 11),
        "deform_v1": (Deform(False), {"x": x}, 11),
        "deform_v2": (Deform(True), {"x": x}, 11),
    }
    for exporter, opsets in EXPORTS.items():
        for opset in opsets:
            for name, (net, inputs, lowest) in nets.items():
                if opset < lowest:
                    continue
                model = myops.onnx.export(
                    net.eval(), tuple(inputs.values()), input_names=list(inputs),
                    output_names=["result"], dynamic_axes=axes, opset_version=opset,
                    exporter=exporter,
                )  # fmt: skip
                # Other lengths than those of the export.
                run = {**inputs, "x": torch.randn(3, 3, 7, 8)}
                folder.add(
                    f"export_{name}_{exporter}_{opset}", model,
                    {key: value.numpy() for key, value in run.items()},
                    [net.exact(*run.values())], tolerance=1e-4, made_by=exporter,
                )  # fmt: skip


def main(path: str) -> None:
    warnings.simplefilter("ignore")
    folder = Folder(Path(path))
    add_nodes(folder)
    add_exports(folder)
    folder.close()
    print(f"{len(folder.index)} models in {path}")


if __name__ == "__main__":
    main(*sys.argv[1:])
