"""Deliberate differences in what ops compute: derivatives torch does not have, limits, ties, names of nodes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import ndgrad
from tests.torch_parity.differences import deliberate


def leaf(lib: Any, values: Any) -> Any:
    return lib.tensor(values, dtype=lib.float64, requires_grad=True)


def const(lib: Any, values: Any) -> Any:
    return lib.tensor(values, dtype=lib.float64)


def gradient(lib: Any, f: Any, values: Any) -> list[Any]:
    x = leaf(lib, values)
    found: list[Any] = lib.autograd.grad(f(x).sum(), x)[0].tolist()
    return found


def difference(f: Any, values: Any, step: float = 1e-6) -> np.ndarray:
    """Central differences of the sum of `f`, which takes and returns ndgrad tensors."""
    x = np.array(values, dtype=np.float64)
    out = np.empty_like(x)
    for i in np.ndindex(x.shape):
        up, down = x.copy(), x.copy()
        up[i] += step
        down[i] -= step
        out[i] = (f(ndgrad.tensor(up)).sum() - f(ndgrad.tensor(down)).sum()).item() / (2 * step)
    return out


def cross_entropy(lib: Any) -> Any:
    logits = const(lib, [[0.5, 1.0], [1.5, -1.0]])
    return lambda w: lib.nn.functional.cross_entropy(logits, lib.tensor([0, 1]), weight=w, reduction="sum")


def binary_cross_entropy(lib: Any) -> Any:
    return lambda w: lib.nn.functional.binary_cross_entropy_with_logits(const(lib, [0.5, 1.0]), const(lib, [1.0, 0.5]), pos_weight=w)


def batch_norm(lib: Any) -> Any:
    x, variance = const(lib, [[0.5, 1.0], [1.0, 3.0]]), const(lib, [1.0, 2.0])
    return lambda mean: lib.nn.functional.batch_norm(x, mean, variance, training=False)


@pytest.mark.parametrize(
    "program",
    [
        lambda lib: lib.special.bessel_j0,
        lambda lib: lambda a: lib.special.gammainc(a, const(lib, [1.0, 2.0])),
        lambda lib: lambda a: lib.special.gammaincc(a, const(lib, [1.0, 2.0])),
        lambda lib: lib.special.bessel_y1,
        lambda lib: lib.special.airy_ai,
        lambda lib: lambda x: lib.special.legendre_polynomial_p(x, 4),
        lambda lib: lambda w: lib.histogram(const(lib, [0.1, 0.6]), 2, weight=w).hist.square(),
        lambda lib: lambda x: lib.linalg.ldl_factor(lib.stack([x, x.flip(0)])).LD.square(),
        lambda lib: lib.special.modified_bessel_k0,
        lambda lib: lambda x: lib.floor_divide(x, 2.0),
        lambda lib: lambda x: lib.heaviside(x, const(lib, [1.0, 1.0])),
        lambda lib: lambda v: lib.heaviside(const(lib, [0.0, 1.0]), v),
        cross_entropy,
        binary_cross_entropy,
        batch_norm,
    ],
    ids=(
        "j0 gammainc-shape gammaincc-shape y1 airy legendre histogram ldl k0 floor_divide heaviside heaviside-values class-weight "
        "position-weight running-mean".split()
    ),
)
def test_ops_that_torch_does_not_differentiate(program: Any) -> None:
    deliberate("derivatives-beyond")
    values = [1.25, 2.5]
    with pytest.raises(RuntimeError):
        gradient(torch, program(torch), values)
    pytest.importorskip("scipy")
    np.testing.assert_allclose(gradient(ndgrad, program(ndgrad), values), difference(program(ndgrad), values), atol=1e-7)


def test_derivatives_at_points_where_the_formula_is_not_defined() -> None:
    deliberate("limits")
    pytest.importorskip("scipy")

    def run(lib: Any) -> list[float]:
        radius = gradient(lib, lambda r: lib.polar(r, const(lib, [1.0])).real, [0.0])
        x = leaf(lib, [0.0])
        slope = lib.autograd.grad(lib.sinc(x).sum(), x, create_graph=True)[0]
        curvature = lib.autograd.grad(slope.sum(), x)[0].tolist()
        base, exponent = leaf(lib, [2.0]), leaf(lib, [0.0])
        slope = lib.autograd.grad((base**exponent).sum(), base, create_graph=True)[0]
        mixed = lib.autograd.grad(slope.sum(), exponent)[0].tolist()
        gammas = gradient(lib, lambda x: lib.special.gammainc(const(lib, [1.0, 1.0]), x), [0.0, float("inf")])
        y = leaf(lib, [0.0])
        slope = lib.autograd.grad(lib.atan2(y, const(lib, [0.0])).sum(), y, create_graph=True)[0]
        bend = lib.autograd.grad(slope.sum(), y)[0].tolist()
        z = leaf(lib, [0.0])
        slope = lib.autograd.grad(lib.linalg.vector_norm(z), z, create_graph=True)[0]
        return [*radius, *curvature, *mixed, *gammas, *bend, *lib.autograd.grad(slope.sum(), z)[0].tolist()]

    # cos(1); sinc(x) = 1 - (pi x)^2 / 6 + ...; d/de (e b^(e-1)) = 1/b; exp(-x); 0, as the first derivative there
    np.testing.assert_allclose(run(ndgrad), [np.cos(1.0), -(np.pi**2) / 3, 0.5, 1.0, 0.0, 0.0, 0.0], rtol=1e-12)
    assert not np.isclose(run(torch), run(ndgrad)).any()


@pytest.mark.parametrize("factor", [float("nan"), float("inf"), 1e308])
def test_the_derivative_of_a_product_is_the_product_of_the_other_factors(factor: float) -> None:
    deliberate("products-of-others")

    def by_factor(lib: Any) -> list[float]:
        """The gradient for the odd factor, of the product, and of the last of the running products."""
        values = [2.0, factor, 3.0]
        products = (
            lambda x: x.prod(),
            lambda x: x.cumprod(0)[2],
            lambda x: lib.zeros(1, dtype=lib.float64).scatter_reduce(0, lib.tensor([0, 0, 0]), x, "prod", include_self=False),
        )
        return [gradient(lib, f, values)[1] for f in products]

    with np.errstate(over="ignore"):
        assert by_factor(ndgrad) == [6.0, 6.0, 6.0]
        assert not np.isfinite(by_factor(torch)).any()
        # torch agrees if it does not divide.
        x = const(torch, [2.0, factor, 3.0])
        assert torch.func.grad(lambda x: x.prod())(x)[1] == 6.0


def test_a_nan_among_the_extremes_of_a_norm() -> None:
    deliberate("nan-extremes")
    values = [1.0, float("nan")]
    assert gradient(torch, lambda x: torch.linalg.vector_norm(x, float("inf")), values) == [0.0, 0.0]
    ours = gradient(ndgrad, lambda x: ndgrad.linalg.vector_norm(x, float("inf")), values)
    assert ours[0] == 0.0
    assert np.isnan(ours[1])


def test_ties_of_the_largest_distance() -> None:
    deliberate("distance-ties")

    def run(lib: Any) -> list[Any]:
        return gradient(lib, lambda x: lib.cdist(x, const(lib, [[0.0, 0.0]]), p=float("inf")), [[1.0, 1.0]])

    assert run(torch) == [[1.0, 1.0]]
    assert run(ndgrad) == [[0.5, 0.5]]


def test_vectors_of_equal_eigenvalues() -> None:
    deliberate("equal-eigenvalues")

    def run(lib: Any) -> list[Any]:
        return gradient(lib, lambda x: lib.linalg.eigh(x)[1].abs(), [[1.0, 0.0], [0.0, 1.0]])

    assert np.isnan(run(torch)).all()
    assert np.isfinite(run(ndgrad)).all()


def test_a_hook_on_tensors_that_require_no_grad() -> None:
    deliberate("absent-device")
    with pytest.raises(AssertionError):
        torch.autograd.graph.register_multi_grad_hook([torch.ones(1)], print)
    with pytest.raises(RuntimeError, match="requires_grad_"):
        ndgrad.autograd.graph.register_multi_grad_hook([ndgrad.ones(1)], print)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_device_that_is_not_there() -> None:
    deliberate("absent-device")
    with pytest.raises(AssertionError):
        torch.ones(1).cuda()
    with pytest.raises(RuntimeError, match="cupy|CuPy"):
        ndgrad.ones(1).cuda()


def test_one_node_for_a_composite_op() -> None:
    deliberate("composite-nodes")

    def run(lib: Any) -> list[str]:
        a, v = lib.ones(2, 2, requires_grad=True), lib.ones(2)
        results = (a @ a, a @ v, lib.nn.functional.linear(v, a, v), a.mT)
        return [r.grad_fn.name() for r in results]

    assert run(torch) == ["MmBackward0", "MvBackward0", "ViewBackward0", "TransposeBackward0"]
    assert run(ndgrad) == ["MatmulBackward0", "MatmulBackward0", "LinearBackward0", "PermuteBackward0"]


def test_triangles_that_are_not_read_get_no_gradient() -> None:
    deliberate("unread-triangles")

    def run(lib: Any) -> float:
        factor = leaf(lib, [[2.0, 0.0], [1.0, 3.0]])
        return lib.autograd.grad(lib.cholesky_inverse(factor)[0, 0], factor)[0][0, 1].item()

    other = ndgrad.cholesky_inverse(const(ndgrad, [[2.0, 0.5], [1.0, 3.0]]))[0, 0]
    assert other == ndgrad.cholesky_inverse(const(ndgrad, [[2.0, 0.0], [1.0, 3.0]]))[0, 0]
    assert run(ndgrad) == 0.0
    assert run(torch) != 0.0


def test_what_a_scatter_overwrites_gets_no_gradient() -> None:
    deliberate("strided-scatter")

    def run(lib: Any) -> list[Any]:
        return gradient(lib, lambda x: lib.as_strided_scatter(x, const(lib, [5.0]), (1,), (1,), 1), [1.0, 2.0, 3.0])

    assert run(ndgrad) == [1.0, 0.0, 1.0]
    assert run(torch) != run(ndgrad)


def test_parts_that_may_be_written_are_copies() -> None:
    deliberate("unsafe-parts")

    def run(lib: Any) -> list[Any]:
        x = leaf(lib, [1.0, 2.0])
        y = x * 1.0
        z = y * y
        lib.unsafe_split(y, 1)[0].fill_(100.0)
        z.sum().backward()
        return x.grad.tolist()

    assert run(ndgrad) == [2.0, 4.0]
    assert run(torch) != [2.0, 4.0]


def test_logarithms_of_complex_sums_are_principal_values() -> None:
    deliberate("complex-logarithms")
    values = np.array([1.0 + 3.0j, -2.0 + 5.0j, 0.5 + 9.0j])
    ours, theirs = ndgrad.logcumsumexp(ndgrad.tensor(values), 0).numpy(), torch.logcumsumexp(torch.tensor(values), 0).numpy()
    np.testing.assert_allclose(np.exp(ours), np.exp(theirs))
    np.testing.assert_allclose(ours[1:], np.log(np.cumsum(np.exp(values)))[1:])


def test_added_singular_vectors_stay_orthogonal_to_the_others() -> None:
    deliberate("added-columns")

    def run(lib: Any) -> float:
        a, t = const(lib, [[1.0, 0.5], [0.0, 2.0], [3.0, 1.0]]), const(lib, [[1.0, 0.0], [2.0, 1.0], [0.0, 1.0]])
        u, tangent = (r[0] for r in lib.func.jvp(lib.linalg.svd, (a,), (t,)))
        return float((u.mT @ tangent + tangent.mT @ u).abs().max())

    assert run(ndgrad) < 1e-12
    assert run(torch) > 0.1


def test_eigenpairs_of_dense_matrices_are_exact() -> None:
    deliberate("outright-eigenpairs")
    a = np.diag(np.arange(1.0, 10.0)) + 0.1
    np.testing.assert_allclose(ndgrad.lobpcg(ndgrad.tensor(a), 2)[0].numpy(), np.linalg.eigvalsh(a)[:-3:-1], rtol=1e-14)
    with pytest.raises(NotImplementedError):
        ndgrad.lobpcg(ndgrad.tensor(a), 2, tracker=print)


@pytest.mark.parametrize("f", [lambda lib, x: x.chalf(), lambda lib, x: lib.addmv(x.long(), x.long().outer(x.long()), x.long(), alpha=1.5)])
def test_what_numpy_cannot_hold_or_would_cut_is_refused(f: Any) -> None:
    deliberate("refused-beyond")
    f(torch, const(torch, [1.0, 2.0]))
    with pytest.raises((NotImplementedError, RuntimeError), match="two halves|floating point number"):
        f(ndgrad, const(ndgrad, [1.0, 2.0]))


def test_of_several_maxima_for_one_place_the_last_gets_the_gradient() -> None:
    deliberate("repeated-writes")

    def run(lib: Any) -> list[Any]:
        return gradient(lib, lambda x: lib.nn.functional.max_unpool1d(x[None, None], lib.tensor([[[1, 1]]]), 2)[0, 0], [1.0, 2.0])

    assert run(ndgrad) == [0.0, 1.0]
    assert run(torch) == [1.0, 1.0]
