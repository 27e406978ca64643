"""Faults of a GPU: no memory left in forward and in backward, kernels that cannot be compiled, no driver. Each is told, and
later work is right."""

from __future__ import annotations

import contextlib
import gc
import os
import subprocess
import sys

import numpy as np
import pytest

import ndgrad
from ndgrad import cuda
from ndgrad._src.arrays import device_kernels, gpus, library
from ndgrad._src.compiler.cuda import elementwise

cupy = pytest.importorskip("cupy")
HAS_KERNELS = device_kernels.kernels() is not None
COUNT = 1 << (20 if HAS_KERNELS else 10)


@contextlib.contextmanager
def little_memory():
    """A block in which an array of COUNT doubles is too much."""
    gc.collect()
    pool = cupy.get_default_memory_pool()
    pool.free_all_blocks()
    pool.set_limit(size=(pool.total_bytes() if HAS_KERNELS else 0) + COUNT * 4)
    try:
        yield
    finally:
        pool.set_limit(size=0)


def test_no_memory_in_forward_names_the_op_and_the_sizes():
    x = ndgrad.full((COUNT,), 2.0, dtype=ndgrad.float64, device="cuda", requires_grad=True)
    told = rf"mul\(\): the GPU is out of memory, given \({COUNT},\) float64"
    with little_memory(), pytest.raises(cuda.OutOfMemoryError, match=told) as error:
        x * x
    assert isinstance(error.value, MemoryError)
    assert isinstance(error.value, RuntimeError)
    assert "in use" in str(error.value)
    with little_memory(), pytest.raises(cuda.OutOfMemoryError, match=r"sin\(\): the GPU is out of memory"):
        x.detach().reshape(2, -1).t().sin_()  # a dense tensor is written in place, without memory
    (x * x).sum().backward()
    np.testing.assert_array_equal(x.grad.cpu().numpy(), 4.0)


def test_no_memory_in_backward_leaves_gradients_alone_and_the_next_pass_is_right():
    x = ndgrad.full((COUNT,), 0.5, dtype=ndgrad.float64, device="cuda", requires_grad=True)
    loss = (x.sin() * 3.0).sum()
    with little_memory(), pytest.raises(cuda.OutOfMemoryError, match="Backward0 in backward: the GPU is out of memory"):
        loss.backward()
    assert x.grad is None
    del loss
    (x.sin() * 3.0).sum().backward()
    np.testing.assert_allclose(x.grad.cpu().numpy(), 3.0 * np.cos(0.5))


@pytest.mark.skipif(not HAS_KERNELS, reason="there are no kernels here")
def test_a_kernel_that_cannot_be_compiled_is_told_and_the_op_runs_all_the_same(monkeypatch):
    eager = pytest.importorskip("ndgrad._src.compiler.cuda.eager")
    monkeypatch.setattr(eager, "source", lambda kind: elementwise.source(kind) + " no such word;")
    x = ndgrad.tensor(np.linspace(0, 1, 7), device="cuda")._array
    run = eager.Elementwise(cupy, "tanh")
    with pytest.warns(RuntimeWarning, match="(?s)could not be made for this GPU.*CuPy computes it instead"):
        assert run((x,), {}) is None
    assert run((x,), {}) is None  # told once
    monkeypatch.undo()
    np.testing.assert_allclose(ndgrad.as_tensor(x).tanh().cpu().numpy(), np.tanh(np.linspace(0, 1, 7)))


def test_a_driver_that_is_missing(monkeypatch):
    def missing():
        raise RuntimeError("cudaErrorInsufficientDriver: CUDA driver version is insufficient for CUDA runtime version")

    monkeypatch.setattr(cupy.cuda.runtime, "getDeviceCount", missing)
    monkeypatch.setattr(library, "device_library", None)
    assert not cuda.is_available()
    assert gpus.devices_or_none() == (cupy, 0)
    for call in (lambda: ndgrad.ones(1, device="cuda"), lambda: ndgrad.ones(1).cuda(), cuda.current_device):
        with pytest.raises(RuntimeError, match="CuPy finds none"):
            call()
    assert ndgrad.ones(2).sum().item() == 2.0


def test_a_device_that_is_not_there():
    """One GPU or several: the next number is refused by name, and what is there works on."""
    count = cuda.device_count()
    absent = f"cuda:{count}"
    x = ndgrad.ones(3, device="cuda", requires_grad=True)
    told = rf"there is no device '{absent}': this process sees .*GPU"
    for call in (
        lambda: x.to(absent), lambda: ndgrad.zeros(2, device=absent), lambda: ndgrad.ones(2).cuda(count),
        lambda: ndgrad.nn.Linear(2, 2).to(absent), lambda: cuda.set_device(count), lambda: cuda.Stream(absent),
        lambda: cuda.get_device_properties(count), lambda: cuda.can_device_access_peer(0, count),
        lambda: cuda.memory_allocated(count), lambda: cuda.synchronize(count), lambda: ndgrad.randn(2, device=absent),
    ):  # fmt: skip
        with pytest.raises(RuntimeError, match=told):
            call()
    assert cuda.current_device() == 0
    (x * 2).sum().backward()
    assert x.grad.tolist() == [2.0] * 3


def test_without_cupy():
    """In a process that cannot import it: no GPU, an error that says what to install, and a CPU that works."""
    program = """
import sys
sys.modules["cupy"] = None
import ndgrad
assert not ndgrad.cuda.is_available() and ndgrad.cuda.device_count() == 0
for call in (lambda: ndgrad.ones(1, device="cuda"), lambda: ndgrad.ones(1).cuda(), ndgrad.cuda.current_device):
    try:
        call()
    except RuntimeError as error:
        assert "pip install cupy-cuda12x" in str(error), error
    else:
        raise AssertionError("no error")
x = ndgrad.ones(2, requires_grad=True)
(x * 3).sum().backward()
assert x.grad.tolist() == [3.0, 3.0]
"""
    environment = {name: value for name, value in os.environ.items() if name != "NDGRAD_STAND_IN"}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_pinned_memory_and_copies_that_do_not_wait():
    x = ndgrad.arange(1000, dtype=ndgrad.float32)
    pinned = x.pin_memory()
    if hasattr(cupy.cuda, "alloc_pinned_memory"):
        assert pinned.is_pinned()
        assert not x.is_pinned()
        assert pinned.pin_memory() is pinned
    for given in (x, pinned):
        for non_blocking in (True, False):
            there = given.to("cuda", non_blocking=non_blocking)
            there.record_stream(cuda.current_stream())
            np.testing.assert_array_equal((there * 2).cpu().numpy(), np.arange(1000) * 2)
    with pytest.raises(RuntimeError, match="cannot pin a tensor on cuda:0"):
        x.to("cuda").pin_memory()


def test_names_for_profilers():
    with cuda.nvtx.range("step {}", 1):
        assert cuda.nvtx.range_push("inner") == 1
        cuda.nvtx.mark("here")
        assert cuda.nvtx.range_pop() == 1
    with pytest.raises(RuntimeError, match=r"without range_push\(\)"):
        cuda.nvtx.range_pop()


def test_peaks_of_memory():
    cuda.reset_peak_memory_stats()
    before = cuda.memory_allocated()
    x = ndgrad.ones(1 << 18, device="cuda")
    y = x * 2
    del x, y
    gc.collect()
    if HAS_KERNELS:
        assert cuda.max_memory_allocated() >= before + 2 * (1 << 18) * 4
        assert cuda.memory_allocated() < before + (1 << 18) * 4
    assert cuda.max_memory_reserved() >= cuda.memory_reserved() > 0
    assert "held by the pool (reserved_bytes)" in cuda.memory_summary()
