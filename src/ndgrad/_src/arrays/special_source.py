"""The source of special functions: SciPy if it is installed, else the NumPy versions in `special`.

The constraint: importing scipy.special costs more than importing NumPy. So it is imported for the first special
function and not before, and the result for each name is cached.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import cache, wraps
from typing import TYPE_CHECKING, Any

import numpy as np

from ndgrad._src.arrays.precision import complex_dtype, is_inexact, result_dtype

if TYPE_CHECKING:
    from ndgrad._typing import Payload

# SciPy's names for the functions of `special`; all but two are the same.
_OWN = {
    name: name
    for name in (
        "erf erfc erfcx erfinv ndtr ndtri log_ndtr digamma polygamma zeta betaln gammainc gammaincc i0 i0e i1 i1e"
    ).split()
} | {"gammaln": "lgamma", "psi": "digamma"}


@cache
def special(name: str) -> Callable[..., Any]:
    """Return the function of raw NumPy arrays that scipy.special calls `name`.

    >>> float(special("gammaln")(5.0).round(12))
    3.178053830348
    """
    try:
        scipy_special = importlib.import_module("scipy.special")
    except ImportError as error:
        return _find_without_scipy(name, error)
    function = getattr(scipy_special, name, None)
    if not callable(function):
        raise AttributeError(
            f"scipy.special has no function {name!r} in the SciPy that is installed. Use SciPy's own name "
            f"(log gamma is 'gammaln'), or install a SciPy that has it. [nd-absent]"
        )
    if name == "gammaln":
        function = _mend_gammaln(function)
    return _promote_as_numpy(function)


def _mend_gammaln(gammaln: Callable[..., Any]) -> Callable[..., Any]:
    """Return SciPy's log gamma with correct digits near its zeros at 1 and 2.

    SciPy's value there has a small absolute error but few correct digits: 1 + 1e-12 gives four of them. The function of
    `ndgrad._src.arrays.special` has them all, in twice the time. It is used up to a distance of 1/4 from 1 and 2.
    """
    from ndgrad._src.arrays.special import lgamma  # loaded on first use, to keep `import ndgrad` fast

    @wraps(gammaln)
    def call(x: Payload, *arguments: Any, **options: Any) -> Payload:
        out = gammaln(x, *arguments, **options)
        if arguments or options or getattr(out, "dtype", None) != np.float64:
            return out  # SciPy computes single precision in double
        is_near = np.abs(np.abs(np.subtract(x, 1.5)) - 0.5) < 0.25
        if not is_near.any():
            return out
        if not out.ndim:
            return np.float64(lgamma(np.float64(x)))
        out[is_near] = lgamma(np.asarray(x, np.float64)[is_near])
        return out

    return call


def _find_without_scipy(name: str, error: ImportError) -> Callable[..., Any]:
    if name not in _OWN:
        raise ImportError(
            f"the special function {name!r} comes from SciPy, which could not be imported ({error}); in NumPy "
            f"alone there are {', '.join(sorted(_OWN))}. Use one of these, or install SciPy: "
            'pip install scipy. [nd-install]',
            name="scipy",
        ) from error
    function: Callable[..., Any] = getattr(importlib.import_module("ndgrad._src.arrays.special"), _OWN[name])
    return function


def _promote_as_numpy(function: Callable[..., Any]) -> Callable[..., Any]:
    """Cast SciPy's results to NumPy's promoted dtype.

    SciPy has no loops for 16-bit floats and returns a wider dtype. Some functions do the same for 32-bit floats with
    Python numbers.
    """

    @wraps(function)
    def call(*arguments: Any, **options: Any) -> Payload:
        return cast_to_promoted(function(*arguments, **options), arguments)

    return call


def cast_to_promoted(result: Payload, arguments: tuple[Any, ...]) -> Payload:
    """Cast the result of a function (one or several arrays) to a dtype no wider than NumPy's promotion of its
    arguments.

    >>> cast_to_promoted(np.ones(2), (np.ones(2, np.float32), 0.5)).dtype
    dtype('float32')
    """
    dtypes = [getattr(a, "dtype", a) for a in arguments]
    for dtype in dtypes:
        if isinstance(dtype, np.dtype) and dtype.char in "eEfF":
            break
    else:
        return result
    wanted = result_dtype(*dtypes)
    if wanted.kind in "biu":
        return result
    return tuple([_narrow(r, wanted) for r in result]) if isinstance(result, tuple) else _narrow(result, wanted)


def _narrow(result: Payload, wanted: Any) -> Payload:
    if result.dtype.kind == "c" and wanted.kind != "c":
        wanted = complex_dtype(wanted)
    return result.astype(wanted) if is_inexact(result.dtype) and result.dtype.itemsize > wanted.itemsize else result
