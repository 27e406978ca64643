"""The ufuncs of ndgrad.numpy: objects like NumPy's, with `reduce`, `outer` and the other methods, that return Arrays.

A call on only Python or NumPy numbers has nothing to differentiate, and returns a number like NumPy.
Each ufunc is declared below with its docstring: a description, and the arguments and the result of its example.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from inspect import Parameter, Signature
from typing import TYPE_CHECKING, Any

import numpy as np

from ndgrad._src.core.plain_arrays import NotNumbers
from ndgrad._src.core.variable import Variable
from ndgrad.numpy import ufunc_methods
from ndgrad.numpy._array import Array
from ndgrad.numpy.coercion import is_other_array
from ndgrad.numpy.ufuncs import READY, call, straight

if TYPE_CHECKING:
    from ndgrad._typing import ArrayLike, Axes, Dtype, Index, Out

_NUMBERS = (bool, int, float, complex, np.generic)

#: Class of a number that keeps its own record -> (ufunc, inputs) -> result, or None after the inputs became Arrays.
CALLS_OF_NUMBERS: dict[type, Callable[[np.ufunc, tuple[Any, ...]], Any]] = {}


class UniversalFunction:
    """A ufunc: `ndgrad.numpy.add` is `numpy.add` with Arrays as results.

    >>> import ndgrad.numpy as np
    >>> np.add([1.0, 2.0], 3.0, where=[True, False], out=np.zeros(2))
    array([4., 0.])
    """

    __slots__ = ("__dict__", "_quick", "nin", "ufunc")

    def __init__(self, ufunc: np.ufunc, doc: str) -> None:
        self.ufunc = ufunc
        self.nin: int = ufunc.nin
        self._quick: Callable[..., Array] | None = None
        self.__name__ = self.__qualname__ = ufunc.__name__
        self.__module__ = "ndgrad.numpy"
        self.__doc__ = doc
        self.__signature__ = _signature(ufunc.nin, ufunc.nout)

    def __call__(self, *inputs: ArrayLike | Out, **kwargs: Any) -> Array:
        if not kwargs:
            quick = self._quick
            if (
                quick is not None
                and inputs[0].__class__ is Array
                # `out` may be positional too.
                and (len(inputs) == 1 or (len(inputs) == 2 == self.nin and inputs[1].__class__ in READY))
            ):
                return quick(*inputs)
            if CALLS_OF_NUMBERS:
                own = CALLS_OF_NUMBERS.get(inputs[0].__class__) or CALLS_OF_NUMBERS.get(inputs[-1].__class__)
                if own is not None and (made := own(self.ufunc, inputs)) is not None:
                    return made
            if all(isinstance(x, _NUMBERS) for x in inputs):
                return self.ufunc(*inputs)
            if quick is None and len(inputs) == self.ufunc.nin:
                self._quick = straight(self.ufunc)
        if any(x.__class__ not in READY and is_other_array(x) for x in inputs):
            return self.ufunc(*inputs, **kwargs)  # the class's own __array_ufunc__
        try:
            return call(self.ufunc, *inputs, **kwargs)
        except NotNumbers:
            if any(isinstance(x, Variable) for x in (*inputs, *kwargs.values())):
                raise
            return self.ufunc(*inputs, **kwargs)

    def reduce(
        self,
        array: ArrayLike,
        axis: Axes = 0,
        dtype: Dtype = None,
        out: Out = None,
        keepdims: bool = False,
        **options: Any,
    ) -> Array:
        """Combine the elements along axes into one.

        >>> import ndgrad.numpy as np
        >>> np.multiply.reduce([1.0, 2.0, 3.0])
        array(6.)
        """
        return ufunc_methods.reduce_along(self.ufunc, array, axis, dtype, out, keepdims, **options)

    def accumulate(self, array: ArrayLike, axis: int = 0, dtype: Dtype = None, out: Out = None) -> Array:
        """Return the results of combining the first element, the first two, and so on, along an axis.

        >>> import ndgrad.numpy as np
        >>> np.maximum.accumulate([1.0, 3.0, 2.0])
        array([1., 3., 3.])
        """
        return ufunc_methods.accumulate(self.ufunc, array, axis, dtype, out)

    def reduceat(
        self, array: ArrayLike, indices: ArrayLike, axis: int = 0, dtype: Dtype = None, out: Out = None
    ) -> Array:
        """Reduce the slices that begin at these indices along an axis.

        >>> import ndgrad.numpy as np
        >>> np.add.reduceat([1.0, 2.0, 3.0, 4.0], [0, 3])
        array([6., 4.])
        """
        return ufunc_methods.reduceat(self.ufunc, array, indices, axis, dtype, out)

    def outer(self, A: ArrayLike, B: ArrayLike, /, **options: Any) -> Array:
        """Return the results for all pairs of elements.

        >>> import ndgrad.numpy as np
        >>> np.subtract.outer([3.0, 4.0], [1.0, 2.0])
        array([[2., 1.],
               [3., 2.]])
        """
        return ufunc_methods.outer(self.ufunc, A, B, **options)

    def at(self, a: Any, indices: Index, *values: ArrayLike) -> None:  # NumPy's name  # prose: ok
        """Apply the function in place at indices; an index that occurs twice counts twice.

        >>> import ndgrad.numpy as np
        >>> x = np.zeros(2)
        >>> np.add.at(x, [0, 0, 1], 1.0)
        >>> x
        array([2., 1.])
        """
        ufunc_methods.apply_at(self.ufunc, a, indices, *values)

    if TYPE_CHECKING:
        nout: int
        nargs: int
        ntypes: int
        types: list[str]
        identity: Any
        signature: str | None
    else:

        def __getattr__(self, name: str) -> Any:
            if name.startswith("_"):
                raise AttributeError(name)
            return getattr(self.ufunc, name)

    def __repr__(self) -> str:
        return f"<ndgrad.numpy ufunc {self.__name__!r}>"

    def __reduce__(self) -> tuple[Callable[[str], UniversalFunction], tuple[str]]:
        return _find, (self.__name__,)


class PairFunction(UniversalFunction):
    """A ufunc with two results.

    >>> import ndgrad.numpy as np
    >>> np.divmod([7, 8], 4)
    (array([1, 2]), array([3, 0]))
    """

    __slots__ = ()

    if TYPE_CHECKING:
        # There are two results.
        def __call__(self, *inputs: ArrayLike | Out, **kwargs: Any) -> tuple[Array, Array]: ...  # type: ignore[override]


@functools.cache
def _signature(nin: int, nout: int) -> Signature:
    """Return the signature of a ufunc for `help` and editors."""
    names = ["x"] if nin == 1 else [f"x{k + 1}" for k in range(nin)]
    options = {"where": True, "casting": "same_kind", "order": "K", "dtype": None, "subok": True, "signature": None}
    return Signature(
        [
            *(Parameter(name, Parameter.POSITIONAL_ONLY) for name in names),
            Parameter("out", Parameter.POSITIONAL_OR_KEYWORD, default=None if nout == 1 else (None,) * nout),
            *(Parameter(name, Parameter.KEYWORD_ONLY, default=default) for name, default in options.items()),
        ]
    )


def _find(name: str) -> UniversalFunction:
    return FUNCTIONS[name]


def _declare(name: str, sentence: str, arguments: str, result: str) -> tuple[Any, str]:
    """Return NumPy's ufunc and the docstring of ours. If an older NumPy does not have the ufunc, it is a placeholder
    that no name refers to.
    """
    return getattr(
        np, name, np.positive
    ), f"{sentence}\n\n>>> import ndgrad.numpy as np\n>>> np.{name}({arguments})\n{result}\n"


def _ufunc(name: str, sentence: str, arguments: str, result: str) -> UniversalFunction:
    return UniversalFunction(*_declare(name, sentence, arguments, result))


def _pair(name: str, sentence: str, arguments: str, result: str) -> PairFunction:
    return PairFunction(*_declare(name, sentence, arguments, result))


# ----- arithmetic ---------------------------------------------------------------------------------------------------

add = _ufunc("add", "The sum of two arrays.", "[1.0, 2.0], 3.0", "array([4., 5.])")
subtract = _ufunc("subtract", "The difference of two arrays.", "[1.0, 2.0], 3.0", "array([-2., -1.])")
multiply = _ufunc("multiply", "The product of two arrays.", "[1.0, 2.0], 3.0", "array([3., 6.])")
divide = _ufunc("divide", "The quotient of two arrays.", "[1.0, 2.0], 4.0", "array([0.25, 0.5 ])")
floor_divide = _ufunc(
    "floor_divide", "The quotient rounded down, with slope zero.", "[7.0, -7.0], 2.0", "array([ 3., -4.])",
)  # fmt: skip
remainder = _ufunc(
    "remainder", "What is left after division, with the sign of the divisor.", "[7.0, -7.0], 4.0", "array([3., 1.])",
)  # fmt: skip
fmod = _ufunc(
    "fmod", "What is left after division, with the sign of the dividend.", "[7.0, -7.0], 4.0", "array([ 3., -3.])",
)  # fmt: skip
divmod = _pair(
    "divmod", "The quotient rounded down, and what is left.",
    "[7.0, -7.0], 4.0", "(array([ 1., -2.]), array([3., 1.]))",
)  # fmt: skip
negative = _ufunc("negative", "The elements with the other sign.", "[1.0, -2.0]", "array([-1.,  2.])")
positive = _ufunc("positive", "A copy of the elements.", "[1.0, -2.0]", "array([ 1., -2.])")
absolute = _ufunc(
    "absolute", "The absolute value, with slope 0 at 0; of complex numbers their modulus.",
    "[1.0, -2.0]", "array([1., 2.])",
)  # fmt: skip
fabs = _ufunc("fabs", "The absolute value of real numbers, as floats.", "[1, -2]", "array([1., 2.])")
sign = _ufunc("sign", "-1, 0 or 1; of complex numbers z / abs(z).", "[3.0, 0.0, -2.0]", "array([ 1.,  0., -1.])")
heaviside = _ufunc(
    "heaviside", "0 below zero, 1 above, and at zero the second argument.",
    "[-1.0, 0.0, 2.0], 0.5", "array([0. , 0.5, 1. ])",
)  # fmt: skip
power = _ufunc("power", "The first array to the power of the second.", "[1.0, 2.0, 3.0], 2.0", "array([1., 4., 9.])")
float_power = _ufunc(
    "float_power", "Powers computed in float64 or wider, so that integers may have negative ones.",
    "[1, 2, 4], -1", "array([1.  , 0.5 , 0.25])",
)  # fmt: skip
square = _ufunc("square", "The squares.", "[1.0, 2.0, 3.0]", "array([1., 4., 9.])")
sqrt = _ufunc("sqrt", "The square root.", "[1.0, 4.0, 9.0]", "array([1., 2., 3.])")
cbrt = _ufunc("cbrt", "The cube root.", "[1.0, 8.0, -27.0]", "array([ 1.,  2., -3.])")
reciprocal = _ufunc("reciprocal", "One over the elements.", "[1.0, 2.0, 4.0]", "array([1.  , 0.5 , 0.25])")
gcd = _ufunc("gcd", "The greatest common divisors of integers.", "[12, 20], 8", "array([4, 4])")
lcm = _ufunc("lcm", "The lowest common multiples of integers.", "[12, 20], 8", "array([24, 40])")
hypot = _ufunc(
    "hypot", "The length of the hypotenuse, without overflow on the way.",
    "[3.0, 5.0], [4.0, 12.0]", "array([ 5., 13.])",
)  # fmt: skip

# ----- exponentials and logarithms ----------------------------------------------------------------------------------

exp = _ufunc("exp", "e to the power of the elements.", "[0.0, 1.0]", "array([1.        , 2.71828183])")
exp2 = _ufunc("exp2", "2 to the power of the elements.", "[0.0, 1.0, 3.0]", "array([1., 2., 8.])")
expm1 = _ufunc("expm1", "exp(x) - 1, exact for small x.", "[0.0, 1e-10]", "array([0.e+00, 1.e-10])")
log = _ufunc("log", "The natural logarithm.", "[1.0, 2.0]", "array([0.        , 0.69314718])")
log2 = _ufunc("log2", "The logarithm to base 2.", "[1.0, 2.0, 8.0]", "array([0., 1., 3.])")
log10 = _ufunc("log10", "The logarithm to base 10.", "[1.0, 10.0, 1000.0]", "array([0., 1., 3.])")
log1p = _ufunc("log1p", "log(1 + x), exact for small x.", "[0.0, 1e-10]", "array([0.e+00, 1.e-10])")
logaddexp = _ufunc(
    "logaddexp", "log(exp(x) + exp(y)), without overflow.",
    "[0.0, 1000.0], [0.0, 1000.0]", "array([6.93147181e-01, 1.00069315e+03])",
)  # fmt: skip
logaddexp2 = _ufunc("logaddexp2", "log2(2**x + 2**y), without overflow.", "[0.0, 3.0], [0.0, 3.0]", "array([1., 4.])")

# ----- angles -------------------------------------------------------------------------------------------------------

sin = _ufunc("sin", "The sine of angles in radians.", "[0.0, 1.0]", "array([0.        , 0.84147098])")
cos = _ufunc("cos", "The cosine of angles in radians.", "[0.0, 1.0]", "array([1.        , 0.54030231])")
tan = _ufunc("tan", "The tangent of angles in radians.", "[0.0, 1.0]", "array([0.        , 1.55740772])")
arcsin = _ufunc("arcsin", "The inverse sine, in radians.", "[0.0, 1.0]", "array([0.        , 1.57079633])")
arccos = _ufunc("arccos", "The inverse cosine, in radians.", "[1.0, 0.0]", "array([0.        , 1.57079633])")
arctan = _ufunc("arctan", "The inverse tangent, in radians.", "[0.0, 1.0]", "array([0.        , 0.78539816])")
arctan2 = _ufunc(
    "arctan2", "The angle of the points (x2, x1), in radians.",
    "[1.0, -1.0], [0.0, -1.0]", "array([ 1.57079633, -2.35619449])",
)  # fmt: skip
sinh = _ufunc("sinh", "The hyperbolic sine.", "[0.0, 1.0]", "array([0.        , 1.17520119])")
cosh = _ufunc("cosh", "The hyperbolic cosine.", "[0.0, 1.0]", "array([1.        , 1.54308063])")
tanh = _ufunc("tanh", "The hyperbolic tangent.", "[0.0, 1.0]", "array([0.        , 0.76159416])")
arcsinh = _ufunc("arcsinh", "The inverse hyperbolic sine.", "[0.0, 1.0]", "array([0.        , 0.88137359])")
arccosh = _ufunc("arccosh", "The inverse hyperbolic cosine.", "[1.0, 2.0]", "array([0.       , 1.3169579])")
arctanh = _ufunc("arctanh", "The inverse hyperbolic tangent.", "[0.0, 0.5]", "array([0.        , 0.54930614])")
deg2rad = _ufunc("deg2rad", "Degrees as radians.", "[0.0, 180.0]", "array([0.        , 3.14159265])")
radians = _ufunc("radians", "Degrees as radians.", "[0.0, 180.0]", "array([0.        , 3.14159265])")
rad2deg = _ufunc("rad2deg", "Radians as degrees.", "[0.0, np.pi]", "array([  0., 180.])")
degrees = _ufunc("degrees", "Radians as degrees.", "[0.0, np.pi]", "array([  0., 180.])")

# ----- parts of numbers ---------------------------------------------------------------------------------------------

conjugate = _ufunc("conjugate", "The complex conjugate; of real numbers a copy.", "[1.0 + 2.0j]", "array([1.-2.j])")
floor = _ufunc("floor", "The elements rounded down, with slope zero.", "[1.5, -1.5]", "array([ 1., -2.])")
ceil = _ufunc("ceil", "The elements rounded up, with slope zero.", "[1.5, -1.5]", "array([ 2., -1.])")
trunc = _ufunc("trunc", "The elements rounded towards zero, with slope zero.", "[1.5, -1.5]", "array([ 1., -1.])")
rint = _ufunc(
    "rint", "The elements rounded to the nearest integer, halves to even, with slope zero.",
    "[0.5, 1.5, 2.4]", "array([0., 2., 2.])",
)  # fmt: skip
modf = _pair(
    "modf", "Fraction and integer part, both with the sign of the element.",
    "[1.5, -2.25]", "(array([ 0.5 , -0.25]), array([ 1., -2.]))",
)  # fmt: skip
frexp = _pair(
    "frexp", "Mantissa in [0.5, 1) and exponent of 2.",
    "[1.0, 6.0]", "(array([0.5 , 0.75]), array([1, 3], dtype=int32))",
)  # fmt: skip
ldexp = _ufunc("ldexp", "The first array times 2 to the power of the second.", "[0.5, 0.75], [1, 3]", "array([1., 6.])")
copysign = _ufunc("copysign", "The first array with the signs of the second.", "[1.0, -2.0], -1.0", "array([-1., -2.])")
nextafter = _ufunc(
    "nextafter", "The next floating-point number towards the second array.", "[0.0], 1.0", "array([5.e-324])",
)  # fmt: skip
spacing = _ufunc("spacing", "The distance to the next floating-point number.", "[1.0]", "array([2.22044605e-16])")

# ----- maxima and minima --------------------------------------------------------------------------------------------

maximum = _ufunc(
    "maximum", "The larger of two elements; equal ones share the gradient, and NaN wins.",
    "[1.0, 5.0], [3.0, 4.0]", "array([3., 5.])",
)  # fmt: skip
minimum = _ufunc(
    "minimum", "The smaller of two elements; equal ones share the gradient, and NaN wins.",
    "[1.0, 5.0], [3.0, 4.0]", "array([1., 4.])",
)  # fmt: skip
fmax = _ufunc("fmax", "The larger of two elements; NaN loses.", "[1.0, np.nan], [3.0, 4.0]", "array([3., 4.])")
fmin = _ufunc("fmin", "The smaller of two elements; NaN loses.", "[1.0, np.nan], [3.0, 4.0]", "array([1., 4.])")

# ----- comparisons and logic ----------------------------------------------------------------------------------------

equal = _ufunc("equal", "Where two arrays are equal.", "[1.0, 2.0], [1.0, 3.0]", "array([ True, False])")
not_equal = _ufunc("not_equal", "Where two arrays differ.", "[1.0, 2.0], [1.0, 3.0]", "array([False,  True])")
less = _ufunc("less", "Where the first array is smaller.", "[1.0, 2.0], [1.0, 3.0]", "array([False,  True])")
less_equal = _ufunc(
    "less_equal", "Where the first array is smaller or equal.", "[1.0, 4.0], [1.0, 3.0]", "array([ True, False])",
)  # fmt: skip
greater = _ufunc("greater", "Where the first array is larger.", "[1.0, 4.0], [1.0, 3.0]", "array([False,  True])")
greater_equal = _ufunc(
    "greater_equal", "Where the first array is larger or equal.", "[1.0, 2.0], [1.0, 3.0]", "array([ True, False])",
)  # fmt: skip
isnan = _ufunc("isnan", "Where elements are NaN.", "[1.0, np.nan]", "array([False,  True])")
isinf = _ufunc("isinf", "Where elements are infinite.", "[1.0, -np.inf]", "array([False,  True])")
isfinite = _ufunc("isfinite", "Where elements are neither infinite nor NaN.", "[1.0, np.inf]", "array([ True, False])")
isnat = _ufunc(
    "isnat", 'Where dates are "not a time"; tensors hold none.', 'np.array(["NaT"], "datetime64[D]")', "array([ True])",
)  # fmt: skip
signbit = _ufunc("signbit", "Where the sign is minus, that of -0.0 too.", "[1.0, -0.0]", "array([False,  True])")
logical_and = _ufunc("logical_and", "Where both elements are true.", "[True, False], True", "array([ True, False])")
logical_or = _ufunc("logical_or", "Where one of the elements is true.", "[True, False], False", "array([ True, False])")
logical_xor = _ufunc(
    "logical_xor", "Where one of the elements is true and the other is not.",
    "[True, False], True", "array([False,  True])",
)  # fmt: skip
logical_not = _ufunc("logical_not", "Where elements are false.", "[True, False]", "array([False,  True])")

# ----- bits of integers ---------------------------------------------------------------------------------------------

bitwise_and = _ufunc("bitwise_and", "The bits that both integers have.", "[6, 3], 2", "array([2, 2])")
bitwise_or = _ufunc("bitwise_or", "The bits that one of the integers has.", "[6, 3], 1", "array([7, 3])")
bitwise_xor = _ufunc("bitwise_xor", "The bits that only one of the integers has.", "[6, 3], 1", "array([7, 2])")
invert = _ufunc("invert", "The other bits; of booleans the opposite.", "[0, 1]", "array([-1, -2])")
left_shift = _ufunc("left_shift", "The bits moved up by the second array.", "[1, 2], 3", "array([ 8, 16])")
right_shift = _ufunc("right_shift", "The bits moved down by the second array.", "[8, 16], 3", "array([1, 2])")
bitwise_count = _ufunc(
    "bitwise_count", "The number of bits that are set in the absolute value.", "[3, 8]", "array([2, 1], dtype=uint8)",
)  # fmt: skip

# ----- products of matrices -----------------------------------------------------------------------------------------

matmul = _ufunc(
    "matmul",
    "The matrix product of the last two axes; a vector counts as a row on the left and as a column on the right.",
    "np.eye(2), [1.0, 2.0]", "array([1., 2.])",
)  # fmt: skip
vecdot = _ufunc(
    "vecdot", "The inner product along the last axis, the first array conjugated.",
    "[1.0, 2.0], [3.0, 4.0]", "array(11.)",
)  # fmt: skip
matvec = _ufunc("matvec", "The product of matrices and vectors.", "np.eye(2), [1.0, 2.0]", "array([1., 2.])")
vecmat = _ufunc(
    "vecmat", "The product of vectors, conjugated, and matrices.", "[1.0, 2.0], np.eye(2)", "array([1., 2.])",
)  # fmt: skip

# ----- other names ----------------------------------------------------------------------------------------------------

abs, acos, acosh, asin = absolute, arccos, arccosh, arcsin
asinh, atan, atan2, atanh = arcsinh, arctan, arctan2, arctanh
bitwise_invert, bitwise_left_shift, bitwise_not, bitwise_right_shift = invert, left_shift, invert, right_shift
conj, mod, pow, true_divide = conjugate, remainder, power, divide

#: Name -> ufunc, under each name that the installed NumPy gives it; names of one ufunc share one object, as in NumPy.
FUNCTIONS: dict[str, UniversalFunction] = {
    name: value for name, value in list(globals().items()) if isinstance(value, UniversalFunction) and hasattr(np, name)
}
__all__ = list(FUNCTIONS)
