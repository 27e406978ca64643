"""A kernel that cannot be compiled: a warning names the op, and CuPy computes it."""

from __future__ import annotations

import types
import warnings

import numpy as np
import pytest

import ndgrad
from ndgrad._src.arrays import device_kernels, host_fallback, library
from ndgrad._src.core.saved import RuleNode
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


def test_cupy_computes_the_gradient_of_a_rule_whose_kernel_is_rejected(monkeypatch):
    rules = RuleNode.run_rules

    def refuse(node, env, grads):
        if not device_kernels._suppressed:
            raise device_kernels.KernelError("NVRTC says no.")
        return rules(node, env, grads)

    monkeypatch.setattr(RuleNode, "run_rules", refuse)
    x = ndgrad.ones(3, dtype=ndgrad.bfloat16, requires_grad=True)  # halves take the general form on the CPU
    y = x * x
    with pytest.warns(RuntimeWarning, match="NVRTC says no"):
        y.backward(ndgrad.ones_like(y))
    assert x.grad.tolist() == [2, 2, 2]


def test_cupy_copies_if_a_kernel_is_rejected(monkeypatch):
    library.announce_second_library()

    def refuse(*arguments):
        raise device_kernels.KernelError("NVRTC says no.")

    names = ("copy_into", "copy_of", "cast", "make_filled", "scalar_one")
    monkeypatch.setattr(device_kernels, "_found", types.SimpleNamespace(**dict.fromkeys(names, refuse)))
    x, y = cupy.asarray(np.arange(3.0)), cupy.asarray(np.zeros(3))
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        device_kernels.copy_to(y, x)
        device_kernels.add_into(y, x)
        assert device_kernels.copy_array(cupy, x).get().tolist() == [0, 1, 2]
        assert device_kernels.cast_array(x, np.float32).dtype == np.float32
        assert device_kernels.make_filled(cupy, (2,), 7, np.float64).get().tolist() == [7, 7]
    assert y.get().tolist() == [0, 2, 4]
    assert len(found) == 5
    assert all("NVRTC says no" in str(w.message) for w in found)


def test_a_function_on_the_host_warns_once_with_its_name(monkeypatch):
    monkeypatch.setattr(host_fallback, "_warned", set())
    x = ndgrad.ones(3, device="cuda")
    with pytest.warns(UserWarning, match=r"poisson is computed on the host"):
        ndgrad.poisson(x)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ndgrad.poisson(x)
        ndgrad.poisson(x.cpu())
