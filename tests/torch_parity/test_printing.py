"""repr() of torch's tensors beside ours, on random and on awkward arrays, under many options."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from ndgrad._src.tensor.printing import format_tensor, printoptions
from tests.examples import at_least

DEFAULTS = {"f2": torch.float16, "f4": torch.float32, "f8": torch.float64}
DTYPES = ["f2", "f4", "f8", "c8", "c16", "i1", "i2", "i4", "i8", "u1", "?"]


@pytest.fixture(autouse=True)
def torch_state() -> Iterator[None]:
    yield
    torch.set_default_dtype(torch.float32)
    torch.set_printoptions(profile="default")


def assert_same_text(array: np.ndarray[Any, Any], default: str = "f8", history: str = "none", **options: Any) -> None:
    torch.set_default_dtype(DEFAULTS[default])
    torch.set_printoptions(profile="default")
    torch.set_printoptions(**options)
    tensor, keywords = torch.from_numpy(array.copy()), {}
    if history == "meta":
        tensor, keywords = tensor.to("meta"), {"device": "meta"}
    elif history != "none" and array.dtype.kind in "fc":
        tensor.requires_grad_()
        keywords = {"requires_grad": True}
        if history == "clone":
            tensor, keywords = tensor.clone(), {"grad_fn_name": "CloneBackward0"}
    with printoptions(**options):
        ours = format_tensor(
            array,
            default_dtype=np.dtype(default),
            dtype_name=str(tensor.dtype),
            **keywords,
        )
    assert ours == repr(tensor)


# ----- drawn by Hypothesis: awkward values ------------------------------------------------------------------

options = st.fixed_dictionaries(
    {},
    optional={
        "precision": st.integers(0, 9),
        "threshold": st.sampled_from([0, 1, 5, 20, 1000]),
        "edgeitems": st.integers(0, 3),
        "linewidth": st.sampled_from([1, 20, 40, 80, 120]),
        "sci_mode": st.sampled_from([None, True, False]),
        "profile": st.sampled_from(["default", "short", "full"]),
    },
)
arrays = st.sampled_from(DTYPES).flatmap(
    lambda dtype: hnp.arrays(dtype, hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=8))
)
histories = st.sampled_from(["none", "leaf", "clone", "meta"])


@given(arrays, st.sampled_from(list(DEFAULTS)), histories, options)
@at_least(200)
def test_any_array_under_any_options(array: np.ndarray[Any, Any], default: str, history: str, options: dict[str, Any]) -> None:
    assert_same_text(array, default, history, **options)


# ----- random numbers of NumPy ------------------------------------------------------------------------------


def usual_values(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    x = rng.normal(size=shape)
    kind = rng.integers(7)
    if kind == 0:
        x = np.round(x * 10.0 ** rng.integers(0, 10))  # whole numbers, small and large
    elif kind == 1:
        x = x * 10.0 ** rng.integers(-6, 7, shape)  # many magnitudes
    elif kind == 2:
        x = x * 10.0 ** rng.integers(-9, 10)  # one magnitude
    elif kind == 3:
        x = np.round(x) / 4
    elif kind == 4:
        x = np.zeros(shape) * x  # zeros of both signs
    if rng.random() < 0.4:
        for special in (np.nan, np.inf, -np.inf, 0.0, -0.0):
            x = np.where(rng.random(shape) < 0.15, special, x)
    return np.asarray(x)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("seed", range(4))
def test_usual_arrays(dtype: str, seed: int) -> None:
    rng = np.random.default_rng([seed, DTYPES.index(dtype)])
    for _ in range(40):
        shape = tuple(int(n) for n in rng.choice([1, 2, 3, 5, 7, 8, 11, 30], rng.integers(0, 4)))
        with np.errstate(all="ignore"):
            if dtype in ("c8", "c16"):
                array = np.empty(shape, dtype)
                array.real, array.imag = usual_values(rng, shape), usual_values(rng, shape)
            elif dtype in ("f2", "f4", "f8"):
                array = usual_values(rng, shape).astype(dtype)
            else:
                array = rng.integers(0, 10 ** rng.integers(1, 5), shape).astype(dtype)
                array = np.asarray(-array if dtype.startswith("i") else array)
        assert_same_text(
            np.asarray(array),
            str(rng.choice(["f4", "f8"])),
            str(rng.choice(["none", "leaf", "clone"])),
            threshold=int(rng.choice([10, 100, 1000])),
        )


@pytest.mark.parametrize("shape", [(1001,), (2, 501), (7, 7, 30), (5, 6, 40), (3, 2, 2, 100), (6, 6, 6, 6), (1, 2000)])
@pytest.mark.parametrize("dtype", ["f4", "f8", "c8", "i8", "?"])
def test_summaries(shape: tuple[int, ...], dtype: str) -> None:
    values = np.random.default_rng(0).normal(size=shape) * 100
    assert_same_text((values > 0 if dtype == "?" else values).astype(dtype))


@pytest.mark.parametrize("scale", [1e-5, 9.99e-5, 1e-4, 1.01e-4, 1.0, 999.0, 1000.0, 1001.0, 1e8, 1.01e8, 1e20])
@pytest.mark.parametrize("other", [None, 0.0, 1.0, 1.5, np.nan])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_where_scientific_notation_begins(scale: float, other: float | None, dtype: str) -> None:
    assert_same_text(np.array([scale, -scale] if other is None else [scale, other], dtype))


def test_bfloat16() -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    values = np.random.default_rng(0).normal(size=(3, 4)).astype(ml_dtypes.bfloat16)
    for array in (values, values[:0], values * values.dtype.type(1e6), np.rint(values)):
        assert array.dtype == values.dtype
        tensor = torch.from_numpy(array.view(np.int16).copy()).view(torch.bfloat16)
        ours = format_tensor(array, default_dtype=np.dtype("f4"), dtype_name="torch.bfloat16")
        assert ours == repr(tensor)
