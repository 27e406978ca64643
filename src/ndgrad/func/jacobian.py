"""Whole Jacobians and Hessians from vjp, jvp and vmap: a basis of (co)tangents is pushed through at once, or in chunks."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

from ndgrad.arrays.library import library_of
from ndgrad.autograd.variable import Variable, innermost_array, np_dtype, wrap
from ndgrad.func.transforms import Argnums, _select, _substitute, grad, jvp, vjp, vmap
from ndgrad.ops.vocabulary import tensor_ops
from ndgrad.pytree import tree_flatten, tree_map, tree_unflatten


def jacrev(
    func: Callable[..., Any],
    argnums: Argnums = 0,
    *,
    has_aux: bool = False,
    chunk_size: int | None = None,
    _preallocate_and_copy: bool = False,
) -> Callable[..., Any]:
    """The Jacobian by reverse mode: one vjp per output element. Good for few outputs.

    >>> import ndgrad
    >>> ndgrad.func.jacrev(lambda x: x * x)(ndgrad.tensor([1.0, 2.0]))
    tensor([[2., 0.],
            [0., 4.]])
    """
    _check_chunk(chunk_size)

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        numbers, primals = _select(argnums, args)

        def f(*inputs: Any) -> Any:
            return func(*_substitute(args, numbers, inputs), **kwargs)

        out = vjp(f, *primals, has_aux=has_aux)
        value, pull = out[0], out[1]
        outputs, out_spec = tree_flatten(value)
        bases = _basis(outputs)

        def pull_all(*cotangents: Any) -> Any:
            grads = pull(tree_unflatten(list(cotangents), out_spec))
            return tuple(tree_flatten(grads)[0])

        flat_inputs, in_spec = tree_flatten(primals)
        rows = _in_chunks(pull_all, bases, chunk_size)
        # rows[k] has shape (all output elements, *input k); cut it by output
        jacobians = []
        start = 0
        for o in outputs:
            size = math.prod(o.shape)
            blocks = [
                tensor_ops.reshape(tensor_ops.getitem(r, index=(slice(start, start + size),)), shape=(*o.shape, *i.shape))
                for r, i in zip(rows, flat_inputs, strict=True)
            ]
            start += size
            per_argument = tree_unflatten(blocks, in_spec)
            jacobians.append(per_argument[0] if isinstance(argnums, int) else per_argument)
        result = tree_unflatten(jacobians, out_spec)
        return (result, out[2]) if has_aux else result

    return wrapper


def jacfwd(
    func: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False, *, randomness: str = "error", chunk_size: int | None = None
) -> Callable[..., Any]:
    """The Jacobian by forward mode: one jvp per input element. Good for few inputs."""
    _check_chunk(chunk_size)

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        numbers, primals = _select(argnums, args)
        flat_inputs, in_spec = tree_flatten(primals)
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

        columns = _in_chunks(push, bases, chunk_size, randomness)
        jacobians = []
        for c in columns:
            out_shape = tuple(c.shape[1:])
            moved = tensor_ops.permute(c, dims=(*range(1, len(c.shape)), 0))
            blocks, start = [], 0
            for i in flat_inputs:
                size = math.prod(i.shape)
                part = tensor_ops.getitem(moved, index=(Ellipsis, slice(start, start + size)))
                blocks.append(tensor_ops.reshape(part, shape=(*out_shape, *i.shape)))
                start += size
            per_argument = tree_unflatten(blocks, in_spec)
            jacobians.append(per_argument[0] if isinstance(argnums, int) else per_argument)
        result = tree_unflatten(jacobians, found["spec"])
        return (result, _unbatched(found["aux"])) if has_aux else result

    return wrapper


def hessian(func: Callable[..., Any], argnums: Argnums = 0) -> Callable[..., Any]:
    """The Hessian of a scalar function, forward over reverse.

    >>> import ndgrad
    >>> ndgrad.func.hessian(lambda x: (x**3).sum())(ndgrad.tensor([1.0, 2.0]))
    tensor([[ 6.,  0.],
            [ 0., 12.]])
    """
    return jacfwd(jacrev(func, argnums), argnums)


def hvp(func: Callable[..., Any], primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> Any:
    """The gradient's directional derivative: a Hessian-vector product at the cost of a few gradients."""
    return jvp(grad(func), primals, tangents)[1]


def linearize(func: Callable[..., Any], *primals: Any) -> tuple[Any, Callable[..., Any]]:
    """The value of `func` and its derivative at the primals as a linear function of tangents."""
    value = func(*primals)

    def linear(*tangents: Any) -> Any:
        return jvp(func, primals, tangents)[1]

    return value, linear


# ----- bases and chunks --------------------------------------------------------------------------------------------------


def _basis(tensors: list[Any]) -> list[Any]:
    """For each tensor, the parts of a basis of the space of all of them together: shape (total, *shape)."""
    sizes = [math.prod(t.shape) for t in tensors]
    total, start, out = sum(sizes), 0, []
    for t, size in zip(tensors, sizes, strict=True):
        if np_dtype(t).kind not in "fc":
            raise RuntimeError(f"a Jacobian needs floating tensors, and one has dtype {np_dtype(t)}. Convert it first.")
        library = library_of(innermost_array(t))
        basis = library.zeros((total, size), np_dtype(t))
        basis[library.arange(start, start + size), library.arange(size)] = 1
        out.append(wrap(t.face, basis.reshape((total, *t.shape))))
        start += size
    return out


def _in_chunks(f: Callable[..., Any], bases: list[Any], chunk_size: int | None, randomness: str = "error") -> list[Any]:
    mapped = vmap(f, randomness=randomness)
    total = bases[0].shape[0] if bases else 0
    if chunk_size is None or chunk_size >= total:
        return list(mapped(*bases))
    pieces = [
        mapped(*(tensor_ops.getitem(b, index=(slice(start, start + chunk_size),)) for b in bases)) for start in range(0, total, chunk_size)
    ]
    from ndgrad import cat

    return [cat(list(parts), 0) for parts in zip(*pieces, strict=True)]


def _check_chunk(chunk_size: int | None) -> None:
    if chunk_size is not None and chunk_size <= 0:
        raise ValueError(f"chunk_size is {chunk_size}: it must be positive, or None for all at once.")


def _unbatched(aux: Any) -> Any:
    """Auxiliary results do not depend on the tangents, so any row of the batch will do."""

    def first(t: Any) -> Any:
        while isinstance(t, Variable) and t._meta is not None and t._meta.batch_level:
            t = tensor_ops.getitem(t._array, index=(0,))
        return t

    return tree_map(first, aux)


__all__ = ["hessian", "hvp", "jacfwd", "jacrev", "linearize"]
