"""Buffers inside transforms: values are saved, and then their memory is written, at any level and through any view.

Random programs take derivatives in every composition of modes. Forward over forward saves nothing, so it is the reference. For `Array`
the others must agree with it; for `Tensor` they may refuse instead, because a saved value was overwritten.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ndgrad
import ndgrad.autograd.forward_ad as forward_ad
import ndgrad.numpy as dnp
from ndgrad._src.checkpoint import checkpoint
from ndgrad.func import grad, hessian, jacfwd, jacrev, jvp, vmap
from tests.core.functions import Cube

TENSOR_TYPES: dict[str, Callable[[Any], Any]] = {"numpy": dnp.array, "torch": ndgrad.tensor}
Q, X, C = np.array([[0.6, -0.4], [0.1, 0.8]]), np.array([[0.9, 0.5], [-0.3, 0.7]]), np.array([[0.3, -0.8], [0.2, 0.45]])


class Exponential(ndgrad.autograd.Function):
    """Saves its output."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x):
        return x.exp()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(output)
        ctx.save_for_forward(output)

    @staticmethod
    def backward(ctx, g):
        return ctx.saved_tensors[0] * g

    @staticmethod
    def jvp(ctx, t):
        return ctx.saved_tensors[0] * t


# ----- programs: functions of q, of an inner level, and of x, of an outer one ------------------------------------------------------

BUFFERS: dict[str, Callable[..., Any]] = {
    "of the inner level": lambda q, x, c: q * 1.2,
    "of the outer level": lambda q, x, c: x * 1.2,
    "of both": lambda q, x, c: q * x,
    "of none": lambda q, x, c: c * 1.2,
    "zeros": lambda q, x, c: ndgrad.zeros_like(c),
    "of a tangent": lambda q, x, c: jvp(lambda p: p * p * x, (q,), (x,))[1],
}
VALUES: dict[str, Callable[..., Any]] = {
    "q": lambda q, x, c: q,
    "x": lambda q, x, c: x,
    "c": lambda q, x, c: c,
    "qx": lambda q, x, c: q * x,
}
PARTS: dict[str, Callable[[Any], Any]] = {
    "all": lambda y: y,
    "row": lambda y: y[0:1],
    "column": lambda y: y[:, 1:2],
    "transposed": lambda y: y.t(),
    "unsqueezed": lambda y: y.unsqueeze(0),
}
USES: dict[str, Callable[[Any, Any], Any]] = {
    "square": lambda v, w: (v * v).sum(),
    "sin": lambda v, w: v.sin().sum(),
    "exp": lambda v, w: v.exp().sum(),
    "product": lambda v, w: (v * w).sum(),
    "quotient": lambda v, w: (v / (w * w + 1.5)).sum(),
    "custom, of its input": lambda v, w: Cube.apply(v).sum(),
    "custom, of its output": lambda v, w: Exponential.apply(v).sum(),
}
WRITES: dict[str, Callable[[Any, Any], Any]] = {
    "multiply": lambda v, w: v.mul_(w),
    "assign": lambda v, w: v.copy_(w),
    "sin": lambda v, w: v.sin_(),
    "subtract": lambda v, w: v.sub_(0.5),
}


def instructions(names: dict[str, Any]) -> Any:
    part, value = st.sampled_from(sorted(PARTS)), st.sampled_from(sorted(VALUES))
    return st.tuples(st.just("use" if names is USES else "write"), st.sampled_from(sorted(names)), part, value, st.booleans())


programs = st.tuples(st.sampled_from(sorted(BUFFERS)), st.lists(instructions(USES) | instructions(WRITES), min_size=1, max_size=4))


def function(program: tuple[str, list[Any]], constant: Any) -> Callable[[Any, Any], Any]:
    """Return a scalar function of q and x; an instruction uses a fresh view of the buffer, or one that was taken before."""
    buffer, steps = program

    def f(q: Any, x: Any) -> Any:
        y, taken = BUFFERS[buffer](q, x, constant), {}
        total = (q * x).sum()
        for kind, name, part, value, again in steps:
            v = taken.setdefault(part, PARTS[part](y)) if again else PARTS[part](y)
            w = PARTS[part](VALUES[value](q, x, constant))
            if kind == "use":
                total = total + USES[name](v, w)
            else:
                WRITES[name](v, w)
        return total + (y * y).sum()

    return f


# ----- compositions, each with its reference ------------------------------------------------------------------------------------------

SECOND = {"jacfwd of jacrev": hessian, "jacrev of jacfwd": lambda f: jacrev(jacfwd(f)), "jacrev of jacrev": lambda f: jacrev(jacrev(f))}


def pairs(f: Any, q: Any, x: Any) -> dict[str, tuple[Any, Any]]:
    """Return compositions over q inside and x outside: one through saved values, and one that saves none."""
    inner, reference = (lambda x: grad(lambda q: f(q, x))(q)), (lambda x: jacfwd(lambda q: f(q, x))(q))
    plain = lambda x: jacfwd(jacfwd(lambda q: f(q, x)))(q).sum()
    both = ndgrad.stack([x, x * 0.5])
    mixed, third = cache(lambda: jacfwd(reference)(x)), cache(lambda: jacfwd(plain)(x))
    each = cache(lambda: ndgrad.stack([plain(x), plain(x * 0.5)]))
    found = {
        "jacrev of grad": (lambda: jacrev(inner)(x), mixed),
        "jacfwd of grad": (lambda: jacfwd(inner)(x), mixed),
        "jacrev of jacfwd": (lambda: jacrev(reference)(x), mixed),
        "vmap of grad": (lambda: vmap(inner)(both), lambda: ndgrad.stack([reference(x), reference(x * 0.5)])),
    }
    for name, second in SECOND.items():
        ours = lambda x, d=second: d(lambda q: f(q, x))(q).sum()
        found[f"vmap of {name}"] = (lambda g=ours: vmap(g)(both), each)
        found[f"grad of {name}"] = (lambda g=ours: grad(g)(x), third)
    return found


@pytest.mark.parametrize("tensor_type", TENSOR_TYPES)
@given(programs)
def test_derivatives_through_buffers_that_are_written_after_a_save(tensor_type: str, program: Any) -> None:
    make = TENSOR_TYPES[tensor_type]
    f = function(program, make(C))
    for name, (way, reference) in pairs(f, make(Q), make(X)).items():
        try:
            found = way()
        except RuntimeError as error:
            if tensor_type == "torch" and "modified by an inplace operation" in str(error):
                continue
            raise
        np.testing.assert_allclose(np.asarray(found.detach()), np.asarray(reference().detach()), rtol=1e-8, atol=1e-9, err_msg=name)


# ----- former faults --------------------------------------------------------------------------------------------------------------------


def overwritten_dual(make: Any) -> Any:
    """Return the tangent of the gradient of sum(x^3) / 3 at ones, after the saved x is overwritten."""
    with forward_ad.dual_level():
        x = make([1.0, 1.0]).requires_grad_()
        dual = forward_ad.make_dual(x, make([1.0, 2.0]))
        u = dual * 1.0
        y = (u * u * u).sum() / 3.0
        u.mul_(5.0)
        (g,) = ndgrad.autograd.grad(y, x, create_graph=True)
        return forward_ad.unpack_dual(g).tangent


def test_a_dual_that_was_saved_is_not_overwritten_unseen():
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        overwritten_dual(ndgrad.tensor)
    np.testing.assert_allclose(np.asarray(overwritten_dual(dnp.array).detach()), [2.0, 4.0])


def overwritten_below(make: Any) -> Any:
    """An op of the inner level also runs on the outer one, and saves a value there that the outer level writes later."""

    def outer(x: Any) -> Any:
        def inner(z: Any) -> Any:
            y = ndgrad.zeros_like(x.detach())
            total = (y * z).sum()
            y.sub_(x)
            return total

        return ndgrad.func.vjp(inner, x * 0.5)[0]  # 0 for any x

    return grad(outer)(make([0.9, 0.5]))


def test_what_an_outer_level_saved_is_not_overwritten_unseen():
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        overwritten_below(ndgrad.tensor)
    np.testing.assert_allclose(np.asarray(overwritten_below(dnp.array)), [0.0, 0.0])


@pytest.mark.parametrize("tensor_type", TENSOR_TYPES)
def test_a_result_without_dimensions_is_written_through_its_view(tensor_type):
    """Inside a level it is a NumPy scalar, which gets memory only when it is viewed."""
    x = TENSOR_TYPES[tensor_type](0.4)

    def f(z: Any) -> Any:
        y = (2.0 - z) * 1.2
        y[...] = z.cos()
        return y * 1.0

    for derivative in (grad, jacrev, jacfwd, lambda f: lambda x: grad(lambda y: grad(f)(y))(x)):
        order = 1 if derivative in (grad, jacrev, jacfwd) else 2
        np.testing.assert_allclose(np.asarray(derivative(f)(x)), [-np.sin(0.4), -np.cos(0.4)][order - 1])


# ----- results that their own nodes have saved -----------------------------------------------------------------------------------------

RESULTS: dict[str, Callable[[Any], Any]] = {
    "exp": np.exp,
    "tanh": np.tanh,
    "sqrt": lambda x: np.sqrt(x + 2.0),
    "reciprocal": lambda x: np.reciprocal(x + 2.0),
    "cumprod": lambda x: np.cumprod(x + 1.5),
    "inv": lambda x: np.linalg.inv(np.outer(x, x) + 2 * np.eye(2)),
    "solve": lambda x: np.linalg.solve(np.outer(x, x) + 2 * np.eye(2), x),
    "cholesky": lambda x: np.linalg.cholesky(np.outer(x, x) + 2 * np.eye(2)),
    "std": lambda x: np.std(np.outer(x, np.array([1.0, 2.0, 4.0])), axis=1),
    "custom": lambda x: Exponential.apply(x),
}


@pytest.mark.parametrize("name", RESULTS)
def test_a_result_that_its_node_saved_may_be_written_two_transforms_deep(name: str) -> None:
    def f(x: Any) -> Any:
        v = RESULTS[name](x)
        v *= 2.0
        v[0] = v[0] * v[-1]
        return (v * v * v).sum()

    def g(x: Any) -> Any:  # the same out of place
        v = RESULTS[name](x) * 2.0
        return ((v[0] * v[-1]) ** 3).sum() + (v[1:] ** 3).sum()

    x, rows = dnp.array([0.3, 0.7]), dnp.array([[0.3, 0.7], [-0.2, 0.4]])
    expected = np.asarray(jacfwd(jacfwd(g))(x))
    for second in (hessian(f), jacrev(jacrev(f)), jacfwd(grad(f)), jacrev(grad(f)), jacrev(jacfwd(f))):
        np.testing.assert_allclose(np.asarray(second(x)), expected, rtol=1e-8)
    one = dnp.array([1.0, 1.0])
    np.testing.assert_allclose(np.asarray(grad(lambda z: grad(f)(z).sum())(x)), expected.sum(0), rtol=1e-8)
    product = ndgrad.func.hvp(f, (x,), (one,))
    assert type(product) is dnp.Array
    np.testing.assert_allclose(product.numpy(), expected.sum(1), rtol=1e-8)
    np.testing.assert_allclose(np.asarray(vmap(grad(f))(rows)), np.stack([np.asarray(grad(g)(r)) for r in rows]), rtol=1e-8)


# ----- arguments and results of a vjp ----------------------------------------------------------------------------------------------------


def scaled(t: Any) -> None:
    t *= 2.0


@pytest.mark.parametrize("tensor_type", TENSOR_TYPES)
@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("what", ["argument", "result", "constant"])
def test_a_vjp_knows_of_writes_to_its_argument_and_its_result(tensor_type: str, nested: bool, what: str) -> None:
    x, c = TENSOR_TYPES[tensor_type]([0.5, 0.8]), TENSOR_TYPES[tensor_type]([1.5, -2.0])
    one = TENSOR_TYPES[tensor_type]([1.0, 1.0])

    def pulled(x: Any) -> Any:
        x, k = x * 1.0, c * 1.0
        value, pull = ndgrad.func.vjp(lambda z: (z * k).exp() if tensor_type == "torch" else np.exp(z * k), x)
        scaled({"argument": x, "result": value, "constant": k}[what])
        return pull(one)[0]

    slope = np.asarray(c.numpy() * np.exp(x.numpy() * c.numpy()))
    expected = slope * c.numpy() if nested else slope
    run = (lambda: grad(lambda z: pulled(z).sum())(x)) if nested else (lambda: pulled(x))
    # The argument itself is not saved here. Overwritten results of an outer transform are not kept.
    if what != "argument" and (tensor_type == "torch" or (what == "result" and nested)):
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            run()
    else:
        np.testing.assert_allclose(run().numpy(), expected)


# ----- in modes that take every call through the general path ----------------------------------------------------------------------


def written_after_a_product(y: Any) -> Any:
    t = y.copy()
    t -= t * t
    return t.sum()


def written_after_a_sine(y: Any) -> Any:
    t = y * 1.0
    u = np.sin(t)
    t[1:] *= 3.0
    return (u * t).sum()


MODES: dict[str, Callable[[], Any]] = {
    "debug": ndgrad.autograd.debug,
    "guard": ndgrad.autograd.guard,
    "pack hooks": lambda: ndgrad.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t),
}
TWO_DEEP: dict[str, Callable[[Any, Any], Any]] = {
    "hessian": lambda f, x: hessian(f)(x),
    "vmap of grad": lambda f, x: vmap(grad(f))(dnp.stack([x, x * 2.0])),
    "jvp of grad": lambda f, x: jvp(grad(f), (x,), (x,))[1],
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", TWO_DEEP)
@pytest.mark.parametrize("f", [written_after_a_product, written_after_a_sine])
def test_old_values_are_rebuilt_two_levels_deep_in_every_mode(f: Any, name: str, mode: str) -> None:
    x = dnp.array([0.1, 0.2, 0.3])
    expected = TWO_DEEP[name](f, x)
    with MODES[mode]():
        found = TWO_DEEP[name](f, x)
    np.testing.assert_allclose(np.asarray(found), np.asarray(expected), rtol=1e-12)


@pytest.mark.parametrize("f", [written_after_a_product, written_after_a_sine])
def test_old_values_are_rebuilt_in_a_transform_that_is_checkpointed(f: Any) -> None:
    weights = dnp.array([1.0, -2.0, 0.5])
    x = dnp.array([0.1, 0.2, 0.3]).requires_grad_()
    product = lambda x: (grad(f)(x) * weights).sum()
    (found,) = ndgrad.autograd.grad(checkpoint(product, x, use_reentrant=False), x)
    np.testing.assert_allclose(np.asarray(found), np.asarray(hessian(f)(x.detach())) @ np.asarray(weights), rtol=1e-12)


def view_written_after_a_product(y: Any) -> Any:
    t = y * 1.0
    s = t[::-1]
    u = np.exp(s) * s
    t[0] = 2.0
    return u.sum()


@pytest.mark.parametrize("name", TWO_DEEP)
def test_a_view_that_a_pack_hook_handed_back_is_rebuilt_as_a_view(name: str) -> None:
    """Its base is the value left by the write; the view has the same shape, in another order."""
    x = dnp.array([0.1, 0.2, 0.3])
    expected = TWO_DEEP[name](view_written_after_a_product, x)
    with MODES["pack hooks"]():
        found = TWO_DEEP[name](view_written_after_a_product, x)
    np.testing.assert_allclose(np.asarray(found), np.asarray(expected), rtol=1e-12)


@pytest.mark.parametrize("part", [lambda t: t, lambda t: t[::-1]], ids=["whole", "view"])
def test_an_argument_of_a_checkpoint_that_is_overwritten_keeps_its_tangent(part: Any) -> None:
    def f(x: Any, run: Any) -> Any:
        t = x * 1.0
        u = run(lambda s: np.exp(s) * s, part(t))
        t[0] = 2.0
        return u.sum()

    x, direction = dnp.array([0.1, 0.2, 0.3]).requires_grad_(), dnp.array([1.0, -2.0, 0.5])
    with forward_ad.dual_level():
        result = f(forward_ad.make_dual(x, direction), lambda g, s: checkpoint(g, s, use_reentrant=False))
        (found,) = ndgrad.autograd.grad(forward_ad.unpack_dual(result).tangent, x)
    values = np.array([0.1, 0.2, 0.3])  # The second derivative of exp(s) s is exp(s) (s + 2).
    np.testing.assert_allclose(np.asarray(found), np.exp(values) * (values + 2.0) * [1.0, -2.0, 0.5], rtol=1e-12)


DECOMPOSITIONS: dict[str, Callable[[Any], Any]] = {
    "qr": lambda a: np.linalg.qr(a),
    "svd": lambda a: np.linalg.svd(a)[:2],
    "eigh": lambda a: np.linalg.eigh(a @ a.T),
    "inv and cholesky": lambda a: (np.linalg.inv(a), np.linalg.cholesky(a @ a.T + np.eye(2))),
}


@pytest.mark.parametrize("name", DECOMPOSITIONS)
def test_the_results_of_a_decomposition_may_be_written_after_forward_mode_has_used_them(name: str) -> None:
    """Their tangents are computed from them and from their adjoints: for real numbers these are views, which must see the write."""

    def f(x: Any, written: bool) -> Any:
        first, second = DECOMPOSITIONS[name](x)
        made = (first * C[: first.shape[0]]).sum() + (second * second * 0.5).sum() + (first * 1.0).sum()
        if written:
            first *= 2.0
            second[...] = 0.0
        return made

    x, direction = dnp.array(Q + 2 * np.eye(2)), dnp.array(X)
    for derivative in (
        lambda f: grad(lambda x: jvp(f, (x,), (direction,))[1])(x),
        lambda f: jvp(grad(f), (x,), (direction,))[1],
        lambda f: ndgrad.func.linearize(f, x)[1](direction),
    ):
        found, expected = (np.asarray(derivative(lambda x, w=w: f(x, w))) for w in (True, False))
        np.testing.assert_allclose(found, expected, rtol=1e-10)


@pytest.mark.parametrize("part", [lambda t: t[::-1], lambda t: t.T, lambda t: np.flip(t, 1), lambda t: t])
def test_a_view_that_an_outer_graph_has_saved_survives_a_write_to_its_base_inside_grad(part):
    """The write leaves the whole base, from which the view is taken again."""

    def f(x):
        buffer = dnp.array([[1.0, 2.0], [3.0, 4.0]])
        product = x * x * part(buffer)
        buffer += product
        return (buffer * buffer).sum()

    x = dnp.array([[0.5, -1.0], [2.0, 1.5]])
    x.requires_grad_()
    grad(f)(x).sum().backward()
    constant = np.array([[1.0, 2.0], [3.0, 4.0]])
    v, at = np.asarray(part(constant)), x.detach()
    # The first derivative of (c + x^2 v)^2 is 4 x v (c + x^2 v).
    np.testing.assert_allclose(x.grad, 4 * v * (constant + at**2 * v) + 8 * (at * v) ** 2)
