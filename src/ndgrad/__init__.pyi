# Written by scripts/surface.py from the declarations of public functions. Do not edit.

from builtins import bool as _bool, float as _float, int as _int
from collections.abc import Sequence as Sequence
from ndgrad import (
    accelerator as accelerator, amp as amp, array_api as array_api, autograd as autograd, backends as backends, compat
    as compat, compiler as compiler, cpu as cpu, cuda as cuda, distributed as distributed, distributions as
    distributions, errors as errors, export as export, fft as fft, func as func, functorch as functorch, futures as
    futures, fx as fx, hub as hub, implicit as implicit, jit as jit, library as library, linalg as linalg, masked as
    masked, mps as mps, mtia as mtia, multiprocessing as multiprocessing, nested as nested, nn as nn, npz as npz, numpy
    as numpy, onnx as onnx, ops as ops, optim as optim, overrides as overrides, profiler as profiler, pytree as pytree,
    quasirandom as quasirandom, random as random, return_types as return_types, safetensors as safetensors, scipy as
    scipy, serialization as serialization, signal as signal, sparse as sparse, special as special, storage as storage,
    testing as testing, torch_version as torch_version, types as types, utils as utils, version as version, viz as viz,
    xpu as xpu,
)
from ndgrad._C._files import PyTorchFileReader as PyTorchFileReader
from ndgrad._src.arrays.dtypes import (
    can_cast as can_cast, dtype as dtype, finfo as finfo, get_default_dtype as get_default_dtype, iinfo as iinfo,
    promote_types as promote_types, result_type as result_type, set_default_dtype as set_default_dtype,
)
from ndgrad._src.arrays.generator import (
    Generator as Generator, default_generator as default_generator, initial_seed as initial_seed, manual_seed as
    manual_seed, seed as seed,
)
from ndgrad._src.arrays.retained_memory import (
    get_retained_memory as get_retained_memory, set_retained_memory as set_retained_memory,
)
from ndgrad._src.core.grad_mode import (
    enable_grad as enable_grad, inference_mode as inference_mode, is_grad_enabled as is_grad_enabled,
    is_inference_mode_enabled as is_inference_mode_enabled, no_grad as no_grad, set_grad_enabled as set_grad_enabled,
)
from ndgrad._src.foundations.devices import (
    device as device, get_default_device as get_default_device, layout as layout, memory_format as memory_format,
    set_default_device as set_default_device,
)
from ndgrad._src.foundations.sizes import Size as Size
from ndgrad._src.lifting.entry import lift as lift
from ndgrad._src.tensor.functions.comparison import (
    allclose as allclose, equal as equal, isclose as isclose, isneginf as isneginf, isposinf as isposinf,
)
from ndgrad._src.tensor.functions.convert import (
    _neg_view as _neg_view, clone as clone, is_conj as is_conj, is_neg as is_neg, resolve_conj as resolve_conj,
    resolve_neg as resolve_neg,
)
from ndgrad._src.tensor.functions.copies import (
    alias_copy as alias_copy, as_strided_copy as as_strided_copy, detach_copy as detach_copy, diagonal_copy as
    diagonal_copy, expand_copy as expand_copy, narrow_copy as narrow_copy, permute_copy as permute_copy, select_copy as
    select_copy, slice_copy as slice_copy, split_copy as split_copy, split_with_sizes_copy as split_with_sizes_copy,
    squeeze_copy as squeeze_copy, t_copy as t_copy, transpose_copy as transpose_copy, unbind_copy as unbind_copy,
    unfold_copy as unfold_copy, unsafe_chunk as unsafe_chunk, unsafe_split as unsafe_split, unsafe_split_with_sizes as
    unsafe_split_with_sizes, unsqueeze_copy as unsqueeze_copy, view_as_complex_copy as view_as_complex_copy,
    view_as_real_copy as view_as_real_copy, view_copy as view_copy,
)
from ndgrad._src.tensor.functions.creation import (
    arange as arange, empty as empty, empty_like as empty_like, empty_permuted as empty_permuted, empty_strided as
    empty_strided, eye as eye, full as full, full_like as full_like, linspace as linspace, logspace as logspace, ones as
    ones, ones_like as ones_like, range as range, zeros as zeros, zeros_like as zeros_like,
)
from ndgrad._src.tensor.functions.data import (
    as_tensor as as_tensor, asarray as asarray, from_file as from_file, from_numpy as from_numpy, frombuffer as
    frombuffer, scalar_tensor as scalar_tensor, tensor as tensor,
)
from ndgrad._src.tensor.functions.decomposition import householder_product as _orgqr, lu_unpack as lu_unpack
from ndgrad._src.tensor.functions.describe import (
    _assert as _assert, _is_all_true as _is_all_true, _is_any_true as _is_any_true, detach as detach, detach_ as
    detach_, get_device as get_device, get_num_interop_threads as get_num_interop_threads, get_num_threads as
    get_num_threads, is_complex as is_complex, is_floating_point as is_floating_point, is_inference as is_inference,
    is_nonzero as is_nonzero, is_same_size as is_same_size, is_signed as is_signed, is_tensor as is_tensor, numel as
    numel, set_num_interop_threads as set_num_interop_threads, set_num_threads as set_num_threads, typename as typename,
)
from ndgrad._src.tensor.functions.dlpack import from_dlpack as from_dlpack
from ndgrad._src.tensor.functions.einsum import einsum as einsum
from ndgrad._src.tensor.functions.elementwise import (
    abs_ as _absolute_, abs_ as abs_, add as add, celu as celu, celu_ as celu_, clamp as _clip, clamp as clamp, clamp_
    as _clip_, clamp_ as clamp_, complex as complex, conj as conj, conj_physical as conj_physical, conj_physical_ as
    conj_physical_, div as _divide, div as _true_divide, div as div, fake_quantize_per_channel_affine as
    fake_quantize_per_channel_affine, fake_quantize_per_tensor_affine as fake_quantize_per_tensor_affine, float_power as
    float_power, hardshrink as hardshrink, imag as imag, logit as logit, logit_ as logit_, nan_to_num as nan_to_num,
    nan_to_num_ as nan_to_num_, polar as polar, positive as positive, real as real, rsub as rsub, selu as selu, selu_ as
    selu_, sgn as sgn, sign as sign, sinc as sinc, sinc_ as sinc_, sub as _subtract, sub as sub, threshold as threshold,
    threshold_ as threshold_, where as where,
)
from ndgrad._src.tensor.functions.fill import fill as fill, fill_ as fill_, resize_as_ as resize_as_, zero_ as zero_
from ndgrad._src.tensor.functions.gamma import (
    digamma as digamma, i0 as i0, igamma as igamma, igammac as igammac, lgamma as lgamma,
)
from ndgrad._src.tensor.functions.gather import (
    masked_fill as masked_fill, masked_scatter as masked_scatter, masked_select as masked_select, put as put, take as
    take,
)
from ndgrad._src.tensor.functions.histogram import histogram as histogram, histogramdd as histogramdd
from ndgrad._src.tensor.functions.integer import frexp as frexp, gcd as gcd, lcm as lcm
from ndgrad._src.tensor.functions.join import (
    block_diag as block_diag, cartesian_prod as cartesian_prod, column_stack as column_stack, combinations as
    combinations, dstack as dstack, hstack as hstack, meshgrid as meshgrid, vstack as _row_stack, vstack as vstack,
)
from ndgrad._src.tensor.functions.linalg import (
    det as det, logdet as logdet, matrix_exp as matrix_exp, matrix_power as matrix_power, slogdet as slogdet,
)
from ndgrad._src.tensor.functions.low_rank import (
    lobpcg as lobpcg, pca_lowrank as pca_lowrank, svd_lowrank as svd_lowrank,
)
from ndgrad._src.tensor.functions.matrix import (
    cholesky as cholesky, cholesky_inverse as cholesky_inverse, cholesky_solve as cholesky_solve, inverse as inverse, lu
    as lu, lu_solve as lu_solve, pinverse as pinverse, qr as qr, svd as svd, triangular_solve as triangular_solve,
    vander as vander,
)
from ndgrad._src.tensor.functions.names import align_tensors as align_tensors
from ndgrad._src.tensor.functions.nonzero import (
    argwhere as argwhere, nonzero as nonzero, nonzero_static as nonzero_static, unravel_index as unravel_index,
)
from ndgrad._src.tensor.functions.norm import (
    dist as dist, frobenius_norm as frobenius_norm, norm_except_dim as norm_except_dim, nuclear_norm as nuclear_norm,
)
from ndgrad._src.tensor.functions.order import (
    bucketize as bucketize, isin as isin, msort as msort, searchsorted as searchsorted,
)
from ndgrad._src.tensor.functions.pointwise import (
    abs as _absolute, abs as abs, acos as _arccos, acos as acos, acosh as _arccosh, acosh as acosh, addcdiv as addcdiv,
    addcmul as addcmul, angle as angle, asin as _arcsin, asin as asin, asinh as _arcsinh, asinh as asinh, atan as
    _arctan, atan as atan, atan2 as _arctan2, atan2 as atan2, atanh as _arctanh, atanh as atanh, bitwise_and as
    bitwise_and, bitwise_left_shift as bitwise_left_shift, bitwise_not as bitwise_not, bitwise_or as bitwise_or,
    bitwise_right_shift as bitwise_right_shift, bitwise_xor as bitwise_xor, cbrt as cbrt, ceil as ceil, clamp_max as
    clamp_max, clamp_min as clamp_min, copysign as copysign, cos as cos, cosh as cosh, deg2rad as deg2rad, eq as eq, erf
    as erf, erfc as erfc, erfinv as erfinv, exp as exp, exp2 as exp2, expm1 as expm1, floor as floor, floor_divide as
    floor_divide, fmax as fmax, fmin as fmin, fmod as fmod, frac as frac, ge as _greater_equal, ge as ge, gt as
    _greater, gt as gt, heaviside as heaviside, hypot as hypot, isfinite as isfinite, isinf as isinf, isnan as isnan,
    isreal as isreal, ldexp as ldexp, le as _less_equal, le as le, lerp as lerp, log as log, log10 as log10, log1p as
    log1p, log2 as log2, logaddexp as logaddexp, logaddexp2 as logaddexp2, logical_and as logical_and, logical_not as
    logical_not, logical_or as logical_or, logical_xor as logical_xor, lt as _less, lt as lt, maximum as maximum,
    minimum as minimum, mul as _multiply, mul as mul, ne as _not_equal, ne as ne, neg as _negative, neg as neg,
    nextafter as nextafter, pow as pow, rad2deg as rad2deg, reciprocal as reciprocal, relu as relu, remainder as
    remainder, round as round, rsqrt as rsqrt, sigmoid as sigmoid, signbit as signbit, sin as sin, sinh as sinh, sqrt as
    sqrt, square as square, tan as tan, tanh as tanh, trunc as _fix, trunc as trunc, xlogy as xlogy,
)
from ndgrad._src.tensor.functions.product import (
    addbmm as addbmm, addmm as addmm, addmv as addmv, addr as addr, baddbmm as baddbmm, bmm as bmm, cdist as cdist,
    chain_matmul as chain_matmul, dot as dot, inner as inner, kron as kron, matmul as matmul, mm as mm, mv as mv, outer
    as _ger, outer as outer, pdist as pdist, trace as trace, vdot as vdot,
)
from ndgrad._src.tensor.functions.random import (
    _dirichlet_grad as _dirichlet_grad, _sample_dirichlet as _sample_dirichlet, _standard_gamma as _standard_gamma,
    _standard_gamma_grad as _standard_gamma_grad, bernoulli as bernoulli, binomial as binomial, get_rng_state as
    get_rng_state, multinomial as multinomial, normal as normal, poisson as poisson, rand as rand, rand_like as
    rand_like, randint as randint, randint_like as randint_like, randn as randn, randn_like as randn_like, randperm as
    randperm, set_rng_state as set_rng_state,
)
from ndgrad._src.tensor.functions.rearrange import flip as flip, fliplr as fliplr, flipud as flipud, tile as tile
from ndgrad._src.tensor.functions.reflections import geqrf as geqrf, ormqr as ormqr
from ndgrad._src.tensor.functions.segments import segment_reduce as segment_reduce
from ndgrad._src.tensor.functions.shape import (
    adjoint as adjoint, atleast_1d as atleast_1d, atleast_2d as atleast_2d, atleast_3d as atleast_3d, broadcast_shapes
    as broadcast_shapes, broadcast_tensors as broadcast_tensors, broadcast_to as broadcast_to, flatten as flatten,
    moveaxis as moveaxis, movedim as movedim, permute as permute, ravel as ravel, reshape as reshape, swapaxes as
    swapaxes, swapdims as swapdims, t as t, transpose as transpose, view_as_complex as view_as_complex, view_as_real as
    view_as_real,
)
from ndgrad._src.tensor.functions.slices import (
    as_strided_scatter as as_strided_scatter, diagonal_scatter as diagonal_scatter, embedding as embedding, index_put as
    index_put, index_put_ as index_put_,
)
from ndgrad._src.tensor.functions.sparse import (
    sparse_bsc_tensor as sparse_bsc_tensor, sparse_bsr_tensor as sparse_bsr_tensor, sparse_compressed_tensor as
    sparse_compressed_tensor, sparse_coo_tensor as sparse_coo_tensor, sparse_csc_tensor as sparse_csc_tensor,
    sparse_csr_tensor as sparse_csr_tensor,
)
from ndgrad._src.tensor.functions.sparse_parts import (
    ccol_indices_copy as ccol_indices_copy, col_indices_copy as col_indices_copy, crow_indices_copy as
    crow_indices_copy, hspmm as _hsmm, hspmm as hspmm, indices_copy as indices_copy, resize_as_sparse_ as
    resize_as_sparse_, row_indices_copy as row_indices_copy, smm as smm, spmm as _dsmm, spmm as spmm, sspaddmm as
    sspaddmm, values_copy as values_copy,
)
from ndgrad._src.tensor.functions.special import mvlgamma as mvlgamma, polygamma as polygamma
from ndgrad._src.tensor.functions.spectrum import istft as istft, stft as stft
from ndgrad._src.tensor.functions.split import (
    as_strided as as_strided, dsplit as dsplit, hsplit as hsplit, vsplit as vsplit,
)
from ndgrad._src.tensor.functions.statistics import (
    bincount as bincount, corrcoef as corrcoef, cov as cov, histc as histc,
)
from ndgrad._src.tensor.functions.triangle import (
    diag as diag, diag_embed as diag_embed, diagflat as diagflat, diagonal as diagonal, tril as tril, tril_indices as
    tril_indices, triu as triu, triu_indices as triu_indices,
)
from ndgrad._src.tensor.functions.windows import (
    bartlett_window as bartlett_window, blackman_window as blackman_window, hamming_window as hamming_window,
    hann_window as hann_window, kaiser_window as kaiser_window,
)
from ndgrad._src.tensor.printing import (
    get_printoptions as get_printoptions, printoptions as printoptions, set_printoptions as set_printoptions,
)
from ndgrad._src.tensor.private_functions import (
    _assert_async as _assert_async, _assert_scalar as _assert_scalar, _check as _check, _check_index as _check_index,
    _check_is_size as _check_is_size, _check_not_implemented as _check_not_implemented, _check_tensor_all as
    _check_tensor_all, _check_tensor_all_with as _check_tensor_all_with, _check_type as _check_type, _check_value as
    _check_value, _check_with as _check_with, _convert_indices_from_coo_to_csr as _convert_indices_from_coo_to_csr,
    _convert_indices_from_csr_to_coo as _convert_indices_from_csr_to_coo, _segment_reduce as _segment_reduce,
    _softmax_backward_data as _softmax_backward_data, _unique as _unique, _unique2 as _unique2,
)
from ndgrad._src.tensor.settings import (
    are_deterministic_algorithms_enabled as are_deterministic_algorithms_enabled, compiled_with_cxx11_abi as
    compiled_with_cxx11_abi, get_deterministic_debug_mode as get_deterministic_debug_mode, get_device_module as
    get_device_module, get_float32_matmul_precision as get_float32_matmul_precision,
    is_deterministic_algorithms_warn_only_enabled as is_deterministic_algorithms_warn_only_enabled, is_vulkan_available
    as is_vulkan_available, is_warn_always_enabled as is_warn_always_enabled, set_deterministic_debug_mode as
    set_deterministic_debug_mode, set_float32_matmul_precision as set_float32_matmul_precision, set_flush_denormal as
    set_flush_denormal, set_warn_always as set_warn_always, use_deterministic_algorithms as
    use_deterministic_algorithms,
)
from ndgrad._src.tensor.storage import (
    TypedStorage as TypedStorage, UntypedStorage as UntypedStorage, is_storage as is_storage,
)
from ndgrad._src.tensor.symbolic_numbers import (
    SymBool as SymBool, SymFloat as SymFloat, SymInt as SymInt, sym_float as sym_float, sym_int as sym_int, sym_ite as
    sym_ite, sym_max as sym_max, sym_min as sym_min, sym_not as sym_not, sym_sqrt as sym_sqrt, sym_sum as sym_sum,
)
from ndgrad._src.tensor.tensor_class import Tensor as Tensor
from ndgrad._src.tensor.type_names import DeviceObjType as DeviceObjType, TensorType as TensorType
from ndgrad._src.tensor.typed_classes import set_default_tensor_type as set_default_tensor_type
from ndgrad._typing import (
    Dims as Dims, Dtype as Dtype, Number as Number, Shape as Shape, TensorLike as TensorLike, Tensors as Tensors,
)
from ndgrad.amp.autocast_mode import (
    autocast as autocast, clear_autocast_cache as clear_autocast_cache, get_autocast_cpu_dtype as
    get_autocast_cpu_dtype, get_autocast_dtype as get_autocast_dtype, get_autocast_gpu_dtype as get_autocast_gpu_dtype,
    is_autocast_cache_enabled as is_autocast_cache_enabled, is_autocast_cpu_enabled as is_autocast_cpu_enabled,
    is_autocast_enabled as is_autocast_enabled, set_autocast_cache_enabled as set_autocast_cache_enabled,
    set_autocast_cpu_dtype as set_autocast_cpu_dtype, set_autocast_cpu_enabled as set_autocast_cpu_enabled,
    set_autocast_dtype as set_autocast_dtype, set_autocast_enabled as set_autocast_enabled, set_autocast_gpu_dtype as
    set_autocast_gpu_dtype,
)
from ndgrad.amp.grad_scaler import GradScaler as GradScaler
from ndgrad.as_torch import install_as_torch as install_as_torch, uninstall_as_torch as uninstall_as_torch
from ndgrad.autograd import (
    explain as explain, is_anomaly_check_nan_enabled as is_anomaly_check_nan_enabled, is_anomaly_enabled as
    is_anomaly_enabled,
)
from ndgrad.compiler import compile as compile
from ndgrad.control_flow import cond as cond, while_loop as while_loop
from ndgrad.cuda import OutOfMemoryError as OutOfMemoryError
from ndgrad.cuda.streams import Event as Event, Stream as Stream
from ndgrad.func import vmap as vmap
from ndgrad.futures import Future as Future
from ndgrad.jit import ScriptFunction as ScriptFunction, ScriptModule as ScriptModule
from ndgrad.nn.functional import (
    adaptive_avg_pool1d as adaptive_avg_pool1d, adaptive_max_pool1d as adaptive_max_pool1d, alpha_dropout as
    alpha_dropout, avg_pool1d as avg_pool1d, batch_norm as batch_norm, bilinear as bilinear,
    binary_cross_entropy_with_logits as binary_cross_entropy_with_logits, channel_shuffle as channel_shuffle, conv1d as
    conv1d, conv2d as conv2d, conv3d as conv3d, conv_tbc as conv_tbc, conv_transpose1d as conv_transpose1d,
    conv_transpose2d as conv_transpose2d, conv_transpose3d as conv_transpose3d, cosine_embedding_loss as
    cosine_embedding_loss, cosine_similarity as cosine_similarity, dropout as dropout, embedding_bag as embedding_bag,
    feature_alpha_dropout as feature_alpha_dropout, group_norm as group_norm, hinge_embedding_loss as
    hinge_embedding_loss, instance_norm as instance_norm, kl_div as kl_div, layer_norm as layer_norm,
    margin_ranking_loss as margin_ranking_loss, max_pool1d as max_pool1d, max_pool1d_with_indices as
    max_pool1d_with_indices, max_pool2d as max_pool2d, max_pool3d as max_pool3d, pairwise_distance as pairwise_distance,
    pixel_shuffle as pixel_shuffle, pixel_unshuffle as pixel_unshuffle, poisson_nll_loss as poisson_nll_loss, prelu as
    prelu, rms_norm as rms_norm, rrelu as rrelu, triplet_margin_loss as triplet_margin_loss,
)
from ndgrad.nn.functional.native import (
    affine_grid_generator as affine_grid_generator, alpha_dropout_ as alpha_dropout_, constant_pad_nd as
    constant_pad_nd, convolution as convolution, dropout_ as dropout_, embedding_renorm_ as embedding_renorm_,
    feature_alpha_dropout_ as feature_alpha_dropout_, feature_dropout as feature_dropout, feature_dropout_ as
    feature_dropout_, grid_sampler as grid_sampler, grid_sampler_2d as grid_sampler_2d, grid_sampler_3d as
    grid_sampler_3d, native_batch_norm as native_batch_norm, native_channel_shuffle as native_channel_shuffle,
    native_dropout as native_dropout, native_group_norm as native_group_norm, native_layer_norm as native_layer_norm,
)
from ndgrad.overrides import (
    DisableTorchFunction as DisableTorchFunction, DisableTorchFunctionSubclass as DisableTorchFunctionSubclass,
)
from ndgrad.serialization import load as load, save as save
from ndgrad.utils.dlpack import to_dlpack as to_dlpack
from typing import Literal as Literal, overload as overload

absolute = _absolute
absolute_ = _absolute_
arccos = _arccos
arccosh = _arccosh
arcsin = _arcsin
arcsinh = _arcsinh
arctan = _arctan
arctan2 = _arctan2
arctanh = _arctanh
clip = _clip
clip_ = _clip_
divide = _divide
dsmm = _dsmm
fix = _fix
ger = _ger
greater = _greater
greater_equal = _greater_equal
hsmm = _hsmm
less = _less
less_equal = _less_equal
multiply = _multiply
negative = _negative
not_equal = _not_equal
orgqr = _orgqr
row_stack = _row_stack
subtract = _subtract
true_divide = _true_divide
def acos_(self: Tensor) -> Tensor: ...
def acosh_(self: Tensor) -> Tensor: ...
@overload
def all(input: Tensor, dim: Dims = None, keepdim: _bool = False, *, out: Tensor | None = None) -> Tensor: ...
@overload
def all(input: Tensor, *, axis: Dims, keepdims: _bool = False, out: Tensor | None = None) -> Tensor: ...
@overload
def all(input: Tensor, dim: Dims = None, *, keepdims: _bool, out: Tensor | None = None) -> Tensor: ...
@overload
def amax(input: Tensor, dim: Dims = ..., keepdim: _bool = False, *, out: Tensor | None = None) -> Tensor: ...
@overload
def amax(input: Tensor, *, axis: Dims, keepdims: _bool = False, out: Tensor | None = None) -> Tensor: ...
@overload
def amax(input: Tensor, dim: Dims = ..., *, keepdims: _bool, out: Tensor | None = None) -> Tensor: ...
@overload
def amin(input: Tensor, dim: Dims = ..., keepdim: _bool = False, *, out: Tensor | None = None) -> Tensor: ...
@overload
def amin(input: Tensor, *, axis: Dims, keepdims: _bool = False, out: Tensor | None = None) -> Tensor: ...
@overload
def amin(input: Tensor, dim: Dims = ..., *, keepdims: _bool, out: Tensor | None = None) -> Tensor: ...
@overload
def aminmax(
    input: Tensor, *, dim: _int | None = None, keepdim: _bool = False, out: Tensors | None = None
) -> return_types.aminmax: ...
@overload
def aminmax(
    input: Tensor, *, axis: _int | None, keepdims: _bool = False, out: Tensors | None = None
) -> return_types.aminmax: ...
@overload
def aminmax(
    input: Tensor, *, dim: _int | None = None, keepdims: _bool, out: Tensors | None = None
) -> return_types.aminmax: ...
@overload
def any(input: Tensor, dim: Dims = None, keepdim: _bool = False, *, out: Tensor | None = None) -> Tensor: ...
@overload
def any(input: Tensor, *, axis: Dims, keepdims: _bool = False, out: Tensor | None = None) -> Tensor: ...
@overload
def any(input: Tensor, dim: Dims = None, *, keepdims: _bool, out: Tensor | None = None) -> Tensor: ...
def arccos_(self: Tensor) -> Tensor: ...
def arccosh_(self: Tensor) -> Tensor: ...
def arcsin_(self: Tensor) -> Tensor: ...
def arcsinh_(self: Tensor) -> Tensor: ...
def arctan_(self: Tensor) -> Tensor: ...
def arctanh_(self: Tensor) -> Tensor: ...
@overload
def argmax(input: Tensor, dim: _int | None = None, keepdim: _bool = False, *, out: Tensor | None = None) -> Tensor: ...
@overload
def argmax(input: Tensor, *, axis: _int | None, keepdims: _bool = False, out: Tensor | None = None) -> Tensor: ...
@overload
def argmax(input: Tensor, dim: _int | None = None, *, keepdims: _bool, out: Tensor | None = None) -> Tensor: ...
@overload
def argmin(input: Tensor, dim: _int | None = None, keepdim: _bool = False, *, out: Tensor | None = None) -> Tensor: ...
@overload
def argmin(input: Tensor, *, axis: _int | None, keepdims: _bool = False, out: Tensor | None = None) -> Tensor: ...
@overload
def argmin(input: Tensor, dim: _int | None = None, *, keepdims: _bool, out: Tensor | None = None) -> Tensor: ...
@overload
def argsort(input: Tensor, dim: _int = -1, descending: _bool = False, stable: _bool = False) -> Tensor: ...
@overload
def argsort(input: Tensor, *, axis: _int, descending: _bool = False, stable: _bool = False) -> Tensor: ...
def asin_(self: Tensor) -> Tensor: ...
def asinh_(self: Tensor) -> Tensor: ...
def atan_(self: Tensor) -> Tensor: ...
def atanh_(self: Tensor) -> Tensor: ...
@overload
def cat(tensors: Tensors, dim: _int = 0, *, out: Tensor | None = None) -> Tensor: ...
@overload
def cat(tensors: Tensors, *, axis: _int, out: Tensor | None = None) -> Tensor: ...
def ceil_(self: Tensor) -> Tensor: ...
@overload
def chunk(input: Tensor, chunks: _int, dim: _int = 0) -> tuple[Tensor, ...]: ...
@overload
def chunk(input: Tensor, chunks: _int, *, axis: _int) -> tuple[Tensor, ...]: ...
def clamp_max_(self: Tensor, max: TensorLike) -> Tensor: ...
def clamp_min_(self: Tensor, min: TensorLike) -> Tensor: ...
@overload
def concat(tensors: Tensors, dim: _int = 0, *, out: Tensor | None = None) -> Tensor: ...
@overload
def concat(tensors: Tensors, *, axis: _int, out: Tensor | None = None) -> Tensor: ...
@overload
def concatenate(tensors: Tensors, dim: _int = 0, *, out: Tensor | None = None) -> Tensor: ...
@overload
def concatenate(tensors: Tensors, *, axis: _int, out: Tensor | None = None) -> Tensor: ...
def cos_(self: Tensor) -> Tensor: ...
def cosh_(self: Tensor) -> Tensor: ...
@overload
def count_nonzero(input: Tensor, dim: Dims = None, keepdim: _bool = False) -> Tensor: ...
@overload
def count_nonzero(input: Tensor, *, axis: Dims, keepdims: _bool = False) -> Tensor: ...
@overload
def count_nonzero(input: Tensor, dim: Dims = None, *, keepdims: _bool) -> Tensor: ...
@overload
def cross(input: Tensor, other: Tensor, dim: _int | None = None, *, out: Tensor | None = None) -> Tensor: ...
@overload
def cross(input: Tensor, other: Tensor, *, axis: _int | None, out: Tensor | None = None) -> Tensor: ...
@overload
def cumlogsumexp(input: Tensor, dim: _int, *, out: Tensor | None = None) -> Tensor: ...
@overload
def cumlogsumexp(input: Tensor, *, axis: _int, out: Tensor | None = None) -> Tensor: ...
@overload
def cummax(input: Tensor, dim: _int, *, out: tuple[Tensor, Tensor] | None = None) -> return_types.cummax: ...
@overload
def cummax(input: Tensor, *, axis: _int, out: tuple[Tensor, Tensor] | None = None) -> return_types.cummax: ...
@overload
def cummin(input: Tensor, dim: _int, *, out: tuple[Tensor, Tensor] | None = None) -> return_types.cummin: ...
@overload
def cummin(input: Tensor, *, axis: _int, out: tuple[Tensor, Tensor] | None = None) -> return_types.cummin: ...
@overload
def cumprod(input: Tensor, dim: _int, *, dtype: Dtype = None, out: Tensor | None = None) -> Tensor: ...
@overload
def cumprod(input: Tensor, *, axis: _int, dtype: Dtype = None, out: Tensor | None = None) -> Tensor: ...
@overload
def cumsum(input: Tensor, dim: _int, *, dtype: Dtype = None, out: Tensor | None = None) -> Tensor: ...
@overload
def cumsum(input: Tensor, *, axis: _int, dtype: Dtype = None, out: Tensor | None = None) -> Tensor: ...
@overload
def cumulative_trapezoid(
    y: Tensor, x: Tensor | None = None, *, dx: _float | Tensor | None = None, dim: _int = -1
) -> Tensor: ...
@overload
def cumulative_trapezoid(
    y: Tensor, x: Tensor | None = None, *, dx: _float | Tensor | None = None, axis: _int
) -> Tensor: ...
def deg2rad_(self: Tensor) -> Tensor: ...
@overload
def diff(
    input: Tensor, n: _int = 1, dim: _int = -1, prepend: Tensor | None = None, append: Tensor | None = None, *, out:
    Tensor | None = None
) -> Tensor: ...
@overload
def diff(
    input: Tensor, n: _int = 1, *, axis: _int, prepend: Tensor | None = None, append: Tensor | None = None, out: Tensor
    | None = None
) -> Tensor: ...
def erf_(self: Tensor) -> Tensor: ...
def erfc_(self: Tensor) -> Tensor: ...
def exp2_(self: Tensor) -> Tensor: ...
def exp_(self: Tensor) -> Tensor: ...
def expm1_(self: Tensor) -> Tensor: ...
def fix_(self: Tensor) -> Tensor: ...
def floor_(self: Tensor) -> Tensor: ...
def frac_(self: Tensor) -> Tensor: ...
@overload
def gather(
    input: Tensor, dim: _int, index: Tensor, *, sparse_grad: _bool = False, out: Tensor | None = None
) -> Tensor: ...
@overload
def gather(
    input: Tensor, *, axis: _int, index: Tensor, sparse_grad: _bool = False, out: Tensor | None = None
) -> Tensor: ...
def gcd_(self: Tensor, other: TensorLike) -> Tensor: ...
@overload
def gradient(
    input: Tensor, *, spacing: _float | Sequence[_float] | Sequence[Tensor] | None = None, dim: Dims = None, edge_order:
    _int = 1
) -> tuple[Tensor, ...]: ...
@overload
def gradient(
    input: Tensor, *, spacing: _float | Sequence[_float] | Sequence[Tensor] | None = None, axis: Dims, edge_order: _int
    = 1
) -> tuple[Tensor, ...]: ...
def i0_(self: Tensor) -> Tensor: ...
@overload
def index_add(
    input: Tensor, dim: _int, index: Tensor, source: Tensor, *, alpha: Number = 1, out: Tensor | None = None
) -> Tensor: ...
@overload
def index_add(
    input: Tensor, *, axis: _int, index: Tensor, source: Tensor, alpha: Number = 1, out: Tensor | None = None
) -> Tensor: ...
@overload
def index_copy(input: Tensor, dim: _int, index: Tensor, source: Tensor, *, out: Tensor | None = None) -> Tensor: ...
@overload
def index_copy(input: Tensor, *, axis: _int, index: Tensor, source: Tensor, out: Tensor | None = None) -> Tensor: ...
@overload
def index_fill(input: Tensor, dim: _int, index: Tensor, value: TensorLike) -> Tensor: ...
@overload
def index_fill(input: Tensor, *, axis: _int, index: Tensor, value: TensorLike) -> Tensor: ...
@overload
def index_reduce(
    input: Tensor, dim: _int, index: Tensor, source: Tensor, reduce: str, *, include_self: _bool = True, out: Tensor |
    None = None
) -> Tensor: ...
@overload
def index_reduce(
    input: Tensor, *, axis: _int, index: Tensor, source: Tensor, reduce: str, include_self: _bool = True, out: Tensor |
    None = None
) -> Tensor: ...
@overload
def index_select(input: Tensor, dim: _int, index: Tensor, *, out: Tensor | None = None) -> Tensor: ...
@overload
def index_select(input: Tensor, *, axis: _int, index: Tensor, out: Tensor | None = None) -> Tensor: ...
@overload
def kthvalue(
    input: Tensor, k: _int, dim: _int = -1, keepdim: _bool = False, *, out: tuple[Tensor, Tensor] | None = None
) -> return_types.kthvalue: ...
@overload
def kthvalue(
    input: Tensor, k: _int, *, axis: _int, keepdims: _bool = False, out: tuple[Tensor, Tensor] | None = None
) -> return_types.kthvalue: ...
@overload
def kthvalue(
    input: Tensor, k: _int, dim: _int = -1, *, keepdims: _bool, out: tuple[Tensor, Tensor] | None = None
) -> return_types.kthvalue: ...
def lcm_(self: Tensor, other: TensorLike) -> Tensor: ...
def ldexp_(self: Tensor, other: TensorLike) -> Tensor: ...
def log10_(self: Tensor) -> Tensor: ...
def log1p_(self: Tensor) -> Tensor: ...
def log2_(self: Tensor) -> Tensor: ...
def log_(self: Tensor) -> Tensor: ...
@overload
def log_softmax(input: Tensor, dim: _int, dtype: Dtype = None, *, out: Tensor | None = None) -> Tensor: ...
@overload
def log_softmax(input: Tensor, *, axis: _int, dtype: Dtype = None, out: Tensor | None = None) -> Tensor: ...
@overload
def logcumsumexp(input: Tensor, dim: _int, *, out: Tensor | None = None) -> Tensor: ...
@overload
def logcumsumexp(input: Tensor, *, axis: _int, out: Tensor | None = None) -> Tensor: ...
@overload
def logsumexp(input: Tensor, dim: Dims, keepdim: _bool = False, *, out: Tensor | None = None) -> Tensor: ...
@overload
def logsumexp(input: Tensor, *, axis: Dims, keepdims: _bool = False, out: Tensor | None = None) -> Tensor: ...
@overload
def logsumexp(input: Tensor, dim: Dims, *, keepdims: _bool, out: Tensor | None = None) -> Tensor: ...
@overload
def max(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
@overload
def max(input: Tensor, dim: _int, keepdim: _bool = False, *, out: Tensors | None = None) -> return_types.max: ...
@overload
def max(input: Tensor, dim: Tensor, *, out: Tensor | None = None) -> Tensor: ...
@overload
def max(input: Tensor, *, other: TensorLike, out: Tensor | None = None) -> Tensor: ...
@overload
def max(input: Tensor, *, axis: _int, keepdims: _bool = False, out: Tensors | None = None) -> return_types.max: ...
@overload
def max(input: Tensor, dim: _int, *, keepdims: _bool, out: Tensors | None = None) -> return_types.max: ...
@overload
def mean(
    input: Tensor, dim: Dims = None, keepdim: _bool = False, *, dtype: Dtype = None, out: Tensor | None = None
) -> Tensor: ...
@overload
def mean(
    input: Tensor, *, axis: Dims, keepdims: _bool = False, dtype: Dtype = None, out: Tensor | None = None
) -> Tensor: ...
@overload
def mean(
    input: Tensor, dim: Dims = None, *, keepdims: _bool, dtype: Dtype = None, out: Tensor | None = None
) -> Tensor: ...
@overload
def median(input: Tensor, dim: None = None, keepdim: _bool = False, *, out: Tensor | None = None) -> Tensor: ...
@overload
def median(
    input: Tensor, dim: _int, keepdim: _bool = False, *, out: tuple[Tensor, Tensor] | None = None
) -> return_types.median: ...
@overload
def median(input: Tensor, *, axis: None, keepdims: _bool = False, out: Tensor | None = None) -> Tensor: ...
@overload
def median(input: Tensor, dim: None = None, *, keepdims: _bool, out: Tensor | None = None) -> Tensor: ...
@overload
def median(
    input: Tensor, *, axis: _int, keepdims: _bool = False, out: tuple[Tensor, Tensor] | None = None
) -> return_types.median: ...
@overload
def median(
    input: Tensor, dim: _int, *, keepdims: _bool, out: tuple[Tensor, Tensor] | None = None
) -> return_types.median: ...
@overload
def min(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
@overload
def min(input: Tensor, dim: _int, keepdim: _bool = False, *, out: Tensors | None = None) -> return_types.min: ...
@overload
def min(input: Tensor, dim: Tensor, *, out: Tensor | None = None) -> Tensor: ...
@overload
def min(input: Tensor, *, other: TensorLike, out: Tensor | None = None) -> Tensor: ...
@overload
def min(input: Tensor, *, axis: _int, keepdims: _bool = False, out: Tensors | None = None) -> return_types.min: ...
@overload
def min(input: Tensor, dim: _int, *, keepdims: _bool, out: Tensors | None = None) -> return_types.min: ...
@overload
def mode(
    input: Tensor, dim: _int = -1, keepdim: _bool = False, *, out: tuple[Tensor, Tensor] | None = None
) -> return_types.mode: ...
@overload
def mode(
    input: Tensor, *, axis: _int, keepdims: _bool = False, out: tuple[Tensor, Tensor] | None = None
) -> return_types.mode: ...
@overload
def mode(
    input: Tensor, dim: _int = -1, *, keepdims: _bool, out: tuple[Tensor, Tensor] | None = None
) -> return_types.mode: ...
@overload
def nanmean(
    input: Tensor, dim: Dims = None, keepdim: _bool = False, *, dtype: Dtype = None, out: Tensor | None = None
) -> Tensor: ...
@overload
def nanmean(
    input: Tensor, *, axis: Dims, keepdims: _bool = False, dtype: Dtype = None, out: Tensor | None = None
) -> Tensor: ...
@overload
def nanmean(
    input: Tensor, dim: Dims = None, *, keepdims: _bool, dtype: Dtype = None, out: Tensor | None = None
) -> Tensor: ...
@overload
def nanmedian(input: Tensor, dim: None = None, keepdim: _bool = False, *, out: Tensor | None = None) -> Tensor: ...
@overload
def nanmedian(
    input: Tensor, dim: _int, keepdim: _bool = False, *, out: tuple[Tensor, Tensor] | None = None
) -> return_types.nanmedian: ...
@overload
def nanmedian(input: Tensor, *, axis: None, keepdims: _bool = False, out: Tensor | None = None) -> Tensor: ...
@overload
def nanmedian(input: Tensor, dim: None = None, *, keepdims: _bool, out: Tensor | None = None) -> Tensor: ...
@overload
def nanmedian(
    input: Tensor, *, axis: _int, keepdims: _bool = False, out: tuple[Tensor, Tensor] | None = None
) -> return_types.nanmedian: ...
@overload
def nanmedian(
    input: Tensor, dim: _int, *, keepdims: _bool, out: tuple[Tensor, Tensor] | None = None
) -> return_types.nanmedian: ...
@overload
def nanquantile(
    input: Tensor, q: _float | Tensor, dim: _int | None = None, keepdim: _bool = False, *, interpolation: str =
    'linear', out: Tensor | None = None
) -> Tensor: ...
@overload
def nanquantile(
    input: Tensor, q: _float | Tensor, *, axis: _int | None, keepdims: _bool = False, interpolation: str = 'linear',
    out: Tensor | None = None
) -> Tensor: ...
@overload
def nanquantile(
    input: Tensor, q: _float | Tensor, dim: _int | None = None, *, keepdims: _bool, interpolation: str = 'linear', out:
    Tensor | None = None
) -> Tensor: ...
@overload
def nansum(
    input: Tensor, dim: Dims = None, keepdim: _bool = False, *, dtype: Dtype = None, out: Tensor | None = None
) -> Tensor: ...
@overload
def nansum(
    input: Tensor, *, axis: Dims, keepdims: _bool = False, dtype: Dtype = None, out: Tensor | None = None
) -> Tensor: ...
@overload
def nansum(
    input: Tensor, dim: Dims = None, *, keepdims: _bool, dtype: Dtype = None, out: Tensor | None = None
) -> Tensor: ...
@overload
def narrow(input: Tensor, dim: _int, start: _int | Tensor, length: _int) -> Tensor: ...
@overload
def narrow(input: Tensor, *, axis: _int, start: _int | Tensor, length: _int) -> Tensor: ...
def neg_(self: Tensor) -> Tensor: ...
def negative_(self: Tensor) -> Tensor: ...
@overload
def norm(
    input: Tensor, p: str | _float | None = 'fro', dim: Dims = None, keepdim: _bool = False, dtype: Dtype = None, *,
    out: Tensor | None = None
) -> Tensor: ...
@overload
def norm(
    input: Tensor, p: str | _float | None = 'fro', *, axis: Dims, keepdims: _bool = False, dtype: Dtype = None, out:
    Tensor | None = None
) -> Tensor: ...
@overload
def norm(
    input: Tensor, p: str | _float | None = 'fro', dim: Dims = None, *, keepdims: _bool, dtype: Dtype = None, out:
    Tensor | None = None
) -> Tensor: ...
@overload
def prod(
    input: Tensor, dim: Dims = None, keepdim: _bool = False, *, dtype: Dtype = None, out: Tensor | None = None
) -> Tensor: ...
@overload
def prod(
    input: Tensor, *, axis: Dims, keepdims: _bool = False, dtype: Dtype = None, out: Tensor | None = None
) -> Tensor: ...
@overload
def prod(
    input: Tensor, dim: Dims = None, *, keepdims: _bool, dtype: Dtype = None, out: Tensor | None = None
) -> Tensor: ...
@overload
def quantile(
    input: Tensor, q: _float | Tensor, dim: _int | None = None, keepdim: _bool = False, *, interpolation: str =
    'linear', out: Tensor | None = None
) -> Tensor: ...
@overload
def quantile(
    input: Tensor, q: _float | Tensor, *, axis: _int | None, keepdims: _bool = False, interpolation: str = 'linear',
    out: Tensor | None = None
) -> Tensor: ...
@overload
def quantile(
    input: Tensor, q: _float | Tensor, dim: _int | None = None, *, keepdims: _bool, interpolation: str = 'linear', out:
    Tensor | None = None
) -> Tensor: ...
def rad2deg_(self: Tensor) -> Tensor: ...
def reciprocal_(self: Tensor) -> Tensor: ...
def relu_(self: Tensor) -> Tensor: ...
@overload
def renorm(input: Tensor, p: _float, dim: _int, maxnorm: _float, *, out: Tensor | None = None) -> Tensor: ...
@overload
def renorm(input: Tensor, p: _float, *, axis: _int, maxnorm: _float, out: Tensor | None = None) -> Tensor: ...
@overload
def repeat_interleave(
    input: Tensor, repeats: _int | Tensor | None = None, dim: _int | None = None, *, output_size: _int | None = None
) -> Tensor: ...
@overload
def repeat_interleave(
    input: Tensor, repeats: _int | Tensor | None = None, *, axis: _int | None, output_size: _int | None = None
) -> Tensor: ...
@overload
def roll(input: Tensor, shifts: _int | Sequence[_int], dims: Dims = None) -> Tensor: ...
@overload
def roll(input: Tensor, shifts: _int | Sequence[_int], *, axis: Dims) -> Tensor: ...
@overload
def rot90(input: Tensor, k: _int = 1, dims: Sequence[_int] = ...) -> Tensor: ...
@overload
def rot90(input: Tensor, k: _int = 1, *, axis: Sequence[_int]) -> Tensor: ...
def round_(self: Tensor, *, decimals: Number = 0) -> Tensor: ...
def rsqrt_(self: Tensor) -> Tensor: ...
@overload
def scatter(
    input: Tensor, dim: _int, index: Tensor, src: Tensor | Number | None = None, *, value: Number | None = None, reduce:
    str | None = None, out: Tensor | None = None
) -> Tensor: ...
@overload
def scatter(
    input: Tensor, *, axis: _int, index: Tensor, src: Tensor | Number | None = None, value: Number | None = None,
    reduce: str | None = None, out: Tensor | None = None
) -> Tensor: ...
@overload
def scatter_add(input: Tensor, dim: _int, index: Tensor, src: Tensor, *, out: Tensor | None = None) -> Tensor: ...
@overload
def scatter_add(input: Tensor, *, axis: _int, index: Tensor, src: Tensor, out: Tensor | None = None) -> Tensor: ...
@overload
def scatter_reduce(
    input: Tensor, dim: _int, index: Tensor, src: Tensor, reduce: str, *, include_self: _bool = True, out: Tensor | None
    = None
) -> Tensor: ...
@overload
def scatter_reduce(
    input: Tensor, *, axis: _int, index: Tensor, src: Tensor, reduce: str, include_self: _bool = True, out: Tensor |
    None = None
) -> Tensor: ...
@overload
def select(input: Tensor, dim: _int, index: _int | Tensor) -> Tensor: ...
@overload
def select(input: Tensor, *, axis: _int, index: _int | Tensor) -> Tensor: ...
@overload
def select_scatter(input: Tensor, src: Tensor, dim: _int, index: _int) -> Tensor: ...
@overload
def select_scatter(input: Tensor, src: Tensor, *, axis: _int, index: _int) -> Tensor: ...
def sigmoid_(self: Tensor) -> Tensor: ...
def sin_(self: Tensor) -> Tensor: ...
def sinh_(self: Tensor) -> Tensor: ...
@overload
def slice_scatter(
    input: Tensor, src: Tensor, dim: _int = 0, start: _int | None = None, end: _int | None = None, step: _int = 1, *,
    out: Tensor | None = None
) -> Tensor: ...
@overload
def slice_scatter(
    input: Tensor, src: Tensor, *, axis: _int, start: _int | None = None, end: _int | None = None, step: _int = 1, out:
    Tensor | None = None
) -> Tensor: ...
@overload
def softmax(input: Tensor, dim: _int, dtype: Dtype = None, *, out: Tensor | None = None) -> Tensor: ...
@overload
def softmax(input: Tensor, *, axis: _int, dtype: Dtype = None, out: Tensor | None = None) -> Tensor: ...
@overload
def sort(
    input: Tensor, dim: _int = -1, descending: _bool = False, stable: _bool = False, *, out: tuple[Tensor, Tensor] |
    None = None
) -> return_types.sort: ...
@overload
def sort(
    input: Tensor, *, axis: _int, descending: _bool = False, stable: _bool = False, out: tuple[Tensor, Tensor] | None =
    None
) -> return_types.sort: ...
@overload
def split(
    tensor: Tensor, split_size_or_sections: _int | Sequence[_int] | None = None, dim: _int = 0, *, split_size: _int |
    Sequence[_int] | None = None
) -> tuple[Tensor, ...]: ...
@overload
def split(
    tensor: Tensor, split_size_or_sections: _int | Sequence[_int] | None = None, *, axis: _int, split_size: _int |
    Sequence[_int] | None = None
) -> tuple[Tensor, ...]: ...
@overload
def split_with_sizes(input: Tensor, split_sizes: Sequence[_int], dim: _int = 0) -> tuple[Tensor, ...]: ...
@overload
def split_with_sizes(input: Tensor, split_sizes: Sequence[_int], *, axis: _int) -> tuple[Tensor, ...]: ...
def sqrt_(self: Tensor) -> Tensor: ...
def square_(self: Tensor) -> Tensor: ...
@overload
def squeeze(input: Tensor, dim: Dims = None) -> Tensor: ...
@overload
def squeeze(input: Tensor, *, axis: Dims) -> Tensor: ...
@overload
def stack(tensors: Tensors, dim: _int = 0, *, out: Tensor | None = None) -> Tensor: ...
@overload
def stack(tensors: Tensors, *, axis: _int, out: Tensor | None = None) -> Tensor: ...
@overload
def std(
    input: Tensor, dim: Dims = None, unbiased: _bool | None = None, keepdim: _bool = False, *, correction: _float | None
    = None, out: Tensor | None = None
) -> Tensor: ...
@overload
def std(
    input: Tensor, *, axis: Dims, unbiased: _bool | None = None, keepdims: _bool = False, correction: _float | None =
    None, out: Tensor | None = None
) -> Tensor: ...
@overload
def std(
    input: Tensor, dim: Dims = None, unbiased: _bool | None = None, *, keepdims: _bool, correction: _float | None =
    None, out: Tensor | None = None
) -> Tensor: ...
@overload
def std_mean(
    input: Tensor, dim: Dims = None, unbiased: _bool | None = None, keepdim: _bool = False, *, correction: _float | None
    = None, out: tuple[Tensor, Tensor] | None = None
) -> tuple[Tensor, Tensor]: ...
@overload
def std_mean(
    input: Tensor, *, axis: Dims, unbiased: _bool | None = None, keepdims: _bool = False, correction: _float | None =
    None, out: tuple[Tensor, Tensor] | None = None
) -> tuple[Tensor, Tensor]: ...
@overload
def std_mean(
    input: Tensor, dim: Dims = None, unbiased: _bool | None = None, *, keepdims: _bool, correction: _float | None =
    None, out: tuple[Tensor, Tensor] | None = None
) -> tuple[Tensor, Tensor]: ...
@overload
def sum(
    input: Tensor, dim: Dims = None, keepdim: _bool = False, *, dtype: Dtype = None, out: Tensor | None = None
) -> Tensor: ...
@overload
def sum(
    input: Tensor, *, axis: Dims, keepdims: _bool = False, dtype: Dtype = None, out: Tensor | None = None
) -> Tensor: ...
@overload
def sum(
    input: Tensor, dim: Dims = None, *, keepdims: _bool, dtype: Dtype = None, out: Tensor | None = None
) -> Tensor: ...
@overload
def take_along_dim(input: Tensor, indices: Tensor, dim: _int | None = None, *, out: Tensor | None = None) -> Tensor: ...
@overload
def take_along_dim(input: Tensor, indices: Tensor, *, axis: _int | None, out: Tensor | None = None) -> Tensor: ...
def tan_(self: Tensor) -> Tensor: ...
def tanh_(self: Tensor) -> Tensor: ...
@overload
def tensor_split(
    input: Tensor, indices_or_sections: _int | Sequence[_int] | Tensor, dim: _int = 0
) -> tuple[Tensor, ...]: ...
@overload
def tensor_split(
    input: Tensor, indices_or_sections: _int | Sequence[_int] | Tensor, *, axis: _int
) -> tuple[Tensor, ...]: ...
@overload
def tensordot(
    a: Tensor, b: Tensor, dims: _int | Tensor | Sequence[_int | Sequence[_int]] = 2, out: Tensor | None = None
) -> Tensor: ...
@overload
def tensordot(
    a: Tensor, b: Tensor, *, axis: _int | Tensor | Sequence[_int | Sequence[_int]], out: Tensor | None = None
) -> Tensor: ...
@overload
def topk(
    input: Tensor, k: _int, dim: _int = -1, largest: _bool = True, sorted: _bool = True, *, out: tuple[Tensor, Tensor] |
    None = None
) -> return_types.topk: ...
@overload
def topk(
    input: Tensor, k: _int, *, axis: _int, largest: _bool = True, sorted: _bool = True, out: tuple[Tensor, Tensor] |
    None = None
) -> return_types.topk: ...
@overload
def trapezoid(y: Tensor, x: Tensor | None = None, *, dx: _float | Tensor | None = None, dim: _int = -1) -> Tensor: ...
@overload
def trapezoid(y: Tensor, x: Tensor | None = None, *, dx: _float | Tensor | None = None, axis: _int) -> Tensor: ...
@overload
def trapz(y: Tensor, x: Tensor | None = None, *, dx: _float | Tensor | None = None, dim: _int = -1) -> Tensor: ...
@overload
def trapz(y: Tensor, x: Tensor | None = None, *, dx: _float | Tensor | None = None, axis: _int) -> Tensor: ...
def trunc_(self: Tensor) -> Tensor: ...
@overload
def unbind(input: Tensor, dim: _int = 0) -> tuple[Tensor, ...]: ...
@overload
def unbind(input: Tensor, *, axis: _int) -> tuple[Tensor, ...]: ...
@overload
def unflatten(input: Tensor, dim: _int, sizes: Shape) -> Tensor: ...
@overload
def unflatten(input: Tensor, *, axis: _int, sizes: Shape) -> Tensor: ...
@overload
def unique(
    input: Tensor, sorted: _bool = True, return_inverse: Literal[False] = False, return_counts: Literal[False] = False,
    dim: _int | None = None
) -> Tensor: ...
@overload
def unique(
    input: Tensor, sorted: _bool = True, *, return_inverse: Literal[True], return_counts: Literal[False] = False, dim:
    _int | None = None
) -> tuple[Tensor, Tensor]: ...
@overload
def unique(
    input: Tensor, sorted: _bool = True, return_inverse: Literal[False] = False, *, return_counts: Literal[True], dim:
    _int | None = None
) -> tuple[Tensor, Tensor]: ...
@overload
def unique(
    input: Tensor, sorted: _bool = True, *, return_inverse: Literal[True], return_counts: Literal[True], dim: _int |
    None = None
) -> tuple[Tensor, Tensor, Tensor]: ...
@overload
def unique(
    input: Tensor, sorted: _bool = True, return_inverse: _bool = False, return_counts: _bool = False, dim: _int | None =
    None
) -> Tensor | tuple[Tensor, ...]: ...
@overload
def unique(
    input: Tensor, sorted: _bool = True, return_inverse: Literal[False] = False, return_counts: Literal[False] = False,
    *, axis: _int | None
) -> Tensor: ...
@overload
def unique(
    input: Tensor, sorted: _bool = True, *, return_inverse: Literal[True], return_counts: Literal[False] = False, axis:
    _int | None
) -> tuple[Tensor, Tensor]: ...
@overload
def unique(
    input: Tensor, sorted: _bool = True, return_inverse: Literal[False] = False, *, return_counts: Literal[True], axis:
    _int | None
) -> tuple[Tensor, Tensor]: ...
@overload
def unique(
    input: Tensor, sorted: _bool = True, *, return_inverse: Literal[True], return_counts: Literal[True], axis: _int |
    None
) -> tuple[Tensor, Tensor, Tensor]: ...
@overload
def unique(
    input: Tensor, sorted: _bool = True, return_inverse: _bool = False, return_counts: _bool = False, *, axis: _int |
    None
) -> Tensor | tuple[Tensor, ...]: ...
@overload
def unique_consecutive(
    input: Tensor, return_inverse: Literal[False] = False, return_counts: Literal[False] = False, dim: _int | None =
    None
) -> Tensor: ...
@overload
def unique_consecutive(
    input: Tensor, return_inverse: Literal[True], return_counts: Literal[False] = False, dim: _int | None = None
) -> tuple[Tensor, Tensor]: ...
@overload
def unique_consecutive(
    input: Tensor, return_inverse: Literal[False] = False, *, return_counts: Literal[True], dim: _int | None = None
) -> tuple[Tensor, Tensor]: ...
@overload
def unique_consecutive(
    input: Tensor, return_inverse: Literal[True], return_counts: Literal[True], dim: _int | None = None
) -> tuple[Tensor, Tensor, Tensor]: ...
@overload
def unique_consecutive(
    input: Tensor, return_inverse: _bool = False, return_counts: _bool = False, dim: _int | None = None
) -> Tensor | tuple[Tensor, ...]: ...
@overload
def unique_consecutive(
    input: Tensor, return_inverse: Literal[False] = False, return_counts: Literal[False] = False, *, axis: _int | None
) -> Tensor: ...
@overload
def unique_consecutive(
    input: Tensor, return_inverse: Literal[True], return_counts: Literal[False] = False, *, axis: _int | None
) -> tuple[Tensor, Tensor]: ...
@overload
def unique_consecutive(
    input: Tensor, return_inverse: Literal[False] = False, *, return_counts: Literal[True], axis: _int | None
) -> tuple[Tensor, Tensor]: ...
@overload
def unique_consecutive(
    input: Tensor, return_inverse: Literal[True], return_counts: Literal[True], *, axis: _int | None
) -> tuple[Tensor, Tensor, Tensor]: ...
@overload
def unique_consecutive(
    input: Tensor, return_inverse: _bool = False, return_counts: _bool = False, *, axis: _int | None
) -> Tensor | tuple[Tensor, ...]: ...
@overload
def unsqueeze(input: Tensor, dim: _int) -> Tensor: ...
@overload
def unsqueeze(input: Tensor, *, axis: _int) -> Tensor: ...
@overload
def var(
    input: Tensor, dim: Dims = None, unbiased: _bool | None = None, keepdim: _bool = False, *, correction: _float | None
    = None, out: Tensor | None = None
) -> Tensor: ...
@overload
def var(
    input: Tensor, *, axis: Dims, unbiased: _bool | None = None, keepdims: _bool = False, correction: _float | None =
    None, out: Tensor | None = None
) -> Tensor: ...
@overload
def var(
    input: Tensor, dim: Dims = None, unbiased: _bool | None = None, *, keepdims: _bool, correction: _float | None =
    None, out: Tensor | None = None
) -> Tensor: ...
@overload
def var_mean(
    input: Tensor, dim: Dims = None, unbiased: _bool | None = None, keepdim: _bool = False, *, correction: _float | None
    = None, out: tuple[Tensor, Tensor] | None = None
) -> tuple[Tensor, Tensor]: ...
@overload
def var_mean(
    input: Tensor, *, axis: Dims, unbiased: _bool | None = None, keepdims: _bool = False, correction: _float | None =
    None, out: tuple[Tensor, Tensor] | None = None
) -> tuple[Tensor, Tensor]: ...
@overload
def var_mean(
    input: Tensor, dim: Dims = None, unbiased: _bool | None = None, *, keepdims: _bool, correction: _float | None =
    None, out: tuple[Tensor, Tensor] | None = None
) -> tuple[Tensor, Tensor]: ...
def xlogy_(self: Tensor, other: TensorLike) -> Tensor: ...
__version__: str
bool: dtype
uint8: dtype
uint16: dtype
uint32: dtype
uint64: dtype
int8: dtype
int16: dtype
int32: dtype
int64: dtype
float16: dtype
bfloat16: dtype
float32: dtype
float64: dtype
float8_e4m3fn: dtype
float8_e4m3fnuz: dtype
float8_e5m2: dtype
float8_e5m2fnuz: dtype
float8_e8m0fnu: dtype
complex32: dtype
complex64: dtype
complex128: dtype
short: dtype
int: dtype
long: dtype
half: dtype
float: dtype
double: dtype
chalf: dtype
cfloat: dtype
cdouble: dtype
qint8: dtype
qint32: dtype
quint8: dtype
quint4x2: dtype
quint2x4: dtype
BoolTensor: type[Tensor]
ByteTensor: type[Tensor]
CharTensor: type[Tensor]
ShortTensor: type[Tensor]
IntTensor: type[Tensor]
LongTensor: type[Tensor]
HalfTensor: type[Tensor]
BFloat16Tensor: type[Tensor]
FloatTensor: type[Tensor]
DoubleTensor: type[Tensor]
ComplexFloatTensor: type[Tensor]
ComplexDoubleTensor: type[Tensor]
UInt16Tensor: type[Tensor]
UInt32Tensor: type[Tensor]
UInt64Tensor: type[Tensor]
channels_last: memory_format
channels_last_3d: memory_format
contiguous_format: memory_format
jagged: layout
preserve_format: memory_format
sparse_bsc: layout
sparse_bsr: layout
sparse_coo: layout
sparse_csc: layout
sparse_csr: layout
strided: layout
legacy_contiguous_format: memory_format
inf: _float
nan: _float
pi: _float
e: _float
newaxis: None
