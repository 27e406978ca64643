"""The result of an external solver, with derivatives given by a rule object.

Solvers iterate outside of the graph, and their results enter it through this one op. Reverse and forward mode, higher
derivatives and vmap are then handled as for every other op. A rule object only defines how to pull a cotangent back and
how to push tangents forward (see ndgrad.implicit.rules).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ndgrad._src.ops.table import op

if TYPE_CHECKING:
    from ndgrad._typing import Payload, Vocabulary


def _pull(
    g: Payload, params: tuple[Any, ...], out: Payload, rule: Any, needs: tuple[bool, ...], ops: Vocabulary
) -> tuple[Any, ...]:
    return tuple((rule.pull_arrays if ops.raw else rule.pull)(out, params, g, needs))


def _push(params: tuple[Any, ...], out: Any, rule: Any, params_t: tuple[Any, ...]) -> Any:
    return rule.push(out, params, params_t)


def _batch(
    x: Payload, params: tuple[Any, ...], rule: Any, batched: tuple[bool, ...], size: int, ops: Vocabulary
) -> Payload:
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
