"""Numbers of a program as functions of its open sizes.

Note [Programs of several sizes]
Sizes are plain numbers in a trace. A program with open sizes is found from several traces, each with other sizes. The
traces must have the same ops. A number that differs between them is fitted by a function of the sizes: a multiple of a
product of sizes plus a constant, a quotient, a sum of multiples, or a power for floats. There are more traces than
unknowns of a fit, so each fit is checked by traces that did not determine it. A number that no such function gives
makes the size fixed, which is an error.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

__all__ = ["Expression", "NoFit", "fit", "no_fit"]


class NoFit(Exception):
    """No function of the sizes gives a number in all traces."""


def no_fit(reason: str) -> NoFit:
    """Return the exception for a number that no function of the sizes gives; an error of `export` quotes the reason."""
    return NoFit(reason)


@dataclass(frozen=True)
class Expression:
    """`(sum of coefficient * product of symbols + offset) // divisor`; for a float `scale * sum ** power`, or
    `scale * sum / over`. A symbol is the name of an open size, or (value, dimension) for the size of a value.
    """

    terms: tuple[tuple[int, tuple[Any, ...]], ...]
    offset: int = 0
    divisor: int = 1
    scale: float | None = None
    power: float = 1.0
    over: Expression | None = None

    def build(self, symbol: Callable[[Any], Any], apply: Callable[..., Any]) -> Any:
        """Compute the value, given the value of each symbol; `apply(function, a, b)` performs one step."""
        total: Any = None
        for coefficient, names in self.terms:
            product = symbol(names[0])
            for name in names[1:]:
                product = apply(operator.mul, product, symbol(name))
            if coefficient != 1:
                product = apply(operator.mul, product, coefficient)
            total = product if total is None else apply(operator.add, total, product)
        if self.offset:
            total = apply(operator.add, total, self.offset)
        if self.over is not None:
            total = apply(operator.truediv, total, self.over.build(symbol, apply))
        if self.scale is not None:
            raised = total if self.power == 1.0 else apply(operator.pow, total, self.power)
            return raised if self.scale == 1.0 else apply(operator.mul, raised, self.scale)
        return total if self.divisor == 1 else apply(operator.floordiv, total, self.divisor)

    def evaluate(self, sizes: dict[str, int]) -> Any:
        """Return the value for given sizes."""
        return self.build(sizes.__getitem__, lambda function, a, b: function(a, b))


def _monomials(samples: Sequence[dict[str, int]]) -> list[tuple[tuple[str, ...], list[int]]]:
    names = list(samples[0])
    found = []
    for degree in range(1, 4 if len(names) <= 4 else 3):
        for chosen in itertools.combinations_with_replacement(names, degree):
            found.append((chosen, [math.prod(s[n] for n in chosen) for s in samples]))
    return found


def fit(
    values: Sequence[Any],
    samples: Sequence[dict[str, int]],
    products: Sequence[tuple[tuple[Any, ...], list[int]]] = (),
) -> Any:
    """Return a number that is the same in all traces, or the expression that gives it; raise NoFit if there is none.

    `products` are further candidates: products of sizes of arguments, with their values.
    """
    first = values[0]
    if all(v == first and type(v) is type(first) for v in values) or all(v != v for v in values):
        return first
    if all(isinstance(v, (bool, np.bool_)) for v in values) or not samples[0]:
        raise NoFit
    if all(isinstance(v, (int, np.integer)) for v in values):
        made = _fit_int([int(v) for v in values], samples) or _fit_product([int(v) for v in values], products)
    elif all(isinstance(v, (int, float, np.floating)) for v in values):
        made = _fit_float([float(v) for v in values], samples)
    else:
        made = None
    if made is None:
        raise NoFit
    return made


def _fit_int(values: list[int], samples: Sequence[dict[str, int]]) -> Expression | None:
    for names, xs in _monomials(samples):
        pair = next(((i, j) for i, j in itertools.combinations(range(len(xs)), 2) if xs[i] != xs[j]), None)
        if pair is None:
            continue
        i, j = pair
        slope = Fraction(values[j] - values[i], xs[j] - xs[i])
        offset = values[i] - slope * xs[i]
        if slope and all(slope * x + offset == v for x, v in zip(xs, values, strict=True)):
            divisor = slope.denominator
            if divisor <= 4096 and divisor % offset.denominator == 0:
                return Expression(((slope.numerator, names),), int(offset * divisor), divisor)
    for names, xs in _monomials(samples)[: len(samples[0])]:
        for k in range(2, 65):
            for shift in (0, k - 1):
                rest = {v - (x + shift) // k for x, v in zip(xs, values, strict=True)}
                if len(rest) == 1:
                    return Expression(((1, names),), shift + k * rest.pop(), k)
    return _fit_sum(values, samples)


def _fit_product(values: list[int], products: Sequence[tuple[tuple[Any, ...], list[int]]]) -> Expression | None:
    """Return a multiple, a part, or a shift of a product of sizes of arguments."""
    for names, xs in products:
        if 0 in xs or len(set(xs)) == 1:
            continue
        ratios = {Fraction(v, x) for x, v in zip(xs, values, strict=True)}
        if len(ratios) == 1:
            ratio = ratios.pop()
            return Expression(((ratio.numerator, names),), 0, ratio.denominator) if ratio else None
        shifts = {v - x for x, v in zip(xs, values, strict=True)}
        if len(shifts) == 1:
            return Expression(((1, names),), shifts.pop())
    return None


def _fit_sum(values: list[int], samples: Sequence[dict[str, int]]) -> Expression | None:
    """Return a sum of multiples of the symbols."""
    names = list(samples[0])
    if len(samples) < len(names) + 2:
        return None
    matrix = np.array([[*[s[n] for n in names], 1] for s in samples], float)
    found = np.linalg.lstsq(matrix, np.array(values, float), rcond=None)[0]
    whole = [round(x) for x in found]
    if any(
        sum(c * s[n] for c, n in zip(whole, names, strict=False)) + whole[-1] != v
        for s, v in zip(samples, values, strict=True)
    ):
        return None
    terms = tuple([(c, (n,)) for c, n in zip(whole, names, strict=False) if c])
    return Expression(terms, whole[-1]) if terms else None


def _fit_float(values: list[float], samples: Sequence[dict[str, int]]) -> Expression | None:
    for names, xs in _monomials(samples):
        for power in (-1.0, -0.5, 1.0, 0.5, -2.0, 2.0):
            if 0 in xs:
                continue
            scales = [v / float(x) ** power for x, v in zip(xs, values, strict=True)]
            if all(math.isclose(s, scales[0], rel_tol=1e-12) for s in scales) and scales[0]:
                nice = round(scales[0])
                scale = float(nice) if math.isclose(nice, scales[0], rel_tol=1e-12) else scales[0]
                return Expression(((1, names),), scale=scale, power=power)
        for above, below in itertools.product(range(-2, 3), repeat=2):
            if above == below or any(x + below == 0 or x + above == 0 for x in xs):
                continue
            scales = [v * (x + below) / (x + above) for x, v in zip(xs, values, strict=True)]
            if all(math.isclose(s, 1.0, rel_tol=1e-12) for s in scales):
                return Expression(((1, names),), above, scale=1.0, over=Expression(((1, names),), below))
        for shift in (-2, -1, 1, 2):
            if all(
                x + shift and math.isclose(v * (x + shift), values[0] * (xs[0] + shift), rel_tol=1e-12)
                for x, v in zip(xs, values, strict=True)
            ):
                scale = values[0] * (xs[0] + shift)
                return Expression(((1, names),), shift, scale=scale, power=-1.0)
    return None
