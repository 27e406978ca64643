"""Random numbers. Every op draws from the NumPy generator inside an `ndgrad.Generator`.

Two kinds. The first take a tensor only for its shape and dtype (`uniform`, `normal`, ...): the in-place forms overwrite
it, and the factories pass one without memory. The second draw from a distribution whose parameters are the tensors'
values. The result of either is constant in its inputs, and so gets a gradient of zeros, as in torch; the exception is
`standard_gamma`, whose samples move smoothly with the parameter.

Under vmap, `randomness` decides whether samples share their numbers: see ndgrad.autograd.batching.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy

from ndgrad.arrays.host_fallback import to_host
from ndgrad.arrays.precision import finfo, result_dtype, widened
from ndgrad.generator import Generator, default_generator
from ndgrad.ops.table import NOT_DIFFERENTIABLE, RANDOM, Op, op

if TYPE_CHECKING:
    from ndgrad._typing import Library, Payload

#: The ops that use their argument only for its shape and dtype: name -> draw(source, shape, dtype, **settings).
SHAPE_ONLY: dict[str, Callable[..., Any]] = {}


def source_of(generator: Generator | None) -> numpy.random.Generator:
    return (default_generator if generator is None else generator).numpy


def _placed(np: Library, values: Payload, dtype: Any) -> Payload:
    """Numbers that NumPy drew, as an array of the library that the op runs on."""
    array = numpy.asarray(values).astype(dtype, copy=False)
    return array if np is numpy else np.asarray(array)


# ----- numbers in the shape of a tensor ------------------------------------------------------------------------------


def _like(name: str, draw: Callable[..., Any], settings: dict[str, Any], backward_name: str | None = None) -> Op:
    """An op that fills the shape of `x` with `draw(source, shape, dtype, **settings)`."""
    SHAPE_ONLY[name] = draw

    def forward(np: Library, x: Payload, *, generator: Any, **given: Any) -> Payload:
        if getattr(x, "is_meta", False):
            return x.copy()
        return _placed(np, draw(source_of(generator), x.shape, x.dtype, **given), x.dtype)

    return op(
        name, "x",
        forward,
        settings={**settings, "generator": None},
        vjp={"x": lambda g, ops: ops.zeros_like(g)},
        jvp={"x": lambda t, ops: ops.zeros_like(t)},
        batch=RANDOM,
        backward_name=backward_name,
        halves=True,
    )  # fmt: skip


# Of the narrow types, 1 - eps/2 would round to 1, which is excluded: they get as many random bits as they have digits.
_DIGITS = {"float16": 11, "bfloat16": 8}


def _unit(source: Any, shape: Any, dtype: Any) -> Any:
    """Uniform on [0, 1)."""
    if dtype.kind == "c":
        parts = source.random((2, *shape), numpy.float32 if dtype.itemsize == 8 else numpy.float64)
        return parts[0] + 1j * parts[1]
    digits = _DIGITS.get(dtype.name)
    if digits is not None:
        return source.integers(0, 1 << digits, shape) / (1 << digits)
    return source.random(shape, dtype if dtype.name in ("float32", "float64") else numpy.float64)


def _standard_normal(source: Any, shape: Any, dtype: Any) -> Any:
    if dtype.kind == "c":  # variance 1 in all, half of it in each part
        parts = source.standard_normal((2, *shape), numpy.float32 if dtype.itemsize == 8 else numpy.float64)
        return (parts[0] + 1j * parts[1]) * 0.5**0.5
    return source.standard_normal(shape, dtype if dtype.name in ("float32", "float64") else numpy.float64)


def _uniform(source: Any, shape: Any, dtype: Any, *, low: float, high: float) -> Any:
    u = _unit(source, shape, dtype)
    if low == 0 and high == 1:
        return u
    return (complex(low, low) if dtype.kind == "c" else low) + (high - low) * u  # both parts alike


def _normal(source: Any, shape: Any, dtype: Any, *, mean: Any, std: float) -> Any:
    z = _standard_normal(source, shape, dtype)
    return z if mean == 0 and std == 1 else mean + std * z


def _random(source: Any, shape: Any, dtype: Any, *, low: int, high: int) -> Any:
    if high <= 2**63:
        return source.integers(low, high, shape)
    return source.integers(low, high, shape, numpy.uint64)


uniform = _like("uniform", _uniform, {"low": 0.0, "high": 1.0})

normal = _like("normal", _normal, {"mean": 0.0, "std": 1.0})

log_normal = _like(
    "log_normal", lambda source, shape, dtype, *, mean, std: source.lognormal(mean, std, shape),
    {"mean": 1.0, "std": 2.0}
)  # fmt: skip

exponential = _like(
    "exponential", lambda source, shape, dtype, *, rate: source.standard_exponential(shape) / rate, {"rate": 1.0}
)  # fmt: skip

cauchy = _like(
    "cauchy",
    lambda source, shape, dtype, *, median, sigma: median + sigma * source.standard_cauchy(shape),
    {"median": 0.0, "sigma": 1.0},
)

# How many trials of probability p it takes to succeed, at least one.
geometric = _like("geometric", lambda source, shape, dtype, *, p: source.geometric(p, shape), {"p": 0.5})

# Whole numbers of [low, high), of any dtype.
random = _like("random", _random, {"low": 0, "high": 1}, "RandomBackward0")

bernoulli_scalar = _like(
    "bernoulli_scalar", lambda source, shape, dtype, *, p: source.random(shape) < p, {"p": 0.5}, "BernoulliBackward2"
)  # fmt: skip

# The numbers 0 ... n-1 along the last dimension, in random order.
permutation = _like(
    "permutation",
    lambda source, shape, dtype: source.permuted(numpy.broadcast_to(numpy.arange(shape[-1]), shape), axis=-1),
    {},
)


# ----- numbers from distributions given by tensors -------------------------------------------------------------------


def _distribution(name: str, args: str, draw: Callable[..., Any], backward_name: str, **settings: Any) -> Op:
    """An op that draws `draw(source, *arrays, **settings)`, with the dtype of the arrays."""

    def forward(np: Library, *arrays: Any, generator: Any, **given: Any) -> Payload:
        dtype = result_dtype(*(a.dtype for a in arrays if hasattr(a, "dtype")))
        if any(getattr(a, "is_meta", False) for a in arrays):
            return sum(arrays[1:], arrays[0])
        if np is not numpy:
            arrays = tuple(a.get() if hasattr(a, "get") else a for a in arrays)
        arrays = tuple(map(widened, arrays))
        return _placed(np, draw(source_of(generator), *arrays, **given), dtype)

    return op(
        name, args,
        forward,
        settings={**settings, "generator": None},
        vjp={a: (lambda g, ops: ops.zeros_like(g)) for a in args.split()},
        jvp={a: (lambda t, ops: ops.zeros_like(t)) for a in args.split()},
        batch=RANDOM,
        backward_name=backward_name,
        halves=True,
    )  # fmt: skip


bernoulli = _distribution("bernoulli", "p", lambda source, p: source.random(p.shape) < p, "BernoulliBackward0")


def _normal_tensor(source: Any, mean: Any, std: Any) -> Any:
    dtype = numpy.result_type(mean, std)
    z = _standard_normal(source, numpy.broadcast_shapes(numpy.shape(mean), numpy.shape(std)), dtype)
    return mean + std * z


normal_tensor = _distribution("normal_tensor", "mean std", _normal_tensor, "NormalBackward3")
normal_mean = _distribution("normal_mean", "mean", _normal_tensor, "NormalBackward1", std=1.0)
normal_std = _distribution(
    "normal_std", "std", lambda source, std, *, mean: _normal_tensor(source, mean, std), "NormalBackward2", mean=0.0
)  # fmt: skip

poisson = _distribution("poisson", "x", lambda source, x: source.poisson(x), "PoissonBackward0")

binomial = _distribution(
    "binomial", "count prob",
    lambda source, count, prob: source.binomial(numpy.asarray(count).astype(numpy.int64), prob),
    "BinomialBackward0",
)  # fmt: skip


def _bernoulli_tensor(np: Library, x: Payload, p: Any, *, generator: Any) -> Payload:
    if getattr(x, "is_meta", False):
        return x.copy()
    p = p.get() if np is not numpy else p
    return _placed(np, source_of(generator).random(x.shape) < p, x.dtype)


# As bernoulli, in the shape and dtype of x, which is overwritten.
bernoulli_tensor = op(
    "bernoulli_tensor", "x p",
    _bernoulli_tensor,
    settings={"generator": None},
    vjp={"x": lambda g, ops: ops.zeros_like(g), "p": lambda g, ops: ops.zeros_like(g)},
    jvp={"x": lambda t, ops: ops.zeros_like(t), "p": lambda t, x, ops: ops.zeros_like(x)},
    batch=RANDOM,
    backward_name="BernoulliBackward1",
    halves=True,
)  # fmt: skip


def _multinomial(np: Library, x: Payload, *, num_samples: int, replacement: bool, generator: Any) -> Payload:
    """Draw indices with probabilities proportional to the last dimension.

    Without replacement: the `num_samples` smallest of independent exponential times with these rates, which come in the
    order in which a draw without replacement would pick them.
    """
    weights = numpy.asarray(x.get() if np is not numpy else x)
    source = source_of(generator)
    if replacement:
        edges = numpy.cumsum(weights, -1, dtype=numpy.float64)
        points = source.random((*weights.shape[:-1], num_samples)) * edges[..., -1:]
        below = (points[..., None] >= edges[..., None, :]).sum(-1)
        # rounding may put a point on the last edge: the last index that can be drawn is the last of positive weight
        last = weights.shape[-1] - 1 - numpy.argmax((weights > 0)[..., ::-1], -1)
        return _placed(np, numpy.minimum(below, last[..., None]), numpy.int64)
    with numpy.errstate(divide="ignore"):
        times = source.standard_exponential(weights.shape) / weights
    first = numpy.argsort(times, -1, kind="stable")[..., :num_samples]
    return _placed(np, first, numpy.int64)


multinomial = op(
    "multinomial", "x",
    _multinomial,
    settings={"num_samples": 1, "replacement": False, "generator": None},
    vjp=NOT_DIFFERENTIABLE,
    batch=RANDOM,
)  # fmt: skip


# ----- gamma ----------------------------------------------------------------------------------------------------------


def _standard_gamma(np: Library, x: Payload, *, generator: Any) -> Payload:
    if getattr(x, "is_meta", False):
        return x.copy()
    tiny = float(finfo(x.dtype).tiny)  # a sample of a small shape may underflow, and its logarithm is wanted
    alpha = widened(x.get() if np is not numpy else x)
    return _placed(np, numpy.maximum(source_of(generator).standard_gamma(alpha), tiny), x.dtype)


# The derivative at fixed probability: with F the distribution function, F(z(a), a) stays constant, so
# dz/da = -(dF/da) / (dF/dz).
standard_gamma = op(
    "standard_gamma", "x",
    _standard_gamma,
    settings={"generator": None},
    vjp={"x": lambda g, x, out, ops: g * ops.standard_gamma_grad(x, out)},
    jvp={"x": lambda t, x, out, ops: t * ops.standard_gamma_grad(x, out)},
    batch=RANDOM,
    halves=True,
)  # fmt: skip


def _gamma_sample_derivative(np: Library, x: Payload, sample: Any) -> Payload:
    """dz/da of a standard gamma sample z = `sample` with shape a = `x`.

    The distribution function is z^a e^-z sum_k z^k / Gamma(a+k+1), and its density z^(a-1) e^-z / Gamma(a), so with
    c_k = z^k Gamma(a) / Gamma(a+k+1) the quotient is -z sum_k c_k (log z - digamma(a+k+1)). The terms grow until k =
    z - a and then fall; samples lie within some standard deviations sqrt(a) of a, so about a + 12 sqrt(a) of them are
    enough. For large shapes, where those are many, the quantile is expanded in the normal quantile w (Cornish and
    Fisher): z = a + sqrt(a) w + (w^2-1)/3 + (w^3-7w)/(36 sqrt(a)) + O(1/a), differentiated at fixed w.
    """
    from ndgrad.arrays.special import digamma  # importing ndgrad need not load it

    a, z = numpy.broadcast_arrays(
        numpy.asarray(to_host(x), numpy.float64), numpy.asarray(to_host(sample), numpy.float64)
    )
    out = numpy.empty(a.shape)
    large = a > _SERIES_LIMIT
    if large.any():
        out[large] = _expanded(a[large], z[large])
    small = ~large
    if small.any():
        a, z = a[small], z[small]
        log_z, psi = numpy.log(z), digamma(a + 1)
        term = 1 / a
        total = term * (log_z - psi)
        for k in range(1, int(numpy.max(z) + 14 * numpy.sqrt(numpy.max(z)) + 40)):
            psi = psi + 1 / (a + k)
            term = term * (z / (a + k))
            total += term * (log_z - psi)
        out[small] = -z * total
    return _placed(np, out, x.dtype)


_SERIES_LIMIT = 1000.0


def _expanded(a: Any, z: Any) -> Any:
    root = numpy.sqrt(a)
    w = (z - a) / root
    for _ in range(4):  # solve the expansion for w; each step gains a factor of sqrt(a)
        w = (z - a - (w * w - 1) / 3 - (w**3 - 7 * w) / (36 * root) + (3 * w**4 + 7 * w**2 - 16) / (810 * a)) / root
    return 1 + w / (2 * root) - (w**3 - 7 * w) / (72 * a * root) + (3 * w**4 + 7 * w**2 - 16) / (810 * a * a)


def _no_second_derivative(g: Any) -> Any:
    raise NotImplementedError(
        "the derivative of a gamma sample with respect to its shape cannot be differentiated again. "
        "Detach the gradient, or use a score-function estimator for second derivatives."
    )


standard_gamma_grad = op(
    "standard_gamma_grad", "x sample",
    _gamma_sample_derivative,
    vjp={"x": lambda g: _no_second_derivative(g), "sample": lambda g: _no_second_derivative(g)},
    jvp={"x": lambda t: _no_second_derivative(t), "sample": lambda t: _no_second_derivative(t)},
    batch="elementwise",
    elementwise=True,
)  # fmt: skip
