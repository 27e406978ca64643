"""Taylor mode: derivatives of any order along a curve, at polynomial instead of exponential cost.

Nesting forward mode K times doubles the work with each level. Here a tensor carries the coefficients of its Taylor
series instead, and an op acts on whole series: by the recurrences of _src.transforms.recurrences if it has one,
coefficient by coefficient if it is linear, and otherwise through its jvp rule:

Note [Taylor series by the jvp rule]
y' = J(x) x' is the jvp rule of the op with x' as the tangent. The rule is a program of ops, so it can be run on series:
x(s) and x'(s) up to order K - 1 give y'(s) up to order K - 1, which is y(s) up to order K. A rule that uses the output
needs its series too, which is known one order further after each run. Nothing is approximated, and no op is missing.
The cost is polynomial in K, unless a rule calls several ops without recurrences; then it is that of nesting.

Coefficients are carried as tangents of K dual levels, one for each order (see Interpreter in
ndgrad.autograd.forward_ad), since views and writes treat each of them like a tangent. So jet composes with all
transforms, inside and outside.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from ndgrad._src.arrays.precision import is_inexact
from ndgrad._src.core.dispatch import dispatch
from ndgrad._src.core.layout import lay_out_like
from ndgrad._src.core.modes import section, thread
from ndgrad._src.core.variable import Variable, np_dtype
from ndgrad._src.foundations.public_path import set_module
from ndgrad._src.foundations.pytree import flatten_up_to, tree_flatten, tree_unflatten
from ndgrad._src.interpreters.forward_ad import (
    dual_level,
    dual_view,
    interpreters,
    jvp,
    save_tangents,
    set_tangent,
    strip,
    tangent_of,
)
from ndgrad._src.ops.table import NOT_DIFFERENTIABLE, Op, parameter_names
from ndgrad._src.ops.vocabulary import tensor_ops
from ndgrad._src.transforms.custom_functions import push_function
from ndgrad._src.transforms.recurrences import Series, convolve, recurrence, scale

if TYPE_CHECKING:
    from ndgrad._src.transforms.transforms import R
    from ndgrad._typing import Payload, Tensor


@set_module("ndgrad.func")
@section
def jet(func: Callable[..., R], primals: Sequence[Any], series: Sequence[Any]) -> tuple[R, Any]:
    """Return the derivatives of `func` along a curve, up to the order of the given curve.

    Args:
        func: function that returns tensors, in any nested structure.
        primals: arguments of `func` at s = 0, any nested structures of tensors.
        series: for each tensor of the primals, the list of its first K derivatives with respect to s. A number stands
            for a tensor of that number, and None for zero.

    Returns:
        The value of the function, and for each tensor in it the list of its first K derivatives with respect to s.

    >>> import ndgrad
    >>> value, derivatives = ndgrad.func.jet(lambda x: x**3, (ndgrad.tensor(2.0),), ([1.0, 0.0, 0.0],))
    >>> value.item(), [d.item() for d in derivatives]
    (8.0, [12.0, 12.0, 6.0])
    """
    flat, spec = tree_flatten(tuple(primals))
    given = flatten_up_to(spec, tuple(series))
    order = _order(flat, given)
    with ExitStack() as levels:
        numbers = tuple(levels.enter_context(dual_level()) for _ in range(order))
        interpreter = Jet(numbers)
        levels.enter_context(_register(interpreter))
        factors = [math.factorial(k) for k in range(1, order + 1)]
        curves = [
            interpreter.carry(p, [scale(_term(p, t), 1 / f) for t, f in zip(terms, factors, strict=True)])
            for p, terms in zip(flat, given, strict=True)
        ]
        outputs, out_spec = tree_flatten(func(*tree_unflatten(curves, spec)))
        values, made = [], []
        for o in outputs:
            if not isinstance(o, Variable):
                raise TypeError(
                    f"jet: the function must return tensors, but returned {type(o).__name__}. [nd-transform-result]"
                )
            value, *terms = interpreter.series_of(o)
            values.append(value)
            made.append(
                [
                    tensor_ops.zeros_like(value) if t is None else scale(t, f)
                    for t, f in zip(terms, factors, strict=True)
                ]
            )
        return tree_unflatten(values, out_spec), tree_unflatten(made, out_spec)


@set_module("ndgrad.func")
def derivatives(
    func: Callable[[Tensor], Tensor], x: Tensor, order: int, direction: float | Tensor | None = None
) -> list[Tensor]:
    """Return func(x) and its derivatives of orders 1 to `order` along a direction, ones by default. They are taken with
    respect to a number x, or to each element of x if the function is elementwise.

    Args:
        func: function of one tensor.
        x: point at which the derivatives are taken.
        order: highest order.
        direction: direction of the derivatives, a number or a tensor like `x`. The default is ones.

    Returns:
        A list of `order` + 1 tensors.

    >>> import ndgrad
    >>> [d.item() for d in ndgrad.func.derivatives(lambda x: x**4, ndgrad.tensor(2.0), 5)]
    [16.0, 32.0, 48.0, 48.0, 24.0, 0.0]
    """
    if isinstance(order, bool) or not isinstance(order, int) or order < 0:
        raise ValueError(f"derivatives: the order is {order!r}. It must be a whole number, 0 or more. [nd-range]")
    if order == 0:
        return [func(x)]
    value, terms = jet(func, (x,), ([1.0 if direction is None else direction, *(None,) * (order - 1)],))
    if not isinstance(value, Variable):
        raise TypeError(
            f"derivatives: the function must return one tensor, but returned {type(value).__name__}. "
            "Use jet for structures. [nd-transform-result]"
        )
    return [value, *terms]


def _order(flat: list[Any], given: list[Any]) -> int:
    lengths = []
    for p, terms in zip(flat, given, strict=True):
        if not isinstance(p, Variable):
            raise TypeError(
                f"jet: expected tensors as primals, but got {type(p).__name__}. Wrap it with ndgrad.as_tensor(...). "
                "[nd-type]"
            )
        if not is_inexact(np_dtype(p)):
            raise RuntimeError(
                f"jet: a tensor of dtype {np_dtype(p)} cannot be differentiated. Convert it to a floating dtype first. "
                "[nd-grad-dtype]"
            )
        if not isinstance(terms, (list, tuple)):
            raise TypeError(
                f"jet: the series of a primal must be a list of its derivatives, but is {type(terms).__name__}. "
                "Pass [first, ...]. [nd-type]"
            )
        for t in terms:
            if isinstance(t, Variable) and tuple(t.shape) != tuple(p.shape):
                raise RuntimeError(
                    f"jet: a derivative of shape {tuple(t.shape)} for a primal of shape {tuple(p.shape)}. "
                    "They must agree. [nd-grad-mismatch]"
                )
            if not isinstance(t, (Variable, int, float, complex)) and t is not None:
                raise TypeError(
                    f"jet: expected tensors, numbers or None in a series, but got {type(t).__name__}. [nd-type]"
                )
        lengths.append(len(terms))
    if len(set(lengths)) != 1 or not lengths[0]:
        raise ValueError(
            f"jet: the series of the primals have lengths {lengths}. Give them all the same length, at least 1. "
            "[nd-shape]"
        )
    return lengths[0]


def _term(p: Variable, t: Any) -> Payload:
    """Return a derivative given by the caller as a tensor; None for zero."""
    if t is None or isinstance(t, Variable):
        return t
    return tensor_ops.fill(tensor_ops.zeros_like(p), value=t) if t != 0 else None


@contextmanager
def _register(interpreter: Jet) -> Iterator[None]:
    interpreters.update(dict.fromkeys(interpreter.numbers, interpreter))
    try:
        yield
    finally:
        for number in interpreter.numbers:
            del interpreters[number]


class Jet:
    """The interpreter of the dual levels whose tangents are Taylor coefficients."""

    def __init__(self, numbers: tuple[int, ...]) -> None:
        self.numbers = numbers
        self.order = len(numbers)  # lower while a jvp rule runs, see Note [Taylor series by the jvp rule]

    # ----- tensors and their series -----------------------------------------------------------------------------------

    def series_of(self, a: Payload) -> Series:
        """Return the value and the coefficients of an argument, up to the current order."""
        value = a
        for number in self.numbers:
            value = strip(value, number)
        return [value, *(tangent_of(a, n) for n in self.numbers[: self.order])]

    def carry(self, value: Payload, terms: Sequence[Any]) -> Payload:
        """Return a tensor with a series: the value and the coefficients from the first on."""
        if not isinstance(value, Variable) or all(t is None for t in terms):
            return value
        return self._attach(tensor_ops.alias(value), terms)

    def _attach(self, out: Any, terms: Sequence[Any]) -> Payload:
        for number, t in zip(self.numbers, terms, strict=False):
            set_tangent(out, lay_out_like(out, t), number)
        return out

    def zero(self, base: Variable) -> Payload:
        return tensor_ops.zeros_like(base)

    @contextmanager
    def _limit_order(self, order: int) -> Iterator[None]:
        before, self.order = self.order, order
        try:
            yield
        finally:
            self.order = before

    # ----- ops --------------------------------------------------------------------------------------------------------

    def run(self, op: Op, args: tuple[Any, ...], settings: dict[str, Any]) -> Payload:
        if op.view or op.shares_storage:
            return dual_view(op, args, settings)
        series = [self.series_of(a) for a in args]
        values = tuple(s[0] for s in series)
        out = dispatch(op, values, settings, settled=True)
        if not thread.forward_grad_enabled or op.jvp is NOT_DIFFERENTIABLE or not self.order:
            return out
        outs = (out,) if op.outputs == 1 else out
        made = self._compute_series(op, series, settings, out)
        for number, (o, terms) in enumerate(zip(outs, made, strict=True)):
            if number not in op.discrete_outputs and is_inexact(np_dtype(o)):
                self._attach(o, [_copy_if_shared(t, series) for t in terms])
        node = next((o._node for o in outs if o._node is not None), None)
        if node is not None:
            for k, number in enumerate(self.numbers[: self.order]):
                save_tangents(node, op, tuple(s[k + 1] for s in series), tuple(terms[k] for terms in made), number)
        return out

    def _compute_series(self, op: Op, series: list[Series], settings: dict[str, Any], out: Payload) -> list[Series]:
        """Return the coefficients of the outputs, from the first on."""
        found = recurrence.get(op.name)
        if found is not None:
            made = found(series, settings, out)
            if made is not None:
                return [made[1:]]
        if (
            op.jvp == "linear"
            or op.piecewise_linear
            or _is_affine(op)
            or (op.name in ("abs", "sgn") and _is_real(series))
        ):
            return self._apply_term_by_term(op, series, settings, out)
        if op.jvp == "multilinear" and len(series) == 2:
            x, y = series
            return [[convolve(x, y, k, multiply=lambda a, b: op(a, b, **settings)) for k in range(1, self.order + 1)]]
        return self._apply_rule(op, series, settings, out)

    def _apply_term_by_term(self, op: Op, series: list[Series], settings: dict[str, Any], out: Payload) -> list[Series]:
        values, count = tuple(s[0] for s in series), 1 if op.outputs == 1 else len(out)
        rows = []
        for k in range(1, self.order + 1):
            terms = tuple(s[k] for s in series)
            made = (None,) * count if all(t is None for t in terms) else jvp(op, values, terms, settings, out)
            rows.append((made,) if op.outputs == 1 and not isinstance(made, tuple) else made)
        return [list(column) for column in zip(*rows, strict=True)]

    def _apply_rule(self, op: Op, series: list[Series], settings: dict[str, Any], out: Payload) -> list[Series]:
        """Apply the jvp rule, see Note [Taylor series by the jvp rule]."""
        order = self.order
        outs = [out] if op.outputs == 1 else list(out)
        known: list[Series] = [[] for _ in outs]
        for reached in range(0 if _uses_output(op) else order - 1, order):
            curves = tuple(self.carry(s[0], s[1 : reached + 1]) for s in series)
            slopes = tuple(self._slope(s, reached) for s in series)
            results = [self.carry(o, terms) for o, terms in zip(outs, known, strict=True)]
            with self._limit_order(reached):
                made = jvp(op, curves, slopes, settings, results[0] if op.outputs == 1 else tuple(results))
                parts = (made,) if op.outputs == 1 else made
                known = [
                    [None] * (reached + 1)
                    if p is None
                    else [scale(t, 1 / (k + 1)) for k, t in enumerate(self.series_of(p))]
                    for p in parts
                ]
        return known

    def _slope(self, s: Series, order: int) -> Payload:
        """Return the series of x' up to an order; None if it is zero."""
        terms = [scale(t, k) for k, t in enumerate(s[1 : order + 2], 1)]
        if all(t is None for t in terms):
            return None
        return self.carry(tensor_ops.zeros_like(s[0]) if terms[0] is None else terms[0], terms[1:])

    def run_function(self, cls: type[Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Payload:
        """Run a custom function by its own jvp on series."""
        series = [self.series_of(a) if isinstance(a, Variable) else [a, *(None,) * self.order] for a in args]
        if not self.order:
            return cls.apply(*(s[0] for s in series), **kwargs)
        below = self.order - 1
        curves = tuple(self.carry(s[0], s[1 : below + 1]) for s in series)
        slopes = tuple(self._slope(s, below) for s in series)
        with self._limit_order(below):
            out, made = push_function(cls, curves, slopes, kwargs)
            terms = [
                None if m is None else [scale(t, 1 / (k + 1)) for k, t in enumerate(self.series_of(m))] for m in made
            ]
        for o, found in zip(out if isinstance(out, tuple) else (out,), terms, strict=True):
            if isinstance(o, Variable) and found is not None:
                self._attach(o, found)
        return out


def _copy_if_shared(t: Any, series: list[Series]) -> Payload:
    """Return an unshared coefficient: a later write to the result must not reach an argument's."""
    return tensor_ops.clone(t) if t is not None and any(t is c for s in series for c in s) else t


def _is_real(series: list[Series]) -> bool:
    return all(np_dtype(s[0]).kind != "c" for s in series if isinstance(s[0], Variable))


_AFFINE: dict[Op, bool] = {}


def _rule_names(op: Op) -> set[str]:
    if op.jvp == "elementwise":
        return {name for _, names in op.rules.values() for name in names}
    functions = op.jvp.values() if isinstance(op.jvp, Mapping) else (op.jvp,) if callable(op.jvp) else ()
    return {name for f in functions for name in parameter_names(f)}


def _uses_output(op: Op) -> bool:
    """True if the jvp rule uses the value of an output that has a series."""
    return any(
        n == "out" or (n[:3] == "out" and n[3:].isdigit() and int(n[3:]) not in op.discrete_outputs)
        for n in _rule_names(op)
    )


def _is_affine(op: Op) -> bool:
    """True if the jvp rule uses no value with a series, and so is the same along the whole curve."""
    known = _AFFINE.get(op)
    if known is None:
        plain = isinstance(op.jvp, Mapping) or callable(op.jvp) or op.jvp == "elementwise"
        known = _AFFINE[op] = plain and not _uses_output(op) and not _rule_names(op) & set(op.differentiable_args)
    return known


__all__ = ["derivatives", "jet"]
