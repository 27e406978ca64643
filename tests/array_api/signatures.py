"""The functions of the array API standard 2024.12 by their parameters."""

from __future__ import annotations

MAIN = {
    "x, /": (
        "abs acos acosh asin asinh atan atanh bitwise_invert ceil conj cos cosh exp expm1 floor imag isfinite isinf isnan log log10 log1p "
        "log2 logical_not matrix_transpose negative nonzero positive real reciprocal round sign signbit sin sinh sqrt square tan tanh "
        "trunc unique_all unique_counts unique_inverse unique_values"
    ),
    "x1, x2, /": (
        "add atan2 bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor copysign divide equal floor_divide greater "
        "greater_equal hypot less less_equal logaddexp logical_and logical_or logical_xor matmul maximum minimum multiply nextafter "
        "not_equal pow remainder subtract"
    ),
    "x, /, *, axis=None, keepdims=False": "all any argmax argmin count_nonzero max mean min",
    "start, /, stop=None, step=1, *, dtype=None, device=None": "arange",
    "x, /, *, axis=-1, descending=False, stable=True": "argsort sort",
    "obj, /, *, dtype=None, device=None, copy=None": "asarray",
    "x, dtype, /, *, copy=True, device=None": "astype",
    "*arrays": "broadcast_arrays",
    "x, /, shape": "broadcast_to",
    "from_, to, /": "can_cast",
    "x, /, min=None, max=None": "clip",
    "arrays, /, *, axis=0": "concat stack",
    "x, /, *, axis=None, dtype=None, include_initial=False": "cumulative_prod cumulative_sum",
    "x, /, *, axis=-1, n=1, prepend=None, append=None": "diff",
    "shape, *, dtype=None, device=None": "empty ones zeros",
    "x, /, *, dtype=None, device=None": "empty_like ones_like zeros_like",
    "x, /, axis": "expand_dims squeeze",
    "n_rows, n_cols=None, /, *, k=0, dtype=None, device=None": "eye",
    "type, /": "finfo iinfo",
    "x, /, *, axis=None": "flip",
    "x, /, *, device=None, copy=None": "from_dlpack",
    "shape, fill_value, *, dtype=None, device=None": "full",
    "x, /, fill_value, *, dtype=None, device=None": "full_like",
    "dtype, kind": "isdtype",
    "start, stop, /, num, *, dtype=None, device=None, endpoint=True": "linspace",
    "*arrays, indexing='xy'": "meshgrid",
    "x, source, destination, /": "moveaxis",
    "x, /, axes": "permute_dims",
    "x, /, *, axis=None, dtype=None, keepdims=False": "prod sum",
    "x, repeats, /, *, axis=None": "repeat",
    "x, /, shape, *, copy=None": "reshape",
    "*arrays_and_dtypes": "result_type",
    "x, /, shift, *, axis=None": "roll",
    "x1, x2, /, *, side='left', sorter=None": "searchsorted",
    "x, /, *, axis=None, correction=0.0, keepdims=False": "std var",
    "x, indices, /, *, axis=None": "take",
    "x, indices, /, *, axis=-1": "take_along_axis",
    "x1, x2, /, *, axes=2": "tensordot",
    "x, repetitions, /": "tile",
    "x, /, *, k=0": "tril triu",
    "x, /, *, axis=0": "unstack",
    "x1, x2, /, *, axis=-1": "vecdot",
    "condition, x1, x2, /": "where",
}

LINALG = {
    "x, /, *, upper=False": "cholesky",
    "x1, x2, /, *, axis=-1": "cross vecdot",
    "x, /": "det eigh eigvalsh inv matrix_transpose slogdet svdvals",
    "x, /, *, offset=0": "diagonal",
    "x1, x2, /": "matmul outer solve",
    "x, /, *, keepdims=False, ord='fro'": "matrix_norm",
    "x, n, /": "matrix_power",
    "x, /, *, rtol=None": "matrix_rank pinv",
    "x, /, *, mode='reduced'": "qr",
    "x, /, *, full_matrices=True": "svd",
    "x1, x2, /, *, axes=2": "tensordot",
    "x, /, *, offset=0, dtype=None": "trace",
    "x, /, *, axis=None, keepdims=False, ord=2": "vector_norm",
}

FFT = {
    "x, /, *, n=None, axis=-1, norm='backward'": "fft hfft ifft ihfft irfft rfft",
    "n, /, *, d=1.0, dtype=None, device=None": "fftfreq rfftfreq",
    "x, /, *, s=None, axes=None, norm='backward'": "fftn ifftn irfftn rfftn",
    "x, /, *, axes=None": "fftshift ifftshift",
}

DTYPES = "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float32 float64 complex64 complex128"
CONSTANTS = "e inf nan newaxis pi"
