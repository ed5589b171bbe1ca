"""Models for the tests of half precision and of int8."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import myops.ort
from myops.onnx.graph import inference, structure

FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
HALVES = {"float16": TensorProto.FLOAT16, "bfloat16": TensorProto.BFLOAT16}
X = np.random.default_rng(5).standard_normal((1, 3, 12, 10)).astype(np.float32)


def by_name(result: Any) -> dict[str, Any]:
    return {item.name.split("'")[1]: item for item in result.nodes}


def run(made: onnx.ModelProto, feeds: dict[str, Any]) -> list[Any]:
    return myops.ort.session(made).run(None, feeds)


def check(source: onnx.ModelProto, result: Any) -> None:
    """The same names, a valid model, and each input and output of the type that it should have."""
    assert inference.problem(result.model) == ""
    made = {item.name for item in (*result.model.graph.input, *result.model.graph.initializer)}
    for item in result.model.graph.node:
        assert made.issuperset(structure.reads(item)), f"{item.name} stands before what it reads"
        made.update(item.output)
    for field in ("input", "output"):
        before, after = getattr(source.graph, field), getattr(result.model.graph, field)
        assert [item.name for item in before] == [item.name for item in after]


def value(name: str, shape: Any = None, kind: int = FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


def weight(name: str, array: Any) -> onnx.TensorProto:
    return numpy_helper.from_array(np.asarray(array), name)


def model(
    nodes: list[Any], inputs: list[Any], outputs: list[Any], weights: list[Any] = (),  # type: ignore[assignment]
    opset: int = 20, functions: list[Any] = (),  # type: ignore[assignment]
) -> onnx.ModelProto:  # fmt: skip
    """A model with the domains of myops and of the functions."""
    graph = helper.make_graph(nodes, "g", inputs, outputs, list(weights))
    domains = {"myops", *(item.domain for item in functions)}
    imports = [helper.make_opsetid("", opset), *(helper.make_opsetid(d, 1) for d in domains)]
    return helper.make_model(graph, opset_imports=imports, ir_version=9, functions=list(functions))


def node(op: str, inputs: str, outputs: str, domain: str = "", **attributes: Any) -> Any:
    """A node; "-" stands for an input that is left out."""
    given = ["" if name == "-" else name for name in inputs.split()]
    made = outputs.split()
    return helper.make_node(op, given, made, f"{op}_{made[0]}", domain=domain, **attributes)


def network(seed: int = 0, channels: int = 8) -> onnx.ModelProto:
    """Convolutions, our Resize between them, a sum; x is [1, 3, h, w]."""
    random = np.random.default_rng(seed)

    def normal(*shape: int) -> np.ndarray:
        fan = np.prod(shape[1:]) if len(shape) > 1 else 50.0
        return (random.standard_normal(shape) / np.sqrt(fan)).astype(np.float32)

    weights = [
        weight("W1", normal(channels, 3, 3, 3)), weight("b1", normal(channels)),
        weight("W2", normal(channels, channels, 3, 3)), weight("b2", normal(channels)),
        weight("W3", normal(3, channels, 3, 3)), weight("b3", normal(3)),
        weight("scales", np.float32([1, 1, 2, 2])),
    ]  # fmt: skip
    nodes = [
        node("Conv", "x W1 b1", "c1", pads=[1] * 4), node("Relu", "c1", "r1"),
        node("Resize", "r1 - scales", "u", "myops", mode="linear"),
        node("Conv", "u W2 b2", "c2", pads=[1] * 4), node("Relu", "c2", "r2"),
        node("Add", "r2 u", "s"), node("Conv", "s W3 b3", "y", pads=[1] * 4),
    ]  # fmt: skip
    return model(nodes, [value("x", [1, 3, "h", "w"])], [value("y")], weights)


def random_graph(seed: int) -> onnx.ModelProto:
    """A random graph with If, Loop and Scan, whose bodies read values and weights from around
    them, and float64 in places; x is [4, 4]."""
    random = np.random.default_rng(seed)
    weights = [weight("W", (random.standard_normal((4, 4)) / 2).astype(np.float32)),
               weight("b", random.standard_normal(4).astype(np.float32)),
               weight("trips", np.int64(3)), weight("go", np.array(True))]  # fmt: skip
    nodes: list[Any] = []
    values = ["x"]
    unary = ("Relu", "Tanh", "Sigmoid", "Identity", "Exp", "Sqrt", "Neg", "LayerNormalization")
    count = 0

    def pick(names: list[str]) -> str:
        return str(random.choice(names))

    def step(names: list[str], into: list[Any]) -> str:
        """One node, whose values stay small."""
        nonlocal count
        count += 1
        made, kind = f"v{count}", random.integers(0, 7)
        if kind == 0:
            into.append(node("MatMul", f"{pick(names)} W", made))
        elif kind == 1:
            into += [node("Add", f"{pick(names)} {pick([*names, 'b'])}", f"{made}_a"),
                     node("Tanh", f"{made}_a", made)]  # fmt: skip
        elif kind == 2:
            into.append(node("MyAdd", f"{pick(names)} {pick(names)}", f"{made}_a", "myops"))
            into.append(node("Tanh", f"{made}_a", made))
        elif kind == 3:
            into += [node("Cast", pick(names), f"{made}_d", to=TensorProto.DOUBLE),
                     node("Neg", f"{made}_d", f"{made}_n"),
                     node("Cast", f"{made}_n", made, to=FLOAT)]  # fmt: skip
        else:
            op = str(random.choice(unary))
            given = pick(names)
            if op in ("Sqrt", "Exp"):
                into.append(node("Sigmoid", given, f"{made}_s"))
                given = f"{made}_s"
            text = f"{given} b" if op == "LayerNormalization" else given
            into.append(node(op, text, made))
        return made

    def body(names: list[str], title: str, steps: int = 2) -> tuple[list[Any], str]:
        inner: list[Any] = []
        known = list(names)
        for _ in range(steps):
            known.append(step(known, inner))
        inner.append(node("Identity", known[-1], title))
        return inner, title

    for turn in range(5):
        kind = random.integers(0, 5)
        if kind == 0:
            nodes += [node("ReduceSum", pick(values), f"t{turn}", keepdims=0),
                      node("Greater", f"t{turn} zero", f"q{turn}")]  # fmt: skip
            graphs = {}
            for name in ("then_branch", "else_branch"):
                inner, made = body(values, f"{name}{turn}")
                graphs[name] = helper.make_graph(inner, name, [], [value(made)])
            nodes.append(node("If", f"q{turn}", f"i{turn}", **graphs))
            values.append(f"i{turn}")
        elif kind == 1:
            inner, made = body([*values, f"state{turn}"], f"next{turn}")
            inner += [node("Identity", f"c{turn}", f"go{turn}"),
                      node("Identity", made, f"each{turn}")]  # fmt: skip
            loop = helper.make_graph(
                inner, "loop",
                [value(f"k{turn}", [], INT64), value(f"c{turn}", [], BOOL), value(f"state{turn}")],
                [value(f"go{turn}", [], BOOL), value(made), value(f"each{turn}")],
            )  # fmt: skip
            nodes.append(node("Loop", f"trips go {pick(values)}", f"l{turn} all{turn}", body=loop))
            nodes.append(node("ReduceMean", f"all{turn} first", f"m{turn}", keepdims=0))
            values += [f"l{turn}", f"m{turn}"]
        elif kind == 2:
            inner = [node("Add", f"sum{turn} row{turn}", f"a{turn}"),
                     node("Tanh", f"a{turn}", f"n{turn}"),
                     node("Mul", f"n{turn} b", f"o{turn}")]  # fmt: skip
            scan = helper.make_graph(
                inner, "scan", [value(f"sum{turn}", [4]), value(f"row{turn}", [4])],
                [value(f"n{turn}", [4]), value(f"o{turn}", [4])],
            )  # fmt: skip
            names = f"b {pick(values)}"
            nodes.append(node("Scan", names, f"f{turn} g{turn}", body=scan, num_scan_inputs=1))
            values.append(f"g{turn}")
        else:
            for _ in range(3):
                values.append(step(values, nodes))
    nodes.append(node("Add", f"{values[-1]} {values[len(values) // 2]}", "y"))
    weights += [weight("zero", np.float32(0)), weight("first", np.int64([0]))]
    return model(nodes, [value("x", [4, 4])], [value("y"), value(values[-1])], weights)
