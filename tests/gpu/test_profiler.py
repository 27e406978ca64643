"""The time of a GPU in a profile."""

from __future__ import annotations

import pytest

import ndgrad
from ndgrad._src.arrays import device_kernels
from ndgrad.profiler import ProfilerActivity, profile, supported_activities

cupy = pytest.importorskip("cupy")


def test_calls_have_a_time_of_the_gpu():
    x = ndgrad.ones(1 << 16, device="cuda", requires_grad=True)
    (x * x).sum().backward()
    assert ProfilerActivity.CUDA in supported_activities()
    with profile() as p:
        (x * x).sum().backward()
    averages = {average.key: average for average in p.key_averages()}
    assert averages["aten::mul"].use_device == "cuda"
    table = p.key_averages().table(sort_by="cuda_time_total")
    assert "Self CUDA" in table
    assert "Self CUDA time total" in table
    if device_kernels.kernels() is not None:
        assert averages["aten::mul"].device_time_total > 0
        assert averages["MulBackward0"].device_time > 0
    with profile(activities=[ProfilerActivity.CPU]) as p:
        x * x
    assert "CUDA" not in p.key_averages().table()


def test_calls_as_ranges(monkeypatch):
    told = []
    stand_in = type("nvtx", (), {"RangePush": staticmethod(told.append), "RangePop": staticmethod(lambda: told.append("end"))})
    monkeypatch.setattr(cupy.cuda, "nvtx", stand_in, raising=False)
    with ndgrad.autograd.profiler.emit_nvtx(record_shapes=True):
        ndgrad.ones(3, device="cuda") * 2
    assert "aten::mul, sizes = [[3]]" in told
    assert told.count("end") * 2 == len(told)
