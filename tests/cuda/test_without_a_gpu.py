"""`ndgrad.cuda` and its like where there is no GPU: every question has an answer, what needs one raises."""

from __future__ import annotations

import importlib.util

import pytest

import ndgrad
from ndgrad import accelerator, cpu, cuda, mps, mtia, xpu

pytestmark = pytest.mark.skipif(importlib.util.find_spec("cupy") is not None, reason="CuPy is installed")


def test_there_is_none():
    assert not cuda.is_available()
    assert cuda.device_count() == 0
    assert not cuda.is_initialized()
    assert not accelerator.is_available()
    assert accelerator.current_accelerator() is None
    assert [module.is_available() for module in (mps, xpu, mtia)] == [False] * 3
    assert [module.device_count() for module in (mps, xpu, mtia)] == [0] * 3
    assert not cuda.is_bf16_supported()
    assert cuda.get_arch_list() == []


def test_memory_is_0_and_there_is_nothing_to_empty():
    cuda.empty_cache()
    cuda.reset_peak_memory_stats()
    assert [f() for f in (cuda.memory_allocated, cuda.memory_reserved, cuda.max_memory_allocated, cuda.max_memory_reserved)] == [0] * 4
    assert cuda.memory_stats() == {}
    assert isinstance(cuda.memory_summary(), str)


def test_seeding_a_gpu_that_is_not_there_leaves_the_random_numbers_alone():
    ndgrad.manual_seed(3)
    first = ndgrad.rand(2)
    ndgrad.manual_seed(3)
    cuda.manual_seed(1)
    cuda.manual_seed_all(2)
    cuda.seed()
    xpu.manual_seed(4)
    assert ndgrad.equal(ndgrad.rand(2), first)
    assert cuda.get_rng_state_all() == []


@pytest.mark.parametrize(
    "call",
    [
        cuda.init, cuda.current_device, cuda.synchronize, cuda.current_stream, cuda.Stream, cuda.Event, cuda.get_device_name,
        cuda.get_device_properties, cuda.mem_get_info, cuda.initial_seed, cuda.get_rng_state, lambda: cuda.set_device(0),
        lambda: cuda.device(0).__enter__(), lambda: ndgrad.ones(1).cuda(), lambda: ndgrad.ones(1, device="cuda"), ndgrad.Stream,
    ],
)  # fmt: skip
def test_what_needs_a_gpu_raises_and_names_what_to_install(call):
    with pytest.raises(RuntimeError, match=r"pip install cupy-cuda12x"):
        call()


@pytest.mark.parametrize(
    "call", [accelerator.synchronize, accelerator.current_device_index, accelerator.empty_cache, accelerator.memory_allocated]
)
def test_the_accelerator_that_is_not_there_raises(call):
    with pytest.raises(RuntimeError, match="when none is available"):
        call()


@pytest.mark.parametrize("call", [mps.synchronize, mps.empty_cache, xpu.synchronize, mtia.current_device])
def test_other_devices_raise(call):
    with pytest.raises(RuntimeError, match=r"is_available\(\) first"):
        call()


def test_blocks_about_no_device_change_nothing():
    with cuda.device(-1), cuda.device(None), cuda.stream(None), cuda.device_of(ndgrad.ones(1)), accelerator.device_index(None):
        assert ndgrad.ones(1).device.type == "cpu"
    cuda.set_device(-1)
    cuda.set_stream(None)


def test_the_cpu_can_be_asked_like_a_gpu():
    assert (cpu.is_available(), cpu.device_count(), cpu.current_device()) == (True, 1, "cpu")
    cpu.synchronize()
    inner = cpu.Stream()
    with cpu.stream(inner):
        assert cpu.current_stream() is inner
    assert cpu.current_stream() is not inner
    assert all(isinstance(has, bool) for has in cpu.get_capabilities().values())


def test_typed_classes_are_those_of_the_cpu():
    assert isinstance(ndgrad.ones(1, dtype=ndgrad.float32), cuda.FloatTensor)
