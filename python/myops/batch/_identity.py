"""The identity of a run, so that another one is not mixed with it."""

from __future__ import annotations

import json
import mmap
import os
import re
from dataclasses import asdict
from pathlib import Path
from typing import Any

from myops import _libraries
from myops._version import __version__
from myops.batch import _pixels, _plan
from myops.batch._job import Job
from myops.ort._loaders.load import sha256
from myops.ort._session import _mentions

_LOCATION = re.compile(rb"\n\x08location\x12")  # of weights in another file, in a model's bytes


def identity(job: Job, plan: _plan.RunPlan, shard_rows: int) -> dict[str, Any]:
    """Everything on which the results depend, as data for JSON."""
    import onnxruntime

    files = {os.path.basename(item): sha256(Path(item)) for item in job.libraries}
    for item in _libraries.known():
        if item.ort_library is not None and _mentions(job.model, item.domain):
            files[os.path.basename(item.ort_library)] = sha256(Path(item.ort_library))
    recipe = job.recipe
    versions = {"myops": __version__, "onnxruntime": onnxruntime.__version__}
    if any(item.kind == "picture" for item in recipe.inputs):
        versions["pillow"] = _pixels.pillow().__version__
    return {
        "model": sha256(Path(job.model)),
        "weights": {name: sha256(Path(job.model).parent / name)
                    for name in external_files(job.model)},
        "libraries": files,
        "source": _plan.digest(plan),
        "versions": versions,
        "shard_rows": shard_rows,
        "options": _plain({
            "constants": {name: {"dtype": str(item.dtype), "value": item.tolist()}
                          for name, item in recipe.constants.items()},
            "inputs": [asdict(item) for item in recipe.inputs],
            "outputs": [asdict(item) for item in recipe.outputs],
            "pixels": asdict(recipe.pixels),
            "format": job.format,
            "keep": job.keep,
        }),
    }  # fmt: skip


def _plain(item: Any) -> Any:
    """The value after a conversion to JSON and back, for comparisons with data from JSON."""
    return json.loads(json.dumps(item))


def external_files(model: str) -> list[str]:
    """Names of the files beside a model that hold weights of it.

    Found by the bytes with which an entry "location" begins, in any subgraph, without onnx.
    """
    found = set()
    with open(model, "rb") as file:
        if not os.fstat(file.fileno()).st_size:
            return []
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            for match in _LOCATION.finditer(data):
                length = data[match.end()]
                name = data[match.end() + 1 : match.end() + 1 + length]
                if length < 128 and os.path.isfile(
                    os.path.join(os.path.dirname(os.fsencode(model)), name)
                ):
                    found.add(os.fsdecode(name))
    return sorted(found)
