"""Random numbers: reproducible from seeds, in the right shapes and dtypes, with gradients of zeros, under vmap's modes."""

from __future__ import annotations

import numpy as np
import pytest

import ndgrad
from ndgrad._src.ops.vocabulary import tensor_ops
from ndgrad._src.transforms.transforms import grad, vmap
from ndgrad.random import fork_rng

DRAWS = {
    "rand": lambda g: ndgrad.rand(3, generator=g),
    "randn": lambda g: ndgrad.randn(3, generator=g),
    "randint": lambda g: ndgrad.randint(0, 100, (3,), generator=g),
    "randperm": lambda g: ndgrad.randperm(30, generator=g),
    "normal": lambda g: ndgrad.normal(0.0, 1.0, (3,), generator=g),
    "normal of tensors": lambda g: ndgrad.normal(ndgrad.zeros(3), ndgrad.ones(3), generator=g),
    "bernoulli": lambda g: ndgrad.bernoulli(ndgrad.full((60,), 0.5), generator=g),
    "poisson": lambda g: ndgrad.poisson(ndgrad.full((3,), 100.0), generator=g),
    "binomial": lambda g: ndgrad.binomial(ndgrad.full((3,), 1000.0), ndgrad.full((3,), 0.5), generator=g),
    "multinomial": lambda g: ndgrad.multinomial(ndgrad.ones(40), 20, generator=g),
    "gamma": lambda g: ndgrad._standard_gamma(ndgrad.ones(3), generator=g),
    "dirichlet": lambda g: ndgrad._sample_dirichlet(ndgrad.ones(3), generator=g),
    "uniform_": lambda g: ndgrad.empty(3).uniform_(generator=g),
    "normal_": lambda g: ndgrad.empty(3).normal_(generator=g),
    "exponential_": lambda g: ndgrad.empty(3).exponential_(generator=g),
    "bernoulli_": lambda g: ndgrad.empty(60).bernoulli_(generator=g),
    "random_": lambda g: ndgrad.empty(3).random_(generator=g),
    "cauchy_": lambda g: ndgrad.empty(3).cauchy_(generator=g),
    "geometric_": lambda g: ndgrad.empty(30).geometric_(0.1, generator=g),
    "log_normal_": lambda g: ndgrad.empty(3).log_normal_(generator=g),
}


@pytest.mark.parametrize("name", DRAWS)
def test_a_seed_decides_the_numbers(name):
    draw = DRAWS[name]
    ndgrad.manual_seed(4)
    first, second = draw(None), draw(None)
    ndgrad.manual_seed(4)
    assert draw(None).tolist() == first.tolist()
    assert first.tolist() != second.tolist()
    own = ndgrad.Generator().manual_seed(4)
    state = ndgrad.get_rng_state()
    assert draw(own).tolist() == first.tolist()
    assert draw(own).tolist() == second.tolist()
    assert ndgrad.get_rng_state().tolist() == state.tolist()


@pytest.mark.parametrize("name", DRAWS)
def test_a_generator_must_be_one(name):
    with pytest.raises(TypeError, match=r"generator must be an ndgrad.Generator, but is int"):
        DRAWS[name](7)


def test_states_are_byte_tensors_that_restore():
    state = ndgrad.get_rng_state()
    assert state.dtype is ndgrad.uint8
    a = ndgrad.randn(3)
    ndgrad.set_rng_state(state)
    assert ndgrad.randn(3).tolist() == a.tolist()
    with pytest.raises(TypeError, match="uint8"):
        ndgrad.set_rng_state(ndgrad.ones(3))
    with fork_rng():
        inside = ndgrad.randn(3)
    assert ndgrad.randn(3).tolist() == inside.tolist()
    with fork_rng(enabled=False):
        ndgrad.randn(3)
    assert ndgrad.manual_seed(9).initial_seed() == ndgrad.initial_seed() == 9
    assert ndgrad.seed() == ndgrad.initial_seed()


def test_shapes_dtypes_and_options():
    assert ndgrad.rand(2, 3).shape == ndgrad.randn((2, 3)).shape == ndgrad.rand(size=(2, 3)).shape == (2, 3)
    assert ndgrad.randint(5, (2,)).dtype is ndgrad.randperm(3).dtype is ndgrad.int64
    assert ndgrad.randint(5, (2,), dtype=ndgrad.float32).dtype is ndgrad.float32
    assert ndgrad.randn(2, dtype=ndgrad.complex64).dtype is ndgrad.complex64
    assert ndgrad.rand(2, requires_grad=True).requires_grad
    out = ndgrad.zeros(2)
    assert ndgrad.rand(2, out=out) is out
    assert (out > 0).all()
    x = ndgrad.ones(2, 3, dtype=ndgrad.float32)
    for made in (ndgrad.rand_like(x), ndgrad.randn_like(x), ndgrad.randint_like(x, 9)):
        assert (made.shape, made.dtype) == ((2, 3), ndgrad.float32)
    assert ndgrad.randn_like(x, dtype=ndgrad.float64).dtype is ndgrad.float64
    assert sorted(ndgrad.randperm(50).tolist()) == list(range(50))
    assert ndgrad.rand(2, device="meta").is_meta


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_uniform_numbers_stay_below_one(dtype):
    u = ndgrad.rand(20000, dtype=getattr(ndgrad, dtype)).numpy()
    assert u.dtype == dtype
    assert 0 <= u.min() < 0.001 < 0.999 < u.max() < 1


def test_whole_numbers_cover_their_range():
    assert set(ndgrad.randint(-2, 3, (500,)).tolist()) == {-2, -1, 0, 1, 2}
    assert set(ndgrad.empty(500).random_(3).tolist()) == {0.0, 1.0, 2.0}
    assert set(ndgrad.empty(500).random_(-1, 1).tolist()) == {-1.0, 0.0}
    assert ndgrad.empty(1000, dtype=ndgrad.int8).random_().min() >= 0
    assert ndgrad.empty(1000, dtype=ndgrad.float16).random_().max() <= 2048
    assert ndgrad.empty(1000, dtype=ndgrad.int64).random_().max() > 2**62
    assert ndgrad.randint(0, 2**63, (100,)).max() > 2**61


def test_multinomial_draws_only_what_has_weight():
    w = ndgrad.tensor([0.0, 3.0, 0.0, 1.0])
    assert set(ndgrad.multinomial(w, 300, replacement=True).tolist()) == {1, 3}
    pairs = ndgrad.multinomial(w.expand(100, 4), 2).numpy()
    assert {frozenset(p) for p in pairs.tolist()} == {frozenset({1, 3})}
    np.testing.assert_allclose((pairs[:, 0] == 1).mean(), 0.75, atol=0.15)


REFUSED = [
    (lambda: ndgrad.rand(2, dtype=ndgrad.int64), NotImplementedError, "continuous"),
    (lambda: ndgrad.arange(2).normal_(), NotImplementedError, "continuous"),
    (lambda: ndgrad.arange(2).exponential_(), RuntimeError, "continuous"),
    (lambda: ndgrad.randint(3, 3, (2,)), RuntimeError, "from=3 >= to=3"),
    (lambda: ndgrad.randint(0, 300, (2,), dtype=ndgrad.uint8), RuntimeError, "out of bounds for uint8"),
    (lambda: ndgrad.randperm(-1), RuntimeError, "negative"),
    (lambda: ndgrad.normal(0.0, -1.0, (2,)), RuntimeError, "std >= 0.0"),
    (lambda: ndgrad.normal(ndgrad.zeros(2), ndgrad.tensor([1.0, -1.0])), RuntimeError, "std >= 0.0"),
    (lambda: ndgrad.normal(ndgrad.zeros(2), ndgrad.ones(3)), RuntimeError, "do not broadcast"),
    (lambda: ndgrad.normal(0.0, 1.0), TypeError, "needs a size"),
    (lambda: ndgrad.bernoulli(ndgrad.tensor([2.0])), RuntimeError, "0 <= p <= 1"),
    (lambda: ndgrad.empty(2).bernoulli_(1.5), RuntimeError, r"p to be in \[0, 1\]"),
    (lambda: ndgrad.poisson(ndgrad.tensor([-1.0])), RuntimeError, "non-negative"),
    (lambda: ndgrad.binomial(ndgrad.tensor([-1.0]), ndgrad.tensor([0.5])), RuntimeError, "count >= 0"),
    (lambda: ndgrad.binomial(ndgrad.tensor([1]), ndgrad.tensor([0.5])), ValueError, "floating-point dtypes"),
    (lambda: ndgrad.binomial(ndgrad.ones(1), ndgrad.ones(1, dtype=ndgrad.float32)), RuntimeError, "found dtype"),
    (lambda: ndgrad._standard_gamma(ndgrad.tensor([1])), NotImplementedError, "_standard_gamma"),
    (lambda: ndgrad._sample_dirichlet(ndgrad.tensor([1, 2])), NotImplementedError, "_sample_dirichlet"),
    (lambda: ndgrad.multinomial(ndgrad.ones(3), 4), RuntimeError, "replacement=True"),
    (lambda: ndgrad.multinomial(ndgrad.zeros(3), 1), RuntimeError, "sum of probabilities <= 0"),
    (lambda: ndgrad.multinomial(ndgrad.tensor([1.0, float("nan")]), 1), RuntimeError, "`nan`"),
    (lambda: ndgrad.multinomial(ndgrad.ones(2, 2, 2), 1), RuntimeError, "1 or 2 dim"),
    (lambda: ndgrad.multinomial(ndgrad.ones(2), 0), RuntimeError, "n_sample <= 0"),
    (lambda: ndgrad.empty(2).uniform_(2, 1), RuntimeError, "from=2 > to=1"),
    (lambda: ndgrad.empty(2).uniform_(0, to=1, upto=3), TypeError, "'upto'"),
    (lambda: ndgrad.empty(2).normal_(0, -1), RuntimeError, "std >= 0.0"),
    (lambda: ndgrad.empty(2).exponential_(0), RuntimeError, "lambda > 0.0"),
    (lambda: ndgrad.empty(2).geometric_(0), RuntimeError, r"\(0, 1\)"),
    (lambda: ndgrad.empty(2).cauchy_(0, -1), RuntimeError, "sigma > 0.0"),
    (lambda: ndgrad.empty(2).log_normal_(0, 0), RuntimeError, "std > 0.0"),
]


@pytest.mark.parametrize(("call", "error", "says"), REFUSED)
def test_parameters_that_make_no_distribution_are_refused(call, error, says):
    with pytest.raises(error, match=says):
        call()


# ----- gradients ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "draw",
    [
        ndgrad.bernoulli,
        ndgrad.poisson,
        lambda x: ndgrad.normal(x, 1.0),
        lambda x: ndgrad.normal(0.0, x),
        lambda x: ndgrad.normal(x, x),
        lambda x: (x * 1).uniform_(),
        lambda x: (x * 1).bernoulli_(0.5),
    ],
)
def test_samples_get_gradients_of_zeros(draw):
    x = ndgrad.full((3,), 0.5, requires_grad=True)
    (draw(x) * 2).sum().backward()
    assert x.grad.tolist() == [0.0, 0.0, 0.0]


def test_in_place_draws_follow_the_rules_of_writes():
    x = ndgrad.ones(3, requires_grad=True)
    with pytest.raises(RuntimeError, match="leaf Variable that requires grad"):
        x.uniform_()
    y = ndgrad.ones(3)
    z = (x * y).sum()
    y.normal_()
    assert y._version == 1
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.backward()


def test_gamma_samples_move_with_their_parameter():
    """E[z] = a and E[log z] = digamma(a), so the gradients of the means are 1 and trigamma(a)."""
    ndgrad.manual_seed(0)
    a = ndgrad.tensor([0.5, 3.0, 2000.0], requires_grad=True)
    z = ndgrad._standard_gamma(a.expand(40000, 3))
    (of_mean,) = ndgrad.autograd.grad(z.mean(0).sum(), a, retain_graph=True)
    (of_log,) = ndgrad.autograd.grad(z.log().mean(0).sum(), a)
    np.testing.assert_allclose(of_mean.numpy(), 1.0, atol=0.03)
    np.testing.assert_allclose(of_log.numpy(), [4.934802200544679, 0.3949340668482264, 0.000500125], rtol=0.03)


# Shape parameter, sample, and -(dF/da) / (dF/dz) there, computed with 60 digits.
GAMMA = np.array([
    (0.05, 1e-08, 3.584567186483293e-06), (0.05, 0.3, 7.684733401293825), (0.5, 0.1, 0.5097655670826973),
    (0.5, 2.0, 2.511889376362068), (1.0, 0.4, 0.7087529414833843), (1.0, 3.0, 1.937911693824961),
    (3.0, 1.5, 0.7315328635126538), (3.0, 9.0, 1.7397554120638796), (20.0, 15.0, 0.8702478030170773),
    (20.0, 31.0, 1.2453691909168045), (400.0, 380.0, 0.9749787284032579), (400.0, 450.0, 1.060488919730283),
    (5000.0, 4900.0, 0.9899656565179917), (5000.0, 5200.0, 1.019772532220178),
])  # fmt: skip


def test_speed_of_gamma_samples():
    found = ndgrad._standard_gamma_grad(ndgrad.tensor(GAMMA[:, 0]), ndgrad.tensor(GAMMA[:, 1]))
    np.testing.assert_allclose(found.numpy(), GAMMA[:, 2], rtol=1e-12)


def test_speed_of_beta_samples():
    """For Beta(a, 1), x = u^(1/a), and for Beta(1, b), 1 - x = (1 - u)^(1/b)."""
    a, x = np.array([0.02, 0.5, 1.0, 8.0, 300.0]), np.array([1e-30, 0.3, 0.5, 0.9, 0.995])
    of_a = ndgrad._dirichlet_grad(ndgrad.tensor(x), ndgrad.tensor(a), ndgrad.tensor(a + 1))
    np.testing.assert_allclose(of_a.numpy(), -x * np.log(x) / a / (1 - x), rtol=1e-11)
    of_b = ndgrad._dirichlet_grad(ndgrad.tensor(1 - x[1:]), ndgrad.tensor(a[1:]), ndgrad.tensor(a[1:] + 1))
    np.testing.assert_allclose(of_b.numpy(), -(1 - x[1:]) * np.log1p(-x[1:]) / a[1:] / x[1:], rtol=1e-11)


@pytest.mark.parametrize("quantile", ["igamma_inverse", "betainc_inverse"])
def test_derivatives_of_samples_are_those_of_quantiles_to_third_order(quantile):
    """A sample moves like the quantile of its own probability, whose derivatives are computed differently."""
    pytest.importorskip("scipy")
    of_gamma = quantile == "igamma_inverse"
    shapes = [ndgrad.tensor([0.4, 1.5, 7.0])] if of_gamma else [ndgrad.tensor([0.4, 1.5, 7.0]), ndgrad.tensor([2.0, 0.7, 5.0])]
    p = ndgrad.tensor([0.3, 0.8, 0.55])
    op = tensor_ops.igamma_inverse if of_gamma else tensor_ops.betainc_inverse
    ratio = tensor_ops.gamma_shape_ratio if of_gamma else tensor_ops.beta_shape_ratio

    def speed(a):
        z = op(a, *shapes[1:], p)
        if of_gamma:
            return -(z * ratio(a, z, order=1))
        return -(z * (1 - z) * ratio(a, *shapes[1:], z, orders=(1, 0)))

    def derivative(f):
        return lambda a: ndgrad.func.jvp(f, (a,), (ndgrad.ones_like(a),))[1]

    truth, found = derivative(lambda a: op(a, *shapes[1:], p)), speed
    for _ in range(3):
        np.testing.assert_allclose(found(shapes[0]).numpy(), truth(shapes[0]).numpy(), rtol=1e-8)
        truth, found = derivative(truth), derivative(found)


def test_second_derivatives_of_means_of_samples():
    """E[z^3] = a (a+1) (a+2) for gamma samples, E[x_0^2] = a_0 (a_0+1) / (s (s+1)) with s the sum for Dirichlet ones."""
    ndgrad.manual_seed(0)
    a = ndgrad.tensor([0.5, 3.0], requires_grad=True)
    cubes = (ndgrad._standard_gamma(a.expand(40000, 2)) ** 3).mean(0).sum()
    (slope,) = ndgrad.autograd.grad(cubes, a, create_graph=True)
    (curvature,) = ndgrad.autograd.grad(slope.sum(), a)
    np.testing.assert_allclose(slope.detach().numpy(), 3 * a.detach().numpy() ** 2 + 6 * a.detach().numpy() + 2, rtol=0.05)
    np.testing.assert_allclose(curvature.numpy(), 6 * a.detach().numpy() + 6, rtol=0.1)
    c = ndgrad.tensor([0.5, 1.0, 4.0], requires_grad=True)
    square = (ndgrad._sample_dirichlet(c.expand(4000, 3))[:, 0] ** 2).mean()
    (slope,) = ndgrad.autograd.grad(square, c, create_graph=True)
    rows = ndgrad.stack([ndgrad.autograd.grad(slope[i], c, retain_graph=True)[0] for i in range(3)])
    mean = lambda c: c[0] * (c[0] + 1) / (c.sum() * (c.sum() + 1))
    np.testing.assert_allclose(slope.detach().numpy(), ndgrad.func.grad(mean)(c.detach()).numpy(), atol=5e-3)
    np.testing.assert_allclose(rows.numpy(), ndgrad.func.hessian(mean)(c.detach()).numpy(), atol=5e-3)


def test_forward_and_reverse_derivatives_of_dirichlet_samples_agree():
    a, t, g = (ndgrad.tensor(np.random.default_rng(k).uniform(0.3, 2.0, (5, 4))) for k in range(3))
    ndgrad.manual_seed(3)
    _, tangent = ndgrad.func.jvp(ndgrad._sample_dirichlet, (a,), (t,))
    ndgrad.manual_seed(3)
    _, pull = ndgrad.func.vjp(ndgrad._sample_dirichlet, a)
    np.testing.assert_allclose(float((tangent * g).sum()), float((pull(g)[0] * t).sum()), rtol=1e-12)


def test_dirichlet_samples_of_tiny_concentrations_lie_in_corners():
    """All gamma samples underflow there."""
    x = ndgrad._sample_dirichlet(ndgrad.full((1000, 3), 1e-5))
    assert float(x.max(-1).values.mean()) > 0.999
    assert bool((x > 0).all())
    np.testing.assert_allclose((x > 0.5).double().mean(0).numpy(), 1 / 3, atol=0.06)


def test_a_dirichlet_sample_of_one_category_does_not_move():
    a = ndgrad.tensor([[2.0], [3.0]], requires_grad=True)
    x = ndgrad._sample_dirichlet(a)
    np.testing.assert_array_equal(x.detach(), 1 - np.finfo(x.detach().numpy().dtype).epsneg)  # below 1, as in torch
    assert ndgrad.autograd.grad(x.sum(), a)[0].tolist() == [[0.0], [0.0]]
    with pytest.raises(IndexError, match="without dimensions"):
        ndgrad._sample_dirichlet(ndgrad.tensor(1.0))


def test_dirichlet_samples_sum_to_one_and_so_do_not_move_together():
    a = ndgrad.tensor([0.5, 1.0, 4.0], requires_grad=True)
    s = ndgrad._sample_dirichlet(a.expand(5, 3))
    np.testing.assert_allclose(s.detach().sum(-1).numpy(), 1.0)
    s.sum().backward()
    np.testing.assert_allclose(a.grad.numpy(), 0.0, atol=1e-12)


# ----- vmap --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", DRAWS)
def test_vmap_by_default_refuses_to_guess(name):
    with pytest.raises(RuntimeError, match=r"randomness error mode.*randomness='different'"):
        vmap(lambda x: DRAWS[name](None) + x)(ndgrad.ones(3))


@pytest.mark.parametrize("name", DRAWS)
def test_vmap_draws_once_or_for_each(name):
    ndgrad.manual_seed(1)
    same = vmap(lambda x: DRAWS[name](None) + 0 * x, randomness="same")(ndgrad.ones(4)).numpy()
    different = vmap(lambda x: DRAWS[name](None) + 0 * x, randomness="different")(ndgrad.ones(4)).numpy()
    single = DRAWS[name](None).numpy()
    assert same.shape == different.shape == (4, *single.shape)
    assert all(np.array_equal(same[0], row) for row in same)
    assert len({tuple(np.ravel(row).tolist()) for row in different}) == 4


@pytest.mark.parametrize("randomness", ["same", "different"])
def test_vmap_of_grad_with_noise(randomness):
    ndgrad.manual_seed(2)
    x = ndgrad.ones(3, 2)
    noisy = vmap(grad(lambda t: (t * t * ndgrad.rand(2)).sum()), randomness=randomness)(x).numpy()
    assert noisy.shape == (3, 2)
    assert np.array_equal(noisy[0], noisy[1]) == (randomness == "same")
    assert ((noisy >= 0) & (noisy < 2)).all()


def test_vmap_with_one_draw_for_batched_parameters_is_refused():
    with pytest.raises(RuntimeError, match=r"randomness='same' was given a batched tensor"):
        vmap(ndgrad.bernoulli, randomness="same")(ndgrad.full((3, 2), 0.5))
    assert vmap(ndgrad.rand_like, randomness="same")(ndgrad.ones(3, 2)).shape == (3, 2)


def test_randint_takes_its_bounds_by_name():
    drawn = ndgrad.randint(high=3, size=(50,))
    assert drawn.shape == (50,)
    assert set(drawn.tolist()) <= {0, 1, 2}
    assert ndgrad.randint(size=(2,), low=4, high=5).tolist() == [4, 4]
    with pytest.raises(TypeError, match="randint.. needs high"):
        ndgrad.randint(size=(2,))
