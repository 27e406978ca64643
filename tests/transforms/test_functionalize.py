"""functionalize: the same results and the same effects on arguments, with no in-place op underneath."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ndgrad
import ndgrad.numpy as dnp
from ndgrad import autograd
from ndgrad.func import functionalize, grad, hessian, jacfwd, jacrev, jvp, vmap
from ndgrad.utils._python_dispatch import TorchDispatchMode

X = np.array([0.6, -0.3, 0.9])
V = np.array([0.2, 1.0, -0.5])


class Names(TorchDispatchMode):
    """Records the names of the ops that run below everything else."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.seen.append(func.__name__)
        return func(*args, **(kwargs or {}))


def ops_of(f, *args):
    with Names() as names:
        f(*args)
    return names.seen


#: (buffer, argument) -> write to the buffer, of shape (2, 3), through some view
WRITES = {
    "all": lambda b, x: b.mul_(x),
    "row": lambda b, x: b[1].add_(x),
    "column": lambda b, x: b[:, 2].copy_(x[:2]),
    "transposed": lambda b, x: b.t()[1:].sub_(x[0]),
    "flat": lambda b, x: b.view(-1)[1:5].mul_(x[2]),
    "diagonal": lambda b, x: b.diagonal().add_(x[:2]),
    "item": lambda b, x: b.__setitem__((0, 1), x[1] * 3),
    "index": lambda b, x: b.__setitem__((slice(None), [2, 0]), x[1:]),
    "mask": lambda b, x: b.masked_fill_(b > 0.5, 0.25),
    "split": lambda b, x: b.unsqueeze(0).squeeze(0)[:, 1:].copy_(b[:, :2] * x[:2]),
    "constant": lambda b, x: b[0].fill_(0.5),
    "sine": lambda b, x: b.sin_(),
    "strided": lambda b, x: b[:, ::2].tanh_(),
    "unfolded": lambda b, x: b.unfold(1, 1, 1)[..., 0].mul_(x[1]),
}


def program(chosen):
    """Return a function R^3 -> R^3 that writes to a buffer; some of its views are older."""

    def f(x):
        b = ndgrad.stack([x, x * x])
        row, column = b[0], b.t()[1]
        for name in chosen:
            WRITES[name](b, x)
        return b.sum(0) + row * column.sum()

    return f


chosen_writes = st.lists(st.sampled_from(sorted(WRITES)), min_size=1, max_size=4)
ways = st.sampled_from(["mutations", "mutations_and_views"])


def close(ours, expected):
    np.testing.assert_allclose(ours.detach().numpy(), expected.detach().numpy(), rtol=1e-12, atol=1e-12)


@given(chosen_writes, ways)
def test_writes_through_views_mean_what_they_meant(chosen, remove):
    f, x = program(chosen), ndgrad.tensor(X)
    g = functionalize(f, remove=remove)
    close(g(x), f(x))
    assert not [name for name in ops_of(g, x) if name.endswith("_") and not name.startswith("_")]
    assert x.tolist() == X.tolist()


@given(chosen_writes, ways)
def test_derivatives_and_batches_are_those_of_the_function(chosen, remove):
    f, x = program(chosen), ndgrad.tensor(X)
    g = functionalize(f, remove=remove)
    batch, v = ndgrad.tensor(np.stack([X, V])), ndgrad.tensor(V)
    close(jacrev(g)(x), jacfwd(f)(x))
    close(jacfwd(g)(x), jacfwd(f)(x))
    close(vmap(g)(batch), vmap(f)(batch))
    close(functionalize(vmap(f), remove=remove)(batch), vmap(f)(batch))
    close(functionalize(jacfwd(f), remove=remove)(x), jacfwd(f)(x))
    close(functionalize(lambda x: jvp(f, (x,), (v,))[1], remove=remove)(x), jvp(f, (x,), (v,))[1])
    close(vmap(jacrev(g))(batch), vmap(jacfwd(f))(batch))
    close(functionalize(functionalize(f))(x), f(x))


def test_a_saved_value_may_be_overwritten():
    def f(x):
        y = x.sin()
        z = y * y
        y[0] = 0.0
        y.mul_(z)
        return y.sum()

    x = ndgrad.tensor(X)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        grad(f)(x)
    exact = 3 * np.sin(X) ** 2 * np.cos(X) * [0, 1, 1]
    np.testing.assert_allclose(grad(functionalize(f))(x).numpy(), exact)
    assert hessian(functionalize(f))(x).shape == (3, 3)


@pytest.mark.parametrize("remove", ["mutations", "mutations_and_views"])
def test_arguments_are_written_once_at_the_end(remove):
    def f(x, d, *, k):
        x.mul_(2)
        x[1:].add_(d["y"][0])
        d["y"].zero_()
        return x.sum() * k

    x, y = ndgrad.tensor(X), ndgrad.tensor(V)
    out = functionalize(f, remove=remove)(x, {"y": y}, k=3)
    expected = 2 * X
    expected[1:] += V[0]
    np.testing.assert_allclose(x.numpy(), expected)
    np.testing.assert_allclose(out.item(), 3 * expected.sum())
    assert y.tolist() == [0, 0, 0]
    names = ops_of(lambda: functionalize(lambda x: x.mul_(2).add_(1), remove=remove)(x))
    assert [n for n in names if n.endswith("_")] == ["copy_"]


def test_one_argument_given_twice_is_one_tensor():
    x = ndgrad.tensor(X)
    out = functionalize(lambda a, b: (a.add_(1), b * 2)[1])(x, x)
    np.testing.assert_allclose(out.numpy(), 2 * (X + 1))
    np.testing.assert_allclose(x.numpy(), X + 1)


def test_results_are_not_the_memory_of_arguments_that_were_written():
    x = ndgrad.tensor(X)
    y = functionalize(lambda x: ndgrad.zeros(3).copy_(x))(x)
    z = functionalize(lambda x: x.add_(1))(x)
    x.zero_()
    np.testing.assert_allclose(y.numpy(), X)
    np.testing.assert_allclose(z.numpy(), X + 1)


def test_buffers_made_inside_and_their_aliases():
    def f(x):
        z = ndgrad.zeros(3)
        alias, part = z.detach(), z[1:]
        z.add_(1)
        part.mul_(x[:2])
        z[0] = x[2]
        return z, alias, part

    for ours, expected in zip(functionalize(f)(ndgrad.tensor(X)), f(ndgrad.tensor(X)), strict=True):
        close(ours, expected)


def test_parts_of_complex_numbers():
    def f(x):
        z = ndgrad.complex(x, x * 2)
        z.real.mul_(x)
        z.imag[0] = 5.0
        ndgrad.view_as_real(z)[1:].add_(1)
        ndgrad.view_as_complex(w := ndgrad.view_as_real(z).clone()).mul_(1j)
        return z * w.sum()

    x = ndgrad.tensor(X)
    close(functionalize(f)(x), f(x))
    g = lambda f: grad(lambda x: f(x).abs().sum())
    close(g(functionalize(f))(x), g(f)(x))


def test_custom_functions_that_write():
    class Double(ndgrad.autograd.Function):
        @staticmethod
        def forward(x, y):
            x.mul_(2)
            return x, x + y

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.mark_dirty(inputs[0])

        @staticmethod
        def backward(ctx, g, h):
            return 2 * (g + h), h

    def f(x):
        y = x * 1
        part = y[:2]
        _, z = Double.apply(y, x)
        return (part.sum() + z.prod()) * y.sum()

    x = ndgrad.tensor(X)
    close(functionalize(f)(x), f(x))
    with ndgrad.no_grad():
        close(functionalize(f)(x), f(x))


# ----- gradients inside ------------------------------------------------------------------------------------------------------------


def of_argument(x):
    y = x.clone()
    y.mul_(x)
    return autograd.grad((y.sin() * x).sum(), x)[0]


def of_result_after_a_write(x):
    y = x * 1
    part = y[1:]
    y.mul_(2)
    return autograd.grad((y**2).sum() + (part**3).sum(), y)[0]


def of_a_leaf_made_inside(x):
    w = ndgrad.tensor(V, requires_grad=True)
    return autograd.grad((w.sin() * x.detach()).sum(), w)[0]


def of_a_detached_clone(x):
    y = x.detach().clone().requires_grad_()
    assert y.requires_grad
    assert y.is_leaf
    assert (y * 2).grad_fn is not None
    return -autograd.grad((y**2).sum(), y)[0]


def written_gradient(x):
    (g,) = autograd.grad((x**3).sum(), x)
    g[0] = 5.0
    return g.mul_(2)


def given_cotangent(x):
    return autograd.grad(x * x, x, grad_outputs=x.detach() * 2)[0]


def record_names(x):
    unused = ndgrad.ones(2, requires_grad=True)
    assert autograd.grad((x**2).sum(), {"x": x, "y": unused}, allow_unused=True)["y"] is None
    found = autograd.grad((x**2).sum(), {"x": x, "y": unused}, materialize_grads=True)
    return ndgrad.cat([found["x"], found["y"]])


def second_order(x):
    (g,) = autograd.grad((x.sin() * x).sum(), x, create_graph=True)
    return ndgrad.stack([autograd.grad(g[i], x, retain_graph=True)[0] for i in range(3)])


def batched_cotangents(x):
    (g,) = autograd.grad((x.sin() * x).sum(), x, create_graph=True)
    return autograd.grad(g, x, ndgrad.eye(3), is_grads_batched=True)[0]


def mapped_cotangents(x):
    y = x.sin()
    return vmap(lambda v: autograd.grad(y, x, v, retain_graph=True)[0])(ndgrad.eye(3) * x.detach())


def hooked(x):
    y = x.sin()
    y.register_hook(lambda g: g * 10)
    return autograd.grad(y.sum(), x)[0]


def descent(x):
    w = ndgrad.zeros(3, requires_grad=True)
    for _ in range(5):
        (g,) = autograd.grad(((w - x.detach()) ** 2).sum() + (w**4).sum(), w)
        with ndgrad.no_grad():
            w -= 0.1 * g
            w[1:].mul_(0.9)
    return w.detach()


@pytest.mark.parametrize("remove", ["mutations", "mutations_and_views"])
@pytest.mark.parametrize(
    "f",
    [
        of_argument, of_result_after_a_write, of_a_leaf_made_inside, of_a_detached_clone, written_gradient, given_cotangent, record_names,
        second_order, batched_cotangents, mapped_cotangents, hooked, descent,
    ],
)  # fmt: skip
def test_gradients_taken_inside_are_those_of_the_function(f, remove):
    x = ndgrad.tensor(X, requires_grad=True)
    ours, expected = functionalize(f, remove=remove)(x), f(x)
    close(ours, expected)
    assert type(ours) is type(expected)
    assert ours.requires_grad == expected.requires_grad
    close(functionalize(functionalize(f))(x), expected)


def test_gradients_taken_inside_need_not_fear_writes():
    def f(x):
        y = x.clone()
        z = y * y
        y[0] = 2.0
        return autograd.grad((z * y).sum(), x)[0]

    x = ndgrad.tensor(X, requires_grad=True)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        f(x)
    np.testing.assert_allclose(functionalize(f)(x).numpy(), [4 * X[0], *(3 * X[1:] ** 2)])


def test_a_leaf_that_is_written_stays_one_leaf():
    """Its gradients from uses before and after the write are added, also if it is returned."""

    def use_write_use(x):
        w = ndgrad.ones(3, requires_grad=True)
        before = (w * x).sum()
        with ndgrad.no_grad():
            w.mul_(3)
        return before + (2 * w * x * x).sum(), w

    x = ndgrad.tensor(X)
    inside = functionalize(lambda x: autograd.grad(*use_write_use(x))[0])(x)
    np.testing.assert_allclose(inside.numpy(), X + 2 * X**2)
    out, w = functionalize(use_write_use)(x)
    out.backward()
    assert w.is_leaf
    assert w.tolist() == [3, 3, 3]
    np.testing.assert_allclose(w.grad.numpy(), X + 2 * X**2)


def test_gradients_taken_inside_other_transforms():
    x = ndgrad.tensor(X)
    for f in (of_argument, of_result_after_a_write, given_cotangent):
        total = lambda x, f=f: (f(x) * x).sum()
        close(grad(functionalize(total))(x), grad(total)(x))
        close(functionalize(grad(total))(x), grad(total)(x))


def test_requires_grad_is_that_of_the_caller():
    seen = []

    def f(x):
        seen.append((x.requires_grad, x.is_leaf, (x * 2).requires_grad, x.detach().requires_grad, x.grad is None))
        return x * 1

    for flag in (True, False):
        functionalize(f)(ndgrad.tensor(X, requires_grad=flag))
    assert seen == [(True, True, True, False, True), (False, True, False, False, True)]


def test_what_leaves_keep_when_they_come_to_the_level():
    """A leaf made inside has hooks and a graph before it meets a written tensor."""

    def f(x):
        w = ndgrad.tensor(V, requires_grad=True)
        w.register_hook(lambda g: g * 10)
        early = (w * w).sum()
        x.add_(0)
        return autograd.grad(early + (w * x).sum(), w)[0]

    np.testing.assert_allclose(functionalize(f)(ndgrad.tensor(X)).numpy(), 10 * (2 * V + X))


# ----- writes without an out-of-place form --------------------------------------------------------------------------------------


OUTER = ndgrad.zeros(3)


def write_detached(x):
    y = x * 2
    y.detach().mul_(3)
    return y.sum()


def write_to_what_a_leaf_shares(x):
    y = x * 1
    leaf = y.detach().requires_grad_()
    y.mul_(2)
    return leaf


def write_to_a_leaf(x):
    ndgrad.ones(3, requires_grad=True).mul_(x)


def write_to_a_leaf_with_views(x):
    w = ndgrad.ones(3, requires_grad=True)
    part = w[1:]
    with ndgrad.no_grad():
        w.mul_(x)
    return part


def late_leaf(x):
    x.mul_(2)
    x.requires_grad_()


def set_grad(x):
    x.grad = x * 1


def write_under_no_grad(x):
    y = x * 2
    with ndgrad.no_grad():
        y.add_(1)
    return (y * x).sum()


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda x: functionalize(lambda x: x, remove="views"), "'views'"),
        (lambda x: functionalize(lambda x: OUTER.add_(x))(x), "from outside"),
        (lambda x: functionalize(lambda a, b: a.add_(1))(x, x[:2]), "shares its memory"),
        (lambda x: functionalize(lambda x: x.unsqueeze_(0))(x), "another shape"),
        (lambda x: functionalize(lambda x: x[0].expand(3).add_(1))(x), "one position in memory"),
        (lambda x: functionalize(lambda x: x.add_(1))(x.requires_grad_()), "leaf"),
        (lambda x: grad(functionalize(write_detached))(x), "history"),
        (lambda x: grad(functionalize(write_under_no_grad))(x), "history"),
        (lambda x: functionalize(lambda x: (x * ndgrad.ones(3, requires_grad=True)).sum().backward())(x), "backward"),
        (lambda x: functionalize(lambda x: autograd.grad(x.sum(), x))(x), "does not require grad"),
        (lambda x: functionalize(lambda x: grad(lambda y: y.requires_grad_().sum())(x))(x), "requires_grad_"),
        (lambda x: functionalize(write_to_what_a_leaf_shares)(x), "clone"),
        (lambda x: functionalize(write_to_a_leaf)(x), "leaf"),
        (lambda x: functionalize(write_to_a_leaf_with_views)(x), "history"),
        (lambda x: functionalize(late_leaf)(x), "after a write"),
        (lambda x: functionalize(set_grad)(x), "grad"),
    ],
)
def test_errors(call, words):
    x = ndgrad.tensor(X)
    with pytest.raises(RuntimeError, match=words):
        call(x)
    assert x.tolist() == X.tolist()
    assert OUTER.tolist() == [0, 0, 0]


def test_values_are_written_under_no_grad_where_nothing_is_differentiated():
    x = ndgrad.tensor(X)
    close(functionalize(write_under_no_grad)(x), write_under_no_grad(x))
    close(functionalize(write_detached)(x), write_detached(x))


# ----- Array and cuts -------------------------------------------------------------------------------------------------------------------


def test_what_is_computed_from_constants_has_numpys_class_inside():
    seen = []

    def f(x):
        c = dnp.array([1.0, 2.0, 4.0])
        spread = c.std(ddof=1)
        c[0] = 3.0
        r = dnp.zeros(3)
        r[1:] = x[:2]
        seen.extend([c, spread, c[0], c[1:], r, r[0], c * 2, c.reshape(3, 1), np.sort(c), np.std(c, ddof=1)])
        return (r * c * spread).sum()

    x = dnp.array(X)
    expected, slope = f(x), grad(f)(x)
    for made in (functionalize(f), functionalize(f, remove="mutations_and_views")):
        seen.clear()
        np.testing.assert_allclose(np.asarray(made(x)), np.asarray(expected))
        assert {type(t) for t in seen} == {dnp.Array}
        assert [type(grad(made)(x)), type(made(x))] == [dnp.Array] * 2
        np.testing.assert_allclose(np.asarray(grad(made)(x)), np.asarray(slope))
        np.testing.assert_allclose(np.asarray(functionalize(grad(f))(x)), np.asarray(slope))


def test_a_detached_intermediate_has_no_tangent_inside():
    def f(x):
        y = x * x
        z = y.detach()
        y[0] = 3 * y[1]  # z sees this write
        return y * z

    x = ndgrad.tensor(X)
    expected = np.array([[0, 6 * X[1] * 3 * X[1] ** 2, 0], [0, 2 * X[1] ** 3, 0], [0, 0, 2 * X[2] ** 3]])
    for transform in (jacfwd, jacrev):
        for jacobian in (transform(f), functionalize(transform(f)), transform(functionalize(f))):
            np.testing.assert_allclose(jacobian(x).numpy(), expected)


# ----- transforms under no_grad ------------------------------------------------------------------------------------------------------


def _writes_of_numpys_own(x):
    plain = np.zeros(3)
    t = dnp.asarray(plain)
    part = t[1:]
    before = part * x[1:]
    plain[1] = 5.0
    after = part * x[1:]
    part[0] = 2.0
    return before.sum() + 3 * after.sum() + plain[1] * x[0] + 10 * t.sum()


def test_numpys_own_writes_to_memory_that_a_tensor_borrows_are_seen():
    x = dnp.array([1.0, 2.0, 3.0])
    assert _writes_of_numpys_own(x) == functionalize(_writes_of_numpys_own)(x) == 52.0
    np.testing.assert_array_equal(grad(functionalize(_writes_of_numpys_own))(x), [2.0, 15.0, 0.0])


class Grown(autograd.Function):
    """exp(0.3 x)."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x):
        return (0.3 * x).exp()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(output)
        ctx.save_for_forward(output)

    @staticmethod
    def backward(ctx, g):
        return 0.3 * ctx.saved_tensors[0] * g

    @staticmethod
    def jvp(ctx, t):
        return 0.3 * ctx.saved_tensors[0] * t


MADE_OF_OUTER_TENSORS = {"op": lambda y: (0.3 * y).exp(), "custom function": Grown.apply, "copy": lambda y: y * 1.0}


@pytest.mark.parametrize("make", [ndgrad.tensor, dnp.array], ids=["torch", "numpy"])
@pytest.mark.parametrize("wrapped", [lambda f: f, functionalize], ids=["plain", "functionalize"])
@pytest.mark.parametrize("name", MADE_OF_OUTER_TENSORS)
def test_a_transform_under_no_grad_records_nothing_of_outer_tensors(name, wrapped, make):
    """The buffer is made from an outer leaf alone, and receives values of the transform, through a view too."""
    y = make(V).requires_grad_()
    seen = []

    def f(z):
        b = MADE_OF_OUTER_TENSORS[name](y)
        seen.append(b.requires_grad)
        part = b[0:1]
        b *= z
        part += z[1:2]
        return (b * b).sum()

    with ndgrad.no_grad():
        found = wrapped(grad(f))(make(X))
    assert seen == [False]
    assert not found.requires_grad
    expected = grad(f)(make(X))
    assert seen == [False, True]  # as if recording were on
    assert expected.requires_grad
    np.testing.assert_allclose(found.numpy(), expected.detach().numpy(), rtol=1e-12)


def test_a_write_to_an_outer_tensor_in_a_transform_under_no_grad_is_not_recorded():
    y = ndgrad.tensor(V).requires_grad_()
    b = ndgrad.tensor(X)

    def f(z):
        b.mul_(y)
        return (z * z).sum()

    with ndgrad.no_grad():
        grad(f)(ndgrad.tensor(X))
    assert not b.requires_grad
    np.testing.assert_allclose(b.numpy(), X * V)


@pytest.mark.parametrize("make", [ndgrad.tensor, dnp.array], ids=["torch", "numpy"])
def test_tangents_that_are_saved_inside_functionalize_do_not_belong_to_it(make):
    """jacrev saves a value whose tangent belongs to forward mode around functionalize; the result is used afterwards."""

    def f(x, wrapped):
        rows = wrapped(lambda v: jacrev(lambda u: u * u * x)(x).flip(0))(x)
        return rows.sin().sum(1)

    plain, found = (jacfwd(lambda x, w=w: f(x, w))(make(X)) for w in (lambda g: g, functionalize))
    np.testing.assert_allclose(np.asarray(found), np.asarray(plain), rtol=1e-12)
