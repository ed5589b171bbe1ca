"""Tensors that are not dense are refused with the names of op and argument; namespaces that torch
uses for its own operators are reserved."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest
import torch
import torch.distributed as dist

import myops
from myops import _numpy

DENSE = torch.eye(3)
KINDS: dict[str, Callable[[], torch.Tensor]] = {
    "coo": DENSE.to_sparse,
    "csr": DENSE.to_sparse_csr,
    "csc": DENSE.to_sparse_csc,
    "bsr": lambda: DENSE.to_sparse_bsr((1, 1)),
    "mkldnn": DENSE.to_mkldnn,
    "nested": lambda: torch.nested.nested_tensor([DENSE, DENSE]),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.filterwarnings("ignore")  # of torch about sparse and nested tensors
def test_sparse_and_nested_layouts_are_refused(kind: str) -> None:
    if kind == "mkldnn" and not torch.backends.mkldnn.is_available():
        pytest.skip("this torch is built without MKL-DNN")
    item = KINDS[kind]()
    text = "my_add: {}: got a tensor that is sparse, nested or in the layout of MKL-DNN, expected"
    for function in (myops.my_add, torch.ops.myops.my_add):
        with pytest.raises(RuntimeError, match=text.format("a")):
            function(item, DENSE)
        with pytest.raises(RuntimeError, match=text.format("b")):
            function(DENSE, item)
    with pytest.raises(RuntimeError, match=r"resize: X: got a tensor that is sparse"):
        myops.resize(item, [1.0, 2.0])


@pytest.mark.filterwarnings("ignore")
def test_quantized_tensors_are_refused() -> None:
    item = torch.quantize_per_tensor(DENSE, 0.1, 0, torch.qint8)
    with pytest.raises(RuntimeError, match="my_add: a: got dtype qint8, expected float16"):
        myops.my_add(item, DENSE)


def test_jagged_tensors_are_refused() -> None:
    item = torch.nested.nested_tensor([DENSE, DENSE[:2]], layout=torch.jagged)
    with pytest.raises(RuntimeError, match=r"my_add: b: got a nested tensor, .* b\.unbind\(\)"):
        myops.my_add(DENSE, item)


@pytest.fixture
def one_rank() -> Iterator[None]:
    if not dist.is_available():
        pytest.skip("this torch is built without torch.distributed")
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@pytest.mark.parametrize("grad", [False, True])
def test_dtensors_are_refused(one_rank: None, grad: bool) -> None:
    from torch.distributed.tensor import Replicate, distribute_tensor, init_device_mesh

    mesh = init_device_mesh("cpu", (1,))
    item = distribute_tensor(DENSE.clone(), mesh, [Replicate()]).requires_grad_(grad)
    with pytest.raises(RuntimeError, match=r"my_add: a: got a DTensor, .* a\.to_local\(\)"):
        myops.my_add(item, item)


# What torch registers, also in modules that most programs do not import.
_NAMESPACES = """
import importlib, torch
for name in ("distributed", "distributed.tensor", "_inductor.lowering", "ao.quantization.fx",
             "nn.attention.flex_attention", "onnx", "export", "testing._internal.inductor_utils"):
    try:
        importlib.import_module("torch." + name)
    except ImportError:
        pass
names = [item.name for item in torch._C._jit_get_all_schemas()]
names += torch._C._dispatch_get_all_op_names()
print(*{name.partition("::")[0] for name in names})
"""


def test_every_namespace_of_torch_is_reserved() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _NAMESPACES], capture_output=True, text=True, check=True
    )
    names = set(done.stdout.split())
    assert {"aten", "quantized", "inductor", "c10d"} <= names
    assert [name for name in sorted(names) if not _numpy.taken_by(name)] == []
    assert _numpy.taken_by("ai.onnx.ml") == "ai.onnx"
    assert _numpy.taken_by("com.microsoft") == "com.microsoft"
    for free in ("myops", "author_ops", "atens", "ai.onnxx", "torchvision", "test"):
        assert _numpy.taken_by(free) == ""
