"""Makes tests/data/golden: models as this release writes them, and the results that are expected.

    python scripts/make_golden.py FOLDER

The stored folder is a promise: models of the first release's schema keep running. So it is made
once a release, into a new folder or with new names, and files that are there are never replaced.
The models of an op are in golden_models/<op>.py. Results do not come from our kernels: they are
computed in float64 by torch, NumPy and the reference evaluator of onnx.
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

import myops
import myops.onnx

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))
import golden_models  # noqa: E402
from runtimes import feeds, node_model  # noqa: E402

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


def add_nodes(folder: Folder) -> None:
    rng = np.random.default_rng(1)
    for node in (node for module in golden_models.modules() for node in module.nodes(rng)):
        for ir, opset in IR_VERSIONS.items():
            if ir != 8 and not node.every_version:
                continue
            model = node_model(node.op, node.inputs, node.attributes, opset=opset)
            model.ir_version = ir
            # The type of the result is in the file, as 1.17 wants behind a gap in the inputs; its
            # shape is not, so that the library has to find it.
            assert not model.graph.output[0].type.tensor_type.HasField("shape")
            tolerance = TOLERANCES.get(node.dtype, 0) * (5 if node.products > 1 else 1)
            folder.add(f"node_{node.name}_ir{ir}", model, feeds(node.op, node.inputs),
                       [node.wanted], tolerance=tolerance, made_by="hand")  # fmt: skip


def add_exports(folder: Folder) -> None:
    torch.manual_seed(1)
    axes = {"x": {0: "batch", 2: "height", 3: "width"}}
    found = [module.nets() for module in golden_models.modules() if hasattr(module, "nets")]
    nets = {name: net for named in found for name, net in named.items()}
    for exporter, opsets in EXPORTS.items():
        for opset in opsets:
            for name, net in nets.items():
                if opset < net.lowest:
                    continue
                model = myops.onnx.export(
                    net.module.eval(), tuple(net.inputs.values()), input_names=list(net.inputs),
                    output_names=["result"], dynamic_axes=axes, opset_version=opset,
                    exporter=exporter,
                )  # fmt: skip
                # Other lengths than those of the export.
                run = {**net.inputs, "x": torch.randn(3, 3, 7, 8)}
                folder.add(
                    f"export_{name}_{exporter}_{opset}", model,
                    {key: value.numpy() for key, value in run.items()},
                    [net.expected(*run.values())], tolerance=1e-4, made_by=exporter,
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
