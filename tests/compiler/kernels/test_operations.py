"""Native code of every elementwise op equals what the op computes on NumPy, in every dtype that it is said to take."""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite", reason="native code needs llvmlite")

from tests.compiler.kernels.loops import TARGETS, Loops

from ndgrad._src.compiler.kernels import operations
from ndgrad._src.compiler.kernels.casts import cast
from ndgrad._src.compiler.native.ir import TYPES, Function
from ndgrad._src.compiler.native.target import host
from ndgrad._src.ops.table import table

OPERATIONS = operations.every_operation()

FLOATS = ("float32", "float64")
LANES = 4

#: Settings other than the defaults.
SETTINGS: dict[str, list[dict[str, Any]]] = {
    "addcmul": [{"value": 2}],
    "addcdiv": [{"value": 2}],
    "elu": [{"alpha": 1.5, "scale": 1.1, "input_scale": 0.7}],
    "gelu": [{"approximate": "tanh"}],
    "gelu_slope": [{"approximate": "tanh"}],
    "hardtanh": [{"min_val": -0.2, "max_val": 0.3}],
    "hardshrink": [{"lambd": 1.0}],
    "isclose": [{"equal_nan": True, "rtol": 0.1}],
    "leaky_relu": [{"negative_slope": 2.0}, {"negative_slope": -0.5}],
    "logit": [{"eps": 0.01}],
    "nan_to_num": [{"nan": 1.0, "posinf": 2.0, "neginf": 3.0}],
    "native_dropout": [{"scale": 1.25}],
    "round": [{"decimals": 2}, {"decimals": -1}],
    "slopes": [{"low": 0.2}, {"low": -2.0}],
    "smooth_l1": [{"beta": 0.3}],
    "softplus": [{"beta": 2.0, "threshold": 3.0}],
    "softplus_slope": [{"beta": 2.0, "threshold": 3.0}],
    "softshrink": [{"lambd": 0.1}],
    "threshold": [{"threshold": 0.1, "value": 7.0}],
}
SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan, 1, -1, 0.5, -0.5, 3, -3, 20.5, -20.5, 1e-3, -1e-3, 100.0, -100.0]


def forms(name: str, dtype: str) -> Iterator[dict[str, Any]]:
    yield {}
    if dtype in FLOATS or name == "addcmul":
        yield from SETTINGS.get(name, [])


@cache
def compiled(dtype: str, where: str) -> Loops:
    """All ops of a dtype."""
    loops = Loops(TARGETS[where]())
    for name, operation in OPERATIONS.items():
        if operations.supports(name, dtype):
            takes = ["bool" if i in operation.conditions else dtype for i in range(operation.operands)]
            for k, settings in enumerate(forms(name, dtype)):
                def write(f: Function, lanes: int, *values: str, name: str = name, settings: dict[str, Any] = settings) -> str:
                    return operations.emit(f, name, dtype, lanes, *values, **settings)

                loops.add(f"{name}.{k}", write, takes, operations.result(name, dtype), LANES)
    return loops.compiled()


def inputs(dtypes: list[str], r: np.random.Generator) -> list[Any]:
    """Random operands, followed by pairs of special ones."""
    columns = []
    for place, name in enumerate(dtypes):
        dtype = np.dtype(name)
        if dtype.kind == "b":
            columns.append(r.integers(0, 2, 700).astype(bool))
        elif dtype.kind == "f":
            special = np.meshgrid(SPECIAL, SPECIAL)[place].ravel() if place < 2 else r.permutation(np.repeat(SPECIAL, len(SPECIAL)))
            columns.append(np.concatenate([r.standard_normal(100) * 3, r.uniform(0, 1, 100), special]).astype(dtype))
        else:
            least, most = np.iinfo(dtype).min, np.iinfo(dtype).max
            small = np.meshgrid(*[np.arange(max(least, -9), 9)] * 2)[place % 2].ravel()
            edges = np.meshgrid(*[np.array([least, most, 0, 1, most - 1, least + 1, -1 if least else 2], dtype)] * 2)[place % 2].ravel()
            columns.append(np.concatenate([r.integers(least, most, 100, dtype, endpoint=True), small.astype(dtype), edges]))
    n = min(c.size for c in columns)
    return [c[:n] for c in columns]


def eager(name: str, columns: list[Any], settings: dict[str, Any]) -> Any:
    """The op's forward function on NumPy arrays."""
    op = table[name]
    forward = getattr(np, op.forward) if isinstance(op.forward, str) else op.forward
    takes_library = hasattr(forward, "__code__") and next(iter(inspect.signature(forward).parameters)) == "np"
    with np.errstate(all="ignore"):
        return np.asarray(forward(*([np] if takes_library else []), *columns, **{**op.settings, **settings}))


#: One of each width and sign is enough.
DTYPES = ["bool", "int8", "uint8", "uint16", "int32", "int64", "uint64", *FLOATS]
CASES = [(name, dtype) for name in OPERATIONS for dtype in DTYPES if operations.supports(name, dtype)]


@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_an_op_is_what_its_forward_computes(name: str, dtype: str) -> None:
    operation = OPERATIONS[name]
    takes = ["bool" if i in operation.conditions else dtype for i in range(operation.operands)]
    for k, settings in enumerate(forms(name, dtype)):
        columns = inputs(takes, np.random.default_rng(k))
        expected = eager(name, columns, settings)
        got = compiled(dtype, "host")(f"{name}.{k}", *columns)
        assert got.dtype == expected.dtype
        if dtype in FLOATS and got.dtype.kind == "f":
            # Formulas cancel for numbers of size 1, and SciPy's digamma loses digits next to its poles.
            tolerance = (16 if name != "digamma" else 256) * float(np.finfo(dtype).eps)
            same = np.isclose(got, expected, rtol=tolerance, atol=tolerance / 2, equal_nan=True)
        else:
            same = got == expected
        assert same.all(), (settings, [(tuple(c[i] for c in columns), got[i], expected[i]) for i in np.flatnonzero(~same)[:4]])


def test_numbers_stand_for_operands() -> None:
    loops = Loops(host())
    x = np.array([0.0, -0.0, 0.5, 2.0, -3.0, np.inf, -np.inf, np.nan])
    exponents = [0, 0.5, 1, 2, 3, 4, -0.5, -1, -2, 2.5, -7]
    for i, exponent in enumerate(exponents):
        loops.add(f"pow{i}", lambda f, lanes, v, e=exponent: operations.emit(f, "pow", "float64", lanes, v, e), ["float64"], "float64", 4)
    loops.add("above", lambda f, lanes, v: operations.emit(f, "gt", "int32", lanes, v, 3), ["int32"], "bool", 4)
    loops.add("picked", lambda f, lanes, v: operations.emit(f, "where", "float32", lanes, 1, v, 0.0), ["float32"], "float32", 4)
    loops.compiled()
    for i, exponent in enumerate(exponents):
        np.testing.assert_allclose(loops(f"pow{i}", x), eager("pow", [x, exponent], {}), rtol=4e-16)
    np.testing.assert_array_equal(loops("above", np.arange(8)), np.arange(8) > 3)
    np.testing.assert_array_equal(loops("picked", x), x.astype(np.float32))


def test_names_and_settings_are_the_op_tables() -> None:
    for name, operation in OPERATIONS.items():
        assert name in table
        assert operation.operands == len(table[name].args)
    for name, settings in SETTINGS.items():
        assert all(set(given) <= set(table[name].settings) for given in settings)


def test_an_op_without_native_code_is_refused() -> None:
    f = Function("f", "")
    assert not operations.supports("i0", "float64")
    assert not operations.supports("exp", "int32")
    assert not operations.supports("exp", "complex128")
    assert not operations.supports("sinc", "float64", order=1)
    with pytest.raises(NotImplementedError, match="exp has no native code in int32"):
        operations.emit(f, "exp", "int32", 4, "%x")
    with pytest.raises(TypeError, match="add takes 2 operands, but got 1"):
        operations.emit(f, "add", "int32", 4, "%x")


# ----- casts -----------------------------------------------------------------------------------------------------------------

BEYOND = [300.7, -300.7, 70000.5, -70000.5, 2.0**31, -(2.0**31), -(2.0**31) - 1, 2.0**31 - 1, 2.0**32, 2.0**32 - 1, 2.0**33 + 5, 2.0**63,
          2.0**63 + 2.0**40, -(2.0**63), 2.0**64, 1e19, -1.5, 1e30, -1e30, 0.9, -0.9, np.inf, -np.inf, np.nan, 0.0, -0.0]  # fmt: skip


@cache
def casts(where: str, lanes: int) -> Loops:
    loops = Loops(TARGETS[where]())
    for source in TYPES:
        for target in TYPES:
            def write(f: Function, lanes: int, value: str, source: str = source, target: str = target) -> str:
                return cast(f, value, source, target, lanes)

            loops.add(f"{source}.{target}", write, [source], target, lanes)
    return loops.compiled()


@pytest.mark.parametrize(("where", "lanes"), [("host", 8), ("plain", 1)])
def test_casts_are_numpys(where: str, lanes: int) -> None:
    r = np.random.default_rng(0)
    for source in TYPES:
        x = inputs([source], r)[0]
        fitting = np.ones(x.size, bool)
        if source in FLOATS:
            x = np.concatenate([x, np.array(BEYOND), r.uniform(-1e10, 1e10, 40)]).astype(source)
        for target in TYPES:
            with np.errstate(all="ignore"):
                expected = x.astype(target)
            got = casts(where, lanes)(f"{source}.{target}", x)
            same = (got == expected) | ((got != got) & (expected != expected))
            if source in FLOATS and target not in (*FLOATS, "bool"):  # beyond, NumPy's answers depend on how it was built
                least, most = np.iinfo(target).min, np.iinfo(target).max
                with np.errstate(invalid="ignore"):
                    fitting = (np.trunc(x) >= float(least)) & (np.trunc(x).astype(np.longdouble) <= most)
                same |= ~fitting
            assert same.all(), (source, target, [(x[i], got[i], expected[i]) for i in np.flatnonzero(~same)[:4]])


def test_floats_that_do_not_fit_have_one_value_each() -> None:
    x = np.array([np.nan, np.inf, -np.inf, 300.7, -1.0, 2.0**31, 2.0**32 + 4096, 2.0**63, 2.0**63 + 2.0**40, 1e30])
    i32, i64 = -(2**31), -(2**63)
    expected = {
        "int64": [i64, i64, i64, 300, -1, 2**31, 2**32 + 4096, i64, i64, i64],
        "int32": [i32, i32, i32, 300, -1, i32, i32, i32, i32, i32],
        "int8": [0, 0, 0, 44, -1, 0, 0, 0, 0, 0],
        "uint8": [0, 0, 0, 44, 255, 0, 0, 0, 0, 0],
        "uint32": [2**31, 0, 2**31, 300, 2**32 - 1, 2**31, 0, 0, 0, 0],
        "uint64": [2**63, 0, 2**63, 300, 2**64 - 1, 2**31, 2**32 + 4096, 2**63, 2**63 + 2**40, 0],
    }
    for where in TARGETS:
        for target, values in expected.items():
            assert casts(where, 8 if where == "host" else 1)(f"float64.{target}", x).tolist() == values, (where, target)


def test_the_normal_distribution_keeps_its_tail_in_single_precision() -> None:
    x = np.concatenate([np.linspace(-14.3, 8, 20_000), [0.0, -0.0, np.inf, -np.inf, 40.0, -40.0]]).astype(np.float32)
    exact = np.array([math.erfc(-float(v) / math.sqrt(2)) / 2 for v in x])
    found = compiled("float32", "host")("ndtr.0", x)
    units = np.abs(found - exact) / np.spacing(np.maximum(exact, np.finfo(np.float32).tiny).astype(np.float32))
    assert units.max() < 7
    assert np.isnan(compiled("float32", "host")("ndtr.0", np.array([np.nan], np.float32))).all()
