"""The dtype of a result is NumPy's promotion of the arguments, with weak Python numbers: every elementwise op of the
table.

Some of SciPy's special functions violate this, and so do ufuncs of a number alone, which return float64.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import ndgrad
from ndgrad._src.ops.table import table
from tests.op_programs import SAMPLES

#: Ops whose arguments are never Python numbers, by purpose.
ARRAYS_ONLY = {
    "copy": "the first argument is the target of a write",
    "resolved_quotient": "a part of other rules, which have arrays",
}
PRECISIONS = (np.float32, np.float16)


def real_samples(name: str) -> list[Any]:
    """Return the samples of an op whose arrays are all floating, and that leave the dtype of the result to the op."""
    found = []
    for sample in SAMPLES[name]:
        arrays = [a for a in sample.args if hasattr(a, "dtype")]
        dtype_is_asked = "dtype" in {**table[name].settings, **sample.settings}
        if arrays and sample.prepare is None and not dtype_is_asked and all(a.dtype == np.float64 for a in arrays):
            found.append(sample)
    return found


NAMES = sorted(name for name, op in table.items() if op.elementwise and name in SAMPLES and real_samples(name))


def tensors(sample: Any, precision: Any) -> list[Any]:
    return [ndgrad.tensor(np.asarray(a, precision)) if hasattr(a, "dtype") else a for a in sample.args]


def check(name: str, args: list[Any], settings: dict[str, Any]) -> None:
    op = table[name]
    expected = np.result_type(*(a.numpy().dtype if isinstance(a, ndgrad.Tensor) else a for a in args))
    with np.errstate(all="ignore"):
        made = op(*args, **{**op.settings, **settings})
    for out in made if isinstance(made, tuple) else (made,):
        dtype = out.numpy().dtype
        if dtype.kind in "fc":
            assert dtype == (np.result_type(expected, np.complex64) if dtype.kind == "c" else expected), (name, args, dtype)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("name", NAMES)
def test_results_are_as_precise_as_the_arguments(name: str, precision: Any) -> None:
    for sample in real_samples(name):
        check(name, tensors(sample, precision), sample.settings)


SEVERAL = [name for name in NAMES if name not in ARRAYS_ONLY and any(len(s.args) > 1 for s in real_samples(name))]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("name", SEVERAL)
def test_a_python_number_beside_tensors_does_not_widen_the_result(name: str, precision: Any) -> None:
    """Try a number in each position and in several at once, a float and an int, with arrays and with single
    elements.
    """
    for sample in real_samples(name):
        places = [k for k, a in enumerate(sample.args) if hasattr(a, "dtype") and a.size]
        for count in range(1, len(places)):
            for chosen, kind, single in itertools.product(itertools.combinations(places, count), (float, int), (False, True)):
                args = tensors(sample, precision)
                for k in chosen:
                    value = float(np.ravel(sample.args[k])[0])
                    args[k] = value if kind is float else max(1, round(value))
                if single:
                    args = [a.reshape(-1)[0] if isinstance(a, ndgrad.Tensor) and a.numel() else a for a in args]
                check(name, args, sample.settings)


def test_the_special_functions_are_among_them() -> None:
    pytest.importorskip("scipy", reason="some ops have samples only with SciPy")
    for name in "igamma igammac igamma_inverse gamma_density betaln zeta jv struve expn hyperu betainc xlogy".split():
        assert name in NAMES
    assert len(NAMES) > 200
    assert not [name for name in ARRAYS_ONLY if name not in NAMES]


def test_whole_orders_beside_single_precision() -> None:
    """An int is a weak number, but an array of integers is not: combined with float32, NumPy gives float64."""
    pytest.importorskip("scipy")
    x = ndgrad.tensor(np.array([0.5, 1.5], np.float32))
    orders = ndgrad.tensor(np.array([1, 2]))
    for name in ("expn", "jv", "struve", "kv"):
        assert table[name](2, x).numpy().dtype == np.float32
        assert table[name](orders, x).numpy().dtype == np.float64
    assert table["expn"](-2, x).numpy().dtype == np.float32
    assert table["spherical_bessel"](x, kind="jn", order=2).numpy().dtype == np.float32


def test_gradients_have_the_dtype_of_what_they_belong_to() -> None:
    pytest.importorskip("scipy")
    x = ndgrad.tensor(np.array([0.5, 1.5], np.float32), requires_grad=True)
    for f in (
        lambda x: ndgrad.special.gammainc(x, ndgrad.tensor(2.0)),
        lambda x: ndgrad.special.zeta(3.0, x),
        lambda x: table["betaln"](x, 2.0),
    ):
        assert ndgrad.autograd.grad(f(x).sum(), x)[0].dtype == ndgrad.float32


def test_functions_of_whole_numbers_have_the_default_dtype_of_torchs_class() -> None:
    """Results without dimensions are NumPy scalars inside, results with dimensions are arrays."""
    ndgrad.set_default_dtype(ndgrad.float32)
    scalar = ndgrad.tensor(1) + 1
    for x in (ndgrad.tensor(2), scalar, ndgrad.tensor([2, 3]), scalar > 1):
        for f in (ndgrad.log, ndgrad.lgamma, ndgrad.sqrt, ndgrad.erf):
            assert f(x).dtype is ndgrad.float32, (f.__name__, x)
            with ndgrad.no_grad():
                assert f(x).dtype is ndgrad.float32, (f.__name__, x)
        assert (x / 2).dtype is (2 / x).dtype is ndgrad.float32
