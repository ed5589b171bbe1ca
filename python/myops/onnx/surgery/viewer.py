"""`view`: shows a model in Netron, our ops with their documentation.

Netron reads the ONNX operators from one file, onnx-metadata.json, and draws other operators without
names of inputs and without documentation. So a copy of Netron is served in which that file also has
the ops of every custom domain with a schema in this process: ours, and those that others registered
with onnx.defs.

Netron's page requests the reader's location from a network service, asks for consent to cookies,
and reports its use. The copy does none of that: its content security policy restricts the browser
to this server, and a script at the beginning makes Netron not ask.
"""

from __future__ import annotations

import html
import importlib.util
import json
import logging
import os
import re
import shutil
import sys
import tempfile
import threading
import time
import webbrowser
from pathlib import Path
from types import ModuleType
from typing import Any

import onnx
from onnx.defs import OpSchema

from myops._checked import checked
from myops.onnx.bodies import remove_function_bodies
from myops.onnx.graph import files, inference, storage
from myops.onnx.schema import register_schemas

_METADATA = "onnx-metadata.json"
_POLICY = (
    "default-src 'self'; connect-src 'self'; img-src 'self' data: blob:; style-src 'self' "
    "'unsafe-inline'; font-src 'self' data:; worker-src 'self' blob:; form-action 'none'"
)
_PAGE = "index.html"
_LOCAL = "local.js"
_LOCAL_SCRIPT = """\
// No cookie is kept, and none has to be asked for.
Object.defineProperty(document, 'cookie', { get: () => 'consent=0', set: () => {} });
"""


class Viewer:
    """A running Netron that serves one model on this machine; as a context manager, it stops at the
    end.

    Attributes:
        url: The address of the page.

    Example:
        >>> viewer = myops.onnx.view("upscale.onnx", browser=False)
        >>> viewer.url
        'http://localhost:...'
        >>> viewer.stop()
    """

    def __init__(self, netron: ModuleType, folder: Any, address: tuple[str, int]) -> None:
        self._netron, self._folder, self._address = netron, folder, address
        self.url = f"http://{address[0]}:{address[1]}"

    def wait(self) -> None:
        """Serves until it is interrupted."""
        self._netron.wait()

    def stop(self) -> None:
        """Ends the server and removes its files."""
        self._netron.stop(self._address)
        _wait_for(self._netron, self._address, False)  # which then frees the port
        self._folder.cleanup()

    def __enter__(self) -> Viewer:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


@checked()
def view(
    model: files.Model,
    *,
    port: int | None = None,
    browser: bool = True,
    function_bodies: bool = False,
) -> Viewer:
    """Shows a model in Netron: our nodes with their inputs by name, their documentation and shapes.

    Args:
        model: A path, the bytes of a file, or a ModelProto.
        port: Port on this machine. Default: a free one.
        browser: Whether a web browser is opened. Default: True.
        function_bodies: Whether our nodes are shown as functions that can be opened, instead of
            with their documentation; Netron shows only one of the two. Default: False.

    Returns:
        The running viewer; it serves in the background until `stop`, or the end of the program.

    Raises:
        ImportError: Netron is not installed.
        OSError: The port is in use.

    Example:
        >>> with myops.onnx.view("upscale.onnx", browser=False) as viewer:
        ...     print(viewer.url)
        http://localhost:...
    """
    proto = files.load(model, weights=False)
    shown = onnx.ModelProto()
    shown.CopyFrom(proto if function_bodies else remove_function_bodies(proto))
    _state_shapes(shown)
    if port is not None:
        _refuse_taken(port)
    folder = tempfile.TemporaryDirectory(prefix="myops_view_")
    home = storage.folder_of(model)
    name = "model.onnx" if home is None else Path(os.fspath(model)).name  # type: ignore[arg-type]
    if home is None or not storage.is_elsewhere(shown):
        home = Path(folder.name) / "model"  # Netron serves all files of the folder
        home.mkdir()
    # It stands in the page as it is.
    path = home.absolute() / re.sub(r"[^\w.() -]", "_", name)
    try:
        netron = _copy_of_netron(Path(folder.name))
        log = logging.getLogger(f"{netron.__name__}.server")
        log.setLevel(logging.WARNING)
        # Netron reads weights in other files from the folder of `file`, and the model from `data`.
        data = bytearray(shown.SerializeToString())
        address = netron.serve(str(path), data, address=("localhost", port), browse=False)
        _wait_for(netron, address, True)  # before, its stop() does nothing
        _entitle(netron, html.escape(name))
        if browser:
            webbrowser.open(f"http://{address[0]}:{address[1]}")
    except BaseException:
        folder.cleanup()
        raise
    return Viewer(netron, folder, address)


def _wait_for(netron: ModuleType, address: tuple[str, int], runs: bool) -> None:
    """Until the server's thread has begun or ended; at most a second."""
    for _ in range(1000):
        if netron.status(address) == runs:
            return
        time.sleep(0.001)


def metadata(known: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Netron's own entries, then one for each op of a domain that it does not know.

    Args:
        known: The contents of Netron's onnx-metadata.json.
    """
    register_schemas()
    domains = {entry["module"] for entry in known} | {"ai.onnx", ""}
    categories = {
        entry["name"]: entry["category"]
        for entry in known
        if entry["module"] == "ai.onnx" and "category" in entry
    }
    schemas = [s for s in onnx.defs.get_all_schemas_with_history() if s.domain not in domains]
    return known + [_entry(schema, categories.get(schema.name)) for schema in schemas]


def _entry(schema: OpSchema, category: str | None) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "name": schema.name,
        "module": schema.domain,
        "version": schema.since_version,
        "description": schema.doc or "",
        "attributes": [_attribute(item) for item in schema.attributes.values()],
        "inputs": [_parameter(item) for item in schema.inputs],
        "outputs": [_parameter(item) for item in schema.outputs],
        "min_input": schema.min_input,
        "max_input": schema.max_input,
        "min_output": schema.min_output,
        "max_output": schema.max_output,
        "type_constraints": [
            {
                "type_param_str": item.type_param_str,
                "allowed_type_strs": list(item.allowed_type_strs),
                "description": item.description,
            }
            for item in schema.type_constraints
        ],
    }
    if category:
        entry["category"] = category
    return entry


def _parameter(item: OpSchema.FormalParameter) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "name": item.name, "type": item.type_str, "description": item.description,
    }  # fmt: skip
    options = OpSchema.FormalParameterOption
    if item.option == options.Optional:
        entry["option"] = "optional"
    elif item.option == options.Variadic:
        entry["option"], entry["list"] = "variadic", True
    return entry


def _attribute(item: OpSchema.Attribute) -> dict[str, Any]:
    kinds = {"INT": "int64", "FLOAT": "float32", "STRING": "string", "TENSOR": "tensor",
             "GRAPH": "graph"}  # fmt: skip
    kind = item.type.name  # type: ignore[attr-defined]
    many = kind.endswith("S") and kind[:-1] in kinds
    entry = {
        "name": item.name,
        "type": f"{kinds[kind[:-1]]}[]" if many else kinds.get(kind, kind.lower()),
        "required": item.required,
        "description": item.description,
    }
    if not item.required and item.default_value.name:
        value = onnx.helper.get_attribute_value(item.default_value)
        if kind in ("INT", "FLOAT", "STRING"):
            entry["default"] = value.decode() if isinstance(value, bytes) else value
        elif many and kind != "STRINGS" and value:
            entry["default"] = list(value)
    return entry


def _state_shapes(model: onnx.ModelProto) -> None:
    """Writes inferred shapes into the model, which Netron shows on its edges."""
    inferred = inference.infer(model).graph
    made = {name for node in model.graph.node for name in node.output}
    del model.graph.value_info[:]
    model.graph.value_info.extend(item for item in inferred.value_info if item.name in made)


def _refuse_taken(port: int) -> None:
    import socket

    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("localhost", port))
        except (OSError, OverflowError) as error:
            raise OSError(
                f"port {port} cannot be used: {str(error).rstrip('.')}; take another"
            ) from error


def _copy_of_netron(folder: Path) -> ModuleType:
    """Imports Netron from a copy with additional metadata."""
    found = importlib.util.find_spec("netron")
    if found is None or not found.submodule_search_locations:
        raise ImportError(
            'view needs Netron; get it with `pip install "myops[tools]"` or `pip install netron`'
        )
    home = Path(next(iter(found.submodule_search_locations)))
    for name in (_METADATA, _PAGE):
        if not (home / name).is_file():
            raise ImportError(f"view: this Netron has no {name}; install another version of it")
    copy = folder / "netron"
    shutil.copytree(home, copy, ignore=shutil.ignore_patterns("__pycache__"), copy_function=_link)
    known = json.loads((home / _METADATA).read_text("utf-8"))
    _replace(copy / _METADATA, json.dumps(metadata(known)))
    _replace(copy / _PAGE, _local_page((home / _PAGE).read_text("utf-8")))
    (copy / _LOCAL).write_text(_LOCAL_SCRIPT, "utf-8")
    name = f"_myops_netron_{os.getpid()}_{threading.get_ident()}_{folder.name}"
    spec = importlib.util.spec_from_file_location(
        name, copy / "__init__.py", submodule_search_locations=[str(copy)]
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _entitle(netron: ModuleType, title: str) -> None:
    """Sets the title of the page; if Netron stores it elsewhere, the page shows a path."""
    server = sys.modules.get(f"{netron.__name__}.server")
    content = getattr(getattr(server, "_HTTPRequestHandler", None), "content", None)
    if hasattr(content, "name"):
        content.name = title  # type: ignore[union-attr]


def _local_page(page: str) -> str:
    """Netron's page, changed so that it contacts no other server."""
    start = re.search(r"<head[^>]*>", page)
    if start is None:
        raise ImportError(f"view: this Netron's {_PAGE} has no head; install another version of it")
    policy = f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
    script = f'<script src="{_LOCAL}"></script>'
    # Without its date, the page does not redirect readers when it is half a year old.
    rest = re.sub(r'<meta name="date"[^>]*>', "", page[start.end() :])
    return f"{page[: start.end()]}\n{policy}\n{script}{rest}"


def _replace(file: Path, text: str) -> None:
    """Replaces a file instead of writing to it, because it may be a link to Netron's own."""
    file.unlink()
    file.write_text(text, "utf-8")


def _link(source: str, target: str) -> None:
    """A hard link where the file system has them: the copy costs no space."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)
