# Written by scripts/surface.py from the declarations of public functions. Do not edit.

from builtins import float as _float
from ndgrad import (
    array_api as array_api, autograd as autograd, compat as compat, fft as fft, func as func, implicit as implicit,
    library as library, linalg as linalg, nn as nn, numpy as numpy, ops as ops, optim as optim, overrides as overrides,
    profiler as profiler, random as random, scipy as scipy, special as special, testing as testing, utils as utils,
)
from ndgrad._tensor import Tensor as Tensor
from ndgrad._typing import Number as Number, TensorLike as TensorLike
from ndgrad.api.comparison import (
    allclose as allclose, equal as equal, isclose as isclose, isneginf as isneginf, isposinf as isposinf,
)
from ndgrad.api.convert import (
    clone as clone, is_conj as is_conj, is_neg as is_neg, resolve_conj as resolve_conj, resolve_neg as resolve_neg,
)
from ndgrad.api.creation import (
    arange as arange, empty as empty, empty_like as empty_like, empty_permuted as empty_permuted, empty_strided as
    empty_strided, eye as eye, full as full, full_like as full_like, linspace as linspace, logspace as logspace, ones as
    ones, ones_like as ones_like, range as range, zeros as zeros, zeros_like as zeros_like,
)
from ndgrad.api.data import (
    as_tensor as as_tensor, asarray as asarray, from_numpy as from_numpy, frombuffer as frombuffer, scalar_tensor as
    scalar_tensor, tensor as tensor,
)
from ndgrad.api.decomposition import householder_product as orgqr, lu_unpack as lu_unpack
from ndgrad.api.describe import (
    _is_all_true as _is_all_true, _is_any_true as _is_any_true, detach as detach, detach_ as detach_, get_device as
    get_device, get_num_interop_threads as get_num_interop_threads, get_num_threads as get_num_threads, is_complex as
    is_complex, is_floating_point as is_floating_point, is_inference as is_inference, is_nonzero as is_nonzero,
    is_same_size as is_same_size, is_signed as is_signed, is_tensor as is_tensor, numel as numel,
    set_num_interop_threads as set_num_interop_threads, set_num_threads as set_num_threads, typename as typename,
)
from ndgrad.api.dlpack import from_dlpack as from_dlpack
from ndgrad.api.einsum import einsum as einsum, tensordot as tensordot
from ndgrad.api.elementwise import (
    abs_ as abs_, abs_ as absolute_, add as add, celu as celu, celu_ as celu_, clamp as clamp, clamp as clip, clamp_ as
    clamp_, clamp_ as clip_, complex as complex, conj as conj, conj_physical as conj_physical, conj_physical_ as
    conj_physical_, div as div, div as divide, div as true_divide, float_power as float_power, hardshrink as hardshrink,
    imag as imag, logit as logit, logit_ as logit_, nan_to_num as nan_to_num, nan_to_num_ as nan_to_num_, polar as
    polar, positive as positive, real as real, rsub as rsub, selu as selu, selu_ as selu_, sign as sign, sinc as sinc,
    sinc_ as sinc_, sub as sub, sub as subtract, threshold as threshold, threshold_ as threshold_, where as where,
)
from ndgrad.api.extremum import (
    amax as amax, amin as amin, aminmax as aminmax, argmax as argmax, argmin as argmin, max as max, min as min,
)
from ndgrad.api.fill import fill as fill, fill_ as fill_, resize_as_ as resize_as_, zero_ as zero_
from ndgrad.api.gamma import digamma as digamma, i0 as i0, igamma as igamma, igammac as igammac, lgamma as lgamma
from ndgrad.api.gather import (
    argwhere as argwhere, gather as gather, masked_fill as masked_fill, masked_scatter as masked_scatter, masked_select
    as masked_select, nonzero as nonzero, put as put, scatter as scatter, scatter_add as scatter_add, scatter_reduce as
    scatter_reduce, take as take, take_along_dim as take_along_dim,
)
from ndgrad.api.join import (
    block_diag as block_diag, cartesian_prod as cartesian_prod, cat as cat, cat as concat, cat as concatenate,
    column_stack as column_stack, dstack as dstack, hstack as hstack, meshgrid as meshgrid, stack as stack, vstack as
    row_stack, vstack as vstack,
)
from ndgrad.api.linalg import (
    det as det, logdet as logdet, matrix_exp as matrix_exp, matrix_power as matrix_power, slogdet as slogdet,
)
from ndgrad.api.matrix import (
    cholesky as cholesky, cholesky_inverse as cholesky_inverse, cholesky_solve as cholesky_solve, inverse as inverse, lu
    as lu, lu_solve as lu_solve, pinverse as pinverse, qr as qr, svd as svd, triangular_solve as triangular_solve,
    vander as vander,
)
from ndgrad.api.norm import dist as dist, norm as norm, renorm as renorm
from ndgrad.api.order import (
    argsort as argsort, bucketize as bucketize, isin as isin, kthvalue as kthvalue, msort as msort, searchsorted as
    searchsorted, sort as sort, topk as topk, unique as unique, unique_consecutive as unique_consecutive,
)
from ndgrad.api.pointwise import (
    abs as abs, abs as absolute, acos as acos, acos as arccos, acosh as acosh, acosh as arccosh, addcdiv as addcdiv,
    addcmul as addcmul, angle as angle, asin as arcsin, asin as asin, asinh as arcsinh, asinh as asinh, atan as arctan,
    atan as atan, atan2 as arctan2, atan2 as atan2, atanh as arctanh, atanh as atanh, bitwise_and as bitwise_and,
    bitwise_left_shift as bitwise_left_shift, bitwise_not as bitwise_not, bitwise_or as bitwise_or, bitwise_right_shift
    as bitwise_right_shift, bitwise_xor as bitwise_xor, cbrt as cbrt, ceil as ceil, clamp_max as clamp_max, clamp_min as
    clamp_min, copysign as copysign, cos as cos, cosh as cosh, deg2rad as deg2rad, eq as eq, erf as erf, erfc as erfc,
    erfinv as erfinv, exp as exp, exp2 as exp2, expm1 as expm1, floor as floor, floor_divide as floor_divide, fmax as
    fmax, fmin as fmin, fmod as fmod, frac as frac, ge as ge, ge as greater_equal, gt as greater, gt as gt, heaviside as
    heaviside, hypot as hypot, isfinite as isfinite, isinf as isinf, isnan as isnan, isreal as isreal, ldexp as ldexp,
    le as le, le as less_equal, lerp as lerp, log as log, log10 as log10, log1p as log1p, log2 as log2, logaddexp as
    logaddexp, logaddexp2 as logaddexp2, logical_and as logical_and, logical_not as logical_not, logical_or as
    logical_or, logical_xor as logical_xor, lt as less, lt as lt, maximum as maximum, minimum as minimum, mul as mul,
    mul as multiply, ne as ne, ne as not_equal, neg as neg, neg as negative, nextafter as nextafter, pow as pow, rad2deg
    as rad2deg, reciprocal as reciprocal, relu as relu, remainder as remainder, round as round, rsqrt as rsqrt, sgn as
    sgn, sigmoid as sigmoid, signbit as signbit, sin as sin, sinh as sinh, sqrt as sqrt, square as square, tan as tan,
    tanh as tanh, trunc as fix, trunc as trunc, xlogy as xlogy,
)
from ndgrad.api.product import (
    addbmm as addbmm, addmm as addmm, addmv as addmv, addr as addr, baddbmm as baddbmm, bmm as bmm, cdist as cdist,
    chain_matmul as chain_matmul, cross as cross, dot as dot, inner as inner, kron as kron, matmul as matmul, mm as mm,
    mv as mv, outer as ger, outer as outer, pdist as pdist, trace as trace, vdot as vdot,
)
from ndgrad.api.random import (
    _sample_dirichlet as _sample_dirichlet, _standard_gamma as _standard_gamma, bernoulli as bernoulli, binomial as
    binomial, get_rng_state as get_rng_state, multinomial as multinomial, normal as normal, poisson as poisson, rand as
    rand, rand_like as rand_like, randint as randint, randint_like as randint_like, randn as randn, randn_like as
    randn_like, randperm as randperm, set_rng_state as set_rng_state,
)
from ndgrad.api.rearrange import (
    flip as flip, fliplr as fliplr, flipud as flipud, repeat_interleave as repeat_interleave, roll as roll, rot90 as
    rot90, tile as tile,
)
from ndgrad.api.reduce import (
    all as all, any as any, count_nonzero as count_nonzero, log_softmax as log_softmax, logsumexp as logsumexp, mean as
    mean, nanmean as nanmean, nansum as nansum, prod as prod, softmax as softmax, sum as sum,
)
from ndgrad.api.scan import (
    cummax as cummax, cummin as cummin, cumprod as cumprod, cumsum as cumsum, cumulative_trapezoid as
    cumulative_trapezoid, diff as diff, logcumsumexp as cumlogsumexp, logcumsumexp as logcumsumexp, trapezoid as
    trapezoid, trapezoid as trapz,
)
from ndgrad.api.shape import (
    adjoint as adjoint, atleast_1d as atleast_1d, atleast_2d as atleast_2d, atleast_3d as atleast_3d, broadcast_shapes
    as broadcast_shapes, broadcast_tensors as broadcast_tensors, broadcast_to as broadcast_to, flatten as flatten,
    moveaxis as moveaxis, movedim as movedim, permute as permute, ravel as ravel, reshape as reshape, squeeze as
    squeeze, swapaxes as swapaxes, swapdims as swapdims, t as t, transpose as transpose, unflatten as unflatten,
    unsqueeze as unsqueeze, view_as_complex as view_as_complex, view_as_real as view_as_real,
)
from ndgrad.api.slices import (
    diagonal_scatter as diagonal_scatter, embedding as embedding, index_add as index_add, index_copy as index_copy,
    index_fill as index_fill, index_put as index_put, index_put_ as index_put_, index_reduce as index_reduce,
    index_select as index_select, select_scatter as select_scatter, slice_scatter as slice_scatter,
)
from ndgrad.api.special import mvlgamma as mvlgamma, polygamma as polygamma
from ndgrad.api.split import (
    as_strided as as_strided, chunk as chunk, dsplit as dsplit, hsplit as hsplit, narrow as narrow, select as select,
    split as split, split_with_sizes as split_with_sizes, tensor_split as tensor_split, unbind as unbind, vsplit as
    vsplit,
)
from ndgrad.api.statistics import (
    bincount as bincount, corrcoef as corrcoef, cov as cov, histc as histc, median as median, mode as mode, nanmedian as
    nanmedian, nanquantile as nanquantile, quantile as quantile, std as std, std_mean as std_mean, var as var, var_mean
    as var_mean,
)
from ndgrad.api.tensor_types import set_default_tensor_type as set_default_tensor_type
from ndgrad.api.triangle import (
    diag as diag, diag_embed as diag_embed, diagflat as diagflat, diagonal as diagonal, tril as tril, tril_indices as
    tril_indices, triu as triu, triu_indices as triu_indices,
)
from ndgrad.arrays.memory import get_retained_memory as get_retained_memory, set_retained_memory as set_retained_memory
from ndgrad.autograd import (
    explain as explain, is_anomaly_check_nan_enabled as is_anomaly_check_nan_enabled, is_anomaly_enabled as
    is_anomaly_enabled,
)
from ndgrad.autograd.grad_mode import (
    enable_grad as enable_grad, inference_mode as inference_mode, is_grad_enabled as is_grad_enabled,
    is_inference_mode_enabled as is_inference_mode_enabled, no_grad as no_grad, set_grad_enabled as set_grad_enabled,
)
from ndgrad.devices import (
    device as device, get_default_device as get_default_device, layout as layout, memory_format as memory_format,
    set_default_device as set_default_device,
)
from ndgrad.dtypes import (
    can_cast as can_cast, dtype as dtype, finfo as finfo, get_default_dtype as get_default_dtype, iinfo as iinfo,
    promote_types as promote_types, result_type as result_type, set_default_dtype as set_default_dtype,
)
from ndgrad.func import vmap as vmap
from ndgrad.generator import (
    Generator as Generator, default_generator as default_generator, initial_seed as initial_seed, manual_seed as
    manual_seed, seed as seed,
)
from ndgrad.lifting.entry import lift as lift
from ndgrad.nn.functional import (
    adaptive_avg_pool1d as adaptive_avg_pool1d, adaptive_max_pool1d as adaptive_max_pool1d, alpha_dropout as
    alpha_dropout, avg_pool1d as avg_pool1d, batch_norm as batch_norm, bilinear as bilinear,
    binary_cross_entropy_with_logits as binary_cross_entropy_with_logits, channel_shuffle as channel_shuffle, conv1d as
    conv1d, conv2d as conv2d, conv3d as conv3d, conv_transpose1d as conv_transpose1d, conv_transpose2d as
    conv_transpose2d, conv_transpose3d as conv_transpose3d, cosine_embedding_loss as cosine_embedding_loss,
    cosine_similarity as cosine_similarity, dropout as dropout, embedding_bag as embedding_bag, feature_alpha_dropout as
    feature_alpha_dropout, group_norm as group_norm, hinge_embedding_loss as hinge_embedding_loss, instance_norm as
    instance_norm, kl_div as kl_div, layer_norm as layer_norm, margin_ranking_loss as margin_ranking_loss, max_pool1d as
    max_pool1d, max_pool2d as max_pool2d, max_pool3d as max_pool3d, pairwise_distance as pairwise_distance,
    pixel_shuffle as pixel_shuffle, pixel_unshuffle as pixel_unshuffle, poisson_nll_loss as poisson_nll_loss, prelu as
    prelu, rms_norm as rms_norm, rrelu as rrelu, triplet_margin_loss as triplet_margin_loss,
)
from ndgrad.printing import (
    get_printoptions as get_printoptions, printoptions as printoptions, set_printoptions as set_printoptions,
)
from ndgrad.serialization import load as load, save as save
from ndgrad.sizes import Size as Size
from ndgrad.storage import TypedStorage as TypedStorage, UntypedStorage as UntypedStorage, is_storage as is_storage

def acos_(self: Tensor) -> Tensor: ...
def acosh_(self: Tensor) -> Tensor: ...
def arccos_(self: Tensor) -> Tensor: ...
def arccosh_(self: Tensor) -> Tensor: ...
def arcsin_(self: Tensor) -> Tensor: ...
def arcsinh_(self: Tensor) -> Tensor: ...
def arctan_(self: Tensor) -> Tensor: ...
def arctanh_(self: Tensor) -> Tensor: ...
def asin_(self: Tensor) -> Tensor: ...
def asinh_(self: Tensor) -> Tensor: ...
def atan_(self: Tensor) -> Tensor: ...
def atanh_(self: Tensor) -> Tensor: ...
def ceil_(self: Tensor) -> Tensor: ...
def clamp_max_(self: Tensor, max: TensorLike) -> Tensor: ...
def clamp_min_(self: Tensor, min: TensorLike) -> Tensor: ...
def cos_(self: Tensor) -> Tensor: ...
def cosh_(self: Tensor) -> Tensor: ...
def deg2rad_(self: Tensor) -> Tensor: ...
def erf_(self: Tensor) -> Tensor: ...
def erfc_(self: Tensor) -> Tensor: ...
def exp2_(self: Tensor) -> Tensor: ...
def exp_(self: Tensor) -> Tensor: ...
def expm1_(self: Tensor) -> Tensor: ...
def fix_(self: Tensor) -> Tensor: ...
def floor_(self: Tensor) -> Tensor: ...
def frac_(self: Tensor) -> Tensor: ...
def i0_(self: Tensor) -> Tensor: ...
def ldexp_(self: Tensor, other: TensorLike) -> Tensor: ...
def log10_(self: Tensor) -> Tensor: ...
def log1p_(self: Tensor) -> Tensor: ...
def log2_(self: Tensor) -> Tensor: ...
def log_(self: Tensor) -> Tensor: ...
def neg_(self: Tensor) -> Tensor: ...
def negative_(self: Tensor) -> Tensor: ...
def rad2deg_(self: Tensor) -> Tensor: ...
def reciprocal_(self: Tensor) -> Tensor: ...
def relu_(self: Tensor) -> Tensor: ...
def round_(self: Tensor, *, decimals: Number = 0) -> Tensor: ...
def rsqrt_(self: Tensor) -> Tensor: ...
def sigmoid_(self: Tensor) -> Tensor: ...
def sin_(self: Tensor) -> Tensor: ...
def sinh_(self: Tensor) -> Tensor: ...
def sqrt_(self: Tensor) -> Tensor: ...
def square_(self: Tensor) -> Tensor: ...
def tan_(self: Tensor) -> Tensor: ...
def tanh_(self: Tensor) -> Tensor: ...
def trunc_(self: Tensor) -> Tensor: ...
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
complex64: dtype
complex128: dtype
short: dtype
int: dtype
long: dtype
half: dtype
float: dtype
double: dtype
cfloat: dtype
cdouble: dtype
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
inf: _float
nan: _float
pi: _float
e: _float
newaxis: None
