"""Reductions of vectors and streams equal NumPy's; the error of a sum does not grow with its length."""

from __future__ import annotations

import ctypes
import math
from functools import cache
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite", reason="native code needs llvmlite")

from ndgrad._src.compiler.kernels import maths
from ndgrad._src.compiler.kernels.reductions import Place, Reduction, stream
from ndgrad._src.compiler.native.ir import TYPES, Function, Vector, module
from ndgrad._src.compiler.native.target import Code, host

NAMES = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}
DTYPES = ["int8", "uint32", "int64", "uint64", "float32", "float64"]
CASES = [*((name, dtype) for name in NAMES for dtype in DTYPES), ("any", "bool"), ("all", "bool")]
LANES = [1, 3, 8]


def stream_place(f, place, pointer, count, lanes):
    """Write the search for an extreme value among `count` > 0 elements, and return the index."""
    kind = place.kind
    first = f.load(Vector(kind), pointer)
    found = (first, "0")
    start = "0"
    if lanes > 1:
        type, indices = Vector(kind, lanes), Vector("i64", lanes)
        start = f.mul(f.div(count, lanes), lanes)
        value = f.carry(type, f.splat(first, type))
        index = f.carry(indices, indices.constant(0))
        order = "<" + ", ".join(f"i64 {k}" for k in range(lanes)) + ">"
        with f.loop(start, step=str(lanes), carried=[value, index]) as i:
            here = f.set(f"add {indices} {f.splat(i, indices)}, {order}")
            value.next, index.next = place.later(
                (value.name, index.name), f.load(type, f.address(kind, pointer, i)), here, lanes
            )
        found = place.across((value.name, index.name), lanes)
    value, index = f.carry(kind, found[0]), f.carry("i64", found[1])
    with f.loop(count, start, carried=[value, index]) as i:
        value.next, index.next = place.later(
            (value.name, index.name), f.load(Vector(kind), f.address(kind, pointer, i)), i, 1
        )
    return index.name


@cache
def compiled() -> Any:
    """Every reduction as a function of (pointer, count, result)."""
    functions = []
    for lanes in LANES:
        for name, dtype in CASES:
            f = Function(f"{name}.{dtype}.{lanes}", "ptr %x, i64 %n, ptr %out")
            f.store(Vector(TYPES[dtype]), stream(f, Reduction(f, name, dtype), "%x", "%n", lanes), "%out")
            f.returns()
            functions.append(f)
        for name in ("argmax", "argmin"):
            for dtype in ["bool", *DTYPES]:
                f = Function(f"{name}.{dtype}.{lanes}", "ptr %x, i64 %n, ptr %out")
                f.store(Vector("i64"), stream_place(f, Place(f, name, dtype), "%x", "%n", lanes), "%out")
                f.returns()
                functions.append(f)
    return Code(module([*functions, *maths.library([n for f in functions for n in f.needed], host())]))


def run(name: str, x: Any, lanes: int) -> Any:
    out = np.empty(1, np.int64 if name.startswith("arg") else x.dtype)
    called = compiled().function(f"{name}.{x.dtype.name}.{lanes}", None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p)
    called(x.ctypes.data, x.size, out.ctypes.data)
    return out[0]


def draw(dtype: str, n: int, r: np.random.Generator) -> Any:
    if dtype == "bool":
        return r.integers(0, 2, n).astype(bool)
    if dtype.startswith("float"):
        return r.standard_normal(n).astype(dtype)
    return r.integers(np.iinfo(dtype).min, np.iinfo(dtype).max, n, dtype, endpoint=True)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_a_reduction_is_numpys(name: str, dtype: str, lanes: int) -> None:
    r = np.random.default_rng(0)
    for n in (0, 1, 2, 5, 63, 64, 65, 1000):
        x = draw(dtype, n, r)
        if name in ("any", "all"):
            assert run(name, x, lanes) == getattr(x, name)()
            assert run(name, np.zeros(n, bool), lanes) == (name == "all" and n == 0)
            assert run(name, np.ones(n, bool), lanes) == (name == "all" or n > 0)
        elif n or name in ("sum", "prod"):
            expected = NAMES[name].reduce(x, dtype=dtype)
            np.testing.assert_allclose(run(name, x, lanes), expected, rtol=0 if dtype[0] != "f" else 1e-5 if dtype == "float32" else 1e-13)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", NAMES)
def test_a_nan_and_infinities_anywhere(name: str, dtype: str) -> None:
    for n in (1, 7, 70):
        for place in {0, n // 2, n - 1}:
            for value in (math.nan, math.inf, -math.inf):
                x = np.ones(n, dtype)
                x[place] = value
                for lanes in LANES:
                    np.testing.assert_equal(run(name, x, lanes), NAMES[name].reduce(x))
    both = np.array([math.inf, 1, -math.inf] * 20, dtype)
    with np.errstate(invalid="ignore"):
        np.testing.assert_equal(run(name, both, 8), NAMES[name].reduce(both))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_sums_of_many_have_the_error_of_a_block(dtype: str) -> None:
    r = np.random.default_rng(1)
    n = 200_003
    for x in (r.uniform(0, 1, n), r.standard_normal(n) * np.exp(r.standard_normal(n) * 5), np.full(n, 0.1)):
        x = x.astype(dtype)
        exact = math.fsum(x.tolist())
        size = math.fsum(np.abs(x).tolist())
        ours, numpys = abs(float(run("sum", x, 8)) - exact), abs(float(x.sum()) - exact)
        eps = float(np.finfo(dtype).eps)
        assert ours <= max(numpys, 2 * eps * size)  # all roundings of sixteen equal terms may go one way


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("dtype", ["bool", *DTYPES])
@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_places_are_those_of_the_first(name: str, dtype: str, lanes: int) -> None:
    r = np.random.default_rng(2)
    for n in (1, 2, 5, 16, 17, 100):
        for x in (draw(dtype, n, r), r.integers(0, 2, n).astype(dtype), np.zeros(n, dtype)):
            assert run(name, x, lanes) == getattr(x, name)()
            if dtype.startswith("float"):
                for where in ({n // 2}, {0}, {n - 1}, {n // 3, n // 2}):
                    y = x.copy()
                    y[list(where)] = math.nan
                    assert run(name, y, lanes) == getattr(y, name)()
                y = np.full(n, -math.inf if name == "argmax" else math.inf, dtype)
                assert run(name, y, lanes) == 0


def test_what_there_is_not_is_refused() -> None:
    f = Function("f", "")
    with pytest.raises(NotImplementedError, match="no reduction 'any' of float64"):
        Reduction(f, "any", "float64")
    with pytest.raises(NotImplementedError, match="no place 'argsort'"):
        Place(f, "argsort", "float64")
