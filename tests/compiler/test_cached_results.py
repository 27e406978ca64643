"""Compiled functions that call functions with `functools.lru_cache`: results, counts, recency and side effects of eager calls."""

from __future__ import annotations

import functools
from typing import Any

import pytest

import ndgrad
from ndgrad._src.compiler.capture.cached_results import can_look_up, look_up


def test_looking_into_a_cache_finds_results_and_changes_no_count() -> None:
    assert can_look_up()

    @functools.lru_cache(maxsize=2)
    def double(k: Any, *, power: int = 1) -> Any:
        return {k: k * 2} if power == 1 else object

    first = double("a")
    double("b", power=2)
    before = double.cache_info()
    assert look_up(double, ("a",), {}) is first
    assert look_up(double, ("b",), {"power": 2}) is object
    assert look_up(double, ("b",), {}) is look_up(double, ("c",), {}) is look_up(double, ("a",), {"power": 1})
    assert double.cache_info() == before
    double("d")  # `look_up` did not make "a" the most recent one
    assert look_up(double, ("a",), {}) is look_up(double, ("c",), {})


@pytest.mark.parametrize("maxsize", [1, 2, 128, None])
def test_counts_and_side_effects_of_a_cache_are_those_of_eager_calls(maxsize: int | None) -> None:
    def run(compile: Any) -> list[Any]:
        computed: list[int] = []

        @functools.lru_cache(maxsize=maxsize)
        def scale(k: int) -> float:
            computed.append(k)
            return k * 2.0

        def step(x: Any) -> Any:
            return x * scale(1) * scale(3)

        f, seen = compile(step), []
        for others in ([], [], [7], [], [8], [7, 7], [1], [9, 1, 3], []):
            for k in others:
                scale(k)
            seen.append((f(ndgrad.ones(2)).tolist(), scale.cache_info(), [*computed]))
        scale.cache_clear()
        for k in (5, 5, 5, 5, 6):
            scale(k)
        return [*seen, f(ndgrad.ones(2)).tolist(), scale.cache_info(), computed]

    assert run(ndgrad.compile) == run(lambda f: f)


def test_cached_tensors_are_inputs_of_a_program() -> None:
    @functools.lru_cache(maxsize=2)
    def mask(n: int, dtype: Any) -> Any:
        return ndgrad.tril(ndgrad.ones(n, n, dtype=dtype))

    def step(x: Any) -> Any:
        return x @ mask(len(x), x.dtype)

    f = ndgrad.compile(step)
    x = ndgrad.arange(3.0)
    for _ in range(4):
        assert f(x).tolist() == [3.0, 3.0, 2.0]
    assert f.traces == 2
    assert f.entries[-1].specialisation is not None
    assert mask.cache_info()[:2] == (3, 1)
    mask(3, x.dtype).mul_(2.0)
    assert f(x).tolist() == [6.0, 6.0, 4.0]
    mask.cache_clear()
    assert f(x).tolist() == [3.0, 3.0, 2.0]


def test_changed_contents_of_a_cached_object_are_seen() -> None:
    @functools.cache
    def config() -> dict[str, float]:
        return {"scale": 2.0}

    f = ndgrad.compile(lambda x: x * config()["scale"])
    x = ndgrad.ones(())
    found = []
    for k in (2.0, 3.0, 4.0, 5.0):
        config()["scale"] = k
        found += [f(x).item(), f(x).item()]
    config.cache_clear()
    assert [*found, f(x).item(), f(x).item()] == [2, 2, 3, 3, 4, 4, 5, 5, 2, 2]


def test_a_cache_that_no_stand_in_can_replace_runs_eagerly() -> None:
    @functools.cache
    def scale(k: int) -> float:
        return k * 2.0

    table = (scale,)
    f = ndgrad.compile(lambda x: x * table[0](2))
    assert [f(ndgrad.ones(())).item() for _ in range(3)] == [4.0] * 3
    assert scale.cache_info()[:2] == (2, 1)
    assert "caches its results" in str(ndgrad.compiler.explain(f, ndgrad.ones(())))


def test_a_call_that_fills_a_cache_is_no_error_of_fullgraph() -> None:
    computed: list[int] = []

    @functools.lru_cache
    def scale(k: int) -> float:
        computed.append(k)
        return k * 2.0

    f = ndgrad.compile(lambda x, k: x * scale(k), fullgraph=True)
    x = ndgrad.ones(2, requires_grad=True)
    for k in (1, 2, 1, 2, 3):
        f(x, k).sum().backward()
    assert x.grad.tolist() == [18.0, 18.0]
    assert computed == [1, 2, 3]
    assert f.traces == 5  # two of them have a program


def test_a_cache_that_keeps_nothing_is_an_error_of_fullgraph() -> None:
    @functools.lru_cache(maxsize=0)
    def scale(k: int) -> float:
        return k * 2.0

    f = ndgrad.compile(lambda x: x * scale(3), fullgraph=True)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="caches its results"):
            f(ndgrad.ones(2))
