"""Conditions that vmap has batched: each sample decides for itself.

Note [Branches of a batch]
A branch is computed for all samples at once, so it also runs for samples that do not take it, whose results are
dropped. Dropping is not enough: the root of a negative number is nan, and in a backward pass the zero gradient of the
dropped result, times nan, is nan. So a sample that does not take a branch runs it with the values of one that does,
as constants, for operands and captured tensors alike. A branch that no sample takes does not run.

Conditions have no derivatives, so they are read from the array under all transforms. While a function is traced the
array holds no values; decisions are then branches and loops of the program.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ndgrad._src.core.grad_mode import no_grad
from ndgrad._src.core.modes import thread
from ndgrad._src.core.variable import Variable, wrap
from ndgrad._src.interpreters.batching import take_apart
from ndgrad._src.interpreters.levels import find_level
from ndgrad._src.ops.vocabulary import tensor_ops

Tensors = Sequence[Any]
#: A function of a list of tensors.
Flat = Callable[[Tensors], list[Any]]


def known_value(p: Any) -> Any:
    """Return the value of a 0-d condition; None if it is batched, or unknown while a function is traced."""
    array, levels = take_apart(p)
    if levels:
        return None
    if getattr(array, "is_traced", False):
        array = array.constant_array
    return array.item() if hasattr(array, "item") else array


def run_branches(pred: Any, when_true: Flat, when_false: Flat, tensors: Tensors) -> list[Any]:
    """Return the results of the branch selected by a condition that Python cannot evaluate."""
    array, levels = take_apart(pred)
    if not levels:
        from ndgrad._src.compiler.capture.control_flow import run_branch  # needed only for compilation

        return run_branch(pred, when_true, when_false, tensors)
    mask = wrap(pred.tensor_type, array)
    found = [_run_branch(_Samples(p, m, levels), f, tensors) for p, m, f in _sides(pred, mask, when_true, when_false)]
    if found[0] is None or found[1] is None:
        return found[0] or found[1] or []
    return [tensor_ops.where(pred, a, b) for a, b in zip(*found, strict=True)]


def _sides(pred: Any, mask: Any, when_true: Flat, when_false: Flat) -> list[tuple[Any, Any, Flat]]:
    return [(pred, mask, when_true), (tensor_ops.logical_not(pred), tensor_ops.logical_not(mask), when_false)]


def _run_branch(samples: _Samples, f: Flat, tensors: Tensors) -> list[Any] | None:
    """Return the results of a branch for the samples that take it, arbitrary values for others; None if none does."""
    # Functions with their captured tensors; rarely needed.
    from ndgrad._src.compiler.capture.subprograms import LiftedFunction

    taken = known_value(samples.some)
    if taken is not None and not taken:
        return None
    lifted = LiftedFunction(f, tensors)
    given = [samples.safe(t) for t in (*tensors, *lifted.captured)]
    if taken:
        return lifted(given)
    from ndgrad._src.compiler.capture.control_flow import run_branch  # needed only for compilation

    return run_branch(samples.some, lifted, lifted.zeros, given)


def make_loop(holds: Callable[[Tensors], Any], body: Flat) -> tuple[Callable[[Tensors], Any], Flat]:
    """Return the condition and the body of a loop that runs until all samples are done; samples that are done keep
    their values."""
    remembered: list[Any] = []

    def check_any(tensors: Tensors) -> Any:
        return goes_on(holds(tensors))

    def run_body(tensors: Tensors) -> list[Any]:
        p = holds(tensors)
        if not take_apart(p)[1]:
            return body(tensors)
        # Functions with their captured tensors; rarely needed.
        from ndgrad._src.compiler.capture.subprograms import LiftedFunction

        lifted = remembered[0] if remembered else LiftedFunction(body, tensors)
        if thread.captures is None and not remembered:
            remembered.append(lifted)
        return for_samples(p, lifted, [*tensors, *lifted.captured], len(tensors))

    return check_any, run_body


def goes_on(p: Any) -> Any:
    """True if a condition holds for any sample."""
    array, levels = take_apart(p)
    return p if not levels else _any(wrap(p.tensor_type, array))


def for_samples(p: Any, f: Flat, tensors: Tensors, kept: int) -> list[Any]:
    """Return a function's results for the samples for which a condition holds; it captures no tensors. Other samples
    keep the first `kept` of the tensors, and get zeros for further results."""
    array, levels = take_apart(p)
    if not levels:
        return f(tensors)
    samples = _Samples(p, wrap(p.tensor_type, array), levels)
    made = f([samples.safe(t) for t in tensors])
    following = [tensor_ops.where(p, now, before) for now, before in zip(made, tensors[:kept], strict=False)]
    return [*following, *[tensor_ops.where(p, y, tensor_ops.zeros_like(y)) for y in made[kept:]]]


def _any(mask: Any) -> Any:
    return tensor_ops.any(mask, dim=tuple(range(len(mask.shape))), keepdim=False)


class _Samples:
    """The samples for which a condition holds."""

    def __init__(self, pred: Any, mask: Any, levels: tuple[int, ...]) -> None:
        """`mask`: the condition with the batches of `levels` in front, under all transforms."""
        self.pred = pred
        self.levels = levels
        with no_grad():
            self.some = _any(mask)
            first = tensor_ops.argmax(tensor_ops.reshape(mask, shape=(-1,)).to(int), dim=0, keepdim=False)
            #: index of one of them, by level
            self.place: dict[int, Any] = {}
            for number in reversed(levels):
                size = find_level(number).size
                self.place[number] = first % size
                first = first // size

    def safe(self, t: object) -> Any:
        """Return a tensor in which all other samples have the values of one of these samples (see Note [Branches of
        a batch])."""
        if not isinstance(t, Variable):
            return t
        array, levels = take_apart(t)
        if not any(number in self.place for number in levels):
            return t
        with no_grad():
            one = wrap(t.tensor_type, array)
            for number in levels:
                one = one[self.place.get(number, 0)]
        return tensor_ops.where(self.pred, t, one)
