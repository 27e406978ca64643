"""HIPS autograd's interface: a program only changes its imports.

    import ndgrad.compat.autograd.numpy as np
    from ndgrad.compat.autograd import grad

Functions take and return the same values: floats, ndarrays and nested lists, tuples and dicts of them. Inside a
differentiated function, values are Arrays. Submodules have HIPS autograd's names: `numpy`, `scipy`, `extend`,
`builtins`, `misc`, `test_util`.
"""

from __future__ import annotations

import importlib as _importlib
from typing import Any as _Any

from ndgrad.compat.autograd import boxes as _boxes
from ndgrad.compat.autograd.differential_operators import (
    checkpoint,
    deriv,
    elementwise_grad,
    grad,
    grad_and_aux,
    grad_named,
    hessian,
    hessian_tensor_product,
    hessian_vector_product,
    holomorphic_grad,
    jacobian,
    make_ggnvp,
    make_hvp,
    make_jvp,
    make_jvp_reversemode,
    make_vjp,
    multigrad_dict,
    tensor_jacobian_product,
    value_and_grad,
    vector_jacobian_product,
)
from ndgrad.compat.autograd.extend import primitive

egrad = elementwise_grad
_boxes.install()

_SUBMODULES = frozenset("builtins differential_operators extend misc numpy scipy test_util tracer".split())
#: Names of Python builtins that HIPS autograd exports too.
_BUILTINS = frozenset("dict isinstance list tuple type".split())

__all__ = [
    "checkpoint", "deriv", "egrad", "elementwise_grad", "grad", "grad_and_aux", "grad_named", "hessian",
    "hessian_tensor_product", "hessian_vector_product", "holomorphic_grad", "jacobian", "make_ggnvp", "make_hvp",
    "make_jvp", "make_jvp_reversemode", "make_vjp",
    "multigrad_dict", "primitive", "tensor_jacobian_product", "value_and_grad", "vector_jacobian_product",
    *sorted(_BUILTINS),
]  # fmt: skip


def __getattr__(name: str) -> _Any:
    if name in _SUBMODULES:
        return _importlib.import_module(f"ndgrad.compat.autograd.{name}")
    if name in _BUILTINS:
        return getattr(_importlib.import_module("ndgrad.compat.autograd.builtins"), name)
    raise AttributeError(f"module 'ndgrad.compat.autograd' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*__all__, *_SUBMODULES, *_BUILTINS})
