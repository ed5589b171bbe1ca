"""`myops lower`."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

from myops.cli import _console


def lower(
    model: Annotated[Path, typer.Argument(help="The ONNX model.")],
    output: Annotated[Path, typer.Argument(help="The file to write.")],
    opset: Annotated[
        int | None, typer.Option(help="Opset of ai.onnx in the result. Default: the model's.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Write a model's myops nodes in standard operators, so that any runtime knows them."""
    import myops.onnx
    from myops import _description
    from myops.onnx import files

    loaded = files.load(model)
    replaced = Counter(n.op_type for n in loaded.graph.node if n.domain == _description.DOMAIN)
    lowered = myops.onnx.lower(loaded, opset)
    files.save(lowered, output)
    if json:
        _console.print_json({"output": str(output), "replaced": replaced})
        return
    what = ", ".join(f"{count} {name}" for name, count in sorted(replaced.items())) or "no node"
    _console.out.print(f"{output}: {what} replaced, {len(lowered.graph.node)} nodes")
