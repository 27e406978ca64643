"""The names of families that are loaded when first used. Written by scripts/surface.py; do not edit."""

from __future__ import annotations

#: Family -> its functions.
_FUNCTIONS = {
    "random": (
        "_dirichlet_grad _sample_dirichlet _standard_gamma _standard_gamma_grad bernoulli binomial get_rng_state "
        "initial_seed manual_seed multinomial normal poisson rand rand_like randint randint_like randn randn_like "
        "randperm seed set_rng_state"
    ),
    "rearrange": "flip fliplr flipud repeat_interleave roll rot90 tile",
    "triangle": "diag diag_embed diagflat diagonal tril tril_indices triu triu_indices",
    "norm": "dist frobenius_norm norm norm_except_dim nuclear_norm renorm",
    "scan": "cumlogsumexp cummax cummin cumprod cumsum cumulative_trapezoid diff gradient logcumsumexp trapezoid trapz",
    "statistics": "bincount corrcoef cov histc median mode nanmedian nanquantile quantile std std_mean var var_mean",
    "dlpack": "from_dlpack",
    "einsum": "einsum tensordot",
    "matrix": (
        "cholesky cholesky_inverse cholesky_solve det inverse logdet lu lu_solve lu_unpack matrix_exp matrix_power "
        "orgqr pinverse qr slogdet svd triangular_solve vander"
    ),
    "gather": (
        "gather masked_fill masked_scatter masked_select put scatter scatter_add scatter_reduce take take_along_dim"
    ),
    "slices": (
        "as_strided_scatter diagonal_scatter embedding index_add index_copy index_fill index_put index_put_ "
        "index_reduce index_select select_scatter slice_scatter"
    ),
    "order": "argsort bucketize isin kthvalue msort searchsorted sort topk unique unique_consecutive",
    "gamma": "digamma i0 i0_ igamma igammac lgamma",
    "special": "mvlgamma polygamma",
    "copies": (
        "alias_copy as_strided_copy detach_copy diagonal_copy expand_copy narrow_copy permute_copy select_copy "
        "slice_copy split_copy split_with_sizes_copy squeeze_copy t_copy transpose_copy unbind_copy unfold_copy "
        "unsafe_chunk unsafe_split unsafe_split_with_sizes unsqueeze_copy view_as_complex_copy view_as_real_copy "
        "view_copy"
    ),
    "nonzero": "argwhere nonzero nonzero_static unravel_index",
    "histogram": "histogram histogramdd",
    "integer": "frexp gcd gcd_ lcm lcm_",
    "windows": "bartlett_window blackman_window hamming_window hann_window kaiser_window",
    "spectrum": "istft stft",
    "reflections": "geqrf ormqr",
    "low_rank": "lobpcg pca_lowrank svd_lowrank",
    "sparse": (
        "sparse_bsc_tensor sparse_bsr_tensor sparse_compressed_tensor sparse_coo_tensor sparse_csc_tensor "
        "sparse_csr_tensor"
    ),
    "sparse_parts": (
        "ccol_indices_copy col_indices_copy crow_indices_copy dsmm hsmm hspmm indices_copy resize_as_sparse_ "
        "row_indices_copy smm spmm sspaddmm values_copy"
    ),
    "segments": "segment_reduce",
    "names": "align_tensors",
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
        "gather masked_fill masked_fill_ masked_scatter masked_scatter_ masked_select put put_ scatter scatter_ "
        "scatter_add scatter_add_ scatter_reduce scatter_reduce_ take take_along_dim"
    ),
    "slices": (
        "as_strided_scatter diagonal_scatter index_add index_add_ index_copy index_copy_ index_fill index_fill_ "
        "index_put index_put_ index_reduce index_reduce_ index_select select_scatter slice_scatter"
    ),
    "order": "argsort kthvalue msort sort topk unique unique_consecutive",
    "gamma": "digamma digamma_ i0 i0_ igamma igamma_ igammac igammac_ lgamma lgamma_",
    "special": "mvlgamma mvlgamma_ polygamma polygamma_",
    "copies": "narrow_copy unsafe_chunk unsafe_split unsafe_split_with_sizes",
    "nonzero": "argwhere nonzero nonzero_static",
    "histogram": "histogram",
    "integer": "frexp gcd gcd_ lcm lcm_",
    "spectrum": "istft stft",
    "reflections": "geqrf ormqr",
    "sparse": "sparse_mask to_dense to_sparse to_sparse_bsc to_sparse_bsr to_sparse_coo to_sparse_csc to_sparse_csr",
    "sparse_parts": (
        "_coalesced_ _indices _nnz _values ccol_indices coalesce col_indices crow_indices dense_dim indices "
        "is_coalesced resize_as_sparse_ row_indices smm sparse_dim sparse_resize_ sparse_resize_and_clear_ sspaddmm "
        "values"
    ),
    "nested": "to_padded_tensor",
    "names": "align_as align_to has_names refine_names rename rename_",
}

#: Function -> its family.
FUNCTIONS = {name: family for family, names in _FUNCTIONS.items() for name in names.split()}
