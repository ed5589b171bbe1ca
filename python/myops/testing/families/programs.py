"""Programs: opcheck, torch.compile and torch.export, with dynamic lengths."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.fx.experimental import _config as symbolic_settings
from torch.utils import _pytree as pytree

from myops.testing import casts, variations
from myops.testing.bits import arrays_of, given_of
from myops.testing.calls import CallOutcome, refusal
from myops.testing.cases import Case, copy_of, separate
from myops.testing.derivatives import leaves_of
from myops.testing.families.gradients import backward_calls
from myops.testing.op_under_test import DispatcherCalls, Seen
from myops.testing.trial import Trial

_OPCHECK_CAUSE = (
    "torch.library.opcheck looks at the schema (no input may change or be returned), at how "
    "autograd is registered, at the fake kernel, and at all of it under torch.compile; its text "
    "names the one"
)
_COMPILE_CAUSE = (
    "the fake kernel, save or backward turns a symbolic length into a number (int(), numel() of a "
    "torch.Size, a branch on it, a shape rule that needs numbers), or the fake kernel expects "
    "other sizes or strides than the kernel gives"
)
_NO_GRADIENT_CAUSE = (
    "backward is missing. If the op has no gradient on purpose: check_op(gradients=0)"
)
_EAGER_CAUSE = "the compiled program calls the op with other arguments than eager does"


def opcheck(trial: Trial) -> None:
    """Runs torch.library.opcheck on the op and on the ops of its gradient, in several layouts."""
    places = trial.differentiable() if trial.settings.gradients else []
    varied = {
        "": trial.case,
        "channels_last": trial.case.having(
            [variations.channels_last(item) for item in trial.case.tensors]
        ),
        "strided": trial.case.having([variations.strided(item) for item in trial.case.tensors]),
    }
    if not any(item.dim() in (4, 5) for item in trial.case.tensors):
        del varied["channels_last"]
    for label, case in varied.items():
        with DispatcherCalls() as seen:
            trial.tested.function(*case.args, **case.kwargs)
        inner = next(item for item in seen if trial.tested.is_mine(item.overload))
        asked = {id(case.tensors[place]) for place in places} if not label else set()
        _opcheck(trial, label, inner, asked)
    if trial.settings.gradients:
        try:
            below = backward_calls(trial, trial.case)
        except Exception as error:  # "gradients" has the details
            trial.tally.note(f"no gradient to look at: {refusal(error)}")
            below = []
        for seen_backward in below:
            _opcheck(trial, seen_backward.name, seen_backward, set())


def _opcheck(trial: Trial, label: str, seen: Seen, asked: set[int]) -> None:
    args = pytree.tree_map(
        lambda item: (
            copy_of(item).requires_grad_(id(item) in asked)
            if isinstance(item, torch.Tensor)
            else item
        ),
        tuple(seen.args),
    )
    utils = ["test_schema", "test_faketensor"]
    if not label:  # the other checks take long, and once is enough
        utils += ["test_autograd_registration", "test_aot_dispatch_dynamic"]
        with torch.no_grad():
            outputs = seen.overload(*args, **seen.kwargs)
        if _integers_come_first(outputs):
            # It adds up all outputs in the dtype of the first.
            utils.remove("test_aot_dispatch_dynamic")
            _aot_dispatch(trial, seen, args)
    found = torch.library.opcheck(
        seen.overload, args, seen.kwargs, test_utils=tuple(utils), raise_exception=False
    )
    for name, verdict in found.items():
        trial.tally.ran += 1
        if verdict != "SUCCESS":
            trial.tally.fail(label, f"{name}: {verdict}", "SUCCESS", _OPCHECK_CAUSE)


def _aot_dispatch(trial: Trial, seen: Seen, args: tuple[Any, ...]) -> None:
    """opcheck's test_aot_dispatch_dynamic, with the outputs in an order that it accepts."""
    from torch.testing._internal.optests.aot_autograd import aot_autograd_check

    def floats_first(*args: Any, **kwargs: Any) -> list[torch.Tensor]:
        args = pytree.tree_map_only(torch.Tensor, torch.clone, args)
        outputs = pytree.tree_leaves(seen.overload(*args, **kwargs))
        tensors = [item for item in outputs if isinstance(item, torch.Tensor)]
        return sorted(tensors, key=lambda item: not casts.is_float(item))

    trial.tally.ran += 1
    try:
        aot_autograd_check(floats_first, args, seen.kwargs, dynamic=True, check_gradients="auto")
    except Exception as error:  # of autograd, of the op
        said = f"test_aot_dispatch_dynamic: {refusal(error)}"
        trial.tally.fail("", said, "SUCCESS", _OPCHECK_CAUSE)


def _integers_come_first(outputs: Any) -> bool:
    tensors = [item for item in pytree.tree_leaves(outputs) if isinstance(item, torch.Tensor)]
    floats = [casts.is_float(item) for item in tensors]
    return any(floats) and not floats[0]


class Module(torch.nn.Module):
    """The public function as a module whose inputs are the tensors of a case."""

    def __init__(self, trial: Trial) -> None:
        super().__init__()
        case, self.function = trial.case, trial.tested.function
        leaves, self.spec = pytree.tree_flatten((tuple(case.args), dict(case.kwargs)))
        # Everything except the tensors, which torch.compile would make inputs too.
        self.leaves = [None if isinstance(item, torch.Tensor) else item for item in leaves]
        self.places = [n for n, item in enumerate(leaves) if isinstance(item, torch.Tensor)]

    def call(self, tensors: Sequence[torch.Tensor]) -> Any:
        leaves = list(self.leaves)
        for place, tensor in zip(self.places, tensors, strict=True):
            leaves[place] = tensor
        args, kwargs = pytree.tree_unflatten(leaves, self.spec)
        result = self.function(*args, **kwargs)
        if not isinstance(result, tuple):
            return result
        return tuple([item for item in result if item is not None])  # exporters know no None


def module_of(trial: Trial, kind: type[Module] = Module) -> Module:
    """A module whose forward has a named parameter for each tensor, because exporters use the
    names."""
    names = input_names(trial)
    text = f"def forward(self, {', '.join(names)}):\n    return self.call([{', '.join(names)}])\n"
    scope: dict[str, Any] = {}
    exec(text, scope)  # a signature cannot be made otherwise in a way that torch reads
    return type("Module", (kind,), {"forward": scope["forward"]})(trial).eval()


def input_names(trial: Trial) -> list[str]:
    return [f"tensor_{place}" for place in range(len(trial.case.tensors))]


def dynamic_axes(trial: Trial) -> dict[int, dict[int, str]]:
    """{tensor: {axis: name}} of the lengths that can change; 0 and 1 are constants for torch."""
    found: dict[int, dict[int, str]] = {}
    for number, axes in enumerate(trial.axes):
        for place, axis in axes.places:
            if axes.length >= 2:
                found.setdefault(place, {})[axis] = f"n{number}"
    return found


def other_lengths(trial: Trial) -> list[tuple[str, Case]]:
    """The case with other lengths on its dynamic axes."""
    found = []
    for step in (1, 4):
        # Which axis grows most is tried in both orders: an output may be the shorter, the longer
        # an input is, such as the kernel of a convolution.
        for order in (1, -1):
            case = trial.case
            for number, axes in enumerate(trial.axes[::order]):
                if axes.length >= 2:
                    case = axes.at(case, axes.length + step + number)
            if case is not trial.case and _remains_dynamic(trial, case):
                found.append((f"every dynamic length {step} or more larger", case))
                break
    return found


def _remains_dynamic(trial: Trial, case: Case) -> bool:
    """Whether the op accepts the case, and no length of a result becomes 0 or 1: torch decides by
    itself, without the op, that a program for longer results is not for these."""
    before, after = (_call_of(trial, item) for item in (trial.case, case))
    pairs = zip(before.outputs, after.outputs, strict=False)
    lengths = [pair for one, other in pairs for pair in zip(one.shape, other.shape, strict=False)]
    return not after.refused and all(new >= 2 or old < 2 for old, new in lengths)


def _call_of(trial: Trial, case: Case) -> CallOutcome:
    try:
        return CallOutcome(arrays_of(trial.tested.function(*case.args, **case.kwargs)))
    except Exception as error:  # any exception is a refusal
        return CallOutcome([], refusal(error))


def _cause(error: Exception) -> str:
    """The likely cause of an error in a program that computes gradients."""
    return _NO_GRADIENT_CAUSE if "is not differentiable" in str(error) else _COMPILE_CAUSE


def compiled(trial: Trial) -> None:
    """Checks torch.compile(fullgraph=True, dynamic=True): eager's bits and gradients, compiled
    once."""
    torch._dynamo.reset()
    module = module_of(trial)
    program = torch.compile(
        module.call, fullgraph=True, dynamic=True, backend=trial.settings.backend
    )
    places = trial.differentiable() if trial.settings.gradients else []
    for label, case in [("", trial.case), *other_lengths(trial)]:
        ran, leaves = leaves_of(separate(case, trial.case), places)
        try:
            # Otherwise lengths that happen to be equal would cause another compilation.
            apart = symbolic_settings.patch(use_duck_shape=False)  # type: ignore[attr-defined]
            with apart, torch._dynamo.config.patch(error_on_recompile=bool(label)):
                result = program(ran.tensors)
        except Exception as error:  # of dynamo, of the compiler, of the op
            trial.tally.fail(label, head(refusal(error)), "a compiled program", _cause(error))
            break
        expected_case, expected_leaves = leaves_of(case, places)
        expected = module.call(expected_case.tensors)
        outcome, wanted = CallOutcome(arrays_of(result)), CallOutcome(arrays_of(expected))
        trial.compare_bits(label, "torch.compile", outcome, wanted, _EAGER_CAUSE)
        compare_gradients(trial, label, "torch.compile", result, leaves, expected, expected_leaves)
    torch._dynamo.reset()


def compare_gradients(
    trial: Trial,
    label: str,
    where: str,
    result: Any,
    leaves: Any,
    expected: Any,
    expected_leaves: Any,
) -> None:
    """Compares gradients of the sum of the results, within torch's tolerances."""
    made = [item for item in pytree.tree_leaves(result) if isinstance(item, torch.Tensor)]
    if not leaves or not any(map(casts.is_float, made)):
        return
    grads = []
    for output, given in ((result, leaves), (expected, expected_leaves)):
        loss = torch.stack(
            [real_sum(item).double() for item in given_of(output) if casts.is_float(item)]
        ).sum()
        try:
            found = torch.autograd.grad(loss, given, allow_unused=True)
        except Exception as error:  # "gradients" has the details
            trial.tally.fail(label, f"{where}: {head(refusal(error))}", "gradients", _cause(error))
            return
        grads.append([torch.zeros(()) if item is None else item for item in found])
    trial.tally.ran += 1
    for one, other in zip(*grads, strict=True):
        try:
            torch.testing.assert_close(one, other)
        except AssertionError as error:
            trial.tally.fail(
                label, f"gradient in {where}: {error}", "eager's gradient", _EAGER_CAUSE
            )


def real_sum(item: torch.Tensor) -> torch.Tensor:
    """The sum of all numbers; for complex ones, of both parts."""
    return (torch.view_as_real(item) if item.is_complex() else item).sum()


def exported(trial: Trial) -> None:
    """Checks torch.export with every free length dynamic, at other lengths."""
    axes = dynamic_axes(trial)
    module = module_of(trial)
    shapes = {
        name: dict.fromkeys(axes.get(place, {}), torch.export.Dim.DYNAMIC) or None
        for place, name in enumerate(input_names(trial))
    }
    if not axes:
        trial.tally.note("the op lets no length of this case change: exported with fixed lengths")
    try:
        # Copies: of a view, torch would record the shape of the tensor that it is a view of.
        tensors = tuple(trial.case.copied().tensors)
        program = torch.export.export(module, tensors, dynamic_shapes=shapes)
    except Exception as error:  # of torch.export, of the op
        trial.tally.fail("", head(refusal(error)), "an exported program", _COMPILE_CAUSE)
        return
    targets = [node.target for node in program.graph.nodes if node.op == "call_function"]
    if not any(getattr(t, "_schema", None) and trial.tested.is_mine(t) for t in targets):
        trial.tally.fail(
            "",
            f"a program of {', '.join(map(str, targets))}",
            f"torch.ops.{trial.tested.namespace}.{trial.tested.name} in it",
            "the function does not call the dispatcher op while torch traces it, so the exporter "
            "has no node to write",
        )
    _expected_sizes(trial, program)
    run = program.module()
    for label, case in [("", trial.case), *other_lengths(trial)]:
        expected = CallOutcome(arrays_of(module.call(case.tensors)))
        try:
            outcome = CallOutcome(arrays_of(run(*case.tensors)))
        except Exception as error:  # of a guard, or of the op
            outcome = CallOutcome([], head(refusal(error)))
        trial.compare_bits(label, "the exported program", outcome, expected, _COMPILE_CAUSE)


def _expected_sizes(trial: Trial, program: torch.export.ExportedProgram) -> None:
    """Compares the shapes that the program declares for its results, at the example's lengths."""
    real = trial.run().result.outputs
    (output,) = [node for node in program.graph.nodes if node.op == "output"]
    for node, array in zip(given_of(output.args[0]), real, strict=True):
        expected = [
            length if isinstance(length, int) else length.node.hint
            for length in node.meta["val"].shape
        ]
        if any(n is not None and n != m for n, m in zip(expected, array.shape, strict=True)):
            trial.tally.fail(
                "",
                f"the fake kernel with symbolic lengths: shape {expected} at the example's",
                f"{list(array.shape)}, as the kernel gives",
                "the rule for symbolic lengths (`shape=` of define) is another than the kernel's",
            )


def head(text: str, lines: int = 12) -> str:
    """The first part of torch's errors, without the page of advice after it."""
    kept = [line for line in text.strip().splitlines() if line.strip()]
    return "\n".join(kept[:lines])
