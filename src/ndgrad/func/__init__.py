"""Function transforms: grad, vjp, jvp, vmap, Jacobians and Hessians, composing to any depth."""

from __future__ import annotations

from typing import Any

_HOMES = {
    **dict.fromkeys(("chunk_vmap", "grad", "grad_and_value", "jvp", "vjp", "vmap"), "transforms"),
    "debug_unwrap": "unwrap",
    "functionalize": "functionalization",
    "rearrange": "patterns",
    "associative_scan": "associative",
    **dict.fromkeys(("cond", "fori_loop", "map", "scan", "while_loop"), "control_flow"),
    **dict.fromkeys(("hessian", "hvp", "jacfwd", "jacrev", "linearize"), "jacobian"),
    **dict.fromkeys(("functional_call", "replace_all_batch_norm_modules_", "stack_module_state"), "modules"),
    **dict.fromkeys(("SparseHessian", "SparseJacobian", "sparse_hessian", "sparse_jacobian"), "sparsity.products"),
    **dict.fromkeys(("derivatives", "jet"), "taylor"),
}
__all__ = [*_HOMES]


def __getattr__(name: str) -> Any:
    """Public names come from their files on first use: the core below imports this package and
    must not wait for them."""
    import importlib

    home = _HOMES.get(name)
    if home is None:
        from ndgrad._src.foundations.missing_names import refusal  # only for a name that is not there

        raise refusal(__name__, name)
    value = getattr(importlib.import_module(f"ndgrad.func.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
