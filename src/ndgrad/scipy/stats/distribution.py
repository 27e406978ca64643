"""Base classes of SciPy's distributions: loc and scale, supports, frozen distributions, draws.

Outside the support, and for invalid parameters, a formula would give NaN, and a NaN that `where` hides in the value
still spoils the gradient. So formulas are only evaluated at points inside, and the values outside are selected
afterwards.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import numpy

import ndgrad.numpy as np
from ndgrad._src.core.detach_checks import at_stake
from ndgrad._src.core.variable import Variable
from ndgrad._src.ops.vocabulary import tensor_ops
from ndgrad._src.tensor.storage import memory_of
from ndgrad.implicit.convergence import scipy_module
from ndgrad.numpy.coercion import constant, values_of
from ndgrad.scipy._without_rules import floating, refuse_active, strip_tensors, wrap_for_constants

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ndgrad._typing import Array, ArrayLike, RandomState, Shape

EULER = 0.5772156649015329
LOG_ROOT_TWO_PI = 0.5 * math.log(2 * math.pi)
#: The support of a distribution on the whole line.
EVERYWHERE = (-numpy.inf, numpy.inf)
nan = numpy.nan


def only(condition: Array, value: ArrayLike, otherwise: float = nan) -> Array:
    """Return a value if it exists."""
    return np.where(condition, value, otherwise)


def scipys(name: str) -> Any:
    return getattr(scipy_module("stats", f"ndgrad.scipy.stats.{name}"), name)


# ----- what has no formula here ---------------------------------------------------------------------------------------


F = TypeVar("F", bound=Callable[..., Any])


class NoRule(Exception):
    """A distribution has no formula for a request; the message is the call that does the same."""


def or_scipys(method: F) -> F:
    """Wrap a method to run SciPy's own on constants if the distribution has no formula."""

    @functools.wraps(method)
    def call(self: Any, *args: Any, **kwds: Any) -> Array:
        try:
            return method(self, *args, **kwds)
        except NoRule as missing:
            return wrap_member(
                f"{self.name}.{method.__name__}", getattr(scipys(self.name), method.__name__), str(missing)
            )(*args, **kwds)

    return call  # type: ignore[return-value]  # the same parameters


def wrap_member(
    name: str, theirs: Any, instead: str = "logpdf or logpmf, or an integral of it by ndgrad.scipy.integrate",
) -> Any:  # fmt: skip
    """Return a method or attribute of SciPy's; a method runs on constants and returns Arrays."""
    if not callable(theirs):
        return theirs
    guarded = wrap_for_constants(name, theirs, instead)

    def call(*args: Any, **kwds: Any) -> Array:
        return _scalars_as_arrays(guarded(*args, **kwds))

    return call


def _scalars_as_arrays(made: Any) -> Any:
    if isinstance(made, numpy.generic):
        return constant(numpy.asarray(made))
    return tuple(map(_scalars_as_arrays, made)) if type(made) is tuple else made


def real(x: ArrayLike) -> Array:
    """Return an argument as an Array of float64 (or its own floating dtype)."""
    return floating(x)


def write_docstring(kind: Any, what: str, parameters: Sequence[str], example: str) -> str:
    """Return the docstring of a distribution."""
    call, _, result = example.partition(" -> ")
    text = f"{what} Parameters: {', '.join(parameters)}."
    return f"{text}\n\n>>> from ndgrad.scipy import stats\n>>> stats.{kind.name}.{call}\n{result}\n"


class Frozen:
    """A distribution with its parameters: `norm(loc, scale).logpdf(x)`."""

    def __init__(self, dist: Distribution, args: tuple[Any, ...], kwds: dict[str, Any]) -> None:
        self.dist, self.args, self.kwds = dist, args, kwds

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "dist":  # also requested from a copy that is still empty
            raise AttributeError(f"a frozen distribution has no attribute {name!r}")
        if name not in METHODS:
            what = f"{self.dist.name}.{name}"
            refuse_active(what, (self.args, self.kwds), "the same method of the distribution's logpdf or logpmf")
            return wrap_member(
                what, getattr(scipys(self.dist.name)(*strip_tensors(self.args), **strip_tensors(self.kwds)), name)
            )
        method = getattr(self.dist, name)
        if name in ("entropy", "mean", "median", "std", "support", "var"):
            return lambda: method(*self.args, **self.kwds)
        if name == "rvs":
            return lambda size=None, random_state=None: method(
                *self.args, **self.kwds, size=size, random_state=random_state
            )
        if name == "stats":
            return lambda moments="mv": method(*self.args, **self.kwds, moments=moments)
        return lambda x: method(x, *self.args, **self.kwds)


#: Methods of frozen distributions that pass on the parameters.
METHODS = (
    "pdf", "logpdf", "pmf", "logpmf", "cdf", "logcdf", "sf", "logsf", "ppf", "isf", "entropy", "mean", "median", "std",
    "var", "stats", "support", "interval", "rvs",
)  # fmt: skip


#: SciPy's functions for the distribution with loc 0 and scale 1. Programs call them because they check nothing.
_STANDARD_FORMS = frozenset("_pdf _logpdf _pmf _logpmf _cdf _logcdf _sf _logsf _ppf _isf".split())


class Distribution:
    """Parameters, moments and draws of continuous and discrete distributions."""

    #: Names of the shape parameters, in order.
    shapes: tuple[str, ...] = ()
    has_scale = True

    def __init__(self, name: str, what: str, example: str) -> None:
        """Create a distribution; `what` describes it, and `example` is a call of one of its methods with the result."""
        self.name, self.__module__ = name, "ndgrad.scipy.stats"  # the module under which pickles find it
        self.__doc__ = write_docstring(
            self, what, (*self.shapes, "loc", "scale")[: len(self.shapes) + 1 + self.has_scale], example
        )

    def __reduce__(self) -> str:
        return self.name

    def __call__(self, *args: Any, **kwds: Any) -> Frozen:
        return Frozen(self, args, kwds)

    freeze = __call__

    def __getattr__(self, name: str) -> Any:
        """Return SciPy's other attributes of the distribution (moment, expect, ...), for constants."""
        if name in _STANDARD_FORMS:
            method = getattr(self, name[1:])
            return lambda x, *shapes: method(x, *shapes)  # without loc and scale
        if name.startswith("_"):
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        return wrap_member(f"{self.name}.{name}", getattr(scipys(self.name), name))

    # ----- parameters: shapes by position or name, then loc and scale -----

    def parameters(self, args: tuple[Any, ...], kwds: dict[str, Any]) -> tuple[list[Any], Any, Any]:
        names = (*self.shapes, "loc", "scale") if self.has_scale else (*self.shapes, "loc")
        if len(args) > len(names):
            raise TypeError(f"{self.name} takes the parameters {', '.join(names)}, but got {len(args)}. [nd-arguments]")
        given = dict(zip(names, args))
        for name, value in kwds.items():
            if name not in names or name in given:
                raise TypeError(
                    f"{self.name} got an unexpected parameter {name!r}; its parameters are {', '.join(names)}. "
                    "[nd-arguments]"
                )
            given[name] = value
        missing = [n for n in self.shapes if n not in given]
        if missing:
            raise TypeError(f"{self.name} needs the shape parameter {missing[0]!r}. [nd-arguments]")
        shapes = [real(given[n]) for n in self.shapes]
        return shapes, real(given.get("loc", 0.0)), real(given.get("scale", 1.0))

    def valid(self, *shapes: Any) -> Array:
        """Return a mask of valid shapes: by default, all positive."""
        good: Any = True
        for s in shapes:
            good = good & (s > 0)
        return good

    def safe(self, shapes: list[Any], scale: Array) -> tuple[Any, list[Any], Any]:
        """Return a mask of valid parameters, and the parameters with the others replaced by ones (which are valid for
        every distribution here).
        """
        good = self.valid(*shapes) & (scale > 0)
        if numpy.all(bare(good)):
            return good, shapes, scale
        return good, [np.where(good, s, self.fallback(i)) for i, s in enumerate(shapes)], np.where(good, scale, 1.0)

    def fallback(self, place: int) -> float:
        return 1.0

    # ----- moments -----

    def moments(self, *shapes: Any) -> tuple[Array | float, Array | float]:
        """Return mean and variance of the standard form."""
        raise NoRule("integrate: ndgrad.scipy.integrate.quad")

    def _moments(self, args: tuple[Any, ...], kwds: dict[str, Any]) -> tuple[Array, Array]:
        shapes, loc, scale = self.parameters(args, kwds)
        good, shapes, scale = self.safe(shapes, scale)
        mean, var = self.moments(*shapes)
        return np.where(good, loc + scale * mean, numpy.nan), np.where(good, scale * scale * var, numpy.nan)

    @or_scipys
    def mean(self, *args: Any, **kwds: Any) -> Array:
        return self._moments(args, kwds)[0]

    @or_scipys
    def var(self, *args: Any, **kwds: Any) -> Array:
        return self._moments(args, kwds)[1]

    @or_scipys
    def std(self, *args: Any, **kwds: Any) -> Array:
        return np.sqrt(self.var(*args, **kwds))

    @or_scipys
    def stats(self, *args: Any, moments: str = "mv", **kwds: Any) -> tuple[Array, ...] | Array:
        if set(moments) - set("mv"):
            raise NoRule("the moments 'm' and 'v', or integrals by ndgrad.scipy.integrate.quad")
        both = dict(zip("mv", self._moments(args, kwds)))
        return tuple(both[m] for m in moments) if len(moments) > 1 else both[moments]

    def median(self, *args: Any, **kwds: Any) -> Array:
        return self.ppf(0.5, *args, **kwds)

    def interval(self, confidence: Array, *args: Any, **kwds: Any) -> tuple[Array, Array]:
        half = (1.0 - real(confidence)) / 2.0
        return self.ppf(half, *args, **kwds), self.ppf(1.0 - half, *args, **kwds)

    def ppf(self, q: ArrayLike, *args: Any, **kwds: Any) -> Array:
        raise NotImplementedError

    def fit(self, *args: Any, **kwds: Any) -> Array:
        instead = "ndgrad.scipy.optimize.minimize of -logpdf(...).sum()"
        return wrap_member(f"{self.name}.fit", scipys(self.name).fit, instead)(*args, **kwds)

    def _draw(self, args: tuple[Any, ...], kwds: dict[str, Any], size: Shape | None, random_state: RandomState) -> Any:
        """Return numbers as SciPy draws them for these parameters."""
        shapes, loc, scale = self.parameters(args, kwds)
        given = [values_of(v.detach()) for v in ([*shapes, loc, scale] if self.has_scale else [*shapes, loc])]
        if not self.has_scale:  # NumPy's generators require integers
            given = [
                v.astype(int) if n in ("n", "low", "high", "loc") and (v == v.astype(int)).all() else v
                for n, v in zip((*self.shapes, "loc"), given)
            ]
        return scipys(self.name).rvs(*given, size=1 if size is None else size, random_state=random_state)


def bare(condition: Array) -> Array:
    """Return the values of a condition, or False if they differ between the samples of a batch."""
    return memory_of(condition) if isinstance(condition, Variable) else condition


def one_less_exp(u: Array) -> Array:
    """Return 1 - exp(-u) for u >= 0. expm1 keeps the digits near 0, and exp those of the derivative elsewhere."""
    small = u < 1.0
    return np.where(small, -np.expm1(-np.where(small, u, 0.0)), 1.0 - np.exp(-np.where(small, 1.0, u)))


def xlogy(a: Array, x: Array) -> Array:
    """Return a log(x), where a = 0 represents the power x^0 = 1, also at x = 0: its derivative in x is 0 there."""
    return S.xlogy(a, np.where((a == 0) & (x == 0), 1.0, x))


def xlog1py(a: Array, x: Array) -> Array:
    """Return a log(1 + x), likewise."""
    return S.xlog1py(a, np.where((a == 0) & (x == -1), 0.0, x))


def log_of_smaller(p: Array, other: Callable[[], Any]) -> Array:
    """Return log(p) with its digits near 1 too, from 1 - p."""
    small = p < 0.5
    return np.where(small, np.log(np.where(small, p, 0.5)), np.log1p(-np.where(small, 0.5, other())))


class Continuous(Distribution):
    """A continuous distribution: subclasses give formulas for loc=0 and scale=1, at points inside the support.

    `logpdf_at`, `cdf_at` and so on take a point (or a probability) and the shapes.
    """

    #: True if the density vanishes at the ends of the support, where its formula is infinity minus infinity.
    vanishes = False

    def support_at(self, *shapes: Any) -> tuple[Array | float, Array | float]:
        return 0.0, numpy.inf

    def logpdf_at(self, x: Array, *shapes: Any) -> Array:
        raise NotImplementedError

    def pdf_at(self, x: Array, *shapes: Any) -> Array:
        return np.exp(self.logpdf_at(x, *shapes))

    def cdf_at(self, x: Array, *shapes: Any) -> Array:
        raise NoRule("integrate the density: ndgrad.scipy.integrate.quad")

    def sf_at(self, x: Array, *shapes: Any) -> Array:
        return 1.0 - self.cdf_at(x, *shapes)

    def logcdf_at(self, x: Array, *shapes: Any) -> Array:
        return log_of_smaller(self.cdf_at(x, *shapes), lambda: self.sf_at(x, *shapes))

    def logsf_at(self, x: Array, *shapes: Any) -> Array:
        return log_of_smaller(self.sf_at(x, *shapes), lambda: self.cdf_at(x, *shapes))

    def ppf_at(self, q: Array, *shapes: Any) -> Array:
        raise NoRule("solve cdf(x) = q: ndgrad.scipy.optimize.brentq")

    def isf_at(self, q: Array, *shapes: Any) -> Array:
        return self.ppf_at(1.0 - q, *shapes)

    def entropy_at(self, *shapes: Any) -> Array | float:
        raise NoRule("integrate -pdf logpdf: ndgrad.scipy.integrate.quad")

    # ----- SciPy's methods -----

    def _evaluate(
        self, x: ArrayLike, args: tuple[Any, ...], kwds: dict[str, Any], formula: Callable[..., Any], below: float,
        above: float, density: int,
    ) -> Array:  # fmt: skip
        shapes, loc, scale = self.parameters(args, kwds)
        point = real(x)
        good, shapes, scale = self.safe(shapes, scale)
        z = (point - loc) / scale
        low, high = self.support_at(*shapes)
        inside = (z >= low) & (z <= high) if density and not self.vanishes else (z > low) & (z < high)
        # A density may be infinite at the ends of the support; a distribution function is 0 or 1 there.
        inside = inside & good
        if density:
            inside = inside & (abs(z) < numpy.inf)
        value = formula(*self._inner(inside, z, shapes, low, high))
        if density == 1:
            value = value / scale
        elif density == 2:
            value = value - np.log(scale)
        outside = np.where((point - loc) / scale <= low, below, above)
        value = np.where(inside, value, outside)
        return np.where(good & ~np.isnan(point), value, numpy.nan)

    def _inner(self, inside: Array, z: Array, shapes: list[Any], low: ArrayLike, high: ArrayLike) -> list[Array]:
        """Return points and shapes. A point outside is replaced by a point inside the support of other shapes. So the
        shapes influence neither the value there nor, by an underflow, its gradient.
        """
        if numpy.all(bare(inside)):
            return [z, *shapes]
        others = [np.where(inside, s, self.fallback(i)) for i, s in enumerate(shapes)]
        return [np.where(inside, z, _interior(*self.support_at(*others))), *others]

    @or_scipys
    def pdf(self, x: ArrayLike, *args: Any, **kwds: Any) -> Array:
        return self._evaluate(x, args, kwds, self.pdf_at, 0.0, 0.0, 1)

    @or_scipys
    def logpdf(self, x: ArrayLike, *args: Any, **kwds: Any) -> Array:
        return self._evaluate(x, args, kwds, self.logpdf_at, -numpy.inf, -numpy.inf, 2)

    @or_scipys
    def cdf(self, x: ArrayLike, *args: Any, **kwds: Any) -> Array:
        return self._evaluate(x, args, kwds, self.cdf_at, 0.0, 1.0, 0)

    @or_scipys
    def logcdf(self, x: ArrayLike, *args: Any, **kwds: Any) -> Array:
        return self._evaluate(x, args, kwds, self.logcdf_at, -numpy.inf, 0.0, 0)

    @or_scipys
    def sf(self, x: ArrayLike, *args: Any, **kwds: Any) -> Array:
        return self._evaluate(x, args, kwds, self.sf_at, 1.0, 0.0, 0)

    @or_scipys
    def logsf(self, x: ArrayLike, *args: Any, **kwds: Any) -> Array:
        return self._evaluate(x, args, kwds, self.logsf_at, 0.0, -numpy.inf, 0)

    def _quantile(
        self, q: ArrayLike, args: tuple[Any, ...], kwds: dict[str, Any], formula: Callable[..., Any], upper: bool,
    ) -> Array:  # fmt: skip
        shapes, loc, scale = self.parameters(args, kwds)
        p = real(q)
        good, shapes, scale = self.safe(shapes, scale)
        low, high = self.support_at(*shapes)
        inside = good & (p > 0) & (p < 1)
        value = formula(np.where(inside, p, 0.5), *shapes)
        ends = (high, low) if upper else (low, high)
        value = np.where(inside, value, np.where(p <= 0, ends[0], ends[1]))
        return np.where(good & (p >= 0) & (p <= 1), loc + scale * value, numpy.nan)

    @or_scipys
    def ppf(self, q: ArrayLike, *args: Any, **kwds: Any) -> Array:
        return self._quantile(q, args, kwds, self.ppf_at, upper=False)

    @or_scipys
    def isf(self, q: ArrayLike, *args: Any, **kwds: Any) -> Array:
        return self._quantile(q, args, kwds, self.isf_at, upper=True)

    @or_scipys
    def entropy(self, *args: Any, **kwds: Any) -> Array:
        shapes, _, scale = self.parameters(args, kwds)
        good, shapes, scale = self.safe(shapes, scale)
        return np.where(good, self.entropy_at(*shapes) + np.log(scale), numpy.nan)

    def support(self, *args: Any, **kwds: Any) -> tuple[Array, Array]:
        shapes, loc, scale = self.parameters(args, kwds)
        low, high = self.support_at(*shapes)
        return loc + scale * low, loc + scale * high

    def nnlf(self, theta: Array, x: Array) -> Array:
        """Return the negative log-likelihood of parameters (shapes, loc, scale)."""
        return -self.logpdf(x, *theta).sum()

    def rvs(self, *args: Any, size: Shape | None = None, random_state: RandomState = None, **kwds: Any) -> Array:
        """Return the numbers that SciPy draws, differentiable in all parameters: a draw is the quantile of a fixed
        probability.
        """
        shapes, loc, scale = self.parameters(args, kwds)
        if not at_stake(shapes, loc, scale):
            drawn = constant(numpy.asarray(self._draw(args, kwds, size, random_state), numpy.float64))
            return drawn[0] if size is None and drawn.size == 1 else drawn
        plain = [s.detach() for s in shapes]
        z = constant(
            numpy.asarray(
                self._draw((*plain, 0.0, 1.0), {}, _size(size, shapes, loc, scale), random_state), numpy.float64
            )
        )
        if at_stake(shapes):
            # The smaller of the two probabilities has more digits.
            lower, upper = self.cdf(z, *plain), self.sf(z, *plain)
            low = lower < 0.5
            z = np.where(
                low, self.ppf(np.where(low, lower, 0.5), *shapes), self.isf(np.where(low, 0.5, upper), *shapes)
            )
        made = loc + scale * z
        return made[0] if size is None and made.size == 1 else made


def _size(size: Shape | None, shapes: list[Array], loc: Array, scale: Array) -> Shape:
    """Return the number of standard numbers to draw: SciPy includes broadcast parameters."""
    if size is not None:
        return size
    shape = numpy.broadcast_shapes(*(s.shape for s in (*shapes, loc, scale)))
    return shape or 1


def _interior(low: ArrayLike, high: ArrayLike) -> Array:
    """Return a point inside the support."""
    finite_low, finite_high = np.isfinite(np.asarray(low)), np.isfinite(np.asarray(high))
    low, high = np.where(finite_low, low, 0.0), np.where(finite_high, high, 0.0)
    one_sided = np.where(finite_low, low + 0.5, np.where(finite_high, high - 0.5, 0.5))
    return np.where(finite_low & finite_high, (low + high) / 2.0, one_sided).detach()


S = tensor_ops

__all__ = [
    "EULER",
    "EVERYWHERE",
    "LOG_ROOT_TWO_PI",
    "METHODS",
    "Continuous",
    "Distribution",
    "Frozen",
    "NoRule",
    "S",
    "bare",
    "log_of_smaller",
    "nan",
    "wrap_member",
    "one_less_exp",
    "only",
    "or_scipys",
    "real",
    "scipys",
    "xlog1py",
    "xlogy",
]
