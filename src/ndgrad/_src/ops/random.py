"""Random numbers.

Every op draws from an `ndgrad.Generator`. On the CPU this is the NumPy generator inside it. On a device it is the
device's own generator (arrays/device_draws); numbers from a CPU generator are copied to the device.

There are two kinds of ops. The first take a tensor only for its shape and dtype (`uniform`, `normal`, ...): the
in-place forms overwrite it, and the factories pass one without memory. The second draw from a distribution whose
parameters are the tensors' values. Both results are constant in their inputs, and so get a gradient of zeros, as in
torch. The exceptions are `standard_gamma` and `sample_dirichlet`, whose samples move smoothly with the parameters.

Under vmap, `randomness` decides whether samples share their numbers: see ndgrad._src.interpreters.batching.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy

from ndgrad._src.arrays import graph_recording
from ndgrad._src.arrays.device_draws import DRAWS, FROM_ARRAYS, Source, first_arrivals
from ndgrad._src.arrays.generator import Generator, default_generator, default_on
from ndgrad._src.arrays.host_fallback import to_host
from ndgrad._src.arrays.precision import finfo, result_dtype, widen
from ndgrad._src.ops.table import NOT_DIFFERENTIABLE, RANDOM, Op, op

if TYPE_CHECKING:
    from ndgrad._typing import Library, Payload

#: The ops that use their argument only for its shape and dtype: name -> draw(source, shape, dtype, **settings).
SHAPE_ONLY: dict[str, Callable[..., Any]] = {}


def source_of(generator: Generator | None) -> numpy.random.Generator:
    """Return the NumPy generator for arrays on the CPU."""
    if generator is None:
        return default_generator.numpy
    if generator.device.type != "cpu":
        raise RuntimeError(
            f"Expected a 'cpu' device type for generator but found '{generator.device}': a tensor on the CPU is filled "
            "by a generator of the CPU. Make it with ndgrad.Generator(). [nd-device]"
        )
    return generator.numpy


def _device_source(np: Library, like: Payload, generator: Generator | None) -> Source | None:
    """Return the generator for an array on a device, or None if a CPU generator was given."""
    number = int(like.device.id)
    if generator is None:
        return Source(np, default_on(number))
    if generator.device.type == "cpu":
        return None
    if generator.device.index != number:
        raise RuntimeError(
            f"Expected a generator of cuda:{number}, where the tensor is, but found one of '{generator.device}'. "
            f"Make it with ndgrad.Generator('cuda:{number}'). [nd-device]"
        )
    return Source(np, generator)


def _host_source(np: Library, like: Payload, generator: Generator | None) -> numpy.random.Generator:
    """Return the NumPy generator that draws on the host for an array on any device."""
    if np is numpy:
        return source_of(generator)
    source = _device_source(np, like, generator)
    return source_of(generator) if source is None else source.generator.numpy


def _place(np: Library, values: Payload, dtype: Any) -> Payload:
    """Convert drawn numbers to an array of the op's library."""
    if np is numpy:
        return numpy.asarray(values).astype(dtype, copy=False)
    if not isinstance(values, (numpy.ndarray, numpy.generic)):
        return values if values.dtype == dtype else values.astype(dtype)
    graph_recording.refuse(
        "a draw of random numbers on the host", "draw before, and write them into a tensor by copy_()."
    )
    return np.asarray(numpy.asarray(values).astype(dtype, copy=False))


# ----- numbers in the shape of a tensor ------------------------------------------------------------------------------


def _define_fill(name: str, draw: Callable[..., Any], settings: dict[str, Any], backward_name: str | None = None) -> Op:
    """Define an op that fills the shape of `x` with `draw(source, shape, dtype, **settings)`."""
    SHAPE_ONLY[name] = draw

    def forward(np: Library, x: Payload, *, generator: Any, **given: Any) -> Payload:
        if getattr(x, "is_meta", False):
            return x.copy()
        source = None if np is numpy else _device_source(np, x, generator)
        if source is not None:
            return _place(np, DRAWS[name](source, x.shape, x.dtype, **given), x.dtype)
        return _place(np, draw(source_of(generator), x.shape, x.dtype, **given), x.dtype)

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


# In narrow dtypes 1 - eps/2 would round to 1, which is excluded. They get as many random bits as they have digits.
_DIGITS = {"float16": 11, "bfloat16": 8}


def _unit(source: Any, shape: Any, dtype: Any) -> Any:
    """Return uniform numbers on [0, 1)."""
    if dtype.kind == "c":
        parts = source.random((2, *shape), numpy.float32 if dtype.itemsize == 8 else numpy.float64)
        return parts[0] + 1j * parts[1]
    digits = _DIGITS.get(dtype.name)
    if digits is not None:
        return source.integers(0, 1 << digits, shape) / (1 << digits)
    return source.random(shape, dtype if dtype.name in ("float32", "float64") else numpy.float64)


def _standard_normal(source: Any, shape: Any, dtype: Any) -> Any:
    if dtype.kind == "c":  # total variance 1, half of it in each part
        parts = source.standard_normal((2, *shape), numpy.float32 if dtype.itemsize == 8 else numpy.float64)
        return (parts[0] + 1j * parts[1]) * 0.5**0.5
    return source.standard_normal(shape, dtype if dtype.name in ("float32", "float64") else numpy.float64)


def _uniform(source: Any, shape: Any, dtype: Any, *, low: float, high: float) -> Any:
    u = _unit(source, shape, dtype)
    if low == 0 and high == 1:
        return u
    return (complex(low, low) if dtype.kind == "c" else low) + (high - low) * u  # the same bounds for both parts


def _normal(source: Any, shape: Any, dtype: Any, *, mean: Any, std: float) -> Any:
    z = _standard_normal(source, shape, dtype)
    return z if mean == 0 and std == 1 else mean + std * z


def _random(source: Any, shape: Any, dtype: Any, *, low: int, high: int) -> Any:
    if high <= 2**63:
        return source.integers(low, high, shape)
    return source.integers(low, high, shape, numpy.uint64)


uniform = _define_fill("uniform", _uniform, {"low": 0.0, "high": 1.0})

normal = _define_fill("normal", _normal, {"mean": 0.0, "std": 1.0})

log_normal = _define_fill(
    "log_normal", lambda source, shape, dtype, *, mean, std: source.lognormal(mean, std, shape),
    {"mean": 1.0, "std": 2.0}
)  # fmt: skip

exponential = _define_fill(
    "exponential", lambda source, shape, dtype, *, rate: source.standard_exponential(shape) / rate, {"rate": 1.0}
)  # fmt: skip

cauchy = _define_fill(
    "cauchy",
    lambda source, shape, dtype, *, median, sigma: median + sigma * source.standard_cauchy(shape),
    {"median": 0.0, "sigma": 1.0},
)

# The number of trials with success probability p until the first success, at least one.
geometric = _define_fill("geometric", lambda source, shape, dtype, *, p: source.geometric(p, shape), {"p": 0.5})

# Integers in [low, high), in any dtype.
random = _define_fill("random", _random, {"low": 0, "high": 1}, "RandomBackward0")

bernoulli_scalar = _define_fill(
    "bernoulli_scalar", lambda source, shape, dtype, *, p: source.random(shape) < p, {"p": 0.5}, "BernoulliBackward2"
)  # fmt: skip

# The numbers 0 ... n-1 along the last dimension, in random order.
permutation = _define_fill(
    "permutation",
    lambda source, shape, dtype: source.permuted(numpy.broadcast_to(numpy.arange(shape[-1]), shape), axis=-1),
    {},
)


# ----- numbers from distributions given by tensors -------------------------------------------------------------------


def _define_sampler(name: str, args: str, draw: Callable[..., Any], backward_name: str, **settings: Any) -> Op:
    """Define an op that draws `draw(source, *arrays, **settings)`, in the dtype of the arrays."""

    def forward(np: Library, *arrays: Any, generator: Any, **given: Any) -> Payload:
        dtype = result_dtype(*(a.dtype for a in arrays if hasattr(a, "dtype")))
        if any(getattr(a, "is_meta", False) for a in arrays):
            return sum(arrays[1:], arrays[0])
        first = next(a for a in arrays if hasattr(a, "dtype"))
        source = None if np is numpy or name not in FROM_ARRAYS else _device_source(np, first, generator)
        if source is not None:
            return _place(np, FROM_ARRAYS[name](source, *map(widen, arrays), **given), dtype)
        arrays = tuple([widen(to_host(a)) for a in arrays])
        return _place(np, draw(_host_source(np, first, generator), *arrays, **given), dtype)

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


bernoulli = _define_sampler("bernoulli", "p", lambda source, p: source.random(p.shape) < p, "BernoulliBackward0")


def _normal_tensor(source: Any, mean: Any, std: Any) -> Any:
    dtype = numpy.result_type(mean, std)
    z = _standard_normal(source, numpy.broadcast_shapes(numpy.shape(mean), numpy.shape(std)), dtype)
    return mean + std * z


normal_tensor = _define_sampler("normal_tensor", "mean std", _normal_tensor, "NormalBackward3")
normal_mean = _define_sampler("normal_mean", "mean", _normal_tensor, "NormalBackward1", std=1.0)
normal_std = _define_sampler(
    "normal_std", "std", lambda source, std, *, mean: _normal_tensor(source, mean, std), "NormalBackward2", mean=0.0
)  # fmt: skip

poisson = _define_sampler("poisson", "x", lambda source, x: source.poisson(x), "PoissonBackward0")

binomial = _define_sampler(
    "binomial", "count prob",
    lambda source, count, prob: source.binomial(numpy.asarray(count).astype(numpy.int64), prob),
    "BinomialBackward0",
)  # fmt: skip


# Angles around `loc`, in [-pi, pi].
von_mises = _define_sampler(
    "von_mises", "loc concentration",
    lambda source, loc, concentration: source.vonmises(loc, concentration),
    "VonMisesBackward0",
)  # fmt: skip


def _bernoulli_tensor(np: Library, x: Payload, p: Any, *, generator: Any) -> Payload:
    if getattr(x, "is_meta", False):
        return x.copy()
    source = None if np is numpy else _device_source(np, x, generator)
    if source is not None:
        return _place(np, source.uniform(x.shape, numpy.dtype(numpy.float64)) < widen(p), x.dtype)
    return _place(np, source_of(generator).random(x.shape) < to_host(p), x.dtype)


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

    Without replacement, these are the `num_samples` smallest of independent exponential times with these rates. Their
    order is that of successive draws without replacement.
    """
    on_device = None if np is numpy or (replacement and num_samples > 1) else _device_source(np, x, generator)
    if on_device is not None:
        return _place(np, first_arrivals(on_device, widen(x), num_samples), numpy.int64)
    weights = numpy.asarray(to_host(x))
    source = _host_source(np, x, generator)
    if replacement:
        edges = numpy.cumsum(weights, -1, dtype=numpy.float64)
        points = source.random((*weights.shape[:-1], num_samples)) * edges[..., -1:]
        below = numpy.empty(points.shape, numpy.int64)
        for row in numpy.ndindex(weights.shape[:-1]):
            below[row] = numpy.searchsorted(edges[row], points[row], side="right")
        # Rounding may put a point on the last edge. The last index that can be drawn is the last one with positive
        # weight.
        last = weights.shape[-1] - 1 - numpy.argmax((weights > 0)[..., ::-1], -1)
        return _place(np, numpy.minimum(below, last[..., None]), numpy.int64)
    with numpy.errstate(divide="ignore"):
        times = source.standard_exponential(weights.shape) / weights
    first = numpy.ascontiguousarray(numpy.argsort(times, -1, kind="stable")[..., :num_samples])
    return _place(np, first, numpy.int64)


multinomial = op(
    "multinomial", "x",
    _multinomial,
    settings={"num_samples": 1, "replacement": False, "generator": None},
    vjp=NOT_DIFFERENTIABLE,
    batch=RANDOM,
)  # fmt: skip


# ----- samples that move with their parameters ------------------------------------------------------------------------
#
# Note [Implicit reparametrisation]
# A sample z of a distribution function F(z; a) moves with the parameter so that F stays constant: dz/da = -(dF/da) /
# (dF/dz). This depends only on z and a, not on the way z was drawn, so any sampler works. The quotients are ops with
# their own rules (gamma_shape_ratio, beta_shape_ratio), so derivatives of any order exist.


def _standard_gamma(np: Library, x: Payload, *, generator: Any) -> Payload:
    if getattr(x, "is_meta", False):
        return x.copy()
    tiny = float(finfo(x.dtype).tiny)  # samples with small shapes may underflow, but need a finite logarithm
    alpha = widen(to_host(x))
    return _place(np, numpy.maximum(_host_source(np, x, generator).standard_gamma(alpha), tiny), x.dtype)


standard_gamma = op(
    "standard_gamma", "x",
    _standard_gamma,
    settings={"generator": None},
    vjp={"x": lambda g, x, out, ops: -(g * (out * ops.gamma_shape_ratio(x, out, order=1)))},
    jvp={"x": lambda t, x, out, ops: -(t * (out * ops.gamma_shape_ratio(x, out, order=1)))},
    batch=RANDOM,
    halves=True,
)  # fmt: skip


def _sample_dirichlet(np: Library, x: Payload, *, generator: Any) -> Payload:
    """Divide gamma samples by their sum, using logarithms, because samples with small shapes underflow.

    A sample of shape a is a sample of shape a + 1 times u^(1/a).
    """
    if getattr(x, "is_meta", False):
        return x.copy()
    source, alpha = _host_source(np, x, generator), numpy.asarray(widen(to_host(x)), numpy.float64)
    with numpy.errstate(over="ignore", invalid="ignore"):
        logs = numpy.log(source.standard_gamma(alpha + 1)) - source.standard_exponential(alpha.shape) / alpha
        parts = numpy.exp(logs - numpy.max(logs, -1, keepdims=True, initial=-numpy.inf))
        samples = parts / parts.sum(-1, keepdims=True)
    return _place(np, numpy.maximum(samples, float(finfo(x.dtype).tiny)), x.dtype)


def _dirichlet_speed(x: Payload, out: Payload, ops: Any) -> Any:
    """Return the growth rate of logit(out[i]) in x[i], times out[i], along the last dimension.

    As x[i] grows, out[i] follows the quantile of its marginal, a beta distribution whose second shape is the sum of the
    others. The others shrink in proportion: out[j] moves by s[i] ((i == j) - out[j]), where s[i] is the value returned
    here.
    """
    last = x.ndim - 1
    others = ops.flip(x, dims=(last,)) if x.shape[-1] == 2 else ops.sum(x, dim=(last,), keepdim=True) - x
    return -(out * ops.beta_shape_ratio(x, others, out, orders=(1, 0)))


def _dirichlet_vjp(g: Payload, x: Payload, out: Payload, ops: Any) -> Payload:
    if x.shape[-1] == 1:  # the sample is 1
        return ops.zeros_like(g)
    return _dirichlet_speed(x, out, ops) * (g - ops.sum(out * g, dim=(x.ndim - 1,), keepdim=True))


def _dirichlet_jvp(t: Payload, x: Payload, out: Payload, ops: Any) -> Payload:
    if x.shape[-1] == 1:
        return ops.zeros_like(t)
    moved = t * _dirichlet_speed(x, out, ops)
    return moved - out * ops.sum(moved, dim=(x.ndim - 1,), keepdim=True)


sample_dirichlet = op(
    "sample_dirichlet", "x",
    _sample_dirichlet,
    settings={"generator": None},
    vjp={"x": _dirichlet_vjp},
    jvp={"x": _dirichlet_jvp},
    batch=RANDOM,
    halves=True,
)  # fmt: skip
