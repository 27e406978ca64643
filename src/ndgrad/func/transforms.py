"""grad, vjp, jvp and vmap, with functorch's semantics, over any nested structure of arguments."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ndgrad.autograd import forward_ad
from ndgrad.autograd.engine import backward_from
from ndgrad.autograd.roots import is_constant
from ndgrad.autograd.variable import Variable, np_dtype, requires_grad, wrap
from ndgrad.func.batching import batch_tensor
from ndgrad.func.levels import Level, level_number, make_leaf, open_level, unwrap
from ndgrad.ops.vocabulary import tensor_ops
from ndgrad.pytree import broadcast_prefix, tree_flatten, tree_map, tree_unflatten

Argnums = int | tuple[int, ...]


# ----- reverse mode --------------------------------------------------------------------------------------------------


class _Recorded:
    """A function's run inside a grad level: its outputs, and how to pull cotangents back."""

    def __init__(self, name: str, f: Callable[..., Any], primals: tuple[Any, ...], rest: Callable[[tuple[Any, ...]], Any]) -> None:
        flat, self.spec = tree_flatten(primals)
        for t in flat:
            _check_differentiable(name, t)
        with open_level("grad") as level:
            self.level = level
            self.leaves = [make_leaf(level, t) for t in flat]
            self.result = rest(tree_unflatten(self.leaves, self.spec))

    def unwrapped(self, tree: Any) -> Any:
        return tree_map(lambda t: unwrap(self.level, t), tree)

    def pull_back(self, outputs: list[Any], cotangents: list[Any], *, keep: bool) -> Any:
        """Gradients of the primals, in their structure; zeros where no path leads."""
        level = self.level
        active = [i for i, o in enumerate(outputs) if level_number(o) == level.number and requires_grad(o)]
        found: list[Any] = [None] * len(self.leaves)
        if active:
            grads = [cotangents[i] for i in active]
            lane = "arrays" if level.pure and all(map(is_constant, grads)) else "payloads"
            found = backward_from(
                [outputs[i] for i in active], grads,
                retain_graph=keep, create_graph=False, inputs=self.leaves, accumulate=False, lane=lane,
            ) or found  # fmt: skip
        return tree_unflatten([self._as_tensor(g, leaf) for g, leaf in zip(found, self.leaves, strict=True)], self.spec)

    def _as_tensor(self, g: Any, leaf: Any) -> Any:
        if g is None:
            return tensor_ops.zeros_like(unwrap(self.level, leaf))
        return g if isinstance(g, Variable) else wrap(leaf.face, g)


def _check_differentiable(name: str, t: Any) -> None:
    if not isinstance(t, Variable):
        raise TypeError(f"{name}: expected tensors to differentiate, and got {type(t).__name__}. Wrap it with ndgrad.as_tensor(...).")
    if np_dtype(t).kind not in "fc":
        raise RuntimeError(f"{name}: a tensor of dtype {np_dtype(t)} cannot be differentiated. Convert it to a floating dtype first.")


def _select(argnums: Argnums, args: tuple[Any, ...]) -> tuple[tuple[int, ...], tuple[Any, ...]]:
    numbers = (argnums,) if isinstance(argnums, int) else tuple(argnums)
    for n in numbers:
        if not -len(args) <= n < len(args):
            raise RuntimeError(f"argnums {argnums} is out of range: the function was given {len(args)} positional arguments.")
    numbers = tuple(n % len(args) for n in numbers)
    return numbers, tuple(args[n] for n in numbers)


def _substitute(args: tuple[Any, ...], numbers: tuple[int, ...], values: tuple[Any, ...]) -> tuple[Any, ...]:
    out = list(args)
    for n, v in zip(numbers, values, strict=True):
        out[n] = v
    return tuple(out)


def grad_and_value(func: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False) -> Callable[..., Any]:
    """A function that returns (gradient, value) of a scalar function; with `has_aux`, (gradient, (value, aux))."""

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        numbers, primals = _select(argnums, args)
        run = _Recorded("grad", func, primals, lambda leaves: func(*_substitute(args, numbers, leaves), **kwargs))
        out, aux = _split_aux("grad_and_value", run.result, has_aux)
        _check_scalar(out)
        one = tensor_ops.fill(tensor_ops.zeros_like(unwrap(run.level, out)), value=1)
        grads = run.pull_back([out], [one], keep=False)
        result = grads[0] if isinstance(argnums, int) else grads
        value = run.unwrapped(out)
        return (result, (value, run.unwrapped(aux))) if has_aux else (result, value)

    return wrapper


def grad(func: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False) -> Callable[..., Any]:
    """A function that returns the gradient of a scalar function; with `has_aux`, (gradient, aux)."""
    both = grad_and_value(func, argnums, has_aux)

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        result, value = both(*args, **kwargs)
        return (result, value[1]) if has_aux else result

    return wrapper


def vjp(func: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """The output of `func` and a function from cotangents of the output to cotangents of the primals."""
    run = _Recorded("vjp", func, primals, lambda leaves: func(*leaves))
    result, aux = _split_aux("vjp", run.result, has_aux)
    outputs, spec = tree_flatten(result)
    for o in outputs:
        if not isinstance(o, Variable):
            raise TypeError(f"vjp: the function must return tensors, and returned {type(o).__name__}.")

    def vjp_fn(*cotangents: Any, retain_graph: bool = True) -> Any:
        given, given_spec = tree_flatten(cotangents[0] if len(cotangents) == 1 else cotangents)
        if given_spec != spec:
            raise RuntimeError(f"vjp: cotangents of structure {given_spec} do not match the output's, {spec}. Pass one per output tensor.")
        for o, c in zip(outputs, given, strict=True):
            if tuple(o.shape) != tuple(c.shape):
                raise RuntimeError(f"vjp: a cotangent of shape {tuple(c.shape)} for an output of shape {tuple(o.shape)}. They must agree.")
        grads = run.pull_back(outputs, given, keep=retain_graph)
        return grads

    value = tree_unflatten([unwrap(run.level, o) for o in outputs], spec)
    return (value, vjp_fn, run.unwrapped(aux)) if has_aux else (value, vjp_fn)


def _split_aux(name: str, result: Any, has_aux: bool) -> tuple[Any, Any]:
    if not has_aux:
        return result, None
    if not isinstance(result, tuple) or len(result) != 2:
        raise RuntimeError(f"{name}: with has_aux=True the function must return (output, aux), and it returned {type(result).__name__}.")
    return result


def _check_scalar(out: Any) -> None:
    if not isinstance(out, Variable):
        raise RuntimeError(f"grad: the function must return a tensor, and returned {type(out).__name__}. With extra results, "
            "pass has_aux=True.")
    if tuple(out.shape) != ():
        raise RuntimeError("grad: the function must return a scalar (0-d) tensor, and returned one of shape "
            f"{tuple(out.shape)}. Reduce it, e.g. with .sum().")
    if np_dtype(out).kind == "c":
        raise RuntimeError(f"grad: the function must return a real scalar, and returned {np_dtype(out)}. Take .real or .abs() of it.")


# ----- forward mode ----------------------------------------------------------------------------------------------------


def jvp(
    func: Callable[..., Any], primals: tuple[Any, ...], tangents: tuple[Any, ...], *, strict: bool = False, has_aux: bool = False
) -> Any:
    """The output of `func` and its directional derivative along the tangents."""
    flat, spec = tree_flatten(tuple(primals))
    flat_tangents, tangent_spec = tree_flatten(tuple(tangents))
    if spec != tangent_spec:
        raise RuntimeError(f"jvp: primals {spec} and tangents {tangent_spec} differ in structure. Pass one tangent per primal.")
    for p, t in zip(flat, flat_tangents, strict=True):
        _check_differentiable("jvp", p)
        if tuple(p.shape) != tuple(t.shape):
            raise RuntimeError(f"jvp: a tangent of shape {tuple(t.shape)} for a primal of shape {tuple(p.shape)}. They must agree.")
    with forward_ad.dual_level() as level:
        duals = [forward_ad.make_dual(p, t, level=level) for p, t in zip(flat, flat_tangents, strict=True)]
        result, aux = _split_aux("jvp", func(*tree_unflatten(duals, spec)), has_aux)
        outputs, out_spec = tree_flatten(result)
        values, out_tangents = [], []
        for o in outputs:
            if not isinstance(o, Variable):
                raise TypeError(f"jvp: the function must return tensors, and returned {type(o).__name__}.")
            primal, tangent = forward_ad.unpack_dual(o, level=level)
            if tangent is None:
                if strict:
                    raise RuntimeError("jvp: an output does not depend on the inputs, and strict=True asks to be told.")
                tangent = tensor_ops.zeros_like(primal)
            values.append(primal)
            out_tangents.append(tangent)
        aux = tree_map(lambda t: forward_ad.unpack_dual(t, level=level).primal if isinstance(t, Variable) else t, aux)
    out = tree_unflatten(values, out_spec), tree_unflatten(out_tangents, out_spec)
    return (*out, aux) if has_aux else out


# ----- vmap --------------------------------------------------------------------------------------------------------------


def vmap(
    func: Callable[..., Any],
    in_dims: Any = 0,
    out_dims: Any = 0,
    randomness: str = "error",
    *,
    chunk_size: int | None = None,
) -> Callable[..., Any]:
    """`func` for a whole batch at once, by the ops' batching rules."""
    if randomness not in ("error", "different", "same"):
        raise ValueError(f"vmap: randomness is {randomness!r}. Choose 'error', 'different' or 'same'.")

    if chunk_size is not None and chunk_size <= 0:
        raise ValueError(f"vmap: chunk_size is {chunk_size}. It must be positive, or None for all samples at once.")

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        flat, spec = tree_flatten(args)
        dims = _in_dims(in_dims, args, flat)
        size = _batch_size(flat, dims)
        if chunk_size is None or chunk_size >= size:
            return _run_batched(func, flat, spec, dims, out_dims, size, randomness, kwargs)
        parts = []
        for start in range(0, size, chunk_size):
            stop = min(start + chunk_size, size)
            piece = [t if d is None else _narrow(t, d, start, stop) for t, d in zip(flat, dims, strict=True)]
            parts.append(_run_batched(func, piece, spec, dims, out_dims, stop - start, randomness, kwargs))
        return _joined(parts, out_dims)

    return wrapper


def _narrow(t: Any, dim: int, start: int, stop: int) -> Any:
    return tensor_ops.getitem(t, index=(*(slice(None),) * dim, slice(start, stop)))


def _joined(parts: list[Any], out_dims: Any) -> Any:
    """The results of chunks as one, put together where the batch goes; an unbatched one is the same in all."""
    flat = [tree_flatten(part)[0] for part in parts]
    dims = broadcast_prefix(out_dims, parts[0], is_leaf=lambda d: d is None)
    joined = [
        pieces[0] if d is None else tensor_ops.cat(*pieces, dim=d % len(pieces[0].shape))
        for pieces, d in zip(zip(*flat, strict=True), dims, strict=True)
    ]
    return tree_unflatten(joined, tree_flatten(parts[0])[1])


def _in_dims(in_dims: Any, args: tuple[Any, ...], flat: list[Any]) -> list[int | None]:
    if isinstance(in_dims, list):
        in_dims = tuple(in_dims)
    prefix = in_dims if isinstance(in_dims, tuple) else (in_dims,) * len(args)
    dims = broadcast_prefix(prefix, args, is_leaf=lambda d: d is None)
    out: list[int | None] = []
    for t, d in zip(flat, dims, strict=True):
        if d is not None:
            if isinstance(d, bool) or not isinstance(d, int):
                raise ValueError(f"vmap: in_dims must hold ints or None, and holds {d!r}.")
            if not isinstance(t, Variable):
                raise ValueError(f"vmap: in_dims is {d} for an argument of type {type(t).__name__}. Only tensors are batched; "
                    "give None there.")
            n = len(t.shape)
            if not -n <= d < n:
                raise ValueError(f"vmap: in_dims is {d} for a tensor of {n} dimensions (shape {tuple(t.shape)}). It must lie in "
                    f"[{-n}, {n - 1}].")
            d %= n
        out.append(d)
    return out


def _batch_size(flat: list[Any], dims: list[int | None]) -> int:
    sizes = {t.shape[d] for t, d in zip(flat, dims, strict=True) if d is not None}
    if not sizes:
        raise ValueError("vmap: in_dims maps over no argument. Give at least one argument an int.")
    if len(sizes) > 1:
        raise ValueError(f"vmap: the mapped dimensions have sizes {sorted(sizes)}. They must be equal.")
    return int(sizes.pop())


def _run_batched(
    func: Callable[..., Any], flat: list[Any], spec: Any, dims: list[int | None], out_dims: Any, size: int, randomness: str, kwargs: Any
) -> Any:
    with open_level("vmap", size, randomness) as level:
        args = [batch_tensor(level, _to_front(t, d)) if d is not None else t for t, d in zip(flat, dims, strict=True)]
        result = func(*tree_unflatten(args, spec), **kwargs)
    outputs, out_spec = tree_flatten(result)
    out_prefix = broadcast_prefix(out_dims, result, is_leaf=lambda d: d is None)
    out = []
    for o, d in zip(outputs, out_prefix, strict=True):
        if not isinstance(o, Variable):
            raise ValueError(f"vmap: the function must return tensors, and returned {type(o).__name__}.")
        if level_number(o) == level.number:
            if d is None:
                raise ValueError("vmap: out_dims is None for an output that is batched. Give the dimension where the batch is to go.")
            payload = forward_ad.hand_down(o, o._array, lambda t: _payload_of(level, t))
            out.append(_from_front(payload, d))
        elif d is None:
            out.append(o)
        else:
            out.append(_from_front(tensor_ops.expand(o, shape=(size, *o.shape)), d))
    return tree_unflatten(out, out_spec)


def _payload_of(level: Level, t: Any) -> Any:
    """The payload of a batched tensor; of an unbatched one, itself repeated (which costs nothing)."""
    return t._array if level_number(t) == level.number else tensor_ops.expand(t, shape=(level.size, *t.shape))


def _to_front(t: Any, dim: int) -> Any:
    n = len(t.shape)
    return t if dim == 0 else tensor_ops.permute(t, dims=(dim, *(i for i in range(n) if i != dim)))


def _from_front(t: Any, dim: int) -> Any:
    n = len(t.shape)
    if not -n <= dim < n:
        raise IndexError(f"vmap: out_dims is {dim} for a result of {n} dimensions. It must lie in [{-n}, {n - 1}].")
    if dim % n == 0:
        return t
    order = [*range(1, n)]
    order.insert(dim % n, 0)
    return tensor_ops.permute(t, dims=tuple(order))
