"""Nodes on ONNX Runtime's CUDA provider: the bits of PyTorch on the same GPU."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
from gpu_cases import ON_DEVICE, WITHOUT_GRADIENTS

import myops.onnx
import myops.ort

ALL = ON_DEVICE | WITHOUT_GRADIENTS
PROVIDER = "CUDAExecutionProvider"
pytestmark = pytest.mark.skipif(
    not torch.cuda.is_available() or PROVIDER not in onnxruntime.get_available_providers(),
    reason="no GPU, or an ONNX Runtime without its CUDA provider (pip install onnxruntime-gpu)",
)


class Call(torch.nn.Module):
    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, *tensors: torch.Tensor) -> torch.Tensor:
        return self.function(*tensors)


@pytest.mark.parametrize("tf32", [False, True])
@pytest.mark.parametrize("name", ALL)
def test_onnxruntime_has_the_bits_of_pytorch(
    name: str, tf32: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The flags for TF32, whose defaults differ, are the same here."""
    monkeypatch.setattr(torch.backends.cuda.matmul, "allow_tf32", tf32)
    function, case = ALL[name][:2]
    tensors = tuple(case.tensors)
    names = [f"input_{place}" for place in range(len(tensors))]
    file = str(tmp_path / "model.onnx")
    myops.onnx.export(Call(function), tensors, file, input_names=names)
    options = onnxruntime.SessionOptions()
    # A node that falls back to the CPU is an error.
    options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    session = myops.ort.session(
        file, providers=[(PROVIDER, {"use_tf32": str(int(tf32))})], session_options=options
    )
    feed = {key: item.numpy() for key, item in zip(names, tensors, strict=True)}
    expected = function(*(item.cuda() for item in tensors)).cpu().numpy()
    for _ in range(2):
        (found,) = session.run(None, feed)
        assert np.array_equal(found, expected)
    binding = session.io_binding()
    for key, array in feed.items():
        value = onnxruntime.OrtValue.ortvalue_from_numpy(array, "cuda", 0)
        binding.bind_ortvalue_input(key, value)
    binding.bind_output(session.get_outputs()[0].name, "cuda", 0)
    session.run_with_iobinding(binding)
    assert np.array_equal(binding.copy_outputs_to_cpu()[0], expected)
