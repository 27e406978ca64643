"""Special functions in NumPy alone, for machines without SciPy.

The constraint that shaped these files: no compiled code and no loop over elements. A function is a few polynomials over
blocks of some thousands of elements, small enough that every temporary stays in the cache. It branches only by
splitting a block in two. So each family has few regions, joined where neighbouring formulas are both accurate.

Every table of coefficients was fitted for these files: least squares in 90-digit arithmetic, the denominator
linearised, reweighted until the relative error is nearly level (Lawson's iteration). The comment above a table names
the function and the interval. Tables are in ascending powers.

Arithmetic is in float64 for any input. float16, float32 and float64 are returned as themselves, integers and booleans
as float64. Errors are in units in the last place (ulp) of float64: the largest seen against 50-digit values at some ten
thousand points of the range named, uniform and logarithmic, and more around zeros and joints.
"""

from __future__ import annotations

from ndgrad._src.arrays.special.bessel_function import i0, i0e, i1, i1e
from ndgrad._src.arrays.special.error_function import erf, erfc, erfcx, erfinv, log_ndtr, ndtr, ndtri
from ndgrad._src.arrays.special.gamma_function import digamma, lgamma, polygamma, trigamma, zeta
from ndgrad._src.arrays.special.incomplete_gamma import betaln, gammainc, gammaincc

__all__ = [
    "erf", "erfc", "erfcx", "erfinv", "ndtr", "ndtri", "log_ndtr",
    "lgamma", "digamma", "trigamma", "polygamma", "zeta",
    "betaln", "gammainc", "gammaincc",
    "i0", "i0e", "i1", "i1e",
]  # fmt: skip
