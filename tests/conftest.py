"""Start of every test: a Hypothesis profile, a frozen heap after collection, a fixed seed and the default dtype."""

from __future__ import annotations

import gc
import os
import random
from collections.abc import Generator, Iterator

import numpy as np
import pytest
from hypothesis import settings

from ndgrad._src.arrays.dtypes import float64, get_default_dtype, set_default_dtype
from ndgrad._src.arrays.generator import manual_seed
from ndgrad._src.arrays.library import on_second_library
from ndgrad._src.core.modes import process
from tests import run_protocol
from tests.examples import thin_out

# No deadlines: the first call of an op also generates its code. In CI a run draws the same examples as the
# run before it, so that red means the change; the long profile goes looking for new ones.
settings.register_profile("short", max_examples=12, deadline=None, derandomize="CI" in os.environ)
settings.register_profile("long", max_examples=500, deadline=None, print_blob=True)
settings.load_profile("short")

# Most tests compare derivatives with differences, which needs double precision; those of torch's tensor class set its own default.
set_default_dtype(float64)

def pytest_configure(config: pytest.Config) -> None:
    run_protocol.register(config)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    thin_out(config, items)


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call() -> Generator[None, object, object]:
    """Skip a test that meets the documented error of a feature whose optional library is not installed."""
    try:
        return (yield)
    except Exception as error:
        if "[nd-install]" in str(error) and isinstance(error.__cause__, ModuleNotFoundError):
            pytest.skip(f"{error.__cause__.name} is not installed")
        raise


gc.disable()  # while thousands of tests are collected, of which nothing is garbage: a third of that time


def pytest_collection_finish() -> None:
    """Modules, torch among them, and thousands of tests stay to the end: `gc.collect()` in a test need not walk over them each time."""
    gc.enable()
    gc.set_threshold(20_000, 50, 100)  # a twentieth of the time of all tests is spent looking for garbage otherwise
    gc.collect()
    gc.freeze()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Neither need it walk over what the files before this one have left for good: generated code, caches, modules loaded late.

    By the middle of a run that is a tenth of a second for each call.
    """
    if nextitem is not None and nextitem.path != item.path:
        gc.collect()
        gc.freeze()


@pytest.fixture(autouse=True)
def fresh_global_state() -> Iterator[None]:
    """Each test draws the same random numbers whatever ran before, leaves the default dtype as it was, and no mode open."""
    random.seed(0)
    np.random.seed(0)
    manual_seed(0)
    dtype = get_default_dtype()
    yield
    set_default_dtype(dtype)
    if process.busy:
        gc.collect()  # a block that was interrupted holds itself, and a traceback the frames of blocks
    # with arrays of a second library about (tests/gpu), every call takes the general lane for good
    assert not (process.busy if on_second_library else process.busy - {"process"})
