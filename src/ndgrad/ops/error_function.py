"""The error function and its kin, from SciPy where it is installed and else from NumPy (ndgrad.arrays.special)."""

from __future__ import annotations

import importlib
import math
from typing import Any

import numpy

from ndgrad.arrays.special_source import special
from ndgrad.ops.table import elementwise

_SLOPE = 2 / math.sqrt(math.pi)


def _special(np: Any, name: str) -> Any:
    return special(name) if np is numpy else getattr(importlib.import_module("cupyx.scipy.special"), name)


erf = elementwise(
    "erf", lambda np, x: _special(np, "erf")(x),
    x=lambda t, x, ops: t * (ops.exp(-x * x) * _SLOPE),
)  # fmt: skip

erfc = elementwise(
    "erfc", lambda np, x: _special(np, "erfc")(x),
    x=lambda t, x, ops: t * (ops.exp(-x * x) * -_SLOPE),
)  # fmt: skip

# The derivative of an inverse is one over the derivative, at the point it leads to.
erfinv = elementwise(
    "erfinv", lambda np, x: _special(np, "erfinv")(x),
    x=lambda t, x, ops: t * (ops.exp(ops.square(ops.erfinv(x))) * (1 / _SLOPE)),
)  # fmt: skip
