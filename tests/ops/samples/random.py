"""Samples of random ops. A generator that restarts at every draw makes them functions with a known value."""

from __future__ import annotations

import numpy as np

import ndgrad
from ndgrad.testing.op_checks import Sample

SEED = 7


class Replay:
    """A Generator whose every use starts from the same state."""

    device = ndgrad.device("cpu")

    @property
    def numpy(self):
        return np.random.default_rng(SEED)


def source():
    return np.random.default_rng(SEED)


G = Replay()
r = np.random.default_rng(22)
A, ROW, EMPTY, SCALAR = r.standard_normal((3, 4)), r.standard_normal(4), np.empty((0, 3)), np.float64(0.5)
A32, A16, Z, Z64 = A.astype(np.float32), A.astype(np.float16), A + 1j * A, (A + 1j * A).astype(np.complex64)
COUNTS = np.arange(6)
P = r.random((3, 4)) * 0.9 + 0.05
RATE = P * 10
ALPHA = np.array([0.05, 0.5, 1.0, 3.0, 20.0, 400.0, 5000.0])

REPARAMETRISED = {"jvp": "the sample moves with its parameters, and the rule, as torch's, says it does not"}


def like(draw):
    """Return a reference that draws in the shape and dtype of its first argument."""
    return lambda x, *, generator, **settings: np.asarray(draw(source(), x, **settings)).astype(x.dtype)


def parts(name, x, scale):
    real = {8: np.float32, 16: np.float64}[x.dtype.itemsize]
    a, b = getattr(source(), name)((2, *x.shape), real)
    return (a + 1j * b) * scale


def uniform(s, x, *, low, high):
    if x.dtype.kind == "c":
        return low * (1 + 1j) + (high - low) * parts("random", x, 1.0)
    if x.dtype == np.float16:
        return low + (high - low) * (s.integers(0, 2048, x.shape) / 2048)
    return low + (high - low) * s.random(x.shape, x.dtype)


def normal(s, x, *, mean, std):
    if x.dtype.kind == "c":
        return mean + std * parts("standard_normal", x, 0.5**0.5)
    return mean + std * s.standard_normal(x.shape, x.dtype if x.dtype != np.float16 else np.float64)


def fixed(args, settings, reference, **options):
    return Sample(args, {**settings, "generator": G}, reference, **options)


def normal_reference(mean, std):
    shape = np.broadcast_shapes(np.shape(mean), np.shape(std))
    dtype = np.result_type(mean, std)
    return np.asarray(mean + std * source().standard_normal(shape, dtype), dtype)


def dirichlet(s, x):
    """Return gamma samples divided by their sum. Samples of shape a are samples of shape a + 1 times u^(1/a)."""
    parts = s.standard_gamma(x + 1) * np.exp(-s.standard_exponential(x.shape) / x)
    return parts / parts.sum(-1, keepdims=True)


CONCENTRATION = np.array([[0.5, 1.0, 3.0], [20.0, 4.0, 0.7]])
SHAPES = (A, A32, EMPTY, SCALAR)
SAMPLES = {
    "uniform": [fixed((x,), {"low": -1.0, "high": 3.0}, like(uniform)) for x in (*SHAPES, A16, Z, Z64)],
    "normal": [fixed((x,), {"mean": 1.0, "std": 2.0}, like(normal)) for x in (*SHAPES, A16, Z, Z64)],
    "log_normal": [fixed((x,), {"mean": 1.0, "std": 2.0}, like(lambda s, x, mean, std: s.lognormal(mean, std, x.shape))) for x in SHAPES],
    "exponential": [fixed((x,), {"rate": 2.0}, like(lambda s, x, rate: s.standard_exponential(x.shape) / rate)) for x in SHAPES],
    "cauchy": [
        fixed((x,), {"median": 1.0, "sigma": 2.0}, like(lambda s, x, median, sigma: median + sigma * s.standard_cauchy(x.shape)))
        for x in SHAPES
    ],
    "geometric": [fixed((x,), {"p": 0.3}, like(lambda s, x, p: s.geometric(p, x.shape))) for x in (*SHAPES, COUNTS)],
    "random": [
        fixed((x,), {"low": -2, "high": 5}, like(lambda s, x, low, high: s.integers(low, high, x.shape))) for x in (*SHAPES, COUNTS)
    ],
    "bernoulli_scalar": [fixed((x,), {"p": 0.3}, like(lambda s, x, p: s.random(x.shape) < p)) for x in (*SHAPES, COUNTS)],
    "permutation": [
        fixed((x,), {}, like(lambda s, x: s.permuted(np.broadcast_to(np.arange(x.shape[-1]), x.shape), axis=-1))) for x in (COUNTS, A)
    ],
    "bernoulli": [fixed((x,), {}, like(lambda s, p: s.random(p.shape) < p)) for x in (P, P.astype(np.float32), EMPTY, SCALAR)],
    "bernoulli_tensor": [
        fixed((A, p), {}, lambda x, p, *, generator: (source().random(x.shape) < p).astype(x.dtype)) for p in (P, P[0], SCALAR)
    ],
    "normal_tensor": [
        fixed((m, s), {}, lambda mean, std, *, generator: normal_reference(mean, std), skip=REPARAMETRISED, smooth=False)
        for m, s in ((A, P), (A, P[0]), (ROW, P), (A32, A32 * A32))
    ],
    "normal_mean": [
        fixed((m,), {"std": 2.0}, lambda mean, *, std, generator: normal_reference(mean, std), skip=REPARAMETRISED, smooth=False)
        for m in (A, A32, EMPTY)
    ],
    "normal_std": [
        fixed((s,), {"mean": 2.0}, lambda std, *, mean, generator: normal_reference(mean, std), skip=REPARAMETRISED, smooth=False)
        for s in (P, P.astype(np.float32))
    ],
    "poisson": [fixed((x,), {}, like(lambda s, x: s.poisson(x)), skip=REPARAMETRISED) for x in (RATE, RATE.astype(np.float32), EMPTY)],
    "binomial": [
        fixed((n, P), {}, lambda count, prob, *, generator: source().binomial(count.astype(int), prob).astype(float), skip=REPARAMETRISED)
        for n in (np.full((3, 4), 10.0), np.arange(4.0))
    ],
    "multinomial": [
        fixed(
            (P,), {"num_samples": 2, "replacement": False},
            lambda x, *, num_samples, replacement, generator: np.argsort(source().standard_exponential(x.shape) / x, -1)[:, :num_samples],
        ),
        fixed(
            (np.array([0.0, 2.0, 0.0]),), {"num_samples": 5, "replacement": True},
            lambda x, *, num_samples, replacement, generator: np.ones(5, int),
        ),
    ],
    "standard_gamma": [
        fixed((ALPHA,), {}, like(lambda s, x: s.standard_gamma(x)), skip={"jvp": "NumPy's samples do not move smoothly"}, smooth=False),
    ],
    "sample_dirichlet": [
        fixed((x,), {}, like(dirichlet), skip={"jvp": "NumPy's samples do not move smoothly"}, smooth=False) for x in (CONCENTRATION,
        ALPHA[:1])
    ],
    "von_mises": [
        fixed((a, k), {}, lambda loc, concentration, *, generator: source().vonmises(loc, concentration), skip=REPARAMETRISED, smooth=False)
        for a, k in ((A, RATE), (ROW, RATE))
    ],
}  # fmt: skip
