"""Models and rows for the measurements."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

EXAMPLES = Path(__file__).parents[2] / "examples"
FACTOR = 2.0


def exported(folder: Path) -> None:
    """The two examples as files."""
    import torch

    import myops.onnx

    torch.set_num_threads(1)
    for name in ("super_resolution", "deformable_digits"):
        sys.path.insert(0, str(EXAMPLES / name))
        for module in ("model", "data"):
            sys.modules.pop(module, None)
        import model  # type: ignore[import-not-found]

        if name == "super_resolution":
            args = torch.rand(1, 3, 32, 48), torch.tensor([1.0, 1.0, 3.0, 3.0])
            words: dict[str, Any] = {
                "input_names": ["picture", "scales"], "output_names": ["enlarged"],
                "dynamic_axes": {"picture": {2: "height", 3: "width"}},
            }  # fmt: skip
            network = model.load()
        else:
            args = (torch.rand(2, 1, 28, 28),)
            words = {"input_names": ["pictures"], "output_names": ["scores"],
                     "dynamic_axes": {"pictures": {0: "batch"}}}  # fmt: skip
            network = model.load()["deformable"]
        myops.onnx.export(network, args, folder / f"{name}.onnx", exporter="torchscript", **words)
        sys.path.pop(0)


def tiny(folder: Path) -> Path:
    """y = x + x, for rows of four numbers."""
    import onnx
    from onnx import TensorProto, helper

    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", 4]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Add", ["x", "x"], ["y"])], "tiny",
                              values[:1], values[1:])  # fmt: skip
    imports = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=imports, ir_version=8), folder / "tiny.onnx")
    return folder / "tiny.onnx"


def photos(folder: Path, count: int) -> Path:
    """A folder with pictures of 96 x 64."""
    source = folder / "photos"
    if source.exists():
        return source
    source.mkdir()
    random = np.random.default_rng(0)
    base = random.integers(0, 256, (24, 16, 3), np.uint8)
    for place in range(count):
        image = Image.fromarray(np.roll(base, place, 0)).resize((96, 64), Image.Resampling.BICUBIC)
        image.save(source / f"{place:05d}.png")
    return source


def enlarge(session: Any, scales: np.ndarray, path: Path, out: Path) -> None:
    """One picture, by hand."""
    with Image.open(path) as image:
        pixels = np.asarray(image.convert("RGB"))
    x = pixels.transpose(2, 0, 1)[None].astype(np.float32) / 255
    (y,) = session.run(None, {"picture": x, "scales": scales})
    made = np.rint(y[0].transpose(1, 2, 0).clip(0, 1) * 255).astype(np.uint8)
    Image.fromarray(made).save(out, compress_level=3)
