"""Random functions under random nestings of transforms, closing over values of all outer levels, on torch and on ndgrad.

torch's vmap refuses most writes, so on its side vmap is a loop, and so are Jacobians; grad, vjp and jvp are its own. Their draws
depend only on a seed and on shapes, so both run the same program.
"""

from __future__ import annotations

import random
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import ndgrad
from tests.examples import at_least

pytestmark = pytest.mark.usefixtures("float64_torch")

# ----- transforms as torch's side has them ---------------------------------------------------------------------------------------


def loop(f: Callable[..., Any], in_dims: Any = 0) -> Callable[..., Any]:
    def map_rows(x: Any, *others: Any) -> Any:
        dim = in_dims if isinstance(in_dims, int) else in_dims[0]
        return torch.stack([f(x.select(dim, i), *others) for i in range(x.shape[dim])])

    return map_rows


def rows(f: Callable[..., Any]) -> Callable[..., Any]:
    def jacobian(x: Any) -> Any:
        out = f(x)
        found = [torch.func.grad(lambda z, i=i: f(z).reshape(-1)[i])(x) for i in range(out.numel())]
        return torch.stack(found).reshape((*out.shape, *x.shape))

    return jacobian


def columns(f: Callable[..., Any]) -> Callable[..., Any]:
    def jacobian(x: Any) -> Any:
        found = [torch.func.jvp(f, (x,), (e.reshape(x.shape),))[1] for e in torch.eye(x.numel())]
        return torch.stack(found, -1).reshape((*found[0].shape, *x.shape))

    return jacobian


LOOPS = types.SimpleNamespace(
    grad=torch.func.grad, vjp=torch.func.vjp, jvp=torch.func.jvp, vmap=loop, jacrev=rows, jacfwd=columns,
    hessian=lambda f: columns(torch.func.grad(f)),
)  # fmt: skip

# ----- one step: a new value out of those there are --------------------------------------------------------------------------------


def unrecorded(lib: Any, a: Any, b: Any) -> Any:
    with lib.no_grad():
        product = a * b
    return product + a


#: Of a value and one that broadcasts with it.
STEPS: list[Callable[[Any, Any, Any], Any]] = [
    lambda lib, a, b: a.sin(),
    lambda lib, a, b: a * b,
    lambda lib, a, b: a - 0.5 * b,
    lambda lib, a, b: a / (b * b + 1.5),
    lambda lib, a, b: lib.maximum(a, b + 0.01),
    lambda lib, a, b: lib.atan2(a + 0.3, b * b + 0.5),
    lambda lib, a, b: (a * a + 0.5) ** (b * 0.2 + 1.5),
    lambda lib, a, b: lib.where(a > 0.1, a, b),
    lambda lib, a, b: (a > 0).to(a.dtype) * b,
    lambda lib, a, b: a.detach() * b,
    lambda lib, a, b: lib.clamp(a, -0.8, 0.9),
    lambda lib, a, b: 1.0 / (a * a + 1.2),
    lambda lib, a, b: a.sum(-1) if a.dim() else a,
    lambda lib, a, b: a.transpose(0, -1) if a.dim() else a,
    lambda lib, a, b: a[0] if a.dim() else a.unsqueeze(0),
    lambda lib, a, b: a.unbind(0)[-1] if a.dim() else a.expand(2),
    lambda lib, a, b: a @ a.transpose(0, 1) if a.dim() == 2 else a.exp() * 0.5,
    unrecorded,
]
#: Tensors to write into.
BUFFERS: list[Callable[[Any, Any], Any]] = [
    lambda lib, a: a.clone(),
    lambda lib, a: a * 1.2,
    lambda lib, a: a.detach() * 0.7,
    lambda lib, a: lib.zeros_like(a),
    lambda lib, a: lib.zeros(tuple(a.shape)),
    lambda lib, a: a.transpose(0, -1).clone().transpose(0, -1) if a.dim() else a.sin(),
]
#: Parts of them, which are written.
PARTS: list[Callable[[Any], Any]] = [
    lambda y: y,
    lambda y: y[0] if y.dim() else y,
    lambda y: y[-1:] if y.dim() else y,
    lambda y: y.transpose(0, -1) if y.dim() else y,
    lambda y: y.unsqueeze(0),
]
WRITES: list[Callable[[Any, Any], Any]] = [
    lambda v, c: v.mul_(c),
    lambda v, c: v.sub_(c),
    lambda v, c: v.copy_(c.expand(v.shape)),
    lambda v, c: v.sin_(),
    lambda v, c: v.mul_(0.7),
]


def broadcast(a: Any, b: Any) -> tuple[int, ...] | None:
    try:
        return np.broadcast_shapes(tuple(a.shape), tuple(b.shape))
    except ValueError:
        return None


def new_value(lib: Any, draw: random.Random, pool: list[Any]) -> Any:
    a = draw.choice(pool)
    if draw.random() < 0.6:
        return draw.choice(STEPS)(lib, a, draw.choice([b for b in pool if broadcast(a, b) is not None]))
    y = draw.choice(BUFFERS)(lib, a)
    for _ in range(draw.randrange(1, 4)):
        part = draw.choice(PARTS)(y)
        values = [c for c in pool if broadcast(part, c) == tuple(part.shape)] or [lib.tensor(0.5)]
        draw.choice(WRITES)(part, draw.choice(values))
    return y


def extended(lib: Any, draw: random.Random, pool: list[Any], most: int) -> list[Any]:
    pool = list(pool)
    for _ in range(draw.randrange(1, most + 1)):
        value = new_value(lib, draw, pool)
        if value.dim() < 4 and value.numel() < 40:
            pool.append(value)
    return pool


# ----- a function, with transforms of other such functions in it -----------------------------------------------------------------------

KINDS = ("grad", "grad of two", "jvp", "vjp", "vmap", "vmap of one of two", "jacrev", "jacfwd", "hessian")


def value_of(lib: Any, func: Any, draw: random.Random, depth: int, pool: list[Any]) -> Any:
    pool = extended(lib, draw, pool, 3)
    if depth:
        pool.append(transformed(lib, func, draw, depth, pool))
        pool = extended(lib, draw, pool, 2)
    last = pool[-1]
    for other in draw.sample(pool, 2):
        if broadcast(last, other) is not None:
            last = last * 0.5 + other.sin()
    return last


def transformed(lib: Any, func: Any, draw: random.Random, depth: int, pool: list[Any]) -> Any:
    kind, x, y, seed = draw.choice(KINDS), draw.choice(pool[-3:]), draw.choice(pool), draw.randrange(1 << 30)
    if "vmap" in kind and not x.dim():
        x = x.expand(2)

    def f(*inner: Any) -> Any:
        return value_of(lib, func, random.Random(seed), depth - 1, [*pool, *inner, inner[0] * 1.0])

    if kind == "grad":
        return func.grad(lambda z: f(z).sum())(x)
    if kind == "grad of two":
        g, h = func.grad(lambda z, w: f(z, w).sum(), argnums=(0, 1))(x, y)
        return g * h.sum()
    if kind == "jvp":
        tangent = draw.choice([p for p in pool if p.shape == x.shape] or [lib.ones_like(x)])
        out, moved = func.jvp(f, (x,), (tangent,))
        return out + moved
    if kind == "vjp":
        out, pull = func.vjp(f, x)
        return pull(out * 0.5)[0]
    if kind == "vmap":
        return func.vmap(f)(x)
    if kind == "vmap of one of two":
        return func.vmap(f, in_dims=(x.dim() - 1, None))(x, y)
    found = func.hessian(lambda z: f(z).sum())(x) if kind == "hessian" else getattr(func, kind)(f)(x)
    return found.reshape((-1, *x.shape)).sum(0)


def run(lib: Any, func: Any, seed: int, depth: int) -> Any:
    draw, values = random.Random(seed), np.random.default_rng(seed)
    shapes = [draw.choice([(2,), (3,), (2, 3), (), (2, 2)]) for _ in range(2)]
    return value_of(lib, func, draw, depth, [lib.tensor(values.uniform(-1, 1, s)) for s in shapes])


@at_least(50)
@given(st.integers(0, 1 << 40), st.integers(1, 3))
def test_nested_transforms_of_random_functions(seed: int, depth: int) -> None:
    with np.errstate(all="ignore"):
        ours = run(ndgrad, ndgrad.func, seed, depth).numpy()
    theirs = run_where_torch_can(seed, depth)
    if theirs is not None and np.abs(theirs).max(initial=0.0) < 1e8:
        np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-8)


#: Messages of torch if it refuses to write a tangent of its own (one without memory, or with one number for all elements),
#: or when the base of a view has come to belong to another level than the view.
REFUSALS = ("ZeroTensor", "single memory location", "a leaf Variable that requires grad")


def run_where_torch_can(seed: int, depth: int) -> Any:
    try:
        return run(torch, LOOPS, seed, depth).numpy()
    except RuntimeError as error:
        if any(words in str(error) for words in REFUSALS):
            return None
        raise
