"""view: Netron with our documentation, on this machine only."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.parse
import urllib.request
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from surgery_models import FLOAT, exported, info, linear, model_of

from myops import _description
from myops.onnx.surgery import viewer


def fetch(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=10) as answer:
        return answer.read()


def test_view_serves_page_model_and_documentation(tmp_path: Path) -> None:
    pytest.importorskip("netron")
    path = tmp_path / "upscale.onnx"
    onnx.save(exported("upscale"), path)
    with viewer.view(path, browser=False) as running:
        folder = Path(running._folder.name)
        assert b"/data/upscale.onnx" in fetch(f"{running.url}/")
        entries = json.loads(fetch(f"{running.url}/onnx-metadata.json"))
        shown = onnx.ModelProto.FromString(fetch(f"{running.url}/data/upscale.onnx"))
    assert not folder.exists()
    with pytest.raises(OSError):  # noqa: PT011  refused or reset
        fetch(f"{running.url}/")
    standard = next(entry for entry in entries if entry["module"] == "ai.onnx")
    ours = {entry["name"]: entry for entry in entries if entry["module"] == "myops"}
    for op in _description.onnx_ops():
        entry = ours[op.onnx_type]
        assert set(entry) <= {*standard, "category", "attributes", "inputs", "outputs",
                              "type_constraints", "min_input", "max_input", "min_output",
                              "max_output"}  # fmt: skip
        assert entry["description"] == op.doc
        assert [item["name"] for item in entry["inputs"]] == [item.name for item in op.inputs]
        documented = {item["name"]: item["description"] for item in entry["attributes"]}
        assert set(documented) == {item.name for item in op.attributes}
        assert all(documented.values())
    # Netron shows a function instead of the documentation, so there is none; edges have shapes.
    assert not shown.functions
    assert any(item.name == "resize" for item in shown.graph.value_info)


def test_view_loads_nothing_from_elsewhere(tmp_path: Path) -> None:
    """The content security policy refuses other hosts, and Netron does not ask for cookies."""
    pytest.importorskip("netron")
    with viewer.view(linear(), browser=False) as running:
        page = fetch(f"{running.url}/").decode()
        script = fetch(f"{running.url}/local.js").decode()
        source = fetch(f"{running.url}/browser.js").decode()
    head = page[page.index("<head>") :]
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', head)
    assert policy is not None
    rules = dict(rule.strip().split(" ", 1) for rule in policy[1].split(";"))
    assert rules["default-src"] == rules["connect-src"] == "'self'"
    assert not re.findall(r"https?:|\*|'unsafe-eval'", policy[1])
    # Both come before anything that could load or run.
    assert (
        head.index(policy[0])
        < head.index("local.js")
        < min(head.index(start) for start in ("<link", 'src="index.js"'))
    )
    assert not re.findall(r"<(?:script|link|img)[^>]*(?:src|href)=.https?:", page)
    assert 'name="date"' not in page  # from which Netron concludes that it is too old
    assert "document, 'cookie'" in script
    # The installed Netron asks in one place only, and reads this cookie first.
    asking = source[: source.index("This app uses cookies")]
    assert asking.rindex("_getCookie('consent')") > asking.rindex("const consent = async")
    cookie = re.search(r"get: \(\) => '(\w+)=(\w+)'", script)
    assert cookie is not None
    assert cookie[1] == "consent"


@pytest.mark.parametrize("kind", ["proto", "file", "weights elsewhere"])
def test_view_serves_no_other_file(kind: str, tmp_path: Path) -> None:
    """The folder of the model is served only for external weights."""
    pytest.importorskip("netron")
    (tmp_path / "secret.txt").write_text("secret")
    path = tmp_path / 'a "><b>&.onnx'
    model = model_of(
        [helper.make_node("Add", ["x", "w"], ["y"])], [info("x", FLOAT, [9])],
        [info("y", FLOAT, [9])], [numpy_helper.from_array(np.ones(9, np.float32), "w")],
    )  # fmt: skip
    outside = kind == "weights elsewhere"
    onnx.save(model, path, save_as_external_data=outside, location="w.data", size_threshold=1)
    with viewer.view(model if kind == "proto" else path, browser=False) as running:
        page = fetch(f"{running.url}/").decode()
        shown = re.search(r'content="(/data/[^"]*)"', page)
        assert shown is not None
        assert fetch(running.url + urllib.parse.quote(shown[1]))
        assert "<b>" not in page
        if kind != "proto":
            assert "a &quot;&gt;&lt;b&gt;&amp;.onnx" in page
        for name in ("secret.txt", "../secret.txt", "w.data"):
            try:
                served = bool(fetch(f"{running.url}/data/{name}"))
            except OSError:
                served = False
            assert served == (outside and not name.startswith(".."))


def test_view_from_the_command_line(tmp_path: Path) -> None:
    pytest.importorskip("netron")
    path = tmp_path / "linear.onnx"
    onnx.save(linear(), path)
    with socket.socket() as probe:
        probe.bind(("localhost", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "myops", "view", str(path), "--no-browser", "--port",
               str(port), "--json"]  # fmt: skip
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            said = "".join(process.stdout.readline() for _ in range(3))
            url = json.loads(said)["url"]
            assert url == f"http://localhost:{port}"
            assert onnx.ModelProto.FromString(fetch(f"{url}/data/linear.onnx")).graph.node
            taken = subprocess.run(command, capture_output=True, text=True, check=False)
            assert taken.returncode == 2
            assert f"port {port} cannot be used" in taken.stderr
        finally:
            os.kill(process.pid, signal.SIGTERM)
            process.wait(10)


def test_view_without_netron_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(viewer.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r"pip install .myops\[tools\]"):
        viewer.view(linear(), browser=False)


def test_a_viewer_that_is_stopped_at_once_frees_its_port(tmp_path: Path) -> None:
    pytest.importorskip("netron")
    onnx.save(exported("upscale"), tmp_path / "model.onnx")
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    for _ in range(5):
        with viewer.view(tmp_path / "model.onnx", port=port, browser=False) as running:
            assert running.url == f"http://localhost:{port}"
