"""One-node models and sessions of ONNX Runtime whose inputs and outputs are bound to memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper

import myops.ort
from benchmarks.case import Arrays, Candidate, Side

OPSET = 22


def model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Arrays,
    constants: Arrays,
    outputs: Sequence[str],
    opset: int = OPSET,
) -> bytes:
    """A model of `nodes`; constants become initializers, as weights are in practice."""
    graph = helper.make_graph(
        nodes,
        "benchmark",
        [
            helper.make_tensor_value_info(
                name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape
            )
            for name, array in inputs.items()
        ],
        [helper.make_tensor_value_info(name, TensorProto.UNDEFINED, None) for name in outputs],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    for output in graph.output:  # left out: the runtime infers them
        output.ClearField("type")
    imports = [helper.make_opsetid("", opset), helper.make_opsetid("myops", 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=10).SerializeToString()


def session(model_bytes: bytes, threads: int) -> ort.InferenceSession:
    """A session as a user makes it, our library included; only the number of threads is set."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    return myops.ort.session(model_bytes, session_options=options)


def bound(
    running: ort.InferenceSession, inputs: Arrays, outputs: Arrays
) -> tuple[Callable[[], Any], Any]:
    """A call that reads `inputs` and writes `outputs`, with nothing allocated in between."""
    binding = running.io_binding()
    values = {
        name: ort.OrtValue.ortvalue_from_numpy(array) for name, array in (inputs | outputs).items()
    }
    for name in inputs:
        binding.bind_ortvalue_input(name, values[name])
    for name in outputs:
        binding.bind_ortvalue_output(name, values[name])
    run = running.run_with_iobinding
    return lambda: run(binding), lambda _: [values[name].numpy() for name in outputs]


def candidates(
    name: str,
    side: Side,
    model_bytes: bytes,
    inputs: Arrays,
    output: np.ndarray,
    threads: int,
    *,
    allocated: bool = True,
) -> Iterable[Candidate]:
    """The session with bound output, and by `session.run`, which allocates its result."""
    running = session(model_bytes, threads)
    names = [item.name for item in running.get_outputs()]
    run, results = bound(running, inputs, {names[0]: output})
    yield Candidate(f"{name}, bound", run, results, "given", side)
    if allocated:
        yield Candidate(
            f"{name}, session.run",
            lambda: running.run(names, inputs),
            lambda returned: returned,
            "allocated",
            side,
        )
