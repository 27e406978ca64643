"""Function transforms: grad, vjp, jvp, vmap, Jacobians and Hessians, composing to any depth."""

from __future__ import annotations

from typing import Any

_TRANSFORMS, _LOOPS = "ndgrad._src.transforms", "ndgrad._src.control_flow"
_HOMES = {
    **dict.fromkeys(
        ("chunk_vmap", "grad", "grad_and_value", "jvp", "value_and_grad", "vjp", "vmap"), f"{_TRANSFORMS}.transforms"
    ),
    "debug_unwrap": f"{_TRANSFORMS}.unwrap",
    "functionalize": f"{_TRANSFORMS}.functionalization",
    "rearrange": f"{_TRANSFORMS}.rearrange",
    "associative_scan": f"{_LOOPS}.associative",
    **dict.fromkeys(("cond", "fori_loop", "map", "scan", "while_loop"), f"{_LOOPS}.loops"),
    **dict.fromkeys(("hessian", "hvp", "jacfwd", "jacrev", "linearize"), f"{_TRANSFORMS}.jacobian"),
    **dict.fromkeys(
        ("functional_call", "replace_all_batch_norm_modules_", "stack_module_state"), "ndgrad.nn.utils.functional_call"
    ),
    **dict.fromkeys(
        ("SparseHessian", "SparseJacobian", "sparse_hessian", "sparse_jacobian"), f"{_TRANSFORMS}.sparsity.products"
    ),
    **dict.fromkeys(("derivatives", "jet"), f"{_TRANSFORMS}.taylor"),
}
__all__ = [*_HOMES]


def __getattr__(name: str) -> Any:
    """Load a name from its module on first use."""
    import importlib

    home = _HOMES.get(name)
    if home is None:
        from ndgrad._src.foundations.missing_names import refusal  # only for missing names

        raise refusal(__name__, name)
    value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
