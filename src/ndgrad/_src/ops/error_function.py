"""The error function and related functions, from SciPy if it is installed, else from ndgrad._src.arrays.special."""

from __future__ import annotations

import importlib
import math
from typing import TYPE_CHECKING, Any

import numpy

from ndgrad._src.arrays import native_kernels
from ndgrad._src.arrays.host_fallback import wrap_for_host
from ndgrad._src.arrays.special_source import cast_to_promoted, special
from ndgrad._src.ops.table import elementwise

if TYPE_CHECKING:
    from ndgrad._typing import Library

_SLOPE = 2 / math.sqrt(math.pi)


#: Functions whose CuPy version differs from SciPy's: it does not take negative orders.
_DIFFERENT = frozenset(("yn",))


def _special(np: Library, name: str) -> Any:
    """Return scipy.special's function `name` for an array library. Functions missing in CuPy run on the host."""
    if np is numpy:
        return special(name)
    found = getattr(importlib.import_module("cupyx.scipy.special"), name, None)
    if found is None or name in _DIFFERENT:
        return wrap_for_host(np, special(name))
    return lambda *arguments: cast_to_promoted(found(*arguments), arguments)


erf = elementwise(
    "erf", native_kernels.with_kernel("erf")(lambda np, x: _special(np, "erf")(x)),
    x=lambda t, x, ops: t * (ops.exp(-x * x) * _SLOPE),
    kind="saturating",
)  # fmt: skip

erfc = elementwise(
    "erfc", native_kernels.with_kernel("erfc")(lambda np, x: _special(np, "erfc")(x)),
    x=lambda t, x, ops: t * (ops.exp(-x * x) * -_SLOPE),
    kind="saturating",
)  # fmt: skip

# The derivative of an inverse function is one over the derivative at its result.
erfinv = elementwise(
    "erfinv", native_kernels.with_kernel("erfinv")(lambda np, x: _special(np, "erfinv")(x)),
    x=lambda t, x, ops: t * (ops.exp(ops.square(ops.erfinv(x))) * (1 / _SLOPE)),
)  # fmt: skip
