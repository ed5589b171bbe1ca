"""Check "opset": the file's opset is the requested one."""

from __future__ import annotations

from myops.onnx.graph import scopes
from myops.onnx.guards._errors import ExportCheckError
from myops.onnx.guards._exported import Exported

NAME = "opset"


def check(exported: Exported) -> None:
    got = scopes.onnx_opset(exported.final)
    versions = {got}
    for function in exported.final.functions:
        versions.update(i.version for i in function.opset_import if i.domain in ("", "ai.onnx"))
    if got != exported.opset:
        raise ExportCheckError(
            NAME,
            f"asked for opset {exported.opset}, but the model has opset {got}: torch's exporter "
            f"could not write the one asked for. Use opset_version={got}, or the other exporter.",
        )
    if len(versions) > 1:
        others = ", ".join(str(version) for version in sorted(versions - {got}))
        raise ExportCheckError(
            NAME,
            f"asked for opset {exported.opset}, but functions in the model have opset {others}, "
            f"which some runtimes refuse. Use opset_version={max(versions)}.",
        )
