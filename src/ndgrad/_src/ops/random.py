"""Random numbers. Every op draws from an `ndgrad.Generator`: on the CPU from the NumPy generator inside it, on a device
from that device's (arrays/device_draws), unless it is given one of the CPU's, whose numbers are then brought
there.

Two kinds. The first take a tensor only for its shape and dtype (`uniform`, `normal`, ...): the in-place forms overwrite
it, and the factories pass one without memory. The second draw from a distribution whose parameters are the tensors'
values. The result of either is constant in its inputs, and so gets a gradient of zeros, as in torch; the exceptions are
`standard_gamma` and `sample_dirichlet`, whose samples move smoothly with the parameters.

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
from ndgrad._src.arrays.precision import finfo, result_dtype, widened
from ndgrad._src.ops.table import NOT_DIFFERENTIABLE, RANDOM, Op, op

if TYPE_CHECKING:
    from ndgrad._typing import Library, Payload

#: The ops that use their argument only for its shape and dtype: name -> draw(source, shape, dtype, **settings).
SHAPE_ONLY: dict[str, Callable[..., Any]] = {}


def source_of(generator: Generator | None) -> numpy.random.Generator:
    """What draws for arrays on the CPU."""
    if generator is None:
        return default_generator.numpy
    if generator.device.type != "cpu":
        raise RuntimeError(
            f"Expected a 'cpu' device type for generator but found '{generator.device}': a tensor on the CPU is filled "
            "by a generator of the CPU. Make it with ndgrad.Generator(). [nd-device]"
        )
    return generator.numpy


def _device_source(np: Library, beside: Payload, generator: Generator | None) -> Source | None:
    """What draws for an array on a device, there; None for a generator of the CPU's."""
    number = int(beside.device.id)
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


def _host_source(np: Library, beside: Payload, generator: Generator | None) -> numpy.random.Generator:
    """What draws on the host for an array, wherever that is."""
    if np is numpy:
        return source_of(generator)
    source = _device_source(np, beside, generator)
    return source_of(generator) if source is None else source.generator.numpy


def _placed(np: Library, values: Payload, dtype: Any) -> Payload:
    """Numbers that were drawn, as an array of the library that the op runs on."""
    if np is numpy:
        return numpy.asarray(values).astype(dtype, copy=False)
    if not isinstance(values, (numpy.ndarray, numpy.generic)):
        return values if values.dtype == dtype else values.astype(dtype)
    graph_recording.refuse(
        "a draw of random numbers on the host", "draw before, and write them into a tensor by copy_()."
    )
    return np.asarray(numpy.asarray(values).astype(dtype, copy=False))


# ----- numbers in the shape of a tensor ------------------------------------------------------------------------------


def _like(name: str, draw: Callable[..., Any], settings: dict[str, Any], backward_name: str | None = None) -> Op:
    """An op that fills the shape of `x` with `draw(source, shape, dtype, **settings)`."""
    SHAPE_ONLY[name] = draw

    def forward(np: Library, x: Payload, *, generator: Any, **given: Any) -> Payload:
        if getattr(x, "is_meta", False):
            return x.copy()
        source = None if np is numpy else _device_source(np, x, generator)
        if source is not None:
            return _placed(np, DRAWS[name](source, x.shape, x.dtype, **given), x.dtype)
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
        first = next(a for a in arrays if hasattr(a, "dtype"))
        source = None if np is numpy or name not in FROM_ARRAYS else _device_source(np, first, generator)
        if source is not None:
            return _placed(np, FROM_ARRAYS[name](source, *map(widened, arrays), **given), dtype)
        arrays = tuple([widened(to_host(a)) for a in arrays])
        return _placed(np, draw(_host_source(np, first, generator), *arrays, **given), dtype)

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


# Angles about `loc`, in [-pi, pi].
von_mises = _distribution(
    "von_mises", "loc concentration",
    lambda source, loc, concentration: source.vonmises(loc, concentration),
    "VonMisesBackward0",
)  # fmt: skip


def _bernoulli_tensor(np: Library, x: Payload, p: Any, *, generator: Any) -> Payload:
    if getattr(x, "is_meta", False):
        return x.copy()
    source = None if np is numpy else _device_source(np, x, generator)
    if source is not None:
        return _placed(np, source.uniform(x.shape, numpy.dtype(numpy.float64)) < widened(p), x.dtype)
    return _placed(np, source_of(generator).random(x.shape) < to_host(p), x.dtype)


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
    on_device = None if np is numpy or (replacement and num_samples > 1) else _device_source(np, x, generator)
    if on_device is not None:
        return _placed(np, first_arrivals(on_device, widened(x), num_samples), numpy.int64)
    weights = numpy.asarray(to_host(x))
    source = _host_source(np, x, generator)
    if replacement:
        edges = numpy.cumsum(weights, -1, dtype=numpy.float64)
        points = source.random((*weights.shape[:-1], num_samples)) * edges[..., -1:]
        below = numpy.empty(points.shape, numpy.int64)
        for row in numpy.ndindex(weights.shape[:-1]):
            below[row] = numpy.searchsorted(edges[row], points[row], side="right")
        # rounding may put a point on the last edge: the last index that can be drawn is the last of positive weight
        last = weights.shape[-1] - 1 - numpy.argmax((weights > 0)[..., ::-1], -1)
        return _placed(np, numpy.minimum(below, last[..., None]), numpy.int64)
    with numpy.errstate(divide="ignore"):
        times = source.standard_exponential(weights.shape) / weights
    first = numpy.ascontiguousarray(numpy.argsort(times, -1, kind="stable")[..., :num_samples])
    return _placed(np, first, numpy.int64)


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
# A sample z of a distribution function F(z; a) moves with the parameter so that F stays what it is: dz/da = -(dF/da) /
# (dF/dz). That depends on z and a alone, not on how z was drawn, so any sampler will do. The quotients are ops with
# rules
# of their own (gamma_shape_ratio, beta_shape_ratio), so derivatives of any order are there.


def _standard_gamma(np: Library, x: Payload, *, generator: Any) -> Payload:
    if getattr(x, "is_meta", False):
        return x.copy()
    tiny = float(finfo(x.dtype).tiny)  # a sample of a small shape may underflow, and its logarithm is wanted
    alpha = widened(to_host(x))
    return _placed(np, numpy.maximum(_host_source(np, x, generator).standard_gamma(alpha), tiny), x.dtype)


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
    """Gamma samples over their sum, by their logarithms, since samples of small shapes underflow:
    a sample of shape a is one of shape a + 1 times u^(1/a)."""
    if getattr(x, "is_meta", False):
        return x.copy()
    source, alpha = _host_source(np, x, generator), numpy.asarray(widened(to_host(x)), numpy.float64)
    with numpy.errstate(over="ignore", invalid="ignore"):
        logs = numpy.log(source.standard_gamma(alpha + 1)) - source.standard_exponential(alpha.shape) / alpha
        parts = numpy.exp(logs - numpy.max(logs, -1, keepdims=True, initial=-numpy.inf))
        samples = parts / parts.sum(-1, keepdims=True)
    return _placed(np, numpy.maximum(samples, float(finfo(x.dtype).tiny)), x.dtype)


def _dirichlet_speed(x: Payload, out: Payload, ops: Any) -> Any:
    """How fast logit(out[i]) grows with x[i], times out[i], along the last dimension.

    As x[i] grows, out[i] follows the quantile of its marginal, a beta distribution with the sum of the others as second
    shape, and the others shrink in proportion: out[j] moves by s[i] ((i == j) - out[j]) with s[i] the value here.
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
