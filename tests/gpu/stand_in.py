"""A stand-in for CuPy where there is no GPU: NumPy arrays behind a class that is as strict as CuPy's, with the gaps of CuPy 14.

Whatever CuPy refuses is refused here: NumPy arrays among the arguments, implicit conversion, functions, keywords and dtypes that it has
not. It follows CuPy wherever CuPy differs from NumPy: results are never NumPy's scalars, elementwise results are contiguous, of
several values for one place any may stay (here the first), a NaN is found anywhere by argmax (here the last), and extrema of
float64 by `at` are rounded to float32; indices out of bounds count on from the start; a singular matrix raises only if it was asked to.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.machinery
import sys
import threading
import types
from typing import ClassVar

import numpy
import scipy.linalg
import scipy.special

from ndgrad._src.arrays.addresses import flat_bytes, owner_of, pointer

#: Names of NumPy's that CuPy does not have.
ABSENT = frozenset(
    "asmatrix block bmat char ctypeslib dtypes einsum_path emath errstate frompyfunc geomspace geterr histogram_bin_edges insert isnat "
    "longdouble ma matrix matvec memmap nanpercentile nanquantile ndenumerate nditer polyder polydiv polyint rec recarray seterr spacing "
    "strings typecodes unstack vecdot vecmat".split()
)
#: Keywords that a function takes in NumPy alone: "functions: keywords".
KEYWORDS = {
    name: frozenset(keywords.split())
    for line in """
        max min amax amin nanmax nanmin sum prod nansum nanprod: initial where
        all any mean nanmean: where
        var std nanvar nanstd: where mean correction
        zeros ones empty full eye arange zeros_like ones_like empty_like full_like asarray linspace: device like
        sort argsort: order stable
        partition argpartition: kind order
        percentile quantile: weights
        clip: min max
        concatenate stack: arrays
        count_nonzero: keepdims
        flip: m
        indices: sparse
        isin: kind
        lexsort trim_zeros: axis
        reshape unravel_index: shape
        take: mode
        take_along_axis: arr
        unique: sorted
        broadcast_to copy: subok
        cholesky: upper
        matrix_rank pinv: hermitian rtol
        svd: hermitian
        fft ifft rfft irfft fft2 ifft2 rfft2 irfft2 fftn ifftn rfftn irfftn: out
    """.strip().splitlines()
    for names, _, keywords in [line.partition(":")]
    for name in names.split()
}
#: Kinds of dtypes for which NumPy has an elementwise function and CuPy has not.
KINDS = {"logical_not": "c", "logical_xor": "c"}
#: Functions whose first argument need not be an array.
FREE = frozenset(
    "append array arange asarray asanyarray ascontiguousarray asfortranarray atleast_1d broadcast_shapes can_cast concatenate diag_indices "
    "dstack einsum empty eye full hstack identity indices iscomplexobj isrealobj isscalar issubdtype ix_ linspace meshgrid ndim ones "
    "promote_types ravel_multi_index result_type shape size stack tri tril_indices triu_indices vstack zeros isclose allclose real imag "
    "angle column_stack may_share_memory shares_memory common_type array_equal".split()
)
#: Functions that take NumPy arrays: those that bring them to the device.
BRINGING = frozenset("array asarray asanyarray ascontiguousarray asfortranarray".split())
SPECIAL = (
    "bdtr bdtrc bdtri beta betainc betaincinv betaln binom boxcox boxcox1p btdtr btdtri cbrt chdtr chdtrc chdtri cosdg cosm1 cotdg digamma "
    "ellipeinc ellipj ellipk ellipkinc ellipkm1 entr erf erfc erfcinv erfcx erfinv exp1 exp10 exp2 expi expit expm1 expn exprel fdtr fdtrc "
    "fdtri gamma gammainc gammaincc gammainccinv gammaincinv gammaln gammasgn gdtr gdtrc huber i0 i0e i1 i1e inv_boxcox inv_boxcox1p j0 j1 "
    "k0 k0e k1 k1e kl_div lambertw log1p log_expit log_ndtr log_softmax loggamma logit logsumexp lpmv multigammaln nbdtr nbdtrc nbdtri "
    "ndtr ndtri pdtr pdtrc pdtri poch polygamma pseudo_huber psi radian rel_entr rgamma round shichi sici sinc sindg softmax sph_harm_y "
    "spherical_yn tandg wright_bessel xlog1py xlogy y0 y1 yn zeta zetac"
).split()
LINALG = (
    "cholesky cond cross det eig eigh eigvals eigvalsh inv lstsq matmul matrix_power matrix_rank matrix_transpose norm pinv qr slogdet "
    "svd tensorinv tensorsolve"
).split()
REFUSED = "Implicit conversion to a NumPy array is not allowed. Please use `.get()` to construct a NumPy array explicitly."


# ----- from arrays to NumPy's and back ------------------------------------------------------------------------------------


def bare(value, numpy_too=False):
    """The NumPy arrays behind arguments; one that was given as such is refused."""
    if isinstance(value, ndarray):
        return value._bare
    if isinstance(value, numpy.ndarray) and not numpy_too:
        raise TypeError(f"Unsupported type {type(value)}")
    if isinstance(value, (list, tuple)):
        return type(value)(bare(v, numpy_too) for v in value)
    return value


def wrap_results(value, *sources):
    """Results as arrays of this class, with the source whose memory they are a window on as their base."""
    if isinstance(value, (tuple, list)):
        return tuple(wrap_results(v, *sources) for v in value)
    if not isinstance(value, (numpy.ndarray, numpy.generic)):
        return value
    made = object.__new__(ndarray)
    value = numpy.asarray(value)
    made._bare, made.base = value, None
    if value.base is not None:
        for s in sources:
            if isinstance(s, ndarray) and numpy.may_share_memory(value, s._bare):
                made.base = s if s.base is None else s.base
                break
    if not value.flags.writeable:  # CuPy's arrays always are
        made._bare = value.copy() if made.base is None else window(value, value.shape, value.dtype, 0, value.strides)
    return made


def window(array, shape, dtype, offset, strides):
    """A writable array over the memory of another one, from `offset` bytes behind its first element on."""
    if 0 in shape:
        return numpy.empty(shape, dtype)
    owner = owner_of(array)
    return numpy.ndarray(shape, dtype, flat_bytes(owner), pointer(array) - pointer(owner) + offset, strides)


class Pointer:
    """Pointer to the memory of an array. Like CuPy's, it takes an offset in bytes."""

    def __init__(self, array, offset=0):
        self.array, self.offset, self.ptr = array, offset, pointer(array._bare) + offset
        self.device_id = 0

    def __add__(self, offset):
        return Pointer(self.array, self.offset + offset)


# ----- the array ------------------------------------------------------------------------------------------------------------


class ndarray:
    __module__ = "cupy"
    __array_priority__ = 100
    __hash__ = None

    def __init__(self, shape, dtype=float, memptr=None, strides=None, order="C"):
        self.base = None
        if memptr is None:
            self._bare = numpy.empty(shape, dtype, order=order)
            return
        source = memptr.array
        self.base = source if source.base is None else source.base
        self._bare = window(source._bare, shape, dtype, memptr.offset, strides)

    def __array__(self, dtype=None, copy=None):
        raise TypeError(REFUSED)

    def __array_ufunc__(self, ufunc, method, *inputs, out=(), **kwargs):
        found = getattr(MODULES["cupy"], ufunc.__name__, None) or getattr(MODULES["cupyx.scipy.special"], ufunc.__name__, None)
        if found is None or not hasattr(found, method):
            return NotImplemented
        if not all(isinstance(x, (ndarray, numpy.ndarray, numpy.generic, bool, int, float, complex)) for x in (*inputs, *out)):
            return NotImplemented
        return (found if method == "__call__" else getattr(found, method))(*inputs, **kwargs, **({"out": out[0]} if out else {}))

    def __array_function__(self, func, kinds, args, kwargs):
        module = functools.reduce(lambda m, part: getattr(m, part, None), func.__module__.split(".")[1:], MODULES["cupy"])
        found = getattr(module, func.__name__, None)
        if found is None or found is func or not all(issubclass(k, (ndarray, numpy.ndarray)) for k in kinds):
            return NotImplemented
        return found(*args, **kwargs)

    # ----- facts -----

    shape = property(lambda self: self._bare.shape)
    dtype = property(lambda self: self._bare.dtype)
    ndim = property(lambda self: self._bare.ndim)
    size = property(lambda self: self._bare.size)
    itemsize = property(lambda self: self._bare.itemsize)
    nbytes = property(lambda self: self._bare.nbytes)
    strides = property(lambda self: self._bare.strides)
    data = property(Pointer)
    device = property(lambda self: _Device())
    T = property(lambda self: wrap_results(self._bare.T, self))
    mT = property(lambda self: wrap_results(self._bare.mT, self))

    @property
    def flags(self):
        found = self._bare.flags
        return types.SimpleNamespace(
            c_contiguous=found.c_contiguous, f_contiguous=found.f_contiguous, fnc=found.fnc, owndata=self.base is None
        )

    @property
    def _c_contiguous(self):
        return self._bare.flags.c_contiguous

    @property
    def real(self):
        return wrap_results(self._bare.real, self) if self._bare.dtype.kind == "c" else self

    @property
    def imag(self):
        return wrap_results(self._bare.imag, self) if self._bare.dtype.kind == "c" else wrap_results(numpy.zeros_like(self._bare))

    @real.setter
    def real(self, value):
        self.real[...] = value

    @imag.setter
    def imag(self, value):
        self.imag[...] = value

    def __len__(self):
        return len(self._bare)

    def __iter__(self):
        return (self[i] for i in range(len(self)))

    # ----- to the host, in the open -----

    def get(self, stream=None, order="C", out=None, blocking=True):
        return numpy.array(self._bare, order=order)

    def item(self):
        return self._bare.item()

    def tolist(self):
        return self._bare.tolist()

    def __bool__(self):
        return bool(self._bare)

    def __int__(self):
        return int(self._bare)

    def __float__(self):
        return float(self._bare)

    def __complex__(self):
        return complex(self._bare)

    def __repr__(self):
        return repr(self._bare)

    # ----- indexing -----

    def __getitem__(self, index):
        whole = wrap_index(index, self.shape)
        return wrap_results(self._bare[whole if any(i is Ellipsis for i in whole) else (*whole, Ellipsis)], self)

    def __setitem__(self, index, value):
        if isinstance(value, numpy.ndarray):
            raise TypeError(f"Unsupported type {type(value)}")
        index, value = wrap_index(index, self.shape), bare(value)
        if any(isinstance(i, numpy.ndarray) and i.dtype != bool for i in index):
            places = numpy.arange(self._bare.size).reshape(self.shape)[index]
            values = numpy.broadcast_to(numpy.asarray(value).astype(self.dtype), places.shape)
            flat = numpy.unravel_index(places.reshape(-1)[::-1], self.shape)
            self._bare[flat] = values.reshape(-1)[::-1]
        else:
            self._bare[index] = value

    def __copy__(self):
        return self.copy()

    def __deepcopy__(self, memo):
        return self.copy()


def as_tuple(index):
    return index if isinstance(index, tuple) else (index,)


def wrap_index(index, shape):
    """An index as CuPy reads it: arrays of integers count on from the start where they are out of bounds."""
    items = as_tuple(bare(index, numpy_too=True))
    taken = sum(1 if not isinstance(i, numpy.ndarray) or i.dtype != bool else i.ndim for i in items if i is not None and i is not Ellipsis)
    out, axis = [], 0
    for item in items:
        if isinstance(item, list):
            item = numpy.asarray(item, None if item else int)
        if item is Ellipsis:
            axis += len(shape) - taken
        elif isinstance(item, numpy.ndarray) and item.dtype == bool:
            axis += item.ndim
        elif item is not None:
            if isinstance(item, numpy.ndarray) and shape[axis]:
                item = numpy.asarray(item % shape[axis])
            axis += 1
        out.append(item)
    return tuple(out)


def method(name, lacks=()):
    def call(self, *args, **kwargs):
        refuse(name, kwargs, lacks)
        if name == "take" and self.size:
            kwargs["mode"] = "wrap"
        if name in ("argmax", "argmin") and self.dtype.kind in "fc" and self.size:
            return last_nan(self._bare, name, *args, **kwargs)
        if name in ("sort", "argsort") and kwargs.get("kind") not in (None, "stable"):
            raise ValueError("kind can only be None or 'stable'")
        return wrap_results(getattr(self._bare, name)(*bare(args), **{k: bare(v) for k, v in kwargs.items()}), self)

    return call


def last_nan(array, name, axis=None, dtype=None, keepdims=False):
    """CuPy's reductions look at elements in no order: of several NaNs, this finds the last."""
    found = getattr(array, name)(axis=axis, keepdims=keepdims)
    nan = numpy.isnan(array)
    last = (array.size if axis is None else array.shape[axis]) - 1 - numpy.flip(nan, axis).argmax(axis=axis, keepdims=keepdims)
    return wrap_results(numpy.where(nan.any(axis=axis, keepdims=keepdims), last, found))


def refuse(name, kwargs, lacks):
    for k in kwargs:
        if k in lacks:
            raise TypeError(f"{name}() got an unexpected keyword argument {k!r}")


for _name in (
    "all any argmax argmin argpartition argsort astype clip conj conjugate copy cumprod cumsum diagonal dot fill flatten max mean min "
    "nonzero partition prod ravel repeat reshape round searchsorted sort squeeze std sum swapaxes take tobytes trace transpose var view"
).split():
    setattr(ndarray, _name, method(_name, KEYWORDS.get(_name, ())))


def install_operators():
    names = "add sub mul truediv floordiv mod pow matmul and_ or_ xor lshift rshift lt le eq ne gt ge"
    ufuncs = (
        "add subtract multiply divide floor_divide remainder power matmul bitwise_and bitwise_or bitwise_xor left_shift right_shift "
        "less less_equal equal not_equal greater greater_equal"
    )
    for name, ufunc in zip(names.split(), ufuncs.split(), strict=True):
        plain = name.rstrip("_")

        def run(self, other, ufunc=ufunc, swapped=False):
            if not isinstance(other, (ndarray, numpy.ndarray, numpy.generic, bool, int, float, complex)):
                return NotImplemented
            if isinstance(other, numpy.ndarray) and other.ndim == 0 and ufunc in KEPT_COMPARISONS:
                other = other.item()
            function = getattr(MODULES["cupy"], ufunc)
            return function(other, self) if swapped else function(self, other)

        setattr(ndarray, f"__{plain}__", run)
        if plain in ("lt", "le", "eq", "ne", "gt", "ge"):
            continue
        setattr(ndarray, f"__r{plain}__", functools.partialmethod(run, swapped=True))

        def change(self, other, ufunc=ufunc):
            return getattr(MODULES["cupy"], ufunc)(self, other, out=self)

        setattr(ndarray, f"__i{plain}__", change)
    for name, ufunc in {"neg": "negative", "pos": "positive", "abs": "absolute", "invert": "invert"}.items():
        setattr(ndarray, f"__{name}__", lambda self, ufunc=ufunc: getattr(MODULES["cupy"], ufunc)(self))


KEPT_COMPARISONS = frozenset("less less_equal equal not_equal greater greater_equal".split())

# ----- functions --------------------------------------------------------------------------------------------------------------


#: Dtypes that `at` takes, by character.
AT = {
    "add": "efdiIlLqQ", "subtract": "iI", "maximum": "fdiIlLqQ", "minimum": "fdiIlLqQ",
    "bitwise_and": "iIlLqQ", "bitwise_or": "iIlLqQ", "bitwise_xor": "iIlLqQ",
}  # fmt: skip


class Ufunc:
    def __init__(self, plain):
        self.plain, self.__name__, self.nin, self.nout = plain, plain.__name__, plain.nin, plain.nout

    def __call__(self, *args, out=None, dtype=None, casting="same_kind"):
        given = bare(args)
        for a in given:
            if hasattr(a, "dtype") and a.dtype.kind in KINDS.get(self.__name__, ""):
                raise TypeError(f"Wrong type ({a.dtype!r}) of arguments for cupy_{self.__name__}")
        settings = {} if dtype is None else {"dtype": dtype}
        if self.__name__ == "matmul" and all(a.dtype.char in "eE" for a in given):  # added up in single precision
            if given[0].dtype.char == "E" and max(a.ndim for a in given) > 2:
                raise TypeError("data type 'E' not understood")
            made = self.plain(*[a.astype(numpy.float32) for a in given])
            return wrap_results(numpy.ascontiguousarray(made).astype(given[0].dtype))
        if out is not None:
            target = out[0] if isinstance(out, tuple) else out
            self.plain(*given, out=bare(target), casting=casting, **settings)
            return target
        made = self.plain(*given, casting=casting, **settings)
        if getattr(made, "nbytes", 0) > _Pool.limit:
            raise OutOfMemoryError(f"Out of memory allocating {made.nbytes:,} bytes (allocated so far: 100 bytes).")
        contiguous = numpy.ascontiguousarray
        if isinstance(made, tuple):
            return tuple(wrap_results(contiguous(m).reshape(m.shape)) for m in made)
        return wrap_results(contiguous(made).reshape(numpy.shape(made)))

    def outer(self, a, b, **kwargs):
        return self(a.reshape(*a.shape, *(1,) * b.ndim), b, **kwargs)

    def at(self, a, indices, b=None):  # CuPy's name  # prose: ok
        if self.__name__ not in AT:
            raise NotImplementedError(f"`cupy_{self.__name__}.at` is not supported yet")
        arrays = any(isinstance(i, (list, ndarray, numpy.ndarray)) for i in as_tuple(indices))
        if arrays and a.dtype.char not in AT[self.__name__]:
            raise TypeError(f"cupy.{self.__name__}.at does not support {a.dtype}")
        values = numpy.asarray(bare(b)).astype(a.dtype)
        if arrays and a.dtype == numpy.float64 and self.__name__ in ("maximum", "minimum"):
            values = values.astype(numpy.float32).astype(numpy.float64)
        self.plain.at(a._bare, wrap_index(indices, a.shape), values)

    def reduce(self, array, axis=0, dtype=None, out=None, keepdims=False):
        return self._method("reduce", {"add": "sum", "multiply": "prod"})(array, axis=axis, dtype=dtype, out=out, keepdims=keepdims)

    def accumulate(self, array, axis=0, dtype=None, out=None):
        return self._method("accumulate", {"add": "cumsum", "multiply": "cumprod"})(array, axis=axis, dtype=dtype, out=out)

    def reduceat(self, array, indices, axis=0, dtype=None, out=None):
        self._method("reduceat", {"add": "sum"})
        return wrap_results(numpy.add.reduceat(bare(array), bare(indices, numpy_too=True), axis, dtype))

    def _method(self, kind, known):
        if self.__name__ not in known:
            raise NotImplementedError(f"`cupy_{self.__name__}.{kind}` is not supported yet")
        return getattr(MODULES["cupy"], known[self.__name__])


def function(plain, name, free=False):
    lacks, free = KEYWORDS.get(name, ()), free or name in FREE

    def call(*args, **kwargs):
        refuse(name, kwargs, lacks)
        if not free and args and not isinstance(args[0], ndarray):
            raise TypeError(f"cupy.{name}() takes a cupy.ndarray first, but got {type(args[0])}")
        if name in ("max", "min", "amax", "amin", "argmax", "argmin"):
            return getattr(args[0], name.replace("am", "m"))(*args[1:], **kwargs)
        if name in ("sort", "argsort") and kwargs.get("kind") not in (None, "stable"):
            raise ValueError("kind can only be None or 'stable'")
        numpy_too = name in BRINGING
        if name == "take" and args[0].size:
            kwargs["mode"] = "wrap"
        return wrap_results(plain(*bare(args, numpy_too), **{k: bare(v, numpy_too) for k, v in kwargs.items()}), *args)

    call.__name__ = name
    return call


def where(condition, x=None, y=None):
    if x is None and y is None:
        return condition.nonzero()
    return wrap_results(numpy.where(bare(condition.astype("?", copy=False)), bare(x), bare(y)))


def broadcast_arrays(*args):
    """Numbers stay as they are."""
    shape = numpy.broadcast_shapes(*(a.shape for a in args if isinstance(a, ndarray)))
    return tuple(wrap_results(numpy.broadcast_to(a._bare, shape), a) if isinstance(a, ndarray) else a for a in args)


def solve(a, b):
    """With a vector b or one whose leading dimensions are those of a, and no other."""
    if b.ndim > 1 and a.shape[:-1] != b.shape[:-1]:
        raise ValueError("a must have (..., M, M) shape and b must have (..., M, K) for multidimensional b")
    return wrap_results(numpy.linalg.solve(bare(a), bare(b)))


def solve_triangular(a, b, trans=0, lower=False, unit_diagonal=False, overwrite_b=False, check_finite=False):
    if a.ndim > 2 and a.shape[:-2] != b.shape[: a.ndim - 2]:
        raise ValueError("incompatible batch count")
    made = numpy.empty(b.shape, a.dtype)  # b is cast to it
    for place in numpy.ndindex(a.shape[:-2]):
        right = numpy.asarray(b._bare[place]).astype(a.dtype)
        made[place] = _triangular(a._bare[place], right, trans=trans, lower=lower, unit_diagonal=unit_diagonal, check_finite=False)
    return wrap_results(made)


def _triangular(a, b, **settings):
    try:
        return scipy.linalg.solve_triangular(a, b, **settings)
    except numpy.linalg.LinAlgError:
        return numpy.full_like(b, numpy.inf)


def lu_factor(a, overwrite_a=False, check_finite=True):
    if a.ndim != 2 or a.dtype.char not in "fdFD":
        raise NotImplementedError("Only float32, float64, complex64 and complex128 are supported.")
    return wrap_results(scipy.linalg.lu_factor(a._bare, check_finite=False))


# ----- modules ------------------------------------------------------------------------------------------------------------------

MODULES: dict[str, types.ModuleType] = {}


def install() -> None:
    """Put the stand-in where `import cupy` finds it."""
    for (
        name
    ) in "cupy cupy.linalg cupy.fft cupy.lib cupy.lib.stride_tricks cupyx cupyx.scipy cupyx.scipy.special cupyx.scipy.linalg".split():
        made = MODULES[name] = sys.modules[name] = types.ModuleType(name, __doc__)
        made.__spec__ = importlib.machinery.ModuleSpec(name, None)
        parent, _, last = name.rpartition(".")
        if parent:
            setattr(sys.modules[parent], last, made)
    cupy = MODULES["cupy"]
    for name in dir(numpy):
        value = getattr(numpy, name)
        if name in ABSENT or name.startswith("_") or isinstance(value, types.ModuleType) or name == "ndarray":
            continue
        if isinstance(value, numpy.ufunc):
            value = Ufunc(value)
        elif callable(value) and not isinstance(value, type):
            value = function(value, name)
        setattr(cupy, name, value)
    cupy.ndarray, cupy.where, cupy.broadcast_arrays = ndarray, where, broadcast_arrays
    cupy.asnumpy = lambda a: a.get() if isinstance(a, ndarray) else numpy.asarray(a)
    cupy.exceptions = numpy.exceptions
    told = {"name": b"stand-in", "major": 9, "minor": 0, "totalGlobalMem": 1 << 30, "multiProcessorCount": 1}
    cupy.cuda = types.SimpleNamespace(
        Device=lambda number=None: _Device(),
        runtime=types.SimpleNamespace(
            getDeviceCount=lambda: 1, getDevice=lambda: 0, getDeviceProperties=lambda number: told, deviceCanAccessPeer=lambda a, b: 0
        ),
        is_available=lambda: True,
        Stream=_Stream,
        Event=_Event,
        get_current_stream=lambda: _here.entered[-1],
        get_elapsed_time=lambda start, end: 0.0,
    )
    cupy.get_default_memory_pool = _Pool
    for module, source, names in (
        ("linalg", numpy.linalg, LINALG),
        ("fft", numpy.fft, [n for n in dir(numpy.fft) if n[0] != "_"]),
        ("lib.stride_tricks", numpy.lib.stride_tricks, ["as_strided", "sliding_window_view"]),
    ):
        for name in names:
            value = getattr(source, name)
            setattr(MODULES[f"cupy.{module}"], name, function(value, name) if callable(value) else value)
    cupy.linalg.LinAlgError, cupy.linalg.solve = numpy.linalg.LinAlgError, solve
    for name in ("inv", "solve", "cholesky"):
        setattr(cupy.linalg, name, unless_asked(getattr(cupy.linalg, name)))
    special = MODULES["cupyx.scipy.special"]
    for name in SPECIAL:
        value = getattr(scipy.special, name, None)
        if value is not None:
            setattr(special, name, Ufunc(value) if isinstance(value, numpy.ufunc) else function(value, name, free=True))
    special.yn = lambda n, x: wrap_results(numpy.where(numpy.less(bare(n), 0), numpy.nan, scipy.special.yn(bare(n), bare(x))))
    linalg = MODULES["cupyx.scipy.linalg"]
    linalg.solve_triangular, linalg.lu_factor = solve_triangular, lu_factor
    MODULES["cupyx"].errstate = raising
    install_operators()


def unless_asked(run):
    """A function of matrices that answers NaN where it cannot be computed, or raises if it was asked to."""

    def call(*args):
        try:
            return run(*args)
        except numpy.linalg.LinAlgError:
            if LOOKING[0]:
                raise
            return wrap_results(numpy.full(args[-1].shape, numpy.nan))

    return call


@contextlib.contextmanager
def raising(*, linalg):
    """Errors of linear algebra are looked for inside."""
    before, LOOKING[0] = LOOKING[0], linalg == "raise"
    try:
        yield
    finally:
        LOOKING[0] = before


LOOKING = [False]


class _Nothing:
    def __enter__(self):
        return self

    def __exit__(self, *error):
        return None


class _Device(_Nothing):
    """A GPU, whose work is done when a call returns."""

    id, mem_info = 0, (1 << 29, 1 << 30)

    def use(self):
        return self

    def synchronize(self):
        return None


class _Stream:
    """A queue that is always empty. `log` has what was waited for: (the queue that waits, the one that is waited for)."""

    done = True
    log: ClassVar = []
    null = None

    def __init__(self, *, non_blocking=False, priority=0):
        self.ptr = id(self)

    def __enter__(self):
        _here.entered.append(self)
        return self

    def __exit__(self, *error):
        _here.entered.pop()

    def synchronize(self):
        return None

    def record(self, event=None):
        event = _Event() if event is None else event
        event.record(self)
        return event

    def wait_event(self, event):
        self.log.append((self, event.stream))

    def use(self):
        _here.entered[-1] = self


class _Here(threading.local):
    """The queues that a thread uses."""

    def __init__(self):
        self.entered = [_Stream.null]


_Stream.null = _Stream()
_here = _Here()


class _Event:
    done = True

    def __init__(self, *, block=False, disable_timing=False):
        self.stream = None

    def record(self, stream=None):
        self.stream = _here.entered[-1] if stream is None else stream

    def synchronize(self):
        return None


class OutOfMemoryError(MemoryError):
    __module__ = "cupy.cuda.memory"


class _Pool:
    #: results of elementwise functions may not have more bytes
    limit = float("inf")

    def used_bytes(self):
        return 100

    def total_bytes(self):
        return 200

    def free_all_blocks(self):
        return None

    def set_limit(self, size=None, fraction=None):
        _Pool.limit = size or float("inf")
