"""The notes above the built-in matrices: how they were made, and results of older tables."""

from __future__ import annotations

from myops.onnx.matrix import layout
from myops.onnx.matrix.cells import LOAD_ERROR, REFUSED
from myops.onnx.matrix.report import Matrix

_ABOUT = """\
How far exported models are from PyTorch, for `torch.nn.functional.interpolate` with
`torch.onnx.export` and for `myops.interpolate` with `myops.onnx.export`: every model is exported
with each exporter at each opset, run in ONNX Runtime, and compared with PyTorch.

- **scale_factor**: a 9x10 image by 2, 1.7, 0.6 and 0.12 (to one pixel), a 1x10 image by 1.7; for
  bilinear and bicubic also with `recompute_scale_factor=True`.
- **size**: 9x10 to 14x6 and 1x1; 1x10 to 3x7.
- **dynamic**: exported at 9x10 with dynamic height and width, run also at 7x13, 12x5 and
  32x21; a factor of 1.7 (for bilinear also recomputed), and a size of 14x6.
- **factor.item()**: the factor is an input of the model, exported at 2, run also at 1.7 and 0.6.
- **myops ...**: the same factors and sizes through `myops.onnx.export`, which refuses where torch
  would change the opset; its **dynamic** rows have a factor that is an input, too.

Each row shows its worst size. torch's exporters are called without changes, on models in eval
mode; the library of myops is registered in ONNX Runtime, and only the rows of myops use it."""

# The results of a well-known article for PyTorch 1.4 and ONNX 1.6: whether a model exports.
_OLD = {
    "nearest": ("exports", "exports", "exports"),
    "bilinear": ("exports", "exports", "exports"),
    "bilinear align_corners": ("refused", "refused", "exports"),
    "bicubic": ("refused", "refused", "exports"),
}


def interpolate(matrix: Matrix) -> str:
    """Markdown for the matrix of `myops matrix interpolate`, or for a part of it."""
    return "\n\n".join([_ABOUT, *_against_2020(matrix)])


def _against_2020(matrix: Matrix) -> list[str]:
    opsets = [opset for opset in (9, 10, 11) if opset in matrix.opsets]
    known = [name for name in _OLD if f"{name}, scale_factor" in matrix.cases]
    if "torchscript" not in matrix.exporters or not opsets or not known:
        return []
    heads = [part for opset in opsets for part in (f"{opset} in 2020", f"{opset} today")]
    lines = ["| mode | " + " | ".join(heads) + " |", "|---" * (len(heads) + 1) + "|"]
    for name in known:
        row = f"| {name} "
        for opset in opsets:
            row += f"| {_OLD[name][opset - 9]} | {_today(matrix, name, opset)} "
        lines.append(row + "|")
    return [
        "Tables of 2020 (PyTorch 1.4, ONNX 1.6) asked only whether a model exports. Beside them,\n"
        "the TorchScript exporter of today, by factor and by size:",
        "\n".join(lines),
    ]


def _today(matrix: Matrix, name: str, opset: int) -> str:
    said: dict[str, list[str]] = {}
    for form in ("scale_factor", "size"):
        if f"{name}, {form}" in matrix.cases:
            cell = matrix.cell(f"{name}, {form}", "torchscript", opset)
            number = "" if cell.verdict in (REFUSED, LOAD_ERROR) else layout.number(cell.error)
            said.setdefault(cell.verdict + (f" ({number})" if number else ""), []).append(form)
    if len(said) == 1:
        return next(iter(said))
    return "; ".join(f"{', '.join(forms)}: {text}" for text, forms in said.items())
