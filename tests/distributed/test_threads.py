"""Threads of ranks that share a machine."""

from __future__ import annotations

import os

import pytest

from ndgrad._src.arrays import blas_threads, threads
from ndgrad.distributed import groups

_NAMES = ("NDGRAD_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


@pytest.fixture
def machine(monkeypatch):
    """A machine of eight cores, all of which this process may use; the calls of BLAS's setter."""
    for name in _NAMES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    monkeypatch.setattr(threads, "max_threads", 8)
    monkeypatch.setattr(threads, "_listeners", [])
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")
    calls = []
    monkeypatch.setattr(blas_threads, "set_blas_threads", calls.append)
    return calls


def test_ranks_divide_the_cores_of_their_machine(machine):
    groups._divide_cores(16)
    assert threads.max_threads == 2
    assert machine == [2]


def test_more_ranks_than_cores_have_one_thread_each(machine, monkeypatch):
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "20")
    groups._divide_cores(20)
    assert (threads.max_threads, machine) == (1, [1])


@pytest.mark.parametrize("name", _NAMES)
def test_numbers_of_the_environment_stay(machine, monkeypatch, name):
    monkeypatch.setenv(name, "8")
    groups._divide_cores(4)
    assert threads.max_threads == (8 if name == "NDGRAD_NUM_THREADS" else 2)
    assert machine == ([2] if name == "NDGRAD_NUM_THREADS" else [])


def test_a_number_set_by_the_program_and_bound_cores_stay(machine):
    threads.max_threads = 3
    groups._divide_cores(4)
    assert (threads.max_threads, machine) == (3, [])


def test_a_process_alone_keeps_its_threads(machine, monkeypatch):
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "1")
    groups._divide_cores(1)
    assert (threads.max_threads, machine) == (8, [])


def test_blas_gets_the_number():
    found = pytest.importorskip("threadpoolctl")
    before = [p["num_threads"] for p in found.threadpool_info() if p["user_api"] == "blas"]
    if not before or not blas_threads.set_blas_threads(1):
        pytest.skip("this BLAS has no setter")
    try:
        assert 1 in [p["num_threads"] for p in found.threadpool_info() if p["user_api"] == "blas"]
    finally:
        blas_threads.set_blas_threads(before[0])
