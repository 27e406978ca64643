# Written by scripts/surface.py from the declarations of public functions. Do not edit.

from builtins import bool as _bool, float as _float
from ndgrad.numpy import emath as emath, fft as fft, linalg as linalg, random as random
from ndgrad.numpy._array import Array as Array, Array as _ndarray
from ndgrad.numpy.calculus import (
    convolve as convolve, correlate as correlate, diff as diff, ediff1d as ediff1d, gradient as gradient, trapezoid as
    trapezoid,
)
from ndgrad.numpy.creation import (
    arange as arange, array as array, asanyarray as asanyarray, asarray as asarray, asarray_chkfinite as
    asarray_chkfinite, ascontiguousarray as ascontiguousarray, asfortranarray as asfortranarray, bartlett as bartlett,
    blackman as blackman, empty as empty, empty_like as empty_like, eye as eye, from_dlpack as from_dlpack, fromfunction
    as fromfunction, fromiter as fromiter, full as full, full_like as full_like, geomspace as geomspace, hamming as
    hamming, hanning as hanning, identity as identity, kaiser as kaiser, linspace as linspace, logspace as logspace,
    ones as ones, ones_like as ones_like, require as require, tri as tri, zeros as zeros, zeros_like as zeros_like,
)
from ndgrad.numpy.elementwise import (
    angle as angle, astype as astype, clip as clip, fix as fix, i0 as i0, imag as imag, interp as interp, isclose as
    isclose, iscomplex as iscomplex, isneginf as isneginf, isposinf as isposinf, isreal as isreal, nan_to_num as
    nan_to_num, real as real, real_if_close as real_if_close, round as _around, round as round, sinc as sinc, unwrap as
    unwrap,
)
from ndgrad.numpy.functional import (
    apply_along_axis as apply_along_axis, apply_over_axes as apply_over_axes, vectorize as vectorize,
)
from ndgrad.numpy.grids import (
    c_ as c_, diag_indices as diag_indices, indices as indices, mask_indices as mask_indices, meshgrid as meshgrid,
    mgrid as mgrid, ogrid as ogrid, r_ as r_, tril_indices as tril_indices, triu_indices as triu_indices,
)
from ndgrad.numpy.indexing import (
    argwhere as argwhere, choose as choose, compress as compress, copyto as copyto, diag_indices_from as
    diag_indices_from, extract as extract, fill_diagonal as fill_diagonal, flatnonzero as flatnonzero, ix_ as ix_,
    nonzero as nonzero, piecewise as piecewise, place as place, put as put, put_along_axis as put_along_axis, putmask as
    putmask, ravel_multi_index as ravel_multi_index, select as select, take as take, take_along_axis as take_along_axis,
    tril_indices_from as tril_indices_from, triu_indices_from as triu_indices_from, unravel_index as unravel_index,
    where as where,
)
from ndgrad.numpy.inspection import (
    can_cast as can_cast, common_type as common_type, iscomplexobj as iscomplexobj, isrealobj as isrealobj,
    may_share_memory as may_share_memory, min_scalar_type as min_scalar_type, ndim as ndim, packbits as packbits,
    result_type as result_type, shape as shape, shares_memory as shares_memory, size as size, unpackbits as unpackbits,
)
from ndgrad.numpy.joining import (
    append as append, block as block, column_stack as column_stack, concatenate as _concat, concatenate as concatenate,
    delete as delete, dstack as dstack, hstack as hstack, insert as insert, pad as pad, stack as stack, vstack as
    vstack,
)
from ndgrad.numpy.polynomials import (
    poly as poly, polyadd as polyadd, polyder as polyder, polydiv as polydiv, polyfit as polyfit, polyint as polyint,
    polymul as polymul, polysub as polysub, polyval as polyval, roots as roots, vander as vander,
)
from ndgrad.numpy.products import (
    cross as cross, dot as dot, einsum as einsum, einsum_path as einsum_path, inner as inner, kron as kron, outer as
    outer, tensordot as tensordot, vdot as vdot,
)
from ndgrad.numpy.reductions import (
    all as all, any as any, argmax as argmax, argmin as argmin, average as average, count_nonzero as count_nonzero,
    cumprod as cumprod, cumsum as cumsum, cumulative_prod as cumulative_prod, cumulative_sum as cumulative_sum, max as
    _amax, max as max, mean as mean, min as _amin, min as min, nanargmax as nanargmax, nanargmin as nanargmin,
    nancumprod as nancumprod, nancumsum as nancumsum, nanmax as nanmax, nanmean as nanmean, nanmin as nanmin, nanprod as
    nanprod, nanstd as nanstd, nansum as nansum, nanvar as nanvar, prod as prod, ptp as ptp, std as std, sum as sum, var
    as var,
)
from ndgrad.numpy.shapes import (
    array_split as array_split, atleast_1d as atleast_1d, atleast_2d as atleast_2d, atleast_3d as atleast_3d,
    broadcast_arrays as broadcast_arrays, broadcast_to as broadcast_to, copy as copy, diag as diag, diagflat as
    diagflat, diagonal as diagonal, dsplit as dsplit, expand_dims as expand_dims, flip as flip, fliplr as fliplr, flipud
    as flipud, hsplit as hsplit, matrix_transpose as matrix_transpose, moveaxis as moveaxis, ravel as ravel, repeat as
    repeat, reshape as reshape, resize as resize, roll as roll, rollaxis as rollaxis, rot90 as rot90, split as split,
    squeeze as squeeze, swapaxes as swapaxes, tile as tile, trace as trace, transpose as _permute_dims, transpose as
    transpose, tril as tril, trim_zeros as trim_zeros, triu as triu, unstack as unstack, vsplit as vsplit,
)
from ndgrad.numpy.sorting import (
    argpartition as argpartition, argsort as argsort, digitize as digitize, intersect1d as intersect1d, isin as isin,
    lexsort as lexsort, partition as partition, searchsorted as searchsorted, setdiff1d as setdiff1d, setxor1d as
    setxor1d, sort as sort, sort_complex as sort_complex, union1d as union1d, unique as unique, unique_all as
    unique_all, unique_counts as unique_counts, unique_inverse as unique_inverse, unique_values as unique_values,
)
from ndgrad.numpy.statistics import (
    bincount as bincount, corrcoef as corrcoef, cov as cov, histogram as histogram, histogram2d as histogram2d,
    histogram_bin_edges as histogram_bin_edges, histogramdd as histogramdd, median as median, nanmedian as nanmedian,
    nanpercentile as nanpercentile, nanquantile as nanquantile, percentile as percentile, quantile as quantile,
)
from ndgrad.numpy.ufunc_objects import UniversalFunction as UniversalFunction
from numpy import (
    False_ as False_, ScalarType as ScalarType, True_ as True_, base_repr as base_repr, binary_repr as binary_repr, bool
    as bool, bool_ as bool_, broadcast_shapes as broadcast_shapes, busday_count as busday_count, busday_offset as
    busday_offset, busdaycalendar as busdaycalendar, byte as byte, bytes_ as bytes_, cdouble as cdouble, char as char,
    character as character, clongdouble as clongdouble, complex128 as complex128, complex256 as complex256, complex64 as
    complex64, complexfloating as complexfloating, core as core, csingle as csingle, ctypeslib as ctypeslib, datetime64
    as datetime64, datetime_as_string as datetime_as_string, datetime_data as datetime_data, double as double, dtype as
    dtype, dtypes as dtypes, errstate as errstate, exceptions as exceptions, f2py as f2py, finfo as finfo, flexible as
    flexible, float128 as float128, float16 as float16, float32 as float32, float64 as float64, floating as floating,
    format_float_positional as format_float_positional, format_float_scientific as format_float_scientific, generic as
    generic, get_include as get_include, get_printoptions as get_printoptions, getbufsize as getbufsize, geterr as
    geterr, geterrcall as geterrcall, half as half, iinfo as iinfo, index_exp as index_exp, inexact as inexact, info as
    info, int16 as int16, int32 as int32, int64 as int64, int8 as int8, int_ as int_, intc as intc, integer as integer,
    intp as intp, is_busday as is_busday, isdtype as isdtype, isscalar as isscalar, issubdtype as issubdtype, iterable
    as iterable, lib as lib, little_endian as little_endian, long as long, longdouble as longdouble, longlong as
    longlong, ma as ma, mintypecode as mintypecode, ndindex as ndindex, number as number, object_ as object_, polynomial
    as polynomial, printoptions as printoptions, promote_types as promote_types, rec as rec, s_ as s_, sctypeDict as
    sctypeDict, set_printoptions as set_printoptions, setbufsize as setbufsize, seterr as seterr, seterrcall as
    seterrcall, short as short, show_config as show_config, show_runtime as show_runtime, signedinteger as
    signedinteger, single as single, str_ as str_, strings as strings, testing as testing, timedelta64 as timedelta64,
    typecodes as typecodes, typename as typename, typing as typing, ubyte as ubyte, uint as uint, uint16 as uint16,
    uint32 as uint32, uint64 as uint64, uint8 as uint8, uintc as uintc, uintp as uintp, ulong as ulong, ulonglong as
    ulonglong, unsignedinteger as unsignedinteger, ushort as ushort, void as void,
)
from typing import Any as Any

amax = _amax
amin = _amin
around = _around
concat = _concat
ndarray = _ndarray
permute_dims = _permute_dims
def frombuffer(*args: Any, **options: Any) -> Any: ...
def fromfile(*args: Any, **options: Any) -> Any: ...
def fromregex(*args: Any, **options: Any) -> Any: ...
def fromstring(*args: Any, **options: Any) -> Any: ...
def genfromtxt(*args: Any, **options: Any) -> Any: ...
def load(*args: Any, **options: Any) -> Any: ...
def loadtxt(*args: Any, **options: Any) -> Any: ...
def allclose(a: Any, b: Any, rtol: Any = 1e-05, atol: Any = 1e-08, equal_nan: Any = False) -> _bool: ...
def array2string(
    a: Any, max_line_width: Any = None, precision: Any = None, suppress_small: Any = None, separator: Any = ' ', prefix:
    Any = '', *, formatter: Any = None, threshold: Any = None, edgeitems: Any = None, sign: Any = None, floatmode: Any =
    None, suffix: Any = '', legacy: Any = None
) -> str: ...
def array_equal(a1: Any, a2: Any, equal_nan: Any = False) -> _bool: ...
def array_equiv(a1: Any, a2: Any) -> _bool: ...
def array_repr(arr: Any, max_line_width: Any = None, precision: Any = None, suppress_small: Any = None) -> str: ...
def array_str(a: Any, max_line_width: Any = None, precision: Any = None, suppress_small: Any = None) -> str: ...
def isfortran(a: Any) -> _bool: ...
def save(file: Any, arr: Any, allow_pickle: Any = True) -> None: ...
def savetxt(
    fname: Any, X: Any, fmt: Any = '%.18e', delimiter: Any = ' ', newline: Any = '\n', header: Any = '', footer: Any =
    '', comments: Any = '# ', encoding: Any = None
) -> None: ...
def savez(file: Any, *args: Any, allow_pickle: Any = True, **kwds: Any) -> None: ...
def savez_compressed(file: Any, *args: Any, allow_pickle: Any = True, **kwds: Any) -> None: ...
abs: UniversalFunction
absolute: UniversalFunction
acos: UniversalFunction
acosh: UniversalFunction
add: UniversalFunction
arccos: UniversalFunction
arccosh: UniversalFunction
arcsin: UniversalFunction
arcsinh: UniversalFunction
arctan: UniversalFunction
arctan2: UniversalFunction
arctanh: UniversalFunction
asin: UniversalFunction
asinh: UniversalFunction
atan: UniversalFunction
atan2: UniversalFunction
atanh: UniversalFunction
bitwise_and: UniversalFunction
bitwise_count: UniversalFunction
bitwise_invert: UniversalFunction
bitwise_left_shift: UniversalFunction
bitwise_not: UniversalFunction
bitwise_or: UniversalFunction
bitwise_right_shift: UniversalFunction
bitwise_xor: UniversalFunction
cbrt: UniversalFunction
ceil: UniversalFunction
conj: UniversalFunction
conjugate: UniversalFunction
copysign: UniversalFunction
cos: UniversalFunction
cosh: UniversalFunction
deg2rad: UniversalFunction
degrees: UniversalFunction
divide: UniversalFunction
divmod: UniversalFunction
equal: UniversalFunction
exp: UniversalFunction
exp2: UniversalFunction
expm1: UniversalFunction
fabs: UniversalFunction
float_power: UniversalFunction
floor: UniversalFunction
floor_divide: UniversalFunction
fmax: UniversalFunction
fmin: UniversalFunction
fmod: UniversalFunction
frexp: UniversalFunction
gcd: UniversalFunction
greater: UniversalFunction
greater_equal: UniversalFunction
heaviside: UniversalFunction
hypot: UniversalFunction
invert: UniversalFunction
isfinite: UniversalFunction
isinf: UniversalFunction
isnan: UniversalFunction
isnat: UniversalFunction
lcm: UniversalFunction
ldexp: UniversalFunction
left_shift: UniversalFunction
less: UniversalFunction
less_equal: UniversalFunction
log: UniversalFunction
log10: UniversalFunction
log1p: UniversalFunction
log2: UniversalFunction
logaddexp: UniversalFunction
logaddexp2: UniversalFunction
logical_and: UniversalFunction
logical_not: UniversalFunction
logical_or: UniversalFunction
logical_xor: UniversalFunction
matmul: UniversalFunction
matvec: UniversalFunction
maximum: UniversalFunction
minimum: UniversalFunction
mod: UniversalFunction
modf: UniversalFunction
multiply: UniversalFunction
negative: UniversalFunction
nextafter: UniversalFunction
not_equal: UniversalFunction
positive: UniversalFunction
pow: UniversalFunction
power: UniversalFunction
rad2deg: UniversalFunction
radians: UniversalFunction
reciprocal: UniversalFunction
remainder: UniversalFunction
right_shift: UniversalFunction
rint: UniversalFunction
sign: UniversalFunction
signbit: UniversalFunction
sin: UniversalFunction
sinh: UniversalFunction
spacing: UniversalFunction
sqrt: UniversalFunction
square: UniversalFunction
subtract: UniversalFunction
tan: UniversalFunction
tanh: UniversalFunction
true_divide: UniversalFunction
trunc: UniversalFunction
vecdot: UniversalFunction
vecmat: UniversalFunction
e: _float
euler_gamma: _float
inf: _float
nan: _float
newaxis: None
pi: _float
