"""Fixtures: the model that programs in other languages run, and the runtimes that they use.

Nothing is downloaded here; `make test-hosts` downloads what is missing first.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from programs import HOSTS, debian, wheel


@pytest.fixture(scope="session")
def network() -> Any:
    """examples/hosts/network.py."""
    spec = importlib.util.spec_from_file_location("hosts_network", HOSTS / "network.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def exported(network: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with net.ts, net.onnx, two inputs and the result of PyTorch."""
    folder = tmp_path_factory.mktemp("exported")
    network.write(folder, package=False)
    return folder


@pytest.fixture
def inputs(exported: Path) -> list[Path]:
    return [exported / "x.npy", exported / "factor.npy"]


@pytest.fixture
def expected(exported: Path) -> np.ndarray:
    return np.load(exported / "y.npy")


@pytest.fixture(scope="session", params=["debian", "wheel"])
def runtime(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path | None, list[str]]:
    """An ONNX Runtime for C++: its folder, and the command with which its programs start."""
    if request.param == "wheel":
        return wheel(tmp_path_factory.mktemp("wheel") / "onnxruntime")
    return debian()
