"""Random numbers drawn on a GPU: seeds, states, distributions, and draws inside CUDA graphs."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import ndgrad
import ndgrad.nn.functional as F
from ndgrad import cuda
from ndgrad._src.arrays import device_kernels, philox
from ndgrad._src.checkpoint import checkpoint

cupy = pytest.importorskip("cupy")
HAS_KERNELS = device_kernels.kernels() is not None


def draw(*shape, **options):
    return ndgrad.randn(*shape, device="cuda", **options).cpu()


def test_a_seed_draws_the_same_numbers_again():
    for seed in (lambda: ndgrad.manual_seed(3), lambda: cuda.manual_seed(3), lambda: cuda.manual_seed_all(3)):
        seed()
        first = draw(100), draw(100)
        assert not ndgrad.equal(*first)
        seed()
        assert ndgrad.equal(first[0], draw(100))
        assert ndgrad.equal(first[1], draw(100))
        assert cuda.initial_seed() == 3
    assert len(cuda.default_generators) == cuda.device_count()
    assert cuda.default_generators[0].initial_seed() == 3


def test_numbers_depend_on_their_place_alone():
    cuda.manual_seed(5)
    long = ndgrad.rand(1003, device="cuda", dtype=ndgrad.float32).cpu()
    cuda.manual_seed(5)
    assert ndgrad.equal(ndgrad.rand(17, device="cuda", dtype=ndgrad.float32).cpu(), long[:17])


def test_states_are_kept_and_restored():
    state = cuda.get_rng_state()
    first = draw(5)
    cuda.set_rng_state(state)
    assert ndgrad.equal(draw(5), first)
    cuda.set_rng_state_all(cuda.get_rng_state_all())
    with ndgrad.random.fork_rng():
        inside = draw(5)
    assert ndgrad.equal(draw(5), inside)
    with pytest.raises(RuntimeError, match="not a state of a GPU's generator"):
        cuda.set_rng_state(ndgrad.get_rng_state())


def test_generators_of_a_gpu():
    g = ndgrad.Generator("cuda").manual_seed(9)
    assert isinstance(g, ndgrad.Generator)
    assert g.device == ndgrad.device("cuda:0")
    first = draw(4, generator=g)
    for again in (ndgrad.Generator(device="cuda").manual_seed(9), pickle.loads(pickle.dumps(g.manual_seed(9))), g.clone_state()):
        assert ndgrad.equal(draw(4, generator=again), first)
    default = cuda.get_rng_state()
    draw(4, generator=g)
    assert ndgrad.equal(cuda.get_rng_state(), default)  # another generator


def test_a_generator_of_the_cpu_draws_its_own_numbers_on_both_devices():
    g = ndgrad.Generator().manual_seed(1)
    there = draw(6, generator=g)
    assert ndgrad.equal(ndgrad.randn(6, generator=g.manual_seed(1)), there)
    with pytest.raises(RuntimeError, match="Expected a 'cpu' device type for generator but found 'cuda:0'"):
        ndgrad.randn(3, generator=ndgrad.Generator("cuda"))


@pytest.mark.parametrize("dtype", [ndgrad.float32, ndgrad.float64, ndgrad.float16, ndgrad.bfloat16, ndgrad.complex64], ids=str)
def test_uniform_and_normal_numbers(dtype):
    ndgrad.manual_seed(0)
    n = 40000
    u, z = (f(n, device="cuda", dtype=dtype).cpu() for f in (ndgrad.rand, ndgrad.randn))
    assert u.dtype == z.dtype == dtype
    u = np.asarray(ndgrad.view_as_real(u) if u.is_complex() else u.double()).ravel()
    z = z.numpy() if z.is_complex() else z.double().numpy()
    assert u.min() >= 0.0
    assert u.max() < 1.0
    tight = 0.02
    np.testing.assert_allclose([u.mean(), u.var(), np.abs(z.mean()), z.var()], [0.5, 1 / 12, 0.0, 1.0], atol=tight)
    low, high = -3.0, 5.0
    v = ndgrad.empty(n, device="cuda", dtype=dtype).uniform_(low, high).cpu()
    v = np.asarray(ndgrad.view_as_real(v) if v.is_complex() else v.double()).ravel()
    assert v.min() >= low
    assert v.max() < high
    np.testing.assert_allclose(v.mean(), 1.0, atol=0.1)


def test_other_distributions():
    ndgrad.manual_seed(0)
    x = ndgrad.empty(40000, device="cuda", dtype=ndgrad.float32)
    mean = {name: float(made.double().mean()) for name, made in {
        "exponential": x.exponential_(2.0).clone(), "geometric": x.geometric_(0.25).clone(),
        "log_normal": x.log_normal_(0.0, 0.5).clone(), "bernoulli": x.bernoulli_(0.3).clone(),
    }.items()}  # fmt: skip
    want = {"exponential": 0.5, "geometric": 4.0, "log_normal": np.exp(0.125), "bernoulli": 0.3}
    for name, value in want.items():
        np.testing.assert_allclose(mean[name], value, rtol=0.04, err_msg=name)
    assert abs(float(x.cauchy_(1.0, 2.0).median()) - 1.0) < 0.1
    assert float(x.exponential_().min()) > 0.0
    p = ndgrad.full((40000,), 0.2, device="cuda")
    np.testing.assert_allclose(float(ndgrad.bernoulli(p).mean()), 0.2, atol=0.01)
    z = ndgrad.normal(p * 10, 3.0)
    np.testing.assert_allclose([float(z.mean()), float(z.std())], [2.0, 3.0], atol=0.06)
    for name, made in (("poisson", ndgrad.poisson(p * 20)), ("gamma", ndgrad._standard_gamma(p * 20))):
        assert made.is_cuda
        np.testing.assert_allclose(float(made.mean()), 4.0, rtol=0.03, err_msg=name)


@pytest.mark.parametrize(("low", "high"), [(0, 10), (-5, 3), (-(2**63), 2**63 - 1), (2**40, 2**40 + 7)])
def test_whole_numbers(low, high):
    x = ndgrad.randint(low, high, (5000,), device="cuda").cpu().numpy()
    assert x.dtype == np.int64
    assert x.min() >= low
    assert x.max() < high
    if high - low <= 10:
        counts = np.bincount(x - low, minlength=high - low)
        assert counts.min() > 0.8 * 5000 / (high - low)
    else:
        assert abs(float(x.astype(float).mean()) - (low / 2 + high / 2)) <= 0.05 * (float(high) - float(low))
    assert ndgrad.randint(0, 200, (50,), device="cuda", dtype=ndgrad.uint8).dtype is ndgrad.uint8


def test_permutations_and_samples():
    p = ndgrad.randperm(1000, device="cuda").cpu().numpy()
    assert (np.sort(p) == np.arange(1000)).all()
    assert (p != np.arange(1000)).mean() > 0.9
    weights = ndgrad.tensor([[0.0, 1.0, 3.0], [2.0, 0.0, 2.0]], device="cuda").repeat(3000, 1)
    one = ndgrad.multinomial(weights, 1).cpu().numpy().reshape(-1, 2)
    np.testing.assert_allclose([(one[:, 0] == 2).mean(), (one[:, 1] == 0).mean()], [0.75, 0.5], atol=0.04)
    assert (one[:, 0] != 0).all()
    both = ndgrad.multinomial(weights, 2).cpu().numpy()
    assert (np.sort(both[0::2], 1) == [1, 2]).all()
    many = ndgrad.multinomial(weights[0], 4000, replacement=True).cpu().numpy()
    np.testing.assert_allclose((many == 2).mean(), 0.75, atol=0.04)


def test_dropout_and_a_checkpoint_that_draws_again():
    x = ndgrad.ones(20000, device="cuda", requires_grad=True)
    y = F.dropout(x, 0.25)
    kept = y.detach().cpu().numpy() > 0
    np.testing.assert_allclose(kept.mean(), 0.75, atol=0.02)
    y = checkpoint(lambda t: F.dropout(t, 0.5) * 1.0, x, use_reentrant=False)
    y.sum().backward()
    np.testing.assert_array_equal(x.grad.cpu().numpy(), y.detach().cpu().numpy())


def test_dropout_of_samples_inside_vmap():
    x = ndgrad.ones(4, 500, device="cuda")
    masks = ndgrad.func.vmap(lambda row: F.dropout(row, 0.5), randomness="different")(x).cpu().numpy()
    assert len({tuple(row) for row in masks}) == 4
    masks = ndgrad.func.vmap(lambda row: F.dropout(row, 0.5), randomness="same")(x).cpu().numpy()
    assert len({tuple(row) for row in masks}) == 1
    np.testing.assert_allclose(masks.mean(), 1.0, atol=0.2)


@pytest.mark.skipif(not HAS_KERNELS, reason="there are no kernels here")
def test_kernels_draw_the_numbers_of_the_formula():
    kernels, g = device_kernels.kernels(), ndgrad.Generator("cuda").manual_seed((1 << 63) + 12345)
    g._draws = (1 << 40) + 7
    start = g.get_state()
    for n in (1, 3, 4, 1001):
        for name in ("float32", "float64", "float16", "bfloat16"):
            dtype = ndgrad.empty(0, dtype=getattr(ndgrad, name)).numpy().dtype
            rounding = 1e-2 if dtype.itemsize == 2 else 2e-5
            for kind, formula, tolerance in (("uniform", philox.unit, 0.0), ("normal", philox.normal, rounding)):
                g.set_state(start)
                want = formula(np, g.next(), n, dtype).astype(float)
                g.set_state(start)
                got = kernels.draw(kind, g, (n,), dtype).get().astype(float)
                np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)
        for kind, formula, dtype in (("inside", philox.open_unit, np.float64), ("whole", philox.words_64, np.uint64)):
            g.set_state(start)
            want = formula(np, g.next(), n)
            g.set_state(start)
            np.testing.assert_array_equal(kernels.draw(kind, g, (n,), np.dtype(dtype)).get(), want)
        g.set_state(start)
        want = philox.bernoulli(np, g.next(), n, 0.3)
        for dtype in (bool, np.float32):
            g.set_state(start)
            np.testing.assert_array_equal(kernels.draw("below", g, (n,), np.dtype(dtype), 0.3).get(), want)


@pytest.mark.skipif(not HAS_KERNELS, reason="there are no kernels that can be recorded")
def test_a_recorded_step_draws_anew_at_each_replay():
    x = ndgrad.ones(1000, device="cuda")

    def step():
        return F.dropout(x, 0.5) + ndgrad.randn(1000, device="cuda")

    step()
    graph = cuda.CUDAGraph()
    with cuda.graph(graph):
        out = step()

    def replays():
        made = []
        for _ in range(3):
            graph.replay()
            made.append(out.cpu().numpy().copy())
        return made

    ndgrad.manual_seed(4)
    first = replays()
    assert not np.array_equal(first[0], first[1])
    ndgrad.manual_seed(4)
    for a, b in zip(first, replays(), strict=True):
        np.testing.assert_array_equal(a, b)
    ndgrad.manual_seed(4)
    for a in first:  # as the step itself draws
        np.testing.assert_array_equal(step().cpu().numpy(), a)
    with pytest.raises(RuntimeError, match="cannot be recorded"), cuda.graph(cuda.CUDAGraph()):
        ndgrad.poisson(x)
