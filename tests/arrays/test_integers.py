"""Integers of 64 bits on platforms whose NumPy integer has 32 bits, simulated by a patched NumPy."""

from __future__ import annotations

import sys
import types

import numpy as np
import pytest
from tests.op_programs import SAMPLES

import ndgrad
from ndgrad import func
from ndgrad._src.arrays import integers
from ndgrad._src.ops import reduce, scan
from ndgrad._src.ops.table import RANDOM, table

NARROW = np.int32
#: Functions whose results have the platform's integer.
COUNTING = ("argmax", "argmin", "argsort", "argpartition", "argwhere", "flatnonzero", "lexsort", "nonzero", "searchsorted", "bincount")


def narrowed(made):
    if isinstance(made, tuple):
        return tuple(map(narrowed, made))
    return made.astype(NARROW) if getattr(made, "dtype", None) == np.int64 else made


def narrowing(function):
    return lambda *arguments, **options: narrowed(function(*arguments, **options))


def counting_of_narrow_places(places, *rest, **options):
    if np.asarray(places).dtype.itemsize > 4:
        raise TypeError("Cannot cast array data from dtype('int64') to dtype('int32') according to the rule 'safe'")
    return narrowed(np.bincount(places, *rest, **options))


def narrowed_again(given, made):
    return made if getattr(given, "dtype", None) == np.int64 else narrowed(made)


def keeping_values(given, made):
    """Results of numpy.unique: values in their own dtype, and positions in the platform's integers."""
    return (made[0], *map(narrowed, made[1:])) if isinstance(made, tuple) else made


def pretend_32_bits():
    """Patch NumPy to use 32 bits for positions and counts, and for ranges without a dtype."""
    library = types.ModuleType("numpy")
    library.__dict__.update(np.__dict__)
    for name in COUNTING:
        setattr(library, name, narrowing(getattr(np, name)))
    library.bincount = counting_of_narrow_places
    library.cumsum = lambda a, *rest, **k: np.cumsum(a, *rest, **k) if k or rest else narrowed_again(a, np.cumsum(a))
    library.full = lambda shape, value, dtype=None: narrowed(np.full(shape, value)) if dtype is None else np.full(shape, value, dtype)
    library.unique = lambda a, **k: keeping_values(a, np.unique(a, **k))
    library.arange = lambda *a, **k: np.arange(*a, **k) if "dtype" in k or len(a) > 3 else narrowed(np.arange(*a, **k))
    library.intp = NARROW
    return library


NAMES = [name for name in SAMPLES if name in table and table[name].batch is not RANDOM]


@pytest.mark.parametrize("part", range(4))
def test_results_of_ops_do_not_depend_on_the_integer_of_the_platform(part):
    library = pretend_32_bits()
    wrong = []
    for name in NAMES[part::4]:
        op = table[name]
        for sample in SAMPLES[name][:3]:
            if sample.prepare is not None or not callable(op.forward):
                continue
            made = []
            for np_ in (np, library):
                try:
                    out = op.forward(np_, *sample.args, **{**op.settings, **sample.settings})
                except Exception:  # a function that only NumPy itself has, or a refused sample
                    break
                made.append([getattr(o, "dtype", None) for o in (out if isinstance(out, tuple) else (out,))])
            if len(made) == 2 and made[0] != made[1]:
                wrong.append((name, *made))
    assert wrong == []


@pytest.mark.parametrize(("dtype", "expected"), [("?", "i8"), ("i1", "i8"), ("i4", "i8"), ("u1", "u8"), ("f4", None), ("c8", None)])
def test_integers_are_added_up_in_64_bits(dtype, expected, monkeypatch):
    monkeypatch.setattr(integers, "IS_NARROW", True)
    found = integers.choose_sum_dtype(np.dtype(dtype))
    assert found == (None if expected is None else np.dtype(expected))
    x = np.array([100, 100, 100]).astype(dtype)
    for made, plain in (
        (reduce.sum.forward(np, x, dim=(0,)), x.sum(0)),
        (reduce.sum_all.forward(np, x), x.sum()),
        (reduce.prod.forward(np, x, dim=(0,)), x.prod(0)),
        (scan.cumsum.forward(np, x, dim=0), x.cumsum(0)),
        (scan.cumprod.forward(np, x, dim=0), x.cumprod(0)),
    ):
        assert made.dtype == plain.dtype
        np.testing.assert_array_equal(made, plain)


# ----- sparse Jacobians ------------------------------------------------------------------------------------------------


def product_with_neighbour(x):
    return x[1:] * x[:-1] + 2 * x[1:]


@pytest.mark.parametrize("name", ["sparse_jacobian", "sparse_hessian"])
def test_sparse_derivatives_count_in_64_bits(monkeypatch, name):
    """Entries are numbered row by row, and 70,000 rows of as many columns have more of them than 32 bits can tell apart."""
    x = ndgrad.tensor(np.random.default_rng(0).standard_normal(70_000))
    f = product_with_neighbour if name == "sparse_jacobian" else lambda x: product_with_neighbour(x).sum()
    expected = getattr(func, name)(f, x)(x).tocoo()
    library = pretend_32_bits()
    for module in list(sys.modules.values()):
        if getattr(module, "__name__", "").startswith("ndgrad._src.transforms.sparsity.") or module is integers:
            if vars(module).get("np") is np:
                monkeypatch.setattr(module, "np", library)
            if "library_of" in vars(module):
                monkeypatch.setattr(module, "library_of", lambda array: library)
    found = getattr(func, name)(f, x)(x).tocoo()
    for part in ("row", "col", "data"):
        np.testing.assert_array_equal(getattr(found, part), getattr(expected, part))
