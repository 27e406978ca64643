"""Samples of random ops. A generator that restarts at every draw makes them functions with a known value."""

from __future__ import annotations

import math

import numpy as np

import ndgrad
from ndgrad._src.arrays.host_draws import HostSource
from ndgrad.testing.op_checks import Sample

SEED = 7


class Replay:
    """A Generator whose every use starts from the same state."""

    device = ndgrad.device("cpu")

    @property
    def source(self):
        return HostSource(ndgrad.Generator().manual_seed(SEED))


class Words:
    """The words of the Mersenne twister, and numbers made of them one by one."""

    def __init__(self):
        self.words = iter(np.frombuffer(np.random.RandomState(SEED).bytes(4000), "<u4").tolist())

    def fill(self, shape, draw):
        return np.array([draw() for _ in range(int(np.prod(shape)))], float).reshape(shape)

    def double(self):
        return (next(self.words) * 2**32 + next(self.words)) % 2**53 / 2**53

    def random(self, shape, dtype=np.dtype(np.float64)):  # noqa: B008
        return self.fill(shape, self.double if dtype == np.float64 else lambda: next(self.words) % 2**24 / 2**24)

    def integers(self, low, high, shape):
        return self.fill(shape, lambda: next(self.words) % (high - low) + low)

    def standard_normal(self, shape):
        """Numbers in pairs: all shapes here have fewer than 16 elements."""
        pairs = []

        def draw():
            if not pairs:
                u, radius = self.double(), math.sqrt(-2 * math.log(1 - self.double()))
                pairs.extend([radius * math.sin(2 * math.pi * u), radius * math.cos(2 * math.pi * u)])
            return pairs.pop()

        return self.fill(shape, draw)

    def permuted(self, shape):
        def exchange():
            order = list(range(shape[-1]))
            for i in range(shape[-1] - 1):
                j = i + next(self.words) % (shape[-1] - i)
                order[i], order[j] = order[j], order[i]
            return order

        return np.array([exchange() for _ in range(int(np.prod(shape[:-1])))]).reshape(shape)


def source():
    return Words()


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


def uniform(s, x, *, low, high):
    if x.dtype.kind == "c":
        real = np.dtype({8: np.float32, 16: np.float64}[x.dtype.itemsize])
        parts = low + (high - low) * s.random((*x.shape, 2), real)
        return parts[..., 0] + 1j * parts[..., 1]
    return low + (high - low) * s.random(x.shape, x.dtype)


def normal(s, x, *, mean, std):
    if x.dtype.kind == "c":  # 24 numbers: see box_muller
        parts = mean + std * 0.5**0.5 * blocks(s, 2 * x.size, x.dtype.itemsize // 2).reshape(*x.shape, 2)
        return parts[..., 0] + 1j * parts[..., 1]
    return mean + std * s.standard_normal(x.shape)


def blocks(s, count, size):
    """Return normal numbers in blocks of 16, eight radii and eight angles each; the last one ends with the array."""
    u = s.random((count + 16,), np.dtype(f"f{size}"))
    made = np.empty(count)
    for start, part in [*((k, u[k : k + 16]) for k in range(0, count - 15, 16)), (count - 16, u[count:])]:
        radius, angle = np.sqrt(-2 * np.log(1 - part[:8])), 2 * np.pi * part[8:]
        made[start : start + 16] = np.concatenate([radius * np.cos(angle), radius * np.sin(angle)])
    return made


def fixed(args, settings, reference, **options):
    return Sample(args, {**settings, "generator": G}, reference, **options)


def normal_reference(mean, std):
    shape = np.broadcast_shapes(np.shape(mean), np.shape(std))
    dtype = np.result_type(mean, std)
    return np.asarray(mean + std * source().standard_normal(shape).astype(dtype), dtype)


def use_values(*values):
    """Return a reference with values that torch gave for this seed."""
    return lambda x, *_, **settings: np.array(values, x.dtype).reshape(-1, *np.shape(x)[1:]) if np.size(x) else x


def slopes(x):
    s = source()
    return np.array([1.0 if v > 0 else 0.1 + 0.2 * s.double() for v in x.ravel()], x.dtype).reshape(x.shape)


#: Samples of torch for this seed.
ANGLES = [
    (
        -1.1657301285216035, 0.10439908744457593, -1.8065390637434153, -0.059923734436186926, 1.7220038072518964, -2.379232405054572,
        2.320211982036067, 1.451398142532211, -0.02728888479077085, -1.6507813132066795, 1.2760623650616685, 1.4421623621746704,
    ),
    (
        2.387419574583732, 2.200220070305761, 1.0895726080581447, 0.11247006560249817, 2.4302549702595506, 0.11389297932652465,
        2.9700851835144046, -0.26136534018895397, 2.483703019321573, -0.058033733765222806, 2.3977904101161194, -0.22268687003494225,
    ),
]  # fmt: skip

CONCENTRATION = np.array([[0.5, 1.0, 3.0], [20.0, 4.0, 0.7]])
SHAPES = (A, A32, EMPTY, SCALAR)
SAMPLES = {
    "uniform": [fixed((x,), {"low": -1.0, "high": 3.0}, like(uniform)) for x in (*SHAPES, A16, Z, Z64)],
    "normal": [fixed((x,), {"mean": 1.0, "std": 2.0}, like(normal)) for x in (*SHAPES, A16, Z, Z64)],
    "log_normal": [
        fixed((x,), {"mean": 1.0, "std": 2.0}, like(lambda s, x, mean, std: np.exp(mean + std * s.standard_normal(x.shape))))
        for x in SHAPES
    ],
    "exponential": [fixed((x,), {"rate": 2.0}, like(lambda s, x, rate: -np.log1p(-s.random(x.shape)) / rate)) for x in SHAPES],
    "cauchy": [
        fixed(
            (x,), {"median": 1.0, "sigma": 2.0},
            like(lambda s, x, median, sigma: median + sigma * np.tan(np.pi * (s.random(x.shape) - 0.5))),
        )
        for x in SHAPES
    ],
    "geometric": [
        fixed((x,), {"p": 0.3}, like(lambda s, x, p: np.ceil(np.log(s.random(x.shape)) / np.log(1 - p)))) for x in (*SHAPES, COUNTS)
    ],
    "random": [
        fixed((x,), {"low": -2, "high": 5}, like(lambda s, x, low, high: s.integers(low, high, x.shape))) for x in (*SHAPES, COUNTS)
    ],
    "bernoulli_scalar": [fixed((x,), {"p": 0.3}, like(lambda s, x, p: s.random(x.shape) < p)) for x in (*SHAPES, COUNTS)],
    "permutation": [fixed((x,), {}, like(lambda s, x: s.permuted(x.shape))) for x in (COUNTS, A)],
    "bernoulli": [
        fixed((x,), {}, like(lambda s, p: s.random(p.shape, p.dtype) < p)) for x in (P, P.astype(np.float32), EMPTY, SCALAR)
    ],
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
    "poisson": [
        *(
            fixed((x,), {}, use_values(6, 3, 1, 3, 6, 4, 2, 4, 6, 3, 11, 8), skip=REPARAMETRISED)
            for x in (RATE, RATE.astype(np.float32), EMPTY)
        ),
        fixed((9 * RATE,), {}, use_values(34, 17, 31, 86, 24, 15, 9, 56, 75, 38, 77, 44), skip=REPARAMETRISED),
    ],
    "binomial": [
        fixed((np.full((3, 4), 10.0), P), {}, use_values(6, 3, 2, 10, 2, 2, 2, 3, 7, 2, 9, 6), skip=REPARAMETRISED),
        fixed((np.full((3, 4), 400.0), P), {}, use_values(165, 66, 170, 354, 168, 71, 37, 218, 244, 173, 314, 208), skip=REPARAMETRISED),
        fixed(
            (np.arange(4.0), P), {}, lambda *_, **__: np.array([[0.0, 0, 0, 2], [0, 1, 0, 0], [0, 0, 2, 3]]), skip=REPARAMETRISED
        ),
    ],
    "multinomial": [
        fixed(
            (P,), {"num_samples": 2, "replacement": False},
            lambda x, *, num_samples, replacement, generator: np.argsort(-np.log1p(-source().random(x.shape)) / x, -1)[:, :num_samples],
        ),
        fixed(
            (np.array([0.0, 2.0, 0.0]),), {"num_samples": 5, "replacement": True},
            lambda x, *, num_samples, replacement, generator: np.ones(5, int),
        ),
    ],
    "rrelu_slopes": [
        fixed((x,), {"lower": 0.1, "upper": 0.3}, lambda x, **_: slopes(x), skip=REPARAMETRISED, smooth=False) for x in (A, A32, EMPTY)
    ],
    "standard_gamma": [
        fixed(
            (ALPHA,), {},
            use_values(
                7.0537827218613723e-04, 2.9085709242138460e-02, 4.1641629227650273e-01, 5.2278537414257356, 2.1109385945570992e01,
                4.0232758256150555e02, 5.0989871672236150e03,
            ),
            skip={"jvp": "torch's samples do not move smoothly"}, smooth=False,
        ),
    ],
    "sample_dirichlet": [
        fixed(
            (CONCENTRATION,), {},
            use_values(
                0.05809742952697913, 0.49962156234109545, 0.4422810081319254, 0.7889074875908374, 0.17518369555599836,
                0.035908816853164216,
            ),
            skip={"jvp": "torch's samples do not move smoothly"}, smooth=False,
        ),
        fixed((ALPHA[:1],), {}, use_values(1.0), skip={"jvp": "torch's samples do not move smoothly"}, smooth=False),
    ],
    "von_mises": [
        fixed((A, RATE), {}, use_values(*ANGLES[0]), skip=REPARAMETRISED, smooth=False),
        fixed((ROW, RATE), {}, lambda *_, **__: np.array(ANGLES[1]).reshape(3, 4), skip=REPARAMETRISED, smooth=False),
    ],
}  # fmt: skip
