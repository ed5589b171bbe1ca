"""A package of another author, made by `myops new` and built against an installed wheel of
myops."""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import warm
from installed import ROOT, fork, outside, run

import myops
from myops import build

# The same calls and the same model, whichever module the op comes from.
CALLS = """
import importlib, sys
import numpy as np, torch
import myops.onnx

op = importlib.import_module(sys.argv[1]).soft_clip

class Model(torch.nn.Module):
    def forward(self, x):
        return op(x, limit=2.0) + 1

x = torch.linspace(-3, 3, 12).reshape(3, 4)
for result in (op(x), op(x, 1.0), op(x=x, limit=1.0)):
    np.testing.assert_allclose(result, np.tanh(x), rtol=1e-5)
axes = {"x": {0: "rows"}}
for exporter in ("dynamo", "torchscript"):
    file = f"{sys.argv[2]}/{exporter}.onnx"
    myops.onnx.export(Model(), (x,), file, exporter=exporter, input_names=["x"], dynamic_axes=axes)
"""

# In a process without torch that does not import the package.
WITHOUT_TORCH = """
import sys
sys.modules["torch"] = None
import numpy as np, onnx, onnxruntime
import myops, myops.onnx, myops.ort

x = np.float32([[0, 1, -1, 100]] * 3)
ours = myops.ort.session("both.onnx").run(None, {"x": x})[0]
library = myops.op_library("my_kernels")
options = onnxruntime.SessionOptions()
options.register_custom_ops_library(myops.ort.get_library_path())
options.register_custom_ops_library(str(library.ort_library))
plain = onnxruntime.InferenceSession("both.onnx", options).run(None, {"x": x})[0]
model = onnx.load("both.onnx")
del model.functions[:]  # so that nothing but the kernels can run it
myops.onnx.register_schemas(model)
onnx.checker.check_model(model, full_check=True)
evaluator = onnx.reference.ReferenceEvaluator(model, new_ops=myops.onnx.reference_ops())
assert np.array_equal(plain, ours)
for runner in (myops.ort.session(model), myops.ort.pyop_session(model), evaluator):
    assert np.array_equal(runner.run(None, {"x": x})[0], ours)
assert "my_kernels" not in sys.modules
"""

# Beside torch.add, in all states of the tensors.
GIVEN_OUT = """
import my_kernels
import torch
from out_cases import differences

x = torch.linspace(-3, 3, 12).reshape(3, 4)
call = torch.ops.my_kernels.soft_clip.out
want = my_kernels.soft_clip(x)
found = [*differences(lambda x, out: call(x, out=out), x.clone, want, returns=False)]
assert not found, "\\n".join(found[:20])
"""


# The example of "myops.op_library", in a process that does not import the package.
EXAMPLE = """
import doctest, torch, myops

names = {"myops": myops, "torch": torch}
test = doctest.DocTestParser().get_doctest(myops.op_library.__doc__, names, "example", None, 0)
assert doctest.DocTestRunner().run(test) == (0, 3)
"""


@pytest.fixture(scope="module")
def package(python: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a package that is built and installed."""
    folder = tmp_path_factory.mktemp("package")
    run(python.parent / "myops", "new", "my_kernels", cwd=folder)
    # Compiled in two thirds of the time; test_tutorial.py builds such a package as it comes.
    setup = folder / "my_kernels" / "setup.py"
    assert 'extensions("my_kernels")' in setup.read_text()
    fast = 'extensions("my_kernels", extra_compile_args=["-O0"])'
    setup.write_text(setup.read_text().replace('extensions("my_kernels")', fast))
    pip = (python, "-m", "pip", "install", "--quiet", "--no-build-isolation", "--no-index")
    run(*pip, "--no-deps", ".", cwd=folder / "my_kernels")
    return folder / "my_kernels"


@pytest.mark.slow
def test_tests_of_the_package_pass(python: Path, package: Path) -> None:
    text = fork(python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests", cwd=package)
    assert re.search(r"^24 passed\b", text, re.MULTILINE), text
    assert "skipped" not in text


@pytest.mark.quick  # no other test of `make test` compiles a package
def test_ops_of_the_package_run_beside_ours(python: Path, package: Path, tmp_path: Path) -> None:
    """What the documentation shows; then without torch, and through the command line."""
    page = (ROOT / "docs" / "your_own_op.md").read_text()
    blocks = re.findall(r"```python package\n(.*?)```", page, re.DOTALL)
    assert len(blocks) == 2
    (tmp_path / "page.py").write_text("\n".join(blocks))
    library = fork(python, "page.py", cwd=tmp_path).strip()
    assert library.endswith("site-packages/my_kernels/libmy_kernels_ort.so")
    run(python, "-c", WITHOUT_TORCH, cwd=tmp_path)

    def typed(*words: str) -> str:
        return fork(python, "-m", "myops", *words, cwd=tmp_path)

    typed("lower", "both.onnx", "lowered.onnx")
    assert {node.domain for node in onnx.load(tmp_path / "lowered.onnx").graph.node} == {""}
    assert "runs" in typed("doctor", "both.onnx", "--run")
    assert "my_kernels" in typed("inspect", "both.onnx")


@pytest.mark.slow
def test_out_calls_of_the_package_behave_like_torch_add(python: Path, package: Path) -> None:
    fork(python, "-c", GIVEN_OUT, cwd=ROOT / "tests")


@pytest.mark.slow
def test_the_example_of_op_library(python: Path, package: Path) -> None:
    fork(python, "-c", EXAMPLE, cwd=package)


@pytest.mark.slow
def test_a_prototype_of_the_installed_package_is_refused(
    python: Path, package: Path, tmp_path: Path
) -> None:
    """The error says what to do, and doing that works."""
    page = (ROOT / "docs" / "your_own_op.md").read_text()
    block = re.findall(r"```python\n(.*?)```", page, re.DOTALL)[0]
    (tmp_path / "again.py").write_text(block)
    done = warm.run("again.py", cwd=tmp_path, env=outside(), python=python)
    assert done.returncode == 1
    assert "the package 'my_kernels', which is installed, has my_kernels::SoftClip" in done.stderr
    (draft,) = re.findall(r'another domain, such as "(\w+)"', done.stderr)
    beside = block.replace('domain="my_kernels"', f'domain="{draft}"')
    beside += "import my_kernels\nx = torch.linspace(-3, 3, 9)\n"
    beside += "assert torch.allclose(clip(x, limit=2.0), my_kernels.soft_clip(x, limit=2.0))\n"
    (tmp_path / "beside.py").write_text(beside)
    fork(python, "beside.py", cwd=tmp_path)


@pytest.mark.slow
def test_prototype_and_package_give_equal_results_and_files(
    python: Path, package: Path, tmp_path: Path
) -> None:
    """The same calls, and the same files, byte for byte."""
    (tmp_path / "calls.py").write_text(CALLS)
    (tmp_path / "prototyped.py").write_text(
        "from prototype_ops import soft_clip_prototype\n"
        'soft_clip = soft_clip_prototype("my_kernels")\n'
    )
    paths = os.pathsep.join([str(Path(myops.__file__).parents[1]), str(ROOT / "tests")])
    tree = {**outside(), "PYTHONPATH": paths}
    for interpreter, module, environment in (
        (sys.executable, "prototyped", tree),
        (python, "my_kernels", outside()),
    ):
        (tmp_path / module).mkdir()
        words = ("calls.py", module, tmp_path / module)
        done = warm.run(*words, cwd=tmp_path, env=environment, python=interpreter)
        assert done.returncode == 0, done.stderr
    for exporter in ("dynamo", "torchscript"):
        before, after = (
            tmp_path / module / f"{exporter}.onnx" for module in ("prototyped", "my_kernels")
        )
        nodes = {(node.domain, node.op_type) for node in onnx.load(before).graph.node}
        assert ("my_kernels", "SoftClip") in nodes
        assert before.read_bytes() == after.read_bytes()


@pytest.mark.slow
def test_verbose_and_explain_show_the_package(python: Path, package: Path, tmp_path: Path) -> None:
    """Its kernel reports nothing, so that its calls are shown without a plan."""
    (tmp_path / "calls.py").write_text(
        "import numpy as np, torch, my_kernels, myops, myops.onnx, myops.ort\n"
        "x = torch.ones(3)\n"
        "call = myops.explain(my_kernels.soft_clip, x, limit=2.0).call\n"
        'assert (call.op, call.domain, call.plan) == ("soft_clip", "my_kernels", [])\n'
        "class Net(torch.nn.Module):\n"
        "    def forward(self, x):\n"
        "        return my_kernels.soft_clip(x, limit=2.0)\n"
        'myops.onnx.export(Net(), (x,), "net.onnx", input_names=["x"])\n'
        '(node,) = myops.ort.explain("net.onnx").nodes\n'
        'assert (node.runs, len(node.calls)) == ("kernel", 1), node\n'
        'print("fine")\n'
    )
    environment = {**outside(), "MYOPS_VERBOSE": "1"}
    done = warm.run("calls.py", cwd=tmp_path, env=environment, python=python)
    assert done.stdout == "fine\n", done.stderr
    assert '"domain": "my_kernels", "op": "soft_clip", "runtime": "onnxruntime"' in done.stderr


@pytest.mark.slow
def test_tests_of_the_package_pass_on_a_prototype(tmp_path: Path) -> None:
    """All except the one that needs native kernels in ONNX Runtime."""
    folder = myops.new_package("my_kernels", tmp_path)
    (tmp_path / "my_kernels.py").write_text(
        "from prototype_ops import soft_clip_prototype\n"
        'soft_clip = soft_clip_prototype("my_kernels")\n'
    )
    paths = [str(Path(myops.__file__).parents[1]), str(ROOT / "tests"), str(tmp_path)]
    environment = {**outside(), "PYTHONPATH": os.pathsep.join(paths)}
    words = ("test_soft_clip.py", "-q", "-rs", "-p", "no:cacheprovider", "-k", "not test_export")
    text = warm.run("-m", "pytest", *words, cwd=folder / "tests", env=environment).stdout
    assert re.search(r"\n20 passed, 1 skipped, 2 deselected", text), text
    assert "does not apply to a prototype: a Python function is told" in text


# ---- What it is made of.


def test_the_page_shows_what_is_generated(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "your_own_op.md").read_text()
    folder = myops.new_package("my_kernels", tmp_path)
    kernel = (folder / "csrc" / "soft_clip.cpp").read_text()
    blocks = re.findall(r"```cpp\n(.*?)```", page, re.DOTALL)
    assert all(block in kernel for block in blocks[:2])  # the others are of other ops
    for file in (path for path in folder.rglob("*") if path.is_file()):
        name = str(file.relative_to(folder))
        assert f"`{name}`" in page, name


def test_a_cuda_kernel_is_added_to_a_package(tmp_path: Path) -> None:
    """Four files are added or changed. The C++ that is not built here is at least valid."""
    plain = myops.new_package("plain", tmp_path, op="my_op")
    folder = myops.new_package("with_cuda", tmp_path, op="my_op", cuda=True)
    names = [
        {str(path.relative_to(place)) for path in place.rglob("*") if path.is_file()}
        for place in (plain, folder)
    ]
    assert {name for name in names[1] - names[0] if "src/" not in name or "csrc" in name} == {
        "csrc/cuda/my_op.cpp", "csrc/cuda/my_op.h", "tests/test_my_op_cuda.py",
    }  # fmt: skip
    text = (folder / "csrc" / "my_op.cpp").read_text()
    assert "      .kernel(compute)\n      .cuda(my_op_on_cuda);\n" in text
    assert 'extensions("with_cuda", include_dirs=["csrc"])' in (folder / "setup.py").read_text()
    flags = ("-std=c++17", "-Wall", "-Wextra", "-Werror", f"-I{build.get_include()}", "-Icsrc")
    for source in ("csrc/my_op.cpp", "csrc/cuda/my_op.cpp"):
        run("c++", *flags, "-c", source, "-o", "made.o", cwd=folder)
    page = (ROOT / "docs" / "cuda.md").read_text()
    example = myops.new_package("shown", tmp_path, cuda=True)
    for name in ("csrc/cuda/soft_clip.h", "csrc/cuda/soft_clip.cpp"):
        assert f"```cpp\n{(example / name).read_text()}```" in page, name


def test_names_are_replaced_everywhere(tmp_path: Path) -> None:
    folder = myops.new_package("soft_clip_box", tmp_path, op="my_package_op")
    assert folder == tmp_path / "soft_clip_box"
    texts = {}
    for path in (path for path in folder.rglob("*") if path.is_file()):
        texts[str(path.relative_to(folder))] = path.read_text()
    assert sorted(texts) == [
        "csrc/my_package_op.cpp", "pyproject.toml", "setup.py", "src/soft_clip_box/__init__.py",
        "src/soft_clip_box/__init__.pyi", "src/soft_clip_box/my_package_op.py",
        "src/soft_clip_box/py.typed", "tests/test_my_package_op.py", "tests/test_types.py",
    ]  # fmt: skip
    assert 'Op("my_package_op")\n      .onnx("MyPackageOp", 1)' in texts["csrc/my_package_op.cpp"]
    assert 'name = "soft_clip_box"' in texts["pyproject.toml"]
    for text in texts.values():
        assert not re.search(r"my_package(?!_op)|soft_clip(?!_box)|SoftClip", text)


def test_a_generated_package_passes_ruff(tmp_path: Path) -> None:
    folder = myops.new_package("my_kernels", tmp_path, op="swish")
    tools = [Path(sys.executable).with_name(name) for name in ("ruff", "clang-format")]
    if not all(tool.is_file() for tool in tools):
        pytest.skip("ruff or clang-format is not installed beside Python (they are in `lint`)")
    ruff, clang_format = tools
    run(ruff, "check", "--isolated", folder, cwd=folder)
    run(ruff, "format", "--isolated", "--check", "--line-length", "100", folder, cwd=folder)
    style = f"--style=file:{ROOT / '.clang-format'}"
    run(clang_format, style, "--dry-run", "-Werror", "csrc/swish.cpp", cwd=folder)


@pytest.mark.parametrize("name", ["", "My-Ops", "1st", "a__b", "a_", "class", "a.b", "../up"])
def test_wrong_package_names_are_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"new: the name of the package: got .* expected lower-"):
        myops.new_package(name, tmp_path)
    with pytest.raises(ValueError, match="new: the name of the op"):
        myops.new_package("fine", tmp_path, op=name)
    assert not list(tmp_path.iterdir())


def test_taken_names_and_folders_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"such as 'my_ops'"):
        myops.new_package("My Ops", tmp_path)
    for name in ("myops", "torch", "json", "aten"):
        with pytest.raises(ValueError, match=rf"got '{name}', which is taken .* try '{name}_ops'"):
            myops.new_package(name, tmp_path)
    (tmp_path / "mine").mkdir()
    with pytest.raises(FileExistsError, match="mine exists already; nothing was written"):
        myops.new_package("mine", tmp_path)
    assert not list((tmp_path / "mine").iterdir())


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"sources": []}, "sources: got no file"),
        ({"domain": "a b"}, "domain: got 'a b', expected letters"),
        ({"namespace": "a.b"}, "namespace: got 'a.b', expected an identifier"),
        ({"domain": "ai.onnx.ml"}, "domain: got 'ai.onnx.ml', which belongs to"),
        ({"domain": "myops"}, "domain: got 'myops', which belongs to"),
        ({"namespace": "aten"}, "namespace: got 'aten', which belongs to"),
        ({"domain": "quantized"}, "domain: got 'quantized', which belongs to"),
    ],
)
def test_wrong_arguments_of_extensions_are_refused(arguments: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        build.extensions("mine", **{"sources": ["a.cpp"], **arguments})


def test_python_and_cmake_use_the_same_flags(tmp_path: Path) -> None:
    rules = (ROOT / "cmake" / "myops_add_op_library.cmake").read_text()
    flags = re.search(r"target_compile_options\(\$\{target\} PRIVATE (.*)\)", rules)
    assert flags
    as_properties = ("-g0", "-fvisibility=hidden")  # of debug builds; CXX_VISIBILITY_PRESET
    assert flags[1].split() == [flag for flag in build.COMPILE if flag not in as_properties]
    cmake = shutil.which("cmake", path=os.path.dirname(sys.executable)) or shutil.which("cmake")
    if cmake is None:
        pytest.skip("cmake is not installed (it is in the extra `test`)")
    folder = myops.new_package("my_kernels", tmp_path)
    (folder / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.20)\nproject(mine LANGUAGES CXX)\n"
        "find_package(myops REQUIRED)\n"
        "myops_add_op_library(mine DOMAIN my_kernels SOURCES csrc/soft_clip.cpp)\n"
    )
    run(cmake, "-S", ".", "-B", "made", f"-Dmyops_DIR={build.get_cmake_dir()}", cwd=folder)
    if os.environ.get("MYOPS_TEST_CMAKE_BUILD"):  # 19 files to compile: `make test-cmake`
        run(cmake, "--build", "made", "--parallel", "2", cwd=folder)
        import onnxruntime

        node = onnx.helper.make_node("SoftClip", ["x"], ["y"], domain="my_kernels", limit=2.0)
        value = onnx.helper.make_tensor_value_info
        graph = onnx.helper.make_graph([node], "g", [value("x", 1, [2])], [value("y", 1, [2])])
        imports = [onnx.helper.make_opsetid(*item) for item in (("", 19), ("my_kernels", 1))]
        model = onnx.helper.make_model(graph, opset_imports=imports, ir_version=10)
        options = onnxruntime.SessionOptions()
        options.register_custom_ops_library(str(folder / "made" / "libmine.so"))
        session = onnxruntime.InferenceSession(model.SerializeToString(), options)
        (y,) = session.run(None, {"x": np.float32([0, 100])})
        assert y.tolist() == [0, 2]
