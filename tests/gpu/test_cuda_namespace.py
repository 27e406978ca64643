"""`ndgrad.cuda` where there is a GPU, or what stands in for one."""

from __future__ import annotations

import pytest

import ndgrad
from ndgrad import accelerator, cuda

cupy = pytest.importorskip("cupy")


def test_the_gpu_is_there_and_says_what_it_is():
    assert cuda.is_available()
    assert cuda.device_count() == accelerator.device_count() >= 1
    assert cuda.current_device() == accelerator.current_device_index() == 0
    assert accelerator.current_accelerator() == ndgrad.device("cuda")
    assert isinstance(cuda.get_device_name(), str)
    assert cuda.get_device_capability("cuda:0") >= (3, 0)
    assert cuda.get_device_properties(0).total_memory > 0
    assert cuda.is_initialized()
    cuda.init()
    cuda.set_device(0)
    with cuda.device(0), cuda.device_of(ndgrad.ones(2, device="cuda")):
        assert ndgrad.ones(1, device="cuda").get_device() == 0
    with pytest.raises(ValueError, match="expected a cuda device"):
        cuda.get_device_name("cpu")


def test_memory_is_counted():
    x = ndgrad.ones(1000, device="cuda")
    used, held = cuda.memory_allocated(), cuda.memory_reserved()
    assert 0 < used <= held
    assert cuda.max_memory_allocated() >= used
    assert cuda.memory_stats()["reserved_bytes.all.current"] >= used
    assert cuda.memory_stats_as_nested_dict()["allocated_bytes"]["all"]["peak"] >= used
    assert "allocated_bytes" in cuda.memory_summary()
    free, total = cuda.mem_get_info()
    assert 0 < free <= total
    cuda.reset_peak_memory_stats()
    cuda.empty_cache()
    assert x.sum().item() == 1000


def test_streams_and_events():
    queue = cuda.Stream()
    start, end = cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)
    with cuda.stream(queue):
        assert cuda.current_stream() == queue
        start.record()
        y = ndgrad.ones(100, device="cuda") * 2
        end.record()
    queue.synchronize()
    end.synchronize()
    cuda.current_stream().wait_stream(queue)
    assert cuda.current_stream() == cuda.default_stream()
    assert queue.query()
    assert end.query()
    assert start.elapsed_time(end) >= 0.0
    cuda.synchronize()
    assert y.sum().item() == 200


def test_repeatable_sums_at_repeated_indices():
    index = ndgrad.tensor([0, 1, 0, 0], device="cuda")
    values = ndgrad.tensor([0.1, 0.2, 0.3, 1e8], device="cuda", dtype=ndgrad.float32)
    zeros = ndgrad.zeros(2, device="cuda", dtype=ndgrad.float32)
    want = ndgrad.zeros(2, dtype=ndgrad.float32).index_add(0, index.cpu(), values.cpu())
    ndgrad.use_deterministic_algorithms(True)
    try:
        for _ in range(3):
            assert ndgrad.equal(zeros.index_add(0, index, values).cpu(), want)
    finally:
        ndgrad.use_deterministic_algorithms(False)


def test_autocast_on_the_gpu():
    a = ndgrad.ones(4, 4, device="cuda", dtype=ndgrad.float32)
    w = ndgrad.ones(4, 4, device="cuda", dtype=ndgrad.float32, requires_grad=True)
    with ndgrad.autocast("cuda"):
        assert ndgrad.is_autocast_enabled()
        y = a @ w
        assert y.dtype is ndgrad.float16
        assert y.exp().dtype is ndgrad.float32
        assert (y + 1).dtype is ndgrad.float16
        assert (a.cpu() @ a.cpu()).dtype is ndgrad.float32
    y.sum().backward()
    assert w.grad.dtype is ndgrad.float32
    scaler = ndgrad.amp.GradScaler(init_scale=4.0)
    optimizer = ndgrad.optim.SGD([w], lr=0.25)
    optimizer.zero_grad()
    scaler.scale((w * 2).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    assert w.detach().cpu().tolist() == [[0.5] * 4] * 4
