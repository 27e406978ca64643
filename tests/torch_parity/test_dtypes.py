"""Attributes, limits and promotion of dtypes beside torch's."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ndgrad import dtypes
from ndgrad.dtypes import (
    ALIASES,
    as_dtype,
    bfloat16,
    can_cast,
    dtype,
    finfo,
    float16,
    iinfo,
    promote_types,
    result_dtype,
    set_default_dtype,
)

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


@pytest.mark.parametrize("d", [*OURS, bfloat16], ids=repr)
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


@pytest.mark.parametrize("d", [d for d in OURS if d.is_floating_point or d.is_complex], ids=repr)
def test_finfo(d: dtype) -> None:
    ours, expected = finfo(d), torch.finfo(theirs(d))
    for name in ("bits", "eps", "max", "min", "tiny", "smallest_normal", "resolution", "dtype"):
        assert getattr(ours, name) == getattr(expected, name), name
    assert repr(ours) == repr(expected)


def test_finfo_of_bfloat16() -> None:
    pytest.importorskip("ml_dtypes")
    assert repr(finfo(bfloat16)) == repr(torch.finfo(torch.bfloat16))


@pytest.mark.parametrize("d", [d for d in OURS if "int" in d.name], ids=repr)
def test_iinfo(d: dtype) -> None:
    ours, expected = iinfo(d), torch.iinfo(theirs(d))
    for name in ("bits", "max", "min", "dtype"):
        assert getattr(ours, name) == getattr(expected, name), name


def test_can_cast() -> None:
    for a, b in itertools.product([*OURS, bfloat16], repeat=2):
        assert can_cast(a, b) == torch.can_cast(theirs(a), theirs(b)), (a, b)


def test_promote_types() -> None:
    answered = 0
    for a, b in itertools.product([*OURS, bfloat16], repeat=2):
        try:
            expected = torch.promote_types(theirs(a), theirs(b))
        except RuntimeError:
            continue
        answered += 1
        assert theirs(promote_types(a, b)) is expected, (a, b)
    assert answered > 170


numbers = {"bool": True, "int64": 1, "float64": 1.0, "complex128": 1j}


@given(
    st.lists(st.sampled_from(PROMOTED), max_size=1),
    st.lists(st.sampled_from(PROMOTED), max_size=1),
    st.sampled_from(["float32", "float64"]),
)
def test_result_type_of_an_array_and_a_zero_dimensional_one(arrays: list[dtype], zero_dim: list[dtype], default: str) -> None:
    set_default_dtype(default)
    torch.set_default_dtype(getattr(torch, default))
    for a, b in itertools.product(arrays, zero_dim):
        expected = torch.result_type(torch.ones(1, dtype=theirs(a)), torch.ones((), dtype=theirs(b)))
        if expected is not torch.complex32:
            assert theirs(result_dtype([a], zero_dim=[b])) is expected
    for d, (name, number) in itertools.product([*arrays, *zero_dim], numbers.items()):
        python = as_dtype(name)
        for shape, ours in [
            ((1,), lambda d=d, p=python: result_dtype([d], numbers=[p])),
            ((), lambda d=d, p=python: result_dtype(zero_dim=[d], numbers=[p])),
        ]:
            expected = torch.result_type(torch.ones(shape, dtype=theirs(d)), number)
            if expected is not torch.complex32:
                assert theirs(ours()) is expected, (d, name, shape)
