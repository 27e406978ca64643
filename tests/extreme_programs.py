"""Functions and numbers for tests at the edges of every dtype: zeros of both signs, subnormal, tiny, huge and infinite numbers, NaN, equal
numbers, and the points where formulas change.

The functions are named by their path in torch, so that tests of the comparison can run them there as well.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ndgrad._src.arrays.precision import finfo

NAN, INF = math.nan, math.inf

_F = "nn.functional."
_S = "special."
#: Elementwise functions of one argument.
UNARY = (
    "abs acos acosh angle asin asinh atan atanh ceil cos cosh deg2rad digamma erf erfc erfinv exp exp2 expm1 floor frac i0 lgamma log "
    "log10 log1p log2 logit nan_to_num neg rad2deg reciprocal relu round rsqrt sgn sigmoid sign sin sinc sinh sqrt square tan tanh trunc"
).split()
UNARY += [_F + n for n in (
    "celu elu gelu hardshrink hardsigmoid hardswish hardtanh leaky_relu logsigmoid mish relu6 selu silu softplus softshrink softsign "
    "tanhshrink"
).split()]  # fmt: skip
UNARY += [_S + n for n in "bessel_j0 bessel_j1 bessel_y0 bessel_y1 entr erfcx i0e i1 i1e log_ndtr ndtr ndtri".split()]
UNARY += [_S + n for n in "modified_bessel_k0 modified_bessel_k1 scaled_modified_bessel_k0 scaled_modified_bessel_k1".split()]
#: Elementwise functions of two.
BINARY = (
    "add sub mul div pow atan2 hypot logaddexp logaddexp2 copysign fmax fmin maximum minimum xlogy special.xlog1py remainder fmod ldexp"
).split()


def function(lib: Any, path: str) -> Any:
    for name in path.split("."):
        lib = getattr(lib, name)
    return lib


def extremes(dtype: Any) -> list[float]:
    """Numbers at the edges of a dtype, on both sides of 0."""
    f = finfo(np.dtype(dtype))
    subnormal, tiny, eps, largest = (float(v) for v in (f.smallest_subnormal, f.tiny, f.eps, f.max))
    some = [0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 6.0, 10.0, 20.0, 88.0, 100.0, 700.0, 10000.0]
    positive = [0.0, subnormal, tiny, eps, *some, 1 - eps / 2, 1 + eps, largest**0.5, largest / 4, largest, INF]
    return [*positive, *(-v for v in positive), NAN]


def pairs() -> tuple[list[float], list[float]]:
    """All pairs of some numbers of double precision."""
    v = [0.0, 5e-324, 1e-310, 2.3e-308, 1e-200, 1e-16, 0.5, 1.0, 1.5, 2.0, 3.0, 20.0, 1e16, 1e200, 1.7e308, INF]
    v = [*v, *(-a for a in v), NAN]
    return [a for a in v for _ in v], [b for _ in v for b in v]


#: Vectors, in terms of the largest number of the dtype to the powers 2/3 and -2/3, which squares do not survive.
def vectors(dtype: Any) -> dict[str, list[float]]:
    f = finfo(np.dtype(dtype))
    largest, tiny, subnormal, eps = float(f.max), float(f.tiny), float(f.smallest_subnormal), float(f.eps)
    huge, small, whole = largest**0.625, tiny**0.625, 4 / eps
    return {
        "equal": [0.1] * 3, "equal7": [0.7] * 7, "huge": [huge, 2 * huge, -huge], "small": [small, 2 * small, -small],
        "subnormal": [subnormal, 2 * subnormal], "zeros": [0.0, 0.0], "zeros of both signs": [-0.0, 0.0], "inf": [INF, 1.0, 2.0],
        "-inf": [-INF, 1.0, 2.0], "infs": [INF, INF], "-infs": [-INF, -INF], "both": [INF, -INF, 1.0], "nan": [NAN, 1.0, 2.0],
        "one": [2.5], "whole": [whole] * 3, "ties": [2.0, 2.0, 1.0], "one zero": [0.0, 2.0, 3.0], "two zeros": [0.0, 0.0, 3.0],
        "far": [1000.0, -1000.0, 0.0],
    }  # fmt: skip


Program = Callable[[Any, Any], Any]


def _of_vector(path: str, *args: Any, **kwargs: Any) -> Program:
    return lambda lib, x: function(lib, path)(x, *args, **kwargs)


#: Functions of a vector.
REDUCTIONS: dict[str, Program] = {
    **{name: _of_vector(name) for name in "sum mean amax amin max min median nansum nanmean var std norm".split()},
    **{n + " along": _of_vector(n, 0) for n in "sum mean amax amin var std logsumexp softmax log_softmax cumsum logcumsumexp".split()},
    **{f"norm of order {p}": _of_vector("linalg.vector_norm", p) for p in (0.5, 1, 2, 3, 7, -1, -3, INF, -INF)},
    "std_mean": lambda lib, x: lib.std_mean(x)[0],
    "dist": lambda lib, x: lib.dist(x, x.detach() * 0.0 + 1.0),
    "cross_entropy": lambda lib, x: lib.nn.functional.cross_entropy(x[None], lib.tensor([0])),
    "mse_loss": lambda lib, x: lib.nn.functional.mse_loss(x, lib.ones_like(x)),
    "huber_loss": lambda lib, x: lib.nn.functional.huber_loss(x, lib.ones_like(x)),
    "with_logits": lambda lib, x: lib.nn.functional.binary_cross_entropy_with_logits(x, lib.ones_like(x) * 0.5),
    "cosine_similarity": lambda lib, x: lib.nn.functional.cosine_similarity(x, lib.ones_like(x), 0),
    "sort": lambda lib, x: lib.sort(x)[0],
    "cummax": lambda lib, x: lib.cummax(x, 0)[0],
    "matmul": lambda lib, x: x[None] @ x[:, None],
    "clamp": lambda lib, x: x.clamp(-1.0, 1.0),
}


def run(lib: Any, program: Callable[..., Any], dtype: str, *columns: list[float]) -> tuple[Any, list[Any]]:
    """Values of a program, and gradients of its arguments with respect to a weighted sum of them, as float64 arrays (None for none)."""
    tensors = [lib.tensor(np.array(c), dtype=lib.float64).to(getattr(lib, dtype)).requires_grad_() for c in columns]
    out = program(lib, *tensors)
    grads: Any = [None] * len(tensors)
    if out.requires_grad:
        shape = tuple(out.shape)
        weights = np.linspace(1.0, 2.0, math.prod(shape)).reshape(shape) if len(columns[0]) < 10 else np.ones(shape)
        grads = lib.autograd.grad(out, tensors, lib.tensor(weights).to(out.dtype), allow_unused=True)
    assert str(out.dtype).endswith(dtype), f"the result is {out.dtype}"
    return _array(out.detach()), [None if g is None else _array(g) for g in grads]


def _array(t: Any) -> Any:
    if getattr(t, "_is_zerotensor", bool)():  # one of torch's without memory
        return np.zeros(tuple(t.shape))
    return t.double().numpy()


def far_apart(a: Any, b: Any, rtol: float, atol: float = 0.0) -> np.ndarray:
    """Return a mask of differences of two arrays: more than rounding, or NaN or infinity in one of them."""
    a, b = np.broadcast_arrays(a, b)
    with np.errstate(all="ignore"):
        close = (np.abs(a - b) <= rtol * np.maximum(np.abs(a), np.abs(b)) + atol) & np.isfinite(a) & np.isfinite(b)
    return ~(close | (a == b) | (np.isnan(a) & np.isnan(b)))
