"""New primitives, as in HIPS autograd's `extend`: a function on plain arrays, and its rules.

    @primitive
    def logsumexp(x): ...                       # anything, in C if need be
    defvjp(logsumexp, lambda ans, x: lambda g: g * np.exp(x - ans))
    defjvp(logsumexp, lambda g, ans, x: np.sum(g * np.exp(x - ans)))

A primitive becomes an autograd Function, so it works in backward, in forward mode and in every transform. Rules get
plain values if these have no graph, and Arrays otherwise, so that rules can be differentiated too.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from ndgrad._src.core.variable import Variable, np_dtype
from ndgrad._src.custom_functions.function import Function
from ndgrad._src.foundations.pytree import tree_flatten, tree_map, tree_unflatten
from ndgrad.compat.autograd.boxes import box, conjugate, is_box, plain
from ndgrad.numpy.coercion import as_array

if TYPE_CHECKING:
    from ndgrad._typing import Payload

__all__ = [
    "VSpace", "def_linear", "defjvp", "defjvp_argnum", "defjvp_argnums", "defvjp", "defvjp_argnum", "defvjp_argnums",
    "notrace_primitive", "primitive", "register_notrace", "vspace",
]  # fmt: skip

#: (argnums, ans, args, kwargs) -> (g -> gradients); (argnums, tangents, ans, args, kwargs) -> tangent of ans
Rule = Callable[..., Any]


class _Seen(threading.local):
    """Collects primitives that run while a function is recorded: their rules may not batch."""

    lists: tuple[list[Any], ...] = ()


_seen = _Seen()


@contextmanager
def watch_primitives() -> Iterator[list[Any]]:
    """Return a list to which primitives are added while they run."""
    found: list[Any] = []
    _seen.lists = (*_seen.lists, found)
    try:
        yield found
    finally:
        _seen.lists = _seen.lists[:-1]


class Primitive:
    """A function with its own rules."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.fun = function
        self.vjp: Rule | None = None
        self.jvp: Rule | None = None
        self.traced = True
        functools.update_wrapper(self, function)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        leaves, spec = tree_flatten(args)
        if not any(isinstance(leaf, Variable) for leaf in leaves):
            return self.fun(*args, **kwargs)
        if not self.traced or not any(is_box(leaf) for leaf in leaves):
            return self.fun(*tree_map(_plain_value, args), **tree_map(_plain_value, kwargs))
        for seen in _seen.lists:
            seen.append(self)
        call = _Call(self, spec, kwargs)
        result = _Primitive.apply(call, *leaves)
        return tree_unflatten([*result], call.out_spec) if call.out_spec is not None else result

    def __get__(self, instance: object, owner: object = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def __repr__(self) -> str:
        return f"<primitive {getattr(self.fun, '__name__', self.fun)}>"


def _plain_value(t: object) -> Any:
    return plain(t.detach()) if isinstance(t, Variable) else t


class _Call:
    """Data of a primitive's call in addition to its leaves."""

    def __init__(self, primitive: Primitive, spec: Any, kwargs: dict[str, Any]) -> None:
        self.primitive, self.spec, self.kwargs = primitive, spec, kwargs
        self.out_spec: Any = None

    def answer(self, outputs: Any) -> Any:
        return tree_unflatten([*outputs], self.out_spec) if self.out_spec is not None else outputs[0]

    def positions(self, wanted: Any) -> list[int]:
        """Return the numbers of the arguments that have a wanted leaf."""
        counts = [len(tree_flatten(a)[0]) for a in tree_unflatten([*range(self.spec.num_leaves)], self.spec)]
        found, start = [], 0
        for number, count in enumerate(counts):
            if any(wanted[start : start + count]):
                found.append(number)
            start += count
        return found


class _Primitive(Function):
    """The node of a primitive's call."""

    @staticmethod
    def forward(call: _Call, *leaves: Any) -> Any:
        ans = call.primitive.fun(
            *tree_unflatten([*map(_plain_value, leaves)], call.spec), **tree_map(_plain_value, call.kwargs)
        )
        if isinstance(ans, (tuple, list, dict)):
            found, call.out_spec = tree_flatten(ans)
            return tuple(map(as_array, found))
        return as_array(ans)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.call, *leaves = inputs
        outputs = output if isinstance(output, tuple) else (output,)
        ctx.is_tensor = [isinstance(leaf, Variable) for leaf in leaves]
        ctx.others = [None if isinstance(leaf, Variable) else leaf for leaf in leaves]
        ctx.count = sum(ctx.is_tensor)
        tensors = [leaf for leaf in leaves if isinstance(leaf, Variable)]
        ctx.save_for_backward(*tensors, *outputs)
        ctx.save_for_forward(*tensors, *outputs)

    @staticmethod
    def _restore(ctx: Any) -> tuple[Any, Any, list[Any]]:
        saved = ctx.saved_tensors
        tensors = iter(map(plain, saved[: ctx.count]))
        leaves = [next(tensors) if known else other for known, other in zip(ctx.is_tensor, ctx.others, strict=True)]
        return ctx.call.answer([plain(t) for t in saved[ctx.count :]]), tree_unflatten(leaves, ctx.call.spec), leaves

    @staticmethod
    def backward(ctx: Any, *gs: Any) -> Any:
        call: _Call = ctx.call
        ans, args, leaves = _Primitive._restore(ctx)
        needed = [n and t for n, t in zip(ctx.needs_input_grad[1:], ctx.is_tensor, strict=True)]
        argnums = call.positions(needed)
        rule = call.primitive.vjp
        if rule is None:
            raise NotImplementedError(_missing("VJP", call.primitive, argnums))
        g = call.answer([plain(conjugate(t)) for t in gs])
        found = rule(tuple(argnums), ans, args, call.kwargs)(g)
        grads: list[Any] = []
        by_number = dict(zip(argnums, found, strict=True))
        for number, arg in enumerate(args):
            parts = tree_flatten(arg)[0]
            given = tree_flatten(by_number[number])[0] if number in by_number else [None] * len(parts)
            grads += given if len(given) == len(parts) else [None] * len(parts)
        return (
            None,
            *(_fit_gradient(v, leaf) if n else None for v, leaf, n in zip(grads, leaves, needed, strict=True)),
        )

    @staticmethod
    def jvp(ctx: Any, _: Any, *tangents: Any) -> Any:
        call: _Call = ctx.call
        ans, args, _leaves = _Primitive._restore(ctx)
        argnums = call.positions([t is not None for t in tangents])
        if call.primitive.jvp is None:
            raise NotImplementedError(_missing("JVP", call.primitive, argnums))
        zeros = [t if t is not None or not known else 0.0 for t, known in zip(tangents, ctx.is_tensor, strict=True)]
        by_arg = tree_unflatten([plain(t) for t in zeros], call.spec)
        made = call.primitive.jvp(tuple(argnums), [by_arg[n] for n in argnums], ans, args, call.kwargs)
        leaves = tree_flatten(made)[0]
        outputs = ctx.saved_tensors[ctx.count :]
        out = tuple(
            as_array(t).astype(np_dtype(o), copy=False).reshape(o.shape) for t, o in zip(leaves, outputs, strict=True)
        )
        return out if call.out_spec is not None else out[0]

    @staticmethod
    def vmap(info: Any, in_dims: Any, call: _Call, *leaves: Any) -> Any:
        """Run one sample after the other: nothing is known about the function."""
        results = []
        for k in range(info.batch_size):
            sample = [
                t if d is None else t[(slice(None),) * d + (k,)] for t, d in zip(leaves, in_dims[1:], strict=True)
            ]
            made = _Primitive.apply(call, *sample)
            results.append(made if isinstance(made, tuple) else (made,))
        stacked = tuple(np.stack([r[n] for r in results]) for n in range(len(results[0])))
        return (stacked, (0,) * len(stacked)) if call.out_spec is not None else (stacked[0], 0)


def _missing(kind: str, primitive: Primitive, argnums: list[int]) -> str:
    name = getattr(primitive.fun, "__name__", repr(primitive.fun))
    return (
        f"{kind} of {name} wrt argnums {tuple(argnums)} not defined. Define it with def{kind.lower()}({name}, ...). "
        "[nd-define]"
    )


def _fit_gradient(g: Any, leaf: Any) -> Any:
    """Return a rule's gradient in the shape and the kind of number of its argument."""
    if g is None:
        return None
    made = conjugate(as_array(g))
    shape, dtype = np.shape(leaf), np_dtype(leaf) if isinstance(leaf, Variable) else np.asarray(leaf).dtype
    if np_dtype(made).kind == "c" and dtype.kind != "c":
        made = made.real
    if made.shape != shape:
        made = np.broadcast_to(made, shape) if np_dtype(made).kind and made.ndim <= len(shape) else made.reshape(shape)
    return made.astype(dtype, copy=False)


# ----- the functions that users call ----------------------------------------------------------------------------------


def primitive(function: Callable[..., Any]) -> Primitive:
    """Decorate a function as a primitive: it gets plain values, and its derivatives come from `defvjp` and `defjvp`.

    Args:
        function: function of plain values.

    >>> import numpy as onp
    >>> import ndgrad.compat.autograd.numpy as np
    >>> from ndgrad.compat.autograd import grad
    >>> from ndgrad.compat.autograd.extend import defvjp, primitive
    >>> @primitive
    ... def cube(x):
    ...     return onp.power(x, 3)
    >>> defvjp(cube, lambda ans, x: lambda g: 3 * g * x**2)
    >>> grad(grad(cube))(2.0)
    np.float64(12.0)
    """
    return function if isinstance(function, Primitive) else Primitive(function)


def notrace_primitive(function: Callable[..., Any]) -> Primitive:
    """Decorate a function without a derivative: it gets plain values, and its results are constants.

    Args:
        function: function of plain values.

    >>> from ndgrad.compat.autograd.extend import notrace_primitive
    >>> notrace_primitive(round)(2.6)
    3
    """
    made = Primitive(function)
    made.traced = False
    return made


def register_notrace(trace_type: object, function: Primitive) -> None:
    """Register that a primitive's results are constants.

    Args:
        trace_type: accepted as in HIPS autograd, which has a type for each mode. The registration is for all modes.
        function: primitive.

    >>> from ndgrad.compat.autograd.extend import primitive, register_notrace
    >>> rounded = primitive(round)
    >>> register_notrace(None, rounded)
    """
    _own(function).traced = False


def _own(function: Callable[..., Any]) -> Primitive:
    if not isinstance(function, Primitive):
        raise TypeError(
            f"rules can be given to functions made by @primitive, and {getattr(function, '__name__', function)!r} "
            f"is a {type(function).__name__}. NumPy's and SciPy's own functions have rules: "
            "wrap the function in a primitive of your own. [nd-op-block]"
        )
    return function


def defvjp(fun: Any, *vjpmakers: Any, argnums: Any = None) -> None:
    """Define the reverse rules: `vjpmaker(ans, *args, **kwargs)(g)` is the gradient in one argument; None for zero.

    Args:
        fun: primitive.
        *vjpmakers: rule for each argument.
        argnums: numbers of the arguments of the rules. None means from 0 on.

    >>> from ndgrad.compat.autograd import grad
    >>> from ndgrad.compat.autograd.extend import defvjp, primitive
    >>> double = primitive(lambda x: 2 * x)
    >>> defvjp(double, lambda ans, x: lambda g: 2 * g)
    >>> float(grad(double)(5.0))
    2.0
    """
    makers = dict(zip(range(len(vjpmakers)) if argnums is None else argnums, vjpmakers, strict=True))

    def rule(numbers: tuple[int, ...], ans: Any, args: Any, kwargs: Any) -> Any:
        for n in numbers:
            if n not in makers:
                raise NotImplementedError(_missing("VJP", fun, [n]))
        pulls = [None if makers[n] is None else makers[n](ans, *args, **kwargs) for n in numbers]
        return lambda g: [None if pull is None else pull(g) for pull in pulls]

    defvjp_argnums(fun, rule)


def defvjp_argnums(fun: Callable[..., Any], vjpmaker: Rule) -> None:
    """Define one rule for all arguments: `vjpmaker(argnums, ans, args, kwargs)(g)` is a sequence of gradients.

    Args:
        fun: primitive.
        vjpmaker: rule for all arguments.

    >>> from ndgrad.compat.autograd import grad
    >>> from ndgrad.compat.autograd.extend import defvjp_argnums, primitive
    >>> double = primitive(lambda x: 2 * x)
    >>> defvjp_argnums(double, lambda argnums, ans, args, kwargs: lambda g: [2 * g for _ in argnums])
    >>> float(grad(double)(5.0))
    2.0
    """
    _own(fun).vjp = vjpmaker


def defvjp_argnum(fun: Callable[..., Any], vjpmaker: Rule) -> None:
    """Define one rule: `vjpmaker(argnum, ans, args, kwargs)(g)` is the gradient in that argument.

    Args:
        fun: primitive.
        vjpmaker: rule for one argument, which gets its number.

    >>> from ndgrad.compat.autograd import grad
    >>> from ndgrad.compat.autograd.extend import defvjp_argnum, primitive
    >>> double = primitive(lambda x: 2 * x)
    >>> defvjp_argnum(double, lambda argnum, ans, args, kwargs: lambda g: 2 * g)
    >>> float(grad(double)(5.0))
    2.0
    """

    def rule(numbers: tuple[int, ...], ans: Any, args: Any, kwargs: Any) -> Any:
        pulls = [vjpmaker(n, ans, args, kwargs) for n in numbers]
        return lambda g: [pull(g) for pull in pulls]

    defvjp_argnums(fun, rule)


def defjvp(fun: Any, *jvpfuns: Any, argnums: Any = None) -> None:
    """Define the forward rules: `jvpfun(g, ans, *args, **kwargs)`; "same" for a function linear in
    that argument; None for zero.

    Args:
        fun: primitive.
        *jvpfuns: rule for each argument.
        argnums: numbers of the arguments of the rules. None means from 0 on.

    >>> from ndgrad.compat.autograd import deriv
    >>> from ndgrad.compat.autograd.extend import defjvp, primitive
    >>> double = primitive(lambda x: 2 * x)
    >>> defjvp(double, "same")
    >>> float(deriv(double)(5.0))
    2.0
    """
    rules = dict(zip(range(len(jvpfuns)) if argnums is None else argnums, jvpfuns, strict=True))

    def one(number: int, g: Any, ans: Any, args: Any, kwargs: Any) -> Any:
        if number not in rules:
            raise NotImplementedError(_missing("JVP", fun, [number]))
        found = rules[number]
        if found is None:
            return tree_map(lambda t: t * 0.0, ans)
        if found == "same":
            return fun(*args[:number], g, *args[number + 1 :], **kwargs)
        return found(g, ans, *args, **kwargs)

    defjvp_argnum(fun, one)


def defjvp_argnum(fun: Any, jvpmaker: Rule) -> None:
    """Define one forward rule: `jvpmaker(argnum, g, ans, args, kwargs)` is the contribution of that argument's tangent.

    Args:
        fun: primitive.
        jvpmaker: rule for one argument, which gets its number.

    >>> from ndgrad.compat.autograd import deriv
    >>> from ndgrad.compat.autograd.extend import defjvp_argnum, primitive
    >>> double = primitive(lambda x: 2 * x)
    >>> defjvp_argnum(double, lambda argnum, g, ans, args, kwargs: 2 * g)
    >>> float(deriv(double)(5.0))
    2.0
    """

    def rule(numbers: tuple[int, ...], tangents: Any, ans: Any, args: Any, kwargs: Any) -> Any:
        parts = [jvpmaker(n, g, ans, args, kwargs) for n, g in zip(numbers, tangents, strict=True)]
        return functools.reduce(lambda a, b: tree_map(lambda x, y: x + y, a, b), parts)

    defjvp_argnums(fun, rule)


def defjvp_argnums(fun: Callable[..., Any], jvpmaker: Rule) -> None:
    """Define one forward rule for all arguments: `jvpmaker(argnums, tangents, ans, args, kwargs)`.

    Args:
        fun: primitive.
        jvpmaker: rule for all arguments.

    >>> from ndgrad.compat.autograd import deriv
    >>> from ndgrad.compat.autograd.extend import defjvp_argnums, primitive
    >>> double = primitive(lambda x: 2 * x)
    >>> defjvp_argnums(double, lambda argnums, tangents, ans, args, kwargs: 2 * tangents[0])
    >>> float(deriv(double)(5.0))
    2.0
    """
    _own(fun).jvp = jvpmaker


def def_linear(fun: Callable[..., Any]) -> None:
    """Define the forward rules of a function that is linear in each argument.

    Args:
        fun: primitive.

    >>> from ndgrad.compat.autograd import deriv
    >>> from ndgrad.compat.autograd.extend import def_linear, primitive
    >>> double = primitive(lambda x: 2 * x)
    >>> def_linear(double)
    >>> float(deriv(double)(5.0))
    2.0
    """
    defjvp_argnum(fun, lambda n, g, ans, args, kwargs: fun(*args[:n], g, *args[n + 1 :], **kwargs))


# ----- vector spaces --------------------------------------------------------------------------------------------------


#: Source of random directions, separate from the user's random numbers.
_directions = np.random.default_rng(0)


class VSpace:
    """The vector space of a value: all values with the same structure and shapes.

    Args:
        value: number, array, or nested structures of them.

    >>> from ndgrad.compat.autograd.extend import VSpace
    >>> VSpace([1.0, 2.0]).size
    2
    """

    def __init__(self, value: object) -> None:
        self.leaves, self._spec = tree_flatten(plain(box(value)))
        self.iscomplex = any(np.iscomplexobj(leaf) for leaf in self.leaves)
        self.size = sum((2 if np.iscomplexobj(leaf) else 1) * int(np.size(leaf)) for leaf in self.leaves)
        self.shape = np.shape(self.leaves[0]) if self._spec.is_leaf() else None
        self.ndim = None if self.shape is None else len(self.shape)

    def _each(self, make: Callable[[Any], Any]) -> Any:
        return tree_unflatten([make(leaf) for leaf in self.leaves], self._spec)

    def zeros(self) -> Any:
        return self._each(np.zeros_like)

    def ones(self) -> Any:
        return self._each(lambda leaf: np.ones_like(leaf) * (1 + 1j if np.iscomplexobj(leaf) else 1))

    def randn(self) -> Any:
        def draw(leaf: Any) -> Any:
            real = _directions.standard_normal(np.shape(leaf))
            made = real + 1j * _directions.standard_normal(np.shape(leaf)) if np.iscomplexobj(leaf) else real
            return np.asarray(made).astype(np.asarray(leaf).dtype)

        return self._each(draw)

    def standard_basis(self) -> Iterator[Any]:
        for number, leaf in enumerate(self.leaves):
            for unit in (1.0, 1j) if np.iscomplexobj(leaf) else (1.0,):
                for place in np.ndindex(*np.shape(leaf)):
                    made = [np.zeros_like(other) for other in self.leaves]
                    made[number][place] = unit
                    yield tree_unflatten(made, self._spec)

    def add(self, x: Payload, y: Payload) -> Payload:
        """Return the sum of two vectors.

        Args:
            x, y: vectors of the space.
        """
        return tree_map(lambda a, b: a + b, x, y)

    def scalar_mul(self, x: Payload, a: Any) -> Payload:
        """Return a vector times a number.

        Args:
            x: vector of the space.
            a: number.
        """
        return tree_map(lambda t: t * a, x)

    def covector(self, x: Payload) -> Payload:
        """Return the complex conjugate of a vector.

        Args:
            x: vector of the space.
        """
        return tree_map(np.conj, x)

    def inner_prod(self, x: Payload, y: Payload) -> Any:
        """Return the real inner product of two vectors, the first conjugated.

        Args:
            x, y: vectors of the space.
        """
        pairs = zip(tree_flatten(x)[0], tree_flatten(y)[0], strict=True)
        return sum(np.real(np.sum(np.conj(a) * b)) for a, b in pairs)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, VSpace)
            and self._spec == other._spec
            and all(
                np.shape(a) == np.shape(b) and np.iscomplexobj(a) == np.iscomplexobj(b)
                for a, b in zip(self.leaves, other.leaves, strict=True)
            )
        )

    __hash__ = None  # type: ignore[assignment]  # Python's way to say unhashable

    def __repr__(self) -> str:
        return f"VSpace({self._spec}, size {self.size})"


def vspace(value: object) -> VSpace:
    """Return the space of a value.

    Args:
        value: number, array, or nested structures of them.

    >>> from ndgrad.compat.autograd.extend import vspace
    >>> vspace(1.0) == vspace(2.0)
    True
    """
    return VSpace(value)
