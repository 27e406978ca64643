"""Objects that an abandoned trace leaves behind: their finalizers must not change the state that was restored."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import ndgrad

depth = [0]
kept: list[Any] = []


@contextlib.contextmanager
def level() -> Iterator[int]:
    depth[0] += 1
    try:
        yield depth[0]
    finally:
        depth[0] -= 1


def levels() -> Iterator[int]:
    depth[0] += 1
    try:
        yield 1
        yield 2
    finally:
        depth[0] -= 1


class Level:
    def __init__(self) -> None:
        depth[0] += 1

    def __del__(self) -> None:
        depth[0] -= 1


def in_an_exit_stack(x: Any) -> Any:
    with contextlib.ExitStack() as stack:
        return x * stack.enter_context(level())


def with_an_exit_stack_closed(x: Any) -> Any:
    stack = contextlib.ExitStack()
    y = x * stack.enter_context(level())
    stack.close()
    return y


def returning_a_generator(x: Any) -> Any:
    held = levels()
    return x * next(held) * depth[0], held


def keeping_a_generator(x: Any) -> Any:
    held = levels()
    kept.append(held)
    return x * next(held) * depth[0]


def returning_an_object(x: Any) -> Any:
    held = Level()
    return x * depth[0], held


def keeping_an_object(x: Any) -> Any:
    held = Level()
    kept.append(held)
    return x * depth[0]


def printing_with_an_object(x: Any) -> Any:
    held = Level()
    print(end="")
    return x * (depth[0] if held else 0)


@pytest.mark.parametrize(
    "f",
    [
        in_an_exit_stack, with_an_exit_stack_closed, returning_a_generator, keeping_a_generator, returning_an_object,
        keeping_an_object, printing_with_an_object,
    ],
)  # fmt: skip
def test_finalizers_of_an_abandoned_trace_leave_the_state_of_eager_calls(f: Callable[[Any], Any]) -> None:
    def three_calls(function: Callable[[Any], Any]) -> list[tuple[float, int, int]]:
        kept.clear()
        gc.collect()
        depth[0] = 0
        found = []
        for _ in range(3):
            result = function(ndgrad.ones(2))
            y = result[0] if isinstance(result, tuple) else result
            del result
            found.append((float(y[0]), depth[0], len(kept)))
        return found

    expected = three_calls(f)
    compiled = ndgrad.compile(f)
    found = three_calls(compiled)
    kept.clear()
    del compiled
    assert found == expected


def test_frames_of_an_exception_that_the_caller_handles_keep_their_variables() -> None:
    def raising() -> None:
        value = "kept"
        raise ValueError(value)

    f = ndgrad.compile(lambda x: x if print(end="") is None else -x)
    with contextlib.ExitStack() as stack:
        found = stack.enter_context(pytest.raises(ValueError, match="kept"))
        try:
            raising()
        except ValueError:
            f(ndgrad.ones(2))
            raise
    last = found.tb
    while last.tb_next is not None:
        last = last.tb_next
    assert last.tb_frame.f_locals == {"value": "kept"}
