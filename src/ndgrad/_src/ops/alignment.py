"""Sums over alignments: the loss of connectionist temporal classification (Graves et al., 2006).

A target l_1 .. l_S corresponds to paths through the states blank, l_1, blank, l_2, ..., l_S, blank, with one state per
step of the input. From each state the path stays, goes to the next state, or skips a blank between two different
labels. The probability of a path is the product of the probabilities of its states. The probability Z of the target is
the sum over all paths, and the loss is -log Z.

Let a_t(s) be the logarithm of the sum over all beginnings of paths that end in state s at step t, and b_t(s) that over
their continuations. The derivative by log_probs[t, c] is minus the probability that the path is in class c at step t,

    P(t, c) = sum over states s of class c of exp(a_t(s) + b_t(s) - log Z).

The recurrences are written once, in the vocabulary: on arrays for the loss and its gradient, on tensors for derivatives
of any order. A very low number replaces -inf: its exponential is zero compared with any other term, while differences
of infinities would be NaN in derivatives.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy

from ndgrad._src.ops.errors import refuse_complex
from ndgrad._src.ops.table import op
from ndgrad._src.ops.vocabulary import raw_ops

if TYPE_CHECKING:
    from ndgrad._typing import Library, Payload, Vocabulary

_DOUBLE = numpy.dtype(numpy.float64)
#: The logarithm of probability zero.
_NEVER = -1e30


class _Lattice:
    """The states of all samples over all steps, with the sums over paths."""

    def __init__(self, x: Payload, states: Payload, skips: Payload, ends: Payload, steps: Payload, ops: Any) -> None:
        self.ops = ops
        self.skips, self.ends = skips, ends
        count, batch = x.shape[:2]
        length = states.shape[1]
        self.index = ops.expand(ops.reshape(states, shape=(1, batch, length)), shape=(count, batch, length))
        # In single precision the logarithms of long paths have few decimals left.
        scores = ops.clamp_min(ops.gather(ops.cast(x, dtype=_DOUBLE), self.index, dim=2), _NEVER)
        self.scores = [scores[t] for t in range(count)]
        column = ops.reshape(steps, shape=(batch, 1))
        self.active = [column > t for t in range(count)]
        self.zero = self.scores[0] * 0.0
        self.never = self.zero + _NEVER

    def _shift(self, a: Payload, by: int) -> Payload:
        """Return a(s - by): the contribution of an earlier state, or of a later state if `by` is negative."""
        if by > 0:
            return self.ops.cat(self.never[:, :by], a[:, :-by], dim=1)
        return self.ops.cat(a[:, -by:], self.never[:, by:], dim=1)

    def beginnings(self) -> list[Any]:
        """Return a_t for each step. It stays constant after the last step of a sample."""
        ops = self.ops
        a = ops.cat(self.zero[:, :1], self.never[:, 1:], dim=1)
        found = []
        for scores, active in zip(self.scores, self.active, strict=True):
            left_out = ops.where(self.skips, self._shift(a, 2), self.never)
            moved = ops.logaddexp(ops.logaddexp(a, self._shift(a, 1)), left_out) + scores
            a = ops.where(active, moved, a)
            found.append(a)
        return found

    def continuations(self) -> list[Any]:
        """Return b_t for each step."""
        ops = self.ops
        b = ops.where(self.ends, self.zero, self.never)
        found = []
        for scores, active in zip(reversed(self.scores), reversed(self.active), strict=True):
            found.append(b)
            after = b + scores
            left_out = self._shift(ops.where(self.skips, after, self.never), -2)
            moved = ops.logaddexp(ops.logaddexp(after, self._shift(after, -1)), left_out)
            b = ops.where(active, moved, b)
        return found[::-1]

    def total(self, last: Payload) -> Payload:
        """Return log Z per sample, from the sums at the last step."""
        return self.ops.logsumexp(self.ops.where(self.ends, last, self.never), dim=(1,), keepdim=False)


def _ctc_loss(
    np: Library, x: Payload, states: Payload, skips: Payload, ends: Payload, steps: Payload, *, zero_infinity: bool
) -> Payload:
    refuse_complex("ctc_loss", x)
    lattice = _Lattice(x, states, skips, ends, steps, raw_ops(np))
    total = lattice.total(lattice.beginnings()[-1])
    return np.where(total > 0.5 * _NEVER, -total, 0.0 if zero_infinity else np.inf).astype(x.dtype)


def _occupancy(
    x: Payload, x_dtype: Any, states: Payload, skips: Payload, ends: Payload, steps: Payload, zero_infinity: bool,
    ops: Vocabulary,
) -> Payload:  # fmt: skip
    """Return P(t, c) as (T, N, C): zero after a sample's last step, and zero or NaN for samples without a path."""
    lattice = _Lattice(x, states, skips, ends, steps, ops)
    before, after = lattice.beginnings(), lattice.continuations()
    total = ops.reshape(lattice.total(before[-1]), shape=(x.shape[1], 1))
    possible = total > 0.5 * _NEVER
    impossible = lattice.zero if zero_infinity else lattice.zero + float("nan")
    parts = [
        ops.where(active, ops.where(possible, ops.exp(ops.clamp_max(a + b - total, 0.0)), impossible), lattice.zero)
        for a, b, active in zip(before, after, lattice.active, strict=True)
    ]
    paths = ops.stack(*parts, dim=0)
    per_class = ops.gather_backward(paths, lattice.index, dim=2, shape=tuple(x.shape), distinct=False)
    return ops.cast(per_class, dtype=x_dtype)


def _ctc_vjp(
    g: Payload, x: Payload, x_dtype: Any, states: Payload, skips: Payload, ends: Payload, steps: Payload,
    zero_infinity: bool, ops: Vocabulary,
) -> Payload:  # fmt: skip
    occupancy = _occupancy(x, x_dtype, states, skips, ends, steps, zero_infinity, ops)
    return occupancy * -ops.reshape(g, shape=(1, x.shape[1], 1))


def _ctc_jvp(
    t: Payload, x: Payload, x_dtype: Any, states: Payload, skips: Payload, ends: Payload, steps: Payload,
    zero_infinity: bool, ops: Vocabulary,
) -> Payload:  # fmt: skip
    occupancy = _occupancy(x, x_dtype, states, skips, ends, steps, zero_infinity, ops)
    return -ops.sum(occupancy * t, dim=(0, 2), keepdim=False)


def _ctc_batch(
    x: Payload, states: Payload, skips: Payload, ends: Payload, steps: Payload, zero_infinity: bool, ops: Vocabulary
) -> Payload:
    """Treat a batch as more samples."""
    batch, count, samples, classes = x.shape
    x = ops.reshape(ops.permute(x, dims=(1, 0, 2, 3)), shape=(count, batch * samples, classes))
    rest = [ops.reshape(a, shape=(batch * samples, *a.shape[2:])) for a in (states, skips, ends, steps)]
    return ops.reshape(ops.ctc_loss(x, *rest, zero_infinity=zero_infinity), shape=(batch, samples))


# x (T, N, C): logarithms of probabilities. states (N, L): classes of the states. skips (N, L): True if the state may be
# entered from the state before the previous one. ends (N, L): True if a path may end there. steps (N): number of valid
# steps.
ctc_loss = op(
    "ctc_loss", "x states skips ends steps",
    _ctc_loss,
    settings={"zero_infinity": False},
    vjp={"x": _ctc_vjp},
    jvp={"x": _ctc_jvp},
    batch=_ctc_batch,
    backward_name="CtcLossBackward0",
    may_raise=True,
)  # fmt: skip
