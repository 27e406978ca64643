"""Families of functions that are loaded when first used, since importing all would cost more than importing NumPy's half.

Their names stand here, so that a stub can take each function's and method's place until then; a test compares the lists with the files.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from ndgrad.api.install import install

#: File of ndgrad.api -> names of its functions, names of its methods.
FAMILIES: dict[str, tuple[str, str]] = {
    "random": (
        "_sample_dirichlet _standard_gamma bernoulli binomial get_rng_state initial_seed manual_seed multinomial normal poisson "
        "rand rand_like randint randint_like randn randn_like randperm seed set_rng_state",
        "bernoulli bernoulli_ cauchy_ exponential_ geometric_ log_normal_ multinomial normal_ random_ uniform_",
    ),
    "rearrange": (
        "flip fliplr flipud repeat_interleave roll rot90 tile",
        "flip fliplr flipud repeat repeat_interleave roll rot90 tile",
    ),
    "triangle": (
        "diag diag_embed diagflat diagonal tril tril_indices triu triu_indices",
        "diag diag_embed diagflat diagonal tril tril_ triu triu_",
    ),
    "norm": (
        "dist norm renorm",
        "dist norm renorm renorm_",
    ),
    "scan": (
        "cumlogsumexp cummax cummin cumprod cumsum cumulative_trapezoid diff logcumsumexp trapezoid trapz",
        "cumlogsumexp cummax cummin cumprod cumprod_ cumsum cumsum_ diff logcumsumexp",
    ),
    "statistics": (
        "bincount corrcoef cov histc median mode nanmedian nanquantile quantile std std_mean var var_mean",
        "bincount corrcoef cov histc median mode nanmedian nanquantile quantile std var",
    ),
    "dlpack": (
        "from_dlpack",
        "",
    ),
    "einsum": (
        "einsum tensordot",
        "",
    ),
    "matrix": (
        "cholesky cholesky_inverse cholesky_solve det inverse logdet lu lu_solve lu_unpack matrix_exp matrix_power orgqr "
        "pinverse qr slogdet svd triangular_solve vander",
        "cholesky cholesky_inverse cholesky_solve det inverse logdet lu lu_solve matrix_exp matrix_power orgqr pinverse qr "
        "slogdet svd triangular_solve",
    ),
    "gather": (
        "argwhere gather masked_fill masked_scatter masked_select nonzero put scatter scatter_add scatter_reduce take "
        "take_along_dim",
        "argwhere gather masked_fill masked_fill_ masked_scatter masked_scatter_ masked_select nonzero put put_ scatter "
        "scatter_ scatter_add scatter_add_ scatter_reduce scatter_reduce_ take take_along_dim",
    ),
    "slices": (
        "diagonal_scatter embedding index_add index_copy index_fill index_put index_put_ index_reduce index_select "
        "select_scatter slice_scatter",
        "diagonal_scatter index_add index_add_ index_copy index_copy_ index_fill index_fill_ index_put index_put_ index_reduce "
        "index_reduce_ index_select select_scatter slice_scatter",
    ),
    "order": (
        "argsort bucketize isin kthvalue msort searchsorted sort topk unique unique_consecutive",
        "argsort kthvalue msort sort topk unique unique_consecutive",
    ),
    "special": (
        "digamma i0 i0_ igamma igammac lgamma mvlgamma polygamma",
        "digamma digamma_ i0 i0_ igamma igamma_ igammac igammac_ lgamma lgamma_ mvlgamma mvlgamma_ polygamma polygamma_",
    ),
}


def install_stubs(namespace: dict[str, Any], tensor_class: type[Any]) -> None:
    """Put stubs where the families' functions and methods belong; calling any of them loads its family."""
    for family, (functions, methods) in FAMILIES.items():

        def load(family: str = family) -> None:
            install(importlib.import_module(f"ndgrad.api.{family}"), namespace, tensor_class)

        for name in functions.split():
            namespace[name] = _stub(name, load, namespace.__getitem__)
        for name in methods.split():
            setattr(tensor_class, name, _stub(name, load, lambda name: getattr(tensor_class, name)))


def _stub(name: str, load: Callable[[], None], find: Callable[[str], Any]) -> Callable[..., Any]:
    def stub(*args: Any, **kwargs: Any) -> Any:
        if find(name) is stub:
            load()
        return find(name)(*args, **kwargs)

    stub.__name__ = stub.__qualname__ = name
    return stub
