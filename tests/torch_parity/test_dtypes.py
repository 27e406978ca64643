"""Attributes, limits and promotion of dtypes beside torch's."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest
import torch

from ndgrad._src.arrays import dtypes
from ndgrad._src.arrays.dtypes import (
    ALIASES,
    as_dtype,
    bfloat16,
    can_cast,
    dtype,
    finfo,
    float16,
    float32,
    iinfo,
    promote_types,
    result_type,
    set_default_dtype,
)
from tests.naming import stable_id

NAMES = ("bool uint8 uint16 uint32 uint64 int8 int16 int32 int64 float16 float32 float64 complex64 complex128").split()
OURS = [as_dtype(f"torch.{name}") for name in NAMES]
# torch promotes its three late unsigned types in few combinations; ndgrad does in all that have an answer.
PROMOTED = [d for d in OURS if d.name not in ("uint16", "uint32", "uint64")]


def theirs(d: dtype) -> torch.dtype:
    found = getattr(torch, d.name)
    assert isinstance(found, torch.dtype)
    return found


@pytest.fixture(autouse=True)
def torch_default() -> Iterator[None]:
    yield
    torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize("d", [*OURS, bfloat16], ids=stable_id)
def test_attributes(d: dtype) -> None:
    t = theirs(d)
    assert as_dtype(t) is d
    for name in ("is_floating_point", "is_complex", "is_signed", "itemsize"):
        assert getattr(d, name) == getattr(t, name)
    assert theirs(d.to_real()) is t.to_real()
    if d is float16:  # torch's complex32 has no NumPy counterpart
        return
    try:
        expected = t.to_complex()
    except RuntimeError:
        with pytest.raises(RuntimeError):
            d.to_complex()
    else:
        assert theirs(d.to_complex()) is expected


def test_aliases() -> None:
    for name, d in ALIASES.items():
        assert getattr(torch, name) is theirs(d)
        assert getattr(dtypes, name) is d


@pytest.mark.parametrize("d", [d for d in OURS if d.is_floating_point or d.is_complex], ids=stable_id)
def test_finfo(d: dtype) -> None:
    ours, expected = finfo(d), torch.finfo(theirs(d))
    for name in ("bits", "eps", "max", "min", "tiny", "smallest_normal", "resolution", "dtype"):
        assert getattr(ours, name) == getattr(expected, name), name
    assert repr(ours) == repr(expected)


def test_finfo_of_bfloat16() -> None:
    pytest.importorskip("ml_dtypes")
    assert repr(finfo(bfloat16)) == repr(torch.finfo(torch.bfloat16))


@pytest.mark.parametrize("d", [d for d in OURS if "int" in d.name], ids=stable_id)
def test_iinfo(d: dtype) -> None:
    ours, expected = iinfo(d), torch.iinfo(theirs(d))
    for name in ("bits", "max", "min", "dtype"):
        assert getattr(ours, name) == getattr(expected, name), name


def test_can_cast_allows_less_than_torch_only_between_signed_and_unsigned() -> None:
    for a, b in itertools.product([*OURS, bfloat16], repeat=2):
        allowed = torch.can_cast(theirs(a), theirs(b))
        if can_cast(a, b) != allowed:
            assert allowed
            assert a.is_signed
            assert b.name.startswith("uint")


def test_promotion_is_torchs() -> None:
    for a, b in itertools.product([*PROMOTED, bfloat16], repeat=2):
        assert theirs(promote_types(a, b)) is torch.promote_types(theirs(a), theirs(b)), (a, b)


@pytest.mark.parametrize("number", [True, 1, 1.0, 1j], ids=stable_id)
@pytest.mark.parametrize("d", PROMOTED, ids=stable_id)
def test_result_type_with_a_python_number(d: dtype, number: complex) -> None:
    expected = torch.result_type(torch.ones(2, dtype=theirs(d)), number)
    if expected is torch.complex32:
        return
    set_default_dtype(float32)
    assert theirs(result_type(d, number)) is expected
