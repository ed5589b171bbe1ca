"""Incoming gradients in any memory: those of sum() and mean() have stride 0, those behind a
transposition are transposed."""

from __future__ import annotations

import torch

from myops.testing import casts, variations
from myops.testing.bits import arrays_of, given_of, too_far
from myops.testing.calls import refusal
from myops.testing.derivatives import leaves_of
from myops.testing.families import strided
from myops.testing.trial import Trial

_FACTOR = 4  # of the tolerance: torch may add up in another order
_CAUSE = (
    "backward takes an incoming gradient for contiguous memory: torch gives any strides, 0 after "
    "sum(). In Python call grad.reshape() instead of grad.view()"
)
_LAYOUTS = {
    "strided, axes reversed": variations.strided,
    "transposed": strided.transposed,
    "channels_last": variations.channels_last,
    "expanded along axis 0": variations.repeated,
    "expanded along all axes, as after sum()": strided.spread,
}


def compare(trial: Trial) -> None:
    """Compares derivatives for incoming gradients in other memory with those in contiguous one."""
    places = trial.differentiable() if trial.settings.gradients else []
    if not places:
        return

    def derive(grads: list[torch.Tensor]) -> list[torch.Tensor]:
        found = torch.autograd.grad(outputs, leaves, grads, retain_graph=True, allow_unused=True)
        return [torch.zeros_like(x) if g is None else g for g, x in zip(found, leaves, strict=True)]

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
    for title, change in _LAYOUTS.items():
        grads = [change(item) if item.numel() else item for item in plain]
        label = f"an incoming gradient, {title}"
        trial.tally.ran += 1
        try:
            expected = derive([item.contiguous().clone() for item in grads])
        except Exception as error:  # "gradients" has the details
            trial.tally.note(f"no gradient to look at: {refusal(error)}")
            return
        try:
            found = derive(grads)
        except Exception as error:  # such as that of view()
            trial.tally.fail(label, refusal(error), "derivatives, as for dense ones", _CAUSE)
            return
        got, wanted = too_far(
            arrays_of(found), arrays_of(expected), lambda dtype: _FACTOR * trial.tolerance(dtype)
        )
        if got:
            trial.tally.fail(label, f"derivative {got}", f"{wanted}, as for dense ones", _CAUSE)
            return
