"""`add_outputs`: makes inner values of a model additional outputs."""

from __future__ import annotations

from collections.abc import Sequence

import onnx

from myops._checked import checked
from myops.onnx.graph import files, inference, storage
from myops.onnx.graph.structure import GraphError, Index


@checked()
def add_outputs(
    model: files.Model,
    names: Sequence[str] = (),
    f: files.Target = None,
    *,
    module: str | None = None,
    call: int | None = None,
    everything: bool = False,
) -> onnx.ModelProto:
    """Makes inner values of a model additional outputs, so that every runtime returns them.

    The existing inputs and outputs stay first and in order. A value whose type neither shape
    inference nor ONNX Runtime knows is written without a type, which ONNX Runtime accepts.

    Args:
        model: A path, the bytes of a file, or a ModelProto. It is not changed.
        names: Values of the main graph.
        f: File to write: a path, or an object open for writing bytes. None: only return.
        module: Also the outputs of this PyTorch module, such as "backbone.layer1", in each call.
        call: Only those of this call of the module; the first is 0.
        everything: Every value that a node of the main graph makes, except constants.

    Returns:
        The model with more outputs.

    Raises:
        GraphError: A name does not exist, or there is nothing to add.

    Example:
        >>> verbose = myops.onnx.add_outputs("model.onnx", ["relu1", "relu2"])
    """
    proto = storage.load(model)
    index = Index(proto)
    wanted = list(names)
    for name in wanted:
        index.check(name, "outputs")
    if module is not None:
        wanted += _of_module(proto, module, call)
    elif call is not None:
        raise GraphError("outputs: call: got a number, expected it together with a module")
    if everything:
        quiet = {out for n in proto.graph.node if n.op_type == "Constant" for out in n.output}
        wanted += [name for name in index.producers if name not in quiet]
    elif not wanted:
        raise GraphError("outputs: expected names of values, a module, or everything")
    added = [name for name in dict.fromkeys(wanted) if name not in index.outputs]
    stated = inference.types(proto, added)
    for name in added:
        proto.graph.output.append(stated.get(name) or onnx.ValueInfoProto(name=name))
    storage.finish(proto, model, f)
    return proto


def _of_module(proto: onnx.ModelProto, path: str, call: int | None) -> list[str]:
    from myops.onnx.module_paths import regions
    from myops.onnx.surgery.extraction import find_region

    found = regions(proto, path) if call is None else [find_region(proto, path, call)]
    return [name for region in found for name in region.outputs]
