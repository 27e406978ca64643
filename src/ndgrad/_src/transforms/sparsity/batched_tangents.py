"""Several tangents at once on bare arrays: the fast path to the products of a coloured matrix.

A few products of a function of a thousand numbers are little work for the array library, so their cost is that of the
transforms: two levels per op in vmap(jvp). Here one dual level carries all tangents of a tensor as one array with
the products in front, and rules run on arrays, as in an ordinary backward pass.

The fast path covers only elementwise ops, linear ops, products and selections on plain NumPy arrays. `Wide` is no
tensor, so any other use of tangents (writes into buffers, custom functions, a separate graph) fails here instead of
going wrong. The caller then takes the general path, which supports everything.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from ndgrad._src.arrays.precision import is_inexact
from ndgrad._src.core.generate import TENSOR_TYPES
from ndgrad._src.core.modes import section, thread
from ndgrad._src.core.variable import Meta, Variable, wrap
from ndgrad._src.foundations.pytree import tree_flatten
from ndgrad._src.interpreters.forward_ad import dual_level, interpreters
from ndgrad._src.ops.table import NOT_DIFFERENTIABLE, Op, parameter_names
from ndgrad._src.ops.vocabulary import raw_ops
from ndgrad._src.transforms.sparsity.rules import Array

if TYPE_CHECKING:
    from ndgrad._src.transforms.sparsity.rules import ResultIds
    from ndgrad._typing import Payload


class UnknownHere(Exception):
    """The program needs the general path."""


class Wide:
    """The tangents of one tensor: an array of shape (products, *shape)."""

    __slots__ = ("array",)

    def __init__(self, array: Array) -> None:
        self.array = array


def applies(inputs: list[Any]) -> bool:
    """True if only plain NumPy arrays are involved."""
    return (
        not thread.levels
        and not thread.dual_levels
        and not thread.observers
        and all(type(t._array) is np.ndarray for t in inputs)
    )


@section
def push(func: Callable[..., Any], inputs: list[Any], seeds: list[Array]) -> list[Array]:
    """Return the tangents of the results of func(*inputs) as rows, given tangents of the inputs in the same
    form."""
    count = len(seeds[0])
    with dual_level() as level:
        interpreter = interpreters[level] = _Pushing(level, count)
        try:
            # Copies protect the caller's tensors from a function that writes to its arguments and then fails.
            given = [
                interpreter.make_dual(t.tensor_type, t._array.copy(), seed)
                for t, seed in zip(inputs, seeds, strict=True)
            ]
            rows = []
            for o in tree_flatten(func(*given))[0]:
                if not isinstance(o, Variable) or o._node is not None:
                    raise UnknownHere
                made = interpreter.wide_of(o)
                rows.append(np.zeros((count, *o.shape)) if made is None else np.broadcast_to(made, (count, *o.shape)))
            return rows
        finally:
            del interpreters[level]


class _Plan:
    """Data shared by all calls of an op: its forward function, the method for its tangents, and the parameters of
    its rules."""

    def __init__(self, op: Op) -> None:
        self.op = op
        self.forward = op.forward_for(np)
        self.no_tangent = op.jvp is NOT_DIFFERENTIABLE or op.shares_storage
        rules: Any = op.rules if op.jvp == "elementwise" else op.jvp
        self.elementwise = op.batch == "elementwise" and op.jvp != "linear" and isinstance(rules, Mapping)
        self.rules = (
            [self._rule(rules[name]) if name in rules else None for name in op.args] if self.elementwise else []
        )
        self.linear = op.jvp == "linear"
        self.by_factor = op.jvp == "multilinear" or op.linear_in(2) == (frozenset((0,)),)
        self.batch = op.batch
        self.batch_names = parameter_names(op.batch) if callable(op.batch) else ()

    def _rule(self, found: Payload) -> tuple[Callable[..., Any], Callable[[tuple[Any, ...]], tuple[Any, ...]]]:
        rule, names = found if isinstance(found, tuple) else (found, parameter_names(found))
        return rule, _picker([_place(self.op, name) for name in names])


def _place(op: Op, name: str) -> Any:
    """Return the position of a rule's parameter in (t, out, ops, settings, *values), or a function that computes
    the parameter."""
    if name in _FIXED:
        return _FIXED.index(name)
    if name in op.settings:
        return lambda known: known[3][name]
    if name in op.args:
        return len(_FIXED) + op.args.index(name)
    arg, kind = name.rsplit("_", 1)  # x_shape, x_ndim, x_dtype
    position = len(_FIXED) + op.args.index(arg)
    return lambda known: getattr(np.asarray(known[position]), kind)


def _picker(places: list[Any]) -> Callable[[tuple[Any, ...]], tuple[Any, ...]]:
    if len(places) > 1 and all(isinstance(place, int) for place in places):
        return itemgetter(*places)
    return lambda known: tuple([known[place] if isinstance(place, int) else place(known) for place in places])


_FIXED = ("t", "out", "ops", "settings")
_OPS = raw_ops(np)
_PLANS: dict[Op, _Plan] = {}


class _Pushing:
    """The interpreter of a dual level whose tangents are `Wide`."""

    def __init__(self, level: int, count: int) -> None:
        self.level = level
        self.count = count

    def make_dual(self, tensor_type: type[Any], array: Payload, wide: Array | None) -> Any:
        out = wrap(tensor_type, array)
        if wide is not None:
            out._meta = meta = Meta()
            meta.tangents = {self.level: Wide(wide)}
        return out

    def wide_of(self, a: Payload) -> Array | None:
        meta = a._meta
        if meta is None or not meta.tangents:
            return None
        held = meta.tangents.get(self.level)
        return None if held is None else held.array

    def zero(self, base: Variable) -> Variable | None:
        raise UnknownHere

    def run_function(self, cls: type[Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Payload:
        raise UnknownHere

    def run(self, op: Op, args: tuple[Any, ...], settings: dict[str, Any]) -> Payload:
        if op.outputs != 1 or not thread.forward_grad_enabled:
            raise UnknownHere
        plan = _PLANS.get(op)
        if plan is None:
            plan = _PLANS[op] = _Plan(op)
        tensor_type: Any = None
        values, wide = [], []
        for a in args:
            if isinstance(a, Variable):
                if tensor_type is None or a.is_numpy_type:
                    tensor_type = a.__class__
                values.append(a._array)
                wide.append(self.wide_of(a))
            else:
                values.append(a)
                wide.append(None)
        out = plan.forward(*values, **settings)
        tensor_type = TENSOR_TYPES[tensor_type]
        if plan.no_tangent or not is_inexact(out.dtype):
            return wrap(tensor_type, out)
        if plan.elementwise:
            made = self._elementwise(plan, values, wide, settings, out)
        else:
            made = self._combine(plan, values, wide, settings)
        if made is not None and made.__class__ is not np.ndarray:
            raise UnknownHere
        return self.make_dual(tensor_type, out, made)

    def _elementwise(
        self, plan: _Plan, values: list[Any], wide: list[Array | None], settings: dict[str, Any], out: Any
    ) -> Payload:
        """Apply the rule of each argument, with the products in front; all other dimensions broadcast behind
        them."""
        rank, total = out.ndim + 1, None
        for found, w in zip(plan.rules, wide, strict=True):
            if w is None or found is None:
                continue
            t = w if w.ndim == rank else w.reshape((self.count, *(1,) * (rank - w.ndim), *w.shape[1:]))
            rule, pick = found
            term = rule(*pick((t, out, _OPS, settings, *values)))
            total = term if total is None else total + term
        if total is not None and total.shape[1:] != out.shape:  # For `x + y`, the tangent of a smaller argument alone
            total = np.broadcast_to(total, (self.count, *out.shape))
        return total

    def _combine(self, plan: _Plan, values: list[Any], wide: list[Array | None], settings: dict[str, Any]) -> Payload:
        if plan.linear:
            if any(w is None for w in wide):
                wanted = plan.op.differentiable_positions(len(values))
                wide = [self._zeros(values[i]) if w is None and i in wanted else w for i, w in enumerate(wide)]
            return self._run_batched(
                plan, [v if w is None else w for v, w in zip(values, wide, strict=True)], wide, settings
            )
        if not plan.by_factor or (plan.op.jvp != "multilinear" and any(w is not None for w in wide[1:])):
            raise UnknownHere
        total = None
        for i, w in enumerate(wide):
            if w is not None:
                alone = [None] * i + [w] + [None] * (len(wide) - i - 1)
                term = self._run_batched(plan, [*values[:i], w, *values[i + 1 :]], alone, settings)
                total = term if total is None else total + term
        return total

    def _run_batched(self, plan: _Plan, args: list[Any], wide: list[Array | None], settings: dict[str, Any]) -> Payload:
        """Run the op with the products as a batch in front of the arguments that have tangents."""
        rule = plan.batch
        if any(w is None for w in wide) and "batched" not in plan.batch_names:
            args = [
                a if w is not None or not hasattr(a, "shape") else self._expand(a)
                for a, w in zip(args, wide, strict=True)
            ]
        if callable(rule):
            env = {
                **settings,
                **plan.op.bind(args),
                "ops": _OPS,
                "size": self.count,
                "batched": tuple([w is not None for w in wide]),
            }
            return rule(*[env[n] for n in plan.batch_names])
        if rule == "dims":
            settings = {k: _shift(v) if k in ("dim", "dims", "dim0", "dim1") else v for k, v in settings.items()}
        elif rule != "leading" and len(args) != 1:
            raise UnknownHere
        return plan.forward(*args, **settings)

    def _expand(self, a: Payload) -> Array:
        return np.broadcast_to(a, (self.count, *a.shape))

    def _zeros(self, a: Payload) -> Array:
        return np.broadcast_to(np.zeros((), a.dtype), (self.count, *a.shape))


def _shift(dim: Any) -> ResultIds:
    return tuple(d + 1 for d in dim) if isinstance(dim, tuple) else dim + 1
