"""Values: compared with the reference, at every length, in every dtype, with extreme numbers; the
same bits in torch, NumPy, ONNX Runtime and as a PyOp."""

from __future__ import annotations

import numpy as np

from myops.onnx.bodies import MissingBodyWarning
from myops.testing import casts, variations
from myops.testing.bits import BODY_TOLERANCE, is_float, too_far, widened
from myops.testing.calls import TorchRun, refusal
from myops.testing.families import borders, integers, large
from myops.testing.families.autocast import autocast
from myops.testing.models import OPSET
from myops.testing.trial import Trial, reference_outputs

_OLDER_OPSETS = (11, 13, 17, 18)  # in 13 and 18, lists of axes became inputs of many operators
_NO_KERNEL = ("NOT_IMPLEMENTED", "Could not find an implementation", "is not a registered")


def values(trial: Trial) -> None:
    """Compares the given case with the reference, and the bits of every runtime; also with all
    arguments by name. First of all, no byte beside the tensors may be read or written."""
    if not borders.inside(trial):
        return
    trial.call()  # raises if the op refuses the case, which is a mistake in the list of cases
    trial.check_reference("", trial.case, trial.agree("", trial.case))
    named = variations.by_name(trial.tested.function, trial.case)
    if named is not None:
        trial.agree("arguments by name", named)


def lengths(trial: Trial) -> None:
    """The same with empty tensors, length 1 and odd lengths, if the op allows them; with the
    reference also at lengths with which the work is divided into several pieces."""
    if not trial.axes:
        trial.tally.note("the op lets no length change")
    for label, case in trial.lengths:
        trial.check_reference(label, case, trial.agree(label, case))
    large.compare(trial)


def dtypes(trial: Trial) -> None:
    """The same in every declared dtype, and under torch.autocast if the op has a policy; in
    integers also with their largest numbers."""
    info = trial.tested.info
    autocast(trial)
    integers.compare(trial)
    for parameter, name, case in casts.dtypes(trial.tested, trial.case):
        label = f"{parameter} = {name}"
        run = trial.agree(label, case)
        trial.check_reference(label, case, run)
        if run.call is None:
            continue
        wanted_of = info.present(info.nested(run.call.inputs), run.call.attributes)
        outputs = [output for output, given in zip(info.outputs, wanted_of, strict=True) if given]
        for output, array in zip(outputs, run.inner.outputs, strict=False):
            wanted = name if output.type == parameter else str(array.dtype)
            if output.type not in {item.type for item in info.inputs}:
                wanted = info.types[output.type][0]  # the call does not decide it
            if str(array.dtype) != wanted:
                trial.tally.fail(
                    label,
                    f"{output.name} of dtype {array.dtype}",
                    f"{wanted}, as the description says",
                    "the op's description gives the output another type parameter",
                )


def specials(trial: Trial) -> None:
    """The same with NaN, Inf, the largest and the smallest numbers."""
    for kind, label, case in casts.specials(trial.case):
        run = trial.agree(label, case)
        if run.result.refused or trial.settings.reference is None:
            continue
        if kind == "NaN and Inf":
            _same_kind(trial, label, case, run)


def _same_kind(trial: Trial, label: str, case: object, run: TorchRun) -> None:
    """Checks that NaN, Inf and finite numbers are where the reference has them."""
    expected = reference_outputs(trial.settings.reference, case)  # type: ignore[arg-type]
    trial.tally.ran += 1
    for one, other in zip(run.result.outputs, expected, strict=True):
        if not is_float(one) or one.shape != other.shape:
            continue
        with np.errstate(all="ignore"):
            wide, right = widened(one), widened(other.astype(one.dtype))
        unequal = np.isfinite(wide) != np.isfinite(right)
        unequal |= np.isnan(right) & ~np.isnan(wide)
        if unequal.any():
            place = tuple(int(i) for i in np.argwhere(unequal)[0])
            trial.tally.fail(
                label,
                f"torch: {wide[place]} at {list(place)}",
                f"reference: {right[place]}",
                "NaN or Inf is swallowed, or made. Comparisons with NaN are false, and std::max, "
                "std::min and clamps drop it. Write the rule into the op's documentation, and let "
                "kernel and reference follow it",
            )
        elif (np.isnan(wide) != np.isnan(right)).any():
            # 0 * Inf is NaN, but the reference may skip the product; this is no failure.
            trial.tally.note(f"{label}: NaN where the reference has Inf")


def bodies(trial: Trial) -> None:
    """Checks that the function body gives the same numbers within rounding, in an ONNX Runtime
    without the op."""
    trial.call()
    cases = [("", trial.case, OPSET)]
    cases += [(f"opset {opset}", trial.case, opset) for opset in _OLDER_OPSETS]
    cases += [(f"{p} = {n}", c, OPSET) for p, n, c in casts.dtypes(trial.tested, trial.case)]
    may_refuse = {label for label, _, _ in cases[1:]}
    cases += [
        (label, case, OPSET)
        for label, case in trial.lengths
        if all(tensor.numel() for tensor in case.tensors)
    ]
    for label, case, opset in cases:
        run = trial.run(case)
        if run.inner.refused or run.call is None:
            continue
        lacks = trial.runtimes.host_lacks(run.call)
        if lacks:
            trial.tally.note(lacks)
            continue
        try:
            session = trial.runtimes.session(run.call, "body", opset=opset)
            outcome = trial.runtimes.run(session, run.call)
        except Exception as error:  # ONNX Runtime's own, or a warning that there is no body
            text = refusal(error)
            dtype = run.inner.outputs[0].dtype
            if any(words in text for words in _NO_KERNEL):
                trial.tally.note(
                    f"ONNX Runtime has no kernel for the body at {dtype}: not compared"
                )
                trial.tally.refused.append(text)
                continue
            if isinstance(error, MissingBodyWarning) and label in may_refuse:
                trial.tally.note(f"standard(g) refuses {label}: no body was compared: {text}")
                trial.tally.refused.append(text)
                continue
            trial.tally.fail(
                label,
                f"the function body: {text}",
                "a result",
                "standard(g) of the op is missing, refuses, or writes nodes that ONNX Runtime does "
                "not take; without a body, only a runtime with the library can run an exported "
                "model. If the op has none on purpose: skip={'bodies': why}",
            )
            continue
        trial.tally.ran += 1
        name = str(run.inner.outputs[0].dtype)
        limits = {**BODY_TOLERANCE, **trial.settings.body_tolerance}
        got, wanted = too_far(outcome, run.inner.outputs, limits.get(name))
        if got:
            trial.tally.fail(
                label,
                f"the function body: {got}",
                f"the kernel: {wanted}",
                "standard(g) of the op computes something else than the kernel: a constant, an "
                "attribute or an input's order is wrong",
            )
