"""`numpy.random` with Arrays: NumPy's generators draw, and the results are Arrays.

Draws from location-scale families are differentiable in these parameters: a standard number is drawn, then shifted and
scaled. For the same seed this gives NumPy's numbers. In any other distribution a parameter that requires grad raises an
error, since its draws have no derivative.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from ndgrad._src.core.detach_checks import at_stake
from ndgrad._src.core.inplace import write
from ndgrad._src.core.variable import Variable
from ndgrad._src.foundations import docstrings
from ndgrad._src.ops import fill as fill_ops
from ndgrad.numpy.coercion import as_array, as_arrays, constant, plain

if TYPE_CHECKING:
    from ndgrad._typing import Array, ArrayLike, Shape

BitGenerator, SeedSequence = np.random.BitGenerator, np.random.SeedSequence
MT19937, PCG64, PCG64DXSM, Philox, SFC64 = (
    getattr(np.random, n) for n in ("MT19937", "PCG64", "PCG64DXSM", "Philox", "SFC64")
)

# ----- shift and scale ------------------------------------------------------------------------------------------------

#: Distribution -> names of its parameters with defaults, and the map from standard numbers `z` of the same
#: distribution.
_SCALED: dict[str, tuple[dict[str, Any], Callable[..., Any], Callable[..., Any]]] = {
    name: (parameters, standard, formula)
    for name, parameters, standard, formula in (
        (
            "normal",
            {"loc": 0.0, "scale": 1.0},
            lambda r, n: r.normal(0.0, 1.0, n),
            lambda z, loc, scale: loc + scale * z,
        ),
        (
            "uniform",
            {"low": 0.0, "high": 1.0},
            lambda r, n: r.uniform(0.0, 1.0, n),
            lambda z, low, high: low + (high - low) * z,
        ),
        ("exponential", {"scale": 1.0}, lambda r, n: r.exponential(1.0, n), lambda z, scale: scale * z),
        (
            "laplace",
            {"loc": 0.0, "scale": 1.0},
            lambda r, n: r.laplace(0.0, 1.0, n),
            lambda z, loc, scale: loc + scale * z,
        ),
        (
            "logistic",
            {"loc": 0.0, "scale": 1.0},
            lambda r, n: r.logistic(0.0, 1.0, n),
            lambda z, loc, scale: loc + scale * z,
        ),
        (
            "gumbel",
            {"loc": 0.0, "scale": 1.0},
            lambda r, n: r.gumbel(0.0, 1.0, n),
            lambda z, loc, scale: loc + scale * z,
        ),
        ("rayleigh", {"scale": 1.0}, lambda r, n: r.rayleigh(1.0, n), lambda z, scale: scale * z),
        (
            "lognormal",
            {"mean": 0.0, "sigma": 1.0},
            lambda r, n: r.normal(0.0, 1.0, n),
            lambda z, mean, sigma: np.exp(mean + sigma * z),
        ),
    )
}


def _draw(source: Any, name: str, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """Draw from NumPy's generator `source`."""
    if not at_stake(args, options):
        return as_arrays(getattr(source, name)(*plain(args), **plain(options)))
    if name not in _SCALED:
        raise TypeError(
            f"random.{name}(): a parameter requires grad, and draws from this distribution have no derivative in it. "
            f"Draw from one that a shift and a scale make ({', '.join(_SCALED)}), or detach the parameter. "
            "[nd-no-derivative]"
        )
    parameters, standard, formula = _SCALED[name]
    given = dict(zip((*parameters, "size"), args, strict=False)) | options
    values = {p: as_array(given.get(p, default)) for p, default in parameters.items()}
    size = given.get("size")
    shape = np.broadcast_shapes(*(v.shape for v in values.values())) if size is None else size
    return formula(constant(np.asarray(standard(source, shape))), **values)


def _reorder(source: Any, x: Any, shuffle: Callable[[Any], None]) -> None:
    """Shuffle an Array in place along its first axis, with its history."""
    if not isinstance(x, Variable):
        source.shuffle(x)
        return
    order = np.arange(len(x))
    shuffle(order)
    write(fill_ops.copy, x, (as_array(x)[order],), {})


class Draws(Protocol):
    """A distribution: its parameters and `size`, by position or by name, as in NumPy; a single number if no size is
    given.
    """

    def __call__(self, *parameters: Any, **options: Any) -> Array: ...


_LOCATION, _SCALE, _PROBABILITY = "shift of the distribution.", "positive scale.", "probability of a success."
_DEGREES = "positive number of degrees of freedom."
_ONLY_GENERATORS = "taken by `Generator` only, as in NumPy."
#: Distribution -> descriptions of its parameters, in their order. Most of them also take `size`.
_PARAMETERS: dict[str, dict[str, str]] = {
    "beta": {"a, b": "positive shapes. The mean is a / (a + b)."},
    "binomial": {"n": "number of trials.", "p": _PROBABILITY},
    "chisquare": {"df": _DEGREES},
    "dirichlet": {"alpha": "positive parameters, one for each share."},
    "exponential": {"scale": "mean, not negative."},
    "f": {"dfnum, dfden": "degrees of freedom in the numerator and in the denominator."},
    "gamma": {"shape": "positive shape.", "scale": _SCALE},
    "geometric": {"p": _PROBABILITY},
    "gumbel": {"loc": _LOCATION, "scale": "scale, not negative."},
    "hypergeometric": {
        "ngood, nbad": "numbers of good and of other elements.",
        "nsample": "number of elements that are taken.",
    },
    "integers": {
        "low": "smallest integer. Alone it is the end of a range from 0.",
        "high": "end of the range.",
        "size": "",
        "dtype": "dtype of the result.",
        "endpoint": "whether `high` itself can be drawn.",
    },
    "laplace": {"loc": _LOCATION, "scale": "scale, not negative."},
    "logistic": {"loc": _LOCATION, "scale": "scale, not negative."},
    "lognormal": {"mean, sigma": "mean and deviation of the logarithm."},
    "logseries": {"p": "parameter from 0 to 1, without 1."},
    "multinomial": {"n": "number of trials.", "pvals": "probabilities of the outcomes, which sum to 1."},
    "multivariate_hypergeometric": {
        "colors": "number of elements of each colour.",
        "nsample": "number of elements that are taken.",
        "size": "",
        "method": 'algorithm: `"marginals"` or `"count"`.',
    },
    "multivariate_normal": {
        "mean": "mean of the vectors.",
        "cov": "covariance matrix.",
        "size": "",
        "check_valid": 'reaction to a matrix that is not positive semidefinite: `"warn"`, `"raise"` or `"ignore"`.',
        "tol": "tolerance of that check.",
        "method": 'factorisation: `"svd"`, `"eigh"` or `"cholesky"`, for `Generator` only.',
    },
    "negative_binomial": {"n": "number of successes.", "p": _PROBABILITY},
    "noncentral_chisquare": {"df": _DEGREES, "nonc": "noncentrality, not negative."},
    "noncentral_f": {
        "dfnum, dfden": "degrees of freedom in the numerator and in the denominator.",
        "nonc": "noncentrality, not negative.",
    },
    "normal": {"loc": "mean.", "scale": "deviation, not negative."},
    "pareto": {"a": "positive exponent."},
    "permuted": {
        "x": "array to shuffle.",
        "axis": "axis of the lines. None shuffles all elements.",
        "out": "array that receives the result.",
    },
    "poisson": {"lam": "mean, not negative."},
    "power": {"a": "positive exponent. The density is a x^(a - 1)."},
    "rand": {"d0, d1": "sizes of the axes, as separate arguments."},
    "randint": {
        "low": "smallest integer. Alone it is the end of a range from 0.",
        "high": "end of the range, which is not drawn.",
        "size": "",
        "dtype": "dtype of the result.",
    },
    "randn": {"d0, d1": "sizes of the axes, as separate arguments."},
    "random": {"size": "", "dtype, out": _ONLY_GENERATORS},
    "random_sample": {},
    "rayleigh": {"scale": "scale, not negative."},
    "standard_cauchy": {},
    "standard_exponential": {"size": "", "dtype, method, out": _ONLY_GENERATORS},
    "standard_gamma": {"shape": "positive shape.", "size": "", "dtype, out": _ONLY_GENERATORS},
    "standard_normal": {"size": "", "dtype, out": _ONLY_GENERATORS},
    "standard_t": {"df": _DEGREES},
    "tomaxint": {},
    "triangular": {"left, mode, right": "lower bound, peak and upper bound."},
    "uniform": {"low": "lower bound.", "high": "upper bound, which is not drawn."},
    "vonmises": {"mu": "mean angle in radians.", "kappa": "concentration, not negative."},
    "wald": {"mean": "positive mean.", "scale": _SCALE},
    "weibull": {"a": "shape, not negative."},
    "zipf": {"a": "exponent above 1."},
}


def _describe(name: str) -> dict[str, str]:
    """Return the descriptions of all parameters of a distribution."""
    size = "number or shape of the draws. None gives one, or one for each element of the parameters."
    own = _PARAMETERS[name]
    described = own if name in ("permuted", "rand", "randn") or "size" in own else {**own, "size": size}
    described = {p: text or size for p, text in described.items()}
    return {**described, "args, options": "these parameters, by position or by name."}


def _draws(name: str, sentence: str, arguments: str, shape: str = "(4,)", source: str = "default_rng(0)") -> Draws:
    """Return the method that draws from a distribution."""

    def method(self: _Source, *args: Any, **options: Any) -> Any:
        return _draw(self._numpy, name, args, options)

    method.__name__, method.__qualname__ = (
        name,
        f"{'Generator' if source == 'default_rng(0)' else 'RandomState'}.{name}",
    )
    example = f">>> np.random.{source}.{name}({arguments}).shape\n{shape}"
    method.__doc__ = docstrings.compose(sentence, _describe(name), f">>> import ndgrad.numpy as np\n{example}")
    return method


class _Source:
    """Base class of both kinds of generators."""

    _numpy: Any  # NumPy's generator

    beta = _draws("beta", "Numbers between 0 and 1 of the beta distribution.", "2.0, 3.0, 4")
    binomial = _draws("binomial", "Numbers of successes in n trials.", "10, 0.5, 4")
    chisquare = _draws("chisquare", "Numbers of the chi-square distribution.", "3.0, 4")
    dirichlet = _draws("dirichlet", "Shares of 1 of the Dirichlet distribution.", "[1.0, 2.0], 4", "(4, 2)")
    exponential = _draws(
        "exponential", "Numbers of the exponential distribution, differentiable in the scale.", "2.0, 4"
    )
    f = _draws("f", "Numbers of Fisher's F distribution.", "2.0, 3.0, 4")
    gamma = _draws("gamma", "Numbers of the gamma distribution.", "2.0, 1.0, 4")
    geometric = _draws("geometric", "Numbers of trials up to the first success.", "0.5, 4")
    gumbel = _draws(
        "gumbel", "Numbers of the Gumbel distribution, differentiable in its shift and scale.", "0.0, 1.0, 4"
    )
    hypergeometric = _draws("hypergeometric", "Numbers of good elements in a sample without replacement.", "5, 5, 3, 4")
    laplace = _draws(
        "laplace", "Numbers of the Laplace distribution, differentiable in its shift and scale.", "0.0, 1.0, 4"
    )
    logistic = _draws(
        "logistic", "Numbers of the logistic distribution, differentiable in its shift and scale.", "0.0, 1.0, 4"
    )
    lognormal = _draws(
        "lognormal", "Exponentials of normal numbers, differentiable in their mean and deviation.", "0.0, 1.0, 4"
    )
    logseries = _draws("logseries", "Numbers of the logarithmic series distribution.", "0.5, 4")
    multinomial = _draws("multinomial", "Counts of several outcomes in n trials.", "10, [0.5, 0.5], 4", "(4, 2)")
    multivariate_normal = _draws(
        "multivariate_normal",
        "Vectors of normal numbers with given means and covariances.",
        "[0.0, 0.0], np.eye(2), 4",
        "(4, 2)",
    )
    negative_binomial = _draws("negative_binomial", "Numbers of failures before n successes.", "3, 0.5, 4")
    noncentral_chisquare = _draws(
        "noncentral_chisquare", "Numbers of the noncentral chi-square distribution.", "3.0, 1.0, 4"
    )
    noncentral_f = _draws("noncentral_f", "Numbers of the noncentral F distribution.", "2.0, 3.0, 1.0, 4")
    normal = _draws("normal", "Normal numbers, differentiable in their mean and deviation.", "0.0, 1.0, 4")
    pareto = _draws("pareto", "Numbers of the Lomax (shifted Pareto) distribution.", "3.0, 4")
    poisson = _draws("poisson", "Counts of the Poisson distribution.", "2.0, 4")
    power = _draws("power", "Numbers between 0 and 1 with a density that is a power.", "3.0, 4")
    random = _draws("random", "Numbers between 0 and 1.", "4")
    rayleigh = _draws("rayleigh", "Numbers of the Rayleigh distribution, differentiable in the scale.", "1.0, 4")
    standard_cauchy = _draws("standard_cauchy", "Numbers of the Cauchy distribution.", "4")
    standard_exponential = _draws("standard_exponential", "Numbers of the exponential distribution of scale 1.", "4")
    standard_gamma = _draws("standard_gamma", "Numbers of the gamma distribution of scale 1.", "2.0, 4")
    standard_normal = _draws("standard_normal", "Normal numbers of mean 0 and deviation 1.", "4")
    standard_t = _draws("standard_t", "Numbers of Student's t distribution.", "3.0, 4")
    triangular = _draws("triangular", "Numbers of a triangular density.", "0.0, 1.0, 2.0, 4")
    uniform = _draws("uniform", "Numbers between two bounds, in which they are differentiable.", "0.0, 2.0, 4")
    vonmises = _draws("vonmises", "Angles of the von Mises distribution.", "0.0, 1.0, 4")
    wald = _draws("wald", "Numbers of the inverse Gaussian distribution.", "1.0, 1.0, 4")
    weibull = _draws("weibull", "Numbers of the Weibull distribution.", "2.0, 4")
    zipf = _draws("zipf", "Numbers of the Zipf distribution.", "2.0, 4")

    def bytes(self, length: int) -> builtins.bytes:
        """Random bytes.

        Args:
            length: number of bytes.

        >>> import ndgrad.numpy as np
        >>> len(np.random.default_rng(0).bytes(3))
        3
        """
        return self._numpy.bytes(length)

    def shuffle(self, x: Any, axis: int = 0) -> None:
        """Shuffle an array in place along an axis; elements keep their gradients.

        Args:
            x: array or list to shuffle.
            axis: axis along which to shuffle an Array. Other objects are shuffled along their first axis.

        >>> import ndgrad.numpy as np
        >>> x = np.arange(3)
        >>> np.random.default_rng(0).shuffle(x)
        >>> x
        array([2, 0, 1])
        """
        if isinstance(x, Variable) and axis != 0:
            x = as_array(x).swapaxes(0, axis)
        _reorder(self._numpy, x, self._numpy.shuffle)

    def permutation(self, x: ArrayLike, axis: int = 0) -> Array:
        """Return a shuffled copy, or the shuffled numbers below x; elements keep their gradients.

        Args:
            x: array to shuffle, or a number n for the numbers from 0 to n - 1.
            axis: axis along which to shuffle.

        >>> import ndgrad.numpy as np
        >>> np.random.default_rng(0).permutation(3)
        array([2, 0, 1])
        """
        return _permute(self._numpy, x, axis)

    def __reduce__(self) -> Any:
        return type(self), (self._numpy,)


class Generator(_Source):
    """numpy.random.Generator, with Arrays as results.

    Args:
        bit_generator: source of random bits, or NumPy's generator.

    >>> import ndgrad.numpy as np
    >>> np.random.Generator(np.random.PCG64(0)).integers(0, 10, 3)
    array([8, 6, 5])
    """

    integers = _draws("integers", "Integers from `low` on and below `high`.", "0, 10, 4")
    multivariate_hypergeometric = _draws(
        "multivariate_hypergeometric", "Numbers of elements of each colour in a sample.", "[3, 5], 2, 4", "(4, 2)"
    )
    permuted = _draws("permuted", "A copy in which each line along an axis is shuffled by itself.", "np.arange(4)")

    def __init__(self, bit_generator: np.random.BitGenerator | np.random.Generator) -> None:
        self._numpy = (
            bit_generator if isinstance(bit_generator, np.random.Generator) else np.random.Generator(bit_generator)
        )

    def choice(
        self,
        a: ArrayLike,
        size: Shape | None = None,
        replace: bool = True,
        p: ArrayLike | None = None,
        axis: int = 0,
        shuffle: bool = True,
    ) -> Array:
        """Pick elements at random; they keep their gradients, the probabilities have none.

        Args:
            a: array to pick from, or a number n for the numbers from 0 to n - 1.
            size: shape of the picks. None picks one.
            replace: whether an element can be picked more than once.
            p: probability of each element. None means equal ones.
            axis: axis of `a` along which to pick.
            shuffle: whether picks without replacement come in random order. False is faster.

        >>> import ndgrad.numpy as np
        >>> np.random.default_rng(0).choice(np.array([1.0, 2.0]), 3)
        array([2., 2., 2.])
        """
        places = self._numpy.choice(
            a if np.ndim(a) == 0 else np.shape(a)[axis], plain(size), replace, plain(_constant_only(p)), 0, shuffle
        )
        return _pick(a, places, axis)

    def spawn(self, n_children: int) -> list[Generator]:
        """Return generators whose draws are independent of this one's.

        Args:
            n_children: number of generators.

        >>> import ndgrad.numpy as np
        >>> len(np.random.default_rng(0).spawn(2))
        2
        """
        return [Generator(g) for g in self._numpy.spawn(n_children)]

    @property
    def bit_generator(self) -> np.random.BitGenerator:
        """The source of random bits."""
        return self._numpy.bit_generator

    def __repr__(self) -> str:
        return f"ndgrad.numpy.random.Generator({type(self.bit_generator).__name__})"


def _constant_only(p: ArrayLike | None) -> ArrayLike | None:
    if at_stake(p):
        raise TypeError(
            "random.choice(): the probabilities require grad, and a pick has no derivative in them. Detach them. "
            "[nd-no-derivative]"
        )
    return p


def _permute(source: Any, x: ArrayLike, axis: int = 0) -> Array:
    if np.ndim(x) == 0:
        return as_arrays(source.permutation(int(plain(x))))
    order = source.permutation(np.shape(x)[axis])
    return _pick(x, order, axis)


def _pick(a: ArrayLike, places: Any, axis: int) -> Array:
    if np.ndim(a) == 0:
        return as_arrays(places) if isinstance(places, np.ndarray) else places
    return as_array(a)[(slice(None),) * axis + (places,)]


def default_rng(seed: Any = None) -> Generator:
    """Return a generator whose draws are Arrays, equal to those of numpy.random.default_rng for the same seed.

    Args:
        seed: integer, sequence of integers, SeedSequence, source of random bits, or generator. None means fresh entropy
            of the system.

    >>> import ndgrad.numpy as np
    >>> mean = np.array(2.0).requires_grad_()
    >>> sample = np.random.default_rng(0).normal(mean, 1.0, 100)
    >>> sample.mean().backward()
    >>> mean.grad.round(6)
    array(1.)
    """
    if isinstance(seed, Generator):
        return seed
    return Generator(np.random.default_rng(seed._numpy if isinstance(seed, RandomState) else plain(seed)))


# ----- the functions of the module, which draw from NumPy's global state ----------------------------------------------


class RandomState(_Source):
    """numpy.random.RandomState, with Arrays as results.

    Args:
        seed: integer, sequence of integers, source of random bits, or NumPy's RandomState. None means fresh entropy of
            the system.

    >>> import ndgrad.numpy as np
    >>> np.random.RandomState(0).randint(0, 10, 3)
    array([5, 0, 3])
    """

    rand = _draws("rand", "Numbers between 0 and 1 in the given shape.", "4", source="RandomState(0)")
    randn = _draws("randn", "Normal numbers in the given shape.", "4", source="RandomState(0)")
    randint = _draws("randint", "Integers from `low` on and below `high`.", "0, 10, 4", source="RandomState(0)")
    random_sample = _draws("random_sample", "Numbers between 0 and 1.", "4", source="RandomState(0)")
    tomaxint = _draws("tomaxint", "Integers from 0 to the largest one.", "4", source="RandomState(0)")

    def __init__(self, seed: Any = None) -> None:
        self._numpy = seed if isinstance(seed, np.random.RandomState) else np.random.RandomState(plain(seed))

    def random_integers(self, low: int, high: int | None = None, size: Shape | None = None) -> Array:
        """Integers from `low` (or 1) to `high`; NumPy deprecates it for `randint`.

        Args:
            low: smallest integer, or the largest one if `high` is None.
            high: largest integer.
            size: shape of the result. None gives one number.

        >>> import ndgrad.numpy as np
        >>> np.random.RandomState(0).randint(1, 11, 3)
        array([6, 1, 4])
        """
        return _draw(self._numpy, "random_integers", (low, high, size), {})

    def seed(self, seed: Any = None) -> None:
        """Restart from a seed.

        Args:
            seed: integer or sequence of integers. None means fresh entropy of the system.

        >>> import ndgrad.numpy as np
        >>> state = np.random.RandomState(1)
        >>> state.seed(0)
        >>> state.randint(0, 10, 3)
        array([5, 0, 3])
        """
        self._numpy.seed(plain(seed))

    def get_state(self, legacy: bool = True) -> Any:
        """Return the state, for `set_state`.

        Args:
            legacy: whether the state is a tuple. False gives a dict.

        >>> import ndgrad.numpy as np
        >>> np.random.RandomState(0).get_state()[0]
        'MT19937'
        """
        return self._numpy.get_state(legacy)

    def set_state(self, state: Any) -> None:
        """Continue from a state.

        Args:
            state: result of `get_state`.

        >>> import ndgrad.numpy as np
        >>> first, second = np.random.RandomState(0), np.random.RandomState(1)
        >>> second.set_state(first.get_state())
        >>> second.randint(0, 10, 3)
        array([5, 0, 3])
        """
        self._numpy.set_state(state)

    def choice(
        self, a: ArrayLike, size: Shape | None = None, replace: bool = True, p: ArrayLike | None = None
    ) -> Array:
        """Pick elements at random; they keep their gradients, the probabilities have none.

        Args:
            a: array to pick from along its first axis, or a number n for the numbers from 0 to n - 1.
            size: shape of the picks. None picks one.
            replace: whether an element can be picked more than once.
            p: probability of each element. None means equal ones.

        >>> import ndgrad.numpy as np
        >>> np.random.RandomState(0).choice(np.array([1.0, 2.0]), 3)
        array([1., 2., 2.])
        """
        places = self._numpy.choice(
            a if np.ndim(a) == 0 else np.shape(a)[0], plain(size), replace, plain(_constant_only(p))
        )
        return _pick(a, places, 0)


_global = RandomState(np.random.mtrand._rand)
beta, binomial, chisquare, dirichlet = _global.beta, _global.binomial, _global.chisquare, _global.dirichlet
exponential, f, gamma, geometric = _global.exponential, _global.f, _global.gamma, _global.geometric
gumbel, hypergeometric, laplace = _global.gumbel, _global.hypergeometric, _global.laplace
logistic, lognormal, logseries = _global.logistic, _global.lognormal, _global.logseries
multinomial, multivariate_normal = _global.multinomial, _global.multivariate_normal
negative_binomial, noncentral_chisquare = _global.negative_binomial, _global.noncentral_chisquare
noncentral_f, normal, pareto, poisson = _global.noncentral_f, _global.normal, _global.pareto, _global.poisson
power, random, rayleigh = _global.power, _global.random, _global.rayleigh
standard_cauchy, standard_exponential = _global.standard_cauchy, _global.standard_exponential
standard_gamma, standard_normal = _global.standard_gamma, _global.standard_normal
standard_t, triangular, uniform = _global.standard_t, _global.triangular, _global.uniform
vonmises, wald, weibull, zipf = _global.vonmises, _global.wald, _global.weibull, _global.zipf
choice, bytes, permutation, shuffle = _global.choice, _global.bytes, _global.permutation, _global.shuffle
rand, randn, randint, random_integers = _global.rand, _global.randn, _global.randint, _global.random_integers
random_sample, seed, get_state = _global.random_sample, _global.seed, _global.get_state
set_state = _global.set_state
ranf = sample = random_sample

_OWN = (
    "BitGenerator", "Generator", "MT19937", "PCG64", "PCG64DXSM", "Philox", "RandomState", "SFC64", "SeedSequence",
    "default_rng",
)  # fmt: skip
__all__ = sorted({*_OWN, *np.random.__all__})
