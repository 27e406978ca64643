"""Laws of the transforms, on random programs drawn from the op table.

A failing law names the program, so a wrong rule of an op is found in the composition that it breaks. If both sides of a law could
be wrong together, a slow reference replaces one side: differences of values, or a loop.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import ndgrad
from ndgrad.func import chunk_vmap, functionalize, grad, grad_and_value, hessian, hvp, jacfwd, jacrev, jvp, linearize, vjp, vmap
from tests.transforms.table_programs import BENDS, STEPS, compose, jacobian, on_lattice

LONG = settings.default.max_examples > 100
POINT = np.array([0.3, -0.4])
V, W = np.array([0.7, 0.4]), np.array([-0.3, 0.9])


steps = st.one_of(st.sampled_from(STEPS), st.sampled_from(STEPS), st.sampled_from(sorted(BENDS)))


@st.composite
def programs(draw: Any, longest: int = 3) -> Any:
    """Draw a smooth map of the plane made of table ops; the list of steps is drawn, so that a failure shows it."""
    f = compose(draw(st.lists(steps, min_size=1, max_size=longest)))
    assume(f is not None)
    return f


def t(array: Any) -> Any:
    return ndgrad.tensor(np.asarray(array, dtype=float))


def close(ours: Any, expected: Any, tolerance: float = 1e-8) -> None:
    ours, expected = (a.detach().numpy() if isinstance(a, ndgrad.Tensor) else np.asarray(a) for a in (ours, expected))
    assert ours.shape == expected.shape
    np.testing.assert_allclose(ours, expected, rtol=tolerance, atol=tolerance * max(1.0, np.abs(expected).max(initial=0.0)))


def points(count: int = 3) -> Any:
    return t(np.random.default_rng(0).uniform(-0.6, 0.6, (count, 2)))


# ----- one transform ---------------------------------------------------------------------------------------------------------------


@given(programs())
def test_vjp_is_the_transpose_of_jvp(f):
    x, u, v = t(POINT), t(V), t(W)
    _, pushed = jvp(f, (x,), (u,))
    _, pull = vjp(f, x)
    close((pushed * v).sum(), (pull(v)[0] * u).sum())


@given(programs())
def test_the_derivative_is_linear_in_its_direction(f):
    x = t(POINT)
    _, push = linearize(f, x)
    _, pull = vjp(f, x)
    close(push(t(2 * V - 3 * W)), 2 * push(t(V)) - 3 * push(t(W)))
    close(pull(t(2 * V - 3 * W))[0], 2 * pull(t(V))[0] - 3 * pull(t(W))[0])
    close(push(t(V)), jvp(f, (x,), (t(V),))[1])
    close(vjp(push, t(V))[1](t(W))[0], pull(t(W))[0])


@given(programs(2), programs(2))
def test_derivatives_of_a_composition_compose(f, g):
    x = t(POINT)
    y, pushed = jvp(g, (x,), (t(V),))
    close(jvp(lambda x: f(g(x)), (x,), (t(V),))[1], jvp(f, (y,), (pushed,))[1])
    close(jacrev(lambda x: f(g(x)))(x), jacfwd(f)(y) @ jacrev(g)(x))


@given(programs(), st.sampled_from([None, 1, 2, 5]), st.sampled_from([0, 1, -1]), st.sampled_from([0, 1, -2]))
def test_vmap_is_a_loop(f, chunk_size, in_dim, out_dim):
    batch = points(4)
    expected = np.stack([f(p).detach().numpy() for p in batch], axis=out_dim)
    close(vmap(f, in_dim, out_dim, chunk_size=chunk_size)(batch.movedim(0, in_dim)), expected)
    close(chunk_vmap(f, in_dim, out_dim, chunks=3)(batch.movedim(0, in_dim)), expected)


@given(programs(), programs())
def test_vmap_of_one_argument_leaves_the_other(f, g):
    batch, x = points(), t(POINT)
    both = lambda a, b: {"sum": f(a) + g(b), "rest": (f(b), g(a))}
    made = vmap(both, in_dims=(0, None), out_dims={"sum": 1, "rest": (None, 0)})(batch, x)
    each = [both(p, x) for p in batch]
    close(made["sum"], ndgrad.stack([e["sum"] for e in each], 1))
    close(made["rest"][0], f(x))
    close(made["rest"][1], ndgrad.stack([e["rest"][1] for e in each]))


@given(programs())
def test_functionalize_changes_nothing(f):
    x = t(POINT)
    close(functionalize(f)(x), f(x))
    close(jacrev(functionalize(f, remove="mutations_and_views"))(x), jacfwd(f)(x))


# ----- two transforms ------------------------------------------------------------------------------------------------------------------


@given(programs())
def test_forward_and_reverse_jacobians_agree(f):
    x = t(POINT)
    j = jacfwd(f)(x)
    for other in (jacrev(f), jacrev(f, chunk_size=1), jacfwd(f, chunk_size=1), vmap(lambda e: vjp(f, x)[1](e)[0])):
        close(other(t(np.eye(2))) if other.__name__ == "<lambda>" else other(x), j)
    close(vmap(lambda e: jvp(f, (x,), (e,))[1], out_dims=1)(t(np.eye(2))), j)


@given(programs())
def test_vmap_of_grad_is_the_grad_of_the_sum(f):
    batch = points()
    s = lambda x: (f(x) * f(x)).sum()
    expected = grad(lambda b: vmap(s)(b).sum())(batch)
    close(vmap(grad(s))(batch), expected)
    gradients, values = vmap(grad_and_value(s))(batch)
    close(gradients, expected)
    close(values, vmap(s)(batch))
    close(gradients, ndgrad.stack([grad(s)(p) for p in batch]))


@given(programs())
def test_vmap_commutes_with_jvp_and_vjp(f):
    batch, directions = points(), points(6)[3:]
    one, other = vmap(lambda x, v: jvp(f, (x,), (v,)))(batch, directions), jvp(vmap(f), (batch,), (directions,))
    close(one[0], other[0])
    close(one[1], other[1])
    close(vmap(lambda x, v: vjp(f, x)[1](v)[0])(batch, directions), vjp(vmap(f), batch)[1](directions)[0])


@given(programs(), programs())
def test_vmap_of_vmap_in_either_order(f, g):
    a, b = points(3), points(5)
    both = lambda x, y: f(x) * g(y)
    one = vmap(vmap(both, (None, 0)), (0, None))(a, b)
    close(one, vmap(vmap(both, (0, None)), (None, 0), out_dims=1)(a, b))
    close(one, vmap(f)(a)[:, None] * vmap(g)(b))


@given(programs())
def test_hessians_are_symmetric_and_all_the_same(f):
    s, x = lambda x: (f(x) * t(W)).sum(), t(POINT)
    h = hessian(s)(x)
    close(h, h.t(), 1e-7)
    for second in (jacrev(jacrev(s)), jacrev(jacfwd(s)), jacfwd(jacfwd(s)), jacfwd(grad(s))):
        close(second(x), h, 1e-7)
    close(hvp(s, (x,), (t(V),)), h @ t(V), 1e-7)
    close(vmap(hessian(s))(x[None])[0], h, 1e-7)


@given(programs())
def test_second_directional_derivatives_do_not_mind_the_order(f):
    along = lambda g, v: lambda x: jvp(g, (x,), (t(v),))[1]
    x = t(POINT)
    close(along(along(f, V), W)(x), along(along(f, W), V)(x), 1e-7)
    mixed = grad(lambda x: (along(f, V)(x) * t(W)).sum())(x)
    close(mixed, along(lambda x: vjp(f, x)[1](t(W))[0], V)(x), 1e-7)


# ----- four transforms -----------------------------------------------------------------------------------------------------------------

#: Maps of the plane to maps of the plane, each with the same operation on the Jacobian; None if nothing changes.
TRANSFORMS: dict[str, tuple[Any, Any]] = {
    "grad": (lambda f: grad(lambda x: f(x).sum()), lambda j: j.sum(0)),
    "jvp": (lambda f: lambda x: jvp(f, (x,), (t(V),))[1], lambda j: j @ V),
    "vjp": (lambda f: lambda x: vjp(f, x)[1](t(V))[0], lambda j: V @ j),
    "jacrev": (lambda f: lambda x: jacrev(f)(x) @ t(W), lambda j: j @ W),
    "jacfwd": (lambda f: lambda x: t(W) @ jacfwd(f)(x), lambda j: W @ j),
    "linearize": (lambda f: lambda x: linearize(f, x)[1](t(V)), lambda j: j @ V),
    "hvp of a sum": (lambda f: lambda x: hvp(lambda y: (f(y) * y).sum(), (x,), (t(V),)), None),
    "vmap": (lambda f: lambda x: vmap(f)(ndgrad.stack([x * 0.5, x]))[1], None),
    "vmap over columns": (lambda f: lambda x: vmap(f, 1, 1, chunk_size=2)(ndgrad.stack([x * 0.5, x, -x], 1))[:, 1], None),
    "functionalize": (functionalize, None),
}


def reference(f: Any, chosen: list[str], width: float) -> Any:
    """Return the result of the chosen transforms, outermost first, on f at the point, by differences."""
    values = on_lattice(f, POINT, width)
    for name in reversed(chosen):
        rule = TRANSFORMS[name][1]
        if name == "hvp of a sum":
            values = _hvp_of_sum(values, width)
        elif rule is not None:
            values = (lambda j, r: lambda at: r(j(at)))(jacobian(values, width), rule)
    return values((0, 0))


def _hvp_of_sum(values: Any, width: float) -> Any:
    inner = lambda at: (values(at) * (POINT + width * np.array(at))).sum()
    second = jacobian(jacobian(inner, width), width)
    return lambda at: second(at) @ V


def agrees(ours: Any, expected: Any) -> bool:
    return bool(np.abs(ours - expected).max() <= 1e-5 * max(1.0, np.abs(expected).max()))


@given(programs(2), st.lists(st.sampled_from(sorted(TRANSFORMS)), min_size=2, max_size=4))
@settings(max_examples=1500 if LONG else 12)
def test_transforms_to_depth_four_agree_with_differences(f, chosen):
    order = sum(2 if n == "hvp of a sum" else TRANSFORMS[n][1] is not None for n in chosen)
    assume(order <= 4)
    g = f
    for name in reversed(chosen):
        g = TRANSFORMS[name][0](g)
    ours = g(t(POINT)).detach().numpy()
    expected = reference(f, chosen, 0.03)
    if not agrees(ours, expected):
        # The reference is no better than its step: values on which two steps disagree are not compared.
        assume(agrees(reference(f, chosen, 0.02), expected))
        close(ours, expected, 1e-5)
    batch = vmap(g)(t([POINT, 0.5 * POINT]))
    close(batch[0], ours, 1e-7)
    close(batch[1], g(t(0.5 * POINT)), 1e-7)
