"""grad, vjp, jvp and vmap, with functorch's semantics, over any nested structure of arguments."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Literal,
    ParamSpec,
    Protocol,
    TypeAlias,
    TypeVar,
    TypeVarTuple,
    overload,
)

from ndgrad._src.arrays.generator import default_generator
from ndgrad._src.arrays.precision import INEXACT
from ndgrad._src.core.modes import modes, process, section
from ndgrad._src.core.variable import ESCAPED, Variable, np_dtype, requires_grad, wrap
from ndgrad._src.engine.engine import backward_from
from ndgrad._src.engine.roots import implicit_gradient, is_constant
from ndgrad._src.foundations.public_path import set_module
from ndgrad._src.foundations.pytree import (
    LEAF,
    TreeSpec,
    broadcast_prefix,
    tree_flatten,
    tree_leaves,
    tree_map,
    tree_structure,
    tree_unflatten,
)
from ndgrad._src.foundations.sizes import Size
from ndgrad._src.interpreters import forward_ad
from ndgrad._src.interpreters.batching import BatchLevel, batch_tensor
from ndgrad._src.interpreters.levels import GradLevel, Level, level_number, make_leaf, settle, unwrap
from ndgrad._src.ops.vocabulary import tensor_ops
from ndgrad._src.transforms.nested_arguments import call_by_values, may_be_nested, rebuild_nested, split_nested
from ndgrad._src.transforms.plain_arguments import (
    accept_plain_arrays,
    convert_mapped,
    convert_to_arrays,
    convert_to_numpy,
)

if TYPE_CHECKING:
    from ndgrad._typing import Payload, Tensor

Argnums = int | tuple[int, ...]

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")
T_contra = TypeVar("T_contra", contravariant=True)
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
Aux = TypeVar("Aux")
P = ParamSpec("P")
Ts = TypeVarTuple("Ts")


def preserve_compiled(transform: F) -> F:
    """Decorate a transform: for a compiled function (ndgrad.compile) it returns a compiled version of the transformed
    function."""

    @functools.wraps(transform)
    def run(func: Any, *args: Any, **kwargs: Any) -> Any:
        compiled = getattr(func, "__transformed__", None)
        if compiled is None:
            return transform(func, *args, **kwargs)
        name: Any = (transform, args, tuple(kwargs.items()))  # cache key, if it is hashable
        try:
            hash(name)
        except TypeError:
            name = None
        return compiled(lambda f: transform(f, *args, **kwargs), name)

    return run  # type: ignore[return-value]  # a decorator gives back what it was given


class _Nothing:
    """A type that no function returns."""


#: A differentiable function: its first argument may be any structure of tensors. The second form is for lambdas, whose
#: parameter types are inferred from it; from a type variable, type checkers would infer `object`.
Differentiable: TypeAlias = "Callable[Concatenate[T, P], Tensor] | Callable[Concatenate[Any, P], _Nothing]"


class Derivative(Protocol[T_contra, P, R_co]):
    """A function with the arguments of the original one. The first argument, which is differentiated, is
    positional."""

    def __call__(self, first: T_contra, /, *args: P.args, **kwargs: P.kwargs) -> R_co: ...


class Pullback(Protocol[T_contra, *Ts]):
    """The second result of `vjp`: a function from cotangents of the output to cotangents of the primals."""

    def __call__(
        self, cotangents: T_contra, retain_graph: bool = True, create_graph: bool | None = None
    ) -> tuple[*Ts]: ...


# ----- reverse mode --------------------------------------------------------------------------------------------------


class _Recorded:
    """A function's run inside a grad level: its outputs, and the way to pull cotangents back."""

    @section
    def __init__(self, name: str, primals: tuple[Any, ...], function: Callable[[tuple[Any, ...]], Any]) -> None:
        flat, self.spec = tree_flatten(primals)
        for t in flat:
            _check_differentiable(name, t)
        with GradLevel() as level:
            self.level = level
            self.leaves = [make_leaf(level, t) for t in flat]
            self.result = function(tree_unflatten(self.leaves, self.spec))
            settle(tree_leaves(self.result))

    def unwrap_tree(self, tree: object) -> Any:
        return tree_map(lambda t: unwrap(self.level, t), tree)

    def pull_back(self, outputs: list[Any], cotangents: list[Any], *, keep: bool) -> Any:
        """Return gradients of the primals, in their structure; zeros for primals without a path."""
        level = self.level
        active = []
        for i, o in enumerate(outputs):
            number = level_number(o)
            if number == level.number:
                active += [i] if requires_grad(o) else []
            elif number and number not in process.open:
                raise RuntimeError(ESCAPED)
        found: list[Any] = [None] * len(self.leaves)
        if active:
            grads = [cotangents[i] for i in active]
            path = "arrays" if level.pure and all(map(is_constant, grads)) else "payloads"
            found = backward_from(
                [outputs[i] for i in active], grads,
                retain_graph=keep, create_graph=False, inputs=self.leaves, accumulate=False, path=path,
            ) or found  # fmt: skip
        return tree_unflatten([self._as_tensor(g, leaf) for g, leaf in zip(found, self.leaves, strict=True)], self.spec)

    def value_of(self, output: Payload) -> Any:
        """Return an output as a tensor of the levels below."""
        return unwrap(self.level, output)

    def _as_tensor(self, g: Payload, leaf: Payload) -> Payload:
        if g is None:
            return tensor_ops.zeros_like(unwrap(self.level, leaf))
        return g if isinstance(g, Variable) else wrap(leaf.tensor_type, g)


def _check_differentiable(name: str, t: object) -> None:
    if not isinstance(t, Variable):
        raise ValueError(
            f"{name}: expected tensors to differentiate, but got {type(t).__name__}. "
            "Wrap it with ndgrad.as_tensor(...). [nd-type]"
        )
    if np_dtype(t).kind not in INEXACT:
        raise RuntimeError(
            f"{name}: a tensor of dtype {np_dtype(t)} cannot be differentiated. Convert it to a floating dtype first. "
            "[nd-grad-dtype]"
        )


def _select(argnums: Argnums, args: tuple[Any, ...]) -> tuple[tuple[int, ...], tuple[Any, ...]]:
    numbers = (argnums,) if isinstance(argnums, int) else argnums
    if not isinstance(numbers, tuple) or not numbers or not all(isinstance(n, int) for n in numbers):
        raise RuntimeError(
            f"argnums must be int or Tuple[int, ...], and at least one: got {argnums!r}. Give the position of an "
            "argument, or a tuple of positions. [nd-transform-args]"
        )
    for n in numbers:
        if not -len(args) <= n < len(args):
            raise RuntimeError(
                f"Got argnum={n}, but only {len(args)} positional inputs. Give the position of an existing "
                "argument. [nd-transform-args]"
            )
    numbers = tuple([n % len(args) for n in numbers])
    if len(numbers) > 1 and len({*numbers}) < len(numbers):
        raise RuntimeError(f"argnums {argnums} names an argument twice. Name each once. [nd-transform-args]")
    return numbers, tuple([args[n] for n in numbers])


def _substitute(args: tuple[Any, ...], numbers: tuple[int, ...], values: tuple[Any, ...]) -> tuple[Any, ...]:
    out = list(args)
    for n, v in zip(numbers, values, strict=True):
        out[n] = v
    return tuple(out)


@overload
def grad_and_value(
    func: Differentiable[T, P], argnums: Literal[0] = 0, has_aux: Literal[False] = False
) -> Derivative[T, P, tuple[T, Tensor]]: ...


@overload
def grad_and_value(
    func: Callable[P, tuple[R, Aux]], argnums: Argnums = 0, *, has_aux: Literal[True]
) -> Callable[P, tuple[Any, tuple[R, Aux]]]: ...


@overload
def grad_and_value(
    func: Callable[P, Any], argnums: Argnums = 0, has_aux: bool = False
) -> Callable[P, tuple[Any, Any]]: ...


@set_module("ndgrad.func")
@preserve_compiled
def grad_and_value(func: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False) -> Callable[..., Any]:
    """Return a function that computes the gradient and the value of a scalar function.

    Args:
        func: function that returns one real number as a 0-d tensor, or (number, aux) with `has_aux`.
        argnums: index of the positional argument to differentiate, or a tuple of several.
        has_aux: whether `func` returns auxiliary results too.

    Returns:
        A function with the arguments of `func` that returns (gradient, value), or (gradient, (value, aux)) with
        `has_aux`.

    >>> import ndgrad
    >>> ndgrad.func.grad_and_value(lambda x: (x**2).sum())(ndgrad.tensor([1.0, 2.0]))
    (tensor([2., 4.]), tensor(5.))
    """

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        if may_be_nested(func):
            inside = grad_and_value(call_by_values(func), argnums, has_aux)
            return rebuild_nested(inside(*split_nested(args), **kwargs))
        run, result, value, aux = _gradient(func, argnums, has_aux, args, kwargs)
        value = run.unwrap_tree(value)
        return (result, (value, run.unwrap_tree(aux))) if has_aux else (result, value)

    return accept_plain_arrays(argnums, wrapper)


@set_module("ndgrad.func")
def value_and_grad(func: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False) -> Callable[..., Any]:
    """Return a function that computes the value and the gradient of a scalar function.

    The order is that of JAX, and of `scipy.optimize.minimize(..., jac=True)`.

    Args:
        func: function that returns one real number as a 0-d tensor, or (number, aux) with `has_aux`.
        argnums: index of the positional argument to differentiate, or a tuple of several.
        has_aux: whether `func` returns auxiliary results too.

    Returns:
        A function with the arguments of `func` that returns (value, gradient), or ((value, aux), gradient) with
        `has_aux`.

    >>> import numpy as np
    >>> import ndgrad
    >>> value, gradient = ndgrad.func.value_and_grad(lambda x: (x**2).sum())(np.array([1.0, 2.0]))
    >>> float(value), gradient
    (5.0, array([2., 4.]))
    """
    both = grad_and_value(func, argnums, has_aux)

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> tuple[Any, Any]:
        gradient, value = both(*args, **kwargs)
        return value, gradient

    return wrapper


def _gradient(
    func: Callable[..., Any], argnums: Argnums, has_aux: bool, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[_Recorded, Any, Any, Any]:
    """Return the run of a scalar function, its gradient, its value and its auxiliary result. The last two still
    belong to the run's level."""
    numbers, primals = _select(argnums, args)
    run = _Recorded("grad", primals, lambda leaves: func(*_substitute(args, numbers, leaves), **kwargs))
    out, aux = _split_aux("grad_and_value", run.result, has_aux)
    _check_scalar(out)
    grads = run.pull_back([out], [implicit_gradient(out if run.level.pure else run.value_of(out))], keep=False)
    return run, grads[0] if isinstance(argnums, int) else grads, out, aux


@overload
def grad(
    func: Differentiable[T, P], argnums: Literal[0] = 0, has_aux: Literal[False] = False
) -> Derivative[T, P, T]: ...


@overload
def grad(
    func: Callable[P, tuple[Any, Aux]], argnums: Argnums = 0, *, has_aux: Literal[True]
) -> Callable[P, tuple[Any, Aux]]: ...


@overload
def grad(func: Callable[P, Any], argnums: Argnums = 0, has_aux: bool = False) -> Callable[P, Any]: ...


@set_module("ndgrad.func")
@preserve_compiled
def grad(func: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False) -> Callable[..., Any]:
    """Return a function that computes the gradient of a scalar function.

    `argnums` names the positional argument to differentiate, or several. Each may be any nested structure of tensors,
    and the gradient has the same structure. For NumPy's arrays and numbers, gradients are NumPy's too, so that
    `scipy.optimize.minimize(f, x0, jac=ndgrad.func.grad(f))` works; `f` receives Arrays.

    Args:
        func: function that returns one real number as a 0-d tensor, or (number, aux) with `has_aux`.
        argnums: index of the positional argument to differentiate, or a tuple of several.
        has_aux: whether `func` returns auxiliary results too.

    Returns:
        A function with the arguments of `func` that returns the gradient, or (gradient, aux) with `has_aux`.

    >>> import ndgrad
    >>> ndgrad.func.grad(lambda x: (x**2).sum())(ndgrad.tensor([1.0, 2.0]))
    tensor([2., 4.])
    """

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        if may_be_nested(func):
            return rebuild_nested(grad(call_by_values(func), argnums, has_aux)(*split_nested(args), **kwargs))
        run, result, _, aux = _gradient(func, argnums, has_aux, args, kwargs)
        return (result, run.unwrap_tree(aux)) if has_aux else result

    return accept_plain_arrays(argnums, wrapper)


@overload
def vjp(func: Callable[[*Ts], R], *primals: *Ts, has_aux: Literal[False] = False) -> tuple[R, Pullback[R, *Ts]]: ...


@overload
def vjp(
    func: Callable[[*Ts], tuple[R, Aux]], *primals: *Ts, has_aux: Literal[True]
) -> tuple[R, Pullback[R, *Ts], Aux]: ...


@overload
def vjp(func: Callable[..., Any], *primals: Any, has_aux: bool) -> tuple[Any, ...]: ...


# The implementation accepts the arguments of all overloads.
@set_module("ndgrad.func")  # type: ignore[misc]
def vjp(func: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """Return the output of `func`, and a function from cotangents of the output to a tuple of cotangents of the
    primals.

    Args:
        func: function of the primals that returns tensors, or (tensors, aux) with `has_aux`.
        *primals: arguments of `func`, any nested structures of tensors.
        has_aux: whether `func` returns auxiliary results too.

    Returns:
        The output, the function of cotangents, and with `has_aux` the auxiliary results. The cotangents have the
        structure and shapes of the output.

    >>> import ndgrad
    >>> out, pull = ndgrad.func.vjp(lambda x, y: x * y, ndgrad.tensor([1.0, 2.0]), ndgrad.tensor([3.0, 4.0]))
    >>> pull(ndgrad.tensor([1.0, 0.0]))
    (tensor([3., 0.]), tensor([1., 0.]))
    """
    is_plain, given_primals = convert_to_arrays(*primals, numbers=False)
    if is_plain:
        out, pull_arrays, *rest = vjp(func, *given_primals, has_aux=has_aux)

        def pull_plain(cotangents: object, retain_graph: bool = True, create_graph: bool | None = None) -> Any:
            (cotangents,) = convert_to_arrays(cotangents)[1]
            return convert_to_numpy(pull_arrays(cotangents, retain_graph, create_graph))

        return (convert_to_numpy(out), pull_plain, *map(convert_to_numpy, rest))
    compiled = getattr(func, "__recorded__", None)
    if compiled is None and may_be_nested(func):
        out, pull, *rest = vjp(call_by_values(func), *split_nested(primals), has_aux=has_aux)

        def pull_nested(cotangents: object, retain_graph: bool = True, create_graph: bool | None = None) -> Any:
            return rebuild_nested(pull(split_nested(cotangents), retain_graph, create_graph))

        return (rebuild_nested(out), pull_nested, *map(rebuild_nested, rest))
    run: Any = None if compiled is None else compiled(primals)
    if run is None:
        run = _Recorded("vjp", primals, lambda leaves: func(*leaves))
    result, aux = _split_aux("vjp", run.result, has_aux)
    outputs, spec = _output_tensors("vjp", result)
    for o in outputs:
        if np_dtype(o).kind not in INEXACT:
            raise RuntimeError(
                f"vjp: the function returned a tensor of dtype {np_dtype(o)}, which has no cotangent. "
                "Return it as aux, with has_aux=True. [nd-grad-dtype]"
            )

    def vjp_fn(cotangents: object, retain_graph: bool = True, create_graph: bool | None = None) -> Any:
        given, given_spec = tree_flatten(cotangents)
        if given_spec != spec:
            raise RuntimeError(
                "Expected pytree structure of cotangents to be the same as pytree structure of outputs to the "
                f"function: vjp was given {given_spec} for {spec}. Pass one per output tensor. [nd-grad-mismatch]"
            )
        for i, (o, c) in enumerate(zip(outputs, given, strict=True)):
            if c is None:
                raise RuntimeError(
                    f"vjp: the cotangent of an output of shape {tuple(o.shape)} is None. "
                    "Pass zeros instead. [nd-grad-mismatch]"
                )
            if not isinstance(c, Variable):
                raise TypeError(
                    f"vjp: a cotangent is {type(c).__name__}. Wrap it with ndgrad.as_tensor(...). [nd-grad-mismatch]"
                )
            if tuple(o.shape) != tuple(c.shape):
                raise RuntimeError(
                    f"Mismatch in shape: grad_output[{i}] has a shape of {Size(c.shape)} and output[{i}] has a shape "
                    f"of {Size(o.shape)} (vjp). They must agree. [nd-grad-mismatch]"
                )
        return run.pull_back(outputs, given, keep=retain_graph)

    value = tree_unflatten([run.value_of(o) for o in outputs], spec)
    return (value, vjp_fn, run.unwrap_tree(aux)) if has_aux else (value, vjp_fn)


_CALLS = {"vjp": "vjp(f, *primals)", "jvp": "jvp(f, primals, tangents)"}


def _output_tensors(name: str, result: object) -> tuple[list[Any], TreeSpec]:
    outputs, spec = tree_flatten(result)
    if not outputs:
        raise RuntimeError(
            f"{name}: the function returned {result!r}, with no tensor in it. Return at least one. "
            "[nd-transform-result]"
        )
    for o in outputs:
        if not isinstance(o, Variable):
            raise RuntimeError(
                f"{_CALLS[name]}: Expected f(*primals) to return only tensors, got unsupported type "
                f"{type(o).__name__}. Return it as aux, with has_aux=True. [nd-transform-result]"
            )
    return outputs, spec


def _split_aux(name: str, result: object, has_aux: bool) -> tuple[Any, Any]:
    if not has_aux:
        return result, None
    if not isinstance(result, tuple) or len(result) != 2:
        raise RuntimeError(
            f"{name}(f)(*args): output of function f should be a tuple: (output, aux) if has_aux is True, but it is "
            f"{type(result).__name__}. Return both. [nd-transform-result]"
        )
    return result


def _check_scalar(out: object) -> None:
    if not isinstance(out, Variable):
        raise RuntimeError(
            f"grad_and_value(f)(*args): Expected f(*args) to return a tensor, got {type(out).__name__}. "
            "With extra results, pass has_aux=True. [nd-transform-result]"
        )
    if tuple(out.shape) != ():
        raise RuntimeError(
            "grad_and_value(f)(*args): Expected f(*args) to return a scalar tensor, got one of shape "
            f"{tuple(out.shape)}. Reduce it, e.g. with .sum(). [nd-not-scalar]"
        )
    if np_dtype(out).kind == "c":
        raise RuntimeError(
            f"grad_and_value(f)(*args): Expected f(*args) to return a real scalar, got {np_dtype(out)}. Take .real or "
            ".abs() of it. [nd-not-scalar]"
        )


# ----- forward mode ---------------------------------------------------------------------------------------------------


@overload
def jvp(
    func: Callable[[*Ts], R],
    primals: tuple[*Ts],
    tangents: tuple[*Ts],
    *,
    strict: bool = False,
    has_aux: Literal[False] = False,
) -> tuple[R, R]: ...


@overload
def jvp(
    func: Callable[[*Ts], tuple[R, Aux]],
    primals: tuple[*Ts],
    tangents: tuple[*Ts],
    *,
    strict: bool = False,
    has_aux: Literal[True],
) -> tuple[R, R, Aux]: ...


@overload
def jvp(
    func: Callable[..., Any],
    primals: tuple[Any, ...],
    tangents: tuple[Any, ...],
    *,
    strict: bool = False,
    has_aux: bool,
) -> tuple[Any, ...]: ...


@set_module("ndgrad.func")
@section
def jvp(
    func: Callable[..., Any],
    primals: tuple[Any, ...],
    tangents: tuple[Any, ...],
    *,
    strict: bool = False,
    has_aux: bool = False,
) -> tuple[Any, ...]:
    """Return the output of `func`, and its directional derivative along the tangents.

    Args:
        func: function of the primals that returns tensors, or (tensors, aux) with `has_aux`.
        primals: tuple of the arguments of `func`, any nested structures of tensors.
        tangents: direction, in the structure and shapes of `primals`.
        strict: whether an output that does not depend on the primals is an error instead of a zero.
        has_aux: whether `func` returns auxiliary results too.

    Returns:
        The output, its derivative, and with `has_aux` the auxiliary results.

    >>> import ndgrad
    >>> ndgrad.func.jvp(ndgrad.sin, (ndgrad.tensor(0.0),), (ndgrad.tensor(2.0),))
    (tensor(0.), tensor(2.))
    """
    is_plain, (given, directions) = convert_to_arrays(primals, tangents, numbers=False)
    if is_plain:
        return tuple(map(convert_to_numpy, jvp(func, given, directions, strict=strict, has_aux=has_aux)))
    compiled = getattr(func, "__transformed__", None)
    if compiled is not None:
        run = compiled(lambda f: functools.partial(_jvp_of, f, strict, has_aux), ("jvp", strict, has_aux))
        return run(primals, tangents)
    if may_be_nested(func):
        found = jvp(call_by_values(func), split_nested(primals), split_nested(tangents), strict=strict, has_aux=has_aux)
        return tuple(map(rebuild_nested, found))
    flat, flat_tangents, spec = _check_primals_and_tangents("jvp", primals, tangents)
    with forward_ad.transform_level() as level:
        duals = [forward_ad.make_dual(p, t, level=level) for p, t in zip(flat, flat_tangents, strict=True)]
        result, aux = _split_aux("jvp", func(*tree_unflatten(duals, spec)), has_aux)
        outputs, out_spec = _output_tensors("jvp", result)
        values, out_tangents = [], []
        for o in outputs:
            primal, tangent = forward_ad.unpack_dual(o, level=level)
            if tangent is None:
                if strict:
                    raise RuntimeError(
                        "jvp: an output does not depend on the inputs, which strict=True forbids. [nd-unused]"
                    )
                tangent = tensor_ops.zeros_like(primal)
            values.append(primal)
            out_tangents.append(tangent)
        aux = tree_map(lambda t: forward_ad.unpack_dual(t, level=level).primal if isinstance(t, Variable) else t, aux)
    out = tree_unflatten(values, out_spec), tree_unflatten(out_tangents, out_spec)
    return (*out, aux) if has_aux else out


def _jvp_of(func: Callable[..., Any], strict: bool, has_aux: bool, primals: Any, tangents: Any) -> tuple[Any, ...]:
    return jvp(func, primals, tangents, strict=strict, has_aux=has_aux)


def _check_primals_and_tangents(name: str, primals: object, tangents: object) -> tuple[list[Any], list[Any], TreeSpec]:
    """Check that primals and tangents fit together; return their leaves and their structure."""
    if not isinstance(primals, tuple) or not isinstance(tangents, tuple):
        wrong = next(a for a in (primals, tangents) if not isinstance(a, tuple))
        raise RuntimeError(
            f"{name}(f, primals, tangents): Expected {'primals' if wrong is primals else 'tangents'} to be a tuple, "
            f"but it is {type(wrong).__name__}. For a single one write (x,). [nd-transform-args]"
        )
    flat, spec = tree_flatten(primals)
    flat_tangents, tangent_spec = tree_flatten(tangents)
    if spec != tangent_spec:
        raise RuntimeError(
            f"{name}(f, primals, tangents): Expected primals and tangents to have the same python structure, but they "
            f"are {spec} and {tangent_spec}. Pass one tangent per primal. [nd-transform-args]"
        )
    if not flat:
        raise RuntimeError(f"{name}: primals hold no tensor. Give at least one. [nd-transform-args]")
    for p, t in zip(flat, flat_tangents, strict=True):
        for a in (p, t):
            if not isinstance(a, Variable):
                raise RuntimeError(
                    f"{name}: primals and tangents must be tensors, but one is {type(a).__name__}. "
                    "Use ndgrad.as_tensor(...). [nd-type]"
                )
        if np_dtype(p).kind not in INEXACT:
            raise ValueError(
                f"{name}: a tensor of dtype {np_dtype(p)} cannot be differentiated. "
                "Convert it to a floating dtype first. [nd-grad-dtype]"
            )
        if tuple(p.shape) != tuple(t.shape):
            raise RuntimeError(
                "Trying to set a forward gradient that has a different size than that of the original Tensor: "
                f"{name} was given a tangent of shape {tuple(t.shape)} for a primal of shape {tuple(p.shape)}. They "
                "must agree. [nd-grad-mismatch]"
            )
    return flat, flat_tangents, spec


# ----- vmap -----------------------------------------------------------------------------------------------------------


@set_module("ndgrad.func")
@preserve_compiled
def vmap(
    func: F,
    in_dims: object = 0,
    out_dims: object = 0,
    randomness: str = "error",
    *,
    chunk_size: int | None = None,
) -> F:
    """Map `func` over a whole batch at once, by the ops' batching rules.

    Args:
        func: function of one sample.
        in_dims: batch dimension of each argument, None for an argument shared by all samples. An int stands for all
            tensors. A structure of ints follows that of the arguments, to any depth.
        out_dims: batch dimension of each result, an int or a structure of ints.
        randomness: behaviour of random ops: raise an `"error"`, or draw `"different"` or the `"same"` numbers for all
            samples.
        chunk_size: largest number of samples computed at once, which limits the memory. None means all.

    Returns:
        A function of whole batches.

    >>> import ndgrad
    >>> dot = ndgrad.func.vmap(lambda x, y: (x * y).sum(), in_dims=(0, None))
    >>> dot(ndgrad.tensor([[1.0, 2.0], [3.0, 4.0]]), ndgrad.tensor([1.0, 10.0]))
    tensor([21., 43.])
    """
    _check_randomness(randomness)
    if chunk_size is not None and chunk_size <= 0:
        raise ValueError(
            f"vmap: chunk_size should be None or greater than 0 (got {chunk_size}). None is for all at once. "
            "[nd-transform-args]"
        )
    return _map_batched(
        func, in_dims, out_dims, randomness, (lambda size: size) if chunk_size is None else (lambda size: chunk_size)
    )


@set_module("ndgrad.func")
def chunk_vmap(func: F, in_dims: object = 0, out_dims: object = 0, randomness: str = "error", chunks: int = 2) -> F:
    """Map like `vmap`, with the batch computed in a given number of chunks.

    Args:
        func: function of one sample.
        in_dims: batch dimension of each argument, as in `vmap`.
        out_dims: batch dimension of each result, as in `vmap`.
        randomness: behaviour of random ops, as in `vmap`.
        chunks: number of chunks.

    Returns:
        A function of whole batches.

    >>> import ndgrad
    >>> ndgrad.func.chunk_vmap(lambda x: x.sum(), chunks=2)(ndgrad.ones(4, 3))
    tensor([3., 3., 3., 3.])
    """
    _check_randomness(randomness)
    if chunks <= 0:
        raise ValueError(f"chunk_vmap: chunks is {chunks}. It must be positive. [nd-transform-args]")
    return _map_batched(func, in_dims, out_dims, randomness, lambda size: -(-size // chunks))


def _check_randomness(randomness: str) -> None:
    if randomness not in ("error", "different", "same"):
        raise RuntimeError(
            f"Only allowed values for randomness are 'error', 'different', or 'same'. Got {randomness!r}. "
            "[nd-vmap-random]"
        )


def _map_batched(func: F, in_dims: Any, out_dims: Any, randomness: str, chunk_size: Callable[[int], int]) -> F:
    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        is_plain, args = convert_mapped(args)
        found = map_arrays(args, kwargs)
        return convert_to_numpy(found) if is_plain else found

    def map_arrays(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        flat, spec = tree_flatten(args)
        dims = _list_in_dims(func, in_dims, args, flat)
        size = _batch_size(flat, dims)
        mapped = [t for t, d in zip(flat, dims, strict=True) if d is not None]
        if may_be_nested(func) and any(getattr(t, "is_nested", False) for t in mapped):
            from ndgrad.nested.mapped import map_components  # loaded with the first nested tensor

            def run(piece: list[Any], count: int) -> Any:
                return _run_batched(func, piece, spec, dims, out_dims, count, randomness, kwargs)

            return map_components(run, flat, dims, out_dims)
        step = chunk_size(size)
        if step >= size:
            return _run_batched(func, flat, spec, dims, out_dims, size, randomness, kwargs)
        parts: list[Any] = []
        before = default_generator.get_state() if randomness == "same" else None
        for start in range(0, size, step):
            if start and before is not None:
                default_generator.set_state(before)  # All samples share their numbers, including those of other chunks.
            stop = min(start + step, size)
            piece = [t if d is None else _narrow(t, d, start, stop) for t, d in zip(flat, dims, strict=True)]
            parts.append(_run_batched(func, piece, spec, dims, out_dims, stop - start, randomness, kwargs))
        return _join_chunks(func, parts, out_dims)

    return wrapper  # type: ignore[return-value]  # the signature is that of func


def _narrow(t: Payload, dim: int, start: int, stop: int) -> Payload:
    index = (*(slice(None),) * dim, slice(start, stop))
    return tensor_ops.getitem(t, index=index) if isinstance(t, Variable) else t[index]


def _join_chunks(func: Callable[..., Any], parts: list[Any], out_dims: object) -> Payload:
    """Join the results of chunks along the batch dimension; an unbatched result is the same in all chunks."""
    flat = [tree_flatten(part)[0] for part in parts]
    dims = _out_dims(func, out_dims, tree_structure(parts[0]))
    joined = [
        pieces[0] if d is None else tensor_ops.cat(*pieces, dim=d % len(pieces[0].shape))
        for pieces, d in zip(zip(*flat, strict=True), dims, strict=True)
    ]
    return tree_unflatten(joined, tree_flatten(parts[0])[1])


def name_of(func: Any) -> str:
    return getattr(func, "__name__", None) or repr(func)


def _list_in_dims(
    func: Callable[..., Any], in_dims: object, args: tuple[Any, ...], flat: list[Any]
) -> list[int | None]:
    if isinstance(in_dims, list):
        in_dims = tuple(in_dims)
    call = f"vmap({name_of(func)}, in_dims={in_dims}, ...)(<inputs>)"
    if not isinstance(in_dims, (int, tuple)):
        raise ValueError(
            f"{call}: expected `in_dims` to be int or a (potentially nested) tuple matching the structure of inputs, "
            f"got {type(in_dims).__name__}. Give at least one argument an int. [nd-vmap-dims]"
        )
    if not args:
        raise ValueError(
            f"vmap({name_of(func)})(<inputs>): got no inputs. Maybe you forgot to add inputs: without any there is no "
            "batch to map over. [nd-vmap-dims]"
        )
    if isinstance(in_dims, tuple) and len(in_dims) != len(args):
        raise ValueError(
            f"{call}: in_dims is not compatible with the structure of `inputs`: it has {len(in_dims)} entries, but "
            f"{len(args)} arguments were passed. Give one entry per argument, and None to arguments without a batch. "
            "[nd-vmap-dims]"
        )
    prefix = in_dims if isinstance(in_dims, tuple) else (in_dims,) * len(args)
    try:
        dims = broadcast_prefix(prefix, args, is_leaf=lambda d: d is None)
    except ValueError as error:
        raise ValueError(
            f"{call}: in_dims is not compatible with the structure of `inputs`: {_without_code(error)} [nd-vmap-dims]"
        ) from None
    out: list[int | None] = []
    for t, d in zip(flat, dims, strict=True):
        if d is not None:
            if isinstance(d, bool) or not isinstance(d, int):
                raise ValueError(
                    f"{call}: Got in_dim={d!r} for an input but in_dim must be either an integer dimension or None. "
                    "[nd-vmap-dims]"
                )
            if not isinstance(t, Variable) and not _batches_itself(t):
                raise ValueError(
                    f"{call}: Got in_dim={d} for an input but the input is of type {type(t).__name__}. "
                    "Only tensors are batched; give None there. [nd-vmap-dims]"
                )
            n = len(t.shape)
            if not -n <= d < n:
                raise ValueError(
                    f"{call}: Got in_dim={d} for some input, but that input is a Tensor of dimensionality {n} (shape "
                    f"{tuple(t.shape)}), so expected in_dim to satisfy -{n} <= in_dim < {n}. [nd-vmap-dims]"
                )
            d %= n
        out.append(d)
    return out


def _batch_size(flat: list[Any], dims: list[int | None]) -> int:
    sizes = {t.shape[d] for t, d in zip(flat, dims, strict=True) if d is not None}
    if not sizes:
        raise ValueError(
            "vmap: at least one argument must be batched: in_dims maps over none. Give one an int. [nd-vmap-dims]"
        )
    if len(sizes) > 1:
        every = [t.shape[d] for t, d in zip(flat, dims, strict=True) if d is not None]
        raise ValueError(
            f"vmap: Expected all tensors to have the same size in the mapped dimension, got sizes {every} for the "
            "mapped dimension. Give tensors of equal batches, or None in in_dims for those without one. [nd-vmap-dims]"
        )
    return int(sizes.pop())


@section
def _run_batched(
    func: Callable[..., Any],
    flat: list[Any],
    spec: TreeSpec,
    dims: list[int | None],
    out_dims: object,
    size: int,
    randomness: str,
    kwargs: dict[str, Any],
) -> Any:
    with BatchLevel(size, randomness) as level:
        args = [t if d is None else _batch_argument(level, t, d) for t, d in zip(flat, dims, strict=True)]
        result = func(*tree_unflatten(args, spec), **kwargs)
        outputs, out_spec = tree_flatten(result)
        settle(outputs)
    out_prefix = [out_dims] if out_spec is LEAF and isinstance(out_dims, int) else _out_dims(func, out_dims, out_spec)
    out = []
    for o, d in zip(outputs, out_prefix, strict=True):
        if not isinstance(o, Variable):
            raise ValueError(
                f"vmap({name_of(func)}, ...): `{name_of(func)}` must only return Tensors, got type "
                f"{type(o).__name__}. "
                "Did you mean to return it by other means, or to make a tensor of it? [nd-transform-result]"
            )
        if level_number(o) == level.number:
            if d is None:
                raise ValueError(
                    "vmap: out_dims is None for an output that is batched. "
                    "Give the dimension of the batch. [nd-vmap-dims]"
                )
            payload = forward_ad.hand_down(o, o._array, lambda t: _payload_of(level, t))
            out.append(_from_front(payload, d))
        elif d is None:
            out.append(o)
        else:
            out.append(_from_front(tensor_ops.expand(o, shape=(size, *o.shape)), d))
    return tree_unflatten(out, out_spec)


def _batches_itself(value: Any) -> bool:
    """True for a container of tensors with a `shape` and torch's private method for vmap, as of tensordict."""
    return hasattr(type(value), "_add_batch_dim")


def _batch_argument(level: BatchLevel, value: Any, dim: int) -> Any:
    """Return an argument inside a vmap."""
    if isinstance(value, Variable):
        return batch_tensor(level, _to_front(value, dim))
    return value._add_batch_dim(in_dim=dim, vmap_level=len(modes().levels))


def _without_code(error: Exception) -> str:
    """Return the text of an error without the code at its end."""
    return str(error).rpartition(" [nd-")[0] or str(error)


def _out_dims(func: Callable[..., Any], out_dims: object, spec: TreeSpec) -> list[int | None]:
    """Return the batch dimension of each output."""
    if spec is LEAF and isinstance(out_dims, tuple) and len(out_dims) == 1:
        (out_dims,) = out_dims
    call = f"vmap({name_of(func)}, ..., out_dims={out_dims!r})(<inputs>)"
    try:
        dims = broadcast_prefix(out_dims, spec, is_leaf=lambda d: d is None)
    except ValueError as error:
        raise ValueError(
            f"{call}: out_dims is not compatible with the structure of `outputs`: {_without_code(error)} [nd-vmap-dims]"
        ) from None
    for d in dims:
        if d is not None and (isinstance(d, bool) or not isinstance(d, int)):
            raise ValueError(
                f"{call}: `out_dims` must be an int, None or a python collection of ints representing where in the "
                f"outputs the vmapped dimension should appear, but holds {d!r}. [nd-vmap-dims]"
            )
    return dims


def _payload_of(level: Level, t: Payload) -> Payload:
    """Return the payload of a batched tensor; an unbatched one is expanded, which costs nothing."""
    return t._array if level_number(t) == level.number else tensor_ops.expand(t, shape=(level.size, *t.shape))


def _to_front(t: Payload, dim: int) -> Payload:
    n = len(t.shape)
    return t if dim == 0 else tensor_ops.permute(t, dims=(dim, *(i for i in range(n) if i != dim)))


def _from_front(t: Payload, dim: int) -> Payload:
    n = len(t.shape)
    if not -n <= dim < n:
        raise IndexError(
            f"vmap: out_dims is {dim} for a result of {n} dimensions. It must lie in [{-n}, {n - 1}]. [nd-vmap-dims]"
        )
    if dim % n == 0:
        return t
    order = [*range(1, n)]
    order.insert(dim % n, 0)
    return tensor_ops.permute(t, dims=tuple(order))
