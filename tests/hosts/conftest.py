"""What the programs in other languages run, and with what.

Nothing is downloaded here; `make test-hosts` gets what is missing first.
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
def carried(network: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with net.ts, net.onnx, an input and what PyTorch makes of it."""
    folder = tmp_path_factory.mktemp("carried")
    network.write(folder, package=False)
    return folder


@pytest.fixture
def inputs(carried: Path) -> list[Path]:
    return [carried / "x.npy", carried / "factor.npy"]


@pytest.fixture
def expected(carried: Path) -> np.ndarray:
    return np.load(carried / "y.npy")


@pytest.fixture(scope="session", params=["debian", "wheel"])
def runtime(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path | None, list[str]]:
    """An ONNX Runtime for C++: its folder, and what starts a program with it."""
    if request.param == "wheel":
        return wheel(tmp_path_factory.mktemp("wheel") / "onnxruntime")
    return debian()
