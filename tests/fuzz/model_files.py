"""Damages the nodes of golden models and gives them to ONNX Runtime with our library.

    python tests/fuzz/model_files.py FIRST LAST

runs the mutations of these numbers, each the same every time, and prints the number before each
one: after a crash or a hang the last number says which it was. Ends with a count of what ONNX
Runtime said.
"""

from __future__ import annotations

import json
import random
import sys
from collections import Counter
from typing import Any

import golden
import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

import myops.ort
from myops import _description

SEEDS = [
    name
    for name, facts in golden.index().items()
    if name.endswith("_ir8") or (facts["made_by"] == "dynamo" and facts["opset"] == 18)
]
ABSURD = [0, -1, 1, 2, 3, 4097, 2**20, 2**31 - 1, 2**31, 2**40, 2**53 + 1, 2**62, 2**63 - 1]
ABSURD.append(-(2**63))
REALS = [0.0, -0.0, -1.0, 1e-45, 1e-30, 1e30, 3e38, float("inf"), float("-inf"), float("nan")]


def any_attribute(random_: random.Random, name: str) -> onnx.AttributeProto:
    length = random_.choice([0, 1, 2, 3, 4, 8, 100, 5000, 2**20 + 1])
    kind = random_.randrange(8)
    if kind == 0:
        return helper.make_attribute(name, random_.choice(ABSURD))
    if kind == 1:
        return helper.make_attribute(name, random_.choice(REALS))
    if kind == 2:
        return helper.make_attribute(name, bytes(random_.randrange(256) for _ in range(9)))
    if kind == 3:
        return helper.make_attribute(name, "x" * length)
    if kind == 4:
        values = [random_.choice(ABSURD)] * length
        return helper.make_attribute(name, values, attr_type=onnx.AttributeProto.INTS)
    if kind == 5:
        values = [random_.choice(REALS)] * length
        return helper.make_attribute(name, values, attr_type=onnx.AttributeProto.FLOATS)
    if kind == 6:
        return helper.make_attribute(name, numpy_helper.from_array(np.ones(3, np.float32)))
    return helper.make_attribute(name, ["a", "b"])


def spoil_node(random_: random.Random, node: onnx.NodeProto) -> None:
    info = _description.by_onnx_type(node.op_type)
    action = random_.randrange(9)
    if action <= 3 and info.attributes:
        name = random_.choice(info.attributes).name
        for attribute in [item for item in node.attribute if item.name == name]:
            node.attribute.remove(attribute)
        node.attribute.append(any_attribute(random_, name))
    elif action == 4 and node.attribute:
        node.attribute.remove(random_.choice(list(node.attribute)))
    elif action == 5 and node.input:
        node.input[random_.randrange(len(node.input))] = ""
    elif action == 6:
        del node.input[random_.randrange(len(node.input) + 1) :]
    elif action == 7 and node.input:
        node.input.append(random_.choice(list(node.input)))
    else:
        inputs = list(node.input)
        random_.shuffle(inputs)
        node.input[:] = inputs


def spoil_lengths(random_: random.Random, model: onnx.ModelProto) -> None:
    """Changes the stated lengths, names or type of an input."""
    kind = random_.choice(list(model.graph.input)).type.tensor_type
    if random_.random() < 0.3:
        kind.elem_type = random_.randrange(TensorProto.DataType.Value("FLOAT8E5M2FNUZ"))
    elif random_.random() < 0.3:
        kind.ClearField("shape")
    elif kind.shape.dim:
        random_.choice(list(kind.shape.dim)).dim_value = random_.choice(ABSURD)


def spoil_constants(random_: random.Random, model: onnx.ModelProto, feeds: dict[str, Any]) -> None:
    """Turns an input into an initializer with random contents."""
    names = [item.name for item in model.graph.input]
    name = random_.choice(names)
    array = feeds.pop(name)
    model.graph.input.remove(model.graph.input[names.index(name)])
    model.graph.initializer.append(numpy_helper.from_array(spoil_array(random_, array), name))


def spoil_array(random_: random.Random, array: np.ndarray) -> np.ndarray:
    array = array.copy()
    action = random_.randrange(5)
    if action == 0 and array.size:
        values = REALS if array.dtype.kind == "f" else ABSURD
        with np.errstate(all="ignore"):
            value = np.array(random_.choice(values)).astype(array.dtype, casting="unsafe")
        array.flat[random_.randrange(array.size)] = value
    elif action == 1 and array.ndim:
        array = array[: array.shape[0] // 2]
    elif action == 2:
        array = array.reshape(-1)
    elif action == 3:
        array = array[None]
    else:
        array = np.resize(array, random_.choice([0, 1, 5000]))
    return array


def attempt(number: int) -> str:
    """Damages a model in one to three places, loads it and runs it; returns "ran" or the kind of
    error."""
    random_ = random.Random(number)
    name = random_.choice(SEEDS)
    model = onnx.load(golden.FOLDER / f"{name}.onnx")
    feeds = golden.arrays(name)[0]
    nodes = [node for node in model.graph.node if node.domain == "myops"]
    for _ in range(random_.randint(1, 3)):
        action = random_.randrange(6)
        if action <= 2:
            spoil_node(random_, random_.choice(nodes))
        elif action == 3 and model.graph.input:
            spoil_lengths(random_, model)
        elif action == 4 and model.graph.input:
            spoil_constants(random_, model, feeds)
        elif feeds:
            key = random_.choice(sorted(feeds))
            feeds[key] = spoil_array(random_, feeds[key])
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    myops.ort.register(options)
    try:
        session = onnxruntime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        wanted = {item.name for item in session.get_inputs()}
        session.run(None, {key: value for key, value in feeds.items() if key in wanted})
    except (MemoryError, SystemError):
        raise
    except Exception as error:  # ONNX Runtime's own types; that there is one is what we want
        if not 0 < len(str(error)) < 5000:
            raise RuntimeError(f"a message of {len(str(error))} characters") from error
        return type(error).__name__
    return "ran"


def main(first: int, last: int) -> None:
    outcomes: Counter[str] = Counter()
    for number in range(first, last):
        print(number, flush=True)
        outcomes[attempt(number)] += 1
    print(json.dumps(outcomes))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
