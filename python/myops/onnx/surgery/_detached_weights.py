"""Removes large weights from a model that is too large for one message, and restores them
afterwards.

In between they are inputs of the graph. Changes of the rest of the model do not need their numbers;
a run gets them as inputs.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx

from myops.onnx.graph import files, storage
from myops.onnx.graph.structure import GraphError
from myops.onnx.graph.weights import SMALL

FROM = files.LIMIT - 2**24  # bytes of weights above which some are removed
MOST = 2**30  # bytes of weights that remain; the rest of 2 GiB is for folded constants


class DetachedWeights:
    """The weights that were removed from a model, the largest first, until the rest is small."""

    def __init__(self, model: onnx.ModelProto, folder: Path | None) -> None:
        self._folder = folder
        self._tensors: dict[str, onnx.TensorProto] = {}
        size = storage.size(model)
        if size < FROM:
            return
        given = {item.name for item in model.graph.input}
        shown = {item.name for item in model.graph.output}
        sizes = sorted(((storage.tensor_bytes(t), t.name) for t in model.graph.initializer),
                       reverse=True)  # fmt: skip
        chosen = set()
        for count, name in sizes:
            if size < MOST or count <= SMALL:
                break
            if name not in given and name not in shown:
                chosen.add(name)
                size -= count
        if size >= FROM:
            raise GraphError(
                f"simplify: got {size / 2**30:.1f} GiB in Constant nodes and in weights that are "
                "inputs or outputs, expected less than 2 GiB: onnxslim needs them in one message"
            )
        for tensor in [item for item in model.graph.initializer if item.name in chosen]:
            self._tensors[tensor.name] = tensor
            model.graph.input.append(
                onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
            )
        kept = [item for item in model.graph.initializer if item.name not in chosen]
        self._tensors = {name: _copied(tensor) for name, tensor in self._tensors.items()}
        kept = [_copied(item) for item in kept]
        del model.graph.initializer[:]
        model.graph.initializer.extend(kept)

    @property
    def names(self) -> list[str]:
        return list(self._tensors)

    def notes(self) -> list[str]:
        """Notes for the user on the consequences."""
        if not self._tensors:
            return []
        count = len(self._tensors)
        return [f"The {count} largest weights were left as they are, and nothing was folded into "
                "them: the model is too large for one message."]  # fmt: skip

    def arrays(self) -> dict[str, np.ndarray]:
        """Their numbers, by name; read from the files that they are in."""
        base = "" if self._folder is None else str(self._folder)
        return {
            name: onnx.numpy_helper.to_array(tensor, base) for name, tensor in self._tensors.items()
        }

    def put_back(self, model: onnx.ModelProto) -> None:
        """Makes them weights again, except those that nothing reads any longer."""
        inputs = [item for item in model.graph.input if item.name not in self._tensors]
        inputs = [onnx.ValueInfoProto.FromString(item.SerializeToString()) for item in inputs]
        del model.graph.input[:]
        model.graph.input.extend(inputs)
        used = {name for node in storage.nodes(model) for name in node.input}
        model.graph.initializer.extend(
            tensor for name, tensor in self._tensors.items() if name in used
        )


def _copied(tensor: onnx.TensorProto) -> onnx.TensorProto:
    copy = onnx.TensorProto()
    copy.CopyFrom(tensor)
    return copy
