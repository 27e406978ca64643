"""Dtypes of functions under autocast: torch's lists, by the functions' names.

    lower      the block's dtype: products and convolutions, which gain the most and sum in float32 anyway
    float32    for functions that lose too much in half precision: losses, decompositions, transforms
    widest     the widest floating dtype among its arguments, so that cat of float32 and bfloat16 works
    rounded    computed as it comes, and the result brought to the block's dtype: functions that end with a product of
               matrices, which torch runs in that dtype

Other functions run in the dtypes of their arguments, including forms that write (`addmm_`, `out=`). The list of the CPU
was found by running every function of torch 2.13 under autocast; that of GPUs is from torch's manual.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

_CPU = {
    "lower": """
        __matmul__ __rmatmul__ addbmm addmm baddbmm bmm chain_matmul conv1d conv2d conv3d conv_transpose1d
        conv_transpose2d conv_transpose3d einsum inner linalg_multi_dot linalg_vecdot linear matmul mm
        multi_head_attention_forward prelu scaled_dot_product_attention tensordot
    """,
    "float32": """
        adaptive_avg_pool3d adaptive_max_pool3d adaptive_max_pool3d_with_indices avg_pool3d binary_cross_entropy
        binary_cross_entropy_with_logits cdist cholesky cholesky_inverse cholesky_solve cosine_embedding_loss
        cross_entropy ctc_loss fft_fft fft_fft2 fft_fftn fft_hfft fft_ifft fft_ifft2 fft_ifftn fft_ihfft fft_irfft
        fft_irfft2 fft_irfftn fft_rfft fft_rfft2 fft_rfftn fractional_max_pool2d fractional_max_pool3d geqrf
        grid_sample grid_sampler grid_sampler_2d grid_sampler_3d hinge_embedding_loss huber_loss inverse kl_div
        l1_loss linalg_cholesky linalg_cholesky_ex linalg_cond linalg_eig linalg_eigh linalg_eigvals linalg_eigvalsh
        linalg_householder_product linalg_inv linalg_inv_ex linalg_lstsq linalg_matrix_rank linalg_qr linalg_solve
        linalg_solve_ex linalg_svd linalg_svdvals linalg_tensorinv linalg_tensorsolve linear_cross_entropy lu lu_solve
        margin_ranking_loss max_pool3d max_unpool1d max_unpool2d max_unpool3d mse_loss
        multi_margin_loss multilabel_margin_loss nanquantile nll_loss orgqr ormqr pad pinverse poisson_nll_loss polar
        prod
        qr quantile smooth_l1_loss soft_margin_loss stft svd trace triangular_solve triplet_margin_loss
        view_as_complex
    """,
    "widest": "cat index_copy stack",
    "rounded": "corrcoef cov linalg_matrix_power linalg_pinv",
}  # fmt: skip

_CUDA = {
    "lower": """
        __matmul__ __rmatmul__ addbmm addmm addmv addr baddbmm bmm chain_matmul conv1d conv2d conv3d conv_transpose1d
        conv_transpose2d conv_transpose3d einsum linalg_multi_dot linalg_vecdot linear matmul mm
        multi_head_attention_forward mv prelu scaled_dot_product_attention
    """,
    "float32": """
        __pow__ __rdiv__ __rpow__ __rtruediv__ acos asin binary_cross_entropy_with_logits cdist cosh
        cosine_embedding_loss cosine_similarity cross_entropy cumprod cumsum dist erfinv exp expm1 group_norm
        hinge_embedding_loss huber_loss kl_div l1_loss layer_norm log log10 log1p log2 log_softmax logsumexp
        margin_ranking_loss mse_loss multi_margin_loss multilabel_margin_loss nll_loss norm normalize pdist
        poisson_nll_loss pow prod reciprocal renorm rsqrt sinh smooth_l1_loss soft_margin_loss softmax softmin
        softplus sum tan triplet_margin_loss
    """,
    "widest": """
        addcdiv addcmul atan2 bilinear cat cross dot grid_sample index_copy index_put scatter_add
        stack tensordot
    """,
    "rounded": "",
}  # fmt: skip

#: Device -> function -> policy.
POLICIES: dict[str, dict[str, str]] = {
    device: {name: policy for policy, names in lists.items() for name in names.split()}
    for device, lists in (("cpu", _CPU), ("cuda", _CUDA))
}


#: Functions that compute with one tensor once, if it is given several times. A cast must keep that.
JOINT = frozenset(("multi_head_attention_forward",))
#: Names of the functions with a policy on any device.
LISTED = frozenset(name for lists in POLICIES.values() for name in lists)


def policy_of(device: str, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str | None:
    """Return the policy of a public function on a device under autocast; None if none applies."""
    if kwargs and kwargs.get("out") is not None:
        return None
    name = function.__name__
    policy = POLICIES[device].get(name)
    if policy is not None and name in _UNLESS and _UNLESS[name](args, kwargs):
        return None
    return policy


def _argument(position: int, name: str, default: Any) -> Callable[[tuple[Any, ...], dict[str, Any]], Any]:
    return lambda args, kwargs: args[position] if len(args) > position else kwargs.get(name, default)


_mode, _pad = _argument(2, "mode", "constant"), _argument(1, "pad", ())
_power, _indices = _argument(1, "n", 2), _argument(6, "return_indices", False)


def _multiplies_elements_only(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """True if an einsum sums over no dimension that two operands share: torch then multiplies elementwise, without a
    product of matrices.
    """
    if not isinstance(args[0], str):
        operands = [set(map(str, sublist)) for sublist in args[1::2]]
        kept = set(map(str, args[-1])) if len(args) % 2 else None
    else:
        left, arrow, right = args[0].replace(" ", "").partition("->")
        operands, kept = [set(part) - {"."} for part in left.split(",")], set(right) if arrow else None
    times = Counter(label for labels in operands for label in labels)
    return not any(count > 1 and (kept is None or label not in kept) for label, count in times.items())


#: Functions of the lists, and conditions on calls that are excluded.
_UNLESS: dict[str, Callable[[tuple[Any, ...], dict[str, Any]], Any]] = {
    "einsum": _multiplies_elements_only,
    "inner": lambda args, kwargs: max(a.ndim for a in (*args, *kwargs.values())) < 2,
    "linalg_matrix_power": lambda args, kwargs: -2 < _power(args, kwargs) < 2,
    "max_pool3d": _indices,
    # Modes that repeat, and those that mirror one or two dimensions.
    "pad": lambda args, kwargs: (
        _mode(args, kwargs) not in ("reflect", "replicate")
        or (_mode(args, kwargs) == "reflect" and len(_pad(args, kwargs)) > 4)
    ),
}
