"""deform_conv2d_int8 against deform_conv2d, layer by layer, in ONNX Runtime: the table in
docs/precision.md.

    python benchmarks/deform_int8.py [--threads 1,2]     # half a minute

Weights are constants of the models. The error is that of int8 against float32 on the numbers that
the integers stand for (relative L2): the rounding of the samples alone.
"""

from __future__ import annotations

import argparse
import statistics
import time
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

import myops.ort

# Channels in and out, height, width: of ResNets with deformable layers, the last two of a detector
# at other resolutions.
LAYERS = [(64, 64, 56, 56), (128, 128, 28, 28), (256, 256, 14, 14), (512, 512, 7, 7),
          (256, 256, 50, 84), (512, 512, 25, 42), (64, 64, 180, 320)]  # fmt: skip
SECONDS = 0.8  # seconds of a layer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", default="1,2")
    print("| layer (kernel 3x3, mask) | threads | float32 | int8 | ratio | error |")
    print("|---|---|---|---|---|---|")
    for threads in map(int, parser.parse_args().threads.split(",")):
        for layer in LAYERS:
            print(_row(layer, threads), flush=True)


def _row(layer: tuple[int, int, int, int], threads: int) -> str:
    channels, outputs, height, width = layer
    floats, integers, feeds = _models(*layer)
    sessions = [_session(model, threads) for model in (floats, integers)]
    given = [{"X": feeds["X"], **feeds["rest"]}, {"X": feeds["integers"], **feeds["rest"]}]
    results = [session.run(None, feed)[0] for session, feed in zip(sessions, given, strict=True)]
    error = np.linalg.norm(results[0] - results[1]) / np.linalg.norm(results[0])
    times: list[list[float]] = [[], []]
    end = time.perf_counter() + SECONDS
    while time.perf_counter() < end or len(times[0]) < 5:
        for number, (session, feed) in enumerate(zip(sessions, given, strict=True)):
            start = time.perf_counter()
            session.run(None, feed)
            times[number].append(time.perf_counter() - start)
    wide, narrow = (1e3 * statistics.median(item) for item in times)
    return (
        f"| {channels} -> {outputs}, {height}x{width} | {threads} | {wide:.2f} ms | "
        f"{narrow:.2f} ms | {wide / narrow:.2f} | {error:.1e} |"
    )


def _session(model: onnx.ModelProto, threads: int) -> Any:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    return myops.ort.session(model, session_options=options)


def _models(channels: int, outputs: int, height: int, width: int) -> Any:
    """Of float32 and of integers, and what both are run on."""
    random = np.random.default_rng(0)
    zero, scale = np.uint8([30]), np.float32([0.02])
    X = random.integers(0, 256, (1, channels, height, width), dtype=np.uint8)
    W = random.integers(-127, 128, (outputs, channels, 3, 3), dtype=np.int8)
    W_scale = random.uniform(0.001, 0.003, outputs).astype(np.float32)
    B = random.standard_normal(outputs).astype(np.float32)
    rest = {
        "offset": random.normal(0, 1.5, (1, 18, height, width)).astype(np.float32),
        "mask": random.uniform(0, 1, (1, 9, height, width)).astype(np.float32),
    }
    wide = (X.astype(np.float32) - zero) * scale
    filters = W * W_scale[:, None, None, None]
    floats = _model("DeformConv", "X W offset B mask", TensorProto.FLOAT, {"W": filters, "B": B})
    constants = {"W": W, "B": B, "s": scale, "z": zero, "t": W_scale}
    integers = _model(
        "DeformConvIntegerToFloat", "X s z W t offset B mask", TensorProto.UINT8, constants
    )
    return floats, integers, {"X": wide, "integers": X, "rest": rest}


def _model(op: str, inputs: str, kind: int, constants: dict[str, Any]) -> onnx.ModelProto:
    weights = [numpy_helper.from_array(np.asarray(item), name) for name, item in constants.items()]
    node = helper.make_node(op, inputs.split(), ["Y"], domain="myops", pads=[1] * 4)
    kinds = {"X": kind, "offset": TensorProto.FLOAT, "mask": TensorProto.FLOAT}
    given = [helper.make_tensor_value_info(name, item, [None] * 4) for name, item in kinds.items()]
    out = helper.make_tensor_value_info("Y", TensorProto.FLOAT, [None] * 4)
    graph = helper.make_graph([node], "layer", given, [out], weights)
    imports = [helper.make_opsetid("", 20), helper.make_opsetid("myops", 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=9)


if __name__ == "__main__":
    main()
