"""grad, vjp, jvp, vmap and their compositions, on random programs with views and in-place writes inside.

The oracles do not use transforms: derivatives by central differences, batches by a loop.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ndgrad
from ndgrad.func import grad, grad_and_value, hessian, jacfwd, jacrev, jvp, vjp, vmap
from tests.examples import at_least

# ----- random programs -----------------------------------------------------------------------------------------------------

STEPS = {
    "sin": lambda y, x, c: y.sin(),
    "square": lambda y, x, c: y * y,
    "times input": lambda y, x, c: y * x,
    "times constant": lambda y, x, c: y * c,
    "exp": lambda y, x, c: (y * 0.3).exp(),
    "flip": lambda y, x, c: y.flip(0),
    "transposed": lambda y, x, c: y.reshape(1, 3).transpose(0, 1).reshape(3),
    "outer": lambda y, x, c: (y.unsqueeze(0) * x.unsqueeze(1)).sum(0),
    "diagonal": lambda y, x, c: (y.unsqueeze(0) * c.unsqueeze(1)).diagonal(),
    "matmul": lambda y, x, c: ndgrad.tensor([[0.5, 0.1, 0.0], [0.2, -0.3, 0.4], [0.0, 0.6, 0.1]]) @ y,
    "cumsum": lambda y, x, c: y.cumsum(0) * 0.5,
    "where": lambda y, x, c: ndgrad.where(c > 0, y, x * x),
    "norm": lambda y, x, c: y / (1.0 + (y * y).sum()),
    "stack": lambda y, x, c: ndgrad.stack([y, x]).sum(0),
    "write all": lambda y, x, c: y.clone().mul_(x),
    "write item": lambda y, x, c: _run_write(y, lambda z: z.__setitem__(0, x[1] * y[2])),
    "write view": lambda y, x, c: _run_write(y, lambda z: z[1:].mul_(x[:2])),
    "write twice": lambda y, x, c: _run_write(y, lambda z: (z[:2].add_(x[0]), z[1:].sin_())),
    "write constant": lambda y, x, c: _run_write(y, lambda z: z[1].fill_(0.5)),
    "new buffer": lambda y, x, c: _run_write(ndgrad.zeros(3), lambda z: (z.copy_(x), z[1:].add_(y[1:]))),
    "views of a buffer": lambda y, x, c: _buffer(y, x, ndgrad.zeros(2, 3)),
    "views of a batched buffer": lambda y, x, c: _buffer(y, x, y.new_zeros(2, 3)),
    "views of views": lambda y, x, c: _parts(y, x, ndgrad.zeros_like(x)),
}


def _run_write(y, write):
    z = y.clone()
    write(z)
    return z


def _buffer(y, x, z):
    """Use views taken before the buffer belongs to some transform."""
    row, column, whole = z[0], z[:, 1], z.reshape(6)
    row.copy_(y)
    column.add_(x[0])
    whole[3:5].copy_(row[1:])
    return whole[:3] * z[1]


def _parts(y, x, z):
    """As `_buffer`, with views of views, some of which are used only at the end."""
    w = ndgrad.stack([z, z])
    row, column = w[0], w.t()[1]
    row[1:].add_(y[1:])
    column.mul_(x[0])
    column[:1].add_(x[1:2])
    return row + w.sum(0)


names = st.lists(st.sampled_from(sorted(STEPS)), min_size=1, max_size=4)
C = np.array([0.4, -0.7, 1.1])
X = np.array([0.6, -0.3, 0.9])
V = np.array([0.2, 1.0, -0.5])


def function(chosen, outer=None):
    """Return a function R^3 -> R^3; `outer` is a tensor of an outer level that the function captures."""
    c = ndgrad.tensor(C) if outer is None else outer

    def f(x):
        y = x
        for name in chosen:
            y = STEPS[name](y, x, c)
        return y

    return f


def plain(f):
    return lambda x: f(ndgrad.tensor(x)).detach().numpy()


def jacobian(f, x=X, step=1e-5):
    """Return the Jacobian by central differences; f takes and returns arrays."""
    return np.stack([(f(x + step * e) - f(x - step * e)) / (2 * step) for e in np.eye(len(x))], axis=-1)


def close(ours, expected, tolerance=1e-6):
    np.testing.assert_allclose(ours.detach().numpy() if isinstance(ours, ndgrad.Tensor) else ours, expected, rtol=tolerance, atol=tolerance)


@given(names)
def test_vjp_jvp_jacrev_and_jacfwd_agree_with_differences(chosen):
    f = function(chosen)
    x, v = ndgrad.tensor(X), ndgrad.tensor(V)
    expected = jacobian(plain(f))
    value, pull = vjp(f, x)
    close(value, plain(f)(X), 1e-12)
    close(pull(v)[0] if isinstance(pull(v), tuple) else pull(v), V @ expected)
    close(jvp(f, (x,), (v,))[1], expected @ V)
    close(jacrev(f)(x), expected)
    close(jacfwd(f)(x), expected)


@given(names)
def test_vmap_is_a_loop(chosen):
    f = function(chosen)
    batch = np.stack([X, V, C, X + V])
    close(vmap(f)(ndgrad.tensor(batch)), np.stack([plain(f)(row) for row in batch]), 1e-12)
    close(vmap(f, in_dims=1, out_dims=1)(ndgrad.tensor(batch.T)), np.stack([plain(f)(row) for row in batch], axis=1), 1e-12)


def scalar(f):
    return lambda x: (f(x) * f(x)).sum()


@pytest.mark.slow
@given(names)
def test_hessians_in_every_composition(chosen):
    s = scalar(function(chosen))
    x = ndgrad.tensor(X)
    expected = jacobian(lambda a: grad(s)(ndgrad.tensor(a)).numpy())
    for second in (jacfwd(jacrev(s)), jacrev(jacfwd(s)), jacrev(jacrev(s)), jacfwd(jacfwd(s)), hessian(s)):
        close(second(x), expected, 1e-5)
    for second in (jacfwd(grad(s)), jacrev(grad(s))):
        close(second(x), expected, 1e-5)
    product = jvp(grad(s), (x,), (ndgrad.tensor(V),))[1]
    close(product, expected @ V, 1e-5)
    close(grad(lambda y: jvp(s, (y,), (ndgrad.tensor(V),))[1])(x), expected @ V, 1e-5)
    _, pull = vjp(grad(s), x)
    close(_one(pull(ndgrad.tensor(V))), V @ expected, 1e-5)
    leaf = ndgrad.tensor(X, requires_grad=True)
    (g,) = ndgrad.autograd.grad(s(leaf), leaf, create_graph=True)
    (h,) = ndgrad.autograd.grad((g * ndgrad.tensor(V)).sum(), leaf)
    close(h, V @ expected, 1e-5)


def as_grad(f):
    return lambda x: grad(lambda y: f(y).sum())(x)


def as_jvp(f):
    return lambda x: jvp(f, (x,), (ndgrad.tensor(V),))[1]


def as_vjp(f):
    return lambda x: _one(vjp(f, x)[1](ndgrad.tensor(V)))


def _one(value):
    return value[0] if isinstance(value, tuple) else value


def as_jacrev(f):
    return lambda x: (jacrev(f)(x) * ndgrad.tensor(V)).sum(1)


def as_jacfwd(f):
    return lambda x: (jacfwd(f)(x) * ndgrad.tensor(V).unsqueeze(1)).sum(0)


#: Maps from R^3 -> R^3 to R^3 -> R^3, with the same operation on a Jacobian.
TRANSFORMS = {
    as_grad: lambda j: j.sum(0),
    as_jvp: lambda j: j @ V,
    as_vjp: lambda j: V @ j,
    as_jacrev: lambda j: j @ V,
    as_jacfwd: lambda j: V @ j,
}


@given(names, st.lists(st.sampled_from(sorted(TRANSFORMS, key=lambda t: t.__name__)), min_size=2, max_size=3), st.integers(0, 3))
@at_least(60)
def test_compositions_to_depth_four(chosen, transforms, where):
    """Transforms of transforms, with a vmap among them."""
    f = function(chosen)
    outermost, inner = transforms[0], transforms[1:]
    g = f
    for t in reversed(inner):
        g = t(g)
    expected = TRANSFORMS[outermost](jacobian(lambda a: g(ndgrad.tensor(a)).detach().numpy(), step=1e-4))
    full, depth = f, 0
    for t in reversed(transforms):
        if depth == where:
            full = twice(full)
        full, depth = t(full), depth + 1
    close(full(ndgrad.tensor(X)), expected, 2e-4)
    if where >= depth:
        batch = vmap(full)(ndgrad.tensor(np.stack([X, X * 0.5])))
        close(batch[0], expected, 2e-4)
        close(batch[1], full(ndgrad.tensor(X * 0.5)).detach().numpy(), 1e-9)


def twice(f):
    """Compute f as one row of a batch of two."""
    return lambda x: vmap(f)(ndgrad.stack([x * 0.5, x]))[1]


@given(names)
def test_closures_over_tensors_of_outer_levels(chosen):
    """The derivative with respect to tensors that an inner transform captures."""

    def inner(c):
        f = function(chosen, c)
        return grad(lambda x: (f(x) * f(x)).sum() + (c * x).sum())(ndgrad.tensor(X))

    expected = jacobian(lambda a: inner(ndgrad.tensor(a)).numpy(), C)
    close(jacrev(inner)(ndgrad.tensor(C)), expected, 1e-5)
    close(jacfwd(inner)(ndgrad.tensor(C)), expected, 1e-5)
    close(vmap(inner)(ndgrad.tensor(np.stack([C, V])))[0], inner(ndgrad.tensor(C)).numpy(), 1e-9)
    leaf = ndgrad.tensor(C, requires_grad=True)
    inner(leaf)[1].backward()
    close(leaf.grad, expected[1], 1e-5)


# ----- argnums, aux, trees ---------------------------------------------------------------------------------------------------


def test_argnums_of_every_form():
    f = lambda a, b, c: (a * b * b * c).sum()
    a, b, c = (ndgrad.tensor(v) for v in (X, V, C))
    close(grad(f)(a, b, c), V * V * C)
    close(grad(f, argnums=1)(a, b, c), 2 * X * V * C)
    close(grad(f, argnums=-1)(a, b, c), X * V * V)
    both = grad(f, argnums=(0, 2))(a, b, c)
    assert isinstance(both, tuple)
    close(both[0], V * V * C)
    close(both[1], X * V * V)
    close(jacrev(f, argnums=(1,))(a, b, c)[0], 2 * X * V * C)
    close(jacfwd(f, argnums=1)(a, b, c), 2 * X * V * C)
    close(hessian(f, argnums=1)(a, b, c), np.diag(2 * X * C))


@pytest.mark.parametrize("argnums", [3, -4, (0, 5)])
def test_argnums_out_of_range(argnums):
    with pytest.raises(RuntimeError, match="Got argnum="):
        grad(lambda a: a.sum(), argnums=argnums)(ndgrad.tensor(X))


def test_aux_leaves_the_transform():
    x = ndgrad.tensor(X)
    f = lambda x: ((x * x).sum(), {"y": x * 3, "n": 7})
    g, aux = grad(f, has_aux=True)(x)
    close(g, 2 * X)
    close(aux["y"], 3 * X)
    assert aux["n"] == 7
    assert not aux["y"].requires_grad
    g, (value, aux) = grad_and_value(f, has_aux=True)(x)
    close(value, (X * X).sum())
    _, _, aux = vjp(f, x, has_aux=True)
    close(aux["y"], 3 * X)
    value, tangent, aux = jvp(f, (x,), (ndgrad.tensor(V),), has_aux=True)
    close(tangent, 2 * X @ V)
    close(aux["y"], 3 * X)
    for j in (jacrev, jacfwd):
        made, aux = j(lambda x: (x * x, x * 3), has_aux=True)(x)
        close(made, np.diag(2 * X))
        close(aux, 3 * X)


def test_trees_of_arguments_and_results():
    tree = {"a": ndgrad.tensor(X), "b": [ndgrad.tensor(V), ndgrad.tensor(C)]}
    f = lambda t: (t["a"] * t["b"][0] * t["b"][1]).sum()
    g = grad(f)(tree)
    close(g["a"], V * C)
    close(g["b"][1], X * V)
    _, pull = vjp(lambda t: {"sum": t["a"].sum(), "pair": (t["b"][0] * 2, t["b"][1])}, tree)
    back = _one(pull({"sum": ndgrad.tensor(1.0), "pair": (ndgrad.tensor(V), ndgrad.tensor(C))}))
    close(back["a"], np.ones(3))
    close(back["b"][0], 2 * V)
    close(vmap(f)({"a": tree["a"], "b": tree["b"]}), X * V * C)
    made = jacrev(lambda t: {"y": t["a"] * t["b"][0]})(tree)
    close(made["y"]["a"], np.diag(V))


def test_in_dims_and_out_dims_of_every_form():
    a = np.arange(24.0).reshape(2, 3, 4)
    b = np.arange(3.0)
    f = lambda x, y: x * y
    close(vmap(f, in_dims=(1, 0))(ndgrad.tensor(a), ndgrad.tensor(b)), np.moveaxis(a, 1, 0) * b[:, None, None])
    close(vmap(f, in_dims=(-2, None), out_dims=-1)(ndgrad.tensor(a), 2.0), np.moveaxis(a, 1, -1) * 2)
    close(vmap(vmap(f, in_dims=(0, None)), in_dims=(2, None), out_dims=1)(ndgrad.tensor(a), ndgrad.tensor(2.0)), np.moveaxis(a * 2, 2, 1))
    nested = vmap(lambda d, c: d["x"] + c, in_dims=({"x": 1, "y": None}, None))
    close(nested({"x": ndgrad.tensor(a[0]), "y": 3}, 1.0), a[0].T + 1)
    pair = vmap(lambda x: (x, x.sum()), in_dims=1, out_dims=(1, 0))(ndgrad.tensor(a[0]))
    close(pair[0], a[0])
    close(pair[1], a[0].sum(0))
    close(vmap(lambda x: ndgrad.tensor(3.0), out_dims=0)(ndgrad.tensor(b)), np.full(3, 3.0))


def test_vmap_over_functions_of_one_sample_equals_batched_linear_algebra():
    a = np.random.default_rng(0).normal(size=(4, 3, 3))
    v = np.random.default_rng(1).normal(size=(4, 3))
    close(vmap(lambda m, x: m @ x)(ndgrad.tensor(a), ndgrad.tensor(v)), np.einsum("bij,bj->bi", a, v))
    close(vmap(lambda m: m @ a[0])(ndgrad.tensor(a)), a @ a[0])
    form = vmap(grad(lambda x, m: x @ m @ x), in_dims=(0, 0))
    close(form(ndgrad.tensor(v), ndgrad.tensor(a)), np.einsum("bij,bj->bi", a + a.transpose(0, 2, 1), v))


def test_plain_arrays_inside_transforms_are_constants():
    a = np.array([[2.0, 1.0, 0.0], [1.0, 3.0, 1.0], [0.0, 1.0, 1.0]])
    f = lambda x: ((x * C) @ a @ x) / (1.0 + C.sum())
    expected = jacobian(lambda x: f(x))
    x = ndgrad.tensor(X)
    close(grad(f)(x), expected)
    close(jvp(f, (x,), (ndgrad.tensor(V),))[1], expected @ V)
    close(vmap(grad(f))(ndgrad.tensor(X[None]))[0], expected)
    close(hessian(f)(x), jacobian(lambda y: grad(f)(ndgrad.tensor(y)).numpy()), 1e-5)


def test_inputs_are_not_changed_by_writes_to_copies():
    x = ndgrad.tensor(X)
    grad(lambda y: (y.clone().mul_(2.0) * y).sum())(x)
    assert x.tolist() == X.tolist()
    assert not x.requires_grad
    assert x.grad is None


BUFFERS = {
    "product": lambda x: x * 2.0,
    "clone": lambda x: x.clone() + x.clone(),
    "linear": lambda x: (x + x).clone(),
    "sum": lambda x: ndgrad.stack([x, x]).sum(0),
    "view": lambda x: ndgrad.stack([x, x * 2.0])[1],
}


@pytest.mark.parametrize("buffer", BUFFERS)
def test_batched_values_written_into_duals(buffer):
    """2 c x, written in place into 2 x: inside the map a tensor without a batch, whose tangent has none either."""
    x, v, c = ndgrad.tensor(X), ndgrad.tensor(V), ndgrad.tensor([[2.0], [3.0]])

    def f(x, c):
        y = BUFFERS[buffer](x)
        y[1:].mul_(c)
        y[0].mul_(c[0])
        return y

    expected = 2.0 * c.numpy() * V
    close(vmap(lambda c: jvp(lambda x: f(x, c), (x,), (v,))[1])(c), expected)
    close(jvp(lambda x: vmap(lambda c: f(x, c))(c), (x,), (v,))[1], expected)
    close(jvp(lambda x: vmap(lambda c: grad(lambda c: (f(x, c) * f(x, c)).sum())(c))(c), (x,), (v,))[1], 16.0 * c.numpy() * (X @ V))


def test_unused_inputs_get_zeros():
    x, y = ndgrad.tensor(X), ndgrad.tensor(np.full(2, np.inf))
    g = grad(lambda a, b: a.sum(), argnums=(0, 1))(x, y)
    close(g[1], np.zeros(2))
    close(jacrev(lambda a: ndgrad.ones(2))(x), np.zeros((2, 3)))
    close(jvp(lambda a: ndgrad.full((2,), np.inf), (x,), (x,))[1], np.zeros(2))


def test_the_value_of_a_scalar_program_may_be_infinite():
    close(grad(lambda a: (a * 2.0).sum() + float("inf"))(ndgrad.tensor(X)), np.full(3, 2.0))


def test_no_grad_inside_a_transform_cuts():
    def f(x):
        with ndgrad.no_grad():
            scale = x * 2
        return (scale * x).sum()

    close(grad(f)(ndgrad.tensor(X)), 2 * X)


def test_no_grad_outside_does_not_stop_a_transform():
    with ndgrad.no_grad():
        g = grad(lambda x: (x * x).sum())(ndgrad.tensor(X, requires_grad=True))
    close(g, 2 * X)
    assert not g.requires_grad


def test_results_of_a_transform_keep_the_outer_graph():
    x = ndgrad.tensor(X, requires_grad=True)
    g = grad(lambda y: (y**3).sum())(x)
    g.sum().backward()
    close(x.grad, 6 * X)


def test_detach_and_stop_gradients():
    close(grad(lambda x: (x.detach() * x).sum())(ndgrad.tensor(X)), X)
    close(jvp(lambda x: x.detach() * x, (ndgrad.tensor(X),), (ndgrad.tensor(V),))[1], X * V)


def test_vjp_function_may_be_called_often():
    _, pull = vjp(lambda x: x * x, ndgrad.tensor(X))
    for _ in range(2):
        close(_one(pull(ndgrad.tensor(V))), 2 * X * V)
    close(vmap(lambda c: _one(pull(c)))(ndgrad.tensor(np.eye(3))), np.diag(2 * X))


def test_linearize_runs_the_function_once():
    calls = []

    def f(x):
        calls.append(1)
        return x * ndgrad.rand(3) + x.sin()

    value, push = ndgrad.func.linearize(f, ndgrad.tensor(X))
    slope = (value.numpy() - np.sin(X)) / X + np.cos(X)  # the random numbers are those of the value
    for direction in (V, C):
        close(push(ndgrad.tensor(direction)), slope * direction)
    close(vmap(push)(ndgrad.tensor(np.eye(3))), np.diag(slope))
    close(jacrev(push)(ndgrad.tensor(V)), np.diag(slope))
    assert calls == [1]


def test_linearize_with_complex_numbers_and_structures():
    z = ndgrad.tensor(X + 1j * V)
    value, push = ndgrad.func.linearize(lambda d: (d["z"].conj() * d["x"], d["z"].abs()), {"z": z, "x": ndgrad.tensor(C)})
    tangents = {"z": ndgrad.tensor(V - 1j * X), "x": ndgrad.tensor(X)}
    expected = jvp(lambda d: (d["z"].conj() * d["x"], d["z"].abs()), ({"z": z, "x": ndgrad.tensor(C)},), (tangents,))
    for ours, theirs in zip((*value, *push(tangents)), (*expected[0], *expected[1]), strict=True):
        close(ours, theirs.numpy())


def test_chunks_share_their_random_numbers_if_samples_do():
    f = lambda x: x + ndgrad.rand(2)
    x = ndgrad.zeros(5, 2)
    for mapped in (vmap(f, randomness="same", chunk_size=2), ndgrad.func.chunk_vmap(f, randomness="same", chunks=3)):
        out = mapped(x).numpy()
        assert (out == out[0]).all()
        assert len(np.unique(out)) == 2
    assert len(np.unique(vmap(f, randomness="different", chunk_size=2)(x).numpy())) == 10
    slopes = jacfwd(lambda x: x * ndgrad.rand(()), randomness="same", chunk_size=1)(ndgrad.tensor(X)).diagonal()
    assert len(np.unique(slopes.numpy())) == 1


def test_jacobians_in_chunks():
    f = function(["times input", "norm"])
    x = ndgrad.tensor(X)
    for size in (1, 2, 5):
        close(jacrev(f, chunk_size=size)(x), jacrev(f)(x).numpy())
        close(jacfwd(f, chunk_size=size)(x), jacrev(f)(x).numpy())


# ----- errors ------------------------------------------------------------------------------------------------------------------


def fail(x):
    raise KeyError("mine")


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda x: grad(lambda y: y * 2)(x), RuntimeError),
        (lambda x: grad(lambda y: 3.0)(x), RuntimeError),
        (lambda x: grad(lambda y: (y.sum(), 1))(x), RuntimeError),
        (lambda x: grad(lambda y: y.sum(), has_aux=True)(x), RuntimeError),
        (lambda x: grad(fail)(x), KeyError),
        (lambda x: vmap(grad(fail))(x), KeyError),
        (lambda x: jvp(lambda y: vmap(fail)(y), (x,), (x,)), KeyError),
        (lambda x: jacfwd(jacrev(fail))(x), KeyError),
        (lambda x: vmap(lambda y: y.item())(x), RuntimeError),
        (lambda x: vmap(lambda y: y if y > 0 else -y)(x), RuntimeError),
        (lambda x: vmap(lambda y, z: y + z)(x, ndgrad.ones(4)), ValueError),
        (lambda x: vmap(lambda y: y, in_dims=1)(x), ValueError),
        (lambda x: vmap(lambda y: y, in_dims=None)(x), ValueError),
        (lambda x: vmap(lambda y: y, out_dims=2)(x), IndexError),
        (lambda x: vmap(lambda y: y, out_dims=None)(x), ValueError),
        (lambda x: vmap(lambda y: 3)(x), ValueError),
        (lambda x: vmap(lambda y: y.nonzero())(x), RuntimeError),
        (lambda x: vmap(lambda y: ndgrad.rand(2) + y)(x), RuntimeError),
        (lambda x: vjp(lambda y: y * 2, x)[1](ndgrad.ones(4)), RuntimeError),
        (lambda x: jvp(lambda y: y * 2, (x,), (ndgrad.ones(4),)), RuntimeError),
        (lambda x: jvp(lambda y: y * 2, (x,), (x, x)), RuntimeError),
        (lambda x: grad(lambda y: y.sum())(x.long()), RuntimeError),
        (lambda x: grad(lambda y: (y * 1j).sum())(x), RuntimeError),
        (lambda x: jacrev(lambda y: y, chunk_size=0)(x), ValueError),
    ],
)  # fmt: skip
def test_errors_leave_nothing_behind(call, error):
    with pytest.raises(error):
        call(ndgrad.tensor(X))


def test_tensors_that_escape_are_found_out():
    kept = []

    def f(x):
        kept.append(x * 2)
        return (x * x).sum()

    vmap(f)(ndgrad.tensor(X))
    with pytest.raises(RuntimeError, match="after the transform"):
        kept[0] + 1
    vmap(grad(f))(ndgrad.tensor(X))
    with pytest.raises(RuntimeError, match="after the transform"):
        (kept[1] * 3).sum().backward()


def test_what_escapes_from_grad_has_its_value_but_no_gradient():
    kept = []

    def f(x):
        kept.append(x * 2)
        return (x * x).sum()

    grad(f)(ndgrad.tensor(X))
    close(kept[0] * 2, 4 * X)
    with pytest.raises(RuntimeError, match="after the transform"):
        (kept[0] * 2).sum().backward()


def test_writing_an_outer_tensor_from_inside_raises():
    outside = ndgrad.zeros(3)
    with pytest.raises(RuntimeError, match="from outside"):
        vmap(lambda x: outside.add_(x))(ndgrad.tensor(np.eye(3)))
    with pytest.raises(RuntimeError, match="from outside"):
        grad(lambda x: outside.add_(x).sum())(ndgrad.tensor(X))
    assert outside.tolist() == [0.0, 0.0, 0.0]


def test_writing_an_input_inside_a_transform_changes_it_as_in_torch():
    x = ndgrad.tensor(X)
    with pytest.raises(RuntimeError, match="leaf"):
        grad(lambda y: y.mul_(2.0).sum())(x)
    assert x.tolist() == X.tolist()


@pytest.mark.parametrize("chunk_size", [1, 2, 5, 7])
def test_vmap_in_chunks_equals_vmap_at_once(chunk_size):
    x, y = ndgrad.tensor(np.arange(15.0).reshape(3, 5)), ndgrad.tensor(np.arange(10.0).reshape(5, 2))

    def f(a, b):
        return {"outer": a.unsqueeze(1) * b, "sum": a.sum()}

    whole = ndgrad.func.vmap(f, in_dims=(1, 0), out_dims={"outer": 1, "sum": 0})(x, y)
    chunked = ndgrad.func.vmap(f, in_dims=(1, 0), out_dims={"outer": 1, "sum": 0}, chunk_size=chunk_size)(x, y)
    assert {k: v.tolist() for k, v in chunked.items()} == {k: v.tolist() for k, v in whole.items()}


def test_vmap_refuses_a_chunk_size_that_is_not_positive():
    with pytest.raises(ValueError, match="greater than 0"):
        ndgrad.func.vmap(lambda x: x, chunk_size=0)


def test_a_hessian_vector_product_has_a_part_for_each_primal():
    x, y = ndgrad.tensor([1.0, 2.0]), ndgrad.tensor([3.0, 4.0, 5.0])
    v, w = ndgrad.tensor([0.5, -1.0]), ndgrad.tensor([2.0, 0.0, 1.0])
    f = lambda x, y: (x**2).sum() * (y**3).sum() + x[0] * y[1]
    blocks = ndgrad.func.hessian(f, (0, 1))(x, y)
    parts = ndgrad.func.hvp(f, (x, y), (v, w))
    assert isinstance(parts, tuple)
    for part, row in zip(parts, blocks, strict=True):
        np.testing.assert_allclose(part.numpy(), (row[0] @ v + row[1] @ w).numpy(), rtol=1e-6)


def test_integer_results_of_a_custom_function_inside_vmap_of_grad():
    """They have no derivative, and so belong to the levels below the gradient's."""

    class Rank(ndgrad.autograd.Function):
        @staticmethod
        def forward(x):
            return x * 2, ndgrad.argsort(x), x + 1

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(output[1])
            ctx.mark_non_differentiable(output[2])

        @staticmethod
        def backward(ctx, g, *_):
            (order,) = ctx.saved_tensors
            return 2 * g * (order * 0 + 1)

        @staticmethod
        def vmap(info, in_dims, x):
            return Rank.apply(x), (0, 0, 0)

    def f(x, w):
        doubled, order, more = Rank.apply(x)
        return (doubled * order * w).sum() + (more * w).sum()

    x, w = ndgrad.tensor([[3.0, 1.0, 2.0], [1.0, 2.0, 0.0]]), ndgrad.tensor([1.0, 10.0, 100.0])
    expected = 2 * np.argsort(x.numpy(), -1) * w.numpy()
    np.testing.assert_allclose(ndgrad.func.vmap(ndgrad.func.grad(f), in_dims=(0, None))(x, w).numpy(), expected)
