"""The namespace: its names, signatures, data types, devices, and the link from arrays to it."""

from __future__ import annotations

import inspect
import math
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import ndgrad
import ndgrad.array_api as xp
from ndgrad.numpy import Array
from tests.array_api.signatures import CONSTANTS, DTYPES, FFT, LINALG, MAIN

_GROUPS = {"": (xp, MAIN), "linalg": (xp.linalg, LINALG), "fft": (xp.fft, FFT)}
_FUNCTIONS = [(g, name, parameters) for g, (_, table) in _GROUPS.items() for parameters, names in table.items() for name in names.split()]


@pytest.mark.parametrize(("group", "name", "parameters"), _FUNCTIONS, ids=[f"{g}.{n}" for g, n, _ in _FUNCTIONS])
def test_signatures_are_the_standards(group: str, name: str, parameters: str) -> None:
    function = getattr(_GROUPS[group][0], name)
    bare = inspect.signature(function).replace(return_annotation=inspect.Signature.empty)
    without = bare.replace(parameters=[p.replace(annotation=inspect.Parameter.empty) for p in bare.parameters.values()])
    assert str(without) == f"({parameters})"
    assert function.__name__ == name


def test_nothing_else_is_public() -> None:
    names = {n for group in MAIN.values() for n in group.split()}
    assert {*xp.__all__} == {*names, *DTYPES.split(), *CONSTANTS.split(), "__array_api_version__", "__array_namespace_info__"}
    assert {*dir(xp)} - {*xp.__all__} == {"fft", "linalg", "special"}
    with pytest.raises(AttributeError, match="'einsum'"):
        xp.einsum


def test_constants() -> None:
    assert (xp.e, xp.pi, xp.inf, xp.newaxis) == (math.e, math.pi, math.inf, None)
    assert math.isnan(xp.nan)


@pytest.mark.parametrize("make", [ndgrad.numpy.array, ndgrad.tensor])
def test_arrays_lead_to_the_namespace(make: Any) -> None:
    x = make([1.0, 2.0])
    for version in (None, "2021.12", "2022.12", "2023.12", "2024.12"):
        assert x.__array_namespace__(api_version=version) is xp
    with pytest.raises(ValueError, match=r"2020\.01"):
        x.__array_namespace__(api_version="2020.01")
    assert type(xp.sin(x)) is Array


def test_importing_ndgrad_does_not_load_it() -> None:
    code = (
        "import sys, ndgrad; assert 'ndgrad.array_api' not in sys.modules; ndgrad.array_api.sin; assert 'ndgrad.array_api' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env={"PYTHONPATH": ":".join(sys.path)})


# ----- inspection ----------------------------------------------------------------------------------------------------------


def test_info_of_types() -> None:
    info = xp.__array_namespace_info__()
    assert sorted(info.dtypes()) == sorted(DTYPES.split())
    assert sorted(info.dtypes(kind="integral")) == sorted(n for n in DTYPES.split() if "int" in n)
    assert list(info.dtypes(kind=("bool", "real floating"))) == ["bool", "float32", "float64"]
    for kind, dtype in info.default_dtypes().items():
        assert xp.isdtype(dtype, "signed integer" if kind == "indexing" else kind)
    with pytest.raises(ValueError, match="'floats'"):
        info.dtypes(kind="floats")


def test_info_is_what_functions_do() -> None:
    info = xp.__array_namespace_info__()
    defaults = info.default_dtypes()
    assert xp.ones(1).dtype == xp.asarray([1.0]).dtype == defaults["real floating"]
    assert xp.asarray([1j]).dtype == defaults["complex floating"]
    assert xp.arange(3).dtype == xp.asarray([1]).dtype == defaults["integral"]
    assert xp.argmax(xp.ones(2)).dtype == defaults["indexing"]
    assert info.capabilities() == {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}
    assert xp.ones((1,) * 64).ndim == 64
    with pytest.raises(ValueError, match="64"):
        xp.ones((1,) * 65)


def test_kinds() -> None:
    assert xp.isdtype(xp.float32, "real floating")
    assert xp.isdtype(np.dtype("float16"), "real floating")
    assert xp.isdtype(xp.uint8, (xp.int8, "unsigned integer"))
    assert not xp.isdtype(xp.bool, "numeric")
    with pytest.raises(ValueError, match="'float'"):
        xp.isdtype(xp.float32, "float")


# ----- devices --------------------------------------------------------------------------------------------------------------


def test_devices() -> None:
    info = xp.__array_namespace_info__()
    cpu = ndgrad.device("cpu")
    assert cpu in info.devices()
    assert info.default_device() is cpu
    x = xp.ones(2, device="cpu")
    assert x.device is cpu
    assert x.to_device("cpu") is x
    assert xp.asarray(x, device=cpu) is x
    with pytest.raises(ValueError, match="stream"):
        x.to_device("cpu", stream=1)


def test_new_arrays_go_where_they_are_asked_to() -> None:
    assert xp.zeros((2, 3), device="meta").is_meta
    assert xp.zeros_like(xp.zeros(2, device="meta")).is_meta
    assert xp.full(2, 1.0, device="meta").shape == (2,)
    with ndgrad.device("meta"):
        assert xp.arange(3).is_meta
        assert xp.__array_namespace_info__().default_device().type == "meta"
    with pytest.raises(ValueError, match="copy=False"):
        xp.asarray(xp.ones(2), device="meta", copy=False)


# ----- arguments that are no arrays ------------------------------------------------------------------------------------------


def test_python_numbers_leave_the_data_type_to_the_array() -> None:
    x = xp.asarray([1.0, 2.0], dtype=xp.float32)
    assert xp.add(x, 1.5).dtype == xp.multiply(2, x).dtype == xp.where(x > 1, x, 0.0).dtype == xp.float32
    assert xp.maximum(xp.asarray([1], dtype=xp.int8), 3).dtype == xp.int8


def test_functions_of_bare_numbers_give_arrays() -> None:
    assert type(xp.sin(0.5)) is Array
    assert type(xp.add(1.0, 2.0)) is Array
    with pytest.raises(TypeError, match="numbers"):
        xp.asarray(["a"])
