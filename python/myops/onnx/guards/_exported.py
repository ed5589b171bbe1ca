"""An export and the data for its checks: the model in PyTorch and in ONNX Runtime."""

from __future__ import annotations

import contextlib
import functools
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
import torch
from torch.utils import _pytree as pytree

from myops._checked import callers_level
from myops._torch import arrays, seeds
from myops._torch.module_state import Changes as StateChanges
from myops._torch.module_state import ModuleState, restored
from myops.onnx.exporting.inputs import Inputs
from myops.onnx.exporting.recorded import Recorded
from myops.onnx.graph import files, scopes
from myops.onnx.guards._branches import TracedReads
from myops.onnx.guards._calls import CallRecorder
from myops.onnx.guards._errors import ExportCheckError, ExportCheckWarning
from myops.onnx.matrix import narrow_floats

Changes = Mapping[str, torch.Tensor]
_STANDARD = ("", "ai.onnx", "ai.onnx.ml", "ai.onnx.preview.training")


class CannotRunError(RuntimeError):
    """ONNX Runtime refuses the model for a reason that is no fault of the export."""


class MissingLibraryError(RuntimeError):
    """A node of the model needs a custom-op library that the caller did not give."""


@dataclass
class Exported:
    """An exported model and its origin.

    written: The model as torch's exporter wrote it.
    final: The model as it will be written to the file.
    program: The program that torch.export made of the model; None for the TorchScript exporter.
    limits: Shortest and longest dynamic length by name of the input and axis, where stated.
    multiples: The number of which a length is a multiple, where stated.
    dynamic: The axes that should be dynamic, by name of the input.
    recorded: The assumptions of the exporter about lengths.
    doubtful: Inputs of which a warning says that they have no influence in the file.
    uncompared: Why the file could not be compared with PyTorch at all; empty where it was.
    """

    model: Any
    inputs: Inputs
    written: onnx.ModelProto
    final: onnx.ModelProto
    exporter: str
    opset: int
    program: Any = None
    libraries: Sequence[Any] = ()
    limits: Mapping[tuple[str, int], tuple[int, int]] = field(default_factory=dict)
    multiples: Mapping[tuple[str, int], int] = field(default_factory=dict)
    dynamic: Sequence[tuple[str, int]] = ()
    recorded: Recorded | None = None
    pairs: list[tuple[str, Any, list[Any], list[Any]]] = field(default_factory=list)
    base: list[Any] = field(default_factory=list)
    seconds: float = 0.0
    random: bool = False
    calls: CallRecorder = field(default_factory=CallRecorder)
    excused: set[str] = field(default_factory=set)
    changed: set[str] = field(default_factory=set)
    doubtful: set[str] = field(default_factory=set)
    uncompared: str = ""
    _session: Any = None
    _cannot: Exception | None = None

    @property
    def graph_inputs(self) -> dict[str, onnx.ValueInfoProto]:
        """The inputs of the graph without a default, by name."""
        given = {item.name for item in self.final.graph.initializer}
        return {item.name: item for item in self.final.graph.input if item.name not in given}

    @functools.cached_property
    def traced_reads(self) -> TracedReads:
        return TracedReads(runnable(self.model), self.inputs, self.recorded, unchanged)

    def warn(self, text: str) -> None:
        warnings.warn(f"export: {text}", ExportCheckWarning, stacklevel=callers_level())

    def warn_excused(self, difference: str, reason: str) -> None:
        """Warns once of each reason for a difference that is no fault of the file."""
        if reason not in self.excused:
            self.excused.add(reason)
            self.warn(f"numbers: {difference}. {reason}.")

    def check_changes(self, refuse_weights: bool) -> None:
        """Refuses weights that a run of the model changes, and warns of other state."""
        weights = self.changed.intersection(dict(getattr(self.model, "named_parameters", dict)()))
        if weights and refuse_weights:
            raise ExportCheckError(
                "numbers",
                f"forward changes the weights {', '.join(map(repr, sorted(weights)))}, as "
                "torch.nn.Embedding(max_norm=...) does: a file would have those of now, which are "
                "wrong for inputs that the model has not seen yet. Change them once, before the "
                "export (of an embedding: embedding.weight.data.renorm_(norm_type, 0, max_norm), "
                "then embedding.max_norm = None).",
            )
        if self.changed:
            self.warn(
                f"forward changes {', '.join(map(repr, sorted(self.changed)))}. A file keeps "
                "nothing from run to run: each computes what one call of the model does with what "
                "it holds at the export, and the export leaves that as it was. Give what is to be "
                "kept as an input and an output."
            )

    # -- PyTorch ---------------------------------------------------------------------------

    def torch_run(
        self,
        changes: Changes = {},  # noqa: B006
        watch: Any = None,
        changed: StateChanges | None = None,
    ) -> list[Any]:
        """The outputs of the model in PyTorch, as arrays; raises the exceptions of the model.

        Args:
            changed: Receives the names of what the run changed in the model.
        """
        args, kwargs = self.inputs.call(changes)
        model = runnable(self.model)
        with torch.no_grad(), unchanged(model, changed):
            with watch or contextlib.nullcontext():
                result = model(*args, **kwargs)
            if isinstance(watch, CallRecorder):
                watch.returned(result)
            # Copies, because a result may be a buffer, which then gets its old value again.
            leaves = pytree.tree_leaves(result)
            return [np.array(array(leaf)) for leaf in leaves if leaf is not None]

    def _changed_again(self) -> set[str]:
        """What a second call changes too: counters and caches, and not what the first call
        computed once for all."""
        model = runnable(self.model)
        with torch.no_grad(), unchanged(model), contextlib.suppress(Exception):
            for last in (False, True):
                args, kwargs = self.inputs.call()
                state = ModuleState(model)
                model(*args, **kwargs)
                if last:
                    again = state.changes()
                    return again.buffers | again.results
        return set()

    @functools.cached_property
    def ort_base(self) -> list[Any]:
        """The outputs of the exported model at the example inputs."""
        return self.ort_run()

    # -- ONNX Runtime ----------------------------------------------------------------------

    def ort_run(self, changes: Changes = {}) -> list[Any]:  # noqa: B006
        """The outputs of the exported model in ONNX Runtime.

        Raises:
            CannotRunError: ONNX Runtime lacks a kernel, or the model is too large to run here.
            MissingLibraryError: A custom-op library is missing.
            RuntimeError: ONNX Runtime refuses the model or the inputs.
        """
        session = self._open()
        feeds = {
            slot.name: narrow_floats.fed(array(changes.get(slot.name, self.inputs.tensor(slot))))
            for slot in self.inputs.slots
            if slot.name in self.graph_inputs
        }
        try:
            return session.run(None, feeds)
        except Exception as error:
            if _no_kernel(error):
                self._cannot = CannotRunError(_first_line(error))
                raise self._cannot from error
            raise RuntimeError(_first_line(error)) from error

    def _open(self) -> Any:
        if self._cannot is not None:
            raise self._cannot
        if self._session is None:
            try:
                self._session = self._opened()
            except (CannotRunError, MissingLibraryError) as error:
                self._cannot = error
                raise
        return self._session

    def _opened(self) -> Any:
        if files.is_large(self.final):
            raise CannotRunError("the model is larger than 2 GB, which takes too long here")
        import onnxruntime

        import myops.ort

        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4  # errors are raised as exceptions
        try:
            pyops = scopes.needs_pyops(self.final)
            opened = myops.ort.pyop_session if pyops else myops.ort.session
            model = narrow_floats.outside(self.final)
            return opened(model, session_options=options, libraries=list(self.libraries))
        except ImportError as error:  # a package that the user does not need
            raise CannotRunError(str(error)) from error
        except Exception as error:
            foreign = self._foreign_nodes()
            if foreign and _not_registered(error):
                raise MissingLibraryError(foreign[0]) from error
            if _no_kernel(error):
                raise CannotRunError(_first_line(error)) from error
            raise RuntimeError(_first_line(error)) from error

    def _foreign_nodes(self) -> list[str]:
        """Nodes that neither ONNX, nor ONNX Runtime, nor this library, nor the model defines."""
        known = {(f.domain, f.name) for f in self.final.functions}
        lists = [self.final.graph.node, *(f.node for f in self.final.functions)]
        nodes = [node for items in lists for node in scopes.all_nodes(items)]
        return [
            f"{node.domain}::{node.op_type}"
            for node in nodes
            if node.domain not in (*_STANDARD, "com.microsoft")
            and not scopes.is_ours(node)
            and (node.domain, node.op_type) not in known
        ]

    # -- both ------------------------------------------------------------------------------

    def prepare(self, calls: CallRecorder | None) -> None:
        """Runs the model twice in PyTorch: results, time of a run, whether results vary."""
        changed = StateChanges()
        self.base = self.torch_run(watch=calls, changed=changed)
        self.changed = changed.buffers | changed.weights
        if changed.results:
            self.changed |= changed.results & self._changed_again()
        self.calls = calls or self.calls
        start = time.perf_counter()
        again = self.torch_run()
        self.seconds = time.perf_counter() - start
        self.random = len(again) != len(self.base) or any(
            a.shape != b.shape or not np.array_equal(a, b, equal_nan=a.dtype.kind in "fc")
            for a, b in zip(self.base, again, strict=True)
        )


def runnable(model: Any) -> Any:
    return model.module() if isinstance(model, torch.export.ExportedProgram) else model


def array(value: Any) -> np.ndarray:
    """A tensor or a number as a NumPy array."""
    if not isinstance(value, torch.Tensor):  # the exporters write a float as torch's default does
        return np.asarray(value, np.float32 if isinstance(value, float) else None)
    value = value.detach().cpu().resolve_conj().resolve_neg()
    if value.is_quantized:
        value = value.dequantize()
    return arrays.to_numpy(value)


@contextlib.contextmanager
def unchanged(model: Any, changed: StateChanges | None = None) -> Iterator[None]:
    """In this context, a run does not change the state of the model, random numbers and settings.

    Args:
        changed: Receives the names of what the run changed.
    """
    # PyTorch's fused encoder writes zeros at masked positions, which no exporter reproduces.
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with restored(model) as state, seeds.restored(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            seeds.seed(time.perf_counter_ns() % 2**31)  # no two runs alike
            yield
            if changed is not None:
                changed.add(state.changes())
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0].rstrip(".") if lines else type(error).__name__


def _no_kernel(error: Exception) -> bool:
    return "NOT_IMPLEMENTED" in str(error) or "Could not find an implementation" in str(error)


def _not_registered(error: Exception) -> bool:
    texts = ("is not a registered function/op", "not registered", "No opset import", "No Op reg")
    return any(text.lower() in str(error).lower() for text in texts)
