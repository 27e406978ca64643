"""Check after every test of transforms that no level, mode or pass is still open."""

from __future__ import annotations

import pytest

from ndgrad._src.core.modes import process, thread


@pytest.fixture(autouse=True)
def nothing_is_left_behind():
    assert not process.busy
    yield
    assert not process.busy
    assert not process.open
    assert thread.transforms == 0
    assert (thread.levels, thread.dual_levels, thread.dual_stack, thread.grad_enabled, thread.task) == ((), 0, (), True, None)
