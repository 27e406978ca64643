"""Libraries that dispatch on the standard: array_api_compat finds the namespace, array_api_extra's functions keep gradients.

The first is taken as installed, or else as SciPy carries it; the second as installed, since SciPy's asks SciPy for namespaces.
"""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest

import ndgrad
import ndgrad.array_api as xp
from ndgrad.numpy import Array
from tests.array_api.samples import POSITIVE, UNIT, A, V, W
from tests.array_api.test_functions import parts, slopes, weighted


@pytest.fixture
def compat() -> Any:
    for home in ("", "scipy._lib.", "scipy._external."):
        try:
            return importlib.import_module(f"{home}array_api_compat")
        except ImportError:
            continue
    pytest.skip("array_api_compat is not installed")


@pytest.fixture
def xpx() -> Any:
    return pytest.importorskip("array_api_extra")


# ----- array_api_compat ----------------------------------------------------------------------------------------------------


def test_compat_finds_the_namespace(compat: Any) -> None:
    for x in (xp.ones(2), ndgrad.ones(2)):
        assert compat.is_array_api_obj(x)
        assert compat.array_namespace(x, x, 1.0) is xp
        assert compat.array_namespace(x, api_version="2023.12") is xp
        assert compat.size(x) == 2
        assert compat.device(x) is ndgrad.device("cpu")
    with pytest.raises(TypeError, match="Multiple namespaces"):
        compat.array_namespace(xp.ones(2), np.ones(2))


def test_code_for_any_namespace_is_differentiable(compat: Any) -> None:
    def distances(x: Any, y: Any) -> Any:
        ns = compat.array_namespace(x, y)
        return ns.linalg.vector_norm(x[:, None, :] - y[None, :, :], axis=-1)

    x, y = A.T, A.T[:2] + 0.5
    ours = [xp.asarray(a).requires_grad_() for a in (x, y)]
    weighted([distances(*ours)], xp).backward()
    for k, t in enumerate(ours):
        np.testing.assert_allclose(t.grad.numpy(), slopes(lambda *v: weighted([distances(*v)], np), [x, y], k), rtol=1e-6, atol=1e-8)


# ----- array_api_extra -----------------------------------------------------------------------------------------------------

NAN = np.array([[1.0, np.nan, 3.0], [0.5, 2.0, np.nan]])
CALLS: dict[str, Any] = {
    "angle": (lambda xpx, ns, z: xpx.angle(z), (V + 1j * W,)),
    "apply_where": (lambda xpx, ns, x, y: xpx.apply_where(x > 0, (x, y), lambda x, y: ns.log(x) * y, lambda x, y: x + y), (V, W)),
    "argpartition": (lambda xpx, ns, x: ns.sort(ns.take(x, xpx.argpartition(x, 1))[:2]), (V,)),
    "at": (lambda xpx, ns, x, y: xpx.at(x)[1:].multiply(y[1:], copy=True), (V, W)),
    "atleast_nd": (lambda xpx, ns, x: xpx.atleast_nd(x, ndim=3), (A,)),
    "cov": (lambda xpx, ns, x: xpx.cov(x), (A,)),
    "create_diagonal": (lambda xpx, ns, x: xpx.create_diagonal(x, offset=1), (V,)),
    "deg2rad": (lambda xpx, ns, x: xpx.deg2rad(x), (V,)),
    "expand_dims": (lambda xpx, ns, x: xpx.expand_dims(x, axis=(0, 2)), (A,)),
    "kron": (lambda xpx, ns, x, y: xpx.kron(x, y), (A, A[:2, :2])),
    "nan_to_num": (lambda xpx, ns, x: xpx.nan_to_num(x, fill_value=2.0), (NAN,)),
    "nanmax": (lambda xpx, ns, x: xpx.nanmax(x, axis=1), (NAN,)),
    "nanmean": (lambda xpx, ns, x: xpx.nanmean(x, axis=1), (NAN,)),
    "nanmin": (lambda xpx, ns, x: xpx.nanmin(x, axis=0), (NAN,)),
    "nansum": (lambda xpx, ns, x: xpx.nansum(x), (NAN,)),
    "pad": (lambda xpx, ns, x: xpx.pad(x, ((1, 0), (0, 2)), constant_values=1.5), (A,)),
    "partition": (lambda xpx, ns, x: ns.sort(xpx.partition(x, 1)[:2]), (V,)),
    "rad2deg": (lambda xpx, ns, x: xpx.rad2deg(x), (V,)),
    "setdiff1d": (lambda xpx, ns, x: xpx.setdiff1d(x, ns.asarray([9.0])), (POSITIVE,)),
    "sinc": (lambda xpx, ns, x: xpx.sinc(x), (UNIT,)),
    "union1d": (lambda xpx, ns, x, y: xpx.union1d(x, y), (V, W)),
}
#: Answers without a derivative.
DISCRETE: dict[str, Any] = {
    "broadcast_shapes": lambda xpx, ns: xpx.broadcast_shapes((3, 1), (4,)),
    "default_dtype": lambda xpx, ns: np.dtype(xpx.default_dtype(ns)).name,
    "diag_indices": lambda xpx, ns: xpx.diag_indices(3, xp=ns),
    "isclose": lambda xpx, ns: xpx.isclose(ns.asarray(V), ns.asarray(W), atol=0.9),
    "isin": lambda xpx, ns: xpx.isin(ns.asarray([1, 2, 5]), ns.asarray([5, 1])),
    "nunique": lambda xpx, ns: xpx.nunique(ns.asarray([1, 1, 2])),
    "one_hot": lambda xpx, ns: xpx.one_hot(ns.asarray([1, 0, 2]), 3),
    "searchsorted": lambda xpx, ns: xpx.searchsorted(ns.asarray([[0.1, 0.5, 0.9]]), ns.asarray([[0.3]])),
    "tril_indices": lambda xpx, ns: xpx.tril_indices(3, xp=ns),
    "triu_indices": lambda xpx, ns: xpx.triu_indices(3, offset=1, xp=ns),
    "unravel_index": lambda xpx, ns: xpx.unravel_index(ns.asarray([5, 2]), (3, 2)),
}
#: `lazy_apply` calls any function on bare arrays, and `testing` is for tests.
ELSEWHERE = {"__version__", "lazy_apply", "testing"}


def test_every_function_is_tried(xpx: Any) -> None:
    assert {*xpx.__all__} == {*CALLS, *DISCRETE, *ELSEWHERE}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.filterwarnings("ignore:.*is deprecated:DeprecationWarning")
def test_extra_functions_keep_gradients(name: str, xpx: Any) -> None:
    call, arrays = CALLS[name]
    inputs = [xp.asarray(a).requires_grad_() for a in arrays]
    results = parts(call(xpx, xp, *inputs))
    expected = parts(call(xpx, np, *arrays))
    for ours, theirs in zip(results, expected, strict=True):
        assert type(ours) is Array
        np.testing.assert_allclose(ours.detach().numpy(), theirs, rtol=1e-12)
    weighted(results, xp).backward()
    for k, t in enumerate(inputs):
        wanted = slopes(lambda *v: weighted(parts(call(xpx, np, *v)), np), list(arrays), k)
        np.testing.assert_allclose(t.grad.numpy(), wanted, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("name", DISCRETE)
@pytest.mark.filterwarnings("ignore:.*is deprecated:DeprecationWarning")
def test_extra_answers_are_those_of_numpy(name: str, xpx: Any) -> None:
    for ours, theirs in zip(parts(DISCRETE[name](xpx, xp)), parts(DISCRETE[name](xpx, np)), strict=True):
        np.testing.assert_array_equal(ours.numpy() if isinstance(ours, Array) else ours, theirs)


def test_lazy_apply_refuses_to_lose_a_gradient(xpx: Any) -> None:
    x = xp.asarray([1.0, 2.0])
    assert xpx.lazy_apply(np.sin, x, as_numpy=True).tolist() == np.sin([1.0, 2.0]).tolist()
    with pytest.raises(RuntimeError, match="drop the graph"):
        xpx.lazy_apply(np.sin, x.requires_grad_(), as_numpy=True)
