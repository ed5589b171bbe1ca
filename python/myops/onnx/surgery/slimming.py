"""`simplify`: onnxslim, with tests that custom nodes are kept and results are the same."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import onnx

from myops._checked import checked
from myops._extras import require
from myops._names import choose
from myops._text import reason
from myops.onnx import module_paths
from myops.onnx.bodies import add_function_bodies, remove_function_bodies
from myops.onnx.graph import files, inference, scopes, storage, structure, writing
from myops.onnx.graph.structure import GraphError
from myops.onnx.schema import register_schemas
from myops.onnx.surgery import (
    _comparison,
    _detached_weights,
    _dims,
    _folding,
    _order,
    _random_nodes,
    _stand_ins,
    _unknown_lengths,
)
from myops.onnx.surgery._errors import SimplifyError

if TYPE_CHECKING:
    from rich.console import Console

_FIRST_INFERRED = 7  # opset
_UNREAD = ("axes", "keep_aspect_ratio_policy")  # attributes of Resize


@dataclass(frozen=True)
class Simplified:
    """The result of `simplify`; `print()` shows it, and so does a notebook.

    Attributes:
        model: The new model.
        before: The number of nodes of each type, including those in bodies.
        after: The same afterwards.
        difference: The largest difference of an output on random inputs, relative to its largest
            element if that is above 1; None if the results were not compared.
        bytes_before: Size of the model's file and of the files with its external weights; of a
            ModelProto, that of the file that it would become.
        bytes_after: The same afterwards. It may be larger, because a folded constant can take more
            space than the nodes that made it; `largest_constant` limits that.
        notes: Parts that were not simplified or not compared, in sentences.

    Example:
        >>> result = myops.onnx.simplify("model.onnx")
        >>> sum(result.before.values()), sum(result.after.values())
        (6, 4)
    """

    model: onnx.ModelProto = field(repr=False)
    before: dict[str, int]
    after: dict[str, int]
    difference: float | None
    bytes_before: int = 0
    bytes_after: int = 0
    notes: tuple[str, ...] = ()

    def print(self, console: Console | None = None) -> None:
        """Prints nodes and bytes before and after.

        Args:
            console: A `rich.console.Console`. Default: stdout.
        """
        from myops._terminal import Console as Terminal
        from myops.onnx.surgery import _printing

        _printing.show_simplified(self, console or Terminal())

    def _repr_html_(self) -> str:
        """The HTML that a notebook shows."""
        from myops import _pages
        from myops.onnx.surgery import _printing

        return _pages.fragment("simplified.html", result=self, words=_printing)


@checked()
def simplify(
    model: files.Model,
    f: files.Target = None,
    *,
    check: bool = True,
    inputs: Mapping[str, Any] | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    tolerance: float = 1e-4,
    fixed: Mapping[str, Sequence[int | None]] | None = None,
    largest_constant: int | None = None,
) -> Simplified:
    """Makes a model smaller: folds constants, fuses and removes nodes. Custom nodes are kept.

    onnxslim simplifies the model. Shapes of our nodes are inferred with our schemas, so that
    constants after them are folded too. Nodes that draw random numbers are kept. Then both models
    run in ONNX Runtime on the same inputs, with equal seeds.

    Args:
        model: A path, the bytes of a file, or a ModelProto. It is not changed.
        f: File to write; nothing is written if a check fails. None: only return.
        check: Whether the results are compared.
        inputs: Inputs for the comparison by name; inputs that are left out are random.
        shapes: Shapes of random inputs whose lengths are dynamic; default: the same small length
            for each name of a length.
        tolerance: The largest allowed difference, relative to the largest element of an output.
        fixed: Shapes of inputs that become part of the model, so that more can be folded; None
            leaves a length dynamic. Lengths of the same name in other inputs are fixed too.
        largest_constant: Bytes; nodes that would become a larger constant are not folded.

    Returns:
        The new model, node counts and bytes before and after, the difference, notes.

    Raises:
        SimplifyError: A custom node was lost, or the results differ; or constants alone make a
            value of more than 2^28 elements, which would be computed.
        ValueError: The original model does not run on the inputs, so that nothing can be compared.

    Example:
        >>> result = myops.onnx.simplify("model.onnx", "small.onnx")
        >>> result.before["Constant"], result.after.get("Constant", 0)
        (2, 0)
    """
    if not tolerance >= 0:
        raise GraphError(f"simplify: tolerance: got {tolerance}, expected a number >= 0")
    writing.refuse_target(f)
    before = storage.file_bytes(model)
    proto = storage.load(model)
    folder = storage.folder_of(model)
    detached = _detached_weights.DetachedWeights(proto, folder)
    storage.attach(proto, folder)
    register_schemas(proto)
    if fixed:
        _fix(proto, fixed)
    had_bodies = any(map(scopes.is_body, proto.functions))
    source = remove_function_bodies(proto)
    notes = detached.notes()
    _folding.refuse_large(source)
    result = _slim(source, [], largest_constant, notes)
    if _lost(source, result):  # it merges equal nodes, which is wrong for some custom ops
        result = _slim(source, ["subexpression_elimination"], largest_constant, notes)
    if lost := _lost(source, result):
        listed = ", ".join(f"{count} {name}" for name, count in lost.items())
        raise SimplifyError(f"simplify: onnxslim lost custom nodes: {listed}; nothing was written")
    _keep_interface(proto, result, detached.names)
    notes += structure.constants_note(proto, result)
    if had_bodies and any(map(scopes.is_ours, result.graph.node)):
        result = add_function_bodies(result)
    reason = inference.problem(result)
    if reason and not inference.problem(proto):
        raise SimplifyError(f"simplify: onnxslim made an invalid model: {reason}")
    difference = None
    if check:
        given = {**(inputs or {}), **detached.arrays()}
        difference = _comparison.compare(proto, result, given, shapes or {}, tolerance, notes)
    counts = _counts(proto), _counts(result)
    detached.put_back(result)
    storage.finish(result, model, f)
    after = storage.file_bytes(result, f)
    return Simplified(result, *counts, difference, before, after, tuple(dict.fromkeys(notes)))


def _fix(proto: onnx.ModelProto, fixed: Mapping[str, Sequence[int | None]]) -> None:
    """Writes lengths into the inputs, and into other inputs with lengths of the same name."""
    stated = {item.name: item.type.tensor_type.shape.dim for item in proto.graph.input}
    others = {item.name for item in proto.graph.input if not item.type.HasField("tensor_type")}
    lengths: dict[str, int] = {}
    dims: dict[tuple[str, int], str | int] = {}
    for name, shape in fixed.items():
        choose(name, stated, "simplify: fixed: the model has", "input")
        if name in others:
            raise GraphError(
                f"simplify: fixed: {name}: got a value that is no tensor, expected one"
            )
        if len(shape) != len(stated[name]):
            raise GraphError(
                f"simplify: fixed: {name}: got {len(shape)} lengths, expected {len(stated[name])}"
            )
        for axis, length in enumerate(shape):
            old = stated[name][axis]
            if length is None:
                continue
            if old.HasField("dim_value") and old.dim_value != length:
                raise GraphError(
                    f"simplify: fixed: {name}: got length {length} for axis {axis}, which the "
                    f"model fixes to {old.dim_value}"
                )
            if lengths.setdefault(old.dim_param or f"{name} {axis}", length) != length:
                raise GraphError(
                    f"simplify: fixed: got {length} and {lengths[old.dim_param]} for the length "
                    f"{old.dim_param!r}, expected one number"
                )
            dims[name, axis] = length
    for name, axes in stated.items():
        for axis, old in enumerate(axes):
            if old.dim_param in lengths:
                dims[name, axis] = lengths[old.dim_param]
    _dims.set_dims(proto, dims)
    _dims.infer_anew(proto)


def _slim(
    model: onnx.ModelProto, skipped: list[str], largest: int | None, notes: list[str]
) -> onnx.ModelProto:
    first: Exception | None = None
    # Its shape inference supports opset 7 and later, and fails for unknown ops.
    # From types that stand for others it would infer wrong ones.
    infers_right = (
        _opset(model) >= _FIRST_INFERRED and not _misread(model) and not _stand_ins.needed(model)
    )
    require("onnxslim", "simplify")  # that it is missing is no failure of its own
    for infers in (True, False) if infers_right else (False,):
        try:
            result = _slimmed(model, skipped, largest, infers)
            break
        except Exception as error:  # its passes may raise anything
            first = first or error
    else:
        raise SimplifyError(
            f"simplify: onnxslim failed: {type(first).__name__}: {first}; nothing was written"
        ) from first
    if first is not None:
        notes.append(
            "onnxslim's shape inference failed on this model, so less was folded: "
            f"{type(first).__name__}: {reason(first, 120)}"
        )
    if result is None:
        raise SimplifyError("simplify: onnxslim gave no model; nothing was written")
    result.functions.extend(model.functions)
    structure.set_functions(result, structure.used_functions(result))
    result.metadata_props.MergeFrom(
        item for item in model.metadata_props if item not in result.metadata_props
    )
    _stand_ins.take_out(model, result)
    # onnxslim drops what nodes say of PyTorch's modules, and sorts the calls of a module anew.
    _order.restore(model, result)
    module_paths.restore(model, result)
    return result


def _slimmed(model: onnx.ModelProto, skipped: list[str], largest: int | None, infers: bool) -> Any:
    onnxslim = require("onnxslim", "simplify")
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    del copy.functions[:]  # it would rewrite their constants in other types
    copy.ir_version = max(copy.ir_version, 4)  # before, weights had to be inputs
    if not infers:
        shown = inference.infer(copy).graph
        del copy.graph.value_info[:]
        copy.graph.value_info.extend(shown.value_info)
    _stand_ins.put_in(copy)
    _unknown_lengths.put_in(copy)
    kinds = _random_nodes.put_in(copy, model.functions)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = onnxslim.slim(
            copy, skip_optimizations=skipped or None, no_shape_infer=not infers,
            size_threshold=largest,
        )  # fmt: skip
    if result is not None:
        _unknown_lengths.take_out(result)
    return _random_nodes.taken_out(result, kinds)


def _misread(model: onnx.ModelProto) -> bool:
    """Whether onnxslim's shape inference would give a value a wrong shape.

    It looks at the name of a node and not at its domain, and it takes the scales and sizes of a
    Resize for those of all axes, whatever the attributes say. Folding would then use these shapes.
    """
    for graph in structure.graphs_of(model.graph):
        for node in graph.node:
            if structure.is_custom(node.domain) and node.domain != "com.microsoft":
                if onnx.defs.has(node.op_type, ""):
                    return True
            elif node.op_type == "Resize":
                for item in node.attribute:
                    if item.name in _UNREAD or item.s == b"tf_crop_and_resize":
                        return True
    return False


def _opset(model: onnx.ModelProto) -> int:
    try:
        return scopes.onnx_opset(model)
    except ValueError:  # only nodes of other domains
        return _FIRST_INFERRED


def _custom(model: onnx.ModelProto) -> Counter[str]:
    """Custom nodes that the outputs depend on; those of functions in the file do not count."""
    index = structure.Index(model)
    local = {(function.domain, function.name) for function in model.functions}
    queue, live = list(index.outputs), set()
    while queue:
        number = index.producers.get(queue.pop())
        if number is not None and number not in live:
            live.add(number)
            queue.extend(structure.reads(model.graph.node[number]))
    nodes = scopes.all_nodes(model.graph.node[number] for number in sorted(live))
    return Counter(
        f"{node.domain}::{node.op_type}"
        for node in nodes
        if structure.is_custom(node.domain) and (node.domain, node.op_type) not in local
    )


def _lost(before: onnx.ModelProto, after: onnx.ModelProto) -> Counter[str]:
    return _custom(before) - _custom(after)


def _keep_interface(
    before: onnx.ModelProto, after: onnx.ModelProto, detached: Collection[str]
) -> None:
    """Refuses changed names or order of inputs and outputs (onnxslim makes inputs with a default
    constants)."""
    for what, old, new in (
        ("inputs", before.graph.input, after.graph.input),
        ("outputs", before.graph.output, after.graph.output),
    ):
        weights = {t.name for t in before.graph.initializer}.union(detached)
        constants = weights if what == "inputs" else set()
        wanted = [item.name for item in old if item.name not in constants]
        got = [item.name for item in new if item.name not in detached]
        if wanted != got:
            raise SimplifyError(
                f"simplify: onnxslim changed the {what} from {', '.join(wanted) or 'none'} to "
                f"{', '.join(got) or 'none'}; nothing was written"
            )


def _counts(model: onnx.ModelProto) -> dict[str, int]:
    nodes = scopes.all_nodes(model.graph.node)
    found = Counter(
        f"{node.domain}::{node.op_type}" if structure.is_custom(node.domain) else node.op_type
        for node in nodes
    )
    return dict(sorted(found.items()))
