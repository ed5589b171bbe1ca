"""Torch schema, OpSchema, ONNX Runtime, PyOp, Python signature and documentation agree with the
description of each op, and every op has its files."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path

import onnx
import pytest
import torch

import myops
import myops.onnx
from myops import _description
from myops._description import OpInfo

ROOT = Path(__file__).parents[1]
OPS = list(_description.OPS.values())
NODES = _description.onnx_ops()
ATTRIBUTE_KINDS = {
    "bool": (onnx.defs.OpSchema.AttrType.INT, "bool"),
    "int": (onnx.defs.OpSchema.AttrType.INT, "int"),
    "float": (onnx.defs.OpSchema.AttrType.FLOAT, "float"),
    "string": (onnx.defs.OpSchema.AttrType.STRING, "str"),
    "ints": (onnx.defs.OpSchema.AttrType.INTS, "List[int]"),
    "floats": (onnx.defs.OpSchema.AttrType.FLOATS, "List[float]"),
}


def named(ops: list[OpInfo]) -> list[object]:
    return [pytest.param(info, id=info.name) for info in ops]


@pytest.mark.parametrize("info", named(OPS))
def test_torch_schema_equals_the_description(info: OpInfo) -> None:
    myops.ops.modules()
    packet = getattr(torch.ops.myops, info.name)
    results = ["default", *(["values"] if info.has_values else [])]
    written = [name.replace("default", "out").replace("values", "values_out") for name in results]
    assert packet.overloads() == results + (written if len(info.outputs) == 1 else [])
    for overload in written if len(info.outputs) == 1 else []:
        *_, out = getattr(packet, overload)._schema.arguments
        assert (out.name, out.is_out, out.kwarg_only) == ("out", True, True)
        assert getattr(packet, overload)._schema.returns == []
    for overload in results:
        arguments = getattr(packet, overload)._schema.arguments
        inputs = arguments[: len(info.inputs)]
        for item, argument in zip(info.inputs, inputs, strict=True):
            assert argument.name == item.name
            assert isinstance(argument.type, torch.OptionalType) == item.optional
        attributes = arguments[len(info.inputs) :]
        for item, argument in zip(info.attributes, attributes, strict=True):
            assert argument.name == item.name
            assert argument.kwarg_only
            kind, default = ATTRIBUTE_KINDS[item.type][1], item.default
            if item.type == "ints" and not default:
                kind, default = f"Optional[{kind}]", None  # what AOTInductor needs
            assert str(argument.type) == kind
            assert argument.default_value == default


def test_none_is_accepted_for_an_empty_list() -> None:
    """AOTInductor calls the op with None, whatever the program contains."""
    x, scales = torch.rand(1, 2, 4, 5, requires_grad=True), torch.tensor([1.0, 1.0, 2.0, 3.0])
    given = [torch.ops.myops.resize(x, scales=scales, axes=axes) for axes in (None, [])]
    assert torch.equal(*given)
    gradients = [torch.autograd.grad(y.square().sum(), x)[0] for y in given]
    assert torch.equal(*gradients)


def test_may_overwrite_names_inputs() -> None:
    claims = {info.name: info.outputs[0].may_overwrite for info in OPS if info.outputs}
    assert claims["my_add"] == ("a", "b")
    for info in OPS:
        assert set(claims[info.name]) <= {item.name for item in info.inputs}
        assert not any(output.may_overwrite for output in info.outputs[1:])  # without effect


@pytest.mark.parametrize("info", named(NODES))
def test_onnx_schema_equals_the_description(info: OpInfo) -> None:
    myops.onnx.register_schemas()
    schema = onnx.defs.get_schema(info.onnx_type, 1, "myops")
    assert schema.since_version == info.since_version
    optional = onnx.defs.OpSchema.FormalParameterOption.Optional
    for item, formal in zip(info.inputs, schema.inputs, strict=True):
        assert formal.name == item.name
        assert formal.description == item.doc
        assert (formal.option == optional) == item.optional
    assert [item.name for item in schema.outputs] == [item.name for item in info.outputs]
    assert sorted(schema.attributes) == sorted(item.name for item in info.attributes)
    for item in info.attributes:
        attribute = schema.attributes[item.name]
        assert attribute.type == ATTRIBUTE_KINDS[item.type][0]
        assert attribute.description.startswith(item.doc)  # then its choices
        default = attribute.default_value
        if default.type:
            value = onnx.helper.get_attribute_value(default)
            assert (value.decode() if isinstance(value, bytes) else value) == item.default
    constraints = {c.type_param_str: sorted(c.allowed_type_strs) for c in schema.type_constraints}
    names = {"float32": "float", "float64": "double"}
    for name, dtypes in info.types.items():
        wanted = sorted(f"tensor({names.get(dtype, dtype)})" for dtype in dtypes)
        assert constraints[name] == wanted


def test_resize_has_the_inputs_and_attributes_of_resize_19() -> None:
    info, standard = _description.OPS["resize"], onnx.defs.get_schema("Resize", 19)
    assert [item.name for item in info.inputs] == [item.name for item in standard.inputs]
    ours = {item.name: item for item in info.attributes}
    # The additional attribute states whose rounding is used, see docs/ops.md.
    assert set(ours) - set(standard.attributes) == {"torch_arithmetic"}
    assert set(standard.attributes) <= set(ours)
    for name, attribute in standard.attributes.items():
        if attribute.default_value.type:
            value = onnx.helper.get_attribute_value(attribute.default_value)
            value = value.decode() if isinstance(value, bytes) else value
            assert ours[name].default == value


@pytest.mark.parametrize("info", named(OPS))
def test_descriptions_are_documented(info: OpInfo) -> None:
    texts = [info.doc, *[item.doc for item in (*info.inputs, *info.outputs, *info.attributes)]]
    assert all(text.endswith((".", "]")) for text in texts), texts  # a sentence, or a shape


def test_public_functions_are_documented() -> None:
    for module in myops.ops.modules():
        for name in module.__all__:
            member = getattr(module, name)
            assert getattr(myops, name) is member
            text = inspect.getdoc(member) or ""
            function = member if inspect.isfunction(member) else member.apply
            text += inspect.getdoc(function) or ""
            for heading in ("Args:", "Returns:", "Example:"):
                assert heading in text, f"{name} has no {heading}"
            for parameter in inspect.signature(function).parameters:
                assert re.search(rf"\b{parameter}\b.*:", text), f"{name}: {parameter}"


def test_every_op_has_its_files() -> None:
    """An op has a directory in C++ and tests; its Python file is found by name."""
    directories = {path.name for path in (ROOT / "csrc" / "ops").iterdir() if path.is_dir()}
    described = {info.name for info in NODES}
    assert directories == described
    for op in directories:
        assert (ROOT / "python" / "myops" / "ops" / f"{op}.py").is_file()
        assert (ROOT / "tests" / "ops" / f"test_{op}.py").is_file()


# Files about one op or another that are not among its own: what they are for.
ABOUT_AN_OP = {
    "python/myops/nn.py": "layers",
    "python/myops/_torch/interpolate.py": "torch's interpolate on our kernel",
    "python/myops/_torch/torchvision.py": "torchvision's deform_conv2d on our kernel",
    "python/myops/onnx/symbolics/interpolate.py": "torch's interpolate as our node",
    "python/myops/onnx/symbolics/torchvision.py": "torchvision's deform_conv2d as our node",
    "python/myops/ort/_doctor/examination.py": "the node with which a library is tried",
    "python/myops/cli/run.py": "resize is an option for pictures",
    "python/myops/cli/_completion.py": "as above",
}
OWN = re.compile(
    r"python/myops/(ops|scaffold/template\w*)/|csrc/ops/|scripts/(golden_models|wheels/op_calls)/"
)


def names_in(path: Path) -> set[str]:
    """Strings in the code of a file, and the modules that it imports from myops.ops."""
    if path.suffix == ".cpp":
        return set(re.findall(r'"([\w:]+)"', path.read_text()))
    if path.suffix != ".py":
        return set(re.findall(r"[\w:]+", re.sub(r"#.*", "", path.read_text())))
    tree = ast.parse(path.read_text())
    texts = {
        item.value.value
        for item in ast.walk(tree)
        if isinstance(item, ast.Expr) and isinstance(item.value, ast.Constant)
    }
    found = {
        item.value
        for item in ast.walk(tree)
        if isinstance(item, ast.Constant) and isinstance(item.value, str)
    }
    for item in ast.walk(tree):
        if isinstance(item, ast.ImportFrom) and (item.module or "").startswith("myops.ops"):
            found |= {(item.module or "").rpartition(".")[2], *(alias.name for alias in item.names)}
    return found - texts


def test_code_names_no_op_outside_of_its_files() -> None:
    """So that adding an op edits nothing. Texts, tests and measurements may name ops."""
    names = {info.name for info in OPS} | {f"myops::{info.onnx_type}" for info in NODES}
    names |= {info.onnx_type for info in NODES if not onnx.defs.has(info.onnx_type)}
    files = [
        *(path for path in (ROOT / "python" / "myops").rglob("*.py")),
        *(path for path in (ROOT / "scripts").rglob("*.py")),
        *(path for path in (ROOT / "csrc").rglob("*.cpp")), *(ROOT / "cmake").iterdir(),
        *(ROOT / name for name in ("setup.py", "CMakeLists.txt", "tests/native/CMakeLists.txt",
                                   "tests/fuzz/CMakeLists.txt")),
    ]  # fmt: skip
    named = {}
    for path in files:
        place = path.relative_to(ROOT).as_posix()
        if not OWN.match(place) and (found := names & names_in(path)):
            named[place] = found
    assert len(files) > 400
    unexpected = {place: found for place, found in named.items() if place not in ABOUT_AN_OP}
    assert not unexpected, unexpected
    assert set(ABOUT_AN_OP) <= set(named)


def test_kernels_include_no_runtime() -> None:
    forbidden = re.compile(r"#include\s*[<\"](torch|ATen|c10|onnxruntime|pybind11|Python)")
    for folder in ("include", "core", "cuda", "ops"):
        for path in (ROOT / "csrc" / folder).rglob("*.[hc]*"):
            assert not forbidden.search(path.read_text()), path


def test_docs_list_every_op() -> None:
    page = (ROOT / "docs" / "ops.md").read_text()
    readme = (ROOT / "README.md").read_text()
    for info in NODES:
        for text in (page, readme):
            assert f"`myops::{info.onnx_type}`" in text
        for item in info.attributes:
            assert f"`{item.name}`" in page, f"docs/ops.md: {info.name}: {item.name}"
        for dtype in info.types[info.inputs[0].type]:
            assert dtype in page
