"""Every function at the edges of double precision, beside torch; where the two differ, beside mpmath or a closed form.

tests/ops/test_extreme_values.py compares the shorter types with double precision.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import ndgrad
from tests.extreme_programs import BINARY, INF, REDUCTIONS, UNARY, extremes, far_apart, function, pairs, run, vectors
from tests.torch_parity.differences import deliberate

mp: Any = pytest.importorskip("mpmath")
pytestmark = pytest.mark.usefixtures("float64_torch")

RTOL = 1e-9
#: Functions near 1 or 0 whose error is that of 1, in torch too.
ABSOLUTE = {"sigmoid", "tanh", "expm1", "lgamma", "logaddexp2", "log_softmax along", "softmax along", "nn.functional.gelu"}
#: Functions of which torch's derivative at NaN is some number, or not the same for short and long tensors.
AT_NAN = (
    "abs sgn sign special.i1 special.i1e nn.functional.elu nn.functional.celu nn.functional.selu nn.functional.hardtanh "
    "nn.functional.hardshrink nn.functional.softshrink nn.functional.relu6 nn.functional.hardswish"
).split()


def normal(x: Any) -> Any:
    return mp.erfc(-x / mp.sqrt(2)) / 2


def density(x: Any) -> Any:
    return mp.exp(-x * x / 2) / mp.sqrt(2 * mp.pi)


def erfcx(x: Any) -> Any:
    """exp(x^2) erfc(x), by its expansion far out."""
    return mp.exp(x * x) * mp.erfc(x) if x < 1e3 else (1 - 1 / (2 * x * x)) / (x * mp.sqrt(mp.pi))


def erfcx_slope(x: Any) -> Any:
    return 2 * x * erfcx(x) - 2 / mp.sqrt(mp.pi) if x < 1e3 else (1.5 / (x * x) - 1) / (x * x * mp.sqrt(mp.pi))


def mills(x: Any) -> Any:
    """Density over distribution function."""
    return mp.sqrt(2 / mp.pi) / erfcx(-x / mp.sqrt(2))


def scaled_bessel(x: Any, sign: Any) -> Any:
    """The derivative of the scaled Bessel functions far out, where torch's cancels to nothing."""
    assert abs(x) > 1e100
    return sign / (2 * abs(x) * mp.sqrt(2 * mp.pi * abs(x)))


#: Right values where torch is wrong: (function, "value" or "gradient") -> the function of one mpmath number.
RIGHT: dict[tuple[str, str], Callable[[Any], Any]] = {
    ("nn.functional.hardsigmoid", "gradient"): lambda x: mp.mpf(1) / 6 if abs(x) < 3 else 0,
    ("nn.functional.hardswish", "value"): lambda x: x,
    ("nn.functional.softsign", "gradient"): lambda x: 1 / (1 + abs(x)) ** 2,
    ("nn.functional.tanhshrink", "gradient"): lambda x: mp.tanh(x) ** 2,
    ("lgamma", "value"): lambda x: -INF if x == -INF else mp.loggamma(x).real,  # as SciPy has it at minus infinity
    ("digamma", "gradient"): lambda x: INF if x == mp.floor(x) else mp.psi(1, x),
    ("special.ndtr", "value"): normal,
    ("special.log_ndtr", "gradient"): lambda x: INF if x < -1e308 else mills(x),  # the last of them overflows on the way
    ("nn.functional.gelu", "value"): lambda x: x * normal(x),
    ("nn.functional.gelu", "gradient"): lambda x: normal(x) + x * density(x),
    ("special.erfcx", "gradient"): lambda x: erfcx_slope(x),
    ("sinc", "gradient"): lambda x: -(mp.pi**2) * x / 3 if abs(x) < 1e-10 else mp.nan,
    ("special.i1", "gradient"): lambda x: INF if abs(x) > 1000 else mp.nan,
    ("special.i0e", "gradient"): lambda x: scaled_bessel(x, -mp.sign(x)),
    ("special.i1e", "gradient"): lambda x: scaled_bessel(x, -1),
    ("special.bessel_j0", "value"): lambda x: mp.besselj(0, x),
    ("special.bessel_j1", "value"): lambda x: mp.besselj(1, x),
    ("special.bessel_y0", "value"): lambda x: mp.bessely(0, x),
    ("special.bessel_y1", "value"): lambda x: mp.bessely(1, x),
}


def compare(name: str, columns: list[list[float]], got: Any, want: Any, right: Callable[..., Any] | None, skip_nan: bool = False) -> None:
    """Ours beside torch's; where they differ, beside what is right."""
    atol = 4e-16 if name in ABSOLUTE else 1e-300
    apart = far_apart(got, want, RTOL, atol)
    for i in np.flatnonzero(np.atleast_1d(apart)):
        point = [c[i] for c in columns]
        if skip_nan and any(math.isnan(p) for p in point):
            deliberate("extreme-numbers")
            continue
        ours, theirs = np.atleast_1d(got)[i], np.atleast_1d(want)[i]
        assert right is not None, f"{name} at {point}: {ours}, and torch has {theirs}"
        deliberate("extreme-numbers")
        with mp.workdps(60):
            exact = float(right(*(map(mp.mpf, point) if len(point) == 1 else point)))
        wrong = far_apart(np.float64(ours), np.float64(exact), RTOL, atol)
        assert not wrong, f"{name} at {point}: {ours}, torch has {theirs}, right is {exact}"


def on_both(program: Any, *columns: list[float]) -> tuple[Any, Any]:
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return run(ndgrad, program, "float64", *columns), run(torch, program, "float64", *columns)


@pytest.mark.parametrize("path", UNARY)
def test_function_of_one_number(path):
    x = [v for v in extremes(np.float64) if path != "sinc" or not abs(v) > 100]  # the rounding of pi x decides for larger numbers
    (value, (grad,)), (torch_value, (torch_grad,)) = on_both(lambda lib, t: function(lib, path)(t), x)
    compare(path, [x], value, torch_value, RIGHT.get((path, "value")), path in AT_NAN)
    if torch_grad is None:
        assert path.startswith("special."), path  # torch has no derivatives for these: "derivatives-beyond"
    else:
        compare(path, [x], grad, torch_grad, RIGHT.get((path, "gradient")), path in AT_NAN)


RIGHT_OF_TWO: dict[tuple[str, str], Callable[[Any, Any], Any]] = {
    ("remainder", "value"): lambda x, y: math.fmod(x, y) + (y if math.fmod(x, y) and (x < 0) != (y < 0) else 0),
    ("fmod", "value"): lambda x, y: math.fmod(x, y),
    ("copysign", "gradient"): lambda x, y: math.copysign(1, x) * math.copysign(1, y),
}


@pytest.mark.parametrize("path", BINARY)
def test_function_of_two_numbers(path):
    x, y = pairs()
    (value, grads), (torch_value, torch_grads) = on_both(lambda lib, a, b: function(lib, path)(a, b), x, y)
    compare(path, [x, y], value, torch_value, RIGHT_OF_TWO.get((path, "value")))
    for g, w in zip(grads, torch_grads, strict=True):
        compare(path, [x, y], g, w, RIGHT_OF_TWO.get((path, "gradient")))


# ----- functions of vectors -------------------------------------------------------------------------------------------------


def _norm(p: float) -> Callable[..., Any]:
    def both(x: list[Any]) -> tuple[Any, list[Any]]:
        n = sum(abs(v) ** p for v in x) ** (1 / mp.mpf(p))
        return [n], [mp.sign(v) * (abs(v) / n) ** (p - 1) for v in x]

    return both


def _logsumexp(x: list[Any]) -> tuple[Any, list[Any]]:
    top = max(x)
    total = sum(mp.exp(v - top) for v in x)
    return [top + mp.log(total)], [mp.exp(v - top) / total for v in x]


def _logcumsumexp(x: list[Any]) -> tuple[Any, list[Any]]:
    rows = [_logsumexp(x[: n + 1]) for n in range(len(x))]
    weights = np.linspace(1.0, 2.0, len(x))
    return [r[0][0] for r in rows], [sum(w * r[1][k] for w, r in zip(weights, rows, strict=True) if k < len(r[1])) for k in range(len(x))]


def _no_spread(x: list[Any]) -> tuple[Any, list[Any]]:
    assert len(set(x)) == 1
    return [0], [0] * len(x)


def _std(x: list[Any]) -> tuple[Any, list[Any]]:
    if len(set(x)) == 1:
        return _no_spread(x)
    mean = sum(x) / len(x)
    spread = mp.sqrt(sum((v - mean) ** 2 for v in x) / (len(x) - 1))
    return [spread], [(v - mean) / spread / (len(x) - 1) for v in x]


def _cosine(x: list[Any]) -> tuple[Any, list[Any]]:
    n, k = sum(v * v for v in x) ** mp.mpf(0.5), mp.sqrt(len(x))
    return [sum(x) / n / k], [(1 / n - sum(x) * v / n**3) / k for v in x]


RIGHT_OF_VECTORS: dict[str, Callable[[list[Any]], tuple[Any, list[Any]]]] = {
    "norm": _norm(2), "dist": lambda x: _norm(2)([v - 1 for v in x]), "cosine_similarity": _cosine,
    "logsumexp along": _logsumexp, "logcumsumexp along": _logcumsumexp,
    **dict.fromkeys(("var", "var along"), _no_spread), **dict.fromkeys(("std", "std along", "std_mean"), _std),
    **{f"norm of order {p}": _norm(p) for p in (2, 3, 7, -1, -3)}, "with_logits": lambda x: ([INF], [0.5 * mp.sign(v) for v in x]),
}  # fmt: skip


@pytest.mark.parametrize("kind", vectors(np.float64))
@pytest.mark.parametrize("name", REDUCTIONS)
def test_function_of_a_vector(name, kind):
    x = vectors(np.float64)[kind]
    (value, (grad,)), (torch_value, (torch_grad,)) = on_both(REDUCTIONS[name], x)
    for what, ours, theirs in (("value", value, torch_value), ("gradient", grad, torch_grad)):
        atol = 4e-16 if name in ABSOLUTE else 1e-300
        if name == "cosine_similarity" and what == "gradient":  # a difference of terms of the size 1 / |x|
            atol = max(atol, 4e-16 / max(math.hypot(*x), 1e-8))
        if not far_apart(ours, theirs, RTOL, atol).any():
            continue
        deliberate("extreme-numbers")
        if kind == "nan" and name.startswith("norm"):
            continue  # the derivative of abs at NaN, and "nan-extremes"
        if kind == "subnormal" and name.startswith(("norm", "std")):
            assert (ours != 0).all()  # a norm or spread of a bit or two allows no stricter test
            continue
        assert name in RIGHT_OF_VECTORS, f"{name} of {x}: {what} {ours}, and torch has {theirs}"
        with mp.workdps(60):
            exact = [float(v) for v in RIGHT_OF_VECTORS[name](list(map(mp.mpf, x)))[what == "gradient"]]
        wrong = far_apart(np.atleast_1d(ours), np.array(exact), RTOL, 1e-300)
        assert not wrong.any(), f"{name} of {x}: {ours}, torch {theirs}, right is {exact}"
