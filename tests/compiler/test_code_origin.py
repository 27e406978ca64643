"""Detection of code that reads external state, from the modules that a function names, without loading anything."""

from __future__ import annotations

import time
import types

import pytest

from ndgrad._src.compiler.capture.code_origin import check_pure
from ndgrad._src.compiler.capture.graph_break import GraphBreak


def module(name: str, **held: object) -> types.ModuleType:
    made = types.ModuleType(name)
    vars(made).update(held)
    return made


def test_a_library_is_not_asked_for_names_that_it_has_not_loaded():
    def load(name: str) -> object:
        raise AssertionError(f"{name} was loaded")

    check_pure({"np": module("numpy", __getattr__=load)}, {"np", "sin", "x"}, "f")
    with pytest.raises(GraphBreak, match="uses perf_counter"):
        check_pure({"clock": time}, {"clock", "perf_counter"}, "f")


def test_the_clock_is_found_behind_a_module_of_the_users_that_loads_it_late():
    mine = module("mine", __getattr__=lambda name: getattr(time, name))
    check_pure({"mine": mine}, {"mine", "ctime"}, "f")
    with pytest.raises(GraphBreak, match="uses monotonic"):
        check_pure({"mine": mine}, {"mine", "monotonic"}, "f")
