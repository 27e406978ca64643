"""Special functions come from SciPy if it is installed, else from NumPy, or raise a clear error."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import numpy as np
import pytest

from ndgrad._src.arrays import special as own
from ndgrad._src.arrays.special_source import special


@pytest.fixture(autouse=True)
def forget_answers() -> Iterator[None]:
    special.cache_clear()
    yield
    special.cache_clear()


@pytest.fixture
def no_scipy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide SciPy: None in sys.modules makes the import system raise ImportError."""
    monkeypatch.setitem(sys.modules, "scipy", None)
    monkeypatch.setitem(sys.modules, "scipy.special", None)


@pytest.mark.parametrize("name", ["erf", "gamma", "psi", "polygamma", "i1e", "hyp2f1"])
def test_scipy_is_used_if_installed(name: str) -> None:
    scipy_special = pytest.importorskip("scipy.special")
    assert special(name).__wrapped__ is getattr(scipy_special, name)


def test_answer_is_remembered() -> None:
    assert special("erf") is special("erf")


@pytest.mark.parametrize(
    ("name", "ours"),
    [("erf", "erf"), ("gammaln", "lgamma"), ("psi", "digamma"), ("digamma", "digamma"), ("gammaincc", "gammaincc")],
)
@pytest.mark.usefixtures("no_scipy")
def test_numpy_versions_step_in_without_scipy(name: str, ours: str) -> None:
    assert special(name) is getattr(own, ours)


@pytest.mark.usefixtures("no_scipy")
def test_function_without_a_numpy_version_says_what_to_install() -> None:
    with pytest.raises(ImportError, match=r"'hyp2f1' comes from SciPy.*pip install scipy") as caught:
        special("hyp2f1")
    assert caught.value.name == "scipy"


def test_error_is_not_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    scipy_special = pytest.importorskip("scipy.special")
    with monkeypatch.context() as patched:
        patched.setitem(sys.modules, "scipy.special", None)
        with pytest.raises(ImportError):
            special("hyp2f1")
    assert special("hyp2f1").__wrapped__ is scipy_special.hyp2f1


def test_name_unknown_to_scipy_is_refused() -> None:
    pytest.importorskip("scipy")
    with pytest.raises(AttributeError, match=r"no function 'lgamma'.*'gammaln'"):
        special("lgamma")


@pytest.mark.parametrize("name", ["erf", "gammaln", "psi", "i0"])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_same_type_with_and_without_scipy(name: str, dtype: type, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("scipy")
    x = np.array([0.5, 1.5], dtype)
    with_scipy = special(name)(x)
    special.cache_clear()
    monkeypatch.setitem(sys.modules, "scipy.special", None)
    without = special(name)(x)
    assert with_scipy.dtype == without.dtype == dtype
    np.testing.assert_allclose(with_scipy, without, rtol=4 * float(np.finfo(dtype).eps))


def test_scipy_is_imported_at_first_use_only() -> None:
    pytest.importorskip("scipy")
    program = (
        "import sys, ndgrad._src.arrays.special_source as source; assert 'scipy' not in sys.modules;"
        "source.special('erf'); assert 'scipy.special' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True, env={"PYTHONPATH": "src"})


@pytest.mark.parametrize(
    ("zero", "slope", "curvature"), [(1.0, -np.euler_gamma, np.pi**2 / 6), (2.0, 1 - np.euler_gamma, np.pi**2 / 6 - 1)]
)
def test_log_gamma_has_its_digits_beside_its_zeros(zero: float, slope: float, curvature: float) -> None:
    x = zero + np.array([1e-6, 1e-9, 1e-12, -1e-6, -1e-9, -1e-12])
    t = x - zero  # exact
    np.testing.assert_allclose(special("gammaln")(x), slope * t + curvature * t**2 / 2, rtol=1e-11)
    assert special("gammaln")(zero) == 0.0
