"""A kernel that cannot be compiled: a warning names the op, and CuPy computes it."""

from __future__ import annotations

import types
import warnings

import numpy as np
import pytest

from ndgrad._src.arrays import device_kernels, library
from ndgrad._src.ops import order  # noqa: F401  # the op below
from ndgrad._src.ops.vocabulary import find

cupy = pytest.importorskip("cupy")


@pytest.mark.parametrize("from_own", [True, False])
def test_cupy_computes_an_op_whose_kernel_is_rejected(monkeypatch, from_own):
    library.announce_second_library()
    calls = []

    def refuse(*arguments):
        calls.append(arguments)
        raise device_kernels.KernelError("NVRTC says no.")

    def forward(x, dim, descending, kind=None):
        if not from_own and device_kernels.kernels() is not None:
            refuse(x)
        assert from_own or device_kernels.kernels() is None
        return cupy.sort(x, axis=dim), cupy.argsort(x, axis=dim)

    fake = types.SimpleNamespace(forward_of=lambda np, op: refuse if from_own else None)
    monkeypatch.setattr(device_kernels, "_found", fake)
    run = device_kernels.device_forward(find("sort"), cupy, forward)
    x = cupy.asarray(np.array([3.0, 1.0, 2.0]))
    with pytest.warns(RuntimeWarning, match="sort: NVRTC says no"):
        assert run(x, dim=0, descending=False)[0].get().tolist() == [1, 2, 3]
    if from_own:  # it is not tried again
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert run(x, dim=0, descending=False)[0].get().tolist() == [1, 2, 3]
        assert len(calls) == 1
