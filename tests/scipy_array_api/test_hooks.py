"""Private names that SciPy's array API mode uses: a new SciPy that uses others fails here."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import pytest

from tests.scipy_array_api.page import ROOT

scipy = pytest.importorskip("scipy", "1.17")


def run(code: str) -> None:
    """Run code in a process in which SciPy minds other libraries' arrays."""
    environment = {**os.environ, "SCIPY_ARRAY_API": "1", "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_special_functions_are_looked_for_in_the_namespace() -> None:
    run("""
        import ndgrad.array_api as xp
        import scipy.special

        asked = []
        own = xp.special.erf
        xp.special.erf = lambda *args: (asked.append(args), own(*args))[1]
        x = xp.asarray([0.3]).requires_grad_()
        scipy.special.erf(x).backward()
        assert len(asked) == 1 and asked[0][0] is x
        assert x.grad is not None
    """)


def test_every_special_function_that_scipy_dispatches_is_ours_or_known_to_raise() -> None:
    run("""
        import ndgrad.array_api as xp
        from scipy.special import _support_alternative_backends as dispatch

        missing = {name for name in dispatch.__all__ if not hasattr(xp.special, name)}
        assert missing == {"zetac"}, missing
    """)


def test_the_compatibility_layer_knows_our_arrays() -> None:
    run("""
        import ndgrad, ndgrad.array_api as xp
        from scipy._lib._array_api import array_namespace

        try:
            from scipy._lib import array_api_compat as compat
        except ImportError:  # from SciPy 1.18 on
            from scipy._external import array_api_compat as compat

        for x in (xp.ones(2), ndgrad.ones(2)):
            assert compat.is_array_api_obj(x)
            assert compat.array_namespace(x, 1.0) is array_namespace(x, 2) is xp
            assert compat.device(x) == ndgrad.device("cpu")
            assert compat.size(x) == 2
            assert compat.is_writeable_array(x)
        assert type(compat.to_device(xp.ones(2), "cpu")) is type(xp.ones(2))
    """)


def test_iterations_have_the_derivative_of_their_steps() -> None:
    """Bisection that meets the root at once never saw how it moves: the page says not to differentiate such results, and how to."""
    run("""
        import ndgrad.array_api as xp
        from scipy.optimize.elementwise import find_root

        def f(x, c):
            return x - c

        c = xp.asarray(1.0).requires_grad_()
        x = find_root(f, (xp.asarray(0.0), xp.asarray(2.0)), args=(c,)).x
        assert x.item() == 1.0 and not x.requires_grad
        x = x.detach()
        x = x - f(x, c) / 1.0  # one step of Newton's method with the slope as a constant
        x.backward()
        assert c.grad.item() == 1.0
    """)


def test_mixing_with_plain_arrays_is_refused_by_scipy() -> None:
    run("""
        import numpy as np
        import ndgrad.array_api as xp
        import scipy.stats

        try:
            scipy.stats.zmap(xp.ones(3), np.ones(3))
        except TypeError as error:
            assert "Multiple namespaces" in str(error)
        else:
            raise AssertionError("two namespaces went through")
    """)


def test_arrays_without_gradients_may_go_through_c() -> None:
    run("""
        import ndgrad.array_api as xp
        import scipy.fft, scipy.special

        x = xp.asarray([1.5, 2.5])
        assert type(scipy.special.zetac(x)) is type(x)
        assert type(scipy.fft.dct(x)) is type(x)
        try:
            scipy.special.zetac(x.requires_grad_())
        except RuntimeError as error:
            assert "the derivative would be lost" in str(error)
        else:
            raise AssertionError("a gradient was lost")
    """)
