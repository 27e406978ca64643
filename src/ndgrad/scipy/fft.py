"""`scipy.fft` with derivatives: NumPy's transforms under SciPy's signatures, and the cosine and sine transforms."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy

import ndgrad.numpy as np
from ndgrad._src.core.variable import np_dtype
from ndgrad.numpy.coercion import many_axes, one_axis
from ndgrad.scipy._without_rules import floating, make_module_getattr, public_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from ndgrad._typing import Array, ArrayLike, Axes, Device

F = TypeVar("F", bound=Callable[..., Any])

# ----- Fourier transforms ---------------------------------------------------------------------------------------------


class _Line(Protocol):
    def __call__(
        self, x: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None, overwrite_x: bool = False,
        workers: int | None = None, *, plan: object = None,
    ) -> Array: ...  # fmt: skip


class _Box(Protocol):
    def __call__(
        self, x: ArrayLike, s: Sequence[int] | None = None, axes: Axes = ..., norm: str | None = None,
        overwrite_x: bool = False, workers: int | None = None, *, plan: object = None,
    ) -> Array: ...  # fmt: skip


_UNUSED = "accepted as in SciPy; has no effect"
_NORMS = (
    'norm: scaling: `"backward"` divides the inverse by the length, `"forward"` the transform, and `"ortho"` both by '
    "its\n        square root. None means `\"backward\"`."
)
_LENGTHS = "Longer inputs are cut, shorter ones padded with zeros."
#: Descriptions of the parameters that transforms share, in the order of a signature.
_ARGUMENTS = {
    "x": "x: input array.",
    "type": "type: kind of symmetry at the ends: 1, 2, 3 or 4.",
    "n": f"n: length of the transform along the axis. {_LENGTHS}",
    "s": f"s: lengths of the transform along the axes. {_LENGTHS}",
    "axis": "axis: axis of the transform.",
    "axes": "axes: axes of the transform. None means the last ones for which `s` has lengths, or all.",
    "norm": _NORMS,
    "overwrite_x": f"overwrite_x: {_UNUSED}, because inputs are never overwritten.",
    "workers": f"workers: {_UNUSED}.",
    "plan": f"plan: {_UNUSED}.",
    "orthogonalize": "orthogonalize: whether ends are scaled so that the matrix is orthogonal. None means for "
    '`norm="ortho"` only.',
}


def _describe(function: F, name: str, sentence: str, arguments: str, result: str) -> F:
    function.__name__ = function.__qualname__ = name
    described = "".join(f"    {_ARGUMENTS[p]}\n" for p in inspect.signature(function).parameters)
    # The imaginary parts of complex examples are zeros, whose signs depend on the library of transforms.
    part = "" if name.startswith(("irfft", "hfft")) else ".real"
    example = f">>> from ndgrad.scipy import fft\n>>> fft.{name}({arguments}){part}\n{result}\n"
    function.__doc__ = f"{sentence}\n\nArgs:\n{described}\n{example}"
    return function


def _line(name: str, sentence: str, arguments: str, result: str) -> _Line:
    """Return NumPy's transform along one axis, with its docstring: a description, and the arguments and the result of
    its example.
    """

    def function(
        x: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None, overwrite_x: bool = False,
        workers: int | None = None, *, plan: object = None,
    ) -> Array:  # fmt: skip
        return getattr(np.fft, name)(floating(x), n, axis, norm)

    return _describe(function, name, sentence, arguments, result)


def _box(name: str, default: Axes, sentence: str, arguments: str, result: str) -> _Box:
    """Return a transform along several axes. A transform of Hermitian symmetry is the opposite real one, of the
    conjugate.
    """
    swapped = {"hfft": "irfftn", "ihfft": "rfftn"}.get(name[:-1])

    def function(
        x: ArrayLike, s: Sequence[int] | None = None, axes: Axes = default, norm: str | None = None,
        overwrite_x: bool = False, workers: int | None = None, *, plan: object = None,
    ) -> Array:  # fmt: skip
        t = floating(x)
        if s is not None and axes is None:
            axes = tuple(range(t.ndim - len(s), t.ndim))
        if swapped is None:
            return getattr(np.fft, name)(t, s, axes, norm)
        other = getattr(np.fft, swapped)
        return (
            other(t.conj(), s, axes, _SWAPPED[norm])
            if swapped == "irfftn"
            else other(t, s, axes, _SWAPPED[norm]).conj()
        )

    return _describe(function, name, sentence, arguments, result)


_SWAPPED = {None: "forward", "backward": "forward", "forward": "backward", "ortho": "ortho"}

fft = _line(
    "fft", "Return the Fourier transform along an axis.", "[1.0, 0.0, -1.0, 0.0]",
    "array([0., 2., 0., 2.])",
)  # fmt: skip
ifft = _line(
    "ifft", "Return the inverse Fourier transform along an axis.", "[0.0, 2.0, 0.0, 2.0]",
    "array([ 1.,  0., -1.,  0.])",
)  # fmt: skip
rfft = _line(
    "rfft", "Return the Fourier transform of real numbers: its frequencies from 0 to the middle.",
    "[1.0, 0.0, -1.0, 0.0]",
    "array([0., 2., 0.])",
)  # fmt: skip
irfft = _line(
    "irfft", "Return the real numbers whose rfft this is; `n` tells their number if it is odd.", "[0.0, 2.0, 0.0]",
    "array([ 1.,  0., -1.,  0.])",
)  # fmt: skip
hfft = _line(
    "hfft", "Return the real transform of numbers with Hermitian symmetry, of which one half is given.",
    "[1.0, 2.0, 3.0]", "array([ 8., -2.,  0., -2.])",
)  # fmt: skip
ihfft = _line(
    "ihfft", "Return the numbers, of Hermitian symmetry, whose hfft this is: one half of them.",
    "[15.0, -4.0, 0.0, -1.0, 0.0, -4.0]", "array([1., 2., 3., 4.])",
)  # fmt: skip
fft2 = _box(
    "fft2", (-2, -1), "Return the Fourier transform along two axes.", "[[1.0, 2.0], [3.0, 4.0]]",
    "array([[10., -2.],\n       [-4.,  0.]])",
)  # fmt: skip
ifft2 = _box(
    "ifft2", (-2, -1), "Return the inverse Fourier transform along two axes.", "[[10.0, -2.0], [-4.0, 0.0]]",
    "array([[1., 2.],\n       [3., 4.]])",
)  # fmt: skip
rfft2 = _box(
    "rfft2", (-2, -1), "Return the Fourier transform of real numbers along two axes; the last one is halved.",
    "[[1.0, 2.0], [3.0, 4.0]]", "array([[10., -2.],\n       [-4.,  0.]])",
)  # fmt: skip
irfft2 = _box(
    "irfft2", (-2, -1), "Return the real numbers whose rfft2 this is.", "[[10.0, -2.0], [-4.0, 0.0]]",
    "array([[1., 2.],\n       [3., 4.]])",
)  # fmt: skip
hfft2 = _box(
    "hfft2", (-2, -1),
    "Return the real transform of numbers with Hermitian symmetry along two axes, half of which are given.",
    "[[1.0, 2.0], [3.0, 4.0]]", "array([[10., -2.],\n       [-4.,  0.]])",
)  # fmt: skip
ihfft2 = _box(
    "ihfft2", (-2, -1), "Return the numbers, of Hermitian symmetry, whose hfft2 this is: one half of them.",
    "[[10.0, -2.0], [-4.0, 0.0]]", "array([[1., 2.],\n       [3., 4.]])",
)  # fmt: skip
fftn = _box(
    "fftn", None, "Return the Fourier transform along all axes, or those given.", "[[1.0, 2.0], [3.0, 4.0]]",
    "array([[10., -2.],\n       [-4.,  0.]])",
)  # fmt: skip
ifftn = _box(
    "ifftn", None, "Return the inverse Fourier transform along all axes, or those given.",
    "[[10.0, -2.0], [-4.0, 0.0]]",
    "array([[1., 2.],\n       [3., 4.]])",
)  # fmt: skip
rfftn = _box(
    "rfftn", None,
    "Return the Fourier transform of real numbers along all axes, or those given; the last one is halved.",
    "[[1.0, 2.0], [3.0, 4.0]]", "array([[10., -2.],\n       [-4.,  0.]])",
)  # fmt: skip
irfftn = _box(
    "irfftn", None, "Return the real numbers whose rfftn this is.", "[[10.0, -2.0], [-4.0, 0.0]]",
    "array([[1., 2.],\n       [3., 4.]])",
)  # fmt: skip
hfftn = _box(
    "hfftn", None, "Return the real transform of numbers with Hermitian symmetry, half of which are given.",
    "[[1.0, 2.0], [3.0, 4.0]]", "array([[10., -2.],\n       [-4.,  0.]])",
)  # fmt: skip
ihfftn = _box(
    "ihfftn", None, "Return the numbers, of Hermitian symmetry, whose hfftn this is: one half of them.",
    "[[10.0, -2.0], [-4.0, 0.0]]", "array([[1., 2.],\n       [3., 4.]])",
)  # fmt: skip

fftshift, ifftshift = np.fft.fftshift, np.fft.ifftshift


def fftfreq(n: int, d: ArrayLike = 1.0, *, xp: object | None = None, device: Device = None) -> Array:
    """Return the frequencies of a Fourier transform of n samples d apart.

    Args:
        n: number of samples.
        d: distance between samples.
        xp: accepted as in SciPy; has no effect, because the result is an Array.
        device: accepted as in SciPy; has no effect, because the result is on the CPU.

    >>> from ndgrad.scipy import fft
    >>> fft.fftfreq(4)
    array([ 0.  ,  0.25, -0.5 , -0.25])
    """
    return np.fft.fftfreq(n, d)


def rfftfreq(n: int, d: ArrayLike = 1.0, *, xp: object | None = None, device: Device = None) -> Array:
    """Return the frequencies of an rfft of n samples d apart.

    Args:
        n: number of samples.
        d: distance between samples.
        xp: accepted as in SciPy; has no effect, because the result is an Array.
        device: accepted as in SciPy; has no effect, because the result is on the CPU.

    >>> from ndgrad.scipy import fft
    >>> fft.rfftfreq(4)
    array([0.  , 0.25, 0.5 ])
    """
    return np.fft.rfftfreq(n, d)


def next_fast_len(target: int, real: bool = False) -> int:
    """Return the next larger length with a fast transform.

    Args:
        target: length to start from.
        real: whether the transform is one of real numbers.

    >>> from ndgrad.scipy import fft
    >>> fft.next_fast_len(97)
    98
    """
    import scipy.fft

    return int(scipy.fft.next_fast_len(int(target), real))


def prev_fast_len(target: int, real: bool = False) -> int:
    """Return the next smaller length with a fast transform.

    Args:
        target: length to start from.
        real: whether the transform is one of real numbers.

    >>> from ndgrad.scipy import fft
    >>> fft.prev_fast_len(97)
    96
    """
    import scipy.fft

    return int(scipy.fft.prev_fast_len(int(target), real))


# ----- cosine and sine transforms -------------------------------------------------------------------------------------

# Each is the Fourier transform of the signal, extended with the symmetry of its type. The factors of norm="ortho" scale
# the ends of the input and of the output. Types 2 and 3 are inverses of each other, types 1 and 4 are their own
# inverses.


def _transform_extended(t: Array, kind: int, odd: bool) -> Array:
    """Return 2 N sums over n of x[n] cos(or sin)(...), without normalisation, along the last axis."""
    n = t.shape[-1]
    k = numpy.arange(n)
    if kind == 1:
        if odd:
            zero = np.zeros((*t.shape[:-1], 1), dtype=np_dtype(t))
            whole = np.concatenate([zero, t, zero, -t[..., ::-1]], axis=-1)
            return -np.fft.rfft(whole)[..., 1 : n + 1].imag
        whole = np.concatenate([t, t[..., n - 2 : 0 : -1]], axis=-1) if n > 2 else t
        return np.fft.rfft(whole)[..., :n].real
    if kind == 2:
        whole = np.concatenate([t, -t[..., ::-1] if odd else t[..., ::-1]], axis=-1)
        turn = numpy.exp(-1j * numpy.pi * (k + (1 if odd else 0)) / (2 * n))
        spectrum = np.fft.rfft(whole)
        if odd:
            return -(spectrum[..., 1 : n + 1] * turn).imag
        return (spectrum[..., :n] * turn).real
    if kind == 3:
        # The formula is y[k] = x[0] + 2 sum over n >= 1 of x[n] cos(pi n (2k+1) / 2N); for the sine the last term is
        # separate.
        if odd:
            weights = numpy.append(numpy.full(n - 1, 2.0), 1.0)
            turned = t * weights * (numpy.exp(1j * numpy.pi * (k + 1) / (2 * n)))
            padded = np.pad(turned, [(0, 0)] * (t.ndim - 1) + [(1, n - 1)])
            return (np.fft.ifft(padded)[..., :n] * (2 * n)).imag
        weights = numpy.append(1.0, numpy.full(n - 1, 2.0))
        turned = t * weights * numpy.exp(1j * numpy.pi * k / (2 * n))
        return (np.fft.ifft(np.pad(turned, [(0, 0)] * (t.ndim - 1) + [(0, n)]))[..., :n] * (2 * n)).real
    if kind == 4:
        # cos(pi (2n+1)(2k+1) / 4N) comes from a transform of twice the length of the samples, rotated by half a step.
        turned = t * numpy.exp(-1j * numpy.pi * (2 * k + 1) / (4 * n))
        spectrum = np.fft.fft(np.pad(turned, [(0, 0)] * (t.ndim - 1) + [(0, n)]))[..., :n] * numpy.exp(
            -1j * numpy.pi * k / (2 * n)
        )
        return -2.0 * spectrum.imag if odd else 2.0 * spectrum.real
    raise ValueError(f"the type of a cosine or sine transform must be 1, 2, 3 or 4, but is {kind}. [nd-option]")


def _length(kind: int, odd: bool, n: int) -> int:
    """Return the divisor of the inverse."""
    if kind == 1:
        return 2 * (n + 1) if odd else 2 * (n - 1)
    return 2 * n


def _discrete(
    t: Array, kind: int, axis: int, norm: str | None, odd: bool, inverse: bool, orthogonalize: bool | None,
    size: int | None = None,
) -> Array:  # fmt: skip
    d = one_axis(axis, t.ndim)
    if norm not in (None, "backward", "ortho", "forward"):
        raise ValueError(f"Invalid norm value {norm!r}, should be None, 'backward', 'ortho' or 'forward' [nd-option]")
    if np_dtype(t).kind == "c":
        real, imaginary = (_discrete(p, kind, axis, norm, odd, inverse, orthogonalize, size) for p in (t.real, t.imag))
        return real + 1j * imaginary
    t = np.moveaxis(t, d, -1)
    if size is not None:
        n = t.shape[-1]
        t = t[..., : int(size)] if size <= n else np.pad(t, [(0, 0)] * (t.ndim - 1) + [(0, int(size) - n)])
    n = t.shape[-1]
    if kind == 1 and not odd and n < 2:
        raise ValueError("DCT-I is not defined for size < 2 [nd-too-few]")
    run = {2: 3, 3: 2}.get(kind, kind) if inverse else kind
    ortho = (norm == "ortho") if orthogonalize is None else bool(orthogonalize)
    if ortho and run in (1, 3) and not (run == 1 and odd):
        t = t * _ends(n, run, odd, 2**0.5)
    made = _transform_extended(t, run, odd)
    if ortho and run in (1, 2) and not (run == 1 and odd):
        made = made * _ends(n, run, odd, 2**-0.5)
    length = _length(run, odd, n)
    if norm == "ortho":
        made = made / length**0.5
    elif (norm in (None, "backward")) == inverse:
        made = made / length
    return np.moveaxis(made, -1, d)


def _ends(n: int, kind: int, odd: bool, factor: float) -> NDArray[Any]:
    weights = numpy.ones(n)
    if kind == 1:
        weights[0] = weights[-1] = factor
    else:
        weights[-1 if odd else 0] = factor
    return weights


class _Transform(Protocol):
    def __call__(
        self, x: ArrayLike, type: int = 2, n: int | None = None, axis: int = -1, norm: str | None = None,
        overwrite_x: bool = False, workers: int | None = None, orthogonalize: bool | None = None,
    ) -> Array: ...  # fmt: skip


class _Transforms(Protocol):
    def __call__(
        self, x: ArrayLike, type: int = 2, s: Sequence[int] | None = None, axes: Axes = None, norm: str | None = None,
        overwrite_x: bool = False, workers: int | None = None, *, orthogonalize: bool | None = None,
    ) -> Array: ...  # fmt: skip


def _transform(name: str, odd: bool, inverse: bool, sentence: str, arguments: str, result: str) -> _Transform:
    def function(
        x: ArrayLike, type: int = 2, n: int | None = None, axis: int = -1, norm: str | None = None,
        overwrite_x: bool = False, workers: int | None = None, orthogonalize: bool | None = None,
    ) -> Array:  # fmt: skip
        return _discrete(floating(x), type, axis, norm, odd, inverse, orthogonalize, n)

    return _describe(function, name, sentence, arguments, result)


def _many(name: str, odd: bool, inverse: bool, sentence: str, arguments: str, result: str) -> _Transforms:
    def function(
        x: ArrayLike, type: int = 2, s: Sequence[int] | None = None, axes: Axes = None, norm: str | None = None,
        overwrite_x: bool = False, workers: int | None = None, *, orthogonalize: bool | None = None,
    ) -> Array:  # fmt: skip
        t = floating(x)
        dims = tuple(range(t.ndim - len(s), t.ndim)) if axes is None and s is not None else many_axes(axes, t.ndim)
        sizes = (None,) * len(dims) if s is None else tuple(s)
        for d, n in zip(dims, sizes, strict=True):
            t = _discrete(t, type, d, norm, odd, inverse, orthogonalize, n)
        return t

    return _describe(function, name, sentence, arguments, result)


dct = _transform(
    "dct", False, False, "Return the cosine transform of types 1 to 4 along an axis.", "[3.0, 1.0]",
    "array([8.        , 2.82842712])",
)  # fmt: skip
idct = _transform(
    "idct", False, True, "Return the inverse of dct along an axis.", "[1.0, 2.0, 3.0]",
    "array([ 1.24401694, -0.83333333,  0.0893164 ])",
)  # fmt: skip
dctn = _many(
    "dctn", False, False, "Return the cosine transform of types 1 to 4 along all axes, or those given.",
    "[[1.0, 2.0], [3.0, 4.0]]", "array([[ 40.        ,  -5.65685425],\n       [-11.3137085 ,   0.        ]])",
)  # fmt: skip
idctn = _many(
    "idctn", False, True, "Return the inverse of dctn along all axes, or those given.", "[[1.0, 2.0], [3.0, 4.0]]",
    "array([[ 1.00444174, -0.34911165],\n       [-0.52588835,  0.12055826]])",
)  # fmt: skip
dst = _transform(
    "dst", True, False, "Return the sine transform of types 1 to 4 along an axis.", "[1.0, 2.0, 3.0]",
    "array([ 8.        , -3.46410162,  4.        ])",
)  # fmt: skip
idst = _transform(
    "idst", True, True, "Return the inverse of dst along an axis.", "[1.0, 2.0, 3.0]",
    "array([ 1.24401694, -0.16666667,  0.0893164 ])",
)  # fmt: skip
dstn = _many(
    "dstn", True, False, "Return the sine transform of types 1 to 4 along all axes, or those given.",
    "[[1.0, 2.0], [3.0, 4.0]]", "array([[ 20.        ,  -5.65685425],\n       [-11.3137085 ,  -0.        ]])",
)  # fmt: skip
idstn = _many(
    "idstn", True, True, "Return the inverse of dstn along all axes, or those given.", "[[1.0, 2.0], [3.0, 4.0]]",
    "array([[ 0.81694174, -0.03661165],\n       [-0.21338835, -0.06694174]])",
)  # fmt: skip

__getattr__ = make_module_getattr(
    "fft",
    {"fht": "fft of samples on a logarithmic grid", "ifht": "ifft of samples on a logarithmic grid"},
    decisions="fhtoffset get_workers set_workers set_backend set_global_backend skip_backend register_backend",
)
__dir__ = public_of(__name__)

__all__ = [
    "dct", "dctn", "dst", "dstn", "fft", "fft2", "fftfreq", "fftn", "fftshift", "hfft", "hfft2", "hfftn", "idct",
    "idctn", "idst", "idstn", "ifft", "ifft2", "ifftn", "ifftshift", "ihfft", "ihfft2", "ihfftn", "irfft", "irfft2",
    "irfftn", "next_fast_len", "prev_fast_len", "rfft", "rfft2", "rfftfreq", "rfftn",
]  # fmt: skip
