"""The names of families that are loaded when first used. Written by scripts/surface.py; do not edit."""

from __future__ import annotations

#: Family -> its functions.
_FUNCTIONS = {
    "random": (
        "_sample_dirichlet _standard_gamma bernoulli binomial get_rng_state initial_seed manual_seed multinomial "
        "normal poisson rand rand_like randint randint_like randn randn_like randperm seed set_rng_state"
    ),
    "rearrange": "flip fliplr flipud repeat_interleave roll rot90 tile",
    "triangle": "diag diag_embed diagflat diagonal tril tril_indices triu triu_indices",
    "norm": "dist norm renorm",
    "scan": "cumlogsumexp cummax cummin cumprod cumsum cumulative_trapezoid diff logcumsumexp trapezoid trapz",
    "statistics": "bincount corrcoef cov histc median mode nanmedian nanquantile quantile std std_mean var var_mean",
    "dlpack": "from_dlpack",
    "einsum": "einsum tensordot",
    "matrix": (
        "cholesky cholesky_inverse cholesky_solve det inverse logdet lu lu_solve lu_unpack matrix_exp matrix_power "
        "orgqr pinverse qr slogdet svd triangular_solve vander"
    ),
    "gather": (
        "argwhere gather masked_fill masked_scatter masked_select nonzero put scatter scatter_add scatter_reduce take "
        "take_along_dim"
    ),
    "slices": (
        "diagonal_scatter embedding index_add index_copy index_fill index_put index_put_ index_reduce index_select "
        "select_scatter slice_scatter"
    ),
    "order": "argsort bucketize isin kthvalue msort searchsorted sort topk unique unique_consecutive",
    "gamma": "digamma i0 i0_ igamma igammac lgamma",
    "special": "mvlgamma polygamma",
    "sparse": (
        "hspmm resize_as_sparse_ smm sparse_bsc_tensor sparse_bsr_tensor sparse_compressed_tensor sparse_coo_tensor "
        "sparse_csc_tensor sparse_csr_tensor sspaddmm"
    ),
}

#: Family -> its methods of tensors.
METHODS = {
    "random": "bernoulli bernoulli_ cauchy_ exponential_ geometric_ log_normal_ multinomial normal_ random_ uniform_",
    "rearrange": "flip fliplr flipud repeat repeat_interleave roll rot90 tile",
    "triangle": "diag diag_embed diagflat diagonal tril tril_ triu triu_",
    "norm": "dist norm renorm renorm_",
    "scan": "cumlogsumexp cummax cummin cumprod cumprod_ cumsum cumsum_ diff logcumsumexp",
    "statistics": "bincount corrcoef cov histc median mode nanmedian nanquantile quantile std var",
    "matrix": (
        "cholesky cholesky_inverse cholesky_solve det inverse logdet lu lu_solve matrix_exp matrix_power orgqr "
        "pinverse qr slogdet svd triangular_solve"
    ),
    "gather": (
        "argwhere gather masked_fill masked_fill_ masked_scatter masked_scatter_ masked_select nonzero put put_ "
        "scatter scatter_ scatter_add scatter_add_ scatter_reduce scatter_reduce_ take take_along_dim"
    ),
    "slices": (
        "diagonal_scatter index_add index_add_ index_copy index_copy_ index_fill index_fill_ index_put index_put_ "
        "index_reduce index_reduce_ index_select select_scatter slice_scatter"
    ),
    "order": "argsort kthvalue msort sort topk unique unique_consecutive",
    "gamma": "digamma digamma_ i0 i0_ igamma igamma_ igammac igammac_ lgamma lgamma_",
    "special": "mvlgamma mvlgamma_ polygamma polygamma_",
    "sparse": (
        "_coalesced_ _indices _nnz _values ccol_indices coalesce col_indices crow_indices dense_dim indices "
        "is_coalesced resize_as_sparse_ row_indices smm sparse_dim sparse_mask sparse_resize_ "
        "sparse_resize_and_clear_ sspaddmm to_dense to_sparse to_sparse_bsc to_sparse_bsr to_sparse_coo to_sparse_csc "
        "to_sparse_csr values"
    ),
}

#: Function -> its family.
FUNCTIONS = {name: family for family, names in _FUNCTIONS.items() for name in names.split()}
