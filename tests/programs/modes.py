"""Every way to a derivative of a program, as a function that returns what the oracle can say too.

A mode is given `f`, a function of Arrays at one of the entries, and a `Point`; it returns what it found by name:

    value       the result
    tangent     its derivative along the direction: the Jacobian times the direction
    slope       the derivative of the weighted sum of the result along the direction: the gradient times the direction
    curvature   the Hessian of the weighted sum, times the direction
    bend        the direction times that
    batch       pairs of arrays that must be equal: what a batched run gives, and what a loop gives
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import ndgrad
import ndgrad.numpy as dnp
from ndgrad import autograd, func
from ndgrad._src.checkpoint import checkpoint
from ndgrad._src.interpreters import forward_ad
from ndgrad.utils._python_dispatch import BaseTorchDispatchMode

Found = dict[str, Any]
F = Callable[..., Any]


@dataclass
class Point:
    """Point of differentiation: the inputs, a direction for each, and weights for the result."""

    inputs: list[Any]
    direction: list[Any]
    weights: Any
    #: whether plain NumPy fails at other inputs
    fails: Callable[..., bool] = lambda *inputs: False

    @property
    def arrays(self) -> tuple[Any, ...]:
        return tuple(dnp.array(x) for x in self.inputs)

    @property
    def leaves(self) -> tuple[Any, ...]:
        return tuple(dnp.array(x).requires_grad_() for x in self.inputs)

    @property
    def tangents(self) -> tuple[Any, ...]:
        return tuple(dnp.array(d) for d in self.direction)

    @property
    def all(self) -> tuple[int, ...]:
        return tuple(range(len(self.inputs)))

    def scalar(self, f: F) -> F:
        """The weighted sum of the result."""
        return lambda *xs: (f(*xs) * self.weights).sum()

    def pair(self) -> tuple[Any, ...]:
        """Two samples of each input: the point itself, and one nearby."""
        return tuple(dnp.stack([dnp.array(x), dnp.array(x + 0.01 * d)]) for x, d in zip(self.inputs, self.direction))

    def slope(self, gradients: Any) -> Any:
        """Return the derivative in the direction, from gradients, one per input."""
        return flat(gradients) @ flat(self.direction)

    def apply_jacobians(self, jacobians: Any) -> Any:
        """Return the derivative in the direction, from Jacobians, one per input."""
        shape = self.weights.shape
        return sum(plain(j).reshape(*shape, d.size) @ d.ravel() for j, d in zip(jacobians, self.direction))


def flat(arrays: Any) -> Any:
    """Gradients, one per input, as one vector."""
    return np.concatenate([np.ravel(plain(a)) for a in arrays])


def plain(a: Any) -> Any:
    return a.detach().numpy() if isinstance(a, ndgrad.Tensor) else np.asarray(a)


def dot(arrays: Any, others: Any) -> Any:
    return sum((a * b).sum() for a, b in zip(arrays, others))


MODES: dict[str, Callable[[F, Point], Found]] = {}


def mode(name: str) -> Callable[[Any], Any]:
    def add(run: Any) -> Any:
        MODES[name] = run
        return run

    return add


# ----- the graph ------------------------------------------------------------------------------------------------------


def depends(output: Any) -> bool:
    return isinstance(output, ndgrad.Tensor) and output.requires_grad


def gradients(output: Any, xs: tuple[Any, ...], **settings: Any) -> tuple[Any, ...]:
    """autograd.grad; zeros for an output that says that it depends on nothing, which the oracle may deny."""
    if not depends(output):
        return tuple(dnp.zeros(x.shape) for x in xs)
    return autograd.grad(output, xs, allow_unused=True, materialize_grads=True, **settings)


def backward(f: F, at: Point, xs: tuple[Any, ...]) -> Found:
    result = f(*xs)
    loss = (result * at.weights).sum()
    if depends(loss):
        loss.backward()
    return {"value": plain(result), "slope": at.slope(np.zeros(x.shape) if x.grad is None else x.grad for x in xs)}


@mode("backward")
def _(f: F, at: Point) -> Found:
    return backward(f, at, at.leaves)


@mode("backward from torch's tensor class")
def _(f: F, at: Point) -> Found:
    """NumPy's functions take tensors of either tensor_type."""
    return backward(
        lambda *xs: f(*(np.multiply(x, 1.0) for x in xs)),
        at,
        tuple(ndgrad.tensor(x).requires_grad_() for x in at.inputs),
    )


@mode("backward twice")
def _(f: F, at: Point) -> Found:
    xs = at.leaves
    loss = (f(*xs) * at.weights).sum()
    gradients(loss, xs, retain_graph=True)
    return {"slope": at.slope(gradients(loss, xs))}


@mode("backward through pack hooks")
def _(f: F, at: Point) -> Found:
    with autograd.graph.saved_tensors_hooks(lambda t: t.detach().clone(), lambda t: t):
        return backward(f, at, at.leaves)


@mode("backward with hooks on leaves")
def _(f: F, at: Point) -> Found:
    """The engine counts before it runs, so that a leaf's hook sees the whole gradient."""
    xs, seen = at.leaves, [0 for _ in at.inputs]
    for i, x in enumerate(xs):
        x.register_hook(lambda g, i=i: seen.__setitem__(i, seen[i] + 1))
    found = backward(f, at, xs)
    assert all(n == (x.grad is not None) for n, x in zip(seen, xs)), f"hooks ran {seen} times"
    return found


@mode("backward in a dispatch mode")
def _(f: F, at: Point) -> Found:
    with BaseTorchDispatchMode():
        return backward(f, at, at.leaves)


@mode("backward in guard mode")
def _(f: F, at: Point) -> Found:
    with autograd.guard():
        return backward(f, at, at.leaves)


@mode("backward in anomaly mode")
def _(f: F, at: Point) -> Found:
    with autograd.detect_anomaly(check_nan=False):
        return backward(f, at, at.leaves)


@mode("backward of batched cotangents")
def _(f: F, at: Point) -> Found:
    xs = at.leaves
    result = f(*xs)
    if not depends(result):
        return {"tangent": np.zeros(result.shape)}
    rows = dnp.eye(result.size).reshape((result.size, *result.shape))
    return {"tangent": at.apply_jacobians(gradients(result, xs, grad_outputs=rows, is_grads_batched=True))}


@mode("backward of checkpoint")
def _(f: F, at: Point) -> Found:
    return backward(lambda *xs: checkpoint(f, *xs, use_reentrant=False), at, at.leaves)


@mode("backward of reentrant checkpoint")
def _(f: F, at: Point) -> Found:
    return backward(lambda *xs: checkpoint(f, *xs, use_reentrant=True), at, at.leaves)


@mode("backward of functionalize")
def _(f: F, at: Point) -> Found:
    return backward(func.functionalize(f), at, at.leaves)


@mode("double backward")
def _(f: F, at: Point) -> Found:
    xs = at.leaves
    loss = (f(*xs) * at.weights).sum()
    first = gradients(loss, xs, create_graph=True)
    return {"slope": at.slope(first), "curvature": flat(gradients(dot(first, at.tangents), xs))}


@mode("functional jacobian")
def _(f: F, at: Point) -> Found:
    return {"tangent": at.apply_jacobians(autograd.functional.jacobian(f, at.arrays))}


@mode("functional hvp")
def _(f: F, at: Point) -> Found:
    return {"curvature": flat(autograd.functional.hvp(at.scalar(f), at.arrays, at.tangents)[1])}


@mode("dual numbers")
def _(f: F, at: Point) -> Found:
    with forward_ad.dual_level():
        result = f(*(forward_ad.make_dual(x, d) for x, d in zip(at.arrays, at.tangents)))
        primal, tangent = forward_ad.unpack_dual(result) if isinstance(result, ndgrad.Tensor) else (result, None)
    return {"value": plain(primal), "tangent": np.zeros(np.shape(primal)) if tangent is None else plain(tangent)}


@mode("dual numbers in backward")
def _(f: F, at: Point) -> Found:
    xs = at.leaves
    with forward_ad.dual_level():
        result = at.scalar(f)(*(forward_ad.make_dual(x, d) for x, d in zip(xs, at.tangents)))
        tangent = forward_ad.unpack_dual(result).tangent if isinstance(result, ndgrad.Tensor) else None
        return {"curvature": flat(gradients(tangent, xs))}


# ----- compiled -------------------------------------------------------------------------------------------------------

#: Functions compiled since the last check: `check` asks them for the parts that ran eagerly, and the reasons.
COMPILED: list[Any] = []


def compiled(f: F, **options: Any) -> Any:
    COMPILED.append(ndgrad.compile(f, **options))
    return COMPILED[-1]


def repeated(f: F, at: Point, **options: Any) -> Found:
    """The first call is traced, the second and third are not, and the fourth meets other values, for which eager is the
    oracle."""
    run = compiled(f, **options)
    found, *again = (backward(run, at, at.leaves) for _ in range(3))
    pairs = [(other[name], found[name]) for other in again for name in found]
    elsewhere = tuple(dnp.array(x + 0.013 * d) for x, d in zip(at.inputs, at.direction))
    try:
        expected = plain(f(*elsewhere))
    except (IndexError, ValueError):  # the program itself fails there
        return {**found, "batch": pairs}
    return {**found, "batch": [*pairs, (plain(run(*elsewhere)), expected)]}


@mode("backward of compile")
def _(f: F, at: Point) -> Found:
    return repeated(f, at)


@mode("backward of compile, sizes open")
def _(f: F, at: Point) -> Found:
    return repeated(f, at, dynamic=True)


@mode("backward of compile, strict")
def _(f: F, at: Point) -> Found:
    return repeated(f, at, strict=True)


@mode("double backward of compile")
def _(f: F, at: Point) -> Found:
    xs = at.leaves
    loss = (compiled(f)(*xs) * at.weights).sum()
    first = gradients(loss, xs, create_graph=True)
    return {"slope": at.slope(first), "curvature": flat(gradients(dot(first, at.tangents), xs))}


@mode("compile of backward")
def _(f: F, at: Point) -> Found:
    """The gradients that a program leaves, and adds to in its second call."""
    xs = at.leaves

    def step(*xs: Any) -> Any:
        loss = at.scalar(f)(*xs)
        if depends(loss):
            loss.backward()
        return loss

    run, slopes = compiled(step), []
    for _ in range(2):
        run(*xs)
        slopes.append(at.slope(np.zeros(x.shape) if x.grad is None else x.grad for x in xs))
    return {"slope": slopes[0], "batch": [(slopes[1], 2 * slopes[0])]}


@mode("compile of grad")
def _(f: F, at: Point) -> Found:
    return {"slope": at.slope(compiled(func.grad(at.scalar(f), at.all))(*at.arrays))}


@mode("grad of compile")
def _(f: F, at: Point) -> Found:
    return {"slope": at.slope(func.grad(compiled(at.scalar(f)), at.all)(*at.arrays))}


@mode("compile of grad of compile")
def _(f: F, at: Point) -> Found:
    return {"slope": at.slope(compiled(func.grad(at.scalar(compiled(f)), at.all))(*at.arrays))}


@mode("compile of jvp")
def _(f: F, at: Point) -> Found:
    result, tangent = compiled(lambda xs, ts: func.jvp(f, xs, ts))(at.arrays, at.tangents)
    return {"value": plain(result), "tangent": plain(tangent)}


@mode("jvp of compile")
def _(f: F, at: Point) -> Found:
    result, tangent = func.jvp(compiled(f), at.arrays, at.tangents)
    return {"value": plain(result), "tangent": plain(tangent)}


@mode("vjp of compile")
def _(f: F, at: Point) -> Found:
    result, pull = func.vjp(compiled(f), *at.arrays)
    return {"value": plain(result), "slope": at.slope(pull(dnp.array(at.weights)))}


@mode("compile of jacrev")
def _(f: F, at: Point) -> Found:
    return {"tangent": at.apply_jacobians(compiled(func.jacrev(f, at.all))(*at.arrays))}


@mode("compile of hvp")
def _(f: F, at: Point) -> Found:
    inner = func.grad(at.scalar(f), at.all)
    first, second = compiled(lambda xs, ts: func.jvp(inner, xs, ts))(at.arrays, at.tangents)
    return {"slope": at.slope(first), "curvature": flat(second)}


# ----- one transform --------------------------------------------------------------------------------------------------


@mode("grad")
def _(f: F, at: Point) -> Found:
    return {"slope": at.slope(func.grad(at.scalar(f), at.all)(*at.arrays))}


@mode("vjp")
def _(f: F, at: Point) -> Found:
    result, pull = func.vjp(f, *at.arrays)
    return {"value": plain(result), "slope": at.slope(pull(dnp.array(at.weights)))}


@mode("jvp")
def _(f: F, at: Point) -> Found:
    result, tangent = func.jvp(f, at.arrays, at.tangents)
    return {"value": plain(result), "tangent": plain(tangent)}


@mode("linearize")
def _(f: F, at: Point) -> Found:
    result, push = func.linearize(f, *at.arrays)
    return {"value": plain(result), "tangent": plain(push(*at.tangents))}


@mode("jacfwd")
def _(f: F, at: Point) -> Found:
    return {"tangent": at.apply_jacobians(func.jacfwd(f, at.all)(*at.arrays))}


@mode("jacrev")
def _(f: F, at: Point) -> Found:
    return {"tangent": at.apply_jacobians(func.jacrev(f, at.all)(*at.arrays))}


@mode("jet")
def _(f: F, at: Point) -> Found:
    result, (first, second) = func.jet(f, at.arrays, [[d, None] for d in at.tangents])
    return {"value": plain(result), "tangent": plain(first), "bend": (plain(second) * at.weights).sum()}


# ----- two and more deep ----------------------------------------------------------------------------------------------


@mode("hvp")
def _(f: F, at: Point) -> Found:
    scalar = at.scalar(f)
    return {"curvature": flat(func.hvp(lambda xs: scalar(*xs), (at.arrays,), (at.tangents,)))}


@mode("jvp of grad")
def _(f: F, at: Point) -> Found:
    first, second = func.jvp(func.grad(at.scalar(f), at.all), at.arrays, at.tangents)
    return {"slope": at.slope(first), "curvature": flat(second)}


@mode("grad of grad")
def _(f: F, at: Point) -> Found:
    inner = func.grad(at.scalar(f), at.all)
    return {"curvature": flat(func.grad(lambda *xs: dot(inner(*xs), at.tangents), at.all)(*at.arrays))}


@mode("grad of jvp")
def _(f: F, at: Point) -> Found:
    along = lambda *xs: func.jvp(at.scalar(f), xs, at.tangents)[1]
    return {"curvature": flat(func.grad(along, at.all)(*at.arrays))}


@mode("jvp of jvp")
def _(f: F, at: Point) -> Found:
    along = lambda *xs: func.jvp(at.scalar(f), xs, at.tangents)[1]
    return {"bend": plain(func.jvp(along, at.arrays, at.tangents)[1])}


def hessian(derivative: Callable[[F, Any], F]) -> Callable[[F, Point], Found]:
    def run(f: F, at: Point) -> Found:
        blocks = derivative(at.scalar(f), at.all)(*at.arrays)
        sizes = [x.size for x in at.inputs]
        whole = np.block([[plain(b).reshape(m, n) for b, n in zip(row, sizes)] for row, m in zip(blocks, sizes)])
        return {"curvature": whole @ flat(at.direction), "batch": [(whole, whole.T)]}

    return run


MODES["hessian"] = hessian(lambda f, argnums: func.hessian(f, argnums))
MODES["jacrev of jacrev"] = hessian(lambda f, argnums: func.jacrev(func.jacrev(f, argnums), argnums))
MODES["jacfwd of jacfwd"] = hessian(lambda f, argnums: func.jacfwd(func.jacfwd(f, argnums), argnums))
MODES["compile of hessian"] = hessian(lambda f, argnums: compiled(func.hessian(f, argnums)))
MODES["hessian of compile"] = hessian(lambda f, argnums: func.hessian(compiled(f), argnums))


if importlib.util.find_spec("scipy") is not None:  # SciPy holds the matrices

    @mode("sparse jacobian")
    def _(f: F, at: Point) -> Found:
        matrix = func.sparse_jacobian(f, *at.arrays, argnums=at.all)(*at.arrays)
        return {"tangent": (matrix @ flat(at.direction)).reshape(at.weights.shape)}

    @mode("sparse hessian")
    def _(f: F, at: Point) -> Found:
        matrix = func.sparse_hessian(at.scalar(f), *at.arrays, argnums=at.all)(*at.arrays)
        return {"curvature": matrix @ flat(at.direction)}


@mode("grad of functionalize")
def _(f: F, at: Point) -> Found:
    return {"slope": at.slope(func.grad(func.functionalize(at.scalar(f)), at.all)(*at.arrays))}


@mode("functionalize of jacfwd")
def _(f: F, at: Point) -> Found:
    return {"tangent": at.apply_jacobians(func.functionalize(func.jacfwd(f, at.all))(*at.arrays))}


@mode("functionalize of grad")
def _(f: F, at: Point) -> Found:
    return {"slope": at.slope(func.functionalize(func.grad(at.scalar(f), at.all))(*at.arrays))}


@mode("grad of checkpoint")
def _(f: F, at: Point) -> Found:
    return {
        "slope": at.slope(func.grad(lambda *xs: checkpoint(at.scalar(f), *xs, use_reentrant=False), at.all)(*at.arrays))
    }


@mode("checkpoint of grad")
def _(f: F, at: Point) -> Found:
    """Backward of a gradient that is computed again."""
    xs = at.leaves
    inner = func.grad(at.scalar(f), at.all)
    product = checkpoint(lambda *xs: dot(inner(*xs), at.tangents), *xs, use_reentrant=False)
    return {"curvature": flat(gradients(product, xs))}


@mode("backward of grad")
def _(f: F, at: Point) -> Found:
    xs = at.leaves
    product = dot(func.grad(at.scalar(f), at.all)(*xs), at.tangents)
    return {"curvature": flat(gradients(product, xs))}


# ----- levels that close over values of other levels ------------------------------------------------------------------


def block(f: F, at: Point, outer: int, inner: int) -> F:
    """The derivative along the direction of one input, as a function of one input, where the program closes over both;
    by `grad` inside."""
    xs, along = list(at.arrays), at.tangents[inner]

    def of_outer(x: Any) -> Any:
        def of_inner(z: Any) -> Any:
            here = [x if k == outer else a for k, a in enumerate(xs)]
            here[inner] = z
            return at.scalar(f)(*here)

        return (func.grad(of_inner)(x if inner == outer else xs[inner]) * along).sum()

    return of_outer


def by_blocks(derivative: Callable[[F, Any], Any]) -> Callable[[F, Point], Found]:
    """The Hessian times the direction, block by block."""

    def run(f: F, at: Point) -> Found:
        return {
            "curvature": flat(sum(plain(derivative(block(f, at, i, j), at.arrays[i])) for j in at.all) for i in at.all)
        }

    return run


MODES["grad of closed grad"] = by_blocks(lambda g, x: func.grad(g)(x))
MODES["jacfwd of closed grad"] = by_blocks(lambda g, x: func.jacfwd(g)(x))
MODES["vjp of closed grad"] = by_blocks(lambda g, x: func.vjp(g, x)[1](dnp.array(1.0))[0])


# ----- batches, against a loop ----------------------------------------------------------------------------------------


class Unfit(Exception):
    """The program itself fails at another sample of the batch: an index that is computed there is out of bounds."""


def one_by_one(f: F, at: Point, pair: tuple[Any, ...]) -> list[Any]:
    found = []
    for i in range(2):
        sample = [x[i, ...].copy() for x in pair]
        try:
            found.append(f(*sample))
        except IndexError as error:
            if at.fails(*map(plain, sample)):
                raise Unfit from error
            raise
    return found


def batched(derivative: Callable[[F, Point], F], by: Callable[[F], F] = func.vmap) -> Callable[[F, Point], Found]:
    """vmap of a derivative, against the same derivative of one sample after the other."""

    def run(f: F, at: Point) -> Found:
        single, pair = derivative(f, at), at.pair()
        apart = list(map(leaves_of, one_by_one(single, at, pair)))
        together = leaves_of(by(single)(*pair))
        return {"batch": [(plain(t), np.stack([plain(a), plain(b)])) for t, a, b in zip(together, *apart, strict=True)]}

    return run


def leaves_of(result: Any) -> list[Any]:
    return [leaf for part in result for leaf in leaves_of(part)] if isinstance(result, tuple) else [result]


MODES["vmap"] = batched(lambda f, at: f)
MODES["vmap of grad"] = batched(lambda f, at: func.grad(at.scalar(f), at.all))
MODES["vmap of jacfwd"] = batched(lambda f, at: func.jacfwd(f, at.all))
MODES["vmap of jacrev"] = batched(lambda f, at: func.jacrev(f, at.all))
MODES["vmap of hessian"] = batched(lambda f, at: func.hessian(at.scalar(f), at.all))
MODES["vmap of compile"] = batched(lambda f, at: f, lambda f: func.vmap(compiled(f)))
MODES["compile of vmap"] = batched(lambda f, at: f, lambda f: compiled(func.vmap(f)))
MODES["compile of vmap of grad"] = batched(lambda f, at: func.grad(at.scalar(f), at.all), lambda f: compiled(func.vmap(f)))


@mode("grad of vmap")
def _(f: F, at: Point) -> Found:
    pair = at.pair()
    apart = one_by_one(func.grad(at.scalar(f), at.all), at, pair)
    together = func.grad(lambda *xs: (func.vmap(f)(*xs) * at.weights).sum(), at.all)(*pair)
    return {"batch": [(plain(t), np.stack([plain(a), plain(b)])) for t, a, b in zip(together, *apart, strict=True)]}


@mode("jvp of vmap")
def _(f: F, at: Point) -> Found:
    pair, directions = at.pair(), tuple(dnp.stack([d, d]) for d in at.tangents)
    apart = one_by_one(lambda *xs: func.jvp(f, xs, at.tangents)[1], at, pair)
    together = func.jvp(lambda *xs: func.vmap(f)(*xs), pair, directions)[1]
    return {"batch": [(plain(together), np.stack([plain(a) for a in apart]))]}


#: Modes whose answers are second derivatives.
SECOND = {
    "double backward", "functional hvp", "dual numbers in backward", "jet", "hvp", "jvp of grad", "grad of grad",
    "grad of jvp", "jvp of jvp", "hessian", "jacrev of jacrev", "jacfwd of jacfwd", "sparse hessian",
    "checkpoint of grad", "backward of grad", "grad of closed grad", "jacfwd of closed grad", "vjp of closed grad",
    "vmap of hessian", "double backward of compile", "compile of hvp", "compile of hessian", "hessian of compile",
}  # fmt: skip
