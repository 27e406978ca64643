"""Conditions that vmap has batched: each sample decides for itself.

Note [Branches of a batch]
A branch is computed for all samples at once, so it also runs for samples that do not take it, whose results are
dropped. Dropping is not enough: the root of a negative number is nan, and in a backward pass the zero that comes from
the dropped result, times nan, is nan. So a sample that does not take a branch runs it with the values of one that does,
constants all, operands and captured tensors alike. A branch that no sample takes does not run.

Conditions have no derivatives, so they are read off the array under all transforms. While a function is traced for a
program it holds no values; what depends on them is then a branch or a loop of the program.
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
#: A function of tensors side by side.
Flat = Callable[[Tensors], list[Any]]


def known(p: Any) -> Any:
    """The value of a number without dimensions; None where it is batched, or not known while a function is traced."""
    array, levels = take_apart(p)
    if levels:
        return None
    if getattr(array, "is_traced", False):
        array = array.constant_array
    return array.item() if hasattr(array, "item") else array


def chosen(pred: Any, when_true: Flat, when_false: Flat, tensors: Tensors) -> list[Any]:
    """The results of the branch that a condition chooses, where Python cannot ask it."""
    array, levels = take_apart(pred)
    if not levels:
        from ndgrad._src.compiler.capture.control_flow import run_branch  # which only those need who compile

        return run_branch(pred, when_true, when_false, tensors)
    mask = wrap(pred.face, array)
    found = [_taken(_Samples(p, m, levels), f, tensors) for p, m, f in _sides(pred, mask, when_true, when_false)]
    if found[0] is None or found[1] is None:
        return found[0] or found[1] or []
    return [tensor_ops.where(pred, a, b) for a, b in zip(*found, strict=True)]


def _sides(pred: Any, mask: Any, when_true: Flat, when_false: Flat) -> list[tuple[Any, Any, Flat]]:
    return [(pred, mask, when_true), (tensor_ops.logical_not(pred), tensor_ops.logical_not(mask), when_false)]


def _taken(samples: _Samples, f: Flat, tensors: Tensors) -> list[Any] | None:
    """The results of a branch for the samples that take it, of any value for others; None if none does."""
    # functions with what they capture; few programs need it
    from ndgrad._src.compiler.capture.subprograms import LiftedFunction

    taken = known(samples.some)
    if taken is not None and not taken:
        return None
    lifted = LiftedFunction(f, tensors)
    given = [samples.safe(t) for t in (*tensors, *lifted.captured)]
    if taken:
        return lifted(given)
    from ndgrad._src.compiler.capture.control_flow import run_branch  # as above

    return run_branch(samples.some, lifted, lifted.zeros, given)


def for_all(holds: Callable[[Tensors], Any], body: Flat) -> tuple[Callable[[Tensors], Any], Flat]:
    """The condition and the body of a loop that goes on until it is done for all samples, and of which samples that are
    done keep their values."""
    remembered: list[Any] = []

    def going_on(tensors: Tensors) -> Any:
        return goes_on(holds(tensors))

    def some(tensors: Tensors) -> list[Any]:
        p = holds(tensors)
        if not take_apart(p)[1]:
            return body(tensors)
        # functions with what they capture; few programs need it
        from ndgrad._src.compiler.capture.subprograms import LiftedFunction

        lifted = remembered[0] if remembered else LiftedFunction(body, tensors)
        if thread.captures is None and not remembered:
            remembered.append(lifted)
        return for_samples(p, lifted, [*tensors, *lifted.captured], len(tensors))

    return going_on, some


def goes_on(p: Any) -> Any:
    """Whether a condition holds for any sample."""
    array, levels = take_apart(p)
    return p if not levels else _any(wrap(p.face, array))


def for_samples(p: Any, f: Flat, tensors: Tensors, kept: int) -> list[Any]:
    """What a function of tensors, which captures none, gives for the samples for which a condition holds. For others
    the first `kept` of the tensors stay what they are, and what else it gives is zero."""
    array, levels = take_apart(p)
    if not levels:
        return f(tensors)
    samples = _Samples(p, wrap(p.face, array), levels)
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
            #: the place of one of them, by level
            self.place: dict[int, Any] = {}
            for number in reversed(levels):
                size = find_level(number).size
                self.place[number] = first % size
                first = first // size

    def safe(self, t: Any) -> Any:
        """A tensor with the values of one of these samples in the place of all others' (see Note [Branches of a
        batch])."""
        if not isinstance(t, Variable):
            return t
        array, levels = take_apart(t)
        if not any(number in self.place for number in levels):
            return t
        with no_grad():
            one = wrap(t.face, array)
            for number in levels:
                one = one[self.place.get(number, 0)]
        return tensor_ops.where(self.pred, t, one)
