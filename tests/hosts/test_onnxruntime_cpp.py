"""C++ programs on the official API of ONNX Runtime give Python's results, to the bit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from programs import HOSTS, attempt, build, run, tool
from runtimes import assert_equal_bits

import myops.ort

Runtime = tuple[Path | None, list[str]]


def test_cpp_program_with_our_library_gives_equal_bits(
    runtime: Runtime, exported: Path, inputs: list[Path], expected: np.ndarray, tmp_path: Path
) -> None:
    root, start = runtime
    folder = build(HOSTS / "onnxruntime_cpp", tmp_path / "build", f"ONNXRUNTIME_ROOT={root or ''}")
    words = [exported / "net.onnx", myops.ort.get_library_path(), tmp_path / "y.npy", *inputs]
    said = run(*start, folder / "run_onnx", *words)
    result = np.load(tmp_path / "y.npy")
    assert_equal_bits(result, expected)
    session = myops.ort.session(exported / "net.onnx")
    print(said.splitlines()[0])  # the version, in pytest -rP
    feeds = {"x": np.load(inputs[0]), "factor": np.load(inputs[1])}
    assert_equal_bits(result, session.run(None, feeds)[0])


MAIN = """
#include "load.h"

#include <iostream>

int main(int, char** words) try {
  Ort::Env env;
  Ort::Session session = bundle::session(env, words[1]);
  std::vector<float> a = {1, 2, 3}, b = {10};
  const int64_t three = 3, one = 1;
  const auto memory = Ort::MemoryInfo::CreateCpu(OrtArenaAllocator, OrtMemTypeDefault);
  Ort::Value values[] = {Ort::Value::CreateTensor<float>(memory, a.data(), 3, &three, 1),
                         Ort::Value::CreateTensor<float>(memory, b.data(), 1, &one, 1)};
  const char* inputs[] = {"a", "b"};
  const char* outputs[] = {"c"};
  const auto results = session.Run(Ort::RunOptions(), inputs, values, 2, outputs, 1);
  const float* c = results[0].GetTensorData<float>();
  std::cout << c[0] << " " << c[1] << " " << c[2] << std::endl;
} catch (const std::exception& error) {
  std::cout << error.what() << std::endl;
  return 1;
}
"""


def test_loader_of_a_bundle_checks_the_library(runtime: Runtime, tmp_path: Path) -> None:
    from onnx import TensorProto, helper, save

    root, start = runtime
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n"]) for name in "abc"]
    node = helper.make_node("MyAdd", ["a", "b"], ["c"], domain="myops")
    graph = helper.make_graph([node], "add", infos[:2], infos[2:])
    imports = [helper.make_opsetid("", 19), helper.make_opsetid("myops", 1)]
    save(helper.make_model(graph, opset_imports=imports, ir_version=9), tmp_path / "add.onnx")
    made = myops.ort.bundle(tmp_path / "add.onnx", tmp_path / "bundle")

    (tmp_path / "main.cpp").write_text(MAIN)
    include = root / "include" if root else Path("/usr/include/onnxruntime")
    words = ["-std=c++17", "-Wall", "-Wextra", "-Werror", "-I", made.folder, "-isystem", include]
    words += [tmp_path / "main.cpp", *(["-L", root / "lib"] if root else []), "-lonnxruntime"]
    run(tool("c++"), *words, "-Wl,--allow-shlib-undefined", "-o", tmp_path / "main")

    def load(folder: Path) -> tuple[int, str]:
        done = attempt(*start, tmp_path / "main", folder)
        return done.returncode, done.stdout.strip()

    assert load(made.folder) == (0, "12 14 16")
    library = made.folder / "libmyops_ort.so"
    with library.open("ab") as stream:
        stream.write(b"x")
    status, text = load(made.folder)
    assert status == 1
    assert f"{library} is not the library that was bundled: got SHA-256 " in text
    assert f"expected {made.libraries[0].sha256}" in text
    library.unlink()
    assert load(made.folder) == (1, f"{library} is missing; copy the whole bundle again")
