"""Formulas in CUDA C++ mean what the ops do: each line that is written is one operation, and is carried out here by NumPy."""

from __future__ import annotations

import re

import numpy as np
import pytest

from ndgrad._src.compiler.cuda.values import CudaWriter, has_formula
from ndgrad._src.compiler.kernels.maths.values import Mask, Real
from ndgrad._src.compiler.kernels.operations import compute, every_operation
from ndgrad._src.ops.table import table

special = pytest.importorskip("scipy.special")

FUNCTIONS = {
    "tanh": np.tanh, "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "atan2": np.arctan2, "pow": np.power,
    "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh, "sigmoid": special.expit, "erf": special.erf,
    "erfc": special.erfc, "erfinv": special.erfinv, "lgamma": special.gammaln, "normcdf": special.ndtr, "fabs": np.abs,
    "remainder_of": np.remainder, "floor_divided": np.floor_divide, "isnan": np.isnan, "nan": lambda _: np.float64("nan"),
    "double": np.float64, "fma": lambda a, b, c: a * b + c, "__int_as_float": lambda _: np.float64("inf"),
    **{n: getattr(np, n) for n in "exp exp2 expm1 log log2 log10 log1p sqrt cbrt hypot sin cos tan sinh cosh".split()},
    **{n: getattr(np, n) for n in "floor ceil trunc rint fmod nextafter copysign signbit".split()},
    "true": True,
}  # fmt: skip
#: Arguments of ops that take no others: between 0 and 1, beyond 1, booleans.
BETWEEN = frozenset("asin acos atanh erfinv logit binary_cross_entropy".split())
BEYOND = frozenset(("acosh",))
OPERATIONS = every_operation()


def carried_out(w: CudaWriter, given: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The values of all names after the lines of a writer."""
    names = dict(given)
    for line in w.lines:
        name, text = re.fullmatch(r"const \w+ (\w+) = (.*);", line).groups()
        choice = re.fullmatch(r"(\w+) \? (.*) : (.*)", text)
        text = f"where({choice[1]}, {choice[2]}, {choice[3]})" if choice else text
        text = text.replace("&&", "&").replace("||", "|").replace("!(", "~(")
        if "|" in text:  # | binds more closely in Python
            text = " | ".join(f"({part})" for part in text.split("|"))
        names[name] = eval(text, {"where": np.where, **FUNCTIONS}, names)
    return names


@pytest.mark.parametrize("name", sorted(name for name in OPERATIONS if has_formula(name)))
@pytest.mark.filterwarnings("ignore")
def test_the_lines_of_an_op_mean_what_the_op_does(name):
    operation, w = OPERATIONS[name], CudaWriter("double")
    op, random = table.get(name), np.random.default_rng(0)
    if op is None:
        pytest.skip("a word of rules, no op")
    arrays = []
    for place in range(operation.operands):
        x = random.standard_normal(40) * 2
        if name in BETWEEN:
            x = random.uniform(0.05, 0.95, 40)
        elif name in BEYOND or name == "lgamma":
            x = 1 + np.abs(x)
        elif name == "logical_not" or place in operation.conditions:
            x = x > 0
        else:
            x[:5] = [np.nan, 0.0, -0.0, np.inf, -np.inf]
        arrays.append(x)
    values = [(Mask if a.dtype == bool else Real)(w, f"x{i}") for i, a in enumerate(arrays)]
    made = compute(w, name, values, {})
    found = carried_out(w, {f"x{i}": a for i, a in enumerate(arrays)})[str(made)]
    expected = op.forward_for(np)(*arrays, **op.settings)
    assert isinstance(made, Mask) == (expected.dtype == bool)
    np.testing.assert_allclose(np.broadcast_to(found, expected.shape).astype(expected.dtype), expected, rtol=2e-7, atol=1e-9)


def test_a_mask_decides_nothing_in_python():
    w = CudaWriter("float")
    with pytest.raises(TypeError, match="choose"):
        bool(Real(w, "x") < 1.0)


@pytest.mark.parametrize("slope", [0.1, 3.0])
def test_a_slope_that_is_known_at_run_time_alone_may_be_steep(slope):
    w = CudaWriter("double")
    made = compute(w, "leaky_relu", [Real(w, "x")], {"negative_slope": Real(w, "p")})
    x = np.array([-2.0, -0.5, 0.0, 1.5])
    found = carried_out(w, {"x": x, "p": np.float64(slope)})[str(made)]
    np.testing.assert_array_equal(found, np.where(x > 0, x, slope * x))
