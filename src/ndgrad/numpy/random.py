"""`numpy.random` with Arrays: NumPy's generators draw, the results are Arrays.

Draws from families that a shift and a scale make of one standard distribution are differentiable in these parameters: the standard
number is drawn, then shifted and scaled, which for one seed gives the numbers that NumPy gives. A parameter that requires grad in any
other distribution is refused, since its draws have no derivative there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ndgrad.autograd.inplace import write
from ndgrad.autograd.stake import at_stake
from ndgrad.autograd.variable import Variable
from ndgrad.numpy.coercion import as_array, as_arrays, constant, plain
from ndgrad.ops import fill as fill_ops

BitGenerator, SeedSequence = np.random.BitGenerator, np.random.SeedSequence
MT19937, PCG64, PCG64DXSM, Philox, SFC64 = (getattr(np.random, n) for n in ("MT19937", "PCG64", "PCG64DXSM", "Philox", "SFC64"))

# ----- shift and scale -----------------------------------------------------------------------------------------------------

#: Distribution -> names of its parameters with defaults, and the draw from the standard numbers `z` of the same distribution.
_SCALED: dict[str, tuple[dict[str, Any], Callable[..., Any], Callable[..., Any]]] = {
    name: (parameters, standard, formula)
    for name, parameters, standard, formula in (
        ("normal", {"loc": 0.0, "scale": 1.0}, lambda r, n: r.normal(0.0, 1.0, n), lambda z, loc, scale: loc + scale * z),
        ("uniform", {"low": 0.0, "high": 1.0}, lambda r, n: r.uniform(0.0, 1.0, n), lambda z, low, high: low + (high - low) * z),
        ("exponential", {"scale": 1.0}, lambda r, n: r.exponential(1.0, n), lambda z, scale: scale * z),
        ("laplace", {"loc": 0.0, "scale": 1.0}, lambda r, n: r.laplace(0.0, 1.0, n), lambda z, loc, scale: loc + scale * z),
        ("logistic", {"loc": 0.0, "scale": 1.0}, lambda r, n: r.logistic(0.0, 1.0, n), lambda z, loc, scale: loc + scale * z),
        ("gumbel", {"loc": 0.0, "scale": 1.0}, lambda r, n: r.gumbel(0.0, 1.0, n), lambda z, loc, scale: loc + scale * z),
        ("rayleigh", {"scale": 1.0}, lambda r, n: r.rayleigh(1.0, n), lambda z, scale: scale * z),
        ("lognormal", {"mean": 0.0, "sigma": 1.0}, lambda r, n: r.normal(0.0, 1.0, n), lambda z, mean, sigma: np.exp(mean + sigma * z)),
    )
}


def _draw(source: Any, name: str, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """A draw from NumPy's generator `source`."""
    if not at_stake(args, options):
        return as_arrays(getattr(source, name)(*plain(args), **plain(options)))
    if name not in _SCALED:
        raise TypeError(
            f"random.{name}(): a parameter requires grad, and draws from this distribution have no derivative in it. Draw from one that a "
            f"shift and a scale make ({', '.join(_SCALED)}), or detach the parameter."
        )
    parameters, standard, formula = _SCALED[name]
    given = dict(zip((*parameters, "size"), args, strict=False)) | options
    values = {p: as_array(given.get(p, default)) for p, default in parameters.items()}
    size = given.get("size")
    shape = np.broadcast_shapes(*(v.shape for v in values.values())) if size is None else size
    return formula(constant(np.asarray(standard(source, shape))), **values)


def _reorder(source: Any, x: Any, shuffle: Callable[[Any], None]) -> None:
    """Shuffle an Array in place along its first axis, its history included."""
    if not isinstance(x, Variable):
        source.shuffle(x)
        return
    order = np.arange(len(x))
    shuffle(order)
    write(fill_ops.copy, x, (as_array(x)[order],), {})


class Generator:
    """numpy.random.Generator, with Arrays as results."""

    def __init__(self, bit_generator: Any) -> None:
        self._numpy: Any = bit_generator if isinstance(bit_generator, np.random.Generator) else np.random.Generator(bit_generator)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        found = getattr(self._numpy, name)
        if not callable(found):
            return found

        def method(*args: Any, **options: Any) -> Any:
            return _draw(self._numpy, name, args, options)

        method.__name__ = method.__qualname__ = name
        method.__doc__ = f"numpy.random's {name}, with Arrays as results."
        return method

    def shuffle(self, x: Any, axis: int = 0) -> None:
        if isinstance(x, Variable) and axis != 0:
            x = as_array(x).swapaxes(0, axis)
        _reorder(self._numpy, x, self._numpy.shuffle)

    def permutation(self, x: Any, axis: int = 0) -> Any:
        """A shuffled copy, or shuffled numbers; elements keep their gradients."""
        return _permuted(self._numpy, x, axis)

    def choice(self, a: Any, size: Any = None, replace: bool = True, p: Any = None, axis: int = 0, shuffle: bool = True) -> Any:
        """Elements picked at random, which keep their gradients; the probabilities have none."""
        places = self._numpy.choice(a if np.ndim(a) == 0 else np.shape(a)[axis], plain(size), replace, plain(_constant_only(p)), 0, shuffle)
        return _picked(a, places, axis)

    def spawn(self, n_children: int) -> list[Generator]:
        return [Generator(g) for g in self._numpy.spawn(n_children)]

    @property
    def bit_generator(self) -> Any:
        return self._numpy.bit_generator

    def __reduce__(self) -> Any:
        return Generator, (self._numpy,)

    def __repr__(self) -> str:
        return f"ndgrad.numpy.random.Generator({type(self.bit_generator).__name__})"


def _constant_only(p: Any) -> Any:
    if at_stake(p):
        raise TypeError("random.choice(): the probabilities require grad, and a pick has no derivative in them. Detach them.")
    return p


def _permuted(source: Any, x: Any, axis: int = 0) -> Any:
    if np.ndim(x) == 0:
        return as_arrays(source.permutation(int(x)))
    order = source.permutation(np.shape(x)[axis])
    return _picked(x, order, axis)


def _picked(a: Any, places: Any, axis: int) -> Any:
    if np.ndim(a) == 0:
        return as_arrays(places) if isinstance(places, np.ndarray) else places
    return as_array(a)[(slice(None),) * axis + (places,)]


def default_rng(seed: Any = None) -> Generator:
    """A generator, as numpy.random.default_rng gives for the same seed, whose draws are Arrays.

    >>> import ndgrad.numpy as np
    >>> mean = np.array(2.0).requires_grad_()
    >>> sample = np.random.default_rng(0).normal(mean, 1.0, 100)
    >>> sample.mean().backward()
    >>> mean.grad.round(6)
    array(1.)
    """
    return seed if isinstance(seed, Generator) else Generator(np.random.default_rng(plain(seed)))


# ----- the functions of the module, which draw from NumPy's global state ---------------------------------------------------------


class RandomState(Generator):
    """numpy.random.RandomState, with Arrays as results."""

    def __init__(self, seed: Any = None) -> None:
        self._numpy = seed if isinstance(seed, np.random.RandomState) else np.random.RandomState(plain(seed))

    def choice(self, a: Any, size: Any = None, replace: bool = True, p: Any = None) -> Any:  # type: ignore[override]  # RandomState's has no axis
        places = self._numpy.choice(a if np.ndim(a) == 0 else len(a), plain(size), replace, plain(_constant_only(p)))
        return _picked(a, places, 0)

    def __reduce__(self) -> Any:
        return RandomState, (self._numpy,)


_global = RandomState(np.random.mtrand._rand)

_OWN = (
    "BitGenerator", "Generator", "MT19937", "PCG64", "PCG64DXSM", "Philox", "RandomState", "SFC64", "SeedSequence", "default_rng",
)  # fmt: skip
__all__ = sorted({*_OWN, *np.random.__all__})


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'ndgrad.numpy.random' has no attribute {name!r}")
    if hasattr(np.random.RandomState, name):
        return getattr(_global, name)
    return getattr(np.random, name)


def __dir__() -> list[str]:
    return sorted(__all__)
