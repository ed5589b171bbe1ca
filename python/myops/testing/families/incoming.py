"""Incoming gradients in any memory, of any number of outputs, for any number of inputs: those of
sum() have stride 0, an output that nothing uses has a gradient of zeros, an input may need none."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from myops.testing import casts, variations
from myops.testing.bits import arrays_of, given_of, too_far
from myops.testing.calls import CallOutcome, refusal
from myops.testing.derivatives import leaves_of
from myops.testing.families import strided
from myops.testing.trial import Trial

_FACTOR = 4  # of the tolerance: torch may add up in another order
_CAUSE = (
    "backward takes an incoming gradient for contiguous memory: torch gives any strides, 0 after "
    "sum(). In Python call grad.reshape() instead of grad.view()"
)
_CHANGED_CAUSE = (
    "backward writes into the incoming gradient, which other parts of the graph may use too: copy "
    "it first"
)
_OUTPUTS_CAUSE = (
    "backward mixes up the gradients of the outputs, or takes one for given: where nothing uses an "
    "output, its gradient is zeros"
)
_INPUTS_CAUSE = (
    "backward mixes up the inputs where not all of them need a gradient: it returns one entry for "
    "each input in the description's order, None included; ctx.needs_input_grad says which"
)
_LAYOUTS = {
    "strided, axes reversed": variations.strided,
    "transposed": strided.transposed,
    "channels_last": variations.channels_last,
    "expanded along axis 0": variations.repeated,
    "expanded along all axes, as after sum()": strided.spread,
}


def compare(trial: Trial) -> None:
    """Compares derivatives for such incoming gradients."""
    places = trial.differentiable() if trial.settings.gradients else []
    if not places:
        return

    case, leaves = leaves_of(trial.case, places)
    results = given_of(trial.tested.function(*case.args, **case.kwargs))
    outputs = [item for item in results if casts.is_float(item) and item.requires_grad]
    if not outputs:
        return
    generator = torch.Generator().manual_seed(0)
    plain = [
        torch.randn(item.shape, dtype=torch.float64, generator=generator).to(item.dtype)
        for item in outputs
    ]
    call, given = Outgoing(outputs, leaves), [item.clone() for item in plain]
    try:
        expected = call.derive(given)
    except Exception as error:  # "gradients" has the details
        trial.tally.note(f"no gradient to look at: {refusal(error)}")
        return
    after, before = (CallOutcome(arrays_of(items)) for items in (given, plain))
    who = "an incoming gradient after backward"
    if not trial.compare_bits("", who, after, before, _CHANGED_CAUSE):
        return
    if not (_layouts(trial, call, plain) and _outputs(trial, call, plain, expected)):
        return
    for place, wanted in zip(places, expected, strict=True):
        _one_input(trial, place, plain, wanted)


@dataclass(frozen=True)
class Outgoing:
    """The outputs of a call, and the leaves that it was made with."""

    outputs: list[torch.Tensor]
    leaves: list[torch.Tensor]

    def derive(self, grads: list[torch.Tensor], only: int | None = None) -> list[torch.Tensor]:
        """The gradients of the leaves. `only`: from this output only."""
        chosen = slice(None) if only is None else slice(only, only + 1)
        found = torch.autograd.grad(
            self.outputs[chosen], self.leaves, grads[chosen], retain_graph=True, allow_unused=True
        )
        pairs = zip(found, self.leaves, strict=True)
        return [torch.zeros_like(leaf) if grad is None else grad for grad, leaf in pairs]


def _layouts(trial: Trial, call: Outgoing, plain: list[torch.Tensor]) -> bool:
    """Compares derivatives for gradients in other memory with those for dense ones."""
    for title, change in _LAYOUTS.items():
        grads = [change(item) if item.numel() else item for item in plain]
        label = f"an incoming gradient, {title}"
        expected = call.derive([item.contiguous().clone() for item in grads])
        try:
            found = call.derive(grads)
        except Exception as error:  # such as that of view()
            trial.tally.fail(label, refusal(error), "derivatives, as for dense ones", _CAUSE)
            return False
        if not _close(trial, label, found, expected, _CAUSE):
            return False
    return True


def _outputs(
    trial: Trial, call: Outgoing, plain: list[torch.Tensor], expected: list[torch.Tensor]
) -> bool:
    """Derivatives from one output after the other add up to those from all."""
    if len(plain) < 2:
        return True
    each = [call.derive(plain, only=place) for place in range(len(plain))]
    found = [torch.stack(items).sum(0) for items in zip(*each, strict=True)]
    label = "the sum of derivatives from each output alone"
    return _close(trial, label, found, expected, _OUTPUTS_CAUSE)


def _one_input(trial: Trial, place: int, plain: list[torch.Tensor], expected: torch.Tensor) -> None:
    """Compares the derivative where no other input needs one."""
    case, leaves = leaves_of(trial.case, [place])
    label = f"only {case.labels()[place]} needs a gradient"
    outputs = [
        item
        for item in given_of(trial.tested.function(*case.args, **case.kwargs))
        if casts.is_float(item) and item.requires_grad
    ]
    if len(outputs) != len(plain):
        return  # the others do not depend on this input
    try:
        found = Outgoing(outputs, leaves).derive(plain)
    except Exception as error:  # of a backward that expects all of them
        trial.tally.fail(label, refusal(error), "a derivative", _INPUTS_CAUSE)
        return
    _close(trial, label, found, [expected], _INPUTS_CAUSE)


def _close(
    trial: Trial, label: str, found: list[torch.Tensor], expected: list[torch.Tensor], cause: str
) -> bool:
    trial.tally.ran += 1
    got, wanted = too_far(
        arrays_of(found), arrays_of(expected), lambda dtype: _FACTOR * trial.tolerance(dtype)
    )
    if got:
        trial.tally.fail(label, f"derivative {got}", wanted, cause)
    return not got
