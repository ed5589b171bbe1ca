"""Strides of the calls of an op and of the kernels of its gradient, in long calls too: each tensor
alone in other memory, an incoming gradient among them.

families/layouts.py calls the public function on the case, which most kernels are too short for: one
that is divided into pieces, or chooses another loop for large images, shows a fault here.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch.utils import _pytree as pytree

from myops.testing import casts, variations
from myops.testing.bits import arrays_of
from myops.testing.calls import CallOutcome, refusal
from myops.testing.cases import Case
from myops.testing.families.gradients import backward_calls
from myops.testing.far import far_apart
from myops.testing.op_under_test import DispatcherCalls, Seen, describe
from myops.testing.trial import Trial

_MOST_SECONDS = 2.0  # for the long calls of a case
_CAUSE = (
    "the kernel is wrong for these strides: a fast path for memory that is contiguous in some axis "
    "is taken for other memory too, or the slow path is wrong. An incoming gradient may have any "
    "strides as well, such as 0 after sum()"
)
_SHARED_CAUSE = (
    "the kernel takes tensors for one another because their memory begins at one address: they may "
    "have other strides and shapes. Memory that both use is not a mistake: f(x, x) is a legal call"
)
_FAR_CAUSE = (
    "an offset in elements or bytes does not fit into 32 bits: a view of a large tensor may have "
    "such strides. Compute offsets in int64_t"
)


@dataclass(frozen=True)
class Inner:
    """A dispatcher call with its tensors in order."""

    seen: Seen

    @property
    def tensors(self) -> list[torch.Tensor]:
        leaves = pytree.tree_leaves((self.seen.args, self.seen.kwargs))
        return [item for item in leaves if isinstance(item, torch.Tensor)]

    def having(self, tensors: Sequence[torch.Tensor]) -> Inner:
        fresh = iter(tensors)
        args, kwargs = pytree.tree_map(
            lambda item: next(fresh) if isinstance(item, torch.Tensor) else item,
            (self.seen.args, self.seen.kwargs),
        )
        return Inner(replace(self.seen, args=args, kwargs=kwargs))

    def changed(self, place: int, tensor: torch.Tensor) -> Inner:
        tensors = self.tensors
        tensors[place] = tensor
        return self.having(tensors)

    def plain(self) -> Inner:
        return self.having([item.detach().contiguous().clone() for item in self.tensors])

    def run(self) -> CallOutcome:
        try:
            with torch.no_grad():
                result = self.seen.overload(*self.seen.args, **self.seen.kwargs)
            return CallOutcome(arrays_of(result))
        except Exception as error:  # a refusal, which is compared
            return CallOutcome([], refusal(error))

    def labels(self) -> list[str]:
        """The name of each tensor in the schema."""
        inputs = [item.name for item in self.seen.overload._schema.arguments]
        found: list[str] = []
        for name, given in [*zip(inputs, self.seen.args, strict=False), *self.seen.kwargs.items()]:
            leaves = [x for x in pytree.tree_leaves(given) if isinstance(x, torch.Tensor)]
            found += [name if len(leaves) == 1 else f"{name}[{n}]" for n in range(len(leaves))]
        return found

    def followed(self) -> list[int]:
        """The places of the tensors whose strides the kernel follows; all others are copied."""
        info = describe(self.seen.overload.namespace, self.seen.name)
        if info is None or info.is_variadic:
            return list(range(len(self.tensors)))
        access = {item.name: item.access for item in info.inputs}
        labels = enumerate(self.labels())
        return [place for place, name in labels if access.get(name, "strided") != "contiguous"]


def compare(trial: Trial) -> None:
    """Compares each call with the same one on contiguous memory, bit for bit."""
    follows = False
    for inner in _calls(trial, trial.case):
        _layouts(trial, "", inner, range(len(inner.tensors)), list(_LAYOUTS))
        _shared(trial, inner)
        _far(trial, inner)
        follows |= bool(inner.followed())
    if trial.tally.failures or not follows:
        return
    _long_calls(trial)


def _long_calls(trial: Trial) -> None:
    """Each set of axes made long: all calls with the first layout, then with the others, until the
    time is over. The calls of the first set are always made."""
    end = time.perf_counter() + _MOST_SECONDS
    first, *others = _LAYOUTS
    made: list[tuple[str, Inner]] = []
    for axes in trial.axes:
        if made and time.perf_counter() > end:
            break
        longer = variations.enlarged(trial.tested, trial.case, [axes])
        for inner in _calls(trial, longer):
            made.append((f"{axes.label} made large, ", inner))
            _layouts(trial, *made[-1], inner.followed(), [first])
    for label, inner in made:
        if time.perf_counter() > end:
            trial.tally.note("long calls take long: not every one was made with other strides")
            return
        _layouts(trial, label, inner, inner.followed(), others)


def _calls(trial: Trial, case: Case) -> Iterator[Inner]:
    """The op's call in the case, and those of kernels of its gradient."""
    if trial.tested.info.is_prototype or not variations.accepts(trial.tested.function, case):
        return
    with DispatcherCalls() as seen:
        trial.tested.function(*case.args, **case.kwargs)
    found = [next(item for item in seen if trial.tested.is_mine(item.overload))]
    if trial.settings.gradients:
        try:
            found += backward_calls(trial, case)
        except Exception as error:  # "gradients" has the details
            trial.tally.note(f"no gradient to look at: {refusal(error)}")
    for item in found:
        yield Inner(item).plain()


def transposed(tensor: torch.Tensor) -> torch.Tensor:
    """The same numbers with the last two axes exchanged in memory."""
    if tensor.dim() < 2:
        return tensor
    return tensor.mT.contiguous().mT


def cropped(tensor: torch.Tensor) -> torch.Tensor:
    """The same numbers inside a larger contiguous tensor."""
    larger = torch.zeros([n + 3 for n in tensor.shape], dtype=tensor.dtype)
    return larger[tuple(slice(1, 1 + n) for n in tensor.shape)].copy_(tensor)


def spread(tensor: torch.Tensor) -> torch.Tensor:
    """The first element for all, as in the gradient of a sum."""
    return tensor.flatten()[:1].view([1] * tensor.dim()).expand_as(tensor)


_LAYOUTS = {
    "strided, axes reversed": variations.strided,
    "transposed": transposed,
    "a crop": cropped,
    "expanded along axis 0": variations.repeated,
    "expanded along all axes": spread,
}


def _layouts(
    trial: Trial, label: str, inner: Inner, places: Sequence[int], titles: Sequence[str]
) -> None:
    tensors, labels = inner.tensors, inner.labels()
    unchanged = inner.run()
    for place in places:
        tensor = tensors[place]
        if not tensor.numel() or not tensor.dim():
            continue
        for title in titles:
            varied = inner.changed(place, _LAYOUTS[title](tensor))
            expected = varied.plain().run() if "expanded" in title else unchanged
            where = f"{label}{inner.seen.name}: {labels[place]} {title}"
            if not _alike(trial, where, varied, expected, _CAUSE):
                break


def _alike(trial: Trial, where: str, varied: Inner, expected: CallOutcome, cause: str) -> bool:
    found = varied.run()
    if expected.refused and found.refusal == expected.refusal:
        return True
    return trial.compare_bits(where, "torch", found, expected, cause)


def _shared(trial: Trial, inner: Inner) -> None:
    """A tensor at the address of another one, of the same shape or as its first elements."""
    tensors, labels = inner.tensors, inner.labels()
    for one, other in itertools.permutations(range(len(tensors)), 2):
        first, second = tensors[one], tensors[other]
        fits = first.dtype == second.dtype and first.numel() >= second.numel() > 0
        if not fits or not casts.is_float(first):
            continue
        view = first.flatten()[: second.numel()].view(second.shape)
        varied = inner.changed(other, view)
        where = f"{inner.seen.name}: {labels[other]} in the memory of {labels[one]}"
        _alike(trial, where, varied, varied.plain().run(), _SHARED_CAUSE)


def _far(trial: Trial, inner: Inner) -> None:
    expected, labels = inner.run(), inner.labels()
    for place in inner.followed():
        try:
            moved = far_apart(inner.tensors[place])
        except OSError as error:  # a limit of the process, or of the system
            trial.tally.note(f"no elements that are far apart: no range of addresses: {error}")
            return
        if moved is not None:
            where = f"{inner.seen.name}: {labels[place]} with elements far apart"
            _alike(trial, where, inner.changed(place, moved), expected, _FAR_CAUSE)
