"""HIPS autograd's interface on its own: what goes in and comes out, imports, boxes, primitives in ndgrad's other ways to differentiate."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as onp
import pytest

import ndgrad
import ndgrad.compat.autograd as autograd
import ndgrad.compat.autograd.numpy as np
import ndgrad.numpy as dnp
from ndgrad.compat.autograd import elementwise_grad, grad, jacobian, make_vjp, value_and_grad
from ndgrad.compat.autograd.builtins import isinstance as isinstance_
from ndgrad.compat.autograd.builtins import type as type_
from ndgrad.compat.autograd.extend import def_linear, defjvp, defjvp_argnum, defvjp, defvjp_argnum, notrace_primitive, primitive, vspace
from ndgrad.compat.autograd.test_util import check_equivalent, check_grads, combo_check
from ndgrad.compat.autograd.tracer import getval, isbox
from ndgrad.numpy import Array

# ----- arguments and results --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        (2.0, onp.float64),
        (onp.float32(2.0), onp.float32),
        (onp.ones(2), onp.ndarray),
        (onp.array(2.0), onp.float64),
        (2.0 + 1j, onp.complex128),
    ],
)
def test_gradient_has_the_type_of_its_argument(given: Any, kind: type) -> None:
    assert type(grad(lambda x: np.sum(np.abs(x) ** 2))(given)) is kind


def test_structures_keep_their_shape() -> None:
    class Pair(NamedTuple):
        a: Any
        b: Any

    found = grad(lambda p: p.a[0] * p.b["x"].sum())(Pair([2.0, 1.0], {"x": onp.ones(2)}))
    assert type(found) is Pair
    assert found.a == [2.0, 0.0]
    assert found.b["x"].tolist() == [2.0, 2.0]


def test_outside_of_derivatives_everything_is_numpys_own() -> None:
    assert type(np.array([1.0, 2.0])) is onp.ndarray
    assert type(np.zeros(2)) is onp.ndarray
    assert np.sin is onp.sin
    assert np.linalg.LinAlgError is onp.linalg.LinAlgError
    assert type(np.mean([1.0, 2.0])) is onp.float64
    assert np.r_[1.0, 2.0].tolist() == [1.0, 2.0]
    assert np.pi == onp.pi
    assert np.vectorize(lambda x: x + 1)(onp.ones(2)).tolist() == [2.0, 2.0]


def test_inside_of_derivatives_values_are_arrays() -> None:
    seen = []

    def f(x: Any) -> Any:
        seen.append((isbox(x), type(x), getval(x).tolist(), x._value.tolist(), type_(x), type_(np.sum(x)), isinstance_(np.sum(x), float)))
        return np.sum(np.array([x[0] ** 2, x[1]]))

    grad(f)(onp.ones(2))
    assert seen == [(True, Array, [1.0, 1.0], [1.0, 1.0], onp.ndarray, onp.float64, True)]
    assert not isbox(onp.ones(2))
    assert getval(3.0) == 3.0


def test_vectorized_functions_are_differentiable() -> None:
    positive = np.vectorize(lambda t: t**2 if t > 0 else -t)
    assert grad(lambda x: np.sum(positive(x)))(onp.array([2.0, -1.0])).tolist() == [4.0, -1.0]


def test_derivatives_compose_with_backward() -> None:
    x = dnp.array([1.0, 2.0]).requires_grad_()
    g = grad(lambda v: np.sum(v**3))(x)
    assert isinstance(g, Array)
    g.sum().backward()
    assert x.grad.tolist() == [6.0, 12.0]


def test_a_result_that_depends_on_an_outer_variable_stays_in_its_graph() -> None:
    f = grad(lambda a: grad(lambda x: a * x**2)(3.0))
    assert f(1.0) == 6.0
    # inner and outer variables are not confused
    assert grad(lambda x: x * grad(lambda y: x + y)(2.0))(5.0) == 1.0


def test_imports_of_submodules() -> None:
    import ndgrad.compat.autograd.numpy.random as npr

    import ndgrad.compat.autograd.numpy.linalg as npla
    from ndgrad.compat.autograd.numpy.numpy_boxes import ArrayBox

    assert npr is onp.random
    assert npla is np.linalg
    assert npla.norm([3.0, 4.0]) == 5.0
    assert ArrayBox is Array
    pytest.importorskip("scipy")
    import ndgrad.compat.autograd.scipy.stats.norm as norm

    import ndgrad.compat.autograd.scipy.stats as stats
    from ndgrad.compat.autograd.scipy.misc import logsumexp
    from ndgrad.compat.autograd.scipy.stats import multivariate_normal

    assert grad(norm.logpdf)(0.5) == pytest.approx(-0.5)
    assert stats.norm.cdf(0.0) == 0.5
    assert grad(logsumexp)(onp.zeros(2)).tolist() == [0.5, 0.5]
    assert multivariate_normal.logpdf(onp.zeros(2), onp.zeros(2), onp.eye(2)) == pytest.approx(-onp.log(2 * onp.pi))
    assert "gammaln" in dir(autograd.scipy.special)


def test_functions_of_scipy_with_closures_are_differentiable() -> None:
    pytest.importorskip("scipy")
    from ndgrad.compat.autograd.scipy.integrate import quad

    assert grad(lambda a: quad(lambda x: a * x**2, 0.0, 3.0)[0])(2.0) == pytest.approx(9.0)


def test_names() -> None:
    assert grad(np.tanh).__name__ == "grad_of_tanh_wrt_argnum_0"
    assert autograd.egrad is elementwise_grad
    assert {"grad", "list", "numpy"} <= set(dir(autograd))
    with pytest.raises(AttributeError, match="no attribute 'gradient'"):
        autograd.gradient


def test_checkpoint_runs_the_function_again() -> None:
    calls = []

    @autograd.checkpoint
    def f(x: Any) -> Any:
        calls.append(1)
        return np.sum(np.sin(x) ** 2)

    x = onp.array([0.3, 0.7])
    onp.testing.assert_allclose(grad(f)(x), onp.sin(2 * x))
    assert len(calls) == 2
    assert f(x) == pytest.approx(onp.sum(onp.sin(x) ** 2))


# ----- primitives ------------------------------------------------------------------------------------------------------------------


@primitive
def cube(x: Any) -> Any:
    assert not isinstance(x, Array)  # plain values come in
    return onp.power(x, 3)


defvjp(cube, lambda ans, x: lambda g: 3 * g * x**2)
defjvp(cube, lambda g, ans, x: 3 * g * x**2)


def test_primitive_in_every_way_to_differentiate() -> None:
    x = dnp.array([1.0, 2.0]).requires_grad_()
    cube(x).sum().backward()
    assert x.grad.tolist() == [3.0, 12.0]
    (second,) = ndgrad.autograd.grad(ndgrad.autograd.grad(cube(x).sum(), x, create_graph=True)[0].sum(), x)
    assert second.tolist() == [6.0, 12.0]
    assert ndgrad.func.jvp(cube, (x.detach(),), (dnp.ones(2),))[1].tolist() == [3.0, 12.0]
    assert ndgrad.func.vmap(cube)(x.detach()).tolist() == onp.power([1.0, 2.0], 3.0).tolist()
    assert ndgrad.func.vmap(ndgrad.func.grad(cube))(x.detach()).tolist() == [3.0, 12.0]
    assert jacobian(cube)(onp.array([1.0, 2.0])).tolist() == [[3.0, 0.0], [0.0, 12.0]]
    assert cube(2.0) == onp.power(2.0, 3.0)
    check_grads(cube, modes=["fwd", "rev"], order=3)(onp.array([0.5, -1.5]))


def test_primitive_with_structures() -> None:
    @primitive
    def split(pair: Any, scale: Any) -> Any:
        return [pair["a"] * scale, pair["b"] ** 2]

    defvjp(
        split,
        lambda ans, pair, scale: lambda g: {"a": g[0] * scale, "b": 2 * g[1] * pair["b"]},
        lambda ans, pair, scale: lambda g: np.sum(g[0] * pair["a"]),
    )

    def f(pair: Any, scale: Any) -> Any:
        first, second = split(pair, scale)
        return np.sum(first) * np.sum(second)

    args = ({"a": onp.array([1.0, 2.0]), "b": 3.0}, 2.0)
    found = grad(f, (0, 1))(*args)
    assert found[0]["a"].tolist() == [18.0, 18.0]
    assert found[0]["b"] == 36.0
    assert found[1] == 27.0


def test_other_ways_to_give_rules() -> None:
    @primitive
    def product(a: Any, b: Any) -> Any:
        return onp.multiply(a, b)

    defvjp_argnum(product, lambda n, ans, args, kwargs: lambda g: g * args[1 - n])
    def_linear(product)
    check_grads(product, (0, 1), order=2)(2.0, 3.0)

    @primitive
    def power(a: Any, n: Any) -> Any:
        return onp.power(a, n)

    defvjp(power, lambda ans, a, n: lambda g: g * n * a ** (n - 1), argnums=[0])
    defjvp_argnum(power, lambda number, g, ans, args, kwargs: g * args[1] * args[0] ** (args[1] - 1))
    assert grad(power)(2.0, 3) == 12.0
    with pytest.raises(NotImplementedError, match=r"VJP of power wrt argnums \(1,\) not defined"):
        grad(power, 1)(2.0, 3.0)


def test_functions_without_derivative() -> None:
    @notrace_primitive
    def rounded(x: Any) -> Any:
        return onp.round(x)

    assert grad(lambda x: x * rounded(x))(2.4) == 2.0


def test_rules_for_foreign_functions_are_refused() -> None:
    with pytest.raises(TypeError, match="made by @primitive, and 'sin' is a ufunc"):
        defvjp(onp.sin, lambda ans, x: lambda g: g)


# ----- spaces and checks -----------------------------------------------------------------------------------------------------------------


def test_vector_spaces() -> None:
    space = vspace({"a": onp.ones((2, 1)), "z": 1.0 + 2j})
    assert space.size == 4
    assert len(list(space.standard_basis())) == 4
    x = space.randn()
    assert space.inner_prod(x, space.zeros()) == 0.0
    assert space == vspace(space.scalar_mul(space.add(x, space.ones()), 2.0))
    assert vspace(onp.ones(3)) != space
    with pytest.raises(TypeError, match="int"):
        vspace([1])


def test_checks_notice_wrong_rules() -> None:
    check_grads(lambda x: np.sum(np.sin(x) * x), order=2)(onp.array([0.2, 1.1]))
    combo_check(np.sum, [0], order=1)([onp.ones((2, 3)), onp.ones((1, 2))], axis=[None, 0, 1])
    check_equivalent([1.0, onp.ones(2)], [1.0, onp.ones(2)])
    with pytest.raises(AssertionError):
        check_equivalent(1.0, 2.0)

    @primitive
    def wrong(x: Any) -> Any:
        return onp.sum(x**2)

    defvjp(wrong, lambda ans, x: lambda g: g * x)
    defjvp(wrong, lambda g, ans, x: np.sum(g * x))
    for mode in ("fwd", "rev"):
        with pytest.raises(AssertionError):
            check_grads(wrong, modes=[mode], order=1)(onp.array([0.5, 2.0]))


def test_vjp_of_several_outputs() -> None:
    vjp, value = make_vjp(lambda x: (x**2, {"y": 3 * x}))(2.0)
    assert value == (4.0, {"y": 6.0})
    assert vjp((1.0, {"y": 10.0})) == 34.0


def test_value_and_grad_suits_scipy() -> None:
    optimize = pytest.importorskip("scipy.optimize")
    found = optimize.minimize(value_and_grad(lambda x: np.sum((x - onp.arange(3.0)) ** 4 + x**2)), onp.zeros(3), jac=True)
    assert found.success
    assert onp.abs(found.jac).max() < 1e-4


def test_lists_of_values_inside_are_arrays() -> None:
    x = onp.array([0.3, 0.7])
    for f, want in (
        (lambda x: np.mean([x[0], x[1] ** 2]), [0.5, 0.7]),
        (lambda x: np.sum([[x[0]], [x[1]]]), [1.0, 1.0]),
        (lambda x: np.linalg.norm([x[0], x[1]]), x / onp.linalg.norm(x)),
        (lambda x: np.sum(np.append([x[0], 1.0], x) ** 2), [1.2, 1.4]),
        (lambda x: np.var([x[0], x[1]]), onp.array([-1, 1]) * (x[1] - x[0]) / 2),
        (lambda x: np.sum(np.r_[x, 0.0, x] ** 2), 4 * x),
        (lambda x: np.sum(np.c_[x, x * 2] ** 2), 10 * x),
        (lambda x: np.sum(np.make_diagonal(x, axis1=-1, axis2=-2) ** 2), 2 * x),
        (lambda x: np.where(True, x=x, y=2.0)[0], [1.0, 0.0]),
    ):
        onp.testing.assert_allclose(grad(f)(x), want, rtol=1e-12)
    assert np.where(condition=True, x=1, y=2) == 1
    assert np.where([True, False], [1, 2], y=[3, 4]).tolist() == [1, 4]
    assert np.make_diagonal(x, axis1=-1, axis2=-2).tolist() == [[0.3, 0.0], [0.0, 0.7]]


@pytest.mark.parametrize("triangle", ["L", "U"])
def test_eigenvalues_are_functions_of_the_triangle_that_is_read(triangle: str) -> None:
    a = onp.random.default_rng(0).normal(size=(3, 3))
    read = onp.tril(onp.ones((3, 3))) if triangle == "L" else onp.triu(onp.ones((3, 3)))
    gradient = grad(lambda m: np.sum(np.linalg.eigh(m, triangle)[0] ** 3) + np.linalg.eigvalsh(m, UPLO=triangle)[0])(a)
    assert (gradient[read == 0] == 0).all()
    autograd.test_util.check_grads(lambda m: np.linalg.eigh(m, triangle)[0])(a)


def test_a_wrong_rule_is_found_to_second_order() -> None:
    @autograd.extend.primitive
    def double(x: Any) -> Any:
        return x * 2.0

    @autograd.extend.primitive
    def same(x: Any) -> Any:
        return x

    autograd.extend.defvjp(double, lambda ans, x: lambda g: same(g) * 2)
    autograd.extend.defvjp(same, lambda ans, x: lambda g: g * 1.001)
    with pytest.raises(AssertionError, match=r"\(VJP\) check of vjp_double failed"):
        autograd.test_util.check_grads(double, modes=["rev"])(1.0)


def test_tensor_jacobian_products_of_fewer_dimensions() -> None:
    rng = onp.random.default_rng(0)
    a, v = rng.normal(size=(2, 3)), rng.normal(size=2)
    f = lambda a: np.roll(np.sin(a), 1)
    want = onp.tensordot(v, autograd.jacobian(f)(a), 1)
    onp.testing.assert_allclose(autograd.tensor_jacobian_product(f)(a, v), want, rtol=1e-12)
