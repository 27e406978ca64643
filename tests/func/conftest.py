"""What holds for every test of transforms: afterwards, whatever happened, no level, mode or pass is open any more."""

from __future__ import annotations

import gc

import pytest

from ndgrad.autograd.modes import process, thread


@pytest.fixture(autouse=True)
def nothing_is_left_behind():
    before = len(process.busy), thread.transforms
    yield
    gc.collect() if len(process.busy) > before[0] else None  # an interrupted block holds itself
    assert len(process.busy) <= before[0]  # one that an earlier test left may be gone
    assert thread.transforms == before[1]
    assert (thread.levels, thread.dual_levels, thread.dual_stack, thread.grad_enabled, thread.task) == ((), 0, (), True, None)
