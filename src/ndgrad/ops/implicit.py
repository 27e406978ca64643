"""A value that somebody else has computed, with the derivative that a rule object gives it.

Solvers iterate outside of the graph; what they find enters it through this one op. All that differentiable programs can meet
(reverse and forward mode, graphs of graphs, vmap) is then handled where it is handled for every op, and a rule object
says only how to pull a cotangent back and how to push tangents forward, with tensors (see ndgrad.implicit.rules).
"""

from __future__ import annotations

from typing import Any

from ndgrad._tensor import Tensor
from ndgrad.autograd.modes import restore, scope
from ndgrad.autograd.variable import Variable, wrap
from ndgrad.ops.table import op


def _pull(g: Any, params: tuple[Any, ...], out: Any, rule: Any, needs: tuple[bool, ...], ops: Any) -> tuple[Any, ...]:
    if not ops.raw:
        return tuple(rule.pull(out, params, g, needs))

    # Recording is on for plain tensors, of which nothing is recorded: a graph in the result shows that the rule used a tensor
    # which it does not know of, and whose gradient would be lost.
    outside = scope()
    try:
        restore(outside.recording(True))
        grads = rule.pull(wrap(Tensor, out), tuple(wrap(Tensor, p) for p in params), wrap(Tensor, g), needs)
    finally:
        restore(outside)
        del outside
    for t in grads:
        if t is not None and (t._node is not None or isinstance(t._array, Variable)):
            raise RuntimeError(
                "a function that was solved uses a tensor now, while derivatives are computed, that it did not use while it was "
                "solved, so the gradient of that tensor would be lost. Pass it through args=(...)."
            )
    return tuple(None if t is None else t._array for t in grads)


def _push(params: tuple[Any, ...], out: Any, rule: Any, params_t: tuple[Any, ...]) -> Any:
    return rule.push(out, params, params_t)


def _batch(x: Any, params: tuple[Any, ...], rule: Any, batched: tuple[bool, ...], size: int, ops: Any) -> Any:
    if not batched[0]:
        x = ops.clone(ops.expand(x, shape=(size, *x.shape)))
    return ops.implicit(x, *params, rule=rule.batched(batched[1:], size))


implicit = op(
    "implicit", "x params",
    lambda x, *params, rule: rule.value(x, *params),
    settings={"rule": None},
    vjp=_pull,
    jvp=_push,
    batch=_batch,
    constant="x",
    variadic=True,
)  # fmt: skip
