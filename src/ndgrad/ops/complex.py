"""Complex numbers: parts, conjugates. Gradients follow torch's convention (the conjugate Wirtinger derivative)."""

from __future__ import annotations

from typing import Any

from ndgrad.ops.table import elementwise


def _conj(np: Any, x: Any) -> Any:
    return np.conjugate(x) if x.dtype.kind == "c" else x


conj = elementwise(
    "conj", _conj,
    vjp={"x": lambda g, ops: ops.conj(g)},
    jvp={"x": lambda t, ops: ops.conj(t)},
    inplace=False,
)  # fmt: skip

real = elementwise(
    "real", lambda np, x: x.real,
    vjp={"x": lambda g: g},
    jvp={"x": lambda t, ops: ops.real(t)},
    inplace=False,
)  # fmt: skip
