"""Random numbers of a CPU generator: torch's ways to make numbers of a Mersenne twister's words, in torch's order.

Uniform numbers take one word in single precision and narrower dtypes, and two in double precision. Normal numbers take
one of two ways. A contiguous result of 16 elements or more is made in blocks (box_muller). All others are made one by
one in double precision: each pair of uniform numbers gives two normal ones, and the generator keeps the second for the
next draw. All other distributions are computed from uniform numbers in double precision.

The order of elements is the order of memory: a transposed tensor is filled as if it were not transposed. The caller
passes the shape in this order (ndgrad._src.ops.random).
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from ndgrad._src.arrays import box_muller, rejection_samplers
from ndgrad._src.arrays.generator import Generator
from ndgrad._src.arrays.multiply_add import multiply_add
from ndgrad._src.arrays.precision import result_dtype

if TYPE_CHECKING:
    from ndgrad._typing import Payload, Sizes

_SINGLE, _DOUBLE = np.dtype(np.float32), np.dtype(np.float64)
#: Uniform numbers are k 2^-24 and k 2^-53.
_UNIT_24, _UNIT_53 = np.float32(2.0**-24), 2.0**-53
#: The upper of the two words of a double, as far as it counts: 21 bits.
_UPPER = np.uint64((1 << 21) - 1)
_32 = np.uint64(32)
#: The index of the lower 32 bits in a word of 64.
_LOWER = 0 if sys.byteorder == "little" else 1
#: Integers from a range of this size on take two words.
_WIDE_RANGE = 1 << 28


def _count(shape: Sizes) -> int:
    return math.prod(shape)


def cast(values: Payload, dtype: np.dtype[Any]) -> Payload:
    """Return numbers in a dtype. Doubles are rounded to single precision first if the dtype is narrower."""
    values = np.asarray(values)
    if dtype.itemsize == 2 and values.dtype == _DOUBLE and dtype.kind in "fV":
        values = values.astype(_SINGLE)
    return values.astype(dtype, copy=False)


class HostSource:
    """A CPU generator, with the numbers that distributions are made of."""

    __slots__ = ("generator",)

    #: True if numbers are drawn in the order of dimensions, for memory of any layout.
    ignores_layout = False

    def __init__(self, generator: Generator) -> None:
        self.generator = generator

    def words(self, shape: Sizes) -> Payload:
        """Return words of 32 bits, as uint32."""
        generator = self.generator
        with generator.lock:
            words = generator.twister.words(_count(shape))
        return words.view(np.uint32)[_LOWER::2].reshape(shape)

    def words_64(self, shape: Sizes) -> Payload:
        """Return words of 64 bits. The first of two words is the upper one."""
        words = self.word_pairs(shape)
        upper = words[..., 0] << _32
        upper |= words[..., 1]
        return upper

    def integers_53(self, shape: Sizes) -> Payload:
        """Return integers of 53 bits. Times 2^-53 they are uniform numbers in double precision."""
        words = self.word_pairs(shape)
        upper = words[..., 0] & _UPPER
        upper <<= _32
        upper |= words[..., 1]
        return upper

    def word_pairs(self, shape: Sizes) -> Payload:
        """Return words of 32 bits, as uint64, with one more dimension for the two of a number."""
        generator = self.generator
        with generator.lock:
            words = generator.twister.words(2 * _count(shape))
        return words.reshape((*shape, 2))

    def unit(self, shape: Sizes, dtype: np.dtype[Any]) -> Payload:
        """Return uniform numbers on [0, 1), in single or double precision."""
        if dtype == _DOUBLE:
            return self.integers_53(shape) * _UNIT_53
        return np.multiply((self.words(shape) & 0xFFFFFF).view(np.int32), _UNIT_24, dtype=_SINGLE)

    def doubles(self, shape: Sizes) -> Payload:
        """Return uniform numbers on [0, 1), in double precision."""
        return self.integers_53(shape) * _UNIT_53

    def normal(self, shape: Sizes, dtype: np.dtype[Any], mean: float, std: float, contiguous: bool = True) -> Payload:
        """Return normal numbers; `contiguous` if they are written to contiguous memory. Narrow dtypes are rounded."""
        count = _count(shape)
        if count < 16 or not contiguous:
            z = self.serial_normal(shape)
            return z if mean == 0 and std == 1 else multiply_add(z, std, mean)
        wide = _DOUBLE if dtype == _DOUBLE else _SINGLE
        rest = count % 16
        # Wider dtypes draw for the incomplete block too.
        drawn = count if not rest else count + 16 if dtype.itemsize > 2 else count - rest + 16
        u = self.unit((drawn,), wide)
        if rest:  # the last block begins so that it ends with the tensor, and is drawn anew
            last, u = u[-16:], u[: count - rest]
        z = box_muller.from_uniform(u, mean, std)
        if rest:
            z = np.concatenate([z[: count - 16], box_muller.from_uniform(last, mean, std)])
        return z.reshape(shape)

    def serial_normal(self, shape: Sizes) -> Payload:
        """Return normal numbers in double precision, made one by one."""
        count, generator = _count(shape), self.generator
        if not count:
            return np.empty(shape)
        with generator.lock:
            kept = generator.normal
            missing = count - (kept is not None)
            pairs = self.doubles(((missing + 1) // 2, 2))
            made = np.empty(2 * len(pairs) + (kept is not None))
            if kept is not None:
                made[0] = kept
            if count < 16:
                made[made.size - pairs.size :] = [z for pair in pairs.tolist() for z in _pair(*pair)]
            else:
                radius = np.sqrt(-2 * np.log1p(-pairs[:, 1]))
                angle = 2 * math.pi * pairs[:, 0]
                both = made[made.size - pairs.size :].reshape(-1, 2)
                np.multiply(radius, np.cos(angle), out=both[:, 0])
                np.multiply(radius, np.sin(angle), out=both[:, 1])
            generator.normal = float(made[-1]) if made.size > count else None
        # The result keeps no number of the next call.
        return (made[:count].copy() if made.size > count else made).reshape(shape)

    def permutation(self, shape: Sizes) -> Payload:
        """Return the numbers 0 ... n-1 in random order, along the last dimension."""
        count, length = _count(shape[:-1]), shape[-1]
        made = np.empty((count, length), np.int64)
        for row in made:
            row[...] = _permute(self, length)
        return made.reshape(shape)

    @contextmanager
    def serial(self) -> Iterator[tuple[Callable[[], float], Callable[[], float]]]:
        """Context with functions that return the next uniform and the next normal number, in double precision."""
        generator = self.generator
        with generator.lock:
            start, total = generator.twister.state(), 0
            left: Any = iter(())

            def uniform() -> float:
                nonlocal total, left
                u: float
                for u in left:
                    return u
                size = max(64, min(total, 1 << 16))
                total += size
                left = iter(self.doubles((size,)).tolist())
                return next(left)

            def normal() -> float:
                kept = generator.normal
                if kept is not None:
                    generator.normal = None
                    return kept
                u = uniform()
                first, generator.normal = _pair(u, uniform())
                return first

            try:
                yield uniform, normal
            finally:  # words were drawn in advance: the twister goes back, and skips those that were used
                generator.twister.set_state(start)
                generator.twister.words(2 * (total - left.__length_hint__()))


def _pair(u: float, v: float) -> tuple[float, float]:
    radius, angle = math.sqrt(-2 * math.log1p(-v)), 2 * math.pi * u
    return radius * math.cos(angle), radius * math.sin(angle)


# ----- permutations ---------------------------------------------------------------------------------------------------


def _permute(source: HostSource, n: int) -> Payload:
    """Return the numbers 0 ... n-1 after n - 1 exchanges: number i with a random one from i on."""
    if n < 2:
        return np.arange(n)
    if n < 0xFFFFFFFF // 20:
        targets = source.words((n - 1,)) % np.arange(n, 1, -1, dtype=np.uint32)
    else:
        targets = source.words_64((n - 1,)) % np.arange(n, 1, -1, dtype=np.uint64)
    targets = targets.astype(np.int64) + np.arange(n - 1)
    if n < 4096:
        order = list(range(n))
        for i, j in enumerate(targets.tolist()):
            order[i], order[j] = order[j], order[i]
        return np.array(order)
    return _exchange(targets, n)


def _exchange(targets: Payload, n: int) -> Payload:
    """Return the result of exchanging i with targets[i] >= i, for i = 0, 1, ..., in a number of passes over arrays.

    Exchange i moves the number at j = targets[i] to its final place i, and the number at i to j. The number at place k
    before exchange k is called start[k]. It comes from the last exchange m < k with target k, which moved start[m]
    there, or is k if there is none. So start[k] is the end of a chain, which is followed by doubling. The number at j
    before exchange i comes in the same way from the exchange before i with target j.
    """
    steps = np.arange(n - 1)
    moves = np.nonzero(targets != steps)[0]
    start = np.arange(n)
    start[targets[moves]] = moves  # the last one wins
    while True:
        further = start[start]
        if (further == start).all():
            break
        start = further
    # The exchanges with the same target, in order: the first finds the target itself there, the next what the one
    # before has moved there. In each round the earliest remaining exchange of every target is taken.
    made = np.empty(n, np.int64)
    made[: n - 1] = targets
    stays = np.nonzero(targets == steps)[0]
    found = np.arange(n)
    rest, first = moves, np.empty(n, np.int64)
    while rest.size:
        places = targets[rest]
        first[places[::-1]] = rest[::-1]
        taken = first[places] == rest
        now = rest[taken]
        made[now] = found[targets[now]]
        found[targets[now]] = start[now]
        rest = rest[~taken]
    made[stays] = start[stays]
    made[n - 1] = start[n - 1]
    return made


# ----- numbers in the shape of a tensor: draw(source, shape, dtype, **settings) ---------------------------------------


def _as_parts(draw: Callable[[Any, Any], Any], shape: Sizes, dtype: np.dtype[Any]) -> Payload:
    """Return complex numbers, whose parts are drawn in turn."""
    part = _SINGLE if dtype.itemsize == 8 else _DOUBLE
    return draw((*shape, 2), part).astype(part, copy=False).view(dtype).reshape(shape)


def uniform(
    source: HostSource, shape: Sizes, dtype: np.dtype[Any], *, low: float, high: float, contiguous: bool = True
) -> Payload:
    if dtype.kind == "c":
        return _as_parts(lambda s, d: uniform(source, s, d, low=low, high=high), shape, dtype)
    wide = _DOUBLE if dtype == _DOUBLE else _SINGLE
    made = source.unit(shape, wide)
    if low == 0 and high == 1:
        if dtype == wide:
            return made
    else:
        start = wide.type(low)
        made = multiply_add(made, wide.type(high) - start, start)
    made = cast(made, dtype)
    end = dtype.type(wide.type(high))
    if (made == end).any() and low < high:  # rounding has reached the end, which is excluded
        made = np.where(made == end, dtype.type(low), made)
    return made


def normal(
    source: HostSource, shape: Sizes, dtype: np.dtype[Any], *, mean: float, std: float, contiguous: bool = True
) -> Payload:
    if dtype.kind == "c":  # total variance std^2, half of it in each part; the mean is that of both
        return _as_parts(lambda s, d: source.normal(s, d, mean, std / math.sqrt(2), contiguous), shape, dtype)
    return source.normal(shape, dtype, mean, std, contiguous)


def log_normal(
    source: HostSource, shape: Sizes, dtype: np.dtype[Any], *, mean: float, std: float, contiguous: bool = True
) -> Payload:
    with np.errstate(over="ignore", under="ignore"):
        return np.exp(multiply_add(source.serial_normal(shape), std, mean))


def exponential(
    source: HostSource, shape: Sizes, dtype: np.dtype[Any], *, rate: float, contiguous: bool = True
) -> Payload:
    return np.log1p(-source.doubles(shape)) * (-1.0 / rate)


def cauchy(
    source: HostSource, shape: Sizes, dtype: np.dtype[Any], *, median: float, sigma: float, contiguous: bool = True
) -> Payload:
    with np.errstate(over="ignore"):
        return multiply_add(np.tan((source.doubles(shape) - 0.5) * math.pi), sigma, median)


def geometric(source: HostSource, shape: Sizes, dtype: np.dtype[Any], *, p: float, contiguous: bool = True) -> Payload:
    """The number of trials with success probability p until the first success."""
    with np.errstate(divide="ignore"):
        made = np.ceil(np.log(source.doubles(shape)) / math.log1p(-p))
    return np.clip(made, None, np.iinfo(dtype).max) if dtype.kind in "iu" else made


def random(
    source: HostSource,
    shape: Sizes,
    dtype: np.dtype[Any],
    *,
    low: int,
    high: int,
    whole: bool = False,
    contiguous: bool = True,
) -> Payload:
    """Integers in [low, high); `whole` if the range follows from a dtype of at most 32 bits, which takes one word."""
    span = high - low
    if span >= 1 << 64:
        return source.words_64(shape).view(np.int64)
    if span < _WIDE_RANGE or whole:
        made = np.asarray(source.words(shape) % np.uint32(span)).astype(np.uint64)
    else:
        made = np.asarray(source.words_64(shape) % np.uint64(span))
    if low:
        made += np.uint64(low & 0xFFFFFFFFFFFFFFFF)
    return made if high > 1 << 63 else made.view(np.int64)


def compare_below(source: HostSource, shape: Sizes, p: float) -> Payload:
    """True with probability p, by numbers in double precision."""
    return source.integers_53(shape) < np.uint64(math.ceil(p * 2.0**53))


def unit_like(
    source: HostSource, shape: Sizes, dtype: np.dtype[Any], *, like: Payload, contiguous: bool = True
) -> Payload:
    """Uniform numbers on [0, 1) in the precision of another dtype."""
    return source.unit(shape, like)


def bernoulli_scalar(
    source: HostSource, shape: Sizes, dtype: np.dtype[Any], *, p: float, contiguous: bool = True
) -> Payload:
    return compare_below(source, shape, p)


def permutation(source: HostSource, shape: Sizes, dtype: np.dtype[Any], contiguous: bool = True) -> Payload:
    return source.permutation(shape)


# ----- numbers from distributions given by arrays: draw(source, *arrays, **settings) ----------------------------------


def bernoulli(source: HostSource, p: Payload) -> Payload:
    return source.unit(p.shape, p.dtype) < p


def normal_of(source: HostSource, mean: Payload, std: Payload) -> Payload:
    """Normal numbers with the given means and standard deviations, of which one is an array."""
    dtype = result_dtype(*[a.dtype for a in (mean, std) if hasattr(a, "dtype")])
    shape = np.broadcast_shapes(np.shape(mean), np.shape(std))
    if hasattr(std, "dtype"):
        mean = mean if hasattr(mean, "dtype") else dtype.type(mean)
        return cast(normal(source, shape, dtype, mean=0.0, std=1.0), dtype) * std + mean
    return cast(normal(source, shape, dtype, mean=0.0, std=std), dtype) + mean


def normal_of_std(source: HostSource, std: Payload, *, mean: float) -> Payload:
    return normal_of(source, mean, std)


def rrelu_slopes(source: HostSource, x: Payload, *, lower: float, upper: float) -> Payload:
    """One for positive elements of x, which draw nothing; uniform numbers for the others."""
    made = np.ones(x.shape, x.dtype)
    chosen = x <= 0
    made[chosen] = source.doubles((int(np.count_nonzero(chosen)),)) * (upper - lower) + lower
    return made


def _serially(sample: Callable[..., float], arrays: tuple[Any, ...], *more: Any) -> Payload:
    shape = np.broadcast_shapes(*[a.shape for a in arrays])
    lists = [np.broadcast_to(a, shape).ravel().tolist() for a in arrays]
    return np.array([sample(*values, *more) for values in zip(*lists, strict=True)], np.float64).reshape(shape)


def poisson(source: HostSource, x: Payload) -> Payload:
    with source.serial() as (next_uniform, _):
        return _serially(rejection_samplers.poisson, (x,), next_uniform)


def binomial(source: HostSource, count: Payload, prob: Payload) -> Payload:
    single = count.dtype.itemsize < 8
    with source.serial() as (next_uniform, _):
        return _serially(rejection_samplers.binomial, (count, prob), next_uniform, single)


def gamma(source: HostSource, alpha: Payload) -> Payload:
    """Gamma numbers of scale one, in double precision."""
    single = alpha.dtype.itemsize < 8
    with source.serial() as (next_uniform, next_normal):
        return _serially(rejection_samplers.gamma, (alpha,), next_uniform, next_normal, single)


def dirichlet(source: HostSource, alpha: Payload) -> Payload:
    """Gamma numbers divided by their sum along the last dimension.

    If all of them underflow, the concentrations are tiny, and a sample lies in a corner, with probabilities in
    proportion to the concentrations. torch returns equal parts there.
    """
    alpha = alpha.astype(np.float64)
    samples = gamma(source, alpha)
    total = samples.sum(-1, keepdims=True)
    if (is_lost := total[..., 0] == 0).any():
        shares = np.cumsum(alpha[is_lost], -1)
        drawn = source.unit(shares.shape[:1], _DOUBLE)[:, None] * shares[:, -1:]
        corners = np.minimum((shares <= drawn).sum(-1), alpha.shape[-1] - 1)
        samples[is_lost] = corners[:, None] == np.arange(alpha.shape[-1])
        total = samples.sum(-1, keepdims=True)
    return samples / total


def von_mises(source: HostSource, loc: Payload, concentration: Payload) -> Payload:
    """Angles around `loc`, in [-pi, pi], by rejection (Best and Fisher, 1979). Each round draws for all elements."""
    loc, k = np.asarray(loc, np.float64), np.asarray(concentration, np.float64)
    made = np.empty(np.broadcast_shapes(loc.shape, k.shape))
    with np.errstate(all="ignore"):
        tau = 1 + np.sqrt(1 + 4 * k * k)
        rho = (tau - np.sqrt(2 * tau)) / (2 * k)
        r = np.where(k < 1e-5, 1 / k + k, (1 + rho * rho) / (2 * rho))
        open = np.ones(made.shape, bool)
        while open.any():
            first, second, third = source.doubles((3, *made.shape))
            z = np.cos(math.pi * first)
            f = (1 + r * z) / (r + z)
            c = k * (r - f)
            accepted = (c * (2 - c) - second > 0) | (np.log(c / second) + 1 - c >= 0)
            made = np.where(accepted, np.sign(third - 0.5) * np.arccos(f), made)
            open &= ~accepted & ~np.isnan(c)
    return np.mod(made + math.pi + loc, 2 * math.pi) - math.pi


def multinomial(
    source: HostSource, weights: Payload, dtype: np.dtype[Any], *, num_samples: int, replacement: bool
) -> Payload:
    """Indices with probabilities proportional to the last dimension of `weights`, which are wide numbers of `dtype`.

    Without replacement, these are the `num_samples` smallest of independent exponential times with these rates, in
    their order. The order is that of successive draws.
    """
    if replacement and num_samples > 1:
        edges = np.cumsum(weights, -1, dtype=weights.dtype)
        edges /= edges[..., -1:]
        edges[..., -1] = 1
        points = source.doubles((*weights.shape[:-1], num_samples))
        made = np.empty(points.shape, np.int64)
        for row in np.ndindex(weights.shape[:-1]):
            made[row] = np.searchsorted(edges[row].astype(np.float64), points[row], side="left")
        return made
    times = cast(exponential(source, weights.shape, dtype, rate=1.0), dtype)
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        rates = (weights / times.astype(weights.dtype)).astype(dtype)
    if num_samples == 1:
        return np.argmax(rates, -1)[..., None]
    return np.ascontiguousarray(np.argsort(-rates, -1, kind="stable")[..., :num_samples])
