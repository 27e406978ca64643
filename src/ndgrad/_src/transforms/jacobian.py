"""Whole Jacobians and Hessians from vjp, jvp and vmap: a basis of (co)tangents is pushed through at once, or in
chunks."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, overload

from ndgrad._src.arrays.library import library_of
from ndgrad._src.arrays.precision import is_inexact
from ndgrad._src.core.variable import Variable, innermost_array, np_dtype, shape_of, wrap
from ndgrad._src.foundations.public_path import set_module
from ndgrad._src.foundations.pytree import tree_flatten, tree_leaves, tree_map, tree_unflatten
from ndgrad._src.ops.vocabulary import tensor_ops
from ndgrad._src.transforms.plain_arguments import accept_plain_arrays, convert_to_arrays, convert_to_numpy
from ndgrad._src.transforms.transforms import (
    Argnums,
    _check_differentiable,
    _check_primals_and_tangents,
    _select,
    _substitute,
    grad,
    jvp,
    preserve_compiled,
    vjp,
    vmap,
)

if TYPE_CHECKING:
    from ndgrad._src.transforms.transforms import Aux, Derivative, Differentiable, P, R, T, Ts
    from ndgrad._typing import Payload, Tensor


@overload
def jacrev(
    func: Differentiable[T, P],
    argnums: Literal[0] = 0,
    *,
    has_aux: Literal[False] = False,
    chunk_size: int | None = None,
) -> Derivative[T, P, T]: ...


@overload
def jacrev(
    func: Callable[P, tuple[Any, Aux]],
    argnums: Argnums = 0,
    *,
    has_aux: Literal[True],
    chunk_size: int | None = None,
) -> Callable[P, tuple[Any, Aux]]: ...


@overload
def jacrev(
    func: Callable[P, Any], argnums: Argnums = 0, *, has_aux: bool = False, chunk_size: int | None = None
) -> Callable[P, Any]: ...


@set_module("ndgrad.func")
@preserve_compiled
def jacrev(
    func: Callable[..., Any],
    argnums: Argnums = 0,
    *,
    has_aux: bool = False,
    chunk_size: int | None = None,
    _preallocate_and_copy: bool = False,
) -> Callable[..., Any]:
    """Return a function that computes the Jacobian by reverse mode: one vjp per output element. Good for few outputs.

    Args:
        func: function that returns tensors, or (tensors, aux) with `has_aux`.
        argnums: index of the positional argument to differentiate, or a tuple of several.
        has_aux: whether `func` returns auxiliary results too.
        chunk_size: largest number of rows computed at once, which limits the memory. None means all.

    Returns:
        A function with the arguments of `func`. For each output and input its result has a tensor of the output's shape
        followed by the input's. With `has_aux` it returns (Jacobian, aux).

    >>> import ndgrad
    >>> ndgrad.func.jacrev(lambda x: x * x)(ndgrad.tensor([1.0, 2.0]))
    tensor([[2., 0.],
            [0., 4.]])
    """
    _check_chunk("jacrev", chunk_size)

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        numbers, primals = _select(argnums, args)

        def f(*inputs: Any) -> Any:
            return func(*_substitute(args, numbers, inputs), **kwargs)

        out = vjp(f, *primals, has_aux=has_aux)
        value, pull = out[0], out[1]
        outputs, out_spec = tree_flatten(value)

        def pull_all(*cotangents: Any) -> Any:
            grads = pull(tree_unflatten(list(cotangents), out_spec))
            return tuple(tree_leaves(grads))

        flat_inputs, in_spec = tree_flatten(primals)
        if len(outputs) == 1 and shape_of(outputs[0]) == ():
            # A single number needs a gradient but no batch.
            (o,) = outputs
            rows = pull_all(wrap(o.tensor_type, library_of(innermost_array(o)).ones((), np_dtype(o))))
        else:
            rows = vmap(pull_all, chunk_size=chunk_size)(*_basis(outputs))
        # Unless there is only one number, rows[k] has shape (all output elements, *input k). Split it by output.
        jacobians = []
        start = 0
        for o in outputs:
            size = math.prod(shape_of(o))
            parts = (
                rows
                if len(outputs) == 1
                else [tensor_ops.getitem(r, index=(slice(start, start + size),)) for r in rows]
            )
            start += size
            blocks = [_reshape(p, (*shape_of(o), *shape_of(i))) for p, i in zip(parts, flat_inputs, strict=True)]
            per_argument = tree_unflatten(blocks, in_spec)
            jacobians.append(per_argument[0] if isinstance(argnums, int) else per_argument)
        result = tree_unflatten(jacobians, out_spec)
        return (result, out[2]) if has_aux else result

    return accept_plain_arrays(argnums, wrapper)


@overload
def jacfwd(
    func: Differentiable[T, P],
    argnums: Literal[0] = 0,
    has_aux: Literal[False] = False,
    *,
    randomness: str = "error",
    chunk_size: int | None = None,
) -> Derivative[T, P, T]: ...


@overload
def jacfwd(
    func: Callable[P, tuple[Any, Aux]],
    argnums: Argnums = 0,
    *,
    has_aux: Literal[True],
    randomness: str = "error",
    chunk_size: int | None = None,
) -> Callable[P, tuple[Any, Aux]]: ...


@overload
def jacfwd(
    func: Callable[P, Any],
    argnums: Argnums = 0,
    has_aux: bool = False,
    *,
    randomness: str = "error",
    chunk_size: int | None = None,
) -> Callable[P, Any]: ...


@set_module("ndgrad.func")
@preserve_compiled
def jacfwd(
    func: Callable[..., Any],
    argnums: Argnums = 0,
    has_aux: bool = False,
    *,
    randomness: str = "error",
    chunk_size: int | None = None,
) -> Callable[..., Any]:
    """Return a function that computes the Jacobian by forward mode: one jvp per input element. Good for few inputs.

    Args:
        func: function that returns tensors, or (tensors, aux) with `has_aux`.
        argnums: index of the positional argument to differentiate, or a tuple of several.
        has_aux: whether `func` returns auxiliary results too.
        randomness: behaviour of random ops, as in `vmap`.
        chunk_size: largest number of columns computed at once, which limits the memory. None means all.

    Returns:
        A function with the arguments of `func`, whose result is that of `jacrev`.

    >>> import ndgrad
    >>> ndgrad.func.jacfwd(lambda x: x * x)(ndgrad.tensor([1.0, 2.0]))
    tensor([[2., 0.],
            [0., 4.]])
    """
    _check_chunk("jacfwd", chunk_size)

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        numbers, primals = _select(argnums, args)
        flat_inputs, in_spec = tree_flatten(primals)
        _check_inputs(flat_inputs)
        bases = _basis(flat_inputs)
        found: dict[str, Any] = {}

        def push(*tangents: Any) -> Any:
            def f(*inputs: Any) -> Any:
                return func(*_substitute(args, numbers, tree_unflatten(list(inputs), in_spec)), **kwargs)

            out = jvp(f, tuple(flat_inputs), tuple(tangents), has_aux=has_aux)
            if has_aux:
                found["aux"] = out[2]
            leaves, found["spec"] = tree_flatten(out[1])
            return tuple(leaves)

        columns = vmap(push, randomness=randomness, chunk_size=chunk_size)(*bases)
        jacobians = []
        for c in columns:
            shape = shape_of(c)
            moved = tensor_ops.permute(c, dims=(*range(1, len(shape)), 0)) if len(shape) > 1 else c
            blocks, start = [], 0
            for i in flat_inputs:
                size = math.prod(shape_of(i))
                part = (
                    moved
                    if len(flat_inputs) == 1
                    else tensor_ops.getitem(moved, index=(Ellipsis, slice(start, start + size)))
                )
                blocks.append(_reshape(part, (*shape[1:], *shape_of(i))))
                start += size
            per_argument = tree_unflatten(blocks, in_spec)
            jacobians.append(per_argument[0] if isinstance(argnums, int) else per_argument)
        result = tree_unflatten(jacobians, found["spec"])
        return (result, _drop_batch(found["aux"])) if has_aux else result

    return accept_plain_arrays(argnums, wrapper)


@overload
def hessian(func: Differentiable[T, P], argnums: Literal[0] = 0) -> Derivative[T, P, T]: ...


@overload
def hessian(func: Callable[P, Any], argnums: Argnums = 0) -> Callable[P, Any]: ...


@set_module("ndgrad.func")
@preserve_compiled
def hessian(func: Callable[..., Any], argnums: Argnums = 0) -> Callable[..., Any]:
    """Return a function that computes the Hessian of a scalar function, forward over reverse.

    Args:
        func: function that returns a 0-d tensor.
        argnums: index of the positional argument to differentiate, or a tuple of several.

    Returns:
        A function with the arguments of `func`. For an argument of shape S its result has shape S + S.

    >>> import ndgrad
    >>> ndgrad.func.hessian(lambda x: (x**3).sum())(ndgrad.tensor([1.0, 2.0]))
    tensor([[ 6.,  0.],
            [ 0., 12.]])
    """
    return jacfwd(jacrev(func, argnums), argnums)


@overload
def hvp(func: Callable[[T], Tensor], primals: tuple[T], tangents: tuple[T]) -> T: ...


@overload
def hvp(
    func: Callable[[T, R, *Ts], Tensor], primals: tuple[T, R, *Ts], tangents: tuple[T, R, *Ts]
) -> tuple[T, R, *Ts]: ...


@set_module("ndgrad.func")
def hvp(func: Callable[..., Any], primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> Any:
    """The gradient's directional derivative: a Hessian-vector product at the cost of a few gradients.

    For several primals, the product is a tuple with a part for each.

    Args:
        func: function that returns one real number as a 0-d tensor.
        primals: tuple of the arguments of `func`.
        tangents: direction, in the structure and shapes of `primals`.

    >>> import ndgrad
    >>> x, v = ndgrad.tensor([1.0, 2.0]), ndgrad.tensor([1.0, 0.0])
    >>> ndgrad.func.hvp(lambda x: (x**3).sum(), (x,), (v,))
    tensor([6., 0.])
    >>> ndgrad.func.hvp(lambda x, y: (x**2 * y).sum(), (x, x), (v, v))
    (tensor([4., 0.]), tensor([2., 0.]))
    """
    argnums = 0 if not isinstance(primals, tuple) or len(primals) == 1 else tuple(range(len(primals)))
    is_plain, (primals, tangents) = convert_to_arrays(primals, tangents)
    product = jvp(grad(func, argnums), primals, tangents)[1]
    return convert_to_numpy(product) if is_plain else product


@set_module("ndgrad.func")
def linearize(func: Callable[[*Ts], R], *primals: *Ts) -> tuple[R, Callable[[*Ts], R]]:
    """Return the value of `func`, and its derivative at the primals as a linear function of tangents.

    `func` runs once, at the primals. The linear function may be called often, transformed and transposed.

    Args:
        func: function of the primals that returns tensors.
        *primals: arguments of `func`, any nested structures of tensors.

    Returns:
        The value, and a function of as many tangents as there are primals. Tangents have the shapes and dtypes of the
        primals.

    >>> import ndgrad
    >>> value, push = ndgrad.func.linearize(lambda x: x**3, ndgrad.tensor([1.0, 2.0]))
    >>> push(ndgrad.tensor([1.0, 0.0])), push(ndgrad.tensor([0.0, 1.0]))
    (tensor([3., 0.]), tensor([ 0., 12.]))
    """
    is_plain, arrays = convert_to_arrays(*primals, numbers=False)
    if is_plain:
        value, push_arrays = linearize(func, *arrays)
        return convert_to_numpy(value), lambda *t: convert_to_numpy(push_arrays(*convert_to_arrays(*t)[1]))
    values: list[Any] = []

    def tangent_of_output(*tangents: Any) -> Any:
        value, tangent = jvp(func, primals, tangents)
        values.append(value)
        return tangent

    flat, spec = tree_flatten(primals)
    for p in flat:
        _check_differentiable("linearize", p)
    # The tangent of the output is recorded once as a function of the primals' tangents, at zero, where it is
    # cheapest. Pulling back through the record transposes it. Pulling back through the transposed map, which is
    # recorded too, gives the map itself.
    tangent, pull = vjp(tangent_of_output, *tree_unflatten([tensor_ops.zeros_like(p) for p in flat], spec))
    _, push = vjp(pull, tangent)

    def linear(*tangents: *Ts) -> R:
        _check_primals_and_tangents("linearize", primals, tangents)
        for p, t in zip(flat, tree_leaves(tangents), strict=True):
            if np_dtype(p) != np_dtype(t):
                raise RuntimeError(
                    f"linearize: a tangent of dtype {np_dtype(t)} for a primal of dtype {np_dtype(p)}. "
                    "They must agree. [nd-grad-mismatch]"
                )
        return push(tangents)[0]

    return values[0], linear


# ----- bases and chunks -----------------------------------------------------------------------------------------------


def _basis(tensors: Sequence[Any]) -> list[Any]:
    """Return, for each tensor, its part of a basis of the joint space: shape (total, *shape)."""
    sizes = [math.prod(t.shape) for t in tensors]
    total, start, out = sum(sizes), 0, []
    for t, size in zip(tensors, sizes, strict=True):
        if not is_inexact(np_dtype(t)):
            raise RuntimeError(
                f"a Jacobian needs floating tensors, but one has dtype {np_dtype(t)}. Convert it first. [nd-grad-dtype]"
            )
        basis = library_of(innermost_array(t)).eye(total, size, -start, np_dtype(t))
        out.append(wrap(t.tensor_type, basis.reshape((total, *t.shape))))
        start += size
    return out


def _reshape(t: Variable, shape: tuple[int, ...]) -> Payload:
    return t if shape_of(t) == shape else tensor_ops.reshape(t, shape=shape)


def _check_inputs(inputs: list[Any]) -> None:
    for t in inputs:
        if not isinstance(t, Variable):
            raise ValueError(
                f"jacfwd: expected tensors to differentiate, but got {type(t).__name__}. "
                "Wrap it with ndgrad.as_tensor(...). [nd-type]"
            )
        if not is_inexact(np_dtype(t)):
            raise ValueError(
                f"jacfwd: a tensor of dtype {np_dtype(t)} cannot be differentiated. "
                "Convert it to a floating dtype first. [nd-grad-dtype]"
            )


def _check_chunk(name: str, chunk_size: int | None) -> None:
    if chunk_size is not None and chunk_size <= 0:
        raise ValueError(
            f"{name}: `chunk_size` should be greater than 0, or None for all at once (got {chunk_size}). "
            "[nd-transform-args]"
        )


def _drop_batch(aux: object) -> Any:
    """Return auxiliary results of any row: they do not depend on the tangents."""

    def first(t: Payload) -> Payload:
        while isinstance(t, Variable) and t._meta is not None and t._meta.batch_level:
            t = tensor_ops.getitem(t._array, index=(0,))
        return t

    return tree_map(first, aux)


__all__ = ["hessian", "hvp", "jacfwd", "jacrev", "linearize"]
