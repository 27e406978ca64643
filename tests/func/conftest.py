"""What holds for every test of transforms: afterwards, whatever happened, no level, mode or pass is open any more."""

from __future__ import annotations

import pytest

from ndgrad.autograd.modes import process, thread


@pytest.fixture(autouse=True)
def nothing_is_left_behind():
    open_before, transforms = set(process.busy), thread.transforms
    yield
    assert not process.busy - open_before
    assert thread.transforms == transforms
    assert (thread.levels, thread.dual_levels, thread.dual_stack, thread.grad_enabled, thread.task) == ((), 0, (), True, None)
