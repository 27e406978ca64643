"""Taylor mode against closed forms and against nested forward mode, one level per order."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ndgrad
from ndgrad import func
from ndgrad._src.core.op_observers import observing
from ndgrad._src.ops.table import NOT_DIFFERENTIABLE, RANDOM, table
from ndgrad.func import derivatives, grad, jacfwd, jet, jvp, vmap
from tests.examples import at_least, few
from tests.op_programs import SAMPLES, differentiable, program_of, various

float64 = ndgrad.float64


def number(value):
    return ndgrad.tensor(value, dtype=float64)


def nested(f, x, order):
    """Return f and its derivatives along ones, by jvp of jvp of ..."""
    out = [f(x)]
    for _ in range(order):
        f = (lambda g: lambda y: jvp(g, (y,), (ndgrad.ones_like(y),))[1])(f)
        out.append(f(x))
    return out


# ----- closed forms -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("f", "closed"),
    [
        (lambda x: x.exp(), lambda x, k: math.exp(x)),
        (lambda x: (2 * x).exp2(), lambda x, k: (2 * math.log(2)) ** k * 2 ** (2 * x)),
        (lambda x: x.sin(), lambda x, k: math.sin(x + k * math.pi / 2)),
        (lambda x: x.cos(), lambda x, k: math.cos(x + k * math.pi / 2)),
        (lambda x: x.sinh(), lambda x, k: math.sinh(x) if k % 2 == 0 else math.cosh(x)),
        (lambda x: x.log(), lambda x, k: math.log(x) if k == 0 else (-1) ** (k - 1) * math.factorial(k - 1) / x**k),
        (lambda x: 1 / x, lambda x, k: (-1) ** k * math.factorial(k) / x ** (k + 1)),
        (lambda x: x.reciprocal(), lambda x, k: (-1) ** k * math.factorial(k) / x ** (k + 1)),
        (lambda x: x**7, lambda x, k: math.perm(7, k) * x ** (7 - k) if k <= 7 else 0.0),
        (lambda x: x.sqrt(), lambda x, k: math.prod(0.5 - j for j in range(k)) * x ** (0.5 - k)),
        (lambda x: x.rsqrt(), lambda x, k: math.prod(-0.5 - j for j in range(k)) * x ** (-0.5 - k)),
        (lambda x: x**2.5, lambda x, k: math.prod(2.5 - j for j in range(k)) * x ** (2.5 - k)),
    ],
)
def test_derivatives_to_order_nine_have_their_closed_form(f, closed):
    x = 0.7
    found = [d.item() for d in derivatives(f, number(x), 9)]
    assert found == pytest.approx([closed(x, k) for k in range(10)], rel=1e-11)


def test_whole_powers_are_right_at_zero():
    assert [d.item() for d in derivatives(lambda x: x**3, number(0.0), 4)] == [0, 0, 0, 6, 0]
    assert [d.item() for d in derivatives(lambda x: x**2.5, number(0.0), 2)] == [0, 0, 0]


def test_a_curve_with_all_its_derivatives_is_followed():
    """f(x(s)) for x(s) = 2 + 3 s + 4 s^2 / 2 + 5 s^3 / 6 and f = x^2: the derivatives of the square of a polynomial."""
    curve = np.polynomial.Polynomial([2.0, 3.0, 2.0, 5 / 6])
    square = curve**2
    value, series = jet(lambda x: x * x, (number(2.0),), ([number(3.0), 4.0, 5.0],))
    assert value.item() == 4.0
    assert [s.item() for s in series] == pytest.approx([square.deriv(k)(0.0) for k in (1, 2, 3)])


def test_two_arguments_and_structures():
    primals = ({"a": number([1.0, 2.0]), "b": number(3.0)}, number(0.5))
    series = ({"a": [number([1.0, 0.0]), None], "b": [None, 2.0]}, [1.0, 0.0])
    value, made = jet(lambda p, c: (p["a"] * p["b"] * c, {"s": p["b"] * c}), primals, series)
    # With s: a = (1 + s, 2), b = 3 + s^2, c = 0.5 + s.
    assert value[0].tolist() == [1.5, 3.0]
    assert [m.tolist() for m in made[0]] == [[4.5, 6.0], [7.0, 2.0]]
    assert [m.item() for m in made[1]["s"]] == [3.0, 1.0]


# ----- every op of the table ----------------------------------------------------------------------------------------------------

ORDER = 3
#: Larger samples show no more about orders than smaller ones.
FEW = 60


def is_checked(op, sample):
    floats = [a for a in sample.args if isinstance(a, np.ndarray) and a.dtype.kind in "fc"]
    small = all(a.dtype in (np.float64, np.complex128) and a.size <= FEW for a in floats)
    return small and bool(differentiable(op, sample)) and "jvp" not in sample.skip


def with_derivatives(f, order):
    """Return f and its derivatives by one number up to an order, as one function: forward mode inside forward mode."""
    if order == 0:
        return lambda s: (f(s),)
    lower = with_derivatives(f, order - 1)

    def g(s):
        values, slopes = jvp(lower, (s,), (ndgrad.ones_like(s),))
        return (*values, slopes[-1])

    return g


@pytest.mark.parametrize("name", sorted(n for n in SAMPLES if table[n].jvp is not NOT_DIFFERENTIABLE and table[n].batch is not RANDOM))
def test_jet_of_op_equals_nested_forward_mode(name):
    op = table[name]
    rng = np.random.default_rng(0)
    for sample in few(2, various([s for s in SAMPLES[name] if is_checked(op, s)])[:6]):
        program, inputs = program_of(op, sample)
        terms = [[ndgrad.tensor((0.3 * rng.standard_normal(t.shape)).astype(t._array.dtype)) for _ in range(ORDER)] for t in inputs]

        coefficients = [[c / math.factorial(k) for k, c in enumerate(cs, 1)] for cs in terms]

        def run_along_curve(s, program=program, inputs=inputs, coefficients=coefficients):
            return program(*(t + s * (a + s * (b + s * c)) for t, (a, b, c) in zip(inputs, coefficients, strict=True)))

        with np.errstate(all="ignore"):
            _, made = jet(program, tuple(inputs), tuple(terms))
            for k, derivative in enumerate(with_derivatives(run_along_curve, ORDER)(number(0.0))[1:]):
                for found, expected in zip(made, derivative, strict=True):
                    expected = expected.numpy()
                    if np.isfinite(expected).all():
                        scale = 1 + np.abs(expected).max(initial=0)
                        np.testing.assert_allclose(found[k].numpy(), expected, rtol=1e-7, atol=1e-8 * scale)


# ----- random programs ----------------------------------------------------------------------------------------------------------


def run_write(y, write):
    z = y.clone()
    write(z)
    return z


MATRIX = number([[0.5, 0.1, 0.0], [0.2, -0.3, 0.4], [0.0, 0.6, 0.1]])
STEPS = {
    "sin": lambda y, x: y.sin(),
    "tanh": lambda y, x: y.tanh(),
    "exp": lambda y, x: (0.3 * y).exp(),
    "square": lambda y, x: y * y,
    "cube": lambda y, x: (0.5 * y) ** 3,
    "over": lambda y, x: y / (2.0 + x * x),
    "root": lambda y, x: (1.0 + y * y).sqrt(),
    "log": lambda y, x: (2.0 + y * y).log(),
    "softmax": lambda y, x: y.softmax(0),
    "norm": lambda y, x: y / (1.0 + y.norm()),
    "matmul": lambda y, x: MATRIX @ y,
    "outer": lambda y, x: (y[:, None] * x[None, :]).sum(0) * 0.3,
    "cumprod": lambda y, x: (1.0 + 0.2 * y).cumprod(0),
    "solve": lambda y, x: ndgrad.linalg.solve(ndgrad.eye(3, dtype=float64) * 3.0 + 0.1 * x[:, None], y),
    "flip": lambda y, x: y.flip(0),
    "where": lambda y, x: ndgrad.where(x > 0, y, 0.4 * x),
    "maximum": lambda y, x: ndgrad.maximum(y, 0.6 * x + 0.1),
    "write all": lambda y, x: y.clone().mul_(x),
    "write item": lambda y, x: run_write(y, lambda z: z.__setitem__(0, x[1] * y[2])),
    "write view": lambda y, x: run_write(y, lambda z: z[1:].mul_(x[:2])),
    "buffer": lambda y, x: run_write(ndgrad.zeros(3, dtype=float64), lambda z: (z.copy_(x), z[1:].add_(y[1:].sin()))),
    "inner grad": lambda y, x: grad(lambda z: (z**3 * x).sum())(y) * 0.3,
    "inner vmap": lambda y, x: vmap(lambda a, b: a * b.sin())(y, x),
    "inner jvp": lambda y, x: jvp(lambda z: z * z.flip(0), (y,), (x,))[1],
}
programs = st.lists(st.sampled_from(sorted(STEPS)), min_size=1, max_size=4)


def build(names):
    def program(x):
        y = x
        for name in names:
            y = STEPS[name](y, x)
        return y

    return program


@at_least(40)
@given(programs)
def test_jet_of_random_program_equals_nested_forward_mode(names):
    x = number(np.random.default_rng(0).standard_normal(3) * 0.7)
    for found, expected in zip(derivatives(build(names), x, 4), nested(build(names), x, 4), strict=True):
        np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-9, atol=1e-9 * (1 + np.abs(expected.numpy()).max()))


# ----- compositions -----------------------------------------------------------------------------------------------------------

X = np.array([0.3, -0.8, 1.1])


def third(x):
    return derivatives(lambda y: y.sin() * y.exp(), x, 3)[3]


def closed_third(x):
    return 2 * x.exp() * (x.cos() - x.sin())


def closed_fourth(x):
    return -4 * x.exp() * x.sin()


def test_grad_of_jet():
    x = number(X)
    np.testing.assert_allclose(third(x).numpy(), closed_third(x).numpy(), rtol=1e-12)
    np.testing.assert_allclose(grad(lambda y: third(y).sum())(x).numpy(), closed_fourth(x).numpy(), rtol=1e-12)


def test_ordinary_backward_through_jet():
    x = number(X).requires_grad_()
    third(x).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), closed_fourth(number(X)).numpy(), rtol=1e-12)


def test_vmap_of_jet():
    x = number(X)
    assert np.array_equal(vmap(third)(x).numpy(), third(x).numpy())


def test_jvp_of_jet_and_jet_of_jet():
    x = number(X)
    np.testing.assert_allclose(jvp(third, (x,), (ndgrad.ones_like(x),))[1].numpy(), closed_fourth(x).numpy(), rtol=1e-12)
    np.testing.assert_allclose(derivatives(third, x, 1)[1].numpy(), closed_fourth(x).numpy(), rtol=1e-12)


def test_jet_of_ordinary_grad():
    def slope(x):
        y = x.clone().requires_grad_()
        (g,) = ndgrad.autograd.grad((y**4).sum(), y, create_graph=True)
        return g

    x = number(X)
    np.testing.assert_allclose(derivatives(slope, x, 2)[2].detach().numpy(), 24 * X)


def test_laplacian_by_vmap_of_jet():
    f = lambda x: (x[0] * x[1]).sin() + (x[2] * x[0]).exp()
    x = number(X)
    run_along_curve = lambda v: jet(f, (x,), ([v, None],))[1][1]
    laplacian = vmap(run_along_curve)(ndgrad.eye(3, dtype=float64)).sum()
    np.testing.assert_allclose(laplacian.item(), np.trace(func.hessian(f)(x).numpy()), rtol=1e-12)


def test_custom_function_by_its_own_jvp():
    class Cube(ndgrad.autograd.Function):
        @staticmethod
        def forward(x):
            return x**3

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_forward(*inputs)

        @staticmethod
        def jvp(ctx, t):
            (x,) = ctx.saved_tensors
            return 3 * x * x * t

    found = [d.item() for d in derivatives(lambda x: Cube.apply(x.sin()), number(0.4), 5)]
    assert found == pytest.approx([d.item() for d in nested(lambda x: x.sin() ** 3, number(0.4), 5)])


def test_writes_to_a_result_leave_the_argument_alone():
    def f(x):
        y = x + 0.0
        y.mul_(2.0)
        return x * y

    assert [d.item() for d in derivatives(f, number(3.0), 3)] == [18.0, 12.0, 4.0, 0.0]


def test_complex_numbers():
    z = ndgrad.tensor(0.3 + 0.4j, dtype=ndgrad.complex128)
    value = (0.3 + 0.4j) ** 2
    found = [d.item() for d in derivatives(lambda z: z * z, z, 3)]
    assert found == pytest.approx([value, 2 * (0.3 + 0.4j), 2, 0])
    found = [d.item() for d in derivatives(lambda z: z.exp(), z, 4)]
    assert found == pytest.approx([np.exp(0.3 + 0.4j)] * 5)


def test_numpy_namespace():
    x = ndgrad.numpy.array(X)
    _, (first, second) = jet(lambda x: x * x * x, (x,), ([1.0, 0.0],))
    assert isinstance(second, ndgrad.numpy.Array)
    np.testing.assert_allclose(np.asarray(second), 6 * X)
    np.testing.assert_allclose(np.asarray(first), np.diag(np.asarray(jacfwd(lambda x: x**3)(x))))


# ----- cost ---------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "f",
    [
        lambda x: (x * x.sin()).exp().tanh() / (1.0 + x * x),
        lambda x: (1.0 + x.sigmoid()).log() * x.erf(),
        lambda x: ndgrad.stack([x, x * x, x.cos()]).softmax(0).prod(),
    ],
)
def test_cost_is_polynomial_in_the_order(f):
    def count(order):
        ops = []

        def observer(op, arrays, settings, run):
            ops.append(op.name)
            return run()

        with observing(observer):
            derivatives(f, number(0.3), order)
        return len(ops)

    # Cubic at worst; nesting would cost a factor of 2^6 here.
    assert count(12) <= 8.5 * count(6)


# ----- bad input ------------------------------------------------------------------------------------------------------------------


def test_bad_input_is_refused():
    x = number(X)
    f = lambda x: x * x
    with pytest.raises(RuntimeError, match="shape"):
        jet(f, (x,), ([number(1.0)],))
    with pytest.raises(ValueError, match="same length"):
        jet(lambda x, y: x * y, (x, x), ([1.0], [1.0, 2.0]))
    with pytest.raises(ValueError, match="same length"):
        jet(f, (x,), ([],))
    with pytest.raises(TypeError, match="list of its derivatives"):
        jet(f, (x,), (x,))
    with pytest.raises(ValueError, match="do not match"):
        jet(lambda x, y: x * y, (x, x), ([1.0],))
    with pytest.raises(RuntimeError, match="int64"):
        jet(f, (ndgrad.tensor([1, 2]),), ([1.0],))
    with pytest.raises(TypeError, match="as_tensor"):
        jet(f, (2.0,), ([1.0],))
    with pytest.raises(TypeError, match="must return tensors"):
        jet(lambda x: 3.0, (x,), ([1.0],))
    with pytest.raises(ValueError, match="order"):
        derivatives(f, x, -1)
    with pytest.raises(ZeroDivisionError):
        jet(lambda x: x * (1 / 0), (x,), ([1.0],))
