"""ONNX Runtime's own calibration and quantizer, for models with custom nodes.

For such models they need shape inference, which our schemas provide, and sessions with the
libraries. They also have to distinguish a custom `Resize` from that of ONNX.
"""

from __future__ import annotations

import contextlib
import io
import logging
import tempfile
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import onnx
from onnx import helper

from myops._text import reason
from myops.onnx.comparison.ort_side import Runner
from myops.onnx.graph import files, inference, scopes, structure
from myops.onnx.precision.integer_forms import Form
from myops.ort import _session

METHODS = {"minmax": "MinMaxCalibrater", "entropy": "EntropyCalibrater",
           "percentile": "PercentileCalibrater"}  # fmt: skip
TYPES = {"uint8": "QUInt8", "int8": "QInt8"}


class _Reader:
    """Gives a calibrator one input after the other."""

    def __init__(self, feeds: Sequence[Mapping[str, Any]]) -> None:
        self._feeds = iter(feeds)

    def get_next(self) -> Mapping[str, Any] | None:
        return next(self._feeds, None)


def prepared(model: onnx.ModelProto, libraries: Sequence[Any]) -> onnx.ModelProto:
    """A copy with the types of all values and a name for each node, which the quantizer needs."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    _name_nodes(copy)
    made = [name for node in copy.graph.node for name in node.output if name]
    known = inference.types(copy, made, libraries)
    have = {item.name for item in (*copy.graph.value_info, *copy.graph.output, *copy.graph.input)}
    copy.graph.value_info.extend(known[name] for name in made if name in known and name not in have)
    helper.set_model_props(copy, {
        **{item.key: item.value for item in copy.metadata_props},
        "onnx.infer": "onnxruntime.quant",  # tells the quantizer not to infer types
    })  # fmt: skip
    return copy


def _name_nodes(model: onnx.ModelProto) -> None:
    """Gives each node a name, because the quantizer identifies nodes by name."""
    used: set[str] = set()
    for node in model.graph.node:
        stem = node.name or f"{node.op_type}_{next(filter(None, node.output), '')}"
        name, number = stem, 1
        while name in used:
            name, number = f"{stem}_{number}", number + 1
        used.add(name)
        node.name = name


def ranges(
    model: onnx.ModelProto,
    feeds: Sequence[Mapping[str, Any]],
    method: str,
    custom: Sequence[str],
    libraries: Sequence[Any],
    advance: Callable[..., None],
) -> tuple[Any, set[str]]:
    """The range of each value, by a calibrator of ONNX Runtime; and the values without one.

    A value that is infinite or NaN for some input, as scores behind a mask of -inf, has no range.

    Args:
        model: A result of `prepared`.
        feeds: Inputs.
        method: One of METHODS.
        custom: Op types of custom nodes that are quantized, too.
        libraries: Custom-op libraries that are needed.
        advance: Called for each input.
    """
    from onnxruntime.quantization import calibrate, registry

    base: Any = getattr(calibrate, METHODS[method])
    runner = Runner(libraries)
    large = files.is_large(model)

    class Calibrator(base):
        """A calibrator whose sessions have the libraries of custom nodes."""

        def augment_graph(self) -> None:
            if method != "minmax":
                super().augment_graph()
                return
            _add_extremes(self.model, self.select_tensors_to_calibrate(self.model)[0])
            onnx.save(self.model, self.augmented_model_path, save_as_external_data=large)

        def create_inference_session(self) -> None:
            import onnxruntime

            options = onnxruntime.SessionOptions()
            options.log_severity_level = 4
            options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
            opened: Any = _session.session
            if scopes.needs_pyops(model):
                from myops.ort.pyops import pyop_session as opened
            self.infer_session = opened(
                self.augmented_model_path, session_options=options,
                libraries=runner.libraries_of(model),
            )  # fmt: skip

    types = sorted({*registry.QLinearOpsRegistry, *registry.QDQRegistry, *custom})
    with tempfile.TemporaryDirectory(prefix="myops.quantize.") as folder:
        path = Path(folder) / "model.onnx"
        with _quiet():
            onnx.save(_copied(model) if large else model, path, save_as_external_data=large)
            calibrator = Calibrator(
                path, types, augmented_model_path=str(Path(folder) / "augmented.onnx"),
                use_external_data_format=large,
            )  # fmt: skip
            calibrator.augment_graph()
            calibrator.create_inference_session()
        with _leaving_out_infinite(calibrate.HistogramCollector) as unbounded:
            for feed in feeds:  # one by one: it would keep the values of all of them
                with _quiet():
                    calibrator.collect_data(_Reader([feed]))
                advance("calibration")
        with _quiet():
            found = calibrator.compute_data()
    for name, item in list(found.items()):
        if not all(np.isfinite(limit).all() for limit in item.range_value):
            unbounded.add(name)
    for name in unbounded.intersection(found.keys()):
        del found.data[name]
    return found, unbounded


def _add_extremes(model: onnx.ModelProto, names: Iterable[str]) -> None:
    """Makes the least and the largest element of each value outputs, in the order and with the
    names that `MinMaxCalibrater` reads. It would look through all nodes for the place of each."""
    infos = (*model.graph.value_info, *model.graph.output, *model.graph.input)
    kinds = {item.name: item.type.tensor_type.elem_type for item in infos}
    flat = f"{uuid.uuid4()}"
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.array([-1]), flat))
    for name in names:
        for reduce in ("ReduceMin", "ReduceMax"):
            made = f"{name}_{reduce}"
            # With keepdims, because ONNX Runtime reduces no axis of length 0 without.
            model.graph.node.append(
                helper.make_node(reduce, [name], [f"{made}_Reshape"], keepdims=1)
            )
            model.graph.node.append(helper.make_node("Reshape", [f"{made}_Reshape", flat], [made]))
            model.graph.output.append(helper.make_tensor_value_info(made, kinds[name], [None]))


@contextlib.contextmanager
def _leaving_out_infinite(collector: Any) -> Iterator[set[str]]:
    """Inside, histograms leave out values with infinity or NaN in them, and fail on none."""
    unbounded: set[str] = set()
    collect = collector.collect

    def collecting(self: Any, arrays: Mapping[str, Any]) -> Any:
        for name, parts in arrays.items():
            if not all(np.isfinite(np.asarray(part)).all() for part in parts):
                unbounded.add(name)
        return collect(self, {n: item for n, item in arrays.items() if n not in unbounded})

    with mock.patch.object(collector, "collect", collecting):
        yield unbounded


def _copied(model: onnx.ModelProto) -> onnx.ModelProto:
    """A copy, because saving with external data removes the weights from a model."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    return copy


def quantized(
    model: onnx.ModelProto,
    found: Any,
    excluded: Sequence[str],
    places: Mapping[str, dict[int, int]],
    forms: Mapping[str, Form],
    *,
    activations: str,
    per_channel: bool,
    reduce_range: bool,
) -> onnx.ModelProto:
    """The model with quantize and dequantize nodes, by ONNX Runtime's quantizer.

    Args:
        model: A result of `prepared`; it is not changed.
        found: The result of `ranges`.
        excluded: Nodes that stay float, by name.
        places: Custom nodes that may become integers, by name, with places of outputs and inputs.
        forms: Custom nodes that other ops compute on integers.
    """
    from onnxruntime.quantization import QuantType, qdq_quantizer, registry

    from myops.onnx.precision.indexed import IndexedModel, finding_by_index

    class Quantizer(qdq_quantizer.QDQQuantizer):
        """A quantizer that distinguishes a custom node from the node of ONNX with the same type."""

        @property
        def model(self) -> IndexedModel:
            return self._indexed

        @model.setter
        def model(self, value: Any) -> None:  # its constructor sets one, and already asks it
            self._indexed = IndexedModel(value.model)

        def should_quantize_node(self, node: onnx.NodeProto) -> bool:
            if not structure.is_custom(node.domain):
                return bool(super().should_quantize_node(node))
            if node.name in excluded:
                return False
            for made, given in places.get(node.name, {}).items():
                # Like the quantizer's own ops that move integers: quantized only if their inputs
                # are.
                if self.is_tensor_quantized(node.input[given]):
                    self.quantize_activation_tensor(node.input[given])
                    self.quantize_output_same_as_input(
                        node.output[made], node.input[given], node.name
                    )
            form = forms.get(node.name)
            for place in form.activations if form else ():
                self.quantize_activation_tensor(node.input[place])
            for place, axis in form.weights.items() if form else ():
                if per_channel:
                    self.quantize_weight_tensor_per_channel(node.input[place], axis)
                else:
                    self.quantize_weight_tensor(node.input[place])
            for name in node.input:
                self.tensor_to_its_receiving_nodes.setdefault(name, []).append(node)
            return False

    types = sorted({*registry.QLinearOpsRegistry, *registry.QDQRegistry})
    with _quiet(), finding_by_index():
        quantizer = Quantizer(
            _copied(model), per_channel, reduce_range, QuantType.QInt8,
            getattr(QuantType, TYPES[activations]), found, [], list(excluded), types,
            {"ActivationSymmetric": activations == "int8"},
        )  # fmt: skip
        quantizer.quantize_model()
    result: onnx.ModelProto = quantizer.model.model
    structure.sort_nodes(result.graph)  # it adds dequantize nodes at the end
    kept = [item for item in result.metadata_props if item.key != "onnx.infer"]
    properties = {item.key: item.value for item in kept}
    del result.metadata_props[:]
    helper.set_model_props(result, properties)
    return result


def magnitude(found: Any, name: str) -> float | None:
    """The largest magnitude of a value in what `ranges` returned; None if there is none."""
    data = found.data.get(name)
    if data is None:
        return None
    most = max(float(np.abs(end).max()) for end in data.range_value)
    return most if 0 < most < float("inf") else None


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Silences ONNX Runtime, which prints and logs advice about steps that were done already."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            yield
    except Exception as error:  # its passes may raise anything
        kind = type(error).__name__
        raise RuntimeError(
            f"ONNX Runtime's quantizer failed: {kind}: {reason(error, 300)}"
        ) from error
    finally:
        logging.disable(before)
