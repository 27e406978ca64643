"""One-byte floats: casts by ml_dtypes with torch's saturation, storage, files, and the refusal to compute."""

from __future__ import annotations

import io
import pickle

import numpy as np
import pytest

import ndgrad

ml_dtypes = pytest.importorskip("ml_dtypes")
NAMES = ["float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu"]
VALUES = [0.1, 1.5, 2.0, 200.0, 0.75]


@pytest.mark.parametrize("name", NAMES)
def test_storage_casts_and_files(name):
    kind = getattr(ndgrad, name)
    t = ndgrad.tensor(VALUES).to(kind)
    want = np.array(VALUES, np.float32).astype(getattr(ml_dtypes, name)).astype(np.float32)
    assert t.dtype is kind
    assert (kind.itemsize, kind.is_floating_point) == (1, True)
    np.testing.assert_array_equal(t.float().numpy(), want)
    assert ndgrad.equal(ndgrad.empty(5, dtype=kind).copy_(ndgrad.tensor(VALUES)).float(), t.float())
    assert (t == t).all()
    assert not (t != t).any()
    assert t.view(ndgrad.uint8).view(kind).float().tolist() == want.tolist()
    assert f"dtype=ndgrad.{name}" in repr(t)
    assert t[1:3].reshape(2, 1).clone().float().tolist() == [[want[1]], [want[2]]]
    assert ndgrad.cat([t, t]).dtype is kind
    file = io.BytesIO()
    ndgrad.save({"t": t}, file)
    file.seek(0)
    assert ndgrad.load(file)["t"].float().tolist() == want.tolist()
    assert pickle.loads(pickle.dumps(kind)) is kind
    assert ndgrad.finfo(kind).bits == 8


def test_values_beyond_the_range():
    beyond = ndgrad.tensor([500.0, -1e9, np.inf, np.nan])
    assert beyond.to(ndgrad.float8_e4m3fn).float().tolist()[:3] == [448.0, -448.0, 448.0]
    assert beyond.to(ndgrad.float8_e4m3fn).float()[3].isnan()
    assert beyond.to(ndgrad.float8_e5m2).float().tolist()[1:3] == [-np.inf, np.inf]
    assert ndgrad.tensor([-1.5, 0.0]).to(ndgrad.float8_e8m0fnu).float().tolist() == [2.0, 2.0**-127]


def test_gradients_pass_through_casts():
    x = ndgrad.tensor([1.0, 2.0], requires_grad=True)
    (x.to(ndgrad.float8_e5m2).float() * 3).sum().backward()
    assert x.grad.tolist() == [3.0, 3.0]


def test_compiled_functions_with_float8_run_eagerly():
    f = ndgrad.compile(lambda x: x.to(ndgrad.float8_e4m3fn).float() * 2)
    assert f(ndgrad.tensor([0.1, 500.0])).tolist() == pytest.approx([0.203125, 896.0])


@pytest.mark.parametrize("f", [lambda t: t.sum(), lambda t: t.mean(), lambda t: t.softmax(0), lambda t: ndgrad.arange(3, dtype=t.dtype)])
def test_reductions_are_refused(f):
    with pytest.raises(NotImplementedError, match="not implemented for 'Float8_e4m3fn'"):
        f(ndgrad.ones(3).to(ndgrad.float8_e4m3fn))


def test_promotion_is_refused():
    t = ndgrad.ones(3).to(ndgrad.float8_e4m3fn)
    with pytest.raises(RuntimeError, match="Promotion for Float8 Types is not supported"):
        t + ndgrad.ones(3)
    with pytest.raises(RuntimeError, match="Promotion for Float8 Types is not supported"):
        ndgrad.promote_types(ndgrad.float8_e5m2, ndgrad.float8_e4m3fn)
    assert ndgrad.promote_types(ndgrad.float8_e5m2, ndgrad.float8_e5m2) is ndgrad.float8_e5m2
    with pytest.raises(TypeError, match="storage"):
        ndgrad.set_default_dtype(ndgrad.float8_e5m2)
