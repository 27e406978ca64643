"""Random numbers.

Every op draws from an `ndgrad.Generator`. On the CPU its numbers are torch's (arrays/host_draws). On a device it is the
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

from ndgrad._src.arrays import graph_recording, host_draws
from ndgrad._src.arrays.device_draws import DRAWS, FROM_ARRAYS, Source, first_arrivals
from ndgrad._src.arrays.generator import Generator, default_generator, default_on
from ndgrad._src.arrays.host_draws import HostSource
from ndgrad._src.arrays.host_fallback import to_host, warn_of_host
from ndgrad._src.arrays.precision import finfo, result_dtype, widen
from ndgrad._src.ops.table import NOT_DIFFERENTIABLE, RANDOM, Op, op

if TYPE_CHECKING:
    from ndgrad._typing import Library, Payload

#: The ops that use their argument only for its shape and dtype: name -> draw(source, shape, dtype, **settings).
SHAPE_ONLY: dict[str, Callable[..., Any]] = {}


def source_of(generator: Generator | None) -> HostSource:
    """Return the numbers of a generator for arrays on the CPU."""
    if generator is None:
        return HostSource(default_generator)
    if generator.device.type != "cpu":
        raise RuntimeError(
            f"Expected a 'cpu' device type for generator but found '{generator.device}': a tensor on the CPU is filled "
            "by a generator of the CPU. Make it with ndgrad.Generator(). [nd-device]"
        )
    return HostSource(generator) if isinstance(generator, Generator) else generator.source


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


def _draw_on_host(
    np: Library, like: Payload, generator: Generator | None, name: str, *arrays: Any, **settings: Any
) -> Any:
    """Draw from a distribution given by arrays, on the host for an array on any device: with the function `name` of
    `host_draws`, or for a device's generator by NumPy.
    """
    source = None if np is numpy else _device_source(np, like, generator)
    if source is None:
        return getattr(host_draws, name)(source_of(generator), *arrays, **settings)
    return _WITH_NUMPY[name](source.generator.numpy, *arrays, **settings)


def _dirichlet_with_numpy(source: Any, alpha: Any) -> Any:
    """Divide gamma samples by their sum, using logarithms, because samples with small shapes underflow.

    A sample of shape a is a sample of shape a + 1 times u^(1/a).
    """
    alpha = numpy.asarray(alpha, numpy.float64)
    with numpy.errstate(over="ignore", invalid="ignore"):
        logs = numpy.log(source.standard_gamma(alpha + 1)) - source.standard_exponential(alpha.shape) / alpha
        parts = numpy.exp(logs - numpy.max(logs, -1, keepdims=True, initial=-numpy.inf))
        return parts / parts.sum(-1, keepdims=True)


def _multinomial_with_numpy(source: Any, weights: Any, dtype: Any, *, num_samples: int, replacement: bool) -> Any:
    edges = numpy.cumsum(weights, -1, dtype=numpy.float64)
    points = source.random((*weights.shape[:-1], num_samples)) * edges[..., -1:]
    below = numpy.empty(points.shape, numpy.int64)
    for row in numpy.ndindex(weights.shape[:-1]):
        below[row] = numpy.searchsorted(edges[row], points[row], side="right")
    # Rounding may put a point on the last edge. The last index that can be drawn is the last one with positive weight.
    last = weights.shape[-1] - 1 - numpy.argmax((weights > 0)[..., ::-1], -1)
    return numpy.minimum(below, last[..., None])


#: Distributions that a device's generator draws on the host: name -> draw(source, *arrays), with a NumPy generator.
_WITH_NUMPY: dict[str, Callable[..., Any]] = {
    "poisson": lambda source, x: source.poisson(x),
    "binomial": lambda source, count, prob: source.binomial(numpy.asarray(count).astype(numpy.int64), prob),
    "gamma": lambda source, alpha: source.standard_gamma(alpha),
    "dirichlet": _dirichlet_with_numpy,
    "multinomial": _multinomial_with_numpy,
    "von_mises": lambda source, loc, concentration: source.vonmises(loc, concentration),
}


def _place(np: Library, values: Payload, dtype: Any) -> Payload:
    """Convert drawn numbers to an array of the op's library."""
    if np is numpy:
        return host_draws.cast(values, dtype)
    if not isinstance(values, (numpy.ndarray, numpy.generic)):
        return values if values.dtype == dtype else values.astype(dtype)
    graph_recording.refuse(
        "a draw of random numbers on the host", "draw before, and write them into a tensor by copy_()."
    )
    return np.asarray(host_draws.cast(values, dtype))


# ----- numbers in the shape of a tensor ------------------------------------------------------------------------------


def layout_of(x: Any) -> tuple[int, ...] | None:
    """Return the dimensions of an array in the order of its memory; None if it is contiguous, or if elements share
    memory.
    """
    if x.flags.c_contiguous or 0 in x.strides:
        return None
    # Dimensions of one element may have any stride; they come last.
    return tuple(sorted(range(x.ndim), key=lambda dim: (x.shape[dim] == 1, -abs(x.strides[dim]))))


def empty_like(x: Any, dtype: Any) -> Any:
    """Return memory without gaps, in the order of the memory of `x`."""
    if x.flags.c_contiguous or 0 in x.strides:
        return numpy.empty(x.shape, dtype)
    return numpy.empty_like(x, dtype)


def draw_in_layout(
    draw: Callable[..., Any], source: HostSource, shape: Any, dtype: Any, layout: tuple[int, ...] | None, settings: Any
) -> Any:
    """Draw numbers in a shape. They fill memory of the given layout from the beginning to the end."""
    if layout is None or source.ignores_layout:
        return draw(source, shape, dtype, **settings)
    made = draw(source, tuple([shape[dim] for dim in layout]), dtype, contiguous=False, **settings)
    return made.transpose(numpy.argsort(layout))


def _define_fill(name: str, settings: dict[str, Any], backward_name: str | None = None) -> Op:
    """Define an op that fills the shape of `x` by the function of `host_draws` with its name."""
    draw = SHAPE_ONLY[name] = getattr(host_draws, name)

    def forward(np: Library, x: Payload, *, generator: Any, **given: Any) -> Payload:
        if getattr(x, "is_meta", False):
            return x.copy()
        source = None if np is numpy else _device_source(np, x, generator)
        if source is not None:
            return _place(np, DRAWS[name](source, x.shape, x.dtype, **given), x.dtype)
        layout = layout_of(x) if np is numpy else None
        return _place(np, draw_in_layout(draw, source_of(generator), x.shape, x.dtype, layout, given), x.dtype)

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


uniform = _define_fill("uniform", {"low": 0.0, "high": 1.0})
normal = _define_fill("normal", {"mean": 0.0, "std": 1.0})
log_normal = _define_fill("log_normal", {"mean": 1.0, "std": 2.0})
exponential = _define_fill("exponential", {"rate": 1.0})
cauchy = _define_fill("cauchy", {"median": 0.0, "sigma": 1.0})
geometric = _define_fill("geometric", {"p": 0.5})
random = _define_fill("random", {"low": 0, "high": 1, "whole": False}, "RandomBackward0")
bernoulli_scalar = _define_fill("bernoulli_scalar", {"p": 0.5}, "BernoulliBackward2")
permutation = _define_fill("permutation", {})


# ----- numbers from distributions given by tensors -------------------------------------------------------------------


def _define_sampler(name: str, args: str, host_name: str, backward_name: str, **settings: Any) -> Op:
    """Define an op that draws by the function of `host_draws` with a name, in the dtype of the arrays."""

    def forward(np: Library, *arrays: Any, generator: Any, **given: Any) -> Payload:
        dtype = result_dtype(*(a.dtype for a in arrays if hasattr(a, "dtype")))
        if any(getattr(a, "is_meta", False) for a in arrays):
            return sum(arrays[1:], arrays[0])
        first = next(a for a in arrays if hasattr(a, "dtype"))
        source = None if np is numpy or name not in FROM_ARRAYS else _device_source(np, first, generator)
        if source is not None:
            return _place(np, FROM_ARRAYS[name](source, *map(widen, arrays), **given), dtype)
        if np is not numpy:
            warn_of_host(name)
        arrays = tuple([to_host(a) if "normal" in host_name else widen(to_host(a)) for a in arrays])
        return _place(np, _draw_on_host(np, first, generator, host_name, *arrays, **given), dtype)

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


bernoulli = _define_sampler("bernoulli", "p", "bernoulli", "BernoulliBackward0")
normal_tensor = _define_sampler("normal_tensor", "mean std", "normal_of", "NormalBackward3")
normal_mean = _define_sampler("normal_mean", "mean", "normal_of", "NormalBackward1", std=1.0)
normal_std = _define_sampler("normal_std", "std", "normal_of_std", "NormalBackward2", mean=0.0)
poisson = _define_sampler("poisson", "x", "poisson", "PoissonBackward0")
binomial = _define_sampler("binomial", "count prob", "binomial", "BinomialBackward0")

# Random slopes of leaky_relu for the elements of x that are not positive, and one for the others.
rrelu_slopes = _define_sampler("rrelu_slopes", "x", "rrelu_slopes", "RreluSlopesBackward0", lower=0.125, upper=1 / 3)
# Angles around `loc`, in [-pi, pi].
von_mises = _define_sampler("von_mises", "loc concentration", "von_mises", "VonMisesBackward0")


def _bernoulli_tensor(np: Library, x: Payload, p: Any, *, generator: Any) -> Payload:
    if getattr(x, "is_meta", False):
        return x.copy()
    source = None if np is numpy else _device_source(np, x, generator)
    if source is not None:
        return _place(np, source.uniform(x.shape, numpy.dtype(numpy.float64)) < widen(p), x.dtype)
    p = widen(to_host(p))
    if p.dtype.kind != "f":
        p = p.astype(numpy.float32)
    layout, given = layout_of(x) if np is numpy else None, {"like": p.dtype}
    u = draw_in_layout(host_draws.unit_like, source_of(generator), x.shape, x.dtype, layout, given)
    return _place(np, u < p, x.dtype)


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
    on_device = None if np is numpy or (replacement and num_samples > 1) else _device_source(np, x, generator)
    if on_device is not None:
        return _place(np, first_arrivals(on_device, widen(x), num_samples), numpy.int64)
    weights = widen(numpy.asarray(to_host(x)))
    given = {"num_samples": num_samples, "replacement": replacement}
    return _place(np, _draw_on_host(np, x, generator, "multinomial", weights, x.dtype, **given), numpy.int64)


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
    samples = _draw_on_host(np, x, generator, "gamma", widen(to_host(x)))
    # Samples with small shapes may underflow, but need a finite logarithm.
    return _place(np, numpy.maximum(samples, float(finfo(x.dtype).tiny)), x.dtype)


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
    if getattr(x, "is_meta", False):
        return x.copy()
    samples = _draw_on_host(np, x, generator, "dirichlet", widen(to_host(x)))
    limits = finfo(x.dtype)  # samples lie inside of the interval, so that logarithms are finite
    return _place(np, numpy.clip(samples, float(limits.tiny), 1 - float(limits.epsneg)), x.dtype)


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
