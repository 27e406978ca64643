"""How many examples are tried: of a property, and of a family of cases that differ in little."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from hypothesis import settings

Case = TypeVar("Case")


def at_least(number: int) -> settings:
    """This many examples in a short run, and as many as any other property in a long one."""
    return settings(max_examples=max(number, settings.default.max_examples))


def in_a_long_run() -> bool:
    """Whether this is `make test-long`: its profile of Hypothesis is chosen before tests are collected."""
    return settings.default.max_examples > settings.get_profile("short").max_examples


def few(number: int, cases: Iterable[Case]) -> list[Case]:
    """The first cases of a family in a short run, and all of them in a long one."""
    return [*cases][: None if in_a_long_run() else number]
