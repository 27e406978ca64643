"""Freed memory that the process keeps: the setting, its errors, and its effect on page faults."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

import ndgrad
from ndgrad._src.arrays import retained_memory

glibc = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc has this setting")


@pytest.mark.parametrize("wrong", [-1, 1.5, True, 1 << 31, "1"])
def test_a_size_that_is_none_is_refused_and_changes_nothing(wrong: object) -> None:
    before = ndgrad.get_retained_memory()
    with pytest.raises(ValueError, match="number of bytes"):
        ndgrad.set_retained_memory(wrong)
    assert ndgrad.get_retained_memory() == before


@glibc
def test_the_setting_is_what_was_asked_for() -> None:
    try:
        assert ndgrad.set_retained_memory(64 << 20)
        assert ndgrad.get_retained_memory() == 64 << 20
    finally:
        ndgrad.set_retained_memory(retained_memory.DEFAULT)


@glibc
def test_an_optimizer_leaves_alone_what_was_chosen() -> None:
    try:
        assert ndgrad.set_retained_memory(64 << 20)
        ndgrad.optim.SGD([ndgrad.ones(1, requires_grad=True)], lr=0.1)
        assert ndgrad.get_retained_memory() == 64 << 20
    finally:
        ndgrad.set_retained_memory(retained_memory.DEFAULT)


_FAULTS = """
import resource, numpy, ndgrad
assert ndgrad.get_retained_memory() == 0
ndgrad.optim.SGD([ndgrad.ones(1, requires_grad=True)], lr=0.1)
def step():
    a = [ndgrad.ones(1 << 20) for _ in range(8)]
for _ in range(3): step()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(5): step()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before, ndgrad.get_retained_memory())
"""


def _run(**environment: str) -> tuple[int, int]:
    import os

    path = os.pathsep.join(sys.path)
    done = subprocess.run(
        [sys.executable, "-c", _FAULTS], env={**os.environ, "PYTHONPATH": path, **environment}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    faults, retained = done.stdout.split()
    return int(faults), int(retained)


@glibc
def test_after_an_optimizer_is_made_arrays_made_again_and_again_need_no_new_pages() -> None:
    kept, retained = _run()
    fresh, none = _run(NDGRAD_RETAINED_MEMORY="0", MALLOC_TRIM_THRESHOLD_="131072")
    assert retained == retained_memory.DEFAULT
    assert none == 0
    assert kept < 100 < fresh


def test_a_wish_that_is_no_number_is_refused_by_the_first_optimizer() -> None:
    with pytest.raises(AssertionError, match="no number of bytes"):
        _run(NDGRAD_RETAINED_MEMORY="plenty")
