"""ndgrad's dtype objects: torch's attributes on the outside, NumPy's dtypes to NumPy."""

from __future__ import annotations

import copy
import itertools
import os
import pickle
import subprocess
import sys

import numpy as np
import pytest

from ndgrad._src.arrays import dtypes
from ndgrad._src.arrays.dtypes import (
    ALIASES,
    as_dtype,
    as_numpy_dtype,
    bfloat16,
    bool_,
    can_cast,
    complex64,
    complex128,
    dtype,
    finfo,
    float16,
    float32,
    float64,
    get_default_complex_dtype,
    get_default_dtype,
    iinfo,
    int8,
    int16,
    int32,
    int64,
    promote_types,
    result_type,
    set_default_dtype,
    uint8,
    uint16,
    uint32,
    uint64,
)
from tests.naming import stable_id

UNSIGNED = [uint8, uint16, uint32, uint64]
SIGNED = [int8, int16, int32, int64]
FLOATING = [float16, float32, float64]
COMPLEX = [complex64, complex128]
NATIVE = [bool_, *UNSIGNED, *SIGNED, *FLOATING, *COMPLEX]
ALL = [*NATIVE, bfloat16]


# ----- equality and NumPy -----------------------------------------------------------------------------------


@pytest.mark.parametrize("d", NATIVE, ids=stable_id)
def test_equals_and_hashes_like_the_numpy_dtype(d: dtype) -> None:
    n = np.dtype(d.name)
    assert d == n
    assert n == d
    assert d == n.type
    assert n.type == d
    assert d == d.name
    assert hash(d) == hash(n)
    assert {d: "found"}[n] == {n: "found"}[d] == "found"
    assert n in {d}
    assert d in {n}
    assert d in [n]


def test_different_dtypes_are_unequal() -> None:
    for a, b in itertools.permutations(ALL, 2):
        assert a != b
        if b is not bfloat16:
            assert a != b.numpy
            assert b.numpy != a


def test_equality_follows_numpy_for_byte_order_and_python_types() -> None:
    swapped = np.dtype("f8").newbyteorder()
    assert float64 != swapped
    for d, python_type in [(float64, float), (int64, int), (complex128, complex), (bool_, bool)]:
        assert d == python_type
        assert python_type == d
        assert float32 != python_type


@pytest.mark.parametrize("other", [None, 8, object(), [float64], "nonsense", dict], ids=stable_id)
def test_is_unequal_to_what_is_no_dtype(other: object) -> None:
    assert float64 != other
    assert other != float64


@pytest.mark.parametrize("d", NATIVE, ids=stable_id)
def test_numpy_takes_it_wherever_it_takes_a_dtype(d: dtype) -> None:
    n = np.dtype(d.name)
    assert np.zeros(3, dtype=d).dtype == n
    assert np.zeros(3, "i4").astype(d).dtype == n
    assert np.array([1, 0], d).dtype == n
    assert np.dtype(d) is n
    assert np.promote_types(d, np.int8) == np.promote_types(n, np.int8)
    assert np.issubdtype(d, np.generic)
    assert np.add(1, 1, dtype=d).dtype == n if d is not bool_ else True


# ----- identity ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("d", ALL, ids=stable_id)
def test_copies_and_pickles_are_the_same_object(d: dtype) -> None:
    assert copy.copy(d) is d
    assert copy.deepcopy([d])[0] is d
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        assert pickle.loads(pickle.dumps(d, protocol)) is d


def test_prints_with_the_package_name() -> None:
    assert [repr(d) for d in ALL] == [f"ndgrad.{d.name}" for d in ALL]
    assert str(bool_) == "ndgrad.bool"


def test_aliases_are_torchs_and_attributes_of_the_module() -> None:
    widths = {"short": 2, "int": 4, "long": 8, "half": 2, "float": 4, "double": 8}
    widths |= {"chalf": 4, "cfloat": 8, "cdouble": 16}
    assert {name: d.itemsize for name, d in ALIASES.items()} == {**widths, "bool": 1}
    for name, d in ALIASES.items():
        assert getattr(dtypes, name) is d
    with pytest.raises(AttributeError, match="float128"):
        dtypes.float128


# ----- attributes -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("d", NATIVE, ids=stable_id)
def test_attributes_agree_with_numpy(d: dtype) -> None:
    n = np.dtype(d.name)
    assert d.numpy is n
    assert d.itemsize == n.itemsize
    assert d.is_floating_point == np.issubdtype(n, np.floating)
    assert d.is_complex == np.issubdtype(n, np.complexfloating)
    assert d.is_signed == (n.kind in "ifc")
    assert d.to_real() == np.zeros(1, n).real.dtype


def test_to_complex_holds_the_real_type() -> None:
    assert [d.to_complex() for d in FLOATING] == [complex64, complex64, complex128]
    assert [d.to_complex() for d in COMPLEX] == COMPLEX
    assert bfloat16.to_complex() is complex64
    with pytest.raises(RuntimeError, match=r"ndgrad\.int8 has no complex counterpart.*convert to a floating"):
        int8.to_complex()


# ----- conversion -------------------------------------------------------------------------------------------


class TorchLike:
    """Prints as torch's dtypes do; named `dtype` below as theirs is."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


TorchLike.__name__ = "dtype"


@pytest.mark.parametrize(
    ("spelling", "expected"),
    [
        (float, float64),
        (int, int64),
        (bool, bool_),
        (complex, complex128),
        ("float32", float32),
        ("f4", float32),
        ("float", float64),
        ("long", int64),
        ("half", float16),
        ("?", bool_),
        ("ndgrad.float32", float32),
        ("ndgrad.float", float32),
        ("torch.float", float32),
        ("torch.complex64", complex64),
        (TorchLike("torch.int16"), int16),
        (TorchLike("torch.bool"), bool_),
        (np.float32, float32),
        (np.intp, int64),
        (np.longlong, int64),
        (np.dtype("c8"), complex64),
        (np.dtype("f8", metadata={"unit": "m"}), float64),
        (uint16, uint16),
    ],
)
def test_as_dtype_reads(spelling: object, expected: dtype) -> None:
    for _ in range(2):  # found, then remembered
        assert as_dtype(spelling) is expected
        assert as_numpy_dtype(spelling) == expected.numpy
    assert dtype(spelling) is expected


@pytest.mark.parametrize("d", NATIVE, ids=stable_id)
def test_byte_order_is_kept_for_numpy_and_forgotten_for_attributes(d: dtype) -> None:
    swapped = d.numpy.newbyteorder()
    for _ in range(2):
        assert as_dtype(swapped) is d
        assert as_numpy_dtype(swapped) == swapped
        assert as_numpy_dtype(swapped).byteorder == swapped.byteorder
        assert as_numpy_dtype(swapped.str).byteorder == swapped.byteorder


@pytest.mark.parametrize(
    "wrong",
    [
        None,
        "nonsense",
        "torch.float128",
        object,
        "U5",
        "M8[s]",
        "V4",
        [("a", "f4")],
        np.dtype("3f4"),
        1.5,
        {},
    ],
    ids=stable_id,
)
def test_what_is_no_element_type_is_refused(wrong: object) -> None:
    for read in (as_dtype, as_numpy_dtype):
        with pytest.raises(TypeError, match=r"is not an element type that ndgrad has.*Use one of .*float64"):
            read(wrong)


@pytest.mark.skipif(np.dtype(np.longdouble).itemsize == 8, reason="long double is float64 here")
def test_long_double_is_refused() -> None:
    with pytest.raises(TypeError, match="is not an element type"):
        as_dtype(np.longdouble)


# ----- bfloat16 ---------------------------------------------------------------------------------------------


def test_bfloat16_is_the_dtype_of_ml_dtypes() -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    n = np.dtype(ml_dtypes.bfloat16)
    assert bfloat16 == n
    assert n == bfloat16
    assert hash(bfloat16) == hash(n)
    assert as_dtype(n) is as_dtype("bfloat16") is as_dtype(ml_dtypes.bfloat16) is bfloat16
    assert np.zeros(2, bfloat16).dtype == n
    assert (bfloat16.itemsize, bfloat16.is_floating_point, bfloat16.is_signed) == (n.itemsize, True, True)
    limits = finfo(bfloat16)
    assert (limits.eps, limits.bits, limits.resolution, limits.dtype) == (2.0**-7, 16, 0.01, "bfloat16")
    assert limits.max == (2 - 2.0**-7) * 2.0**127


def test_bfloat16_without_ml_dtypes_compares_and_says_what_to_install() -> None:
    program = """
import sys
sys.modules["ml_dtypes"] = None  # what an import finds when there is none
import numpy as np
from ndgrad._src.arrays.dtypes import *
assert bfloat16 != np.float32 and np.dtype("f4") != bfloat16 and float16 != bfloat16
assert bfloat16 in {float16, bfloat16} and float32 not in {float16, bfloat16}
assert bfloat16.is_floating_point and bfloat16.itemsize == 2 and repr(bfloat16) == "ndgrad.bfloat16"
assert promote_types(bfloat16, float16) is float32
for use in (lambda: bfloat16.numpy, lambda: np.zeros(2, bfloat16), lambda: finfo(bfloat16)):
    try:
        use()
    except ImportError as error:
        assert "ndgrad.bfloat16 needs" in str(error) and "pip install ml_dtypes" in str(error), error
    except TypeError as error:  # NumPy 2.0 keeps the reason to itself
        assert np.__version__.startswith("2.0.") and "ndgrad.bfloat16" in str(error), error
    else:
        raise AssertionError("no error")
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


# ----- the default ------------------------------------------------------------------------------------------


def test_default_is_float32_and_complex_follows() -> None:
    code = "import ndgrad; print(ndgrad.get_default_dtype(), ndgrad.tensor(1.0).dtype, ndgrad.tensor(1j).dtype)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["ndgrad.float32", "ndgrad.float32", "ndgrad.complex64"], done.stderr
    for d, expected in [(float32, complex64), ("float16", complex64), (np.float64, complex128)]:
        set_default_dtype(d)
        assert get_default_dtype() is as_dtype(d)
        assert get_default_complex_dtype() is expected


@pytest.mark.parametrize("d", [int64, complex64, bool_], ids=stable_id)
def test_default_has_to_be_floating(d: dtype) -> None:
    with pytest.raises(TypeError, match=rf"the default dtype cannot be {d!r}.*floating-point"):
        set_default_dtype(d)
    assert get_default_dtype() is float64


# ----- promotion --------------------------------------------------------------------------------------------


def test_promotion_is_commutative_and_holds_both() -> None:
    for a, b in itertools.product(ALL, repeat=2):
        found = promote_types(a, b)
        assert found is promote_types(b, a)
        assert promote_types(found, a) is promote_types(found, b) is found
        assert can_cast(a, found)
        assert can_cast(b, found)


def test_promotion_is_numpys_within_a_kind_and_the_higher_kind_decides_across() -> None:
    for a, b in itertools.product(NATIVE, repeat=2):
        kinds = [0 if d is bool_ else 2 if d.is_floating_point else 3 if d.is_complex else 1 for d in (a, b)]
        if kinds[0] == kinds[1]:
            assert promote_types(a, b) == np.promote_types(a.numpy, b.numpy)
        elif min(kinds) < 2:
            assert promote_types(a, b) is (a if kinds[0] > kinds[1] else b)
    assert promote_types(np.int32, "float32") is float32
    assert promote_types(float64, complex64) is complex128
    assert promote_types(float16, complex64) is complex64


def test_bfloat16_counts_as_float32_beside_other_floats() -> None:
    assert promote_types(bfloat16, uint8) is promote_types(bool_, bfloat16) is promote_types(bfloat16, int64) is bfloat16
    assert promote_types(bfloat16, float16) is promote_types(float32, bfloat16) is float32
    assert promote_types(complex64, bfloat16) is complex64


def test_a_python_number_of_a_higher_kind_counts_as_the_default() -> None:
    assert result_type(float32, 1.5) is result_type(np.ones(2, "f4"), True) is float32
    assert result_type(int8, 3) is int8
    assert (result_type(int8, 1.5), result_type(int8, 2j), result_type(float32, 2j)) == (float64, complex128, complex64)
    set_default_dtype(float32)
    assert (result_type(int8, 1.5), result_type(bool_, 2j), result_type(float64, 1.5)) == (float32, complex64, float64)
    assert result_type(np.ones(2, "f4"), np.float64(2.0)) is float32


def test_tensors_without_dimensions_count_only_by_their_kind() -> None:
    assert result_type(np.ones(2, "f4"), np.ones((), "f8")) is float32
    assert result_type(np.ones(2, "i4"), np.ones((), "f8")) is float64
    assert result_type(np.ones(2, "i4"), np.ones((), "i8")) is int32
    assert result_type(np.ones((), "f4"), np.ones((), "f8")) is float64
    assert result_type(np.ones(2, "f4"), np.ones((), "c16")) is complex64
    assert result_type(int8, uint8, float32, 1) is float32


def test_result_type_of_bfloat16_and_numbers() -> None:
    pytest.importorskip("ml_dtypes")
    assert result_type(bfloat16, 1.5) is bfloat16
    assert result_type(bfloat16, 1j) is complex64


def test_result_type_of_numbers_alone_is_the_default() -> None:
    found = [result_type(True), result_type(1, True), result_type(1, 2.5), result_type(1j, 1)]
    assert found == [bool_, int64, float64, complex128]
    set_default_dtype(float32)
    assert [result_type(1, 2.5), result_type(1j)] == [float32, complex64]
    with pytest.raises(TypeError, match="nothing to combine"):
        result_type()


def test_can_cast_is_what_numpy_stores_without_complaint() -> None:
    for a, b in itertools.product(NATIVE, repeat=2):
        assert can_cast(a, b) == np.can_cast(a.numpy, b.numpy, "same_kind")
    assert can_cast(float64, bfloat16)
    assert not can_cast(bfloat16, int64)


# ----- limits -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("d", FLOATING, ids=stable_id)
def test_finfo_agrees_with_numpy(d: dtype) -> None:
    ours, theirs = finfo(d), np.finfo(d.numpy)
    for name in ("eps", "max", "min", "tiny", "smallest_normal", "bits"):
        assert getattr(ours, name) == getattr(theirs, name)
        assert type(getattr(ours, name)) in (float, int)
    assert ours.resolution == 10.0**-theirs.precision
    assert ours.dtype == d.name
    assert ours == finfo(d.to_complex()) or d is float16


def test_finfo_without_a_type_is_the_defaults() -> None:
    assert finfo() == finfo(float64) != finfo(float32)
    set_default_dtype(float32)
    assert finfo() == finfo(complex64) == finfo(float32)


@pytest.mark.parametrize("d", [*UNSIGNED, *SIGNED], ids=stable_id)
def test_iinfo_agrees_with_numpy(d: dtype) -> None:
    ours, theirs = iinfo(d), np.iinfo(d.numpy)
    assert (ours.min, ours.max, ours.bits, ours.dtype) == (theirs.min, theirs.max, theirs.bits, d.name)
    assert ours == iinfo(d.numpy)
    assert ours != iinfo(int8 if d is uint8 else uint8)


def test_limits_of_the_wrong_kind_are_refused() -> None:
    with pytest.raises(TypeError, match=r"ndgrad\.int8 is not a floating-point type.*iinfo"):
        finfo(int8)
    with pytest.raises(TypeError, match=r"ndgrad\.float32 is not an integer type.*finfo"):
        iinfo(float32)
    with pytest.raises(TypeError, match=r"ndgrad\.bool is not an integer type"):
        iinfo(bool_)
