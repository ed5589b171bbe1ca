"""The conformance suite finds one deliberately broken op for each kind of fault, compiled from
tests/data/faulty_ops. The same op without a fault passes everything."""

from __future__ import annotations

import re
from typing import Any

import faulty_tree
import pytest

# The suite itself runs on every op in `make test`; these ops test whether it finds faults.
pytestmark = pytest.mark.slow

# For each op: the families that must fail, a part of their message, and families that must pass.
FAULTS: dict[str, tuple[list[str], str, list[str]]] = {
    "tail_twice": (["lengths", "gradients"], "unrolled loop", ["values", "threads"]),
    "fake_swapped": (["export"], "shape [8] at the example's", ["values", "shapes", "errors"]),
    "no_gradient": (["gradients"], "not differentiable", ["values", "shapes"]),
    "swapped_symbolic": (["torchscript"], "attribute alpha = -0.25 in the file", ["dynamo"]),
    "thread_sums": (["threads"], "depends on the number of threads", ["values", "lengths"]),
    "thread_variable": (["threads"], "axis 0 of argument 0 made large", ["values", "sessions"]),
    "narrow_offsets": (["layouts"], "fit into 32 bits", ["values", "lengths"]),
    "same_address": (["layouts"], "w in the memory of x", ["values", "lengths"]),
    "static_scratch": (["sessions"], "disturb each other", ["values", "purity", "threads"]),
    "remembers": (["purity"], "other numbers after the case", ["values", "layouts"]),
    "in_place": (["purity"], "after the call", []),
    "overwrites": (["purity"], "may_overwrite() allows", ["values", "lengths", "sessions"]),
    "noisy": (["purity"], "not deterministic", []),
    "unwritten": (["purity"], "never written", []),
    "reads_past": (["values"], "reads outside of an input", []),
    "writes_past": (["values"], "a write beside the result", ["purity", "lengths"]),
    "one_buffer": (["purity"], "write into the same memory", ["values", "lengths"]),
    "swallows_nan": (["specials"], "swallowed", ["values", "lengths", "dtypes"]),
    "ignores_strides": (["layouts"], "as if it were contiguous", ["values", "lengths"]),
    "length_one": (["lengths"], "= 1", ["values", "layouts"]),
    "narrow": (["dtypes"], "too narrow", ["values", "lengths"]),
    "shape_of_names": (["shapes"], "lengths as names", ["values", "lengths"]),
    "text_varies": (["errors"], "refused: ", ["values", "lengths"]),
    "unchecked": (["errors", "lengths"], "lacks a check", ["values"]),
    "foreign_text": (["errors"], "bad input", ["values"]),
    "fake_silent": (["errors"], "no refusal, a result", ["values"]),
    "fake_dtype": (["shapes"], "dtype float32", ["values"]),
    "fake_constant": (["export", "compile"], "turns a symbolic length into a number", ["shapes"]),
    "half_gradient": (["gradients"], "backward is wrong", ["values"]),
    "wrong_gradient": (["gradients"], "Jacobian mismatch", ["values"]),
    "detached": (["gradients"], "second derivatives", ["values"]),
    "unwritten_gradient": (["gradients"], "after memory was filled", ["values", "lengths"]),
    "odd_gradient": (["gradients"], "as in float64", ["values", "lengths"]),
    "no_backward_fake": (["gradients"], "lacks a fake kernel", ["values", "shapes"]),
    "taken_apart": (["export"], "in it", ["values", "shapes"]),
    "other_body": (["bodies"], "standard(g)", ["values", "lengths"]),
    "no_body": (["bodies"], "nobody wrote it", ["values"]),
}

SQUARES = {
    "square_strides": (["layouts"], "square_strides_backward: x", ["values", "lengths"]),
    "square_beside": (["values"], "the result of square_beside_backward: 4 bytes", ["gradients"]),
    "square_and_twice": (["values"], "a write beside result 1 (twice)", ["purity", "lengths"]),
}

ALL = FAULTS | SQUARES

EARLY = (
    "y: got a kernel that writes an output before it has set the length, expected a call of "
    "allocate_output or set_length first"
)
THREAD = (
    '"rows": got a call of set_length in parallel_for or from another thread, expected one by the '
    "thread that runs the kernel, outside of parallel_for"
)
# Kernels that set the lengths of outputs wrongly; each call must be refused with this text.
LENGTHS = {
    "says_none": "y: got no length from the kernel, expected a call of allocate_output or "
    "set_length before it writes",
    "writes_first": EARLY,
    "keeps_a_pointer": EARLY,
    "says_too_much": "y: got length 4 on axis 0 from the kernel, expected at most 3, the bound in "
    "the shape rule",
    "says_too_little": "y: got length -1 on axis 0 from the kernel, expected 0 or more",
    "says_two": "y: got length 2 on axis 0 from the kernel, expected 3, the length that the "
    'kernel has set for "rows"',
    "says_another": 'kernel: got set_length of "columns", expected the name of a length in '
    "Dim::at_most(bound, name)",
    "says_what_is_known": "kernel: got a call of allocate_output or set_length, expected none: the "
    "shape rule knows every length",
    "says_in_pieces": THREAD,
    "says_in_a_thread": THREAD,
    "makes_two": "y: got a call of allocate_output, expected one call of allocate_output or "
    "set_length for it",
    "makes_a_matrix": "y: got shape [1, 1] from the kernel, expected [-1], where -1 is a length "
    "for the kernel to decide",
}


@pytest.fixture(scope="session")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    tree = tmp_path_factory.mktemp("faulty") / "tree"
    faulty_tree.build(tree, ["sound", *ALL, *LENGTHS])
    wanted: dict[str, Any] = {n: [*fails, *passes] for n, (fails, _, passes) in ALL.items()}
    refused = {name: f"{name}: {text}" for name, text in LENGTHS.items()}
    return faulty_tree.ask(tree, {"sound": [], **wanted, **refused})


def test_every_fault_is_in_the_table() -> None:
    text = (faulty_tree.FAULTY / "faulty_ops.cpp").read_text()
    assert sorted(re.findall(r"^FAULT\((\w+),", text, re.MULTILINE)) == sorted(
        ["sound", *FAULTS, *LENGTHS]
    )


def test_the_sound_op_passes_every_family(found: dict[str, Any]) -> None:
    assert found["sound"]["failures"] == [], found["sound"]["text"]
    assert found["sound"]["idle"] == {}, found["sound"]["text"]


@pytest.mark.parametrize("name", ALL)
def test_each_fault_is_found(found: dict[str, Any], name: str) -> None:
    fails, words, _ = ALL[name]
    failures = found[name]["failures"]
    assert {failure["check"] for failure in failures} == set(fails), found[name]["text"]
    assert words in "\n".join(failure["text"] for failure in failures)
    for failure in failures:
        assert failure["op"] == name
        for part in ("case", "got", "expected", "cause"):
            assert failure[part], part


@pytest.mark.parametrize("name", LENGTHS)
def test_each_wrong_length_is_refused_in_every_runtime(found: dict[str, Any], name: str) -> None:
    """In PyTorch, NumPy, ONNX Runtime and as a PyOp. A fake kernel does not run the kernel."""
    assert found[name]["failures"] == [], found[name]["text"]
    assert found[name]["compared"] >= 2
